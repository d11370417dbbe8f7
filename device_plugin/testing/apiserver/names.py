"""The forms of names in the API."""

import re

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_C_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_LABEL, _LONGEST_SUBDOMAIN = 63, 253


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


def is_c_identifier(name: str) -> bool:
    return bool(_C_IDENTIFIER.fullmatch(name))
