"""What Kubernetes, Linux and we call a name: each function says what is wrong, or None."""

import contextlib
import re

from device_plugin.attribute import Quantity, Version
from device_plugin.config.problem import foreign, listed, show

_SUBDOMAIN_LIMIT = 253
_NAME_LIMIT = 63
# /var/lib/kubelet/plugins_registry/DRIVER-12345678-reg.sock has at most 107 characters.
DRIVER_LIMIT = 55
PARTITION_LIMIT = 16  # it is part of the part's name, which is a label
LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
ATTRIBUTE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
SUBSYSTEM = re.compile(r"[a-z][a-z0-9_-]*")
GLOB = r"\*?\[\]!-"  # within a set of a regular expression: what a glob is made of
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
PORT = re.compile(r"[0-9]+-[0-9]+(?:\.[0-9]+)*")
_SET = r"\[!?+\]?+[^\]]*\]"  # as fnmatch reads it
# The kubelet checks the name with this in front, as a quota would hold it.
_QUOTA = "requests."


def resource(name: str) -> str | None:
    """As the kubelet's IsExtendedResourceName."""
    domain, slash, rest = name.partition("/")
    if not slash:
        return f"a resource name needs a domain: example.com/{show(name) or 'name'}"
    if "kubernetes.io/" in name:
        return "`kubernetes.io/` is reserved; use a domain of your own"
    if name.startswith(_QUOTA):
        return f"a resource name may not begin with `{_QUOTA}`"
    if "/" in rest:
        return "a resource name has one `/`, between domain and name"
    if len(domain) > (limit := _SUBDOMAIN_LIMIT - len(_QUOTA)):
        return f"the domain has {len(domain)} characters; at most {limit} are allowed"
    return _domain(domain) or _rest(rest)


def driver(name: str) -> str | None:
    """As Kubernetes, CDI (of which it is the vendor) and the room for a socket's path have it."""
    if message := _domain(name) if name else "the driver needs a name such as gpu.example.com":
        return message
    if name[0].isdigit():
        return "CDI has no names that begin with a digit; take a domain that does not"
    if len(name) > DRIVER_LIMIT:
        return (
            f"the driver's name has {len(name)} characters; at most {DRIVER_LIMIT} leave room for"
            " its socket in the kubelet's folder"
        )
    return None


def partition(name: str) -> str | None:
    if len(name) <= PARTITION_LIMIT and LABEL.fullmatch(name):
        return None
    return (
        f"`{show(name)}`{foreign(name)} is no name of parts: it is made of a-z, 0-9 and `-`, with a"
        f" letter or digit at both ends, and has at most {PARTITION_LIMIT} characters"
    )


def annotation(key: str) -> str | None:
    """As Kubernetes checks annotations: upper case in the domain is overlooked."""
    domain, slash, rest = key.rpartition("/")
    if "/" in domain:
        return "an annotation key has at most one `/`, between domain and name"
    if len(domain) > _SUBDOMAIN_LIMIT:
        return f"the domain has {len(domain)} characters; at most {_SUBDOMAIN_LIMIT} are allowed"
    return (_domain(domain.lower()) if slash else None) or _rest(rest)


def _domain(domain: str) -> str | None:
    if not domain:
        return "there is no domain before the `/`"
    if domain != domain.lower():
        return f"the domain `{show(domain)}` must be lower case"
    for label in domain.split("."):
        if not LABEL.fullmatch(label):
            return (
                f"`{show(domain)}`{foreign(domain)} is no domain: between dots are a-z, 0-9 and"
                " `-`, with a letter or digit at both ends"
            )
    return None


def _rest(name: str) -> str | None:
    if not name:
        return "there is no name after the `/`"
    if len(name) > _NAME_LIMIT:
        return f"the name has {len(name)} characters; at most {_NAME_LIMIT} are allowed"
    if not NAME.fullmatch(name):
        return (
            f"`{show(name)}`{foreign(name)} is no name: it is made of letters, digits, `-`, `_`"
            " and `.`, with a letter or digit at both ends"
        )
    return None


def env(key: str) -> str | None:
    if _ENV.fullmatch(key):
        return None
    return (
        "a variable's name is made of letters, digits, `_`, `.` and `-`,"
        " and begins with a letter or `_`"
    )


