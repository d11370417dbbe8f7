"""A small plugin written by hand, and a fake kubelet to point it at."""

import contextlib
import shutil
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2 as pb
from device_plugin._api.deviceplugin.v1beta1.deviceplugin_pb2_grpc import (
    DevicePluginServicer,
    RegistrationStub,
    add_DevicePluginServicer_to_server,
)
from device_plugin._api.pluginregistration.v1 import pluginregistration_pb2 as pg
from device_plugin._api.pluginregistration.v1.pluginregistration_pb2_grpc import (
    RegistrationServicer,
    add_RegistrationServicer_to_server,
)
from device_plugin._api.podresources.v1.podresources_pb2_grpc import PodResourcesListerStub
from device_plugin.testing import FakeKubelet

X = "example.com/x"
# A connection of one's own, tried again at once.
OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 10))


class Plugin(DevicePluginServicer):
    """Does what it is told; `on_...` may be replaced to answer otherwise."""

    def __init__(self, folder, resource=X, socket="x.sock", **options):
        self.folder = folder
        self.resource = resource
        self.socket = socket
        self.options = pb.DevicePluginOptions(**options)
        self.streams = 0
        self.on_options = lambda context: self.options
        self.on_allocate = lambda ids: pb.ContainerAllocateResponse(envs={"IDS": ",".join(ids)})
        self.on_preferred: Callable[[object], list[str]] = lambda request: []
        self.on_pre_start = lambda ids: None
        self.before_first_list = lambda context: None
        self._devices = []
        self._version = 0
        self._ended = False
        self._changed = threading.Condition()
        self._server = None

    def serve(self):
        self._workers = ThreadPoolExecutor(8)
        self._server = grpc.server(self._workers)
        add_DevicePluginServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{self.folder / self.socket}")
        self._server.start()
        return self

    def register(self, *, timeout=5.0, **changes):
        request = {"version": "v1beta1", "endpoint": self.socket, "resource_name": self.resource}
        with grpc.insecure_channel(f"unix:{self.folder / 'kubelet.sock'}") as channel:
            RegistrationStub(channel).Register(
                pb.RegisterRequest(**request | changes), timeout=timeout
            )
        return self

    def refused(self, **changes):
        """Register in vain; returns code and text."""
        with pytest.raises(grpc.RpcError) as caught:
            self.register(**changes)
        return caught.value.code(), caught.value.details()

    def send(self, *devices, **healths):
        """Send a list: `a="Healthy"`, or devices as they are."""
        with self._changed:
            self._devices = [*devices, *(pb.Device(ID=k, health=v) for k, v in healths.items())]
            self._version += 1
            self._changed.notify_all()
        return self

    def end_streams(self):
        """End every open stream from this side, without error, and serve on."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.streams == 0)
            self._ended = False

    def stop(self):
        if self._server:
            self._server.stop(None).wait()
            self._workers.shutdown()
            self._server = None

    def GetDevicePluginOptions(self, request, context):
        return self.on_options(context)

    def ListAndWatch(self, request, context):
        context.add_callback(self._wake)
        with self._changed:
            self.streams += 1
        try:
            self.before_first_list(context)
            sent = None
            while context.is_active() and not self._ended:
                with self._changed:
                    if sent == self._version:
                        self._changed.wait()
                        continue
                    sent, devices = self._version, self._devices
                yield pb.ListAndWatchResponse(devices=devices)
        finally:
            with self._changed:
                self.streams -= 1
                self._changed.notify_all()

    def _wake(self):
        with self._changed:
            self._changed.notify_all()

    def GetPreferredAllocation(self, request, context):
        ids = self.on_preferred(request.container_requests[0])
        answer = pb.ContainerPreferredAllocationResponse(deviceIDs=ids)
        return pb.PreferredAllocationResponse(container_responses=[answer])

    def Allocate(self, request, context):
        assert len(request.container_requests) == 1
        try:
            answer = self.on_allocate(list(request.container_requests[0].devices_ids))
        except LookupError as error:
            context.abort(grpc.StatusCode.NOT_FOUND, error.args[0])
        return pb.AllocateResponse(container_responses=[answer] if answer else [])

    def PreStartContainer(self, request, context):
        try:
            self.on_pre_start(list(request.devices_ids))
        except LookupError as error:
            context.abort(grpc.StatusCode.NOT_FOUND, error.args[0])
        return pb.PreStartContainerResponse()


class Registry(RegistrationServicer):
    """A registration socket; `also` is a plugin that the same socket serves."""

    def __init__(self, path, also=None, **info):
        self.path = path
        self.info = pg.PluginInfo(
            **{"type": "DevicePlugin", "name": X, "supported_versions": ["v1beta1"]} | info
        )
        self.also = also
        self.told = []
        self.on_info = lambda context: None
        self.on_told = lambda context: None

    def serve(self):
        self._workers = ThreadPoolExecutor(8)
        self._server = grpc.server(self._workers)
        add_RegistrationServicer_to_server(self, self._server)
        if self.also:
            add_DevicePluginServicer_to_server(self.also, self._server)
        self._server.add_insecure_port(f"unix:{self.path}")
        self._server.start()
        return self

    def stop(self):
        """Stop; gRPC removes the socket."""
        self._server.stop(None).wait()
        self._workers.shutdown()

    def GetInfo(self, request, context):
        self.on_info(context)
        return self.info

    def NotifyRegistrationStatus(self, request, context):
        self.on_told(context)
        self.told.append((request.plugin_registered, request.error))
        return pg.RegistrationStatusResponse()

    def outcome(self, kubelet):
        """Wait for the first handshake with this socket."""
        path = str(self.path)
        return kubelet.wait_for(lambda k: [one for one in k.handshakes if one.socket == path])[0]


@pytest.fixture
def folder():
    """A short path: unix sockets have 107 bytes for theirs."""
    path = Path(tempfile.mkdtemp(dir="/tmp", prefix="k"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def root():
    """A folder of the kubelet's own, for PodResources and the plugin watcher."""
    path = Path(tempfile.mkdtemp(dir="/tmp", prefix="r"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def kubelet(folder):
    """Start fake kubelets; the folder is the test's own."""
    with contextlib.ExitStack() as stack:

        def start(**settings):
            return stack.enter_context(FakeKubelet(folder, **{"seed": 1, **settings}))

        yield start


@pytest.fixture
def plugin(folder):
    """Make plugins, serving and listing two devices, not registered."""
    with contextlib.ExitStack() as stack:

        def make(**settings):
            made = Plugin(folder, **settings)
            stack.callback(made.stop)
            return made.serve().send(a="Healthy", b="Healthy")

        yield make


@pytest.fixture
def running(kubelet, plugin):
    """A kubelet and a plugin whose first list has come."""

    def start(settings=None, **options):
        started, made = kubelet(**settings or {}), plugin(**options)
        made.register()
        started.wait_for(lambda k: k.devices(made.resource))
        return started, made

    return start


@pytest.fixture
def registry(root):
    """Make registration sockets, serving."""
    (root / "plugins_registry").mkdir()
    with contextlib.ExitStack() as stack:

        def make(socket="x-reg.sock", **settings):
            made = Registry(root / "plugins_registry" / socket, **settings).serve()
            stack.callback(made.stop)
            return made

        yield make


@pytest.fixture
def watching(kubelet, root):
    """Start fake kubelets that look for plugins often."""

    def start(**settings):
        return kubelet(**{"root": root, "watch_interval": 0.02, **settings})

    return start


@pytest.fixture
def client(root):
    """Call PodResources."""
    target = f"unix:{root / 'pod-resources' / 'kubelet.sock'}"
    with grpc.insecure_channel(target, options=OWN_CONNECTION) as channel:
        yield PodResourcesListerStub(channel)
