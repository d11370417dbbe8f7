"""What the daemon says of itself: /readyz, and the answers on the status socket."""

import difflib
from collections.abc import Callable, Sequence

from device_plugin.device import split_replica
from device_plugin.dynamic import Dynamic
from device_plugin.inventory import Inventory
from device_plugin.listing import Listed
from device_plugin.podresources import PodResources
from device_plugin.reload import ConfigInUse
from device_plugin.server import Server
from device_plugin.state import Disabled
from device_plugin.status import Answer, Refusal
from device_plugin.upkeep import Upkeep

_REASON_LIMIT = 200  # characters; it is logged, and shown in tables
_FRESH = 0.5  # seconds for which the kubelet's last answer serves many who ask
_PATIENCE = 1.0  # seconds to wait for the kubelet before old news must do


class Pages:
    """Reads everybody, and writes only which devices are disabled; called on any thread."""

    def __init__(
        self,
        *,
        config: ConfigInUse,
        inventory: Inventory,
        upkeep: Upkeep,
        pods: PodResources,
        disabled: Disabled,
        servers: Callable[[], Sequence[Server]],
        claimable: Inventory,
        dynamic: Dynamic,
        look: Callable[[], bool],
    ) -> None:
        """`look` lets the loop look at the devices; false if that takes too long."""
        self.config = config
        self.inventory = inventory
        self.upkeep = upkeep
        self.pods = pods
        self.disabled = disabled
        self.servers = servers
        self.claimable = claimable
        self.dynamic = dynamic
        self._look = look

    def readyz(self) -> tuple[bool, str]:
        """Whether the kubelet has everything that the config asks for; each problem in a line."""
        problems = [f"{s.resource}: {s.problem}" for s in self.servers() if s.problem]
        problems += [f"DRA: {problem}" for problem in self.dynamic.problems]
        problems += self.config.problems
        problems += [
            f"{name}: another plugin offers it too (device {min(ids)}): remove one of the two"
            for name in (server.resource for server in self.servers())
            if (ids := self.upkeep.foreign.get(name))
        ]
        return not problems, "".join(f"{line}\n" for line in problems) or "ok\n"

    def answer(self, request: dict[str, str]) -> Answer:
        """Answer one request on the status socket. Raises Refusal."""
        match request:
            case {"command": "status"}:
                return self._status()
            case {"command": "disable", "device": device}:
                return self._disable(device, request.get("reason", ""))
            case {"command": "enable", "device": device}:
                return self._enable(device)
        raise Refusal(f"unknown request {request}: are command and daemon of one version?")

    def _status(self) -> Answer:
        self.pods.refresh(_FRESH, _PATIENCE)
        return {
            "version": 1,
            "resources": [
                *(self._resource(server) for server in self.servers()),
                *(self._claimed(name) for name in self.claimable.resources),
            ],
            "config": {"sha256": self.config.sha256, "problem": "; ".join(self.config.problems)},
            "disabled": self._disabled_elsewhere(),
            "pod_resources": {"problem": self.pods.problem},
        }

    def _disabled_elsewhere(self) -> list[dict[str, str]]:
        """Devices that are disabled and not listed now: they would be, when they come."""
        listed = self._listed()
        return [
            {"device": device, "reason": reason}
            for device, reason in sorted(self.disabled.reasons.items())
            if device not in listed
        ]

    def _listed(self) -> set[str]:
        there = (self.inventory, self.claimable)
        snapshots = [one.snapshot(name) for one in there for name in one.resources]
        return {one.device.id for snapshot in snapshots for one in snapshot.devices}

    def _resource(self, server: Server) -> dict[str, object]:
        name = server.resource
        return {
            "name": name,
            "registered": server.registered,
            "problem": server.problem,
            "devices": [self._device(name, one) for one in self.listed(name)],
        }

    def listed(self, resource: str) -> list[Listed]:
        """What the kubelet is told of a resource, as far as it says anything to people.

        Of one that moved to DRA that is what containers have of it: the rest only waits for its
        grace to end, and is listed by DRA.
        """
        devices = list(self.inventory.snapshot(resource).devices)
        if resource not in self.claimable.resources:
            return devices
        held = self.upkeep.held(resource)
        return [one for one in devices if not held.isdisjoint(one.device.replica_ids)]

    def _claimed(self, resource: str) -> dict[str, object]:
        """A resource that is offered by DRA."""
        problems, claims = self.dynamic.problems, self.dynamic.holders()
        return {
            "name": resource,
            "registered": not problems,
            "problem": "; ".join(f"DRA: {problem}" for problem in problems),
            "devices": [
                {**self._device(resource, one), "claims": claims.get(one.device.id, [])}
                for one in self.claimable.snapshot(resource).devices
            ],
        }

    def _device(self, resource: str, listed: Listed) -> dict[str, object]:
        latest = self.pods.latest
        held = latest.held(resource) if latest is not None else {}
        return {
            "id": listed.device.id,
            "health": listed.health,
            "reason": listed.reason,
            "since": round(listed.since, 3),
            "replicas": listed.device.replicas,
            "holders": [
                {"device": id_, "namespace": h.namespace, "pod": h.pod, "container": h.container}
                for id_ in listed.device.replica_ids
                for h in held.get(id_, ())
            ],
        }

    def _disable(self, device: str, reason: str) -> Answer:
        self._check_listed(device)
        printable = "".join(c if c.isprintable() else " " for c in reason[:_REASON_LIMIT])
        known = self.disabled.reasons.get(device, "disabled by an admin")
        return self._set(device, f"disabled: {printable}" if reason else known)

    def _enable(self, device: str) -> Answer:
        if device not in self.disabled.reasons:
            self._check_listed(device)
            raise Refusal(f"{device} is not disabled")
        return self._set(device, None)

    def _set(self, device: str, reason: str | None) -> Answer:
        try:
            self.disabled.set(device, reason)
        except OSError as error:
            raise Refusal(f"cannot note it in the state folder: {error}") from None
        if not self._look():
            raise Refusal("noted, but the daemon has not looked at its devices yet: see /healthz")
        return {"device": device, "reason": reason or ""}

    def _check_listed(self, device: str) -> None:
        listed = self._listed()
        base, replica = split_replica(device)
        if replica:
            raise Refusal(f"{device} is a replica: health is the whole device's; use {base}")
        if device in listed:
            return
        near = difflib.get_close_matches(device, listed, n=2, cutoff=0.8)
        hint = f"did you mean {near[0]}?" if len(near) == 1 else "`status` lists them"
        raise Refusal(f"there is no device {device[:100]}: {hint}")
