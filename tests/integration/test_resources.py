"""From the config to what a container runtime would create: all kinds in one process."""

import pytest

from device_plugin.testing import Container, MountConfig, Pod

BY_ID = "/dev/serial/by-id/usb-SIMCOM_1234-if00"


@pytest.fixture(scope="module")
def place(shared_node):
    node = shared_node
    for folder in ("/dev/serial/by-id", "/dev/snd", "/opt/disk0", "/opt/disk1"):
        node.at(folder).mkdir(parents=True)
    for name in ("ttyUSB0", "ttyUSB1", "fuse", "disk2", "disk10", "timer"):
        node.add(f"/dev/{name}")
    for name in ("controlC0", "pcmC0D0c", "controlC1", "pcmC1D0c"):
        node.add(f"/dev/snd/{name}")
    node.add("/dev/cam0")
    node.at(BY_ID).symlink_to("../../ttyUSB0")
    kubelet = node.kubelet()
    daemon = node.start(_resources(node))
    return node, kubelet, daemon


def _resources(node):
    path = node.path
    return {
        "modem": {
            "devices": [{"path": path("/dev/serial/by-id/usb-SIMCOM_*"), "to": "/dev/modem"}],
            "per_container": {"max": 1},
            "container": {"env": {"PORT": "{path}", "PORT_OUTSIDE": "{host_path}"}},
        },
        "fuse": [{"path": path("/dev/fuse"), "replicas": 8, "permissions": "rwm"}],
        "licence": {
            "devices": [{"virtual": {"count": 2, "attributes": {"edition": "full", "seats": 5}}}],
            "container": {"env": {"EDITION": "{attribute.edition}-{attribute.seats}"}},
        },
        "disk": {
            "devices": [{"path": path("/dev/disk{n}"), "to": "/dev/data{index}"}],
            "container": {
                "env": {"DISKS": "{n}", "DISK_{index}": "{path}", "DISK_MODE": "raw"},
                "mounts": [
                    {"host_path": path("/opt/disk{index}"), "path": "/mnt/{n}", "read_only": True}
                ],
                "annotations": {"example.com/disks": "{{{n}}}"},
            },
        },
        "sound": [{"path": path("/dev/snd/")}],
        "camera": [
            {
                "path": path("/dev/cam{n}"),
                "with": [
                    {"path": path("/dev/timer"), "permissions": "r", "to": "/dev/clock"},
                    {"path": path("/dev/light{n}"), "optional": True},
                ],
            }
        ],
    }


def nodes(created):
    """What stands where in the container."""
    return {device.container_path: device.host_path for device in created.devices}


def test_all_are_registered_and_ready(place):
    _, kubelet, daemon = place
    counts = {"modem": 1, "fuse": 8, "licence": 2, "disk": 2, "sound": 1, "camera": 1}
    for name, count in counts.items():
        kubelet.healthy(f"example.com/{name}", count)
    assert daemon.wait_page("/readyz", 200) == "ok\n"
    ids = [id_ for name in counts for id_ in kubelet.devices(f"example.com/{name}")]
    assert len(set(ids)) == len(ids), "unique over all resources"


def test_a_link_by_id_is_the_identity_whatever_it_leads_to(place):
    node, kubelet, _ = place
    (id_,) = kubelet.healthy("example.com/modem")
    pod, created = kubelet.run("example.com/modem")
    assert nodes(created) == {"/dev/modem": node.path(BY_ID)}
    assert created.envs == {"PORT": "/dev/modem", "PORT_OUTSIDE": node.path(BY_ID)}
    first = created.devices[0].real_path
    node.at(BY_ID).unlink()
    node.at("/dev/ttyUSB0").unlink()
    kubelet.until("example.com/modem", {id_: "Unhealthy"})
    node.at(BY_ID).symlink_to("../../ttyUSB1")
    kubelet.until("example.com/modem", {id_: "Healthy"})
    created = kubelet.restart_container(pod, "main")
    assert nodes(created) == {"/dev/modem": node.path(BY_ID)}
    assert created.devices[0].real_path != first, "the restarted container has the new one"


def test_replicas_are_one_device_and_one_node(place):
    node, kubelet, _ = place
    kubelet.healthy("example.com/fuse", 8)
    first, created = kubelet.run("example.com/fuse", 2, name="two")
    assert nodes(created) == {node.path("/dev/fuse"): node.path("/dev/fuse")}
    assert created.devices[0].permissions == "rwm"
    second, _ = kubelet.run("example.com/fuse", name="one")
    ids = [kubelet.allocated(pod, "main", "example.com/fuse") for pod in (first, second)]
    assert ids[0].isdisjoint(ids[1])


