"""generic-device-plugin: resources of groups, each group some paths that go together.

Its globs are sorted lists there, which are paired by position; here a companion has the captures of
the path that it belongs to.
"""

import os.path
import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from device_plugin.config.problem import show
from device_plugin.convert.draft import (
    Batch,
    Draft,
    Foreign,
    Manual,
    listing,
    mapping,
    number,
    plain,
    text,
    unknown_keys,
)

NAME = "generic-device-plugin"
DOMAINS = "devic.es", "squat.ai"  # what it uses where nothing is said: since 0.2.0, and before

_FLAGS = {"listen": "--http", "log-level": "--log-level", "plugin-directory": "--device-plugin-dir"}
_TOKEN = re.compile(
    r"\\(?P<escaped>.)|\[(?P<set>\^?[^\]]*)\]|(?P<glob>[*?])|(?P<text>.)", re.DOTALL
)
_GLOB = frozenset("*?[")
_PATH_KEYS = {"path", "mountPath", "permissions", "readOnly", "type", "limit", "optional"}


def _usb_id(value: Foreign, key: str) -> str:
    digits = text(value, f"`{key}` (quote it)").lower().removeprefix("0x")
    if not re.fullmatch("[0-9a-f]{4}", digits):
        raise Manual(f"`{key}` is not four hexadecimal digits: {show(digits)}")
    return digits


