"""What a container is created with, and PreStartContainer (A10, A11)."""

import pytest

from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2 as pb
from device_plugin.testing import Container, ContainerError, Pod, RuntimeRefusal

X = "example.com/x"
Y = "example.com/y"
NULL = pb.DeviceSpec(container_path="/dev/thing", host_path="/dev/null", permissions="rw")


def pod(**limits):
    return Pod("p", [Container("main", limits or {X: 1})])


def methods(kubelet):
    return [call.method for call in kubelet.calls if call.method != "GetDevicePluginOptions"]


def test_the_response_is_handed_to_the_runtime(running):
    kubelet, plugin = running()
    plugin.on_allocate = lambda ids: pb.ContainerAllocateResponse(
        envs={"A": "1"},
        devices=[NULL],
        mounts=[pb.Mount(container_path="/in", host_path="/", read_only=True)],
        annotations={"note": "n"},
        cdi_devices=[pb.CDIDevice(name="vendor.com/class=name")],
    )
    admitted = kubelet.admit(pod())
    created = kubelet.create_container(admitted, "main")
    assert created.envs == {"A": "1"}
    [device] = created.devices
    assert (device.container_path, device.real_path, device.type) == (
        "/dev/thing",
        "/dev/null",
        "c",
    )
    assert (device.major, device.minor, device.permissions) == (1, 3, "rw")
    assert created.mounts == (("/in", "/", True),)
    assert created.annotations == {"note": "n"}
    assert created.cdi_devices == ("vendor.com/class=name",)
    assert created.conflicts == created.remarks == ()
    status = kubelet.pod_status(admitted)
    assert (status.phase, status.containers["main"].state) == ("Running", "running")


def test_a_restart_replays_the_response_without_allocate(running, tmp_path):
    kubelet, plugin = running()
    link = tmp_path / "link"
    link.symlink_to("/dev/null")
    plugin.on_allocate = lambda ids: pb.ContainerAllocateResponse(
        devices=[pb.DeviceSpec(container_path="/dev/t", host_path=str(link), permissions="r")]
    )
    admitted = kubelet.admit(pod())
    assert kubelet.create_container(admitted, "main").devices[0].real_path == "/dev/null"
    link.unlink()
    link.symlink_to("/dev/zero")
    again = kubelet.restart_container(admitted, "main").devices[0]
    assert (again.host_path, again.real_path) == (str(link), "/dev/zero")  # resolved anew (A10)
    assert methods(kubelet) == ["Allocate"]
    assert kubelet.pod_status(admitted).containers["main"].restarts == 1


def test_a_refusal_leaves_the_container_waiting(running):
    kubelet, plugin = running()
    gone = pb.DeviceSpec(container_path="/dev/t", host_path="/dev/gone", permissions="r")
    plugin.on_allocate = lambda ids: pb.ContainerAllocateResponse(devices=[gone])
    admitted = kubelet.admit(pod())
    with pytest.raises(RuntimeRefusal, match=r"CreateContainerError: .*/dev/gone"):
        kubelet.create_container(admitted, "main")
    status = kubelet.pod_status(admitted)
    assert status.phase == "Pending"
    assert status.containers["main"].state == "waiting"
    assert status.containers["main"].reason == "CreateContainerError"


def test_the_pod_s_own_environment_wins(running):
    kubelet, _ = running()
    container = Container("main", {X: 1}, env={"IDS": "mine", "B": "2"})
    created = kubelet.create_container(kubelet.admit(Pod("p", [container])), "main")
    assert created.envs == {"IDS": "mine", "B": "2"}
    assert [key for key, _ in created.env_order] == ["IDS", "IDS", "B"]


def test_of_two_resources_the_first_wins_and_the_conflict_is_told(running, plugin):
    kubelet, first = running()
    second = plugin(resource=Y, socket="y.sock")
    second.register()
    kubelet.wait_for(lambda k: k.capacity(Y) == 2)

    def answer(env, node):
        return lambda ids: pb.ContainerAllocateResponse(
            envs={"WHO": env, "SAME": "s"},
            annotations={"who": env},
            devices=[pb.DeviceSpec(container_path="/dev/t", host_path=node, permissions="r"), NULL],
            mounts=[pb.Mount(container_path="/m", host_path="/" if env == "x" else "/tmp")],
            cdi_devices=[pb.CDIDevice(name="v.com/c=n")],
        )

    first.on_allocate = answer("x", "/dev/null")
    second.on_allocate = answer("y", "/dev/zero")
    winners = set()
    for _ in range(10):  # the order is random, as that of a Go map
        admitted = kubelet.admit(pod(**{X: 1, Y: 1}))
        created = kubelet.create_container(admitted, "main")
        kubelet.remove(admitted)
        paths = [device.real_path for device in created.devices]
        winners.add((created.envs["WHO"], created.annotations["who"], *paths))
        assert len(created.conflicts) == 4
        assert created.conflicts[0].startswith("Environment variable has conflicting setting: WHO")
        assert created.cdi_devices == ("v.com/c=n",)
    assert winners == {
        ("x", "x", "/dev/null", "/dev/null"),
        ("y", "y", "/dev/zero", "/dev/null"),
    }


