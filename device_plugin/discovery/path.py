"""`path`: device nodes by name, with globs, captures and companions; a folder is one device.

The path that matched is the identity, so for `/dev/serial/by-id/*` it is the link and not the
ttyUSBn that it leads to today.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from device_plugin.config import Companion, Requirement, Selector
from device_plugin.device import Candidate, Device, Found, Lost, Node, device_id, natural_key
from device_plugin.discovery.where import mismatch
from device_plugin.host import Absent, Entry, Look, Unusable, shown
from device_plugin.pattern import PathPattern
from device_plugin.template import Template, escape

# A folder is one device: bounds of what a container can sensibly be given at once.
_MAX_FOLDER_ENTRIES = 1000
_MAX_FOLDERS = 100

Match = tuple[str, dict[str, str]]


def find(look: Look, selector: Selector) -> Found:
    """Every path that matches `selector.path`, as a candidate."""
    pattern = PathPattern.parse(selector.path or "")
    notes: list[str] = []
    lost: list[Lost] = []
    candidates = []
    matches = _matches(look, pattern, notes, lost)
    passing = list(_passing(matches, selector.where, notes, lost))
    for path, captures in passing:
        if reason := _unwanted(look, path, pattern):
            lost.append(Lost(path, reason))
        else:
            candidates.append(_candidate(look, selector, path, captures))
    if not candidates:
        by_where = matches and not passing
        what = "nothing that matches passes `where`" if by_where else "matches nothing"
        notes.append(f"{pattern.text}{':' if by_where else ''} {what}")
    return Found(tuple(candidates), "; ".join(notes), tuple(lost))


def device_of(path: str) -> str:
    """The ID of the device that a selector makes of a path that it matches."""
    identity = path.removeprefix("/dev/")
    folder, _, name = identity.rpartition("/")
    by_something = folder.rpartition("/")[2].startswith("by-")
    return device_id(name if by_something else identity, identity)


def _matches(look: Look, pattern: PathPattern, notes: list[str], lost: list[Lost]) -> list[Match]:
    """Walk the pattern's components; a literal one is not listed, only appended."""
    found: list[Match] = [("", {})]
    for part in pattern.parts:
        if isinstance(part, str):
            found = [(f"{folder}/{part}", captures) for folder, captures in found]
        else:
            found = [
                (f"{folder}/{name}", captures | more)
                for folder, captures in found
                for name in _names(look, folder or "/", notes)
                if (more := part.match(name, captures)) is not None
            ]
    odd = [shown(path) for path, _ in found if not path.isprintable()]
    if odd:
        notes.append(f"{odd[0]}{_more(odd)} passed over: unprintable characters in its name")
        lost += [Lost(path, "there are unprintable characters in its name") for path in odd]
    return [match for match in found if match[0].isprintable()]


def _passing(
    matches: Iterable[Match], where: tuple[Requirement, ...], notes: list[str], lost: list[Lost]
) -> Iterator[Match]:
    """The matches that are what `where` requires."""
    odd = []
    for path, captures in matches:
        why = mismatch(where, captures)
        if why is None:
            yield path, captures
            continue
        lost.append(Lost(path, why.reason))
        if why.odd:
            odd.append(f"{path}: {why.reason}")
    if odd:
        notes.append(f"{odd[0]}{_more(odd)}")


def _more(several: Sequence[str]) -> str:
    return f" and {len(several) - 1} more" if len(several) > 1 else ""


def _names(look: Look, folder: str, notes: list[str]) -> list[str]:
    try:
        return sorted(look.names(folder), key=natural_key)
    except Absent:
        return []
    except Unusable as why:
        notes.append(f"{shown(folder)} {why}")
        return []


def _unwanted(look: Look, path: str, pattern: PathPattern) -> str:
    """A glob means nodes and `/dev/x*/` folders; a path in full may be either."""
    try:
        entry = look.entry(path)
    except Absent:
        return "it does not exist"
    except Unusable:
        return ""  # something is there: what is wrong with it becomes the problem
    if pattern.folder and not entry.is_folder:
        return "it is no folder, which the `/` at the end asks for"
    if entry.is_folder and not pattern.folder and pattern.literal is None:
        return "it is a folder; a pattern means folders with a `/` at its end"
    return ""


def _candidate(look: Look, selector: Selector, path: str, captures: Mapping[str, str]) -> Candidate:
    nodes: dict[str, Node] = {}
    owned: list[str] = []
    problem = ""
    for part in _parts(selector, path, captures):
        try:
            for entry, node in _nodes(look, part):
                nodes.setdefault(node.host_path, node)
                if part.path == path:
                    owned.append(entry.real)
        except Unusable as why:
            if not part.optional:
                problem = problem or f"{part.path} {why}"
    device = Device(device_of(path), tuple(nodes.values()), selector.replicas, captures, captures)
    return Candidate(device, problem, tuple(owned))


def _parts(selector: Selector, path: str, captures: Mapping[str, str]) -> Iterator[Companion]:
    """The primary node and the companions alike, with paths in full."""
    yield Companion(path, selector.to, selector.permissions)
    for companion in selector.companions:
        where = Template.parse(companion.path).render(captures)
        yield Companion(where, companion.to, companion.permissions, companion.optional)


def _nodes(look: Look, part: Companion) -> Iterator[tuple[Entry, Node]]:
    entry = look.entry(part.path)
    if entry.is_node:
        yield entry, Node(part.path, part.to or "", part.permissions)
    elif entry.is_folder:
        yield from _folder_nodes(look, part)
    else:
        raise Unusable(f"is {entry.kind}, not a device node")


def _folder_nodes(look: Look, part: Companion) -> Iterator[tuple[Entry, Node]]:
    """Every node below the folder; a link counts where it leads to a node outside of it."""
    folder, real = part.path.rstrip("/"), look.entry(part.path).real
    entries = sorted(_walk(look, real), key=_in_tree_order)
    inside = {entry.real for entry in entries if not entry.by_link}
    entries = [entry for entry in entries if not entry.by_link or entry.real not in inside]
    if not entries:
        raise Unusable("is a folder without device nodes")
    for entry in entries:
        below = entry.path.removeprefix(real)
        yield (
            entry,
            Node(folder + below, part.to + escape(below) if part.to else "", part.permissions),
        )


def _walk(look: Look, top: str) -> Iterator[Entry]:
    """The nodes below, links to nodes among them; bounded, because anybody may name `/usr`."""
    left, folders = _MAX_FOLDER_ENTRIES, [top]
    for folder in folders:
        names = look.names(folder)
        left -= len(names)
        if left < 0 or len(folders) > _MAX_FOLDERS:
            raise Unusable(f"has more than {_MAX_FOLDER_ENTRIES} entries or {_MAX_FOLDERS} folders")
        for path in (f"{folder}/{name}" for name in names):
            try:
                entry = look.entry(path)
            except Unusable:
                continue
            if entry.is_node and path.isprintable():
                yield entry
            elif entry.is_folder and not entry.by_link:
                folders.append(path)


def _in_tree_order(entry: Entry) -> list[tuple[list[tuple[int, int, str]], str]]:
    return [natural_key(component) for component in entry.path.split("/")]
