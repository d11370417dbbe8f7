"""Pods with claims: prepared before they start, unprepared before they are gone (C2)."""

import contextlib
import threading
from collections.abc import Callable

from device_plugin.testing.admission import Admission
from device_plugin.testing.allocation import Allocator
from device_plugin.testing.containers import Containers
from device_plugin.testing.dra.claims import Claims, PrepareError, UnprepareError
from device_plugin.testing.dra.records import (
    ClaimCall,
    ClaimRecord,
    DeviceHealth,
    HealthReport,
    Instance,
    PreparedDevice,
    Wipe,
)
from device_plugin.testing.pods import Pod, PodRecord
from device_plugin.testing.records import ContainerError
from device_plugin.testing.runtime import Created
from device_plugin.testing.state import State

_JITTER = 0.5  # of a period, on top of it


class Claiming(Admission):
    """What one can do with Pods that have claims, and see of DRA drivers."""

    def __init__(
        self, state: State, allocator: Allocator, containers: Containers, claims: Claims
    ) -> None:
        super().__init__(state, allocator, containers)
        self._claims = claims
        self._drivers = claims.drivers
        self._times = claims.drivers.times
        self._threads: list[threading.Thread] = []

    # --- Pods ---

    def prepare(self, pod: Pod) -> None:
        """Prepare a Pod's claims once, as when its sandbox is about to be made.

        PrepareError has the text of the Pod's event, which is noted in its status too.
        """
        self._require_running()
        record = self._active(pod)
        try:
            self._claims.prepare(pod)
        except PrepareError as error:
            with self._state.changing():
                record.events.append(f"FailedPrepareDynamicResources: {error}")
            raise
        with self._state.changing():
            record.sandbox = True

    def create_container(self, pod: Pod, name: str) -> Created:
        """Create a container, after the Pod's claims were prepared: PrepareError if they cannot."""
        if not self._active(pod).sandbox:
            self.prepare(pod)
        return super().create_container(pod, name)

    def run_pod(self, pod: Pod) -> Pod:
        """Admit a Pod, and go on trying to start all its containers until they run (C2)."""
        self.admit(pod)
        with self._state.changing():
            record = self._state.pods[pod.uid]
            record.wanted = True
            generation = self._state.generation
        self._run(self._keep_starting, record, generation)
        return pod

    def lose_sandbox(self, pod: Pod) -> None:
        """Let a Pod's sandbox die: all containers end, and the next one needs a new sandbox."""
        record = self._active(pod)
        with self._state.changing():
            record.sandbox = False
            for status in record.containers.values():
                status.state = "terminated"

    def remove(self, pod: Pod) -> None:
        """End a Pod; one with claims is terminating until a driver has unprepared them (C2)."""
        with self._state.changing():
            record = self._state.pods[pod.uid]
            record.terminating, record.wanted = True, False
            for status in record.containers.values():
                status.state = "terminated"
            if not self._claims.of_pod(pod.uid):
                record.removed = True
                return
            generation, running = self._state.generation, self._state.running
        if running:
            self._run(self._keep_terminating, record, generation)

    def force_delete(self, pod: Pod) -> None:
        """Let a Pod vanish at once: its claims are let go of at the next `reconcile`."""
        with self._state.changing():
            self._state.pods[pod.uid].removed = True

    def reconcile(self) -> None:
        """Unprepare what only Pods hold that are gone, as the kubelet does every minute."""
        with self._state.condition:
            gone = self._claims.holders() - self._present() if self._state.sources_ready else set()
        for uid in self._state.shuffled(gone):
            with contextlib.suppress(UnprepareError):
                self._claims.unprepare(uid)

    # --- what there is to see ---

    def drivers(self, driver: str) -> list[Instance]:
        """Return the registered instances of a driver, the latest last (C1)."""
        self._state.check()
        return self._drivers.instances(driver)

    @property
    def claim_calls(self) -> list[ClaimCall]:
        """Every call to prepare or unprepare, over kubelet restarts too."""
        self._state.check()
        with self._state.condition:
            return list(self._drivers.calls)

    @property
    def health_reports(self) -> list[HealthReport]:
        """Every message of a health stream, over kubelet restarts too (C3)."""
        with self._state.condition:
            return list(self._drivers.reports)

    @property
    def wipes(self) -> list[Wipe]:
        """Every time that the kubelet deleted ResourceSlices (C1)."""
        with self._state.condition:
            return list(self._drivers.wiped)

    def claim_record(self, name: str, namespace: str = "default") -> ClaimRecord | None:
        """Return what the kubelet knows of a claim; treat it as read only."""
        with self._state.condition:
            return self._claims.get(namespace, name)

    def prepared(self, pod: Pod, driver: str) -> list[PreparedDevice]:
        """Return a driver's devices of all claims that a Pod holds."""
        with self._state.condition:
            records = self._claims.of_pod(pod.uid)
            return [one for record in records for one in record.drivers.get(driver, ())]

    def device_health(self, driver: str) -> dict[tuple[str, str], DeviceHealth]:
        """Return the health of a driver's devices, by pool and device, as of now (C3)."""
        with self._state.condition:
            return self._drivers.health.all_of(driver)

    def claim_health(self, pod: Pod, name: str) -> dict[str, dict[str, DeviceHealth]]:
        """Return what a container's status would say now: claim, resource ID, health (C3)."""
        found: dict[str, dict[str, DeviceHealth]] = {}
        claims = {one.name: one.claim for one in pod.claims}
        with self._state.condition:
            for wanted in pod.container(name).claims:
                record = self._claims.get(pod.namespace, claims[wanted.name])
                if record is not None:
                    key = f"claim:{wanted.name}" + (f"/{wanted.request}" if wanted.request else "")
                    found[key] = self._health_of(record, wanted.request)
        return {key: devices for key, devices in found.items() if devices}

    def _health_of(self, record: ClaimRecord, request: str) -> dict[str, DeviceHealth]:
        found: dict[str, DeviceHealth] = {}
        base = request.partition("/")[0]
        for driver, devices in record.drivers.items():
            for one in devices:
                if not base or not one.requests or base in one.requests:
                    own = f"{driver}/{one.pool}/{one.device}"
                    key = one.cdi_devices[0] if one.cdi_devices else own
                    health = self._drivers.health.of(driver, one.pool, one.device)
                    found.setdefault(key, health)  # the first of those with one name
        return found

    # --- workers ---

    def _run(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        with self._state.condition:
            self._threads = [old for old in self._threads if old.is_alive()]
            self._threads.append(thread)
            thread.start()

    def _join(self) -> None:
        """Wait for all workers, which notice that this life of the kubelet is over."""
        with self._state.condition:
            threads, self._threads = self._threads, []
        for thread in threads:
            thread.join()

    def _resume(self, generation: int) -> None:
        """Go on with what an earlier life has left half-way."""
        self._run(self._keep_reconciling, generation)
        with self._state.condition:
            records = [one for one in self._state.pods.values() if one.active]
        for record in records:
            if record.terminating:
                self._run(self._keep_terminating, record, generation)
            elif record.wanted and record.phase == "Pending":
                self._run(self._keep_starting, record, generation)

    def _keep_starting(self, record: PodRecord, generation: int) -> None:
        def start() -> bool:
            for container in record.pod.in_order:
                if record.containers[container.name].state == "waiting":
                    self.create_container(record.pod, container.name)
            return True

        while record.wanted and not self._done(start, (PrepareError, ContainerError), record):
            # A failed preparation is no error of the sync, so the next one is the periodic one.
            period = self._times.retry if record.sandbox else self._times.resync
            if self._over(generation, period):
                return

    def _keep_terminating(self, record: PodRecord, generation: int) -> None:
        def end() -> bool:
            self._claims.unprepare(record.pod.uid)
            with self._state.changing():
                record.removed = True
            return True

        while not self._done(end, (UnprepareError,), record):
            if self._over(generation, self._times.retry):
                return

    def _keep_reconciling(self, generation: int) -> None:
        while not self._over(generation, self._times.reconcile, jitter=0.0):
            self.reconcile()

    def _done(
        self, step: Callable[[], bool], failures: tuple[type[Exception], ...], record: PodRecord
    ) -> bool:
        try:
            return step()
        except failures as error:
            with self._state.changing():
                record.errors.append(str(error))
            return False
        except RuntimeError:  # the kubelet was stopped meanwhile, or the Pod has failed
            return True

    def _over(self, generation: int, period: float, jitter: float = _JITTER) -> bool:
        """Wait for a while; tells whether the kubelet is another one by then."""
        with self._state.condition:
            wait = period * (1 + jitter * self._state.random.random())
            return self._state.condition.wait_for(
                lambda: self._state.generation != generation, timeout=wait
            )

    def _present(self) -> set[str]:
        return {uid for uid, record in self._state.pods.items() if not record.removed}
