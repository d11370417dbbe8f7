"""The demo of DRA: the daemon between an embedded kubelet and a small API server.

Nobody schedules here: the demo chooses a device that fits, as the scheduler would.
"""

import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from device_plugin import config
from device_plugin.attribute import Quantity
from device_plugin.config import Checked
from device_plugin.daemon import CannotStart, Options
from device_plugin.demo.stage import (
    Steps,
    Stick,
    as_table,
    folder,
    indented,
    running,
    show_container,
)
from device_plugin.exit_codes import FAILED, OK
from device_plugin.reload import ConfigInUse
from device_plugin.testing import Container, ContainerClaim, FakeKubelet, Pod, PodClaim, Runtime
from device_plugin.testing.apiserver import ApiServer, allocated_claim, result

_NODE, _DRIVER, _CLAIM = "node-1", "gpu.example.com", "large-gpu"
_WANTED = "40Gi"
_EXTRA = "demo --dra needs the extra `kubernetes`: pip install '.[kubernetes]' in this folder"
_CONFIG = """\
version: 1
dra: {{driver: gpu.example.com}}
resources:
  - name: example.com/gpu               # simulated: three sizes
    api: dra
    devices:
      - virtual: {{count: 1, attributes: {{model: small}}, capacity: {{memory: 24Gi}}}}
      - virtual: {{count: 1, attributes: {{model: medium}}, capacity: {{memory: 40Gi}}}}
      - virtual: {{count: 1, attributes: {{model: large}}, capacity: {{memory: 80Gi}}}}
    container:
      env: {{GPU: "{{id}}", GPU_MODEL: "{{attribute.model}}"}}
  - name: example.com/serial            # a real device node
    api: dra
    devices:
      - path: {serial}
"""


def run() -> int:
    """Show everything once."""
    try:
        import lightkube as _  # noqa: F401, PLC0415 - only to see whether it is there
    except ImportError:
        print(_EXTRA, file=sys.stderr)
        return FAILED
    with folder() as place, Stick() as stick, ApiServer(_NODE) as cluster:
        text = _CONFIG.format(serial=stick.node)
        file = place / "config.yaml"
        file.write_text(text)
        options = Options(
            device_plugin_dir=place / "device-plugins",
            kubelet_root=place,
            state_dir=place / "state",
            cdi_dir=place / "cdi",
            http=None,
            node=_NODE,
            kubeconfig=cluster.kubeconfig(place / "kubeconfig"),
        )
        kubelet = FakeKubelet(
            place / "device-plugins",
            root=place,
            runtime=Runtime(cdi_directories=[str(place / "cdi")]),
            cluster=cluster,
            node=_NODE,
        )
        with kubelet:
            try:
                with running(ConfigInUse(file, _checked(file)), options):
                    _Show(kubelet, cluster, place / "cdi").all(text, stick)
            except (CannotStart, AssertionError) as why:
                print(why, file=sys.stderr)
                return FAILED
    return OK


def _checked(file: Path) -> Checked:
    checked = config.read(file)
    assert checked.config is not None, checked.problems  # noqa: S101 - it is ours
    return checked


