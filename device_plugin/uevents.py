"""Kernel uevents that say only: look again. They tell of devices that have no node in /dev.

The kernel sends them to everybody who listens, in each network namespace that belongs to the
initial user namespace: an ordinary Pod has them without any privilege. Events are hints; the audit
is the truth.
"""

import errno
import fcntl
import os
import re
import select
import socket
import threading
from collections.abc import Callable

import structlog

_KOBJECT_UEVENT = 15  # the netlink protocol, linux/netlink.h
_FROM_KERNEL = 1  # its group; what udev repeats in group 2 stays in the host's network namespace
_BUFFER = 64 * 1024  # bytes, of which the kernel makes twice as much: some 150 events
_MESSAGE = 8 * 1024  # bytes; the kernel's own buffer has 2 KiB, lib/kobject_uevent.c
_REST = 50  # milliseconds after a word: a device comes with many events
_LONGEST_REST = 1000
_NS_GET_USERNS = 0xB701  # ioctl_nsfs(2)
_INITIAL_USER_NAMESPACE = 0xEFFFFFFD  # its inode, linux/nsfs.h

_EVENT = re.compile(rb"[a-z]+@/[^\0]*\0(?:[^\0]*\0)*?SUBSYSTEM=([^\0]+)\0")
_NO_DEVICES = frozenset(
    (
        b"bdi",  # mounted file systems
        b"cgroup",  # with slab: caches of containers that start and end, before Linux 5.9
        b"cpu",
        b"memory",  # pieces of it, thousands at a time
        b"module",  # what it drives has events of its own
        b"power_supply",  # how full the battery is
        b"queues",  # of network devices
        b"slab",
        b"thermal",
    )
)
_log = structlog.get_logger()


class Uevents:
    """One netlink socket and one thread.

    `changed` runs on that thread, and must only pass the word on. It is called at once, then after
    rests that grow for as long as events keep coming, and always once more after the last one.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._thread: threading.Thread | None = None

    def open(self) -> bool:
        """Whether events are listened to from now on; why not is logged."""
        try:
            self._socket = _listen()
        except OSError as error:
            _log.warning("no kernel events, the audit looks instead", error=str(error))
            return False
        self._closing = os.eventfd(0)
        self._thread = threading.Thread(target=self._run, name="uevents", daemon=True)
        self._thread.start()
        return True

    def close(self) -> None:
        if self._thread is not None:
            os.eventfd_write(self._closing, 1)
            self._thread.join()
            self._socket.close()
            os.close(self._closing)

    def _run(self) -> None:
        closing, news = select.poll(), select.poll()
        closing.register(self._closing, select.POLLIN)
        news.register(self._closing, select.POLLIN)
        news.register(self._socket, select.POLLIN)
        rest = 0
        while not closing.poll(rest):
            if not news.poll(0):
                rest = 0
                news.poll()
            if self._read():
                self._changed()
                rest = min(2 * rest or _REST, _LONGEST_REST)
            else:
                rest = 0

    def _read(self) -> bool:
        """Read all that has come; returns whether to look again.

        It ends even if events come faster: when the buffer is full the kernel drops them until it
        is empty. It says so once, and before: so look again only when all is read.
        """
        again = False
        while True:
            try:
                again = matters(self._socket.recv(_MESSAGE)) or again
            except BlockingIOError:
                return again
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                again = True


def matters(message: bytes) -> bool:
    """Whether an event may change which devices there are; what is not one in form does not.

    `add@/devices/...`, then `KEY=value` many times, a NUL after each.
    """
    event = _EVENT.match(message)
    return event is not None and event[1] not in _NO_DEVICES


def _listen() -> socket.socket:
    """Raises OSError: closed by seccomp or SELinux, not in this kernel, or nothing would come."""
    if _is_left_out():
        raise OSError("this network namespace has none: its user namespace is not the host's")
    kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    listening = socket.socket(socket.AF_NETLINK, kind, _KOBJECT_UEVENT)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        listening.bind((0, _FROM_KERNEL))
    except OSError:
        listening.close()
        raise
    return listening


def _is_left_out() -> bool:
    """Whether our network namespace is one that the kernel sends nothing to, as far as it says.

    Such a socket opens all the same, and stays silent: `hostUsers: false`, rootless nodes.
    """
    try:
        with open("/proc/self/ns/net", "rb") as namespace:
            owner = fcntl.ioctl(namespace, _NS_GET_USERNS)
    except OSError:  # EPERM: a user namespace above ours, the host's as a rule
        return False
    try:
        return os.fstat(owner).st_ino != _INITIAL_USER_NAMESPACE
    finally:
        os.close(owner)