def attribute(name: str) -> str | None:
    if ATTRIBUTE.fullmatch(name):
        return None
    return (
        f"`{show(name)}`{foreign(name)} is no attribute name: it is made of letters, digits and"
        " `_`, begins with a letter or `_`, and has at most 32 characters"
    )


def quantity(value: str) -> str | None:
    try:
        Quantity.parse(value)
    except ValueError:
        return f'"{show(value)}" is no quantity such as 80Gi, 500M or 1500m'
    if value.startswith("-"):
        return "a capacity may not be negative"
    return None


def version(text: str) -> str | None:
    """As semver.org, and so DRA, has it."""
    for meant in (text, text.removeprefix("v"), f"{text.removeprefix('v')}.0"):
        with contextlib.suppress(ValueError):
            Version.parse(meant)
            hint = f"; write {meant}"
            return f'"{show(text)}" is no version (semver.org){hint}' if meant != text else None
    return f'"{show(text)}" is no version such as 1.2.3 or 1.2.3-rc.1 (semver.org)'


def permissions(value: str) -> str | None:
    if value and set(value) <= set("rwm") and len(set(value)) == len(value):
        return None
    return f'permissions are some of r, w and m, each once, as in rw; not "{show(value)}"'


def path(text: str) -> str | None:
    """Check a path in a container, whose placeholders are filled in."""
    return "`/` alone cannot be mounted over" if text == "/" else host_path(text)


def host_path(text: str) -> str | None:
    """Check a path of the host's, which may well be its root."""
    if not text.startswith("/"):
        return "a path must be absolute: begin it with `/`"
    components = text[1:].split("/") if text != "/" else []
    if ".." in components or "." in components:
        return "a path may not hold `.` or `..`"
    if "" in components:
        return "a path may not hold `//`, or end with `/`"
    return None


def is_glob(text: str) -> bool:
    return not frozenset("*?[").isdisjoint(text)


def glob(text: str) -> str | None:
    """Check a glob over text other than paths."""
    rest = re.sub(_SET, "", text)
    if "[" in rest:
        return "`[` is never closed; write `[[]` for a literal one"
    if "[^" in text:
        return "`[^...]` is not supported; write `[!...]`"
    return None


def node(text: str) -> str | None:
    """Check a glob over the kernel's names of nodes."""
    if not text:
        return "`name` is empty; remove it"
    if "/" in text:
        return f"`{show(text)}` holds a `/`; write the name without its folder: renderD*"
    return glob(text)


def hexadecimal(text: str, lengths: tuple[int, ...]) -> str | None:
    """Check a hexadecimal number of so many digits, or a glob over such numbers."""
    meant = text.lower().removeprefix("0x")
    if not re.fullmatch(rf"[0-9a-f{GLOB}]+", meant):
        return f'"{show(text)}"{foreign(text)} is no hexadecimal number'
    if meant != text:
        return f'"{show(text)}": write "{show(meant)}", in lower case and without 0x'
    if is_glob(text):
        return glob(text)
    if len(text) in lengths:
        return None
    digits = f"{len(text)} digit{'s' if len(text) > 1 else ''}"
    padded = f'; write "{text.zfill(lengths[0])}"' if len(text) < lengths[0] else ""
    return f'"{show(text)}" has {digits}, not {listed([*map(str, lengths)], form="{}")}{padded}'


def address(text: str) -> str | None:
    """Check a PCI address, or a glob over such."""
    meant = text.lower()
    for start in ("", "0000:"):
        if ADDRESS.fullmatch(start + meant) and start + meant != text:
            return f'"{show(text)}": write the address in full: "{start}{meant}"'
    if is_glob(text):
        return glob(text)
    if ADDRESS.fullmatch(text):
        return None
    return f'"{show(text)}"{foreign(text)} is no PCI address such as 0000:3b:00.0'


def port(text: str) -> str | None:
    """Check a USB port, or a glob over such."""
    if is_glob(text):
        return glob(text)
    if PORT.fullmatch(text):
        return None
    return f'"{show(text)}"{foreign(text)} is no USB port such as 1-1.4: bus, `-`, ports from there'


def subsystem(text: str) -> str | None:
    if SUBSYSTEM.fullmatch(text):
        return None
    return f'"{show(text)}"{foreign(text)} is no subsystem of the kernel such as tty or video4linux'
