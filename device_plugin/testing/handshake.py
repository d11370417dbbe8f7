"""The kubelet as a client of one registration socket: GetInfo, then how it went (A15)."""

import itertools
from urllib.parse import quote

import grpc

from device_plugin._api.pluginregistration.v1 import pluginregistration_pb2 as pg
from device_plugin._api.pluginregistration.v1.pluginregistration_pb2_grpc import RegistrationStub
from device_plugin.testing.dialling import Dialling
from device_plugin.testing.endpoints import PluginError, go_error

INFO_TIMEOUT, NOTIFY_TIMEOUT = 1.0, 5.0  # seconds
_UNESCAPED = "!$&'()*+,;=:[]@"

_numbers = itertools.count(1)


class RegistrationSocket:
    """One connection to one socket, for one handshake."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._dialling = Dialling(path)
        options = (
            # Here, unlike at the socket that serves, the kubelet sends the path, as Go encodes it.
            ("grpc.default_authority", quote(path, safe=_UNESCAPED)),
            ("grpc.enable_http_proxy", 0),
            ("fake-kubelet.handshake", next(_numbers)),  # equal channels would share a connection
        )
        self._channel = grpc.insecure_channel(f"unix:{quote(path)}", options=options)
        self._stub = RegistrationStub(self._channel)

    def ask(self, dial_timeout: float) -> pg.PluginInfo:
        """Dial and ask who it is."""
        if not self._dialling.run(dial_timeout):
            raise PluginError(
                f"RegisterPlugin error -- dial failed at socket {self.path}, err: "
                f"failed to dial socket {self.path}, err: context deadline exceeded"
            )
        try:
            return self._stub.GetInfo(pg.InfoRequest(), timeout=INFO_TIMEOUT)
        except (grpc.RpcError, ValueError) as error:
            raise PluginError(
                "RegisterPlugin error -- failed to get plugin info using RPC GetInfo "
                f"at socket {self.path}, err: {_text(error)}"
            ) from error

    def notify(self, error: str | None) -> None:
        """Tell the plugin that it is registered, or why not."""
        status = pg.RegistrationStatus(plugin_registered=error is None, error=error or "")
        try:
            self._stub.NotifyRegistrationStatus(status, timeout=NOTIFY_TIMEOUT)
        except (grpc.RpcError, ValueError) as failure:
            raise PluginError(
                "RegisterPlugin error -- failed to send registration status "
                f"at socket {self.path}, err: {error or ''}: {_text(failure)}"
            ) from failure

    def close(self) -> None:
        """End whatever is going on."""
        self._dialling.abandon()
        self._channel.close()


def _text(error: grpc.RpcError | ValueError) -> str:
    """Spell an error as Go does; ValueError is what a call on a closed channel raises."""
    if isinstance(error, grpc.RpcError):
        return go_error(error)
    return "rpc error: code = Canceled desc = context canceled"
