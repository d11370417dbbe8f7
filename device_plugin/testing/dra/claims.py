"""Preparing and unpreparing claims, in the kubelet's order and words (C2)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from device_plugin.testing.connections import Behaviour
from device_plugin.testing.dra.client import DriverClient, DriverError
from device_plugin.testing.dra.drivers import Drivers, NotRegisteredError
from device_plugin.testing.dra.records import ClaimRecord, Cluster, ClusterError
from device_plugin.testing.pods import Pod, PodClaim
from device_plugin.testing.state import State


class PrepareError(Exception):
    """The Pod stays Pending; the text is that of its event FailedPrepareDynamicResources."""


class UnprepareError(Exception):
    """The Pod stays terminating."""


class _Problem(Exception):  # noqa: N818 - it becomes one of the errors above
    """What the kubelet's DRA manager returns."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A claim of a Pod, as it was fetched."""

    record: ClaimRecord
    clients: Mapping[str, DriverClient]  # by driver


class Claims:
    """The kubelet's claims, by namespace and name: two UIDs of one name cannot be in here."""

    def __init__(
        self, state: State, drivers: Drivers, behaviour: Behaviour, cluster: Cluster | None
    ) -> None:
        self._state = state
        self.drivers = drivers
        self._behaviour = behaviour
        self._cluster = cluster
        self._records: dict[tuple[str, str], ClaimRecord] = {}

    def restart(self) -> None:
        """Forget what is not in the kubelet's file. The caller has the lock."""
        for record in self._records.values():
            record.prepared = record.unpreparing = False

    # --- reading ---

    def get(self, namespace: str, name: str) -> ClaimRecord | None:
        """Find a claim. The caller has the lock."""
        return self._records.get((namespace, name))

    def of_pod(self, uid: str) -> list[ClaimRecord]:
        """Find the claims that a Pod holds. The caller has the lock."""
        return [record for record in self._records.values() if uid in record.pods]

    def holders(self) -> set[str]:
        """Find the UIDs of all Pods that hold a claim. The caller has the lock."""
        return {uid for record in self._records.values() for uid in record.pods}

    # --- preparing ---

    def prepare(self, pod: Pod) -> None:
        """Prepare all claims of a Pod; what is prepared already, the driver is not asked for."""
        try:
            self._prepare(pod)
        except _Problem as problem:
            raise PrepareError(
                f"Failed to prepare dynamic resources: prepare dynamic resources: {problem}"
            ) from problem

    def _prepare(self, pod: Pod) -> None:
        # First all checks: a Pod that fails them has left nothing behind that must be undone.
        wanted = [self._wanted(pod, one) for one in pod.all_claims]
        pending = self._take_in(pod, wanted)
        batches = self._batches(pending)
        clients = {client.instance.endpoint: client for client in batches}
        for endpoint in self._state.shuffled(clients):
            self._prepare_batch(clients[endpoint], batches[clients[endpoint]])
        with self._state.changing():
            for one in pending:
                one.record.prepared = True

    def _wanted(self, pod: Pod, pod_claim: PodClaim) -> _Wanted:
        name = pod_claim.claim
        claim = self._fetch(pod.namespace, name)
        uid = claim["metadata"]["uid"]
        if pod_claim.template and not _is_owned(claim, pod):
            raise _Problem(
                f"ResourceClaim {pod.namespace}/{name} was not created for "
                f"Pod {pod.namespace}/{pod.name} (Pod is not owner)"
            )
        status = claim.get("status") or {}
        if pod.uid not in {one.get("uid") for one in status.get("reservedFor", ())}:
            raise _Problem(
                f"pod {pod.name} ({pod.uid}) is not allowed to use ResourceClaim {name} ({uid})"
            )
        if "allocation" not in status:
            raise _Problem(f"ResourceClaim {name}: not allocated")
        results = status["allocation"].get("devices", {}).get("results", ())
        drivers: dict[str, Any] = {result["driver"]: [] for result in results}
        record = ClaimRecord(pod.namespace, name, uid, drivers)
        return _Wanted(record, {driver: self._client(driver) for driver in drivers})

    def _fetch(self, namespace: str, name: str) -> Any:  # noqa: ANN401
        if self._cluster is None:
            raise RuntimeError("no API server: FakeKubelet(directory, root=..., cluster=...)")
        try:
            return self._cluster.claim(namespace, name)
        except ClusterError as error:
            raise _Problem(f"fetch ResourceClaim {name}: {error}") from error

    def _client(self, driver: str) -> DriverClient:
        try:
            return self.drivers.get(driver)
        except NotRegisteredError as error:
            raise _Problem(str(error)) from error

    def _take_in(self, pod: Pod, wanted: Sequence[_Wanted]) -> list[_Wanted]:
        """Write down that the Pod holds the claims, before any call; returns what to prepare."""
        pending = []
        with self._state.changing():
            for one in wanted:
                key = (one.record.namespace, one.record.name)
                known = self._records.setdefault(key, one.record)
                if known.uid != one.record.uid:
                    raise _Problem(
                        f"old ResourceClaim with same name {known.name} and different UID "
                        f"{known.uid} still exists (previous pod force-deleted?!)"
                    )
                if known.unpreparing and self._behaviour != "1.36":
                    raise _Problem(f"ResourceClaim {known.name} is being unprepared")
                known.pods.add(pod.uid)
                if not known.prepared:
                    pending.append(_Wanted(known, one.clients))
        return pending

    def _batches(self, pending: Sequence[_Wanted]) -> dict[DriverClient, list[ClaimRecord]]:
        batches: dict[DriverClient, list[ClaimRecord]] = {}
        for one in pending:
            for client in one.clients.values():
                batches.setdefault(client, []).append(one.record)
        return batches

    def _prepare_batch(self, client: DriverClient, claims: Sequence[ClaimRecord]) -> None:
        """Call one driver; the first thing that is wrong ends all."""
        try:
            answers = client.prepare(claims)
        except DriverError as error:
            raise _Problem(f"NodePrepareResources: {error}") from error

        def take(record: ClaimRecord) -> None:
            driver = client.instance.driver
            with self._state.changing():
                before = record.drivers.get(driver, []) if self._behaviour == "1.36" else []
                record.drivers[driver] = [*before, *answers[record.uid][0]]

        errors = {uid: error for uid, (_, error) in answers.items()}
        self._check("NodePrepareResources", claims, errors, take)

    def _check(
        self,
        method: str,
        claims: Sequence[ClaimRecord],
        errors: Mapping[str, str],
        take: Callable[[ClaimRecord], None],
    ) -> None:
        """Go through an answer, in no order."""
        known = {record.uid: record for record in claims}
        for uid in self._state.shuffled(errors):
            if uid not in known:
                raise _Problem(f"{method} returned result for unknown claim UID {uid}")
            if errors[uid]:
                name = known[uid].name
                raise _Problem(f"{method} failed for ResourceClaim {name}: {errors[uid]}")
            take(known[uid])
        skipped = len(claims) - len(errors)
        if skipped:
            raise _Problem(f"{method} skipped {skipped} ResourceClaims")

    # --- unpreparing ---

    def unprepare(self, uid: str) -> None:
        """Let go of all that a Pod holds; drivers are asked for what no other Pod holds."""
        try:
            self._unprepare(uid)
        except _Problem as problem:
            raise UnprepareError(f"unprepare dynamic resources: {problem}") from problem

    def _unprepare(self, uid: str) -> None:
        last: list[ClaimRecord] = []
        batches: dict[str, list[ClaimRecord]] = {}
        with self._state.changing():
            for record in self.of_pod(uid):
                if len(record.pods) > 1:
                    record.pods.discard(uid)
                    continue
                record.unpreparing = True
                last.append(record)
                for driver in record.drivers:
                    batches.setdefault(driver, []).append(record)
        for driver in self._state.shuffled(batches):
            self._unprepare_batch(self._client(driver), batches[driver])
        with self._state.changing():
            for record in last:
                self._records.pop((record.namespace, record.name), None)

    def _unprepare_batch(self, client: DriverClient, claims: Sequence[ClaimRecord]) -> None:
        try:
            errors = client.unprepare(claims)
        except DriverError as error:
            raise _Problem(f"NodeUnprepareResources: {error}") from error
        self._check("NodeUnprepareResources", claims, errors, lambda _: None)

    # --- containers ---

    def cdi_devices(self, pod: Pod, container: str) -> list[str]:
        """Return the CDI devices of a container: those of all requests that it names."""
        found: list[str] = []
        with self._state.condition:
            for claim, request in pod.requests_of(container):
                record = self._records.get((pod.namespace, claim))
                if record is None:
                    raise KeyError(
                        f"internal error: unable to get claim info for ResourceClaim {claim} "
                        f"in namespace {pod.namespace}"
                    )
                for devices in record.drivers.values():
                    for device in devices:
                        if not request or not device.requests or request in device.requests:
                            found += device.cdi_devices
        return found


def _is_owned(claim: Any, pod: Pod) -> bool:  # noqa: ANN401
    owners = claim["metadata"].get("ownerReferences", ())
    return any(one.get("uid") == pod.uid and one.get("controller") for one in owners)
