"""A certificate authority, three certificates and three tokens for one short-lived cluster."""

import json
import os
import secrets
import subprocess
from pathlib import Path

from cluster.places import GATEWAY, NODE, RUN, CannotStart

PKI = RUN / "pki"
TOKENS = PKI / "tokens.csv"
_DAYS = "30"
_USERS = {  # who, and in which groups
    "admin": "system:masters",
    f"system:node:{NODE}": "system:nodes",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
}


def make() -> None:
    """Write them all under PKI."""
    PKI.mkdir(mode=0o700)
    _openssl("req", "-x509", *_new_key("ca"), "-subj", "/CN=e2e", "-out", _file("ca.crt"))
    _signed("apiserver", "/CN=apiserver", f"subjectAltName=IP:127.0.0.1,IP:{GATEWAY},DNS:localhost")
    _signed("kubelet-client", "/O=system:masters/CN=apiserver", "extendedKeyUsage=clientAuth")
    _openssl("genrsa", "-out", _file("service-accounts.key"), "2048")
    lines = [f'{secrets.token_hex(16)},{user},{user},"{groups}"' for user, groups in _USERS.items()]
    TOKENS.write_text("\n".join(lines) + "\n")


def kubeconfig(path: Path, user: str, port: int) -> Path:
    """A kubeconfig (JSON is YAML) of `user` for the API server at `port`."""
    token = next(
        line.split(",")[0] for line in TOKENS.read_text().splitlines() if f",{user}," in line
    )
    server = {"server": f"https://127.0.0.1:{port}", "certificate-authority": _file("ca.crt")}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": server}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": user}}],
        "current-context": "e2e",
    }
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file, indent=1)
    return path


def _signed(name: str, subject: str, extension: str) -> None:
    request = ["-subj", subject, "-addext", extension, "-out", _file(f"{name}.csr")]
    _openssl("req", *_new_key(name), *request)
    authority = ["-CA", _file("ca.crt"), "-CAkey", _file("ca.key"), "-CAcreateserial"]
    out = ["-copy_extensions", "copy", "-days", _DAYS, "-out", _file(f"{name}.crt")]
    _openssl("x509", "-req", "-in", _file(f"{name}.csr"), *authority, *out)


def _new_key(name: str) -> list[str]:
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc"]
    return [*key, "-keyout", _file(f"{name}.key")]


def _file(name: str) -> str:
    return str(PKI / name)


def _openssl(*arguments: str) -> None:
    done = subprocess.run(
        ["openssl", *arguments], capture_output=True, text=True, check=False, stdin=None
    )
    if done.returncode:
        raise CannotStart(f"openssl {arguments[0]}: {done.stderr.strip()[-300:]}")
