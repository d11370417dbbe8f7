"""Two daemons for one resource, as in an upgrade that overlaps: what they do to each other."""

import pytest

X = "example.com/x"
ONE = {"x": [{"virtual": {"count": 1}}]}


@pytest.fixture(params=["1.36", "1.37"])
def kubelet(node, request):
    return node.kubelet(behaviour=request.param)


def test_the_second_comes_and_leaves(node, kubelet):
    """In 1.36 the end of the second's stream takes the first with it (A5, 0.2)."""
    node.start(ONE)
    ids = kubelet.healthy(X)
    kubelet.accepted(X, 1)
    second = node.start(ONE, state="second")
    kubelet.accepted(X, 2)
    second.end()
    kubelet.wait_for(lambda k: len(k.streams(X)) == 1 and k.is_streaming(X), timeout=1)
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
    daemons = [node.start(ONE, state=state) for state in ("first", "second")]
    kubelet.wait_for(lambda k: len(k.streams(X)) == 2)
    for daemon in daemons:
        daemon.wait_page("/readyz", 200)
    assert len(kubelet.good(X)) == 2
