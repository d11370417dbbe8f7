"""`gpu`: what it stands for, written as `pci` selectors; docs/config.md shows the same."""

from collections.abc import Mapping
from itertools import chain
from typing import NamedTuple

from msgspec import structs

from device_plugin.config import Companion, Gpu, NodeOf, Pci, Selector
from device_plugin.device import Found
from device_plugin.discovery import match, pci
from device_plugin.host import Look


class _Expansion(NamedTuple):
    pci: tuple[Pci, ...]
    nodes: tuple[NodeOf, ...]
    with_: tuple[Companion, ...] = ()


_DRM = NodeOf("drm")  # card and render node
EXPANSIONS: Mapping[str, _Expansion] = {
    "amd": _Expansion(
        pci=(
            Pci(vendor="1002", class_="03"),
            Pci(vendor="1002", class_="12"),  # some that only compute
        ),
        nodes=(_DRM,),
        with_=(Companion("/dev/kfd", optional=True),),
    ),
    "intel": _Expansion(pci=(Pci(vendor="8086", class_="03"),), nodes=(_DRM,)),
    "nvidia": _Expansion(
        pci=(Pci(vendor="10de", class_="03"),),
        nodes=(NodeOf("nvidia"), NodeOf("drm", optional=True)),
        with_=(
            Companion("/dev/nvidiactl"),
            Companion("/dev/nvidia-uvm"),
            Companion("/dev/nvidia-uvm-tools", optional=True),
            Companion("/dev/nvidia-modeset", optional=True),
        ),
    ),
}


def find(look: Look, selector: Selector, wanted: Gpu) -> Found:
    """Every GPU of the vendor, each with all of its nodes."""
    meant = [(one, one.pci) for one in expanded(selector, wanted) if one.pci is not None]
    matches = chain.from_iterable(pci.matches(look, one, wanted) for one, wanted in meant)
    return match.sift(matches, selector)


def expanded(selector: Selector, gpu: Gpu) -> list[Selector]:
    """The `pci` selectors that it stands for; its own `nodes` go instead, `with` comes on top."""
    meant = EXPANSIONS[gpu.vendor]
    return [
        structs.replace(
            selector,
            gpu=None,
            pci=pci,
            nodes=selector.nodes or meant.nodes,
            with_=(*meant.with_, *selector.with_),
        )
        for pci in meant.pci
    ]
