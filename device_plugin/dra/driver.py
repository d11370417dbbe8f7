"""DRA as the daemon has it: what is offered is published, and claims of it are served.

Made only where a resource is offered by DRA, or a claim of an earlier process is still prepared.
"""

import os
from collections.abc import Callable, Sequence

from device_plugin.config import Config, Dra
from device_plugin.dra.checkpoint import Prepared, Unusable
from device_plugin.dra.claims import Claims
from device_plugin.dra.cluster import ApiError, Cluster
from device_plugin.dra.offer import Offer
from device_plugin.dra.place import Place
from device_plugin.dra.publisher import Publisher
from device_plugin.dra.service import Service
from device_plugin.inventory import Inventory


class CannotServe(Exception):  # noqa: N818 - one line for the log and /readyz
    """Why nothing can be offered by DRA, and what to do."""


class Driver:
    """Serves from its first `follow` to `stop`. What it says of itself any thread may ask."""

    def __init__(
        self,
        dra: Dra,
        place: Place,
        inventory: Inventory,
        changed: Callable[[], None],
        handed_out: Callable[[str], bool],
    ) -> None:
        """`changed` is called when claims may hold other devices. Raises CannotServe.

        handed_out: whether a container may have a device by the device plugin.
        """
        self.name = dra.driver
        self._inventory = inventory
        self._offers: Sequence[Offer] = ()
        self._unhealthy = ""
        self._cluster = _cluster(place)
        try:
            self._claims = Claims(
                offers=lambda: self._offers,
                cluster=self._cluster,
                driver=dra.driver,
                pool=place.node,
                state_dir=place.state_dir,
                cdi_dir=place.cdi_dir,
                host=place.host,
                changed=changed,
                handed_out=handed_out,
            )
        except Unusable as why:
            raise CannotServe(str(why)) from None
        self._publisher = Publisher(
            self._cluster, dra.driver, place.node, known=lambda: self._service.known
        )
        self._service = Service(
            claims=self._claims,
            offers=lambda: self._offers,
            driver=dra.driver,
            pool=place.node,
            kubelet_root=place.kubelet_root,
            # Not before: a Pod that is scheduled first finds no driver, and waits for a minute or
            # more until the kubelet tries again.
            on_registered=self._publisher.start,
        )
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
            self._service.start()
        self._service.news()

    @property
    def prepared(self) -> Sequence[Prepared]:
        """The claims that have something."""
        return self._claims.prepared

    @property
    def folders(self) -> list[str]:
        """Where a change may concern us: `wake` then."""
        return [os.fspath(folder) for folder in self._service.folders]

    def wake(self) -> None:
        """Look at the facts again."""
        self._service.wake()

    @property
    def registered(self) -> bool:
        """Whether the kubelet has claims prepared by us."""
        return self._service.registered

    @property
    def in_step(self) -> bool:
        """Whether the cluster knows what there is."""
        return not self._publisher.problem

    @property
    def problems(self) -> list[str]:
        """What keeps Pods from getting their devices, and what the cluster was not told."""
        problems = [self._service.problem, self._publisher.problem]
        return [problem for problem in problems if problem]

    def stop(self) -> None:
        """Take the sockets away; the slices stay, until the kubelet finds that nobody is back."""
        self._service.stop()
        if self._started:
            self._service.join()
        self._publisher.stop()
        self._cluster.close()


def _same(some: Sequence[Offer], others: Sequence[Offer]) -> bool:
    """Snapshots are the same objects where nothing is new: 10,000 devices need no comparison."""
    return len(some) == len(others) and all(
        one.snapshot is other.snapshot and one.resource == other.resource
        for one, other in zip(some, others, strict=True)
    )


def _cluster(place: Place) -> Cluster:
    if not place.node:
        raise CannotServe(
            "`api: dra` needs --node-name, this node's name in the cluster: in a Pod the component"
            " manifests/components/dra (Helm: dra.enabled) gives it"
        )
    try:
        from device_plugin.dra.client import connect  # noqa: PLC0415 - only here is it needed
    except ImportError as error:
        raise CannotServe(
            f"`api: dra` needs the extra `kubernetes` ({error}): pip install '.[kubernetes]' in"
            " this project's folder"
        ) from None
    try:
        return connect(place.kubeconfig)
    except ApiError as error:
        raise CannotServe(str(error)) from None
