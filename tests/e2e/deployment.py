"""The plugin's DaemonSet from manifests/base, with the config and the image of these tests."""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from kubectl import Kubectl, Object, Refused, eventually

_MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"


class Deployment:
    """The DaemonSet in a namespace of its own."""

    def __init__(
        self,
        kubectl: Kubectl,
        folder: Path,
        namespace: str,
        image: str,
        components: Sequence[str] = ("cdi",),
    ) -> None:
        self._kubectl = kubectl
        self._folder = folder
        self.namespace = namespace
        self._image = image
        self._components = components

    def apply(self, config: str, patch: str = "") -> None:
        """Roll it out, as `kubectl apply -k` of an overlay."""
        self._folder.mkdir(exist_ok=True)
        name, _, tag = self._image.rpartition(":")
        parts = [_MANIFESTS / "components" / component for component in self._components]
        lines = [
            f"namespace: {self.namespace}",
            f"resources: [{os.path.relpath(_MANIFESTS / 'base', self._folder)}]",
            f"components: [{', '.join(os.path.relpath(part, self._folder) for part in parts)}]",
            "configMapGenerator:",
            "  - {name: device-plugin, behavior: replace, files: [config.yaml]}",
            f"images: [{{name: localhost/device-plugin, newName: {name}, newTag: {tag}}}]",
        ]
        if patch:
            (self._folder / "patch.yaml").write_text(patch)
            lines.append("patches: [{path: patch.yaml, target: {kind: DaemonSet}}]")
        (self._folder / "kustomization.yaml").write_text("\n".join(lines))
        (self._folder / "config.yaml").write_text(config)
        self._kubectl("apply", "-k", str(self._folder))

    def wait_ready(self, timeout: float = 90) -> float:
        """Until it is rolled out and Ready; returns how many seconds it took."""
        started = time.monotonic()
        wait = ["rollout", "status", "daemonset/device-plugin", f"--timeout={timeout:g}s"]
        try:
            self._kubectl(*wait, "-n", self.namespace, timeout=timeout + 10)
        except Refused as why:
            pytest.fail(f"{why}\n{self._kubectl('describe', 'pods', '-n', self.namespace)}")
        return time.monotonic() - started

    def edit(self, config: str) -> None:
        """Change the ConfigMap, and have the kubelet bring it to the Pod soon.

        It looks at a Pod's volumes about once a minute, and whenever the Pod itself changes.
        """
        (self._folder / "config.yaml").write_text(config)
        self._kubectl("apply", "-k", str(self._folder))
        stamp = f"e2e/edited={time.time_ns()}"
        name = self.pod()["metadata"]["name"]
        self._kubectl("annotate", "--overwrite", "pod", name, stamp, "-n", self.namespace)

    def run(self, *words: str) -> str:
        """One of our commands in the plugin's container."""
        name = self.pod()["metadata"]["name"]
        command = ["exec", name, "-n", self.namespace, "--", "python3", "-m", "device_plugin"]
        return self._kubectl(*command, *words)

    def files(self, pattern: str) -> list[str]:
        """What is in files that the plugin's container sees."""
        name = self.pod()["metadata"]["name"]
        code = (
            "import glob, json, pathlib;"
            f"print(json.dumps([pathlib.Path(p).read_text() for p in glob.glob({pattern!r})]))"
        )
        command = ["exec", name, "-n", self.namespace, "--", "python3", "-c", code]
        found: list[str] = json.loads(self._kubectl(*command))
        return found

    def get(self, page: str) -> str:
        """A page of the plugin's, by way of the API server."""
        name = self.pod()["metadata"]["name"]
        return self._kubectl(
            "get", "--raw", f"/api/v1/namespaces/{self.namespace}/pods/{name}:8080/proxy{page}"
        )

    def identity(self) -> tuple[str, int]:
        """The running container and how often it was restarted."""
        container = self.pod()["status"]["containerStatuses"][0]
        return container["containerID"], container["restartCount"]

    def restart(self) -> None:
        self._kubectl("rollout", "restart", "daemonset/device-plugin", "-n", self.namespace)

    def pod(self) -> Object:
        """The plugin's Pod on the first node."""
        pods = self._kubectl.get("pods", namespace=self.namespace)["items"]
        found: Object = eventually(lambda: pods, 30)[0]
        return found

    def delete_pod(self) -> None:
        name = self.pod()["metadata"]["name"]
        self._kubectl("delete", "pod", name, "-n", self.namespace)

    def log(self) -> str:
        """What the plugin's container has logged; nothing before there is one."""
        name = self.pod()["metadata"]["name"]
        try:
            return self._kubectl("logs", name, "-n", self.namespace)
        except Refused:
            return ""

    def delete(self) -> None:
        self._kubectl("delete", "-k", str(self._folder), "--ignore-not-found", timeout=180)


class OnTheNode:
    """One daemon a node: where another is wanted, the one before makes room."""

    def __init__(self) -> None:
        self._there: tuple[Deployment, str] | None = None

    def put(self, deployment: Deployment, config: str) -> float:
        """Have this one there, Ready, with that config; returns how many seconds it took."""
        if self._there == (deployment, config):
            return 0.0
        changed = self._there is not None and self._there[0] is deployment
        if not changed:
            self.clear()
        self._there = deployment, config
        deployment.apply(config)
        if changed:
            deployment.restart()
        return deployment.wait_ready()

    def clear(self) -> None:
        if self._there is not None:
            self._there[0].delete()
        self._there = None
