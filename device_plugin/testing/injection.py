"""Container Device Interface: what a runtime makes of CDI device names (A10)."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from device_plugin.testing.container_config import ContainerConfig, DeviceConfig, MountConfig
from device_plugin.testing.records import RuntimeRefusal

_CDI_NAME = re.compile(
    r"(?P<kind>[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?/[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?)"
    r"=(?P<name>[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?)"
)


@dataclass(frozen=True, slots=True)
class _Device:
    file: str
    edits: dict[str, Any]
    common: dict[str, Any]  # of the whole file, applied once


class Cdi:
    """Reads specs anew for every container. Without directories it judges names only."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = directories

    def inject(self, config: ContainerConfig, remarks: list[str]) -> ContainerConfig:
        """Apply the edits of all CDI devices; they win over what was there, be it the Pod's own."""
        for name in config.cdi_devices:
            if not _CDI_NAME.fullmatch(name):
                raise RuntimeRefusal(f'CDI device injection failed: invalid device name "{name}"')
        if not self._directories:
            return config
        known = self._known(remarks)
        wanted = list(dict.fromkeys(config.cdi_devices))
        unknown = sorted(set(wanted) - known.keys())
        if unknown:
            raise RuntimeRefusal(
                f"CDI device injection failed: unresolvable CDI devices {', '.join(unknown)}"
            )
        devices = [known[name] for name in wanted]
        common = {device.file: device.common for device in devices}
        return _edited(config, [*common.values(), *(device.edits for device in devices)])

    def _known(self, remarks: list[str]) -> dict[str, _Device]:
        """Read all specs; a later directory wins, two files in one directory make a conflict."""
        known: dict[str, _Device] = {}
        for directory in self._directories:
            here: dict[str, list[_Device]] = {}
            for file in sorted(directory.glob("*.json")):
                try:
                    found = list(_devices(file))
                except (OSError, ValueError, KeyError, TypeError) as error:
                    remarks.append(f"CDI spec {file.name} is ignored: {error}")
                    continue
                for name, device in found:
                    here.setdefault(name, []).append(device)
            for name, devices in here.items():
                known.pop(name, None)
                if len(devices) == 1:
                    known[name] = devices[0]
                else:
                    files = ", ".join(Path(device.file).name for device in devices)
                    remarks.append(f"CDI device {name} is ignored: it is in {files}")
        return known


def _devices(file: Path) -> Iterator[tuple[str, _Device]]:
    spec = json.loads(file.read_text(encoding="utf-8"))
    if not spec["cdiVersion"]:
        raise ValueError("it has no version")
    for device in spec["devices"]:
        if not device.get("containerEdits"):
            raise ValueError("invalid device, empty device edits")
        name = f"{spec['kind']}={device['name']}"
        if not _CDI_NAME.fullmatch(name):
            raise ValueError(f"invalid device name {name}")
        yield name, _Device(str(file), device["containerEdits"], spec.get("containerEdits", {}))


def _edited(config: ContainerConfig, edits: Iterable[dict[str, Any]]) -> ContainerConfig:
    envs = dict(config.envs)
    devices = {device.container_path: device for device in config.devices}
    mounts = {mount.container_path: mount for mount in config.mounts}
    for edit in edits:
        for pair in edit.get("env", ()):
            key, _, value = pair.partition("=")
            envs.pop(key, None)
            envs[key] = value
        for node in edit.get("deviceNodes", ()):
            path = node["path"]
            host, permissions = node.get("hostPath") or path, node.get("permissions") or "rwm"
            devices[path] = DeviceConfig(path, host, permissions)
        for mount in edit.get("mounts", ()):
            path, read_only = mount["containerPath"], "ro" in mount.get("options", ())
            mounts[path] = MountConfig(path, mount["hostPath"], read_only)
    return replace(
        config,
        envs=list(envs.items()),
        devices=list(devices.values()),
        mounts=list(mounts.values()),
    )
