"""containerd and the kubelet."""

import json
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster import host, images, pki
from cluster.node import Process, wait_for
from cluster.places import FIRST_POD, GATEWAY, NODE, POD_NETWORK, RUN

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"  # in the node's own /run
ALLOWED_ANNOTATIONS = "example.com/*"  # under crun: what else devices carry stays outside
_GVISOR = RUN / "runsc.toml"
_CRUN = RUN / "crun"
CONTAINERD = Process("containerd")
KUBELET = Process("kubelet")


def start_containerd(path: Sequence[Path]) -> None:
    """Start containerd, and return when it answers."""
    _write_network()
    _forbid_pulls()
    _configure_gvisor(path)
    _wrap_crun()
    config = RUN / "containerd.toml"
    config.write_text(_containerd_config(path))
    CONTAINERD.start(["containerd", "--config", str(config)], path)
    wait_for(
        lambda: CONTAINERD.outer is None or ctr(path, "version").returncode == 0,
        60,
        lambda: f"containerd does not answer: {CONTAINERD.last_lines()}",
    )
    wait_for(lambda: CONTAINERD.pid, 1, lambda: f"containerd: {CONTAINERD.last_lines()}")


def ctr(path: Sequence[Path], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run containerd's client in the node."""
    program = next(str(folder / "ctr") for folder in path if (folder / "ctr").exists())
    enter = ["nsenter", "--target", str(Process("node").pid), "--mount", "--pid", "--"]
    command = [*enter, program, "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)


def _containerd_config(path: Sequence[Path]) -> str:
    runtime = "plugins.'io.containerd.cri.v1.runtime'"
    plugins = next(folder for folder in path if (folder / "ptp").exists())
    return f"""
version = 3
root = '{RUN}/containerd'
state = '/run/containerd'
[grpc]
address = '{CONTAINERD_SOCKET}'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '{images.PAUSE}'
[plugins.'io.containerd.cri.v1.images'.registry]
config_path = '{RUN}/registries'
[{runtime}]
restrict_oom_score_adj = {str(not host.may_lower_oom_scores()).lower()}
[{runtime}.cni]
bin_dirs = ['{plugins}']
conf_dir = '{RUN}/cni'
[{runtime}.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
[{runtime}.containerd.runtimes.runc.options]
BinaryName = '{shutil.which("runc")}'
SystemdCgroup = false
[{runtime}.containerd.runtimes.crun]
runtime_type = 'io.containerd.runc.v2'
container_annotations = ['{ALLOWED_ANNOTATIONS}']
[{runtime}.containerd.runtimes.crun.options]
BinaryName = '{_CRUN}'
SystemdCgroup = false
[{runtime}.containerd.runtimes.runsc]
runtime_type = 'io.containerd.runsc.v1'
[{runtime}.containerd.runtimes.runsc.options]
TypeUrl = 'io.containerd.runsc.v1.options'
ConfigPath = '{_GVISOR}'
"""


def _configure_gvisor(path: Sequence[Path]) -> None:
    """Its sandbox on the platform that needs neither KVM nor ptrace."""
    program = next(folder / "runsc" for folder in path if (folder / "runsc").exists())
    _GVISOR.write_text(f"binary_name = '{program}'\n[runsc_config]\nplatform = 'systrap'\n")


def _wrap_crun() -> None:
    """crun before 1.14.2 refuses specs that call themselves newer than 1.0, and can run them."""
    older = 's/"ociVersion":"[^"]*"/"ociVersion":"1.0.2"/'
    lines = [
        "#!/bin/sh",
        "for word; do",
        f'    [ "$before" = --bundle ] && sed -i \'{older}\' "$word/config.json"',
        "    before=$word",
        "done",
        f'exec {shutil.which("crun")} "$@"',
    ]
    _CRUN.write_text("\n".join([*lines, ""]))
    _CRUN.chmod(0o700)


def _write_network() -> None:
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": POD_NETWORK, "rangeStart": FIRST_POD, "gateway": GATEWAY}]],
        "dataDir": "/run/cni",
    }
    network = {
        "cniVersion": "1.0.0",
        "name": "e2e",
        "plugins": [{"type": "ptp", "ipam": addresses}],
    }
    (RUN / "cni").mkdir()
    (RUN / "cni" / "e2e.conflist").write_text(json.dumps(network))


def _forbid_pulls() -> None:
    """All images are made here: a name that is not known fails at once, and asks nobody."""
    folder = RUN / "registries" / "_default"
    folder.mkdir(parents=True)
    (folder / "hosts.toml").write_text("server = 'http://127.0.0.1:1'\n")


def configure_kubelet(settings: Mapping[str, object] | None = None) -> None:
    """Write the kubelet's config, with `settings` over the usual ones."""
    config = _kubelet_config() | dict(settings or {})
    if not host.cgroup_v2():
        config["failCgroupV1"] = False
    if not host.may_lower_oom_scores():
        config["oomScoreAdj"] = 0
    (RUN / "kubelet.json").write_text(json.dumps(config, indent=1))


def _kubelet_config() -> dict[str, object]:
    (port,) = host.free_ports(1)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "port": port,
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": f"{pki.PKI}/ca.crt"},
        },
        "authorization": {"mode": "AlwaysAllow"},  # of whom the CA signed
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{host.CGROUP}",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "resolvConf": "",
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "nodeStatusUpdateFrequency": "1s",  # 10 s by default: tests wait for it
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,  # what is not in use cannot be pulled again
    }


def start_kubelet(path: Sequence[Path]) -> None:
    arguments = [
        f"--config={RUN}/kubelet.json",
        f"--kubeconfig={RUN}/kubelet.kubeconfig",
        f"--hostname-override={NODE}",
        "-v=4",  # the level that tells of device plugins
    ]
    KUBELET.start(["kubelet", *arguments], path)


def stop_kubelet(signum: int = signal.SIGTERM) -> None:
    KUBELET.stop(signum)
