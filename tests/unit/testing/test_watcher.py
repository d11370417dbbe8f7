"""Plugins that register by a socket in plugins_registry (A15)."""

import itertools
import socket
import threading
from urllib.parse import quote

import grpc
import pytest

from device_plugin.testing import Container, Pod, handshake

X = "example.com/x"
INVALID = "plugin validation failed with err: "


def test_a_plugin_that_is_found_is_as_good_as_one_that_called(watching, plugin, registry, root):
    kubelet = watching()
    served = plugin()
    found = registry(endpoint=str(served.folder / served.socket))
    kubelet.wait_for(lambda k: k.plugins)
    kubelet.wait_for(lambda k: k.allocatable(X) == 2)
    assert found.told == [(True, "")]
    [one] = kubelet.plugins.values()
    assert (one.type, one.name) == ("DevicePlugin", X)
    assert (one.socket, one.endpoint) == (str(found.path), found.info.endpoint)
    assert one.versions == ("v1beta1",)
    [registration] = kubelet.registrations
    assert registration.accepted
    assert registration.streaming
    pod = kubelet.admit(Pod("p", [Container("c", {X: 2})]))
    assert kubelet.allocated(pod, "c", X) == {"a", "b"}


def test_the_authority_is_the_path(watching, root):
    """Read from the wire, because grpcio's servers do not tell. Some servers refuse such a one."""
    watching()
    with socket.socket(socket.AF_UNIX) as server:
        path = root / "plugins_registry" / "wire.sock"
        server.settimeout(5)
        server.bind(str(path))
        server.listen()
        settings = b"\0\0\0\4\0\0\0\0\0"  # empty, HTTP/2
        dialled, _ = server.accept()
        with dialled:
            dialled.sendall(settings)
            connection, _ = server.accept()
        with connection:
            connection.settimeout(5)
            connection.sendall(settings)
            seen, authority = b"", quote(str(path), safe="").encode()
            while b"GetInfo" not in seen or authority not in seen:
                more = connection.recv(4096)
                assert more, seen
                seen += more


def test_without_an_endpoint_the_socket_itself_serves(watching, plugin, registry):
    found = registry(also=plugin())
    kubelet = watching()
    kubelet.wait_for(lambda k: k.allocatable(X) == 2)
    assert kubelet.registrations[0].endpoint == str(found.path)


def test_a_bare_endpoint_is_not_put_into_the_folder(watching, plugin, registry):
    served = plugin()
    found = registry(endpoint=served.socket)
    kubelet = watching(dial_timeout=0.1)
    assert found.outcome(kubelet).error == (
        "RegisterPlugin error -- plugin registration failed with err: "
        "failed to dial device plugin: context deadline exceeded"
    )
    assert found.told[0] == (False, found.outcome(kubelet).error)
    assert kubelet.registrations[0].error.startswith("failed to dial")


def test_a_plugin_that_comes_later_and_deeper(watching, plugin, registry, root):
    kubelet = watching()
    (root / "plugins_registry" / "sub").mkdir()
    registry("sub/x.sock", also=plugin())
    kubelet.wait_for(lambda k: k.allocatable(X) == 2)


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (
            {"type": "CSIPlugin"},
            "no handler registered for plugin type: CSIPlugin at socket {path}",
        ),
        (
            {"supported_versions": ["v1", "v2"]},
            f"{INVALID}manager version, v1beta1, is not among plugin supported versions [v1 v2]",
        ),
        (
            {"supported_versions": [], "name": "x"},
            f"{INVALID}manager version, v1beta1, is not among plugin supported versions []",
        ),
        (
            {"name": "x"},
            f'{INVALID}invalid name of device plugin socket: the ResourceName "x" is invalid',
        ),
    ],
)
def test_what_is_refused(watching, registry, info, text):
    found = registry(**info)
    kubelet = watching()
    outcome = found.outcome(kubelet)
    assert outcome.error == "RegisterPlugin error -- " + text.format(path=found.path)
    assert found.told[0] == (False, outcome.error)
    assert kubelet.plugins == {}
    assert kubelet.registrations == []


