"""The driver at the kubelet: its sockets, what it says of itself, claims in both versions."""

import os
import socket
import stat
import threading
from contextlib import contextmanager

import grpc
import pytest

from device_plugin._api.dra.v1 import dra_pb2 as v1
from device_plugin._api.dra.v1 import dra_pb2_grpc as v1_grpc
from device_plugin._api.dra.v1beta1 import dra_pb2 as v1beta1
from device_plugin._api.dra.v1beta1 import dra_pb2_grpc as v1beta1_grpc
from device_plugin._api.pluginregistration.v1 import pluginregistration_pb2 as pr
from device_plugin._api.pluginregistration.v1 import pluginregistration_pb2_grpc as pr_grpc
from device_plugin.dra import service
from device_plugin.dra.service import Service
from tests.unit.dra.claimed import DRIVER, POOL, ClaimNode, result, stick
from tests.unit.dra.made import wait_for

VERSIONS = [
    "v1.DRAPlugin",
    "v1beta1.DRAPlugin",
    "v1.DRAResourceHealth",
    "v1alpha1.DRAResourceHealth",
]


@pytest.fixture
def node(tree):
    made = ClaimNode(tree)
    made.offer(stick("gpu-0"), stick("gpu-1"))
    return made


@pytest.fixture
def kubelet(short_folder):
    for name in ("plugins", "plugins_registry"):
        (short_folder / name).mkdir()
    return short_folder


@pytest.fixture
def run(node, kubelet):
    """Start a service; it is stopped in the end."""
    running = []

    def start(root=kubelet, driver=DRIVER):
        service = Service(
            claims=node.claims,
            offers=lambda: node.offers,
            driver=driver,
            pool=POOL,
            kubelet_root=root,
        )
        running.append(service)
        service.start()
        return service

    yield start
    for one in running:
        one.stop()
        one.join(5)
        assert not one.is_alive()


def sockets(folder):
    return sorted(path for path in folder.rglob("*.sock"))


def registry(kubelet):
    """The sockets that the kubelet finds."""
    return sorted((kubelet / "plugins_registry").iterdir())


@contextmanager
def channel(path):
    # Each test has sockets of its own; a shared pool would keep connections to earlier ones.
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(f"unix:{path}", options) as made:
        yield made


def register(path, *, registered=True, error=""):
    """Do as the kubelet does with a socket that it has found."""
    with channel(path) as made:
        stub = pr_grpc.RegistrationStub(made)
        info = stub.GetInfo(pr.InfoRequest(), timeout=5)
        status = pr.RegistrationStatus(plugin_registered=registered, error=error)
        stub.NotifyRegistrationStatus(status, timeout=5)
        return info


def found(kubelet):
    wait_for(lambda: registry(kubelet))
    (path,) = registry(kubelet)
    return path


def test_it_says_who_it_is_and_where_it_serves(run, kubelet):
    service = run()
    info = register(found(kubelet))
    assert (info.type, info.name) == ("DRAPlugin", DRIVER)
    assert list(info.supported_versions) == VERSIONS
    assert info.endpoint.startswith(f"{kubelet}/plugins/{DRIVER}/dra-")
    assert stat.S_ISSOCK(os.stat(info.endpoint).st_mode)
    assert found(kubelet).name.startswith(f"{DRIVER}-")
    assert service.registered
    wait_for(lambda: not service.problem)


def test_until_then_it_says_what_it_waits_for(run, kubelet):
    service = run()
    path = found(kubelet)
    wait_for(lambda: service.problem != "starting")
    assert service.problem == f"waiting for the kubelet: it has not taken {path} yet"
    register(path, registered=False, error="no such type")
    wait_for(lambda: service.problem == "the kubelet refused: no such type")
    assert not service.registered


def test_claims_in_v1(run, kubelet, node):
    run()
    node.offer(stick("gpu-0", replicas=2), stick("gpu-1"))
    good = node.api.allocate("a", result("gpu-0", shareID="s-1"), result("gpu-1", "gpu/large"))
    bad = node.api.allocate("b", result("gpu-9"))
    claims = [v1.Claim(namespace="team", uid=one.uid, name=one.name) for one in (good, bad)]
    with channel(register(found(kubelet)).endpoint) as made:
        stub = v1_grpc.DRAPluginStub(made)
        answer = stub.NodePrepareResources(v1.NodePrepareResourcesRequest(claims=claims))
        assert answer.claims["uid-b"].error.startswith("this node offers no device gpu-9 now")
        first, second = answer.claims["uid-a"].devices
        assert first == v1.Device(
            request_names=["gpu"],
            pool_name=POOL,
            device_name="gpu-0",
            cdi_device_ids=[f"{DRIVER}/claim=uid-a-gpu"],
            share_id="s-1",
        )
        assert second == v1.Device(
            request_names=["gpu"], pool_name=POOL, device_name="gpu-1", cdi_device_ids=[]
        )
        gone = stub.NodeUnprepareResources(v1.NodeUnprepareResourcesRequest(claims=claims))
        assert {uid: one.error for uid, one in gone.claims.items()} == {"uid-a": "", "uid-b": ""}
    assert not node.claims.prepared


