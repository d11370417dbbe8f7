"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler, on the loopback address.

Pods reach the API server through a gateway on their side of the node.
"""

import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from cluster import pki
from cluster.host import free_ports
from cluster.node import Process, wait_for
from cluster.places import GATEWAY, HERE, KUBECONFIG, NODE, RUN, SERVICES

_TIMEOUT = 90


def start(path: Sequence[Path]) -> None:
    """Start them, and return when the API is ready."""
    clients, peers, api = free_ports(3)
    etcd, apiserver = Process("etcd"), Process("kube-apiserver")
    etcd.start(_etcd(clients, peers), path)
    apiserver.start(_apiserver(clients, api), path)
    pki.kubeconfig(KUBECONFIG, "admin", api)
    for name in ("kube-controller-manager", "kube-scheduler"):
        pki.kubeconfig(RUN / f"{name}.kubeconfig", f"system:{name}", api)
    pki.kubeconfig(RUN / "kubelet.kubeconfig", f"system:node:{NODE}", api)
    processes = (etcd, apiserver)
    wait_for(
        lambda: _ready(api) or any(process.outer is None for process in processes),
        _TIMEOUT,
        lambda: f"the API is not ready after {_TIMEOUT} s\n{_last_lines(processes)}",
    )
    wait_for(lambda: _ready(api), 1, lambda: f"the API ended\n{_last_lines(processes)}")
    _start_gateway(api)
    Process("kube-controller-manager").start(_controller_manager(), path)
    Process("kube-scheduler").start(_scheduler(), path)


def _etcd(clients: int, peers: int) -> list[str]:
    client, peer = f"http://127.0.0.1:{clients}", f"http://127.0.0.1:{peers}"
    return [
        "etcd",
        f"--data-dir={RUN}/etcd",
        "--unsafe-no-fsync",  # nothing in it is worth a crash of the machine
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--log-level=warn",
    ]


def _apiserver(etcd: int, port: int) -> list[str]:
    key = f"{pki.PKI}/service-accounts.key"
    return [
        "kube-apiserver",
        f"--etcd-servers=http://127.0.0.1:{etcd}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={pki.PKI}/apiserver.crt",
        f"--tls-private-key-file={pki.PKI}/apiserver.key",
        f"--token-auth-file={pki.TOKENS}",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",  # the overlay of that name
        f"--service-cluster-ip-range={SERVICES}",
        "--service-account-issuer=https://e2e",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        f"--kubelet-client-certificate={pki.PKI}/kubelet-client.crt",
        f"--kubelet-client-key={pki.PKI}/kubelet-client.key",
        "--kubelet-preferred-address-types=InternalIP",
        "--endpoint-reconciler-type=none",
    ]


def _start_gateway(api: int) -> None:
    ready = RUN / "gateway.ready"
    gateway = Process("gateway")
    gateway.start([sys.executable, "-I", str(HERE / "gateway.py"), GATEWAY, str(api), str(ready)])
    wait_for(
        lambda: ready.exists() or gateway.outer is None,
        10,
        lambda: f"the Pods' way to the API: {gateway.last_lines()}",
    )
    wait_for(ready.exists, 1, lambda: f"no way from Pods to the API: {gateway.last_lines()}")


def _controller_manager() -> list[str]:
    return [
        "kube-controller-manager",
        f"--kubeconfig={RUN}/kube-controller-manager.kubeconfig",
        f"--service-account-private-key-file={pki.PKI}/service-accounts.key",
        f"--root-ca-file={pki.PKI}/ca.crt",
        "--use-service-account-credentials",
        "--leader-elect=false",
        "--secure-port=0",
    ]


def _scheduler() -> list[str]:
    kubeconfig = f"--kubeconfig={RUN}/kube-scheduler.kubeconfig"
    return ["kube-scheduler", kubeconfig, "--leader-elect=false", "--secure-port=0"]


def _ready(port: int) -> bool:
    token = pki.TOKENS.read_text().split(",")[0]
    request = urllib.request.Request(
        f"https://127.0.0.1:{port}/readyz", headers={"Authorization": f"Bearer {token}"}
    )
    trust = ssl.create_default_context(cafile=f"{pki.PKI}/ca.crt")
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust)
    )
    try:
        with opener.open(request, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _last_lines(processes: Sequence[Process]) -> str:
    return "\n".join(f"{process.name}: {process.last_lines()}" for process in processes)
