"""Warnings where a resource cannot work with a container runtime that its `runtimes` names.

Nothing is refused for them: runtimes differ by their own settings, too. How each of this is known
stands in docs/runtimeclass.md.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from device_plugin.config.conflicts import Examined
from device_plugin.config.problem import Report, Where, show
from device_plugin.config.types import Container, Resource, Selector
from device_plugin.pattern import PathPattern

_SHARING = frozenset(("runc", "crun"))
# Expressions as text: they are compiled for a config that names runtimes, not at every start.
_WILD = r"\{[^{}]*\}|\[[^]]*\]|[*?]"  # what varies in a path: read as a digit
# How the kernel and udev name block devices.
_BLOCK = (
    r"/dev/(?!mapper/control$|mmcblk\d+rpmb)"
    r"(?:(?:disk|mapper|block|cciss)(?:/|$)|[shv]d|xvd|dasd|dm-|md[\d/]|loop\d|zram|ram|nbd|rbd|sr"
    r"|mmcblk|mtdblock|pmem|drbd|bcache|nullb|ublkb|zd\d|zvol/|fd\d|nvme\d+n)"
)
_VFIO = r"/dev/(?:vfio(?:/|$)|iommu$)"
_TAKEN_FOR_TPU = r"/dev/(?:vfio(?!/vfio$)|accel)"  # by gVisor, which looks no further
# What sandboxes have of their own: a container finds theirs, which does the same.
_OWN = (
    *("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"),
    *("/dev/tty", "/dev/ptmx", "/dev/fuse", "/dev/net/tun", "/dev/net"),
)
# gVisor passes calls on to the host's driver, if the container has the node under this name.
_PROXIED = r"/dev/(?:nvidia\d+|nvidiactl|nvidia-uvm|accel\d+)"
_NVIDIA, _GOOGLE = "10de", "1ae0"
_GROUP, _FUNCTION = "vfio", "vfio-dev"  # /dev/vfio/7, /dev/vfio/devices/vfio7
_REACHING_KATA = frozenset(("block", _GROUP, _FUNCTION))
_REACHING_GVISOR = frozenset(("nvidia", "accel", _GROUP, _FUNCTION))
_KATA = "only block devices and VFIO groups reach its virtual machine"
_SELECT_BY_VFIO = f"{_KATA}; bind it to vfio-pci, and select it by `vfio`"
_BLOCK_ONLY = f"{_KATA}; name them: `nodes: [{{subsystem: block}}]`"
_TWICE = (
    "it would add each function twice, by its group and by itself; choose one:"
    f" `nodes: [{{subsystem: {_GROUP}}}]`"
)
_NO_DRIVER = "the sandbox has no driver for it, so it cannot be opened"
_TPU = "gVisor takes it for a TPU, and ends with all containers of the Pod"
_OF_FILES = ("/dev/shm/", "/dev/hugepages/", "/dev/mqueue/")  # noqa: S108 - only names
# Annotations that a runtime reads when it makes the sandbox, before any container has its devices.
_OF_THE_POD: Mapping[str, str] = {
    "kata": "io.katacontainers.config.",
    "runsc": "dev.gvisor.spec.mount.",
}


class _Unfit(NamedTuple):
    place: Where  # within the selector
    what: str
    why: str


def sharing(names: Collection[str]) -> bool:
    """Whether one of them shares the host's kernel, and so its device nodes. Without any: yes."""
    return not names or not _SHARING.isdisjoint(names)


def takes_tpus(resource: Resource) -> bool:
    """Whether what it has below /dev/vfio is for gVisor as it is."""
    return any(one.vfio is not None and one.vfio.vendor == _GOOGLE for one in resource.devices)


def refusal(
    runtime: str, path: str, *, block: bool, inside: str = "", tpu: bool = False
) -> str | None:
    """Why a container under that runtime cannot use this device node of the host.

    inside: where the container finds it, if it is elsewhere. tpu: it belongs to one.
    """
    if not block and path in _OWN:
        return None
    if runtime == "kata":
        return None if block or re.match(_VFIO, path) else _KATA
    if runtime == "runsc" and not re.fullmatch(_PROXIED, inside or path):
        if not re.match(_TAKEN_FOR_TPU, inside or path):
            return None if tpu and re.match(_VFIO, path) else _NO_DRIVER
        return None if tpu else _TPU
    return None


def check(one: Examined, report: Report) -> None:
    """Warn; of a resource with mistakes nothing is said."""
    if report.inside(one.where):
        return
    for runtime in dict.fromkeys(one.resource.runtimes):
        for index, selector in enumerate(one.resource.devices):
            for unfit in [*_unfit(runtime, selector)][:1]:  # the first says it all
                place = (*one.where, "devices", index, *unfit.place)
                report.warn(place, f"{unfit.what} does not work with {runtime}: {unfit.why}")
        _container(runtime, one.resource.container, (*one.where, "container"), report)


