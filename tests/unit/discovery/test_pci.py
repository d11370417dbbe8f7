"""PCI functions, and GPUs, which are some of them."""

import pytest

from device_plugin.config import Gpu, Selector
from device_plugin.discovery import gpu

CARDS = """
iommu DMA-FQ
pci0000:00 numa=0
  00:01.0 8086:460d 060400 pcieport
    01:00.0 10de:1eb8 030200 nvidia sub=10de:12a2 group=7
      drm/card0
      renderD128
      nvidia1
    01:00.1 10de:10f8 040300 snd_hda_intel group=7
      sound/card0
        controlC0
  00:02.0 8086:4680 030000 i915
    drm/card1
      drm/card1-DP-1
        i2c-7
          i2c-dev/i2c-7
    renderD129
  00:0b.0 8086:7d1d 120000 intel_vpu
    accel0
  00:14.0 8086:a36d 0c0330 xhci_hcd
    usb1 480
      1-1 0403:6001
        1.0 ff/ff/ff ftdi_sio
          ttyUSB0
pci0000:80 numa=1
  81:00.0 15b3:1017 020000 mlx5_core sriov=4
  81:00.1 15b3:1018 020000 mlx5_core physfn=81:00.0
  82:00.0 1002:744c 030000 amdgpu
    drm/card2
    renderD130
  83:00.0 1002:74a1 120000 amdgpu
    drm/card3
    renderD131
kfd/kfd dev=235:0
"""


def addresses(discovered):
    return [one.device.attributes["address"] for one in discovered.candidates]


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ('vendor: "10de"', ["0000:01:00.0", "0000:01:00.1"]),
        ('vendor: "10de", class: "03"', ["0000:01:00.0"]),
        ('class: "0302"', ["0000:01:00.0"]),
        ('class: "030200"', ["0000:01:00.0"]),
        ('class: "03??00"', ["0000:00:02.0", "0000:01:00.0", "0000:82:00.0"]),
        ('class: "*30"', ["0000:00:14.0"]),
        ('device: "1eb?"', ["0000:01:00.0"]),
        ('subsystem_vendor: "10de", subsystem_device: "12a2"', ["0000:01:00.0"]),
        ('driver: "*_core"', ["0000:81:00.0", "0000:81:00.1"]),
        ('address: "0000:8[12]:*.0"', ["0000:81:00.0", "0000:82:00.0"]),
        ('vendor: "10d"', None),
    ],
)
def test_selectors(boot, find, selector, found):
    machine = boot(CARDS)
    if found is None:
        with pytest.raises(AssertionError):
            find(machine, f"pci: {{{selector}}}")
    else:
        assert addresses(find(machine, f"pci: {{{selector}}}")) == found


def test_what_a_function_says(boot, find):
    (one,) = find(boot(CARDS), 'pci: {address: "0000:01:00.0"}').candidates
    assert one.device.id == "pci-0000-01-00-0"
    assert one.device.numa_nodes == (0,)
    assert one.device.attributes == {
        "vendor": "10de",
        "device": "1eb8",
        "class": "030200",
        "subsystem_vendor": "10de",
        "subsystem_device": "12a2",
        "driver": "nvidia",
        "address": "0000:01:00.0",
        "iommu_group": "7",
        "pcie_root": "pci0000:00",
        "numa": 0,
    }


def test_virtual_functions_name_their_physical_one(boot, find):
    of_port = "where: [{key: physical_function, operator: Exists}]"
    (one,) = find(boot(CARDS), f'pci: {{vendor: "15b3"}}, {of_port}').candidates
    assert one.device.attributes["physical_function"] == "0000:81:00.0"


def test_nodes_are_those_of_the_function_only(boot, find, paths):
    by_address = {
        one.device.attributes["address"]: paths(one)
        for one in find(boot(CARDS), 'pci: {address: "*"}').candidates
    }
    assert by_address == {
        "0000:00:01.0": [],  # what is behind a bridge is its own
        "0000:00:02.0": ["/dev/dri/card1", "/dev/i2c-7", "/dev/dri/renderD129"],
        "0000:00:0b.0": ["/dev/accel/accel0"],
        "0000:00:14.0": [],  # as is what is plugged into a USB controller
        "0000:01:00.0": ["/dev/nvidia1", "/dev/dri/card0", "/dev/dri/renderD128"],
        "0000:01:00.1": ["/dev/snd/controlC0"],
        "0000:81:00.0": [],
        "0000:81:00.1": [],
        "0000:82:00.0": ["/dev/dri/card2", "/dev/dri/renderD130"],
        "0000:83:00.0": ["/dev/dri/card3", "/dev/dri/renderD131"],
    }


