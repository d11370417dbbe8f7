"""Where things are on this node, for DRA."""

from pathlib import Path

import msgspec

from device_plugin.host import Host

CLAIMS = "dra-claims.json"  # in the state folder: what claims were given


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """What DRA needs to know of where it runs."""

    node: str  # the name of this node in the cluster; empty: nobody said
    kubeconfig: Path | None  # None: a Pod's own access to the API server
    kubelet_root: Path
    state_dir: Path
    cdi_dir: Path
    host: Host
