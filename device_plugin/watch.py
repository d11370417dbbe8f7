"""Kernel events (inotify) that say only: look again.

watchdog's `InotifyFD` is used directly, below its observers: one thread and one inotify instance
for all folders, no half-second wait to pair renames, and a word when a watch is lost or the queue
overflows. Events are hints; the audit is the truth.
"""

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterable

import structlog
from watchdog.observers.inotify_c import (
    CallbackId,
    InotifyConstants,
    InotifyEvent,
    InotifyFD,
    Mask,
    WatchDescriptor,
)

_MASK = Mask(
    InotifyConstants.IN_CREATE
    | InotifyConstants.IN_DELETE
    | InotifyConstants.IN_MOVED_FROM
    | InotifyConstants.IN_MOVED_TO
    | InotifyConstants.IN_MOVE_SELF
    | InotifyConstants.IN_DELETE_SELF
    | InotifyConstants.IN_ONLYDIR
    | 0x20000000  # IN_MASK_ADD: two clients may watch one folder, and neither is to lose its events
)
_log = structlog.get_logger()


class Watch:
    """One inotify instance; `Folders` are its clients."""

    def __init__(self) -> None:
        self.inotify: InotifyFD | None = None
        self._warned: set[str] = set()

    def open(self) -> bool:
        """Whether there is an inotify instance, made now if need be."""
        if self.inotify is None:
            try:
                self.inotify = InotifyFD()
                self.inotify.start()
            except OSError as error:
                self.warn_once(error)
        return self.inotify is not None

    def close(self) -> None:
        if self.inotify is not None:
            self.inotify.stop()
            self.inotify.join()

    def warn_once(self, error: OSError | str) -> None:
        """Say what is not watched; the same reason only once."""
        if str(error) not in self._warned:
            self._warned.add(str(error))
            limit = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EMFILE)
            hint = " (sysctl fs.inotify)" if limit else ""
            _log.warning(
                "not all folders are watched, the audit looks instead", error=f"{error}{hint}"
            )


class Folders:
    """A set of watched folders that changes with what its owner looks at.

    `changed` runs on inotify's thread, and must only pass the word on.
    """

    def __init__(
        self, watch: Watch, changed: Callable[[], None], *, contents: bool = False
    ) -> None:
        """contents: files that were written to count as well."""
        self._watch = watch
        self._changed = changed
        self._mask = Mask(_MASK | InotifyConstants.IN_CLOSE_WRITE) if contents else _MASK
        self._id = CallbackId(id(self))
        self._lock = threading.Lock()
        self._watched: dict[Inode, WatchDescriptor] = {}

    def set(self, folders: Iterable[str]) -> bool:
        """Watch exactly these; one that does not exist by its nearest existing ancestor.

        Returns whether a watch is new: what happened before it must then be looked for.
        """
        if not self._watch.open():
            return False
        wanted = dict(map(_nearest, folders))
        with self._lock:
            for inode in self._watched.keys() - wanted.keys():
                self._remove(self._watched.pop(inode))
            new = wanted.keys() - self._watched.keys()
            added = [self._add(inode, wanted[inode]) for inode in new]
        return any(added)

    def on_event(self, event: InotifyEvent) -> None:
        """Called by watchdog for each event of a watched folder."""
        if event.is_move_self:
            self.on_watch_deleted(event.wd)
        else:
            self._changed()

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:
        """Called by watchdog when a watched folder is no more."""
        with self._lock:  # the watch may be so new that it is not noted yet
            for inode in [inode for inode, known in self._watched.items() if known == wd]:
                self._remove(self._watched.pop(inode))
        self._changed()

    def on_queue_overflow(self) -> None:
        """Called by watchdog when the kernel dropped events."""
        self._watch.warn_once("inotify queue overflow")
        self._changed()

    def _add(self, inode: "Inode", folder: str) -> bool:
        """Returns whether to look again: the watch is new, or the folder is another one by now."""
        try:
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError as error:  # EACCES among them, which watchdog passes over in silence
            self._watch.warn_once(error)
            return False
        try:
            if _inode(os.fstat(opened)) != inode:
                return True
            self._watched[inode] = self._watch_open_folder(opened)
        except OSError as error:
            self._watch.warn_once(error)
            return False
        finally:
            os.close(opened)
        return True

    def _watch_open_folder(self, opened: int) -> WatchDescriptor:
        # By its path it might be another folder again, one that is watched already.
        assert self._watch.inotify is not None  # noqa: S101 - set() has asked
        path = f"/proc/self/fd/{opened}".encode()
        return self._watch.inotify.add_callback(path, self._mask, self, self._id)

    def _remove(self, descriptor: WatchDescriptor) -> None:
        if self._watch.inotify is not None:
            self._watch.inotify.remove_callbacks([(descriptor, self._id)])


Inode = tuple[int, int]


def _nearest(folder: str) -> tuple[Inode, str]:
    """Which folder it is (device, inode), or the nearest ancestor that exists; and its path."""
    while True:
        try:
            status = os.stat(folder)
        except OSError:
            status = None
        if status is not None and stat.S_ISDIR(status.st_mode):
            return _inode(status), folder
        folder = os.path.dirname(folder) or "/"


def _inode(status: os.stat_result) -> Inode:
    return status.st_dev, status.st_ino
