"""The cluster through kubectl, as an admin sees it."""

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

Value = TypeVar("Value")
Object = dict[str, Any]
_POLL = 0.1


class Refused(Exception):  # noqa: N818 - what kubectl said
    """kubectl failed."""


def eventually(
    look: Callable[[], Value | None], timeout: float = 60, what: Callable[[], object] = str
) -> Value:
    """Look until it is true, where nobody can tell us when."""
    deadline = time.monotonic() + timeout
    while not (found := look()):
        assert time.monotonic() < deadline, f"not so within {timeout:g} s: {what()}"
        time.sleep(_POLL)
    return found


class Kubectl:
    """One cluster, and one namespace of it for the tests' own Pods."""

    def __init__(self, program: str | Path, kubeconfig: str | Path, namespace: str) -> None:
        self.kubeconfig = kubeconfig
        self._command = [str(program), f"--kubeconfig={kubeconfig}"]
        self.namespace = namespace

    def __call__(self, *arguments: str, given: str | None = None, timeout: float = 120) -> str:
        done = subprocess.run(
            [*self._command, *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode:
            raise Refused(done.stderr.strip())
        return done.stdout

    def get(self, *what: str, namespace: str | None = None) -> Object:
        found: Object = json.loads(
            self("get", *what, "-o", "json", "-n", namespace or self.namespace)
        )
        return found

    def apply(self, *objects: Object) -> None:
        content = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self("apply", "-f", "-", "-n", self.namespace, given=json.dumps(content))

    def delete(self, *objects: Object) -> None:
        content = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        command = ["delete", "-f", "-", "-n", self.namespace, "--ignore-not-found"]
        self(*command, given=json.dumps(content))

    def node(self) -> str:
        """The first node that takes ordinary Pods."""
        nodes = self.get("nodes")["items"]
        free = [n for n in nodes if not n["spec"].get("taints")]
        name: str = (free or nodes)[0]["metadata"]["name"]
        return name

    def resource(self, name: str) -> tuple[int, int]:
        """Capacity and allocatable of the node; -1 where it does not know the resource."""
        status = self.get("node", self.node())["status"]
        capacity, allocatable = (status[key].get(name, -1) for key in ("capacity", "allocatable"))
        return int(capacity), int(allocatable)

    def wait_resource(self, name: str, allocatable: int, timeout: float = 30) -> float:
        """Until that many are allocatable; returns how many seconds it took."""
        started = time.monotonic()
        eventually(
            lambda: self.resource(name)[1] == allocatable,
            timeout,
            lambda: f"{name}: {allocatable} allocatable, it is {self.resource(name)}",
        )
        return time.monotonic() - started


class TestPod:
    """A Pod of a test."""

    __test__ = False

    def __init__(self, kubectl: Kubectl, name: str) -> None:
        self._kubectl = kubectl
        self.name = name

    def status(self) -> Object:
        status: Object = self._kubectl.get("pod", self.name)["status"]
        return status

    def container(self) -> Object:
        found: Object = (self.status().get("containerStatuses") or [{}])[0]
        return found

    def wait_running(self, timeout: float = 120) -> "TestPod":
        """A kubelet that could not prepare a claim tries again after 60 to 90 s.

        It may be the API server's turn: the kubelet may be told of a Pod before its authorizer is.
        """
        eventually(lambda: "running" in self.container().get("state", {}), timeout, self.describe)
        return self

    def wait_phase(self, phase: str, timeout: float = 60) -> Object:
        return eventually(
            lambda: (status := self.status())["phase"] == phase and status,
            timeout,
            self.describe,
        )

    def report(self, timeout: float = 30) -> Object:
        """What `inside` printed in the container that runs now."""

        def printed() -> Object | None:
            try:
                lines = self._kubectl("logs", self.name, "-n", self._kubectl.namespace)
                found: Object = json.loads(lines.splitlines()[0])
            except (Refused, IndexError, ValueError):
                return None
            return found

        return eventually(printed, timeout, self.describe)

    def health(self, resource: str) -> Mapping[str, str]:
        """Device ID to health, as the Pod's status has it."""
        for entry in self.container().get("allocatedResourcesStatus", []):
            if entry["name"] == resource:
                return {d["resourceID"]: d.get("health", "") for d in entry["resources"]}
        return {}

    def claim(self, name: str) -> str:
        """The ResourceClaim that was made from the Pod's template of that name."""

        def made() -> str | None:
            found = self.status().get("resourceClaimStatuses", [])
            return next((c.get("resourceClaimName") for c in found if c["name"] == name), None)

        return eventually(made, 30, self.describe)

    def waits(self, timeout: float = 30) -> str:
        """Why the scheduler does not place it."""

        def reason() -> str:
            conditions = self.status().get("conditions", [])
            found = [c for c in conditions if c["type"] == "PodScheduled" and c["status"] != "True"]
            return "".join(condition.get("message", "") for condition in found)

        return eventually(reason, timeout, self.describe)

    def events(self) -> list[str]:
        """What was said of it: reason and message."""
        which = f"--field-selector=involvedObject.name={self.name}"
        found = self._kubectl.get("events", which)["items"]
        return [f"{event['reason']}: {event['message']}" for event in found]

    def identity(self) -> tuple[str, int]:
        """The running container and how often it was restarted: a Pod left alone keeps both."""
        container = self.container()
        return container["containerID"], container["restartCount"]

    def restart(self) -> None:
        """End the container's program; the kubelet starts it again."""
        before = self.identity()[1]
        code = "import os, signal; os.kill(1, signal.SIGTERM)"
        command = ["exec", self.name, "-n", self._kubectl.namespace, "--", "python3", "-c", code]
        try:
            self._kubectl(*command)
        except Refused as why:  # with its first process the container's others are killed
            if "exit code 137" not in str(why):
                raise
        eventually(lambda: self.container().get("restartCount", 0) > before, 30, self.describe)
        self.wait_running()

    def delete(self) -> None:
        self._kubectl("delete", "pod", self.name, "-n", self._kubectl.namespace, "--now")

    def describe(self) -> str:
        try:
            return self._kubectl("describe", "pod", self.name, "-n", self._kubectl.namespace)
        except Refused as why:
            return str(why)
