"""The forms of names in the API."""

import re
from collections.abc import Iterator

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_C_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_LABEL, _LONGEST_SUBDOMAIN, _LONGEST_IDENTIFIER = 63, 253, 32


def is_dns_label(name: str) -> bool:
    return len(name) <= _LONGEST_LABEL and bool(_LABEL.fullmatch(name))


def is_dns_subdomain(name: str) -> bool:
    return len(name) <= _LONGEST_SUBDOMAIN and bool(_SUBDOMAIN.fullmatch(name))


def is_label_name(name: str) -> bool:
    """Whether it may be a label's key, or a taint's: `[domain/]name`."""
    domain, slash, part = name.rpartition("/")
    fits = len(part) <= _LONGEST_LABEL and bool(_QUALIFIED.fullmatch(part))
    return fits and (not slash or is_dns_subdomain(domain))


def is_label_value(value: str) -> bool:
    return not value or (len(value) <= _LONGEST_LABEL and bool(_QUALIFIED.fullmatch(value)))


def qualified_name_problems(name: str) -> Iterator[str]:
    """What is wrong with an attribute's or a capacity's name: `[domain/]identifier`."""
    domain, slash, part = name.partition("/")
    if not slash:
        part = domain
    elif not domain:
        yield "the domain must not be empty"
    elif len(domain) > _LONGEST_LABEL or not is_dns_subdomain(domain):
        yield "the domain must be a lowercase RFC 1123 subdomain of at most 63 characters"
    if len(part) > _LONGEST_IDENTIFIER:
        yield f"Too long: may not be more than {_LONGEST_IDENTIFIER} bytes"
    if not _C_IDENTIFIER.fullmatch(part):
        yield (
            "a valid C identifier must start with alphabetic character or '_', "
            "followed by a string of alphanumeric characters or '_'"
        )
