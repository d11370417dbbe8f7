"""Keeps the inventory true: what is found, held, disabled and dropped goes in, news is logged.

Runs on the daemon's loop; `suspect`, `held`, `foreign` and `holdings` are for any thread.
"""

import re
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice

import msgspec
import structlog

from device_plugin.cdi import Specs
from device_plugin.claimable import Absences, offer, unclaimed
from device_plugin.config import Config
from device_plugin.device import ID_LIMIT, Candidate, split_replica
from device_plugin.discovery import Discovered, discover
from device_plugin.discovery.program import Answers
from device_plugin.health import check_held, check_moved
from device_plugin.host import Host, Look
from device_plugin.inventory import Inventory
from device_plugin.listing import Change, Listed, Update, merge
from device_plugin.metrics import Metrics
from device_plugin.podresources import Holdings
from device_plugin.release import Releases
from device_plugin.state import Disabled, HandedOut, Owners

_MAX_NAMED = 20  # devices or notes in one go
_MAX_HELD = 20_000  # IDs of one resource that the kubelet's word is taken for
_ID = re.compile(f"[a-z0-9-]{{1,{ID_LIMIT}}}")  # what an ID of ours may look like

_log = structlog.get_logger()


class _Seen(msgspec.Struct, frozen=True):
    """What one look came to, by resource, and who has which device.

    holders: the resource through which a container has it; claimed: that of a claim. owners: as
    which device a container got a node.
    """

    look: Look
    found: Mapping[str, Discovered]
    found_before: Mapping[str, Discovered]  # by the config that this one replaces
    holders: Mapping[str, str] = {}
    claimed: Mapping[str, str] = {}
    owners: Owners = {}

    def dropped(self, resource: str) -> set[str]:
        """The devices that are not found because the config has them no more."""
        if self.found[resource].failures:  # nobody knows what it would have found
            return set()
        return _ids(self.found_before.get(resource)) - _ids(self.found[resource])


