"""Claims of this node: prepared once, kept on disk, given back; never a device to two of them.

The kubelet calls for one claim again and again, from several threads, and before and after any
restart of its own and of ours. Answers are the same each time, for as long as the claim is.
"""

import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import structlog
from msgspec import structs

from device_plugin.allocation import Refused
from device_plugin.dra.allocated import Allocated, ClaimRef, allocated, is_gone
from device_plugin.dra.checkpoint import Checkpoint, Extras, Given, Prepared
from device_plugin.dra.cluster import ApiError, Cluster
from device_plugin.dra.devices import Chosen, Index, check_free, given, index
from device_plugin.dra.edits import edits, extras, still
from device_plugin.dra.offer import Offer
from device_plugin.dra.parameters import layers
from device_plugin.dra.specs import ClaimSpecs, Edits
from device_plugin.host import Host
from device_plugin.listing import HELD_BY_PLUGIN, NOT_IN_CONFIG
from device_plugin.state import boot_id

_UID = re.compile(r"[0-9A-Za-z](?:[-0-9A-Za-z]{0,61}[0-9A-Za-z])?")  # it is part of files' names
_PATIENCE = 25.0  # seconds of the kubelet's 45 in which claims are asked for
_AT_ONCE = 16  # calls that ask for claims: the API server may hang
_LOOK = 1.0  # seconds after which a call that waits looks whether it is still wanted
_NOT_FOUND, _FORBIDDEN = 404, 403
_GIVEN_UP = "it was given up meanwhile"

_log = structlog.get_logger()