def test_pre_start_comes_before_every_creation(running):
    kubelet, plugin = running(pre_start_required=True)
    started: list[list[str]] = []
    plugin.on_pre_start = started.append
    admitted = kubelet.admit(pod())
    kubelet.create_container(admitted, "main")
    kubelet.restart_container(admitted, "main")
    assert methods(kubelet) == ["Allocate", "PreStartContainer", "PreStartContainer"]
    ids = list(kubelet.allocated(admitted, "main", X))
    assert started == [ids, ids]


def test_pre_start_is_not_called_unless_required(running):
    kubelet, _ = running()
    kubelet.create_container(kubelet.admit(pod()), "main")
    assert methods(kubelet) == ["Allocate"]


def test_a_failed_pre_start_is_tried_again_later(running):
    kubelet, plugin = running(pre_start_required=True)

    def fail(ids):
        raise LookupError("still warming up")

    plugin.on_pre_start = fail
    admitted = kubelet.admit(pod())
    with pytest.raises(ContainerError) as caught:
        kubelet.create_container(admitted, "main")
    assert caught.value.reason == "CreateContainerConfigError"
    assert caught.value.message == (
        "device plugin PreStartContainer rpc failed with err: "
        "rpc error: code = NotFound desc = still warming up"
    )
    assert kubelet.pod_status(admitted).phase == "Pending"  # not Failed
    plugin.on_pre_start = lambda ids: None
    kubelet.create_container(admitted, "main")


def test_pre_start_has_30_seconds(running, monkeypatch):
    monkeypatch.setattr("device_plugin.testing.endpoints.PRE_START_TIMEOUT", 0.2)
    kubelet, plugin = running(pre_start_required=True)
    remaining = []
    answer = plugin.PreStartContainer

    def pre_start(request, context):
        remaining.append(context.time_remaining())
        return answer(request, context)

    plugin.PreStartContainer = pre_start
    plugin.stop()
    plugin.serve()
    kubelet.wait_for(lambda k: not k.is_streaming(X))
    plugin.register()
    kubelet.wait_for(lambda k: k.allocatable(X) == 2)
    kubelet.create_container(kubelet.admit(pod()), "main")
    assert 0 < remaining[0] < 0.3


def test_a_stopped_plugin_blocks_a_restart_that_needs_pre_start(running):
    kubelet, plugin = running(pre_start_required=True)
    admitted = kubelet.admit(pod())
    kubelet.create_container(admitted, "main")
    kubelet.cancel_stream(X)
    with pytest.raises(ContainerError, match="has been stopped"):
        kubelet.restart_container(admitted, "main")
    plugin.register()
    kubelet.create_container(admitted, "main")


def test_a_stopped_plugin_without_pre_start_blocks_nothing(running):
    kubelet, _ = running()
    admitted = kubelet.admit(pod())
    kubelet.create_container(admitted, "main")
    kubelet.cancel_stream(X)
    kubelet.restart_container(admitted, "main")


def test_pre_start_is_skipped_before_the_plugin_is_back(running):
    kubelet, _ = running(pre_start_required=True)
    admitted = kubelet.admit(pod())
    kubelet.create_container(admitted, "main")
    kubelet.restart()
    kubelet.restart_container(admitted, "main")
    assert methods(kubelet).count("PreStartContainer") == 1


def test_a_resource_that_came_after_admission_is_allocated_at_creation(kubelet, plugin):
    started, made = kubelet(), plugin()
    admitted = started.admit(pod())
    made.register()
    started.wait_for(lambda k: k.allocatable(X) == 2)
    created = started.create_container(admitted, "main")
    assert created.envs["IDS"] in {"a", "b"}
    assert methods(started) == ["Allocate"]


def test_pre_start_without_an_allocation_is_an_error(kubelet, plugin):
    started, made = kubelet(), plugin(pre_start_required=True)
    admitted = started.admit(pod())
    made.register()
    started.wait_for(lambda k: k.allocatable(X) == 2)
    with pytest.raises(ContainerError, match="no devices found allocated in local cache for pod"):
        started.create_container(admitted, "main")


def test_a_failed_pod_has_no_containers(running):
    kubelet, _ = running()
    dropped = pod()
    kubelet.admit_and_drop(dropped)
    with pytest.raises(RuntimeError, match="Failed"):
        kubelet.create_container(dropped, "main")
