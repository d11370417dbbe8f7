"""What the kubelet remembers of devices' health (C3). The caller has the lock."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from device_plugin.testing.dra.records import DeviceHealth, DraTimes

UNKNOWN = DeviceHealth("Unknown")
Key = tuple[str, str]  # pool, device


@dataclass(frozen=True, slots=True)
class _Entry:
    said: DeviceHealth
    timeout: float  # seconds
    at: float  # time.monotonic() of the kubelet: the driver's clock does not count

    @property
    def is_old(self) -> bool:
        return time.monotonic() - self.at > self.timeout


class HealthCache:
    """Survives the kubelet's restarts, as its file does."""

    def __init__(self, times: DraTimes) -> None:
        self._times = times
        self._drivers: dict[str, dict[Key, _Entry]] = {}

    def update(self, driver: str, devices: Mapping[Key, tuple[str, str, int]]) -> None:
        """Take a list in. A device that it lacks stays until its time is over."""
        known = self._drivers.setdefault(driver, {})
        now = time.monotonic()
        for key, (health, message, timeout) in devices.items():
            seconds = timeout if timeout > 0 else self._times.health_timeout
            known[key] = _Entry(DeviceHealth(health, message), seconds, now)
        for key in [key for key, entry in known.items() if key not in devices and entry.is_old]:
            del known[key]

    def clear(self, driver: str) -> None:
        """Forget a driver: one of its streams has ended, be there another or not."""
        self._drivers.pop(driver, None)

    def of(self, driver: str, pool: str, device: str) -> DeviceHealth:
        entry = self._drivers.get(driver, {}).get((pool, device))
        return UNKNOWN if entry is None or entry.is_old else entry.said

    def all_of(self, driver: str) -> dict[Key, DeviceHealth]:
        return {key: self.of(driver, *key) for key in self._drivers.get(driver, {})}