class _Show(Steps):
    """The steps, each printing what the cluster and the kubelet saw."""

    def __init__(self, kubelet: FakeKubelet, cluster: ApiServer, specs: Path) -> None:
        super().__init__(kubelet)
        self._cluster = cluster
        self._specs = specs

    def all(self, text: str, stick: Stick) -> None:
        self.title("the config")
        indented(text)
        self._published()
        pod = self._claimed()
        self._broken(stick)
        self._kubelet_restarted(pod)
        self._ended(pod)

    def _published(self) -> None:
        self.title("published: what `kubectl get resourceslices -o yaml` would say")
        self._cluster.wait_for(lambda c: len(c.devices(_DRIVER)) == 4, timeout=20)  # noqa: PLR2004
        indented(f"driver {_DRIVER}, node {_NODE}, pool {_NODE}")
        rows = [("DEVICE", "CAPACITY", "ATTRIBUTES")]
        rows += [
            (one["name"], _plain(one, "capacity"), _plain(one, "attributes"))
            for one in self._devices()
        ]
        indented(as_table(rows))

    def _claimed(self) -> Pod:
        condition = f'device.capacity["{_DRIVER}"].memory.compareTo(quantity("{_WANTED}")) >= 0'
        self.title(f"a Pod's claim asks for {condition}")
        fitting = [one["name"] for one in self._devices() if _is_large(one)]
        indented(f"{len(fitting)} devices fit; the claim is allocated {fitting[-1]}")
        claims = [PodClaim("gpu", _CLAIM)]
        pod = Pod("demo", [Container("main", claims=[ContainerClaim("gpu")])], claims=claims)
        claim = allocated_claim(_CLAIM, [result("gpu", fitting[-1], driver=_DRIVER, pool=_NODE)])
        claim["status"]["reservedFor"] = [{"resource": "pods", "name": "demo", "uid": pod.uid}]
        self._cluster.put_claim(claim)
        self.wait(lambda: any(one.connected for one in self.kubelet.drivers(_DRIVER)))
        self.kubelet.admit(pod)
        show_container(self.kubelet.create_container(pod, "main"))
        return pod

    def _broken(self, stick: Stick) -> None:
        for title, act, tainted in (
            (f"{stick.node} is pulled", stick.pull, True),
            (f"{stick.node} is plugged in again", stick.plug, False),
        ):
            self.title(title)
            started = time.monotonic()
            act()
            self._cluster.wait_for(partial(self._is_tainted, tainted), timeout=10)
            told = (time.monotonic() - started) * 1000
            what = f"tainted: {', '.join(self._taints())}" if tainted else "free of taints again"
            indented(f"after {told:.0f} ms its device is {what}")

    def _kubelet_restarted(self, pod: Pod) -> None:
        self.title("the kubelet restarts: it deletes the slices, and prepares anew")
        started = time.monotonic()
        self.kubelet.restart()
        self._cluster.wait_for(lambda c: len(c.devices(_DRIVER)) == 4, timeout=20)  # noqa: PLR2004
        indented(f"all slices were there again after {(time.monotonic() - started) * 1000:.0f} ms")
        self.wait(lambda: any(one.connected for one in self.kubelet.drivers(_DRIVER)))
        self.kubelet.lose_sandbox(pod)
        self.kubelet.prepare(pod)
        names = [one.device for one in self.kubelet.prepared(pod, _DRIVER)]
        indented(f"the claim has the same device: {', '.join(names)}")

    def _ended(self, pod: Pod) -> None:
        self.title("the Pod ends")
        self.kubelet.remove(pod)
        self.wait(lambda: self.kubelet.claim_record(_CLAIM) is None)
        left = list(self._specs.glob("*claim*"))
        indented(f"the claim is unprepared, and {len(left) or 'none'} of its CDI specs is left")

    def _devices(self) -> list[dict[str, Any]]:
        slices = self._cluster.slices(_DRIVER)
        return [device for one in slices for device in one["spec"].get("devices", ())]

    def _is_tainted(self, due: bool, _: ApiServer) -> bool:  # noqa: FBT001 - a fact
        return bool(self._taints()) == due

    def _taints(self) -> list[str]:
        return [
            f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
            for device in self._devices()
            for taint in device.get("taints", ())
        ]


def _is_large(device: Mapping[str, Any]) -> bool:
    memory = device.get("capacity", {}).get("memory")
    return (
        memory is not None and Quantity.parse(memory["value"]).nano >= Quantity.parse(_WANTED).nano
    )


def _plain(device: Mapping[str, Any], what: str) -> str:
    """Names and values, without their types."""
    named = device.get(what, {}).items()
    return ", ".join(f"{name}={next(iter(value.values()))}" for name, value in named) or "-"