def test_failures_are_tried_again_more_and_more_slowly(watching, plugin, registry):
    served = plugin()
    found = registry(also=served, name="x")
    kubelet = watching()
    kubelet.wait_for(lambda k: len(k.handshakes) == 3)
    times = [one.started for one in kubelet.handshakes]
    first, second = (later - earlier for earlier, later in itertools.pairwise(times))
    assert first >= 0.5
    assert second >= 1
    # A new socket at the same place has to wait all the same, for two seconds now.
    found.stop()
    found.info.name = X
    found.serve()
    kubelet.wait_for(lambda k: k.plugins)
    assert kubelet.handshakes[3].started - times[2] >= 2
    assert [told[0] for told in found.told] == [False, False, False, True]


def test_an_answer_that_takes_longer_than_a_second(watching, plugin, registry):
    found = registry(also=plugin())
    over = threading.Event()
    found.on_info = lambda context: over.wait(5)
    kubelet = watching()
    outcome = found.outcome(kubelet)
    over.set()
    assert 1 <= outcome.ended - outcome.started < 4
    assert outcome.error == (
        "RegisterPlugin error -- failed to get plugin info using RPC GetInfo at socket "
        f"{found.path}, err: rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    )


def test_nobody_listens(watching, registry):
    found = registry()
    found.path.rename(found.path.with_name(".x"))
    found.stop()
    found.path.with_name(".x").rename(found.path)
    kubelet = watching(dial_timeout=0.1)
    assert found.outcome(kubelet).error == (
        f"RegisterPlugin error -- dial failed at socket {found.path}, err: "
        f"failed to dial socket {found.path}, err: context deadline exceeded"
    )
    found.serve()


def test_a_plugin_that_cannot_be_told_is_let_go(watching, plugin, registry):
    served = plugin()
    found = registry(also=served)
    found.on_told = lambda context: context.abort(grpc.StatusCode.INTERNAL, "no ears")
    kubelet = watching()
    assert found.outcome(kubelet).error == (
        f"RegisterPlugin error -- failed to send registration status at socket {found.path}, "
        "err: : rpc error: code = Internal desc = no ears"
    )
    assert kubelet.plugins == {}
    kubelet.wait_for(lambda k: k.registrations[0].stream_ended)
    assert kubelet.allocatable(X) in {None, 0}  # the first list may have come, or not


def test_a_plugin_that_hears_slowly_is_let_go(watching, plugin, registry, monkeypatch):
    assert handshake.NOTIFY_TIMEOUT == 5
    monkeypatch.setattr(handshake, "NOTIFY_TIMEOUT", 0.1)
    found = registry(also=plugin())
    over = threading.Event()
    found.on_told = lambda context: over.wait(5)
    kubelet = watching()
    error = found.outcome(kubelet).error
    over.set()
    assert error.endswith(
        "err: : rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    )
    assert kubelet.plugins == {}


def test_a_failure_of_the_options(watching, plugin, registry):
    served = plugin()
    well = served.on_options
    served.on_options = lambda context: context.abort(grpc.StatusCode.INTERNAL, "not today")
    found = registry(also=served)
    kubelet = watching()
    assert found.outcome(kubelet).error == (
        "RegisterPlugin error -- plugin registration failed with err: "
        "failed to get device plugin options: rpc error: code = Internal desc = not today"
    )
    served.on_options = well
    kubelet.wait_for(lambda k: k.allocatable(X) == 2)


def test_a_dra_driver_is_registered_before_its_socket_is_there(watching, registry):
    found = registry(
        type="DRAPlugin",
        name="x.example.com",
        endpoint="/var/lib/kubelet/plugins/x/dra.sock",
        supported_versions=["v1.DRAPlugin", "v1beta1.DRAPlugin"],
    )
    kubelet = watching()
    kubelet.wait_for(lambda k: k.plugins)
    [one] = kubelet.plugins.values()
    assert one.type == "DRAPlugin"
    assert one.name == "x.example.com"
    assert one.endpoint == "/var/lib/kubelet/plugins/x/dra.sock"
    assert one.versions == ("v1.DRAPlugin", "v1beta1.DRAPlugin")
    assert found.told == [(True, "")]
    assert kubelet.registrations == []
    found.path.unlink()
    kubelet.wait_for(lambda k: not k.plugins)
