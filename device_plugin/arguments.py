"""What arguments may be, and that every flag is also read from DEVICE_PLUGIN_<FLAG>."""

import argparse
import os
import re
from collections.abc import Callable
from pathlib import Path

_PORT, _MAX_PORT = re.compile("[0-9]{1,5}"), 65535
_LABEL = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DOMAIN_LIMIT = 244  # the kubelet's (A2)
_NODE_LIMIT = 253  # characters
_IMAGE = re.compile("[A-Za-z0-9][-A-Za-z0-9._/:@]*")


def flag(parser: argparse.ArgumentParser, name: str, *short: str, **settings: object) -> None:
    """An argument whose default the environment may set."""
    variable = "DEVICE_PLUGIN_" + name.lstrip("-").replace("-", "_").upper()
    value = os.environ.get(variable)
    if value is not None:
        settings |= {"default": _FromEnvironment(value), "required": False}
        # Also plain text: what leaves here is a str and nothing else, which JSON could not say.
        settings["type"] = _Named(variable, settings.get("type", str))  # type: ignore[arg-type]
    parser.add_argument(*short, name, **settings)  # type: ignore[arg-type]


class _FromEnvironment(str):
    """A value that nobody wrote on the command line."""

    __slots__ = ()


class _Named:
    """A type whose complaints name the variable that the value came from."""

    def __init__(self, variable: str, type_: Callable[[str], object]) -> None:
        self._variable = variable
        self._type = type_
        self.words: tuple[str, ...] = getattr(type_, "words", ())

    def __call__(self, text: str) -> object:
        try:
            return self._type(str(text))
        except argparse.ArgumentTypeError as why:
            if not isinstance(text, _FromEnvironment):
                raise
            raise argparse.ArgumentTypeError(f"from {self._variable}: {why}") from None


class _Switch(argparse.Action):
    """A flag without a value; in the environment it is true or false."""

    def __call__(self, _parser: object, namespace: argparse.Namespace, *_: object) -> None:
        setattr(namespace, self.dest, True)


def switch(parser: argparse.ArgumentParser, name: str, help_: str) -> None:
    flag(parser, name, action=_Switch, nargs=0, type=_is_true, default="false", help=help_)


# argparse applies `type` to defaults too, so values from the environment pass these as well.


class OneOf:
    """One of a few words."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def __call__(self, text: str) -> str:
        if text not in self.words:
            raise argparse.ArgumentTypeError(f"{text!r}: choose from {', '.join(self.words)}")
        return text


def _is_true(text: str) -> bool:
    return OneOf("true", "false")(text) == "true"


def folder(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("it is empty: name a folder")
    return Path("/" + os.path.abspath(text).lstrip("/"))


def existing_folder(text: str) -> str:
    path = folder(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no folder: is the host's /dev mounted below?")
    return str(path)


def address(text: str) -> tuple[str, int] | None:
    """`:8080`, `127.0.0.1:8080` or `[::1]:8080` as host and port; None for `off`."""
    if text == "off":
        return None
    host, colon, port = text.rpartition(":")
    is_port = colon and _PORT.fullmatch(port) and int(port) <= _MAX_PORT
    in_brackets = host.startswith("[") and host.endswith("]")
    if not is_port or (":" in host) != in_brackets:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no address: write :8080, 127.0.0.1:8080 or off"
        )
    return host.strip("[]"), int(port)


def count(text: str) -> int:
    if not text.isdecimal() or not 1 <= len(text) <= 9 or int(text) < 1:  # noqa: PLR2004
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)


def domain(text: str) -> str:
    labels = text.split(".")
    if text and (len(text) > _DOMAIN_LIMIT or not all(map(_LABEL.fullmatch, labels))):
        raise argparse.ArgumentTypeError(f"{text!r} is no domain such as example.com")
    return text


def namespace(text: str) -> str:
    if not _LABEL.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no namespace: use a-z, 0-9 and -")
    return text


def node_name(text: str) -> str:
    """Of a Node: a domain in lower case."""
    if text and not (len(text) <= _NODE_LIMIT and all(map(_LABEL.fullmatch, text.split(".")))):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no node's name: see `kubectl get nodes`; in a Pod it is spec.nodeName"
        )
    return text


def image(text: str) -> str:
    if not _IMAGE.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no image: write registry.example.com/device-plugin:1.0"
        )
    return text
