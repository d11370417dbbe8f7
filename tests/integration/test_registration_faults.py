"""Registration that goes wrong: refused, unanswered, half done, taken back."""

import itertools
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

X = "example.com/x"
ONE = {"x": [{"virtual": {"count": 1}}]}


@pytest.fixture(params=["1.36", "1.37"])
def behaviour(request):
    return request.param


@pytest.fixture(scope="module", autouse=True)
def unanswered(shared_node):
    """A Register call that nobody answers: it takes long, so it begins before all other tests."""
    kubelet = shared_node.kubelet()
    kubelet.hold_registration()
    return kubelet, shared_node.start(ONE)


def sock(node):
    return node.plugins / "kubelet.sock"


def our_socket(node, registration):
    return node.plugins / registration.endpoint


def test_a_refusal_is_said_once_and_tried_again_ever_more_slowly(node, kubelet):
    kubelet.refuse_registration("no room", times=4)
    daemon = node.start(ONE)
    daemon.wait_page("/readyz", 503, "example.com/x: the kubelet refused: no room")
    kubelet.healthy(X)
    assert len(daemon.log("not registered", reason="no room")) == 1
    times = [one.received for one in kubelet.registrations]
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert len(gaps) == 4
    for number, gap in enumerate(gaps):
        assert gap > 0.016 * 2**number, "each wait is twice the last one, give or take a fifth"
    kubelet.check_order(X)


def test_each_reason_is_said(node, kubelet):
    kubelet.refuse_registration("first")
    daemon = node.start(ONE)
    daemon.wait_log("not registered", reason="the kubelet refused: first")
    kubelet.refuse_registration("second", times=1)
    daemon.wait_log("not registered", reason="the kubelet refused: second")
    kubelet.healthy(X)
    assert len(daemon.log("not registered")) == 2


def test_one_refused_resource_holds_up_no_other(node, kubelet):
    """The kubelet refuses whichever comes first; the second is in at once."""
    kubelet.refuse_registration("not now", times=1)
    node.start({"x": ONE["x"], "y": [{"virtual": {"count": 1}}]})
    kubelet.healthy(X)
    kubelet.healthy("example.com/y")
    calls = Counter(one.resource for one in kubelet.registrations)
    assert sorted(calls.values()) == [1, 2]


@pytest.mark.parametrize("where", ["arrival", "reply"])
def test_register_hangs_and_a_new_kubelet_comes(node, behaviour, where):
    kubelet = node.kubelet(behaviour=behaviour)
    kubelet.hold_registration(where)
    node.start(ONE)
    kubelet.wait_for(lambda k: k.registrations)
    kubelet.stop()
    kubelet.release_registration()
    kubelet.start()
    kubelet.wait_for(lambda k: len(k.registrations) == 2, timeout=1)
    kubelet.healthy(X)


@pytest.mark.parametrize("where", ["arrival", "reply"])
def test_register_hangs_and_kubelet_sock_is_replaced(node, kubelet, where):
    kubelet.hold_registration(where)
    node.start(ONE)
    kubelet.wait_for(lambda k: k.registrations)
    kubelet.replace_socket()
    kubelet.wait_for(lambda k: len(k.registrations) == 2, timeout=1)
    kubelet.release_registration()
    kubelet.healthy(X)
    assert len(kubelet.streams(X)) == 1


def test_our_socket_is_deleted_while_register_hangs(node, kubelet):
    kubelet.hold_registration()
    node.start(ONE)
    (first,) = kubelet.wait_for(lambda k: k.registrations)
    our_socket(node, first).unlink()
    _, second = kubelet.wait_for(lambda k: len(k.registrations) == 2 and k.registrations)
    assert second.endpoint != first.endpoint
    kubelet.release_registration()
    kubelet.healthy(X)


@pytest.mark.parametrize("loss", ["kubelet.sock", "restart", "our socket"])
def test_lost_between_register_and_the_stream(node, kubelet, loss):
    kubelet.withhold_streams(times=1)
    daemon = node.start(ONE)
    daemon.wait_log("registered")
    daemon.wait_page("/readyz", 503, "ListAndWatch is not open")
    if loss == "restart":
        kubelet.restart()
    elif loss == "kubelet.sock":
        kubelet.replace_socket()
    else:
        kubelet.delete_socket(X)
    kubelet.healthy(X, timeout=1)
    daemon.wait_page("/readyz", 200)
    kubelet.check_order(X)


def test_the_stream_never_opens(node, kubelet):
    kubelet.withhold_streams(times=1)
    daemon = node.start(ONE)
    daemon.wait_log("registered")
    daemon.wait_log("not registered", reason="no ListAndWatch within 5 s", timeout=7)
    first, second = kubelet.wait_for(lambda k: len(k.good(X)) == 2 and k.good(X))
    assert 5 <= second.received - first.replied < 6
    kubelet.healthy(X)
    kubelet.check_order(X)


def test_a_living_kubelet_drops_the_stream(node, behaviour):
    kubelet = node.kubelet(behaviour=behaviour)
    daemon = node.start(ONE)
    for count in (1, 2, 3):
        registrations = kubelet.accepted(X, count)
        if count < 3:
            kubelet.cancel_stream(X)
    daemon.wait_log("not registered", reason="the kubelet ended ListAndWatch", times=2)
    dropped, again, _ = registrations
    assert again.received - dropped.stream_ended < 0.5, "the first time, at once"
    kubelet.check_order(X)


def test_whoever_answers_is_no_kubelet(node):
    node.plugins.mkdir()
    stranger = grpc.server(ThreadPoolExecutor(1))
    stranger.add_insecure_port(f"unix:{sock(node)}")
    stranger.start()
    daemon = node.start(ONE)
    daemon.wait_log("not registered", reason="whoever answers there is no kubelet")
    stranger.stop(None).wait()
    node.kubelet().healthy(X, timeout=1)


def test_a_folder_without_room_for_a_socket_name(node):
    node.plugins = node.folder / ("long" * 25)
    node.plugins.mkdir()
    daemon = node.start(ONE)
    daemon.wait_page("/readyz", 503, "too long for a unix socket")
    assert len(daemon.log("not registered")) == 1


def test_register_is_never_answered(unanswered):
    kubelet, daemon = unanswered
    daemon.wait_log("not registered", reason="no answer in time", timeout=20)
    kubelet.release_registration()
    kubelet.healthy(X)
    first, second, *_ = kubelet.registrations
    assert second.received - first.received > 10, "longer than a kubelet may take to dial (A3)"