def test_links_are_handed_out_and_names_stay_inside(boot, find):
    (one,) = find(boot(CARDS), 'pci: {address: "0000:82:00.0"}').candidates
    assert [(node.host_path, node.to) for node in one.device.nodes] == [
        ("/dev/dri/by-path/pci-0000:82:00.0-card", "/dev/dri/card2"),
        ("/dev/dri/by-path/pci-0000:82:00.0-render", "/dev/dri/renderD130"),
    ]


@pytest.mark.parametrize("selector", ['pci: {class: "0300"}', "gpu: {vendor: intel}"])
def test_a_node_is_chosen_by_its_name(boot, find, selector):
    """Who only decodes video needs no more of a GPU than its render node."""
    one = find(boot(CARDS), f"{selector}, nodes: [{{subsystem: drm, name: 'renderD*'}}]")
    (candidate,) = [c for c in one.candidates if c.device.id == "pci-0000-00-02-0"]
    assert [(node.host_path, node.to) for node in candidate.device.nodes] == [
        ("/dev/dri/by-path/pci-0000:00:02.0-render", "/dev/dri/renderD129"),
    ]


def test_a_node_of_that_name_that_is_missing_is_named(boot, find):
    selector = "pci: {address: \"0000:00:0b.0\"}, nodes: [{subsystem: accel, name: 'renderD*'}]"
    (one,) = find(boot(CARDS), selector).candidates
    assert one.problem == "it has no accel node called renderD*"


def test_a_function_without_a_driver_has_no_node(boot, find):
    machine = boot(CARDS)
    machine.bind("82:00.0")
    selector = 'pci: {address: "0000:82:00.0"}, nodes: [{subsystem: drm}]'
    (one,) = find(machine, selector).candidates
    assert one.problem == "it has no drm node: no driver is bound to it"
    assert "driver" not in one.device.attributes


@pytest.mark.parametrize(
    ("vendor", "expected"),
    [
        (
            "amd",
            {
                "pci-0000-82-00-0": ["/dev/dri/card2", "/dev/dri/renderD130", "/dev/kfd"],
                "pci-0000-83-00-0": ["/dev/dri/card3", "/dev/dri/renderD131", "/dev/kfd"],
            },
        ),
        ("intel", {"pci-0000-00-02-0": ["/dev/dri/card1", "/dev/dri/renderD129"]}),
        (
            "nvidia",
            {
                "pci-0000-01-00-0": [
                    *("/dev/nvidia1", "/dev/dri/card0", "/dev/dri/renderD128"),
                    *("/dev/nvidiactl", "/dev/nvidia-uvm"),
                    *("/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"),
                ]
            },
        ),
    ],
)
def test_gpus(boot, find, paths, vendor, expected):
    found = find(boot(CARDS), f"gpu: {{vendor: {vendor}}}")
    assert [one.problem for one in found.candidates] == [""] * len(expected)
    assert {one.device.id: paths(one) for one in found.candidates} == expected
    assert found.notes == []


def test_control_nodes_belong_to_no_device(boot, find):
    first, second = find(boot(CARDS), "gpu: {vendor: amd}").candidates
    assert not set(first.owned) & set(second.owned)


def test_what_a_gpu_selector_says_goes_instead_and_on_top(boot, find, paths):
    found = find(
        boot(CARDS), "gpu: {vendor: intel}, nodes: [{subsystem: i2c-dev}], with: [/dev/fuse]"
    )
    assert [paths(one) for one in found.candidates] == [["/dev/i2c-7", "/dev/fuse"]]


def test_no_gpu_is_said_once(boot, find):
    assert find(boot("pci0000:00\n"), "gpu: {vendor: amd}").notes == [
        "gpu: {vendor: amd} matches nothing"
    ]


def test_which_node_an_nvidia_gpu_has_only_its_driver_knows(boot, find):
    machine = boot(CARDS)
    machine.local("/proc/driver/nvidia/gpus/0000:01:00.0/information").unlink()
    (one,) = find(machine, "gpu: {vendor: nvidia}").candidates
    assert one.problem == (
        "it has no nvidia node: /proc/driver/nvidia/gpus/0000:01:00.0/information does not exist"
    )
    machine.local("/proc/driver/nvidia/gpus/0000:01:00.0/information").write_text("Model: x\n")
    (one,) = find(machine, "gpu: {vendor: nvidia}").candidates
    assert one.problem.endswith("information names no minor")


def test_what_gpu_stands_for_can_be_written_out(boot, find):
    """docs/config.md says what; here it is the same."""
    machine = boot(CARDS)
    written = find(
        machine,
        'pci: {vendor: "1002", class: "03"}, nodes: [{subsystem: drm}],'
        " with: [{path: /dev/kfd, optional: true}]",
        'pci: {vendor: "1002", class: "12"}, nodes: [{subsystem: drm}],'
        " with: [{path: /dev/kfd, optional: true}]",
    )
    assert written.candidates == find(machine, "gpu: {vendor: amd}").candidates
    assert len(gpu.expanded(Selector(gpu=Gpu("amd")), Gpu("amd"))) == 2
