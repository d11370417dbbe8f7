"""Two daemons for one resource, as in an upgrade that overlaps: what they do to each other."""

import pytest

X = "example.com/x"
ONE = {"x": [{"virtual": {"count": 1}}]}


@pytest.fixture(params=["1.36", "1.37"])
def kubelet(node, request):
    return node.kubelet(behaviour=request.param)


@pytest.mark.parametrize("ending", ["SIGTERM", "SIGKILL"])
def test_the_second_comes_and_leaves(node, kubelet, ending):
    """In 1.36 the kubelet then takes the resource for gone, and tells the first nothing (A5)."""
    first = node.start(ONE, audit_interval="200ms")
    ids = kubelet.healthy(X)
    second = node.start(ONE, state="second")
    kubelet.wait_for(lambda k: len(k.good(X)) == 2)
    first.wait_log("another process offers this resource too")
    (second.end if ending == "SIGTERM" else second.kill)()
    first.wait_log("not registered", reason="another process came and left", timeout=1)
    first.wait_log("registered", times=2, timeout=1)
    kubelet.wait_for(lambda k: len(k.streams(X)) == 1 and k.is_streaming(X))
    assert kubelet.healthy(X) == ids


def test_the_first_leaves_once_the_second_is_there(node, kubelet):
    """In 1.36 the end of the first's stream disconnects the second, which must come again."""
    first = node.start(ONE)
    kubelet.accepted(X, 1)
    node.start(ONE, state="second")
    kubelet.accepted(X, 2)
    first.end()
    kubelet.wait_for(lambda k: len(k.streams(X)) == 1 and k.is_streaming(X), timeout=1)
    kubelet.healthy(X)
    pod, _ = kubelet.run(X)
    assert kubelet.allocated(pod, "main", X)


def test_both_stay(node, kubelet):
    """Neither fights for the resource: each has its stream, so each has nothing to mend."""
    first = node.start(ONE)
    kubelet.accepted(X, 1)
    daemons = [first, node.start(ONE, state="second")]
    kubelet.wait_for(lambda k: len(k.streams(X)) == 2)
    for daemon in daemons:
        daemon.wait_page("/readyz", 200)
    daemons[0].wait_log("another process offers this resource too")
    assert not daemons[1].log("another process offers this resource too"), "it came later"
    assert len(kubelet.good(X)) == 2