def test_claims_in_v1beta1(run, kubelet, node):
    run()
    ref = node.api.allocate("a", result("gpu-0"))
    claims = [v1beta1.Claim(namespace="team", uid=ref.uid, name="a")]
    with channel(register(found(kubelet)).endpoint) as made:
        stub = v1beta1_grpc.DRAPluginStub(made)
        answer = stub.NodePrepareResources(v1beta1.NodePrepareResourcesRequest(claims=claims))
        (device,) = answer.claims["uid-a"].devices
        assert device == v1beta1.Device(
            request_names=["gpu"],
            pool_name=POOL,
            device_name="gpu-0",
            cdi_device_ids=[f"{DRIVER}/claim=uid-a-gpu"],
        )
        request = v1beta1.NodeUnprepareResourcesRequest(claims=claims)
        assert stub.NodeUnprepareResources(request).claims["uid-a"].error == ""
    assert not node.claims.prepared


def test_a_call_that_the_kubelet_gave_up_leaves_nothing(run, kubelet, node):
    run()
    ref = node.api.allocate("a", result("gpu-0"))
    asked, gave_up = threading.Event(), threading.Event()

    def slow():
        asked.set()
        gave_up.wait(10)

    node.api.before_answer = slow
    claims = [v1.Claim(namespace="team", uid=ref.uid, name="a")]
    with channel(register(found(kubelet)).endpoint) as made:
        stub = v1_grpc.DRAPluginStub(made)
        call = stub.NodePrepareResources.future(v1.NodePrepareResourcesRequest(claims=claims))
        assert asked.wait(5)
        call.cancel()
        gone = stub.NodeUnprepareResources(v1.NodeUnprepareResourcesRequest(claims=claims))
        assert gone.claims[ref.uid].error == ""
        before = node.changes
        gave_up.set()
        wait_for(lambda: node.changes > before)
    assert not node.claims.prepared
    assert not node.files()


@pytest.mark.parametrize("which", [0, 1])
def test_a_socket_that_somebody_removes_is_made_again(run, kubelet, which):
    service = run()
    register(found(kubelet))
    before = sockets(kubelet)
    before[which].unlink()
    service.wake()
    wait_for(lambda: len(sockets(kubelet)) == 2 and not set(before) & set(sockets(kubelet)))
    assert not service.registered
    assert register(found(kubelet)).endpoint in map(str, sockets(kubelet))
    assert service.registered


def test_no_socket_is_left_in_the_end(run, kubelet):
    service = run()
    register(found(kubelet))
    service.stop()
    service.join(5)
    assert not sockets(kubelet)


def test_two_instances_leave_one_another_alone(run, kubelet):
    first = run()
    register(found(kubelet))
    second = run()
    wait_for(lambda: len(registry(kubelet)) == 2)
    for path in registry(kubelet):
        register(path)
    assert first.registered
    assert second.registered
    first.stop()
    first.join(5)
    assert len(sockets(kubelet)) == 2
    register(found(kubelet))


def dead(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.fspath(path))
    return path


def test_leftovers_of_dead_processes_go_and_nobody_elses(run, kubelet):
    serving = kubelet / "plugins" / DRIVER
    serving.mkdir()
    reg = kubelet / "plugins_registry"
    gone = [dead(serving / "dra-0123abcd.sock"), dead(reg / f"{DRIVER}-0123abcd-reg.sock")]
    stay = [
        dead(reg / f"x{DRIVER}-0123abcd-reg.sock"),
        dead(reg / f"{DRIVER}-other-0123abcd-reg.sock"),
        dead(reg / "other.example.com-0123abcd-reg.sock"),
        dead(serving / "dra.sock"),
        serving / "dra-0123abce.sock",
    ]
    stay[-1].touch()
    with socket.socket(socket.AF_UNIX) as living:
        living.bind(os.fspath(reg / f"{DRIVER}-aaaaaaaa-reg.sock"))
        living.listen()
        service = run()
        wait_for(lambda: service.problem != "starting")
        assert (reg / f"{DRIVER}-aaaaaaaa-reg.sock").exists()
    assert not any(path.exists() for path in gone)
    assert all(path.exists() for path in stay)


