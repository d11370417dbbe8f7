"""Register, the dial, the start of the stream (A2, A3, A4)."""

import re
import socket
import threading
import time

import grpc
import pytest

from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2 as pb
from device_plugin.testing.registration import is_extended_resource_name

X = "example.com/x"
UNKNOWN = grpc.StatusCode.UNKNOWN


@pytest.mark.parametrize(
    "name",
    [
        "example.com/x",
        "x/y",
        "a-b.c/D_e.F-g",
        "example.com/" + "n" * 63,
        "d" * 244 + "/x",
        "kubernetes.iox/y",
    ],
)
def test_good_resource_names(name):
    assert is_extended_resource_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "cpu",
        "/x",
        "example.com/",
        "example.com/x/y",
        "foo.kubernetes.io/x",
        "mykubernetes.io/x",
        "example.com/kubernetes.io/x",
        "requests.example.com/x",
        "Example.com/x",
        "exa_mple.com/x",
        "-example.com/x",
        "example..com/x",
        "example.com/-x",
        "example.com/x-",
        "example.com/x y",
        "example.com/x\n",
        "example.com/" + "n" * 64,
        "d" * 245 + "/x",
    ],
)
def test_bad_resource_names(name):
    assert not is_extended_resource_name(name)


def test_the_version_comes_first(kubelet, plugin):
    started, made = kubelet(), plugin()
    code, text = made.refused(version="v1beta2", resource_name="bad", endpoint="nowhere")
    assert code is UNKNOWN
    assert text == (
        'requested API version "v1beta2" is not supported by kubelet. '
        'Supported version is ["v1beta1"]'
    )
    [registration] = started.registrations
    assert registration.error.startswith("requested API version")
    assert not registration.accepted


def test_the_name_comes_second(kubelet, plugin):
    kubelet()
    refused = plugin().refused(resource_name="bad", endpoint="nowhere")
    assert refused == (UNKNOWN, 'the ResourceName "bad" is invalid')


def test_a_bad_request_changes_nothing(running):
    kubelet, plugin = running()
    plugin.refused(version="v2")
    plugin.refused(resource_name="bad")
    assert kubelet.is_streaming(X)
    assert kubelet.allocatable(X) == 2


@pytest.mark.parametrize("endpoint", ["missing.sock", "", "unix://x.sock", "{folder}/x.sock"])
def test_a_wrong_endpoint_costs_the_dial_timeout(kubelet, plugin, folder, endpoint):
    """Bare names only: the endpoint is joined to the folder, whatever it is (A2)."""
    kubelet(dial_timeout=0.3)
    made, began = plugin(), time.monotonic()
    refused = made.refused(endpoint=endpoint.format(folder=folder))
    assert refused == (UNKNOWN, "failed to dial device plugin: context deadline exceeded")
    assert time.monotonic() - began >= 0.3


def test_the_callers_deadline_bounds_the_dial(kubelet, plugin):
    started, made = kubelet(), plugin()
    made.refused(endpoint="missing.sock", timeout=0.3)
    started.wait_for(lambda k: k.registrations[0].error, timeout=1)
    assert started.registrations[0].error.startswith("failed to dial device plugin: context ")


def test_a_listener_that_does_not_serve_is_no_plugin(kubelet, plugin, folder):
    kubelet(dial_timeout=0.3)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(folder / "silent.sock"))
        silent.listen()
        refused = plugin().refused(endpoint="silent.sock")
    assert refused == (UNKNOWN, "failed to dial device plugin: context deadline exceeded")


def test_refused_connections_are_retried_in_silence(kubelet, plugin):
    started, made = kubelet(), plugin()
    made.stop()
    registering = threading.Thread(target=made.register)
    registering.start()
    started.wait_for(lambda k: k.registrations)
    made.serve()
    registering.join()
    assert started.registrations[0].accepted


def test_options_are_asked_before_the_reply_and_the_request_s_are_not_read(kubelet, plugin):
    started, made = kubelet(), plugin()
    pending = []

    def options(context):
        pending.append(started.registrations[0].replied is None)
        return pb.DevicePluginOptions()

    made.on_options = options
    made.register(options=pb.DevicePluginOptions(pre_start_required=True))
    assert pending == [True]
    assert started.registrations[0].accepted
    assert not started._state.devices.endpoint(X).options.pre_start_required


def test_an_options_error_is_passed_on(kubelet, plugin):
    kubelet()
    made = plugin()
    made.on_options = lambda context: context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not now")
    assert made.refused() == (
        UNKNOWN,
        "failed to get device plugin options: rpc error: code = FailedPrecondition desc = not now",
    )


def test_a_plugin_that_hangs_in_options_is_bounded_by_its_own_deadline(kubelet, plugin):
    started, made = kubelet(), plugin()
    gone = threading.Event()

    def hang(context):
        context.add_callback(gone.set)
        assert gone.wait(5)
        return pb.DevicePluginOptions()

    made.on_options = hang
    code, _ = made.refused(timeout=0.3)
    assert code is grpc.StatusCode.DEADLINE_EXCEEDED
    started.wait_for(lambda k: k.registrations[0].error)
    assert gone.wait(5)
    assert started.registrations[0].error.startswith(
        "failed to get device plugin options: rpc error: code = "
    )


