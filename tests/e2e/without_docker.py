"""examples/kind/demo.sh without Docker: with kind, on the node of these tests.

`python tests/e2e/without_docker.py` runs it so.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster import cluster as clusters
from cluster import places
from cluster.node import Process

sys.path.append(str(places.PROJECT / "tests" / "manifests"))

import programs  # where kind comes from

HERE = Path(__file__).resolve().parent
DEMO = places.PROJECT / "examples" / "kind" / "demo.sh"


def environment(folder: Path, cluster: clusters.Cluster) -> dict[str, str]:
    """Where the demo finds its programs; `folder` is for them and for what docker.sh is told.

    `make` is told that its environment is the one that runs here, and that this is installed.
    """
    (folder / "kind").symlink_to(programs.program("kind"))
    (folder / "docker").symlink_to(HERE / "docker.sh")
    make = [shutil.which("make") or "make", f"VENV={sys.prefix}"]
    make += [f"--assume-old={sys.prefix}/run.stamp", "--no-print-directory"]
    (folder / "make").write_text(f'#!/bin/sh\nexec {shlex.join(make)} "$@"\n')
    (folder / "make").chmod(0o755)
    server: str = json.loads(places.KUBECONFIG.read_text())["clusters"][0]["cluster"]["server"]
    inherited = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
    return inherited | {
        "PATH": ":".join([str(folder), *map(str, cluster.path), os.environ["PATH"]]),
        "KIND": "kind",
        "KUBECTL": "kubectl",
        "KIND_EXPERIMENTAL_PROVIDER": "docker",
        "E2E_STATE": str(folder),
        "E2E_NODE": str(Process("node").pid),
        "E2E_ADMIN": str(places.KUBECONFIG),
        "E2E_SERVER": server.removeprefix("https://"),
        "E2E_VERSION": places.version(),
    }


def main() -> int:
    """Run the demo on a cluster that stays."""
    try:
        cluster = clusters.up(places.version())
    except places.CannotStart as why:
        print(f"e2e: {why}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        demo = subprocess.Popen(DEMO, env=environment(Path(folder), cluster))
        try:
            code = demo.wait()
        except KeyboardInterrupt:  # it has got it, too
            code = demo.wait()
    if os.environ.get("KEEP"):
        print(f"It is the cluster of `make e2e`: export KUBECONFIG={places.KUBECONFIG}")
        print("`make e2e-down` stops it.")
    elif code:  # the demo takes away its cluster, and this one stays
        for made in (["-f", "examples/kind/pod.yaml"], ["-k", "examples/kind"]):
            cluster.kubectl("delete", "--ignore-not-found", "--timeout=60s", *made)
    return code


if __name__ == "__main__":
    sys.exit(main())