def test_without_the_kubelets_folders_it_says_what_to_do(run, kubelet):
    (kubelet / "plugins_registry").rmdir()
    service = run()
    text = "plugins_registry does not exist: is the kubelet's folder mounted, and the right one?"
    wait_for(lambda: service.problem == f"{kubelet}/{text}")
    (kubelet / "plugins_registry").mkdir()
    register(found(kubelet))
    wait_for(lambda: not service.problem)


def test_a_path_that_is_too_long(run, short_folder):
    root = short_folder / ("d" * 60)
    for name in ("plugins", "plugins_registry"):
        (root / name).mkdir(parents=True)
    service = run(root)
    wait_for(lambda: "too long for a unix socket: shorten dra.driver" in service.problem)
    assert not sockets(root)


def test_a_driver_folder_that_is_a_file(run, kubelet):
    folder = kubelet / "plugins" / DRIVER
    folder.touch()
    service = run()
    wait_for(lambda: service.problem == f"{folder} is no folder: remove it from the node")
    folder.unlink()
    register(found(kubelet))
    wait_for(lambda: not service.problem)


def test_what_claims_lack_is_said_beside_what_the_kubelet_does(run, kubelet, node, monkeypatch):
    service = run()
    path = found(kubelet)
    monkeypatch.setattr(type(node.claims), "problem", "they lack it")
    text = f"waiting for the kubelet: it has not taken {path} yet; they lack it"
    wait_for(lambda: service.problem == text)
    register(path)
    wait_for(lambda: service.problem == "they lack it")


def test_hung_prepares_leave_room_to_unprepare(run, kubelet, node):
    run()
    release = threading.Event()
    node.api.before_answer = lambda: release.wait(20)
    ref = node.api.allocate("a", result("gpu-0"))
    claims = [v1.Claim(namespace="team", uid=ref.uid, name="a")]
    with channel(register(found(kubelet)).endpoint) as made:
        stub = v1_grpc.DRAPluginStub(made)
        prepare = v1.NodePrepareResourcesRequest(claims=claims)
        calls = [stub.NodePrepareResources.future(prepare) for _ in range(100)]
        wait_for(lambda: len(node.api.calls) == 16)
        request = v1.NodeUnprepareResourcesRequest(claims=claims)
        gone = stub.NodeUnprepareResources(request, timeout=10)
        assert gone.claims[ref.uid].error == ""
        for call in calls:
            call.cancel()
        release.set()


def test_news_renew_the_specs(run, kubelet, node):
    service = run()
    node.prepared("a", result("gpu-0"))
    node.offer(stick("gpu-0", reason="removed", present=False))
    service.news()
    wait_for(lambda: not node.files())
    node.offer(stick("gpu-0"))
    service.news()
    wait_for(node.files)


def test_a_thread_that_cannot_be_started_does_not_end_the_server(run, kubelet, monkeypatch):
    run()
    path, start = found(kubelet), threading.Thread.start
    left = [RuntimeError("can't start new thread")]

    def fail_once(thread):
        if thread.name == "dra call" and left:
            raise left.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fail_once)
    with channel(path) as made:
        with pytest.raises(grpc.RpcError):
            pr_grpc.RegistrationStub(made).GetInfo(pr.InfoRequest(), timeout=0.5)
        assert left == []
        assert pr_grpc.RegistrationStub(made).GetInfo(pr.InfoRequest(), timeout=20).name == DRIVER


def test_claims_of_an_earlier_boot_are_let_go_of_until_it_is_done(run, node, monkeypatch):
    """Whatever an attempt comes to, and with nobody to wake the service."""
    monkeypatch.setattr(service, "_STALE", 0.05)
    outcomes: list[object] = [False, RuntimeError("any"), False, True]
    asked = []

    def forget_stale():
        asked.append(outcomes.pop(0))
        if isinstance(asked[-1], RuntimeError):
            raise asked[-1]
        return asked[-1]

    monkeypatch.setattr(node.claims, "forget_stale", forget_stale)
    run()
    wait_for(lambda: not outcomes)
    assert asked[-1] is True