def test_virtual_devices_are_env_only(place):
    _, kubelet, _ = place
    kubelet.healthy("example.com/licence", 2)
    _, created = kubelet.run("example.com/licence", 2)
    assert (created.devices, created.mounts) == ((), ())
    assert created.envs == {"EDITION": "full-5,full-5"}


def test_several_devices_stand_in_natural_order(place):
    node, kubelet, _ = place
    kubelet.healthy("example.com/disk", 2)
    pod = kubelet.admit(Pod("disks", [Container("main", {"example.com/disk": 2})]))
    created = kubelet.create_container(pod, "main")
    assert nodes(created) == {
        "/dev/data0": node.path("/dev/disk2"),
        "/dev/data1": node.path("/dev/disk10"),
    }
    assert created.envs == {
        "DISKS": "2,10",
        "DISK_0": "/dev/data0",
        "DISK_1": "/dev/data1",
        "DISK_MODE": "raw",
    }
    assert created.annotations == {"example.com/disks": "{2},{10}"}
    assert created.mounts == (
        MountConfig("/mnt/2", node.path("/opt/disk0"), read_only=True),
        MountConfig("/mnt/10", node.path("/opt/disk1"), read_only=True),
    )
    assert created.remarks == ()
    assert kubelet.restart_container(pod, "main") == created


def test_a_folder_gives_every_node_in_it_once(place):
    node, kubelet, _ = place
    kubelet.healthy("example.com/sound")
    _, created = kubelet.run("example.com/sound")
    names = ("controlC0", "controlC1", "pcmC0D0c", "pcmC1D0c")
    assert nodes(created) == {node.path(f"/dev/snd/{n}"): node.path(f"/dev/snd/{n}") for n in names}


@pytest.mark.root
def test_a_link_in_a_folder_is_a_node_only_if_it_leads_out(node, kubelet):
    node.at("/dev/d/by-path").mkdir(parents=True)
    node.add("/dev/d/inside")
    node.add("/dev/outside")
    node.at("/dev/d/by-path/again").symlink_to("../inside")
    node.at("/dev/d/by-path/other").symlink_to("/dev/outside")
    node.at("/dev/d/by-path/nowhere").symlink_to("/dev/missing")
    node.start({"x": [{"path": "/dev/d", "to": "/dev/e"}]})
    kubelet.until("example.com/x", {"d": "Healthy"})
    _, created = kubelet.run("example.com/x")
    assert nodes(created) == {
        "/dev/e/inside": "/dev/d/inside",
        "/dev/e/by-path/other": "/dev/d/by-path/other",
    }


def test_companions_come_along(place):
    node, kubelet, daemon = place
    (id_,) = kubelet.healthy("example.com/camera")
    pod, created = kubelet.run("example.com/camera")
    assert nodes(created) == {
        node.path("/dev/cam0"): node.path("/dev/cam0"),
        "/dev/clock": node.path("/dev/timer"),
    }
    assert [device.permissions for device in created.devices] == ["rw", "r"]
    kubelet.remove(pod)
    node.add("/dev/cam1")
    assert len(kubelet.healthy("example.com/camera", 2)) == 2, "a companion may be shared"
    node.at("/dev/timer").unlink()
    kubelet.wait_for(
        lambda k: set(k.devices("example.com/camera").values()) == {"Unhealthy"},
    )
    reason = f"{node.path('/dev/timer')} does not exist"
    daemon.wait_log("device unhealthy", device=id_, reason=reason)
    node.add("/dev/cam2")  # never seen whole
    daemon.wait_log("not offered", resource="example.com/camera", reason="does not exist")
    node.add("/dev/timer")
    kubelet.healthy("example.com/camera", 3)


def test_one_pod_takes_some_of_all(place):
    _, kubelet, _ = place
    limits = {f"example.com/{name}": 1 for name in ("fuse", "camera")}
    pod = kubelet.admit(Pod("all", [Container("one", limits), Container("two", limits)]))
    for name in ("one", "two"):
        created = kubelet.create_container(pod, name)
        assert (created.conflicts, created.remarks) == ((), ())
        assert len(created.devices) == 3