class Upkeep:
    """What the node has, what the kubelet says of it and what the admin wants, made one list."""

    def __init__(
        self,
        *,
        host: Host,
        inventory: Inventory,
        handed_out: HandedOut,
        disabled: Disabled,
        releases: Releases,
        specs: Specs,
        metrics: Metrics,
        answers: Answers,
        claimable: Inventory,
        claimed: Callable[[], Mapping[str, str]],
    ) -> None:
        """`answers` says what the programs of `exec` listed last.

        claimable: what is offered by DRA; `inventory` is what the kubelet is told. claimed: the
        devices that claims have, and the resource of each.
        """
        self._host = host
        self._inventory = inventory
        self._handed_out = handed_out
        self._disabled = disabled
        self._releases = releases
        self._specs = specs
        self._metrics = metrics
        self._answers = answers
        self._claimable = claimable
        self._claimed = claimed
        self._absences = Absences()  # of what claims are offered
        self._said: dict[str, list[str]] = {}
        self._missing: set[tuple[str, str]] = set()  # held IDs that are not listed, by resource
        self._unknown: dict[str, frozenset[str]] = {}  # healthy IDs that are not ours, by resource
        self.foreign: dict[str, frozenset[str]] = {}  # the same, where it is certain
        self.holdings = Holdings(0.0)

    def look(self, config: Config, before: Config | None = None) -> set[str]:
        """Look at the devices; returns the folders (the host's) where a change would matter.

        before: the config that this one replaces now; what only that one finds is dropped.
        """
        look, started = self._host.look(), time.monotonic()
        found = discover(look, config, self._answers)
        found_before = discover(look, before, self._answers) if before is not None else {}
        self._metrics.looked(time.monotonic() - started)
        by_cdi = {resource.name for resource in config.resources if resource.container.cdi}
        by_claims = {one.name for one in config.resources if one.api == "dra"}
        for name in self._claimable.resources:
            if name not in by_claims:
                self._claimable.remove(name)
        ours = dict.fromkeys((*self._inventory.resources, *self._handed_out.resources))
        # First what claims may have goes off the kubelet's lists: what Allocate gave away before
        # that is remembered by then, and from then on it refuses.
        moving = [name for name in ours if name in by_claims]
        seen = _Seen(look, found, found_before)
        for name in moving:
            self._guarded(name, partial(self._replace, name, seen, by_claims, by_cdi=False))
        holders, owners = self._holders(config), self._handed_out.owners
        seen = _Seen(look, found, found_before, holders, self._claimed(), owners)
        for name in by_claims:
            self._guarded(name, partial(self._offer, name, seen, config.removed_grace))
        for name in dict.fromkeys((*found, *ours)):
            if name not in by_claims:
                due = name in by_cdi
                self._guarded(name, partial(self._replace, name, seen, by_claims, by_cdi=due))
        return look.folders

    def _guarded(self, resource: str, step: Callable[[], None]) -> None:
        """One resource must not stop the others."""
        try:
            step()
        except Exception:  # noqa: BLE001 - a bug
            _log.exception("looking at a resource failed unexpectedly", resource=resource)

    def _replace(
        self, name: str, seen: "_Seen", by_claims: Collection[str], *, by_cdi: bool
    ) -> None:
        """Tell the kubelet of a resource; one that claims may have is dropped from its lists."""
        discovered = Discovered() if name in by_claims else seen.found.get(name) or Discovered()
        candidates = [self._checked(name, seen, c) for c in discovered.candidates]
        held, disabled = self._held(name), self._disabled.reasons
        if name in by_claims or name not in seen.found:
            dropped = {one.device.id for one in self._inventory.snapshot(name).devices}
            dropped.update(split_replica(id_)[0] for id_ in held)
        else:
            dropped = seen.dropped(name)
        if by_cdi or name in self._specs.resources:
            problem = self._write_spec(name, seen.look, candidates, held, dropped)
            if problem and by_cdi:  # else only containers of old would need it
                disabled = {c.device.id: problem for c in candidates} | dict(disabled)
        update = self._inventory.replace(
            name,
            candidates,
            held=held,
            dropped=dropped,
            disabled=disabled,
            failed=discovered.failure,
        )
        self._metrics.discovery_failed(name, len(discovered.failures))
        self._report(name, discovered.notes, update)

    def _checked(self, name: str, seen: "_Seen", candidate: Candidate) -> Candidate:
        """A candidate for the kubelet's list, and whether somebody has it, or has what it was."""
        candidate = unclaimed(candidate, seen.claimed)
        candidate = _free(candidate, seen.holders.get(candidate.device.id, name), name)
        candidate = check_held(seen.look, candidate, seen.owners)
        return check_moved(seen.look, candidate, self._handed_out)

    def _offer(self, name: str, seen: "_Seen", grace: float) -> None:
        """Offer a resource to claims."""
        discovered = seen.found[name]
        update = offer(
            self._claimable,
            name,
            [check_held(seen.look, one, seen.owners) for one in discovered.candidates],
            holders=seen.holders,
            claimed=seen.claimed,
            dropped=seen.dropped(name),
            disabled=self._disabled.reasons,
            failed=discovered.failure,
        )
        self._absences.retire(self._claimable, name, grace, seen.claimed)
        self._metrics.discovery_failed(name, len(discovered.failures))
        self._report(name, discovered.notes, update)

    def _write_spec(
        self,
        resource: str,
        look: Look,
        found: Collection[Candidate],
        held: Mapping[str, tuple[int, ...]],
        dropped: Collection[str],
    ) -> str:
        """Make the CDI spec that of the list to come; returns why it cannot be, or nothing."""
        before = self._inventory.snapshot(resource)
        coming, _ = merge(before, found, 0.0, held=held, dropped=dropped)
        return self._specs.write(resource, coming, look)

    def take(self, holdings: Holdings, grace: float, streaming: Collection[str]) -> bool:
        """Take the kubelet's answer; returns whether to look again.

        grace: seconds that an absent device stays listed after it was held last. streaming: the
        resources whose list the kubelet had from us when it was asked.
        """
        self.holdings = holdings
        self._releases.take(holdings)
        self._notice_foreign(holdings, streaming)
        news = self._forget_free()
        missing: set[tuple[str, str]] = set()
        for name in self._inventory.resources:
            self._retire(name, grace)
            listed = self._inventory.snapshot(name).by_id
            missing.update((name, id_) for id_ in self._held(name) if id_ not in listed)
        # What was missing before has no room in the list: another look changes nothing.
        self._missing, before = missing, self._missing
        return news or bool(missing - before)

    def no_answer(self) -> None:
        """The kubelet did not answer."""
        self._releases.no_answer()
        if not self.holdings.asked:  # nobody ever says whether it still holds; an Allocate may
            self.foreign.clear()

    def suspect(self, resource: str, id_: str) -> None:
        """The kubelet asked for a device that is not ours."""
        self._accuse(resource, self.foreign.get(resource, frozenset()) | {id_})

    def held(self, resource: str) -> frozenset[str]:
        """The IDs that containers have of a resource, or may have; callable from any thread."""
        return frozenset(self._held(resource))

    def _held(self, resource: str) -> dict[str, tuple[int, ...]]:
        """IDs that containers have of us, or may have, and their NUMA nodes."""
        found: dict[str, tuple[int, ...]] = {}
        for handed in self._handed_out.of(resource):
            found |= dict.fromkeys(handed.ids, handed.numa_nodes)
        foreign = self.foreign.get(resource, frozenset()) | self._unknown.get(resource, frozenset())
        for id_ in islice(self.holdings.held(resource), _MAX_HELD):
            if id_ not in foreign and _ID.fullmatch(id_):
                found.setdefault(id_, self.holdings.numa_nodes.get((resource, id_), ()))
        return found

    def _holders(self, config: Config) -> dict[str, str]:
        """Through which resource of the device plugin a device is held, by device."""
        names = {resource.name for resource in config.resources}
        ours = names.union(self._inventory.resources, self._handed_out.resources)
        held = [(split_replica(id_)[0], name) for name in ours for id_ in self.holdings.held(name)]
        handed = [(one.id, name) for name in ours for one in self._handed_out.of(name)]
        return dict(held + handed)

    def _forget_free(self) -> bool:
        """Let go of what was handed out and is free by now."""
        free = [
            handed
            for name in self._handed_out.resources
            for handed in self._handed_out.of(name)
            if self._releases.is_free(("handed out", handed.id), name, handed.ids, token=handed)
        ]
        try:
            self._handed_out.forget(free)
        except OSError as error:
            _log.error("cannot note what is free", error=str(error))
        with suppress(OSError):  # it was said when it was new
            self._handed_out.save()
        return bool(free)

    def _retire(self, resource: str, grace: float) -> None:
        """Take absent devices off the list that nobody has held for the grace."""
        leaving = [
            listed.device.id
            for listed in self._inventory.snapshot(resource).devices
            if not listed.present and self._is_left(resource, listed, grace)
        ]
        if leaving:
            self._inventory.forget(resource, set(leaving))
            _log.info(
                "devices forgotten",
                resource=resource,
                reason="absent, and held by nobody",
                count=len(leaving),
                devices=leaving[:_MAX_NAMED],
            )

    def _is_left(self, resource: str, listed: Listed, grace: float) -> bool:
        device = listed.device
        free = self._releases.is_free((resource, device.id), resource, device.replica_ids, grace)
        return free and self._handed_out.numbers(split_replica(device.id)[0]) is None

    def _notice_foreign(self, holdings: Holdings, streaming: Collection[str]) -> None:
        """A healthy ID on our name that we never listed is another plugin's.

        Only what two answers in a row say: the kubelet may not have read our last list yet.
        """
        before, self._unknown = self._unknown, {}
        for name in self.foreign.keys() - self._inventory.resources:
            del self.foreign[name]
        for name in streaming:
            unknown = (
                holdings.healthy.get(name, frozenset())
                - self._inventory.snapshot(name).by_id.keys()
            )
            self._unknown[name] = unknown
            if unknown & before.get(name, frozenset()):
                self._accuse(name, unknown)
            elif not unknown and self.foreign.pop(name, frozenset()):
                _log.info("no other plugin's devices any more", resource=name)

    def _accuse(self, resource: str, ids: frozenset[str]) -> None:
        if resource not in self.foreign:
            _log.warning(
                "another plugin offers this resource too",
                resource=resource,
                reason="remove one of the two",
                devices=[id_[:ID_LIMIT] for id_ in sorted(ids)[:_MAX_NAMED]],
            )
        self.foreign[resource] = ids

    def _report(self, resource: str, notes: list[str], update: Update) -> None:
        """Log what is new, once."""
        log = _log.bind(resource=resource)
        new = [change.listed for change in update.changes if change.before is None]
        added = [listed.device.id for listed in new if listed.present]
        if added:
            log.info("devices added", count=len(added), devices=added[:_MAX_NAMED])
        for change in update.changes:
            _report_health(log, change)
            if change.before is None or change.before.healthy != change.listed.healthy:
                self._metrics.turned(resource, change.listed.health, change.listed.device.replicas)
        notes = notes + update.notes
        if notes != self._said.get(resource, []):
            self._said[resource] = notes
            for note in notes[:_MAX_NAMED]:
                log.warning("not offered", reason=note)
            if notes[_MAX_NAMED:]:
                log.warning("not offered", reason=f"and {len(notes) - _MAX_NAMED} more like these")


def _free(candidate: Candidate, holder: str, resource: str) -> Candidate:
    """Fail a device that a container still has through another resource: it has one owner."""
    if holder == resource:
        return candidate
    return msgspec.structs.replace(candidate, problem=f"a container holds it through {holder}")


def _ids(discovered: Discovered | None) -> set[str]:
    return {c.device.id for c in discovered.candidates} if discovered is not None else set()


def _report_health(log: structlog.typing.FilteringBoundLogger, change: Change) -> None:
    listed = change.listed
    if listed.reason == (change.before.reason if change.before is not None else ""):
        return
    if listed.healthy:
        log.info("device healthy", device=listed.device.id)
    else:
        log.warning("device unhealthy", device=listed.device.id, reason=listed.reason)
