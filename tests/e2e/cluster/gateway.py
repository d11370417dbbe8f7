"""The API server for Pods: ADDRESS:443 leads to 127.0.0.1:PORT. No imports of ours.

python3 -I gateway.py ADDRESS PORT READY: the file READY is made when it listens. ADDRESS is the
host's end of each Pod's link: it comes with the first Pod, so it is bound before it is there.
"""

import asyncio
import contextlib
import socket
import sys
from pathlib import Path

_IP_FREEBIND = 15
_CHUNK = 1 << 16


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(_CHUNK):
            target.write(data)
            await target.drain()
    target.close()


def _listen(address: str) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
    listener.bind((address, 443))
    listener.listen()
    return listener


async def _serve(listener: socket.socket, port: str) -> None:
    async def connected(pod: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        try:
            api, request = await asyncio.open_connection("127.0.0.1", int(port))
        except OSError:
            answer.close()
            return
        await asyncio.gather(_copy(pod, request), _copy(api, answer))

    server = await asyncio.start_server(connected, sock=listener)
    await server.serve_forever()


def main() -> None:
    address, port, ready = sys.argv[1:]
    listener = _listen(address)
    Path(ready).touch()
    asyncio.run(_serve(listener, port))


main()
