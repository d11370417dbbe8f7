"""DRA as the daemon has it: what is offered is published, and claims of it are served.

Made only where a resource is offered by DRA, or a claim of an earlier process is still prepared.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from device_plugin.config import Config, Dra
from device_plugin.dra.checkpoint import Unusable
from device_plugin.dra.claims import Claims
from device_plugin.dra.cluster import ApiError, Cluster
from device_plugin.dra.offer import Offer
from device_plugin.dra.publisher import Publisher
from device_plugin.dra.service import Service
from device_plugin.host import Host
from device_plugin.inventory import Inventory


class CannotServe(Exception):  # noqa: N818 - one line for the log and /readyz
    """Why nothing can be offered by DRA, and what to do."""


class Driver:
    """Serves from construction to `stop`. Called on the daemon's loop, but for `held`."""

    def __init__(
        self,
        dra: Dra,
        *,
        node: str,
        kubeconfig: Path | None,
        kubelet_root: Path,
        state_dir: Path,
        cdi_dir: Path,
        host: Host,
        inventory: Inventory,
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called when claims may hold other devices. Raises CannotServe."""
        self.name = dra.driver
        self._inventory = inventory
        self._offers: Sequence[Offer] = ()
        self._unhealthy = ""
        self._cluster = _cluster(node, kubeconfig)
        try:
            self._claims = Claims(
                offers=lambda: self._offers,
                cluster=self._cluster,
                driver=dra.driver,
                pool=node,
                state_dir=state_dir,
                cdi_dir=cdi_dir,
                host=host,
                changed=changed,
            )
        except Unusable as why:
            raise CannotServe(str(why)) from None
        self._service = Service(
            claims=self._claims,
            offers=lambda: self._offers,
            driver=dra.driver,
            pool=node,
            kubelet_root=kubelet_root,
        )
        self._publisher = Publisher(self._cluster, dra.driver, node)
        self._started = False

    def follow(self, config: Config) -> None:
        """Offer what the inventory has of the config's resources."""
        offers = tuple(
            Offer(resource, self._inventory.snapshot(resource.name))
            for resource in config.resources
            if resource.api == "dra"
        )
        unhealthy = config.dra.unhealthy if config.dra is not None else self._unhealthy
        if self._started and _same(offers, self._offers) and unhealthy == self._unhealthy:
            self._service.wake()  # what links lead to may be another
            return
        self._offers, self._unhealthy = offers, unhealthy
        self._publisher.publish(offers, unhealthy)
        if not self._started:
            self._started = True
            self._publisher.start()
            self._service.start()
        self._service.news()

    def held(self) -> Mapping[str, str]:
        """The devices that claims have, and the resource of each."""
        return self._claims.held()

    def claims(self) -> Mapping[str, Sequence[str]]:
        """Namespace and name of the claims that have each device."""
        found: dict[str, list[str]] = {}
        for claim in self._claims.prepared:
            for device in dict.fromkeys(one.device for one in claim.devices if not one.admin):
                found.setdefault(device, []).append(f"{claim.namespace}/{claim.name}")
        return found

    @property
    def folders(self) -> list[str]:
        """Where a change may concern us: `wake` then."""
        return [os.fspath(folder) for folder in self._service.folders]

    def wake(self) -> None:
        """Look at the facts again."""
        self._service.wake()

    @property
    def problems(self) -> list[str]:
        """What keeps Pods from getting their devices, and what the cluster was not told."""
        problems = [self._service.problem, self._publisher.problem]
        return [problem for problem in problems if problem]

    @property
    def notes(self) -> Sequence[str]:
        """What is left out of the slices, and why."""
        return self._publisher.notes

    @property
    def idle(self) -> bool:
        """Nothing is offered, and no claim has anything."""
        return not self._offers and not self._claims.prepared

    def stop(self) -> None:
        """Take the sockets away; the slices stay, until the kubelet finds that nobody is back."""
        self._service.stop()
        self._publisher.stop()
        if self._started:
            self._service.join()
        self._cluster.close()


def _same(some: Sequence[Offer], others: Sequence[Offer]) -> bool:
    """Snapshots are the same objects where nothing is new: 10,000 devices need no comparison."""
    return len(some) == len(others) and all(
        one.snapshot is other.snapshot and one.resource == other.resource
        for one, other in zip(some, others, strict=True)
    )


def _cluster(node: str, kubeconfig: Path | None) -> Cluster:
    if not node:
        raise CannotServe("`api: dra` needs --node-name: the name of this node in the cluster")
    try:
        from device_plugin.dra.client import connect  # noqa: PLC0415 - only here is it needed
    except ImportError as error:
        raise CannotServe(
            f"`api: dra` needs the extra `kubernetes` ({error}): pip install"
            " 'device-plugin[kubernetes]'"
        ) from None
    try:
        return connect(kubeconfig)
    except ApiError as error:
        raise CannotServe(str(error)) from None