def test_the_authority_is_localhost(kubelet, plugin, folder):
    """Read from the wire, because grpcio's servers do not tell."""
    kubelet()
    with socket.socket(socket.AF_UNIX) as server:
        server.settimeout(5)
        server.bind(str(folder / "wire.sock"))
        server.listen()
        registering = threading.Thread(
            target=plugin().refused, kwargs={"endpoint": "wire.sock", "timeout": 1}
        )
        registering.start()
        settings = b"\0\0\0\4\0\0\0\0\0"  # empty, HTTP/2
        dialled, _ = server.accept()
        with dialled:
            dialled.sendall(settings)
            connection, _ = server.accept()
        with connection:
            connection.settimeout(5)
            connection.sendall(settings)
            seen = b""
            while b"GetDevicePluginOptions" not in seen or b"localhost" not in seen:
                more = connection.recv(4096)
                assert more, seen
                seen += more
        registering.join()


def test_a_message_over_4_mib_ends_the_stream(running):
    kubelet, plugin = running()
    plugin.send(*(pb.Device(ID=f"{i:0200}", health="Healthy") for i in range(15_000)))
    kubelet.wait_for(lambda k: k.capacity(X) == 15_000)
    plugin.send(*(pb.Device(ID=f"{i:0200}", health="Healthy") for i in range(25_000)))
    kubelet.wait_for(lambda k: not k.is_streaming(X))
    assert re.fullmatch(
        r"rpc error: code = ResourceExhausted desc = "
        r"grpc: received message larger than max \(\d+ vs\. 4194304\)",
        kubelet.registrations[0].stream_error,
    )
    kubelet.wait_for(lambda k: k.allocatable(X) == 0)


def test_the_stream_is_not_reconnected(running):
    kubelet, plugin = running()
    plugin.stop()
    kubelet.wait_for(lambda k: k.allocatable(X) == 0)
    plugin.serve()
    with pytest.raises(AssertionError, match="not so within"):
        kubelet.wait_for(lambda k: k.is_streaming(X), timeout=1.5)


def test_the_stream_may_come_before_the_reply(kubelet, plugin):
    started, made = kubelet(), plugin()
    started.open_streams("before")
    made.before_first_list = lambda context: threading.Event().wait(0.2)
    made.register()
    assert started.lists(X)[0].received <= started.registrations[0].replied


def test_the_stream_may_come_after_the_reply(kubelet, plugin):
    started, made = kubelet(), plugin()
    started.open_streams("after")
    started.hold_registration("reply")
    registering = threading.Thread(target=made.register)
    registering.start()
    started.wait_for(lambda k: k.calls)
    assert not started.lists(X)
    started.release_registration()
    registering.join()
    started.wait_for(lambda k: k.lists(X))
    assert started.registrations[0].stream_opened > started.registrations[0].replied


def test_a_reply_does_not_wait_for_ever_for_the_first_list(kubelet, plugin):
    started, made = kubelet(), plugin()
    started.open_streams("before")
    registered = threading.Event()
    made.before_first_list = lambda context: registered.wait(5)
    made.register()
    registered.set()
    started.wait_for(lambda k: k.lists(X))


def test_withheld_streams(kubelet, plugin):
    started, made = kubelet(), plugin()
    started.withhold_streams(times=1)
    made.register()
    assert started.registrations[0].accepted
    assert started.registrations[0].stream_opened is None
    assert not started.is_streaming(X)
    assert started.capacity(X) is None
    made.stop()
    made.serve().register()
    started.wait_for(lambda k: k.is_streaming(X))


def test_refused_registrations(kubelet, plugin):
    started, made = kubelet(), plugin()
    started.refuse_registration("no room", times=1)
    assert made.refused() == (UNKNOWN, "no room")
    started.refuse_registration("not ever")
    assert made.refused() == (UNKNOWN, "not ever")
    assert made.refused() == (UNKNOWN, "not ever")
    started.accept_registration()
    made.register()


def test_a_held_registration(kubelet, plugin):
    started, made = kubelet(), plugin()
    started.hold_registration()
    code, _ = made.refused(timeout=0.2)
    assert code is grpc.StatusCode.DEADLINE_EXCEEDED
    started.wait_for(lambda k: k.registrations[0].error)
    assert started.registrations[0].error == "failed to dial device plugin: context canceled"
    started.release_registration()
    made.register()


def test_a_stop_ends_a_held_registration(kubelet, plugin):
    started, made = kubelet(), plugin()
    started.hold_registration()
    caught = []
    registering = threading.Thread(target=lambda: caught.append(made.refused()))
    registering.start()
    started.wait_for(lambda k: k.registrations)
    started.stop()
    registering.join()
    assert caught[0][0] in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
