"""Each flag and word of the command line once, whichever commands take it."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from device_plugin import __version__
from device_plugin.arguments import (
    OneOf,
    address,
    count,
    domain,
    existing_folder,
    flag,
    folder,
    image,
    namespace,
    node_name,
    switch,
)

Add = Callable[[argparse.ArgumentParser], None]

_KUBELET_ROOT = "/var/lib/kubelet"
_LEVELS = ("debug", "info", "warning", "error")


def word(name: str, metavar: str, help_: str, type_: Callable[[str], object] = str) -> Add:
    """Make an argument that is no flag."""

    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(name, metavar=metavar, type=type_, help=help_)

    return add


def config(parser: argparse.ArgumentParser) -> None:
    _config(parser, "the YAML file, or a folder of them", required=True)


def own_config(parser: argparse.ArgumentParser) -> None:
    _config(parser, "a config instead of the built-in one", required=False)


def _config(parser: argparse.ArgumentParser, help_: str, *, required: bool) -> None:
    flag(parser, "--config", type=Path, metavar="FILE", required=required, help=help_)


def host_root(parser: argparse.ArgumentParser) -> None:
    flag(
        parser,
        "--host-root",
        type=existing_folder,
        metavar="DIR",
        default="/",
        help="where the host's /dev and /sys are seen (default %(default)s)",
    )


def state_dir(parser: argparse.ArgumentParser) -> None:
    flag(
        parser,
        "--state-dir",
        type=folder,
        metavar="DIR",
        default="/var/lib/device-plugin",
        help="what outlives the daemon, and its socket; one daemon each (default %(default)s)",
    )


def kubelet(parser: argparse.ArgumentParser) -> None:
    flag(
        parser,
        "--device-plugin-dir",
        type=folder,
        metavar="DIR",
        default=f"{_KUBELET_ROOT}/device-plugins",
        help="the kubelet's folder of plugin sockets (default %(default)s)",
    )
    flag(
        parser,
        "--kubelet-root",
        type=folder,
        metavar="DIR",
        default=_KUBELET_ROOT,
        help="the kubelet's root folder; pod-resources is in it (default %(default)s)",
    )
    flag(
        parser,
        "--pod",
        metavar="NAME",
        default="",
        help="the Pod that this runs in: the kubelet's list of Pods must have it to count",
    )


def dra(parser: argparse.ArgumentParser) -> None:
    switch(parser, "--dra", help_="devices by claims, with a small API server")


def cluster(parser: argparse.ArgumentParser) -> None:
    flag(
        parser,
        "--node-name",
        type=node_name,
        metavar="NAME",
        default="",
        help="this node's name in the cluster; for resources with `api: dra`",
    )
    flag(
        parser,
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        default=None,
        help="how to reach the API server, for `api: dra` (default: as a Pod does)",
    )


def cdi_dir(parser: argparse.ArgumentParser) -> None:
    flag(
        parser,
        "--cdi-dir",
        type=folder,
        metavar="DIR",
        default="/var/run/cdi",
        help="where the container runtime reads CDI specs (default %(default)s)",
    )


def http(parser: argparse.ArgumentParser) -> None:
    flag(
        parser,
        "--http",
        type=address,
        metavar="[HOST]:PORT|off",
        default=":8080",
        help="/healthz, /readyz and /metrics (default %(default)s)",
    )


def log(parser: argparse.ArgumentParser) -> None:
    flag(
        parser,
        "--log-format",
        type=OneOf("json", "console"),
        metavar="json|console",
        default="console" if sys.stderr and sys.stderr.isatty() else "json",
        help="default: console on a terminal, json elsewhere",
    )
    flag(
        parser,
        "--log-level",
        type=OneOf(*_LEVELS),
        metavar="|".join(_LEVELS),
        default="info",
        help="default %(default)s",
    )


def output(*forms: str) -> Add:
    """Make a choice of forms; the first one is the default."""

    def add(parser: argparse.ArgumentParser) -> None:
        flag(
            parser,
            "--output",
            "-o",
            type=OneOf(*forms),
            metavar="|".join(forms),
            default=forms[0],
            help="default %(default)s",
        )

    return add


def how_many(parser: argparse.ArgumentParser) -> None:
    flag(parser, "--count", type=count, metavar="N", default="1", help="default %(default)s")


def watch(parser: argparse.ArgumentParser) -> None:
    switch(parser, "--watch", "again each second, until Ctrl-C; with json, a line each")


def reason(parser: argparse.ArgumentParser) -> None:
    help_ = "people read it wherever the device is shown"
    flag(parser, "--reason", metavar="TEXT", default="", help=help_)


def of_domain(parser: argparse.ArgumentParser) -> None:
    help_ = "of the resources, where it is not the one that the file names"
    flag(parser, "--domain", type=domain, metavar="DOMAIN", default="", help=help_)


def without_pods(parser: argparse.ArgumentParser) -> None:
    switch(parser, "--without-pods", "leave out the trial Pods, each of which takes a device")


def only_classes(parser: argparse.ArgumentParser) -> None:
    switch(parser, "--only-classes", "nothing but the DeviceClasses, of resources with `api: dra`")


def deployment(parser: argparse.ArgumentParser) -> None:
    flag(
        parser,
        "--namespace",
        type=namespace,
        metavar="NAME",
        default="device-plugin",
        help="where the daemons run (default %(default)s)",
    )
    flag(
        parser,
        "--image",
        type=image,
        metavar="IMAGE",
        default=f"localhost/device-plugin:{__version__}",
        help="what they run (default %(default)s)",
    )
