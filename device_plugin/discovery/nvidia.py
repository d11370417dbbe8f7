"""The node of an NVIDIA GPU, /dev/nvidia0 or the like.

Its driver says nothing of it in /sys. What it says instead stands in /proc/driver, which is the
same for every process.
"""

import re

from device_plugin.discovery.sysfs import Device, Node
from device_plugin.host import Unusable

DRIVER = "nvidia"
_MAJOR = 195
_MINOR = re.compile(r"Device Minor:\s*([0-9]{1,3})")
_NODE = re.compile(r"nvidia([0-9]{1,3})")


def node(function: Device) -> tuple[list[Node], str]:
    """The node of a function that is bound to the driver, or none and why."""
    look = function.look
    path = f"/proc/driver/nvidia/gpus/{function.name}/information"
    try:
        lines = look.lines(path)
    except Unusable as why:
        return [], f"{path} {why}"
    for line in lines:
        if found := _MINOR.fullmatch(line):
            minor = int(found[1])
            return [Node(DRIVER, f"/dev/nvidia{minor}", f"c {_MAJOR}:{minor}")], ""
    return [], f"{path} names no minor"