class Claims:
    """Answers for all claims of the driver on this node; callable from any thread."""

    def __init__(
        self,
        *,
        offers: Callable[[], Sequence[Offer]],
        cluster: Cluster,
        driver: str,
        pool: str,
        state_dir: Path,
        cdi_dir: Path,
        host: Host,
        changed: Callable[[], None] = lambda: None,
        handed_out: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`changed` is called when claims may have other devices. Raises checkpoint.Unusable.

        handed_out: whether a container was given a device by the device plugin, and may have it.
        """
        self._offers = offers
        self._cluster = cluster
        self._driver, self._pool = driver, pool
        self._host = host
        self._changed = changed
        self._handed_out = handed_out
        self._lock = threading.Lock()  # of all that is written
        self._checkpoint = Checkpoint(state_dir)
        self._specs = ClaimSpecs(cdi_dir)
        self._boot = boot_id()
        self._turns = threading.Semaphore(_AT_ONCE)
        self._outdated = ""  # why containers that restart may not find their devices
        self._kept: dict[str, str] = {}  # by UID, why a claim could not be taken back

    @property
    def prepared(self) -> list[Prepared]:
        return list(self._checkpoint.claims.values())

    @property
    def problem(self) -> str:
        """Why containers do not get their devices, or Pods do not end."""
        kept = [*self._kept.values()][:1]
        problems = (self._why_closed(self._forgotten()), self._others(), self._outdated, *kept)
        return "; ".join(problem for problem in problems if problem)

    def prepare(
        self, claims: Iterable[ClaimRef], wanted: Callable[[], bool] = lambda: True
    ) -> dict[str, Prepared | str]:
        """Make claims ready for containers; returns for each, by UID, what it has, or why not.

        `wanted` says whether anybody still waits: what the kubelet does not hear of, it may never
        give back.
        """
        until = time.monotonic() + _PATIENCE
        if not self._turn(wanted):
            return {ref.uid: _GIVEN_UP for ref in claims}
        try:
            answers = self._prepare_all(claims, until, wanted)
        finally:
            self._turns.release()
        self._changed()
        return answers

    def _turn(self, wanted: Callable[[], bool]) -> bool:
        """Wait until few enough others are at it; false if nobody waits for it any more."""
        while wanted():
            if self._turns.acquire(timeout=_LOOK):
                return True
        return False

    def _prepare_all(
        self, claims: Iterable[ClaimRef], until: float, wanted: Callable[[], bool]
    ) -> dict[str, Prepared | str]:
        answers: dict[str, Prepared | str] = {}
        for ref in claims:
            try:
                answers[ref.uid] = self._prepare(ref, until, wanted)
            except Refused as why:
                answers[ref.uid] = str(why)
                _log.warning("claim not prepared", reason=str(why), **_named(ref))
            except Exception as error:  # noqa: BLE001 - the others of the Pod go on
                answers[ref.uid] = f"failed, please report: {error!r}"
                _log.exception("preparing a claim failed unexpectedly", **_named(ref))
        return answers

    def unprepare(self, claims: Iterable[ClaimRef]) -> dict[str, str]:
        """Take claims back, known or not; returns for each, by UID, why that failed, or nothing."""
        answers = {ref.uid: self._unprepare(ref) for ref in claims}
        self._changed()
        return answers

    def _unprepare(self, ref: ClaimRef, only: Prepared | None = None) -> str:
        """Take one back, if it is still as `only` says; returns why that failed, or nothing."""
        try:
            with self._lock:
                known = self._checkpoint.claims.get(ref.uid)
                if only is not None and known is not only:
                    return ""
                self._forget(ref.uid)
                self._kept.pop(ref.uid, None)
        except Refused as why:
            failed = str(why)
            _log.error("claim not unprepared", reason=failed, **_named(ref))
        except Exception as error:  # noqa: BLE001 - the others of the Pod go on
            failed = f"failed, please report: {error!r}"
            _log.exception("unpreparing a claim failed unexpectedly", **_named(ref))
        else:
            if known is not None:
                _log.info("claim unprepared", **_named(ref))
            return ""
        with self._lock:
            self._kept[ref.uid] = f"a claim cannot be taken back, its Pod cannot end: {failed}"
        return failed

    def renew(self) -> None:
        """Bring the specs up to date with the devices: a container may restart at any time."""
        if not self.prepared:
            self._outdated = ""
            return
        problem = ""
        with self._lock:
            known, look = self._index(), self._host.look()
            for claim in self.prepared:
                before = self._specs.read(claim.uid)
                now = still(claim, known, look, before)
                try:
                    if now != before:
                        self._specs.write(claim.driver, claim.uid, now)
                except Refused as why:
                    problem = str(why)
        if problem and problem != self._outdated:
            _log.error("containers with claims may not restart", reason=problem)
        self._outdated = problem

    def forget_stale(self) -> bool:
        """Let go of claims of an earlier boot that are gone; false if not all could be asked for.

        Their containers ended with that boot, whatever the driver's name was, and a kubelet that
        was set up anew meanwhile never gives them back.
        """
        earlier = [claim for claim in self.prepared if claim.boot != self._boot]
        told = [self._let_go(claim) for claim in earlier]
        if any(told):
            self._changed()
        return None not in told

    def _let_go(self, claim: Prepared) -> bool | None:
        """Let go of a claim if it is gone; None if that cannot be said, or done."""
        ref = ClaimRef(claim.namespace, claim.name, claim.uid)
        try:
            gone = is_gone(self._cluster.claim(ref.namespace, ref.name), ref.uid)
        except ApiError as error:
            gone = True if error.status == _NOT_FOUND else None
        if not gone:
            return gone
        _log.info("a claim of an earlier boot is gone", **_named(ref))
        return True if not self._unprepare(ref, only=claim) else None

    def _prepare(self, ref: ClaimRef, until: float, wanted: Callable[[], bool]) -> Prepared:
        if not _UID.fullmatch(ref.uid):
            raise Refused(f"{ref.uid[:80]!r} is no UID")
        if not wanted():
            raise Refused(_GIVEN_UP)
        if time.monotonic() > until:
            raise Refused("the API server took too long over other claims: this is tried again")
        found = self._fetch(ref)
        with self._lock:
            known = self._checkpoint.claims.get(ref.uid)
            if not wanted() or (known is None and found is None):
                raise Refused(_GIVEN_UP)
            if known is not None and (found is None or _is_same(known, found)):
                return self._again(known)
            assert found is not None  # noqa: S101 - else it is known
            return self._first(ref, found)

    def _fetch(self, ref: ClaimRef) -> Allocated | None:
        """What the claim says; None where nobody can say, and it is prepared already."""
        try:
            claim = self._cluster.claim(ref.namespace, ref.name)
        except ApiError as error:
            if ref.uid in self._checkpoint.claims and error.status != _NOT_FOUND:
                return None
            raise Refused(_why(error)) from None
        return allocated(claim, ref, self._driver, self._pool)

    def _again(self, claim: Prepared) -> Prepared:
        """See that what it was given is still there to be given."""
        known, before = self._index(), self._specs.read(claim.uid)
        now = still(claim, known, self._host.look(), before)
        for one in claim.devices:
            if one.request not in now:
                reason = known[one.name].unit.listed.reason if one.name in known else NOT_IN_CONFIG
                raise Refused(
                    f"device {one.name} of {one.resource} is gone: {reason or 'a node is missing'}"
                )
        if now != before:
            self._specs.write(claim.driver, claim.uid, now)
        if claim.boot != self._boot:  # its containers are of this boot from now on
            claim = structs.replace(claim, boot=self._boot)
            self._put(claim)
        return claim

    def _first(self, ref: ClaimRef, found: Allocated) -> Prepared:
        forgotten = self._forgotten()
        if forgotten and ref.uid not in forgotten:
            raise Refused(self._why_closed(forgotten))
        known = self._index()
        devices = [given(one, known, f"{self._driver}/unhealthy") for one in found.results]
        self._check_free(ref, devices, known)
        more, spec = self._made(found, devices, known)
        claim = Prepared(
            uid=ref.uid,
            namespace=ref.namespace,
            name=ref.name,
            driver=self._driver,
            pool=self._pool,
            boot=self._boot,
            devices=tuple(devices),
            extras=more,
        )
        # The spec first: what is in the checkpoint is whole.
        self._specs.write(claim.driver, claim.uid, spec)
        try:
            self._put(claim)
        except Refused:
            if ref.uid not in forgotten:
                self._specs.remove(claim.uid)
            raise
        self._check_again(claim)
        _log.info("claim prepared", devices=[one.name for one in devices], **_named(ref))
        return claim

    def _check_again(self, claim: Prepared) -> None:
        """Refuse what a container got meanwhile; now that we are noted, Allocate goes without."""
        for one in claim.devices:
            if not one.admin and self._handed_out(one.device):
                self._forget(claim.uid)
                raise Refused(
                    f"{one.name} of {one.resource}: {HELD_BY_PLUGIN}: this is tried again"
                )

    def _check_free(self, ref: ClaimRef, devices: Sequence[Given], known: Index) -> None:
        others = [one for c in self.prepared if c.uid != ref.uid for one in c.devices]
        for device in {one.device: known[one.name].unit.listed.device for one in devices}.values():
            check_free(
                device,
                [one for one in devices if one.device == device.id],
                [one for one in others if one.device == device.id],
            )

    def _made(
        self, found: Allocated, devices: Sequence[Given], known: Index
    ) -> tuple[dict[str, Extras], dict[str, Edits]]:
        """What containers get by each request."""
        chosen: dict[str, list[Chosen]] = {}
        for one in devices:
            chosen.setdefault(one.request, []).append(known[one.name])
        more: dict[str, Extras] = {}
        for result in found.results:
            if result.base not in more:
                asked = layers(found.configurations, result.request, self._driver)
                more[result.base] = extras(chosen[result.base], asked, self._host)
        look = self._host.look()
        return more, {name: edits(chosen[name], more[name], look) for name in more}

    def _forget(self, uid: str) -> None:
        if not _UID.fullmatch(uid):  # never prepared
            return
        self._specs.remove(uid)
        try:
            self._checkpoint.remove(uid)
        except OSError as error:
            raise self._unwritten(error) from None

    def _put(self, claim: Prepared) -> None:
        try:
            self._checkpoint.put(claim)
        except OSError as error:
            raise self._unwritten(error) from None

    def _unwritten(self, error: OSError) -> Refused:
        return Refused(
            f"cannot note it in {self._checkpoint.folder}: {error.strerror}: make room there, or"
            " mount it writable; this is tried again"
        )

    def _forgotten(self) -> list[str]:
        """The UIDs of claims that a corrupt checkpoint had, and whose containers may run yet."""
        if self._checkpoint.forgotten != self._boot:
            return []
        return self._specs.strangers(self._driver, self._checkpoint.claims)

    def _why_closed(self, forgotten: Sequence[str]) -> str:
        """Why nothing may be given away; empty if it may."""
        if not (count := len(forgotten)):
            return ""
        return (
            f"the claims of this node were forgotten ({self._checkpoint.aside}) and {count} of them"
            " may still have devices: drain the node; this is tried again"
        )

    def _others(self) -> str:
        """What only a driver of another name can take back."""
        others = [claim.driver for claim in self.prepared if claim.driver != self._driver]
        if not others:
            return ""
        return (
            f"{len(others)} claims of {', '.join(sorted(set(others)))} are prepared and the driver"
            f" is {self._driver} now: put the old `dra.driver` back until they are gone, else their"
            " Pods cannot end"
        )

    def _index(self) -> Index:
        return index(self._offers())


def _is_same(known: Prepared, found: Allocated) -> bool:
    now = {(one.base, one.device, one.share_id or "") for one in found.results}
    return {one.key for one in known.devices} == now


def _why(error: ApiError) -> str:
    if error.status == _NOT_FOUND:
        return "it does not exist any more: delete the Pod"
    if error.status == _FORBIDDEN:
        return "this plugin may not read it: give its service account `get` on `resourceclaims`"
    return f"it cannot be read: {error}: this is tried again"


def _named(ref: ClaimRef) -> dict[str, str]:
    return {"claim": f"{ref.namespace}/{ref.name}", "uid": ref.uid}
