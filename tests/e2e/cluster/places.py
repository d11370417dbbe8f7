"""Where things are. Nothing is written outside the cache but what `down` takes away again."""

import os
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[2]
MODULES = HERE / "modules"

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "device-plugin-e2e"
PROGRAMS = CACHE / "programs"
IMAGES = CACHE / "images"
RUN = CACHE / "run"  # of the running cluster; gone when it is down
KUBECONFIG = RUN / "admin.kubeconfig"
KUBELET_ROOT = RUN / "kubelet"  # what the kubelet sees as /var/lib/kubelet

NODE = "e2e"
POD_NETWORK = "10.213.77.0/24"
# The API server as Pods know it: the first address of the services is that of the host's end of
# each Pod's link, which the network plugin takes from the same range.
SERVICES = "10.213.77.0/28"
GATEWAY = "10.213.77.1"
FIRST_POD = "10.213.77.16"
VERSIONS = ("1.37", "1.36")  # the first is the baseline


class CannotStart(Exception):  # noqa: N818 - one line for whoever started it
    """What is missing or went wrong, and what to do."""


def version() -> str:
    """The Kubernetes minor version to run, from the environment."""
    wanted = os.environ.get("KUBERNETES", VERSIONS[0])
    if wanted not in VERSIONS:
        raise CannotStart(f"KUBERNETES={wanted}: choose from {', '.join(VERSIONS)}")
    return wanted
