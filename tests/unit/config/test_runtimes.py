"""What a resource cannot have under the runtimes that it names: warnings, to the letter."""

import pytest

from device_plugin.config import check

KATA = "only block devices and VFIO groups reach its virtual machine"
BIND = "bind it to vfio-pci, and select it by `vfio`"
BY_NAME = f"by its name it is no block device, and {KATA}"
NO_DRIVER = "the sandbox has no driver for it, so it cannot be opened"
TPU = "gVisor takes it for a TPU, and ends with all containers of the Pod"
ALL = ["runc", "crun", "runsc", "kata"]


def said(devices: str, *runtimes: str, more: str = "") -> list[str]:
    text = (
        "version: 1\nresources:\n- name: example.com/a\n"
        f"  runtimes: [{', '.join(runtimes)}]\n  devices: [{devices}]\n{more}"
    )
    checked = check(text.encode(), "c.yaml")
    assert checked.problems == ()
    assert checked.config is not None
    assert {doubt.resource for doubt in checked.doubts} <= {"example.com/a"}
    return [str(doubt).removeprefix("c.yaml:") for doubt in checked.doubts]


def test_a_doubt_is_no_problem_and_says_where():
    assert said("{path: /dev/ttyUSB0}", "kata", "runsc") == [
        f"5:20: warning: `/dev/ttyUSB0` does not work with kata: {BY_NAME}",
        f"5:20: warning: `/dev/ttyUSB0` does not work with runsc: {NO_DRIVER}",
    ]


@pytest.mark.parametrize("runtimes", [["runc"], ["crun"], ["runc", "crun"], []])
def test_what_shares_the_hosts_kernel_has_everything(runtimes):
    devices = '{path: /dev/ttyUSB0}, {usb: {vendor: "10c4"}}, {vfio: {vendor: "10de"}}'
    mount = "  container: {mounts: [{host_path: /dev/shm, path: /x}]}\n"
    assert said(devices, *runtimes, more=mount) == []


@pytest.mark.parametrize(
    "path",
    [
        *("/dev/sda", "/dev/sd[b-d]", "/dev/vd{n}", "/dev/nvme0n1", "/dev/nvme[0-9]n1"),
        *("/dev/nvme*n1", "/dev/loop7", "/dev/zram*", "/dev/dm-0", "/dev/mapper/vg-lv"),
        *("/dev/disk/by-id/wwn-*", "/dev/md127", "/dev/mmcblk0p1", "/dev/md/data"),
        *("/dev/nvme{n}n1", "/dev/nvme?n1", "/dev/nvme[0-9]*n1", "/dev/dasda", "/dev/zd0"),
        *("/dev/ublkb0", "/dev/fd0", "/dev/mtdblock0", "/dev/cciss/c0d0", "/dev/mapper/*"),
        "/dev/zvol/pool/a",
    ],
)
def test_kata_plugs_block_devices_into_its_machine_and_gvisor_has_none(path):
    assert said(f'{{path: "{path}"}}', "kata") == []
    assert said(f'{{path: "{path}"}}', "runsc")


@pytest.mark.parametrize(
    "path",
    [
        *("/dev/loop-control", "/dev/nvme0", "/dev/kvm", "/dev/snd", "/dev/video*", "/dev/dri/"),
        *("/dev/mapper/control", "/dev/mmcblk0rpmb"),
    ],
)
def test_kata_has_no_other_device_of_the_host(path):
    assert said(f'{{path: "{path}"}}', "kata") == [
        f"5:20: warning: `{path}` does not work with kata: {BY_NAME}"
    ]


@pytest.mark.parametrize("path", ["/dev/fuse", "/dev/net/tun", "/dev/null", "/dev/urandom"])
def test_a_sandbox_has_some_of_its_own(path):
    assert said(f"{{path: {path}, replicas: 9}}", *ALL) == []


@pytest.mark.parametrize("path", ["/dev/{k}random", "/dev/net/{name}", "/dev/f[u]se", "/dev/net"])
def test_a_pattern_may_mean_what_a_sandbox_has(path):
    assert said(f'{{path: "{path}"}}', *ALL) == []


