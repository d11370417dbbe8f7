"""A small DRA driver written by hand, an API server, and a fake kubelet between them."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from device_plugin._api.dra.v1 import dra_pb2 as v1
from device_plugin._api.dra.v1 import dra_pb2_grpc as v1_grpc
from device_plugin._api.dra.v1beta1 import dra_pb2 as v1beta1
from device_plugin._api.dra.v1beta1 import dra_pb2_grpc as v1beta1_grpc
from device_plugin._api.drahealth.v1 import drahealth_pb2 as health
from device_plugin._api.drahealth.v1 import drahealth_pb2_grpc as health_grpc
from device_plugin._api.drahealth.v1alpha1 import drahealth_pb2 as old_health
from device_plugin._api.drahealth.v1alpha1 import drahealth_pb2_grpc as old_health_grpc
from device_plugin.testing import DraTimes, Pod, PodClaim
from device_plugin.testing.apiserver import ApiServer, allocated_claim, result

NAME = "gpu.example.com"
NODE = "node-1"
FAST = DraTimes(
    call=5.0, resync=0.05, retry=0.05, reconcile=60.0, health_retry=0.05, wipe=0.3, reconnect=0.1
)
BOTH = ("v1.DRAPlugin", "v1beta1.DRAPlugin")


class Driver:
    """Does what it is told; `on_...` may be replaced to answer otherwise."""

    def __init__(self, socket, name=NAME):
        self.name, self.socket = name, socket
        self.on_prepare = lambda claim: ([{"device_name": "a", "pool_name": NODE}], "")
        self.on_unprepare = lambda claim: ""
        self.change = lambda answers: None
        self.seen = []  # method, version, names of the claims
        self.streams = 0
        self._lists = []  # health messages: whole lists
        self._changed = threading.Condition()
        self._server = None
        self.registry: Any = None  # its registration socket

    def serve(self, *, with_health=True):
        self._workers = ThreadPoolExecutor(16)
        self._server = grpc.server(self._workers)
        for pb, stubs in ((v1, v1_grpc), (v1beta1, v1beta1_grpc)):
            stubs.add_DRAPluginServicer_to_server(_Service(self, pb), self._server)
        for pb, stubs in ((health, health_grpc), (old_health, old_health_grpc)):
            if with_health:
                stubs.add_DRAResourceHealthServicer_to_server(_Health(self, pb), self._server)
        self._server.add_insecure_port(f"unix:{self.socket}")
        self._server.start()
        return self

    def stop(self):
        if self._server:
            self._server.stop(None).wait()
            self._workers.shutdown()
            self._server = None

    def say(self, **devices):
        """Send a health list: `a=(state, message, timeout)`."""
        with self._changed:
            self._lists.append(devices)
            self._changed.notify_all()

    def end_streams(self):
        with self._changed:
            self._lists.append(None)
            self._changed.notify_all()

    def prepare(self, request, pb):
        self.seen.append(("prepare", pb, [claim.name for claim in request.claims]))
        answers = {}
        for claim in request.claims:
            devices, error = self.on_prepare(claim)
            answers[claim.uid] = pb.NodePrepareResourceResponse(
                devices=[pb.Device(**device) for device in devices], error=error
            )
        self.change(answers)
        return pb.NodePrepareResourcesResponse(claims=answers)

    def unprepare(self, request, pb):
        self.seen.append(("unprepare", pb, [claim.name for claim in request.claims]))
        answers = {
            claim.uid: pb.NodeUnprepareResourceResponse(error=self.on_unprepare(claim))
            for claim in request.claims
        }
        self.change(answers)
        return pb.NodeUnprepareResourcesResponse(claims=answers)

    def watch(self, context, pb):
        context.add_callback(self._wake)
        with self._changed:
            sent = 0
            self.streams += 1
        while (devices := self._next(sent, context)) is not None:
            sent += 1
            yield pb.NodeWatchResourcesResponse(
                devices=[
                    pb.DeviceHealth(
                        device=pb.DeviceIdentifier(pool_name=NODE, device_name=name),
                        health=state,
                        message=message,
                        health_check_timeout_seconds=timeout,
                    )
                    for name, (state, message, timeout) in devices.items()
                ]
            )

    def _next(self, sent, context):
        """Wait for a list; None ends the stream."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._lists) > sent or not context.is_active())
            if not context.is_active():
                return None
            if self._lists[sent] is None:
                self._lists.clear()
                return None
            return self._lists[sent]

    def _wake(self):
        with self._changed:
            self._changed.notify_all()


class _Service:
    """One version of the DRA service."""

    def __init__(self, driver, pb):
        self._driver, self._pb = driver, pb

    def NodePrepareResources(self, request, context):
        return self._driver.prepare(request, self._pb)

    def NodeUnprepareResources(self, request, context):
        return self._driver.unprepare(request, self._pb)


class _Health:
    """One version of the health service."""

    def __init__(self, driver, pb):
        self._driver, self._pb = driver, pb

    def NodeWatchResources(self, request, context):
        yield from self._driver.watch(context, self._pb)


@pytest.fixture
def api():
    with ApiServer(NODE) as started:
        yield started


@pytest.fixture
def driver(root, registry):
    """Make drivers, serving and registered; `served=False` for one that is registered only."""
    with contextlib.ExitStack() as stack:

        def make(number=0, *, name=NAME, versions=BOTH, served=True, with_health=True):
            made = Driver(root / f"{name}-{number}.dra", name)
            if served:
                made.serve(with_health=with_health)
            stack.callback(made.stop)
            made.registry = registry(
                f"{name}-{number}-reg.sock",
                type="DRAPlugin",
                name=name,
                endpoint=str(made.socket),
                supported_versions=versions,
            )
            return made

        yield make


@pytest.fixture
def dra(watching, api):
    """Start fake kubelets with short periods and that API server."""

    def start(**settings):
        return watching(**{"cluster": api, "node": NODE, "dra": FAST, **settings})

    return start


@pytest.fixture
def connected(dra, driver):
    """A kubelet and a driver that is connected."""

    def start(settings=None, **options):
        kubelet, made = dra(**settings or {}), driver(**options)
        kubelet.wait_for(lambda k: any(one.connected for one in k.drivers(made.name)))
        return kubelet, made

    return start


@pytest.fixture
def claim(api):
    """Put a claim in, allocated and reserved for Pods; returns it."""

    def put(name, *pods, devices=("a",), driver=NAME, **more):
        results = [result("gpu", device, driver=driver, pool=NODE) for device in devices]
        made = allocated_claim(name, results, **more)
        reserved = [{"resource": "pods", "name": pod.name, "uid": pod.uid} for pod in pods]
        made.setdefault("status", {})["reservedFor"] = reserved
        return api.put_claim(made)

    return put


@pytest.fixture
def pod(claim):
    """Make a Pod with claims, which are put in too."""

    def make(name, *claims, containers=(), put=True, **more):
        made = Pod(
            name, containers=containers, claims=[PodClaim(one, one) for one in claims], **more
        )
        for one in claims if put else ():
            claim(one, made)
        return made

    return make