def _unfit(runtime: str, selector: Selector) -> Iterator[_Unfit]:
    if selector.path is not None and not _may_be_own(PathPattern.parse(selector.path)):
        yield from _by_name(runtime, selector.path, selector.to, ("path",))
    if runtime == "kata":
        yield from _kata(selector)
    if runtime == "runsc":
        yield from _gvisor(selector)
    for index, (item, written) in enumerate(zip(selector.companions, selector.with_, strict=True)):
        place = () if isinstance(written, str) else ("path",)
        yield from _by_name(runtime, item.path, item.to, ("with", index, *place))


def _may_be_own(pattern: PathPattern) -> bool:
    """Whether it is meant for what a sandbox has; what fits other terminals, too, is not."""
    return any(map(pattern.fits, _OWN)) and not pattern.fits("/dev/ttyS0")


def _by_name(runtime: str, path: str, to: str | None, place: Where) -> Iterator[_Unfit]:
    likely, inside = (re.sub(_WILD, "0", text or "") for text in (path, to))
    block = re.match(_BLOCK, likely) is not None
    if why := refusal(runtime, likely, block=block, inside=inside):
        guess = "by its name it is no block device, and " if runtime == "kata" else ""
        yield _Unfit(place, f"`{show(path)}`", f"{guess}{why}")


def _kata(selector: Selector) -> Iterator[_Unfit]:
    subsystems = {node.subsystem for node in selector.nodes}
    if selector.vfio is not None and (not subsystems or subsystems >= {_GROUP, _FUNCTION}):
        both = "with both `nodes`" if subsystems else "without `nodes`"
        yield _Unfit(("vfio",), f"`vfio` {both}", _TWICE)
    for index, node in enumerate(selector.nodes):
        if node.subsystem not in _REACHING_KATA:
            yield _Unfit(("nodes", index, "subsystem"), f"a node of `{node.subsystem}`", _KATA)
    if selector.nodes:
        return
    if selector.gpu is not None:
        yield _Unfit(("gpu",), "`gpu`", _SELECT_BY_VFIO)
    for kind in ("usb", "pci"):
        if getattr(selector, kind) is not None:
            yield _Unfit((kind,), f"`{kind}` without `nodes`", _BLOCK_ONLY)


def _gvisor(selector: Selector) -> Iterator[_Unfit]:
    if selector.usb is not None:
        yield _Unfit(("usb",), "`usb`", _NO_DRIVER)
    if selector.gpu is not None and selector.gpu.vendor != "nvidia":
        yield _Unfit(("gpu",), f"`gpu` of {selector.gpu.vendor}", _NO_DRIVER)
    if selector.pci is not None and selector.pci.vendor not in (_NVIDIA, _GOOGLE):
        yield _Unfit(("pci",), "`pci`", _NO_DRIVER)
    if selector.vfio is not None and selector.vfio.vendor != _GOOGLE:
        yield _Unfit(("vfio",), "`vfio`", _TPU)
    for index, node in enumerate(selector.nodes):
        if node.subsystem not in _REACHING_GVISOR:
            what = f"a node of `{node.subsystem}`"
            yield _Unfit(("nodes", index, "subsystem"), what, _NO_DRIVER)


def _container(runtime: str, container: Container, where: Where, report: Report) -> None:
    prefix = _OF_THE_POD.get(runtime)
    for key in container.annotations:
        if prefix is not None and key.startswith(prefix):
            message = f"`{show(key)}` does nothing with {runtime}, which reads it of the Pod"
            report.warn((*where, "annotations", key), f"{message}; write it there", key=True)
    for index, mount in enumerate(container.mounts):
        if why := _mount(runtime, mount.host_path):
            report.warn((*where, "mounts", index, "host_path"), f"`{show(mount.host_path)}` {why}")


def _mount(runtime: str, path: str) -> str:
    """What is wrong with a mount of the host's path; empty for nothing."""
    folder = f"{path}/"
    if runtime == "kata" and folder.startswith(("/dev/", "/proc/", "/sys/")):
        is_block = re.match(_BLOCK, path) is not None
        return "" if is_block else "is the virtual machine's own with kata, not the host's"
    if runtime == "runsc" and path.startswith("/dev/") and path not in _OWN:
        if folder.startswith(_OF_FILES):
            return ""
        return "is not opened through a mount with runsc, if it is a device node"
    return ""
