"""The checkpoint file: written at every change as the kubelet does, and never read again.

The fake remembers allocations in memory; the file is there because plugins see it come and go in
their folder. (No fsync: what it costs is the machine's affair, not the plugin's.)
"""

import base64
import json
import tempfile
import threading
from pathlib import Path
from typing import Any

from device_plugin.testing.devices import Allocation
from device_plugin.testing.listener import CHECKPOINT
from device_plugin.testing.state import State


class Checkpoint:
    def __init__(self, directory: Path, state: State) -> None:
        self._directory = directory
        self._state = state
        self._lock = threading.Lock()  # so that an older state never replaces a newer one

    def write(self) -> str | None:
        """Write a hidden temporary file and rename it (A14); returns what went wrong."""
        with self._lock:
            text = json.dumps({"Data": self._data(), "Checksum": 0})
            try:
                with tempfile.NamedTemporaryFile(
                    "w", dir=self._directory, prefix=".", delete=False
                ) as file:
                    file.write(text)
                Path(file.name).replace(self._directory / CHECKPOINT)
            except OSError as error:
                return f'failed to write checkpoint file "{CHECKPOINT}": {error}'
        return None

    def _data(self) -> dict[str, Any]:
        with self._state.condition:
            devices = self._state.devices
            return {
                "PodDeviceEntries": [
                    {
                        "PodUID": key.pod,
                        "ContainerName": key.container,
                        "ResourceName": key.resource,
                        "DeviceIDs": _by_node(got),
                        "AllocResp": base64.b64encode(got.response.SerializeToString()).decode(),
                    }
                    for key, got in devices.allocations.items()
                ],
                "RegisteredDevices": {
                    resource: sorted(ids) for resource, ids in devices.healthy.items()
                },
            }


def _by_node(got: Allocation) -> dict[str, list[str]]:
    """A device on two NUMA nodes is below both, one on none below -1 (A14)."""
    nodes: dict[str, list[str]] = {}
    for id_ in sorted(got.ids):
        for node in got.numa[id_] or (-1,):
            nodes.setdefault(str(node), []).append(id_)
    return nodes
