"""Folders of the node that the DaemonSet mounts only for some configs."""

from typing import NamedTuple

_MOUNTS, _VOLUMES = "          volumeMounts:\n", "      volumes:\n"


class Folder(NamedTuple):
    """Its volume's name, its place on the node and in the container, its `hostPath.type`."""

    volume: str
    path: str
    type: str


CDI = Folder("cdi", "/var/run/cdi", "DirectoryOrCreate")


def mounted(text: str, *folders: Folder) -> str:
    """Add folders to the text of a DaemonSet."""
    mounts = volumes = ""
    for volume, path, type_ in folders:
        mounts += f"            - {{name: {volume}, mountPath: {path}}}\n"
        volumes += (
            f"        - name: {volume}\n          hostPath: {{path: {path}, type: {type_}}}\n"
        )
    text = text.replace(_MOUNTS, _MOUNTS + mounts, 1)
    return text.replace(_VOLUMES, _VOLUMES + volumes, 1)
