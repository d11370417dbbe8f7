"""Dynamic Resource Allocation, as far as the config asks for it: loaded only then, tried again.

Whatever keeps it from working costs no other resource anything.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import structlog

from device_plugin.config import Config
from device_plugin.dra.place import CLAIMS, Place
from device_plugin.inventory import Inventory

if TYPE_CHECKING:
    from device_plugin.dra.checkpoint import Prepared
    from device_plugin.dra.driver import Driver

_AGAIN = 10.0  # seconds between attempts
_NOTHING: Mapping[str, str] = MappingProxyType({})

_log = structlog.get_logger()


class Dynamic:
    """The driver, once there is need of one.

    `follow` and `stop` are called on the daemon's loop, what it says of itself by any thread.
    """

    def __init__(
        self,
        place: Place,
        inventory: Inventory,
        changed: Callable[[], None],
        handed_out: Callable[[str], bool],
    ) -> None:
        """`changed` is called, on any thread, when claims may hold other devices.

        handed_out: whether a container may have a device by the device plugin.
        """
        self._place = place
        self._inventory = inventory
        self._changed = changed
        self._handed_out = handed_out
        self._driver: Driver | None = None
        self._problem = ""
        self._try_at = 0.0
        self._needed = False
        # Only this process writes it, by the driver.
        self._were_claims = (place.state_dir / CLAIMS).exists()
        self._left: Sequence[Prepared] = self._of_earlier_processes()

    def follow(self, config: Config) -> None:
        """Offer what the inventory has of the resources with `api: dra`."""
        try:
            self._follow(config)
        except Exception as error:  # noqa: BLE001 - a bug must not cost the other resources anything
            if self._driver is None:
                self._try_at = time.monotonic() + _AGAIN
            if not self._problem.endswith(repr(error)):
                _log.exception("DRA failed unexpectedly")
            self._problem = f"DRA failed, please report: {error!r}"

    def _follow(self, config: Config) -> None:
        offered = any(resource.api == "dra" for resource in config.resources)
        # Of claims that were forgotten only the driver knows.
        self._needed = offered or self._were_claims
        if self._driver is None and self._needed:
            self._start(config)
        if self._driver is None:
            return
        self._left = ()  # it knows them
        self._driver.follow(config)
        if config.dra is not None and config.dra.driver != self._driver.name:
            name = self._driver.name
            self._say(f"`dra.driver` is still {name}: drain the node of its claims, then restart")
        else:
            self._say("")

    @property
    def prepared(self) -> Sequence["Prepared"]:
        """The claims that have something, whoever prepared them."""
        return self._driver.prepared if self._driver is not None else self._left

    def held(self) -> Mapping[str, str]:
        """The devices that claims have, and the resource of each."""
        if not self.prepared:
            return _NOTHING
        from device_plugin.dra.checkpoint import held  # noqa: PLC0415 - see above

        return held(self.prepared)

    def holders(self) -> Mapping[str, Sequence[str]]:
        """Namespace and name of the claims that have each device."""
        if not self.prepared:
            return {}
        from device_plugin.dra.checkpoint import holders  # noqa: PLC0415

        return holders(self.prepared)

    @property
    def standing(self) -> tuple[bool, bool] | None:
        """Whether the kubelet knows the driver, the cluster the devices; None: no need of it."""
        if self._driver is not None:
            return self._driver.registered, self._driver.in_step
        return (False, False) if self._needed else None

    @property
    def folders(self) -> Sequence[str]:
        """Where a change may concern the driver."""
        return self._driver.folders if self._driver is not None else ()

    @property
    def problems(self) -> list[str]:
        """Why Pods may not get devices by claims."""
        there = [self._problem] if self._problem else []
        return there + (self._driver.problems if self._driver is not None else [])

    def wake(self) -> None:
        """Look at the facts again."""
        if self._driver is not None:
            self._driver.wake()

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.stop()

    def _of_earlier_processes(self) -> Sequence["Prepared"]:
        """The claims in the state folder: their devices are taken, whatever the config says."""
        if not self._were_claims:
            return ()
        from device_plugin.dra.checkpoint import glimpse  # noqa: PLC0415

        return glimpse(self._place.state_dir)

    def _start(self, config: Config) -> None:
        now = time.monotonic()
        if config.dra is None and self._left:
            names = sorted({claim.driver for claim in self._left})
            self._say(
                f"{len(self._left)} claims of {', '.join(names)} are prepared, and the config has"
                " no `dra`: put it back until they are gone"
            )
        if config.dra is None or now < self._try_at:
            return
        from device_plugin.dra.driver import CannotServe, Driver  # noqa: PLC0415 - see above

        try:
            self._driver = Driver(
                config.dra, self._place, self._inventory, self._changed, self._handed_out
            )
        except CannotServe as why:
            self._try_at = now + _AGAIN
            self._say(str(why))

    def _say(self, problem: str) -> None:
        """Log it once, for as long as it is the problem."""
        if problem != self._problem:
            self._problem = problem
            if problem:
                _log.error("not all is well with DRA", reason=problem)
