"""A CDI spec as a file: what stands in every one of them, and how it gets there.

Format: https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md
"""

import contextlib
from pathlib import Path

import msgspec

_BMP = 0xFFFF  # the last character that one \u can write


class Part(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"
):
    """A part of a spec, as it stands in the file."""


class Node(Part, frozen=True):
    """A device node of a container. Runtimes follow no links, so the host's is the node itself."""

    path: str  # in the container
    permissions: str
    host_path: str = ""  # empty: the same


def node(path: str, permissions: str, real: str) -> Node:
    """`real`: the host's path after all links."""
    return Node(path, permissions, real if real != path else "")


def put(path: Path, spec: Part) -> None:
    """Replace a file in one step. Raises OSError; then there is nothing new.

    The new one is made beside it, under a name that is no spec's: runtimes read .json and .yaml,
    dot files too, and older ones notice a rename only in the folder that it begins in.
    """
    path.parent.mkdir(exist_ok=True)  # after a reboot there is none
    fresh = path.with_name(f".{path.name}.new")
    try:
        fresh.write_bytes(_text(spec))
        fresh.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise


def _text(spec: Part) -> bytes:
    """JSON that is YAML, too, because runtimes read it as such."""
    text = msgspec.json.encode(spec).decode()
    if not text.isprintable():
        text = "".join(c if c.isprintable() or ord(c) > _BMP else f"\\u{ord(c):04x}" for c in text)
    return text.encode()
