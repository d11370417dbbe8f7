"""The gRPC face of the driver: only translation.

The older version of each API is the newer one on the wire, but for its name and for a field of a
share, which those who do not know it pass over. So one servicer answers both.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import grpc

from device_plugin._api.dra.v1 import dra_pb2 as pb
from device_plugin._api.drahealth.v1 import drahealth_pb2 as health_pb
from device_plugin._api.pluginregistration.v1 import pluginregistration_pb2 as pr
from device_plugin.dra.allocated import ClaimRef
from device_plugin.dra.checkpoint import Prepared
from device_plugin.dra.claims import Claims
from device_plugin.dra.health import TIMEOUT, DeviceHealth, Health
from device_plugin.dra.specs import cdi_name

TYPE = "DRAPlugin"
# By what a driver tells of itself, the service on the wire. Kubelets take the first that they know.
_CLAIM_SERVICES = {
    "v1.DRAPlugin": "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin",
    "v1beta1.DRAPlugin": "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin",
}
_HEALTH_SERVICES = {
    "v1.DRAResourceHealth": "v1.DRAResourceHealth",
    "v1alpha1.DRAResourceHealth": "v1alpha1.DRAResourceHealth",
}
VERSIONS = (*_CLAIM_SERVICES, *_HEALTH_SERVICES)

_Handlers = dict[str, "grpc.RpcMethodHandler[Any, Any]"]


class Registration:
    """Tells the kubelet where the driver serves, and is told what came of it."""

    def __init__(self, driver: str, endpoint: str, changed: Callable[[], None]) -> None:
        self._info = pr.PluginInfo(
            type=TYPE, name=driver, endpoint=endpoint, supported_versions=VERSIONS
        )
        self._changed = changed
        self.registered = False
        self.at = 0.0  # when it was told so last, monotonic
        self.error = ""  # why not, in the kubelet's words

    def add(self, server: grpc.Server) -> None:
        """Let a server answer the kubelet that has found it."""
        handlers: _Handlers = {
            "GetInfo": grpc.unary_unary_rpc_method_handler(
                lambda _request, _context: self._info,
                pr.InfoRequest.FromString,
                pr.PluginInfo.SerializeToString,
            ),
            "NotifyRegistrationStatus": grpc.unary_unary_rpc_method_handler(
                self._notify,
                pr.RegistrationStatus.FromString,
                pr.RegistrationStatusResponse.SerializeToString,
            ),
        }
        _add(server, ["pluginregistration.Registration"], handlers)

    def _notify(
        self, status: pr.RegistrationStatus, _: grpc.ServicerContext
    ) -> pr.RegistrationStatusResponse:
        self.at = time.monotonic()
        self.registered, self.error = status.plugin_registered, status.error
        self._changed()
        return pr.RegistrationStatusResponse()


def add_claims(claims: Claims, news: Callable[[], None], server: grpc.Server) -> None:
    """Let a server answer for claims, in every version; `news` is called after each answer."""

    def prepare(
        request: pb.NodePrepareResourcesRequest, context: grpc.ServicerContext
    ) -> pb.NodePrepareResourcesResponse:
        answers = claims.prepare(_refs(request.claims), context.is_active)
        news()
        return pb.NodePrepareResourcesResponse(
            claims={uid: _prepared(answer) for uid, answer in answers.items()}
        )

    def unprepare(
        request: pb.NodeUnprepareResourcesRequest, _: grpc.ServicerContext
    ) -> pb.NodeUnprepareResourcesResponse:
        answers = claims.unprepare(_refs(request.claims))
        news()
        return pb.NodeUnprepareResourcesResponse(
            claims={
                uid: pb.NodeUnprepareResourceResponse(error=why) for uid, why in answers.items()
            }
        )

    handlers: _Handlers = {
        "NodePrepareResources": grpc.unary_unary_rpc_method_handler(
            prepare,
            pb.NodePrepareResourcesRequest.FromString,
            pb.NodePrepareResourcesResponse.SerializeToString,
        ),
        "NodeUnprepareResources": grpc.unary_unary_rpc_method_handler(
            unprepare,
            pb.NodeUnprepareResourcesRequest.FromString,
            pb.NodeUnprepareResourcesResponse.SerializeToString,
        ),
    }
    _add(server, _CLAIM_SERVICES.values(), handlers)


def add_health(health: Health, pool: str, server: grpc.Server) -> None:
    """Let a server tell the devices' health, in every version."""

    def watch(
        _: health_pb.NodeWatchResourcesRequest, context: grpc.ServicerContext
    ) -> Iterator[health_pb.NodeWatchResourcesResponse]:
        for devices in health.reports(context):
            now = int(time.time())
            yield health_pb.NodeWatchResourcesResponse(
                devices=[_health(one, pool, now) for one in devices]
            )

    handler = grpc.unary_stream_rpc_method_handler(
        watch,
        health_pb.NodeWatchResourcesRequest.FromString,
        health_pb.NodeWatchResourcesResponse.SerializeToString,
    )
    _add(server, _HEALTH_SERVICES.values(), {"NodeWatchResources": handler})


def _add(server: grpc.Server, services: Iterable[str], handlers: _Handlers) -> None:
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(service, handlers) for service in services]
    )


def _refs(claims: Iterable[pb.Claim]) -> list[ClaimRef]:
    return [ClaimRef(one.namespace, one.name, one.uid) for one in claims]


def _prepared(answer: Prepared | str) -> pb.NodePrepareResourceResponse:
    if isinstance(answer, str):
        return pb.NodePrepareResourceResponse(error=answer)
    return pb.NodePrepareResourceResponse(devices=_devices(answer))


def _devices(claim: Prepared) -> Iterator[pb.Device]:
    """The CDI name of a request is its first device's: the kubelet joins them."""
    named: set[str] = set()
    for one in claim.devices:
        first = one.request not in named
        named.add(one.request)
        yield pb.Device(
            request_names=[one.request],
            pool_name=claim.pool,
            device_name=one.name,
            cdi_device_ids=[cdi_name(claim.driver, claim.uid, one.request)] if first else [],
            share_id=one.share or None,
        )


def _health(one: DeviceHealth, pool: str, now: int) -> health_pb.DeviceHealth:
    return health_pb.DeviceHealth(
        device=health_pb.DeviceIdentifier(pool_name=pool, device_name=one.name),
        health=health_pb.UNHEALTHY if one.reason else health_pb.HEALTHY,
        last_updated_time=now,
        health_check_timeout_seconds=TIMEOUT,
        message=one.reason,
    )