@pytest.mark.parametrize(
    "path", ["/dev/{kind}random/x", "/dev/net/x*", "/dev/[!f]use", "/dev/tty*", "/dev/*"]
)
def test_a_pattern_that_only_looks_so_does_not(path):
    assert len(said(f'{{path: "{path}"}}', "kata", "runsc")) == 2


@pytest.mark.parametrize("path", ["/dev/nvidia0", "/dev/nvidiactl", "/dev/accel[0-9]"])
def test_gvisor_passes_on_calls_to_some_drivers(path):
    assert said(f'{{path: "{path}"}}', "runsc") == []
    assert said(f'{{path: "{path}"}}', "kata")


@pytest.mark.parametrize(
    ("devices", "place"),
    [
        ("{path: /dev/nvidia-modeset}", "5:20"),
        ("{path: /dev/nvidia0, to: /dev/gpu}", "5:20"),
        ("{gpu: {vendor: nvidia}, nodes: [{subsystem: drm}]}", "5:57"),
        ('{pci: {vendor: "10de"}, nodes: [{subsystem: nvidia}, {subsystem: sound}]}', "5:78"),
    ],
)
def test_gvisor_knows_its_devices_by_their_name_in_the_container(devices, place):
    (line,) = said(devices, "runsc")
    assert line.startswith(f"{place}: warning: ")
    assert line.endswith(NO_DRIVER)


@pytest.mark.parametrize("to", ["/dev/nvidia0", "/dev/nvidia{index}"])
def test_a_renamed_one_may_be_right(to):
    more = "  per_container: {max: 1}\n"
    assert said(f'{{path: /dev/gpu0, to: "{to}"}}', "runsc", more=more) == []


def test_vfio_groups_are_for_kata():
    devices = '{vfio: {vendor: "10de"}, nodes: [{subsystem: vfio}]}, {path: "/dev/vfio/{group}"}'
    assert said(devices, "kata") == []
    assert said(devices.replace("m: vfio", "m: vfio-dev"), "kata") == []
    assert said(devices, "runsc") == [
        f"5:20: warning: `vfio` does not work with runsc: {TPU}",
        f"5:74: warning: `/dev/vfio/{{group}}` does not work with runsc: {TPU}",
    ]
    assert said('{vfio: {vendor: "1ae0"}, nodes: [{subsystem: vfio}]}', *ALL) == []
    assert said("{path: /dev/iommu}", "kata") == []
    assert said("{path: /dev/iommu}", "runsc") == [
        f"5:20: warning: `/dev/iommu` does not work with runsc: {NO_DRIVER}"
    ]


@pytest.mark.parametrize(
    ("nodes", "which"),
    [
        ("", "without `nodes`"),
        (", nodes: [{subsystem: vfio}, {subsystem: vfio-dev}]", "with both `nodes`"),
    ],
)
def test_kata_takes_a_group_and_its_functions_for_different_devices(nodes, which):
    """By default both are handed over, where the kernel has both."""
    (line,) = said(f'{{vfio: {{vendor: "10de"}}{nodes}}}', "kata")
    assert line == (
        f"5:20: warning: `vfio` {which} does not work with kata: it would add each function twice,"
        " by its group and by itself; choose one: `nodes: [{subsystem: vfio}]`"
    )


@pytest.mark.parametrize(
    "path", ["/dev/accel/accel0", "/dev/vfio/noiommu-0", "/dev/vfio/", "/dev/vfio/devices/vfio0"]
)
def test_gvisor_takes_for_a_tpu_what_begins_like_one(path):
    assert said(f"{{path: {path}}}", "runsc")[0].endswith(TPU)


def test_hardware_by_its_nodes():
    tty = '{usb: {vendor: "10c4"}, nodes: [{subsystem: tty}]}'
    assert said(tty, "kata") == [f"5:57: warning: a node of `tty` does not work with kata: {KATA}"]
    assert said(tty, "runsc") == [f"5:19: warning: `usb` does not work with runsc: {NO_DRIVER}"]
    disk = '{usb: {class: "08"}, nodes: [{subsystem: block}]}'
    assert said(disk, "kata") == []


