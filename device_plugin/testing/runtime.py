"""What a container runtime would make of the merged container config, or why it would refuse it.

Judges by what containerd and runc do (A10); nothing is created. Independent of the kubelet, so that
it can be used on its own.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from device_plugin.testing.container_config import ContainerConfig, DeviceConfig, MountConfig
from device_plugin.testing.injection import Cdi
from device_plugin.testing.records import RuntimeRefusal

_TYPES = {stat.S_IFCHR: "c", stat.S_IFBLK: "b", stat.S_IFIFO: "p"}
# What containerd leaves out when a device is a directory.
_SKIPPED_DIRECTORIES = frozenset({"pts", "shm", "fd", "mqueue", ".lxc", ".lxd-mounts", ".udev"})
_MOST_LINKS = 40


@dataclass(frozen=True, slots=True)
class CreatedDevice:
    """A device node inside the container."""

    container_path: str
    host_path: str  # as the plugin gave it; below it, for what a directory expanded to
    real_path: str  # links resolved, inside the root
    type: str  # "c", "b", "p"; "-" for a plain file that stands in for a node
    major: int
    minor: int
    permissions: str


@dataclass(frozen=True, slots=True)
class Created:
    """A container as it was created."""

    envs: dict[str, str]
    devices: tuple[CreatedDevice, ...]
    mounts: tuple[MountConfig, ...]
    annotations: dict[str, str]
    cdi_devices: tuple[str, ...]
    conflicts: tuple[str, ...]  # settings that lost, because another resource said otherwise
    remarks: tuple[str, ...]  # what works, but surely not as it was meant
    env_order: tuple[tuple[str, str], ...]  # as passed on: the Pod's own come last


class Runtime:
    """Creates containers on paper.

    `root` is put before host paths, and links are resolved inside it. With `files_as_devices` a
    plain file may stand in for a device node, because nodes cannot be made without privileges.
    With `cdi_directories` (host paths, for example /var/run/cdi) the edits of CDI devices are
    applied, and unknown ones are an error; without them, only the names' syntax is checked. CDI
    specs are read as JSON.
    """

    def __init__(
        self,
        root: str | Path = "/",
        *,
        files_as_devices: bool = False,
        cdi_directories: Sequence[str] = (),
    ) -> None:
        self._root = Path(root)
        self._files_as_devices = files_as_devices
        self._cdi = Cdi([self._local(directory) for directory in cdi_directories])

    def create(self, config: ContainerConfig) -> Created:
        remarks: list[str] = []
        config = self._cdi.inject(config, remarks)
        devices = [
            node for device in config.devices for node in self._create_device(device, remarks)
        ]
        for mount in config.mounts:
            self._check_mount(mount, remarks)
        paths = [device.container_path for device in devices]
        paths += [mount.container_path for mount in config.mounts]
        seen: set[str] = set()
        for path in map(os.path.normpath, paths):
            if path in seen:
                remarks.append(f"container path {path} is given more than once")
            seen.add(path)
        return Created(
            envs=dict(config.envs),
            devices=tuple(devices),
            mounts=tuple(config.mounts),
            annotations=dict(config.annotations),
            cdi_devices=tuple(config.cdi_devices),
            conflicts=tuple(config.conflicts),
            remarks=tuple(remarks),
            env_order=tuple(config.envs),
        )

    def resolve(self, path: str) -> str:
        """Follow links as a process would whose root is ours; what is missing stays as it is."""
        pending = path.split("/")[::-1]
        done: list[str] = []
        links = 0
        while pending:
            part = pending.pop()
            if part in ("", "."):
                continue
            if part == "..":
                del done[-1:]
                continue
            here = self._local("/" + "/".join([*done, part]))
            if not here.is_symlink():
                done.append(part)
                continue
            links += 1
            if links > _MOST_LINKS:
                raise RuntimeRefusal(f"failed to resolve {path}: too many links")
            target = str(here.readlink())
            if target.startswith("/"):
                done.clear()
            pending += target.split("/")[::-1]
        return "/" + "/".join(done)

    def _local(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    def _create_device(self, device: DeviceConfig, remarks: list[str]) -> Iterator[CreatedDevice]:
        _refuse_relative("device", device.host_path)
        if not device.container_path:
            remarks.append(f"device {device.host_path} has no container path: its own is used")
        else:
            _refuse_relative("device", device.container_path)
        if not device.permissions:
            raise RuntimeRefusal(
                f"device {device.host_path}: device access at 3 field cannot be empty"
            )
        strange = "".join(sorted(set(device.permissions) - set("rwm")))
        if strange:
            remarks.append(f"device {device.host_path}: permissions {strange!r} mean nothing")
        real = self.resolve(device.host_path)
        container_path = device.container_path or real
        if not self._local(real).exists():
            raise RuntimeRefusal(
                f"error gathering device information while adding custom device "
                f'"{device.host_path}": no such file or directory'
            )
        if self._local(real).is_dir():
            found = list(self._expand(device.host_path, real, container_path, device.permissions))
            if not found:
                remarks.append(f"device {device.host_path} is a directory without device nodes")
            yield from found
            return
        node = self._node(device.host_path, real, container_path, device.permissions)
        if node is None:
            raise RuntimeRefusal(f"{device.host_path} ({real}): not a device node")
        yield node

    def _expand(
        self, host_path: str, real: str, container_path: str, permissions: str
    ) -> Iterator[CreatedDevice]:
        """A directory stands for the nodes below it; links, pipes and files are passed over."""
        for entry in sorted(self._local(real).iterdir()):
            if entry.is_symlink() or entry.name == "console":
                continue
            host, here, inside = (
                f"{path}/{entry.name}" for path in (host_path, real, container_path)
            )
            if entry.is_dir():
                if entry.name not in _SKIPPED_DIRECTORIES:
                    yield from self._expand(host, here, inside, permissions)
                continue
            node = self._node(host, here, inside, permissions)
            if node is not None and node.type != "p":
                yield node

    def _node(
        self, host_path: str, real: str, container_path: str, permissions: str
    ) -> CreatedDevice | None:
        found = self._local(real).lstat()
        kind = _TYPES.get(stat.S_IFMT(found.st_mode))
        if kind is None and self._files_as_devices and stat.S_ISREG(found.st_mode):
            kind = "-"
        if kind is None:
            return None
        return CreatedDevice(
            container_path=container_path,
            host_path=host_path,
            real_path=real,
            type=kind,
            major=os.major(found.st_rdev),
            minor=os.minor(found.st_rdev),
            permissions=permissions,
        )

    def _check_mount(self, mount: MountConfig, remarks: list[str]) -> None:
        _refuse_relative("mount", mount.host_path)
        _refuse_relative("mount", mount.container_path)
        if not self._local(self.resolve(mount.host_path)).exists():
            remarks.append(
                f"mount {mount.host_path} does not exist: it would be created as a directory"
            )


def _refuse_relative(what: str, path: str) -> None:
    if not path.startswith("/"):
        raise RuntimeRefusal(f'{what} path "{path}" is not absolute')