def _literal_glob(value: Foreign, key: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", text(value, f"`{key}` (quote it)"))


_USB_KEYS = {"vendor": _usb_id, "product": _usb_id, "serial": _literal_glob}


def is_config(document: Foreign) -> bool:
    return isinstance(document, dict) and isinstance(_devices(document), list)


def _devices(document: Mapping[str, Foreign]) -> Foreign:
    return document.get("devices", document.get("device"))


def read(document: Mapping[str, Foreign], domain: str) -> Batch:
    notes = [
        "Permissions that are not written mean mrw there and rw here: containers make no nodes.",
        "Of two resources that mean one node, the first one in this file has it.",
    ]
    given = domain or document.get("domain")
    if not isinstance(given, str) or not given:
        given = DOMAINS[0]
        notes.append(
            f"The file names no domain. Since 0.2.0 that means {given}, before it meant"
            f" {DOMAINS[1]}: keep what your Pods ask for (--domain)."
        )
    notes += [
        f"{key} is the flag {flag} of `run` here."
        for key, flag in _FLAGS.items()
        if key in document
    ]
    notes += unknown_keys(document, {"device", "devices", "domain", *_FLAGS}, "the file")
    return Batch(NAME, [_draft(entry, given) for entry in _devices(document)], notes)


def _draft(entry: Foreign, domain: str) -> Draft:
    draft = Draft(f"{domain}/?", entry, notes=[])
    try:
        entry = mapping(entry, "the device")
        draft.name = f"{domain}/{text(plain(entry.get('name')), 'its name')}"
        draft.notes += unknown_keys(entry, {"name", "groups"}, "the device")
        groups = [_Group(group) for group in listing(entry.get("groups"), "`groups`")]
        mounts = _mounts(groups)
        draft.resource = {"name": draft.name, "devices": [group.selector for group in groups]}
        if mounts:
            draft.resource["container"] = {"mounts": mounts}
    except Manual as why:
        draft.notes.append(str(why))
        return draft
    draft.notes += dict.fromkeys(note for group in groups for note in group.notes)
    if any(group.count > 1 for group in groups) and _several(groups):
        draft.notes.append(
            "A container that asks for 2 gets two shares of one device, as far as there are;"
            " per_container: {distinct: true} gives it two devices."
        )
    return draft


def _several(groups: "list[_Group]") -> bool:
    varies = any(node.varies for group in groups for node in group.nodes)
    return varies or len(groups) > 1 or any("usb" in group.selector for group in groups)


def _mounts(groups: "list[_Group]") -> list[dict[str, Foreign]]:
    """The mounts, which are the resource's here; so they must be the same for all groups."""
    mounts = groups[0].mounts if groups else []
    if any(group.mounts != mounts for group in groups):
        raise Manual("its groups mount different files: make a resource of each group")
    return mounts


class _Path(msgspec.Struct, frozen=True):
    """One path of a group."""

    path: str
    mount_path: str = ""
    permissions: str = ""
    read_only: bool = False
    is_mount: bool = False
    limit: int = 1
    optional: bool = False

    @property
    def varies(self) -> bool:
        tokens = _TOKEN.finditer(self.path)
        return any(token["glob"] or token["set"] is not None for token in tokens)

    @property
    def inside_folder(self) -> bool:
        """Whether the container finds it under its own name in the folder `mount_path`."""
        return self.mount_path.endswith("/")


class _Group:
    """A group, as a selector."""

    def __init__(self, group: Foreign) -> None:
        group = mapping(group, "a group")
        self.notes = unknown_keys(group, {"paths", "usb", "count"}, "a group")
        self.count = number(group.get("count", 1), "`count`") or 1
        self.nodes: list[_Path] = []
        self.mounts: list[dict[str, Foreign]] = []
        if group.get("usb"):
            if group.get("paths"):
                raise Manual("a group has `paths` and `usb`: make two of it")
            self.selector = self._usb(listing(group["usb"], "`usb`"))
            return
        paths = [self._read(path) for path in listing(group.get("paths"), "`paths`")]
        self.nodes = [path for path in paths if not path.is_mount]
        self.mounts = [self._mount(path) for path in paths if path.is_mount]
        if not paths:
            raise Manual("a group has no paths")
        self.selector = self._selector() if self.nodes else self._virtual()

    def _usb(self, sticks: list[Foreign]) -> dict[str, Foreign]:
        if len(sticks) > 1:
            raise Manual(
                "a group of several `usb` is one device there, with the nodes of all: here each"
                " stick is a device; make a resource of each"
            )
        stick = mapping(sticks[0], "an item of `usb`")
        self.notes += unknown_keys(stick, set(_USB_KEYS), "an item of `usb`")
        self.notes.append(
            "there all sticks that match are one device, here each is one; the container gets the"
            " node in /dev/bus/usb: drop `nodes` to give it those of drivers, such as ttyUSB0"
        )
        wanted = {key: read(stick[key], key) for key, read in _USB_KEYS.items() if stick.get(key)}
        if not wanted:
            raise Manual("an item of `usb` names neither vendor nor product")
        replicas = {"replicas": self.count} if self.count > 1 else {}
        return {"usb": wanted, "nodes": [{"subsystem": "usb"}], **replicas}

    def _read(self, path: Foreign) -> _Path:
        path = mapping(path, "a path")
        self.notes += unknown_keys(path, _PATH_KEYS, "a path")
        kind = path.get("type") or "Device"
        if kind not in ("Device", "Mount"):
            raise Manual(f"the type {show(plain(kind))} is neither Device nor Mount")
        where = text(path.get("path"), "`path`")
        if "$(" in where:
            raise Manual(f"`{where}`: Kubernetes fills in `$(...)` there; write what it stands for")
        return _Path(
            where,
            plain(path.get("mountPath")).strip(),
            plain(path.get("permissions")),
            bool(path.get("readOnly")),
            kind == "Mount",
            number(path.get("limit", 1), "`limit`") or 1,
            bool(path.get("optional")),
        )

    def _mount(self, path: _Path) -> dict[str, Foreign]:
        if path.varies:
            raise Manual(f"`{path.path}` of type Mount is a pattern: name each file")
        if path.optional:
            self.notes.append(f"`optional` of the mount {path.path} is left out")
        host_path = _literal(path.path)
        self.notes.append(
            f"there is no device there while {host_path} is missing; here a container may find an"
            " empty folder in its place"
        )
        to = path.mount_path or host_path
        to = to + os.path.basename(host_path) if path.inside_folder else to
        read_only = {"read_only": True} if path.read_only else {}
        return {"host_path": _braces(host_path), "path": _braces(to), **read_only}

    def _virtual(self) -> dict[str, Foreign]:
        self.notes.append("a device without a node, so its number is all it has: `virtual`")
        return {"virtual": {"count": self.count}}

    def _selector(self) -> dict[str, Foreign]:
        primary = next((n for n in self.nodes if n.varies and not n.optional), None) or next(
            (node for node in self.nodes if not node.optional), self.nodes[0]
        )
        companions = [node for node in self.nodes if node is not primary]
        if primary.optional:
            self.notes.append(
                f"all paths of the group are optional there; here {primary.path} must exist"
            )
        paired = [node for node in companions if node.varies]
        captures = bool(paired) or (primary.varies and primary.inside_folder)
        if paired:
            self.notes.append(
                "there its files are paired by position in sorted lists, here by equal pieces of"
                " their names: see `device-plugin discover`"
            )
        if primary.varies:
            self.notes += [
                f"there {node.limit} of the devices can have {node.path}, here all do"
                for node in companions
                if not node.varies
            ]
        selector = self._node(primary, captures=captures)
        if companions:
            selector["with"] = [self._companion(node, captures=captures) for node in companions]
        if self.count > 1:
            selector["replicas"] = self.count
        return selector

    def _companion(self, node: _Path, *, captures: bool) -> Foreign:
        made = self._node(node, captures=captures and node.varies)
        if node.optional:
            made["optional"] = True
        return made["path"] if list(made) == ["path"] else made

    def _node(self, node: _Path, *, captures: bool) -> dict[str, Foreign]:
        path = _pattern(node.path, captures=captures)
        made: dict[str, Foreign] = {"path": path}
        if node.inside_folder:
            made["to"] = _braces(node.mount_path) + os.path.basename(path)
        elif node.mount_path:
            made["to"] = _braces(node.mount_path)
        if node.permissions:
            made["permissions"] = "".join(c for c in "rwm" if c in node.permissions) or "rw"
            if set(node.permissions) - set("rwm"):
                self.notes.append(f"permissions {node.permissions!r} became {made['permissions']}")
        return made


def _pattern(path: str, *, captures: bool) -> str:
    """The path in our words; with `captures` each `*` gets a name."""
    names = _names()
    return "".join(_piece(token, names if captures else None) for token in _TOKEN.finditer(path))


def _names() -> Iterator[str]:
    yield "{n}"
    number_ = 2
    while True:
        yield f"{{n{number_}}}"
        number_ += 1


def _piece(token: re.Match[str], names: Iterator[str] | None) -> str:
    if token["glob"] == "*" and names is not None:
        return next(names)
    if (token["glob"] or token["set"] is not None) and names is not None:
        raise Manual(f"`{token[0]}` cannot be captured: give its nodes a path each")
    if token["glob"]:
        return token["glob"]
    if token["set"] is not None:
        members = token["set"]
        return f"[!{members[1:]}]" if members.startswith("^") else f"[{members}]"
    literal = token["escaped"] or token["text"]
    return f"[{literal}]" if literal in _GLOB else _braces(literal)


def _literal(path: str) -> str:
    return "".join(token["escaped"] or token["text"] for token in _TOKEN.finditer(path))


def _braces(literal: str) -> str:
    return literal.replace("{", "{{").replace("}", "}}")


def flags(words: Iterable[str]) -> dict[str, list[str]]:
    """The values of its flags in a command line, as `--flag value` and `--flag=value`."""
    found: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if equals:
                found.setdefault(name, []).append(value)
                name = ""
        elif name:
            found.setdefault(name, []).append(word)
            name = ""
    return found
