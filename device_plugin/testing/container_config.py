"""What the kubelet hands to the container runtime."""

from dataclasses import dataclass, field
from typing import NamedTuple


class DeviceConfig(NamedTuple):
    container_path: str
    host_path: str
    permissions: str


class MountConfig(NamedTuple):
    container_path: str
    host_path: str
    read_only: bool


@dataclass(slots=True)
class ContainerConfig:
    """What the kubelet hands to the runtime: all resources merged (A10)."""

    envs: list[tuple[str, str]] = field(default_factory=list)  # in order: the last one wins
    devices: list[DeviceConfig] = field(default_factory=list)
    mounts: list[MountConfig] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)
    cdi_devices: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)  # as the kubelet would log them
