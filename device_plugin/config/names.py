"""What Kubernetes, Linux and we call a name: each function says what is wrong, or None."""

import contextlib
import re

from device_plugin.attribute import Quantity, Version
from device_plugin.config.problem import foreign, show

_SUBDOMAIN_LIMIT = 253
_NAME_LIMIT = 63
LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
ATTRIBUTE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
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