@pytest.mark.parametrize("kind", ["usb", "pci"])
def test_hardware_for_kata_says_that_it_means_block_devices(kind):
    """All nodes of it are handed over else, and a stick or a card seldom has no other."""
    name_them = f"{KATA}; name them: `nodes: [{{subsystem: block}}]`"
    assert said(f'{{{kind}: {{vendor: "10c4"}}}}', "kata") == [
        f"5:19: warning: `{kind}` without `nodes` does not work with kata: {name_them}"
    ]


@pytest.mark.parametrize(
    ("vendor", "works"), [("10de", True), ("1ae0", True), ("8086", False), ("10d?", False)]
)
def test_gvisor_has_pci_functions_of_few(vendor, works):
    expected = [] if works else [f"5:19: warning: `pci` does not work with runsc: {NO_DRIVER}"]
    assert said(f'{{pci: {{vendor: "{vendor}"}}}}', "runsc") == expected


def test_gpus():
    assert said("{gpu: {vendor: nvidia}}", "runsc") == []
    assert said("{gpu: {vendor: amd}}", "runsc") == [
        f"5:19: warning: `gpu` of amd does not work with runsc: {NO_DRIVER}"
    ]
    assert said("{gpu: {vendor: nvidia}}", "kata") == [
        f"5:19: warning: `gpu` does not work with kata: {KATA}; {BIND}"
    ]


def test_companions_are_asked_once_the_device_itself_is_good():
    assert said("{path: /dev/sda, with: [/dev/sg0]}", "kata") == [
        f"5:37: warning: `/dev/sg0` does not work with kata: {BY_NAME}"
    ]
    assert len(said("{path: /dev/snd/a, with: [/dev/sg0, {path: /dev/sg1}]}", "kata")) == 1
    assert said("{path: /dev/sda, with: [{path: /dev/sg1}]}", "kata")[0].startswith("5:44: ")


@pytest.mark.parametrize("devices", ["{virtual: {count: 3}}", "{exec: {command: [/list]}}"])
def test_of_what_only_the_node_knows_nothing_is_said(devices):
    assert said(devices, *ALL) == []


def test_annotations_that_are_read_of_the_pod():
    of_the_pod = "which reads it of the Pod; write it there"
    keys = "io.katacontainers.config.agent.x: a, dev.gvisor.spec.mount.x.share: b, a.b/c: d"
    assert said(
        "{virtual: {count: 1}}", *ALL, more=f"  container: {{annotations: {{{keys}}}}}\n"
    ) == [
        f"6:29: warning: `io.katacontainers.config.agent.x` does nothing with kata, {of_the_pod}",
        f"6:66: warning: `dev.gvisor.spec.mount.x.share` does nothing with runsc, {of_the_pod}",
    ]


@pytest.mark.parametrize(
    ("path", "kata", "runsc"),
    [
        *((path, True, False) for path in ("/dev", "/dev/shm", "/proc/driver", "/sys")),
        *((path, True, True) for path in ("/dev/kvm", "/dev/input")),
        ("/dev/fuse", True, False),
        ("/dev/sdb", False, True),
        *((path, False, False) for path in ("/opt", "/device", "/run/x.sock")),
    ],
)
def test_mounts_of_what_is_not_the_hosts(path, kata, runsc):
    more = f"  container: {{mounts: [{{host_path: {path}, path: /x}}]}}\n"
    own = f"6:36: warning: `{path}` is the virtual machine's own with kata, not the host's"
    shut = (
        f"6:36: warning: `{path}` is not opened through a mount with runsc, if it is a device node"
    )
    expected = [own] * kata + [shut] * runsc
    assert said("{virtual: {count: 1}}", "runc", "kata", "runsc", more=more) == expected


def test_a_runtime_that_is_named_twice_warns_once():
    assert len(said("{path: /dev/kvm}", "kata", "kata")) == 1


def test_of_a_resource_with_mistakes_nothing_is_said():
    one = "{name: example.com/a, runtimes: [kata, x], devices: [{path: /dev/kvm}]}"
    checked = check(f"version: 1\nresources: [{one}]".encode(), "c.yaml")
    assert checked.problems
    assert checked.doubts == ()
