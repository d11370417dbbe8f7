"""`path`: device nodes by name, with globs, captures and companions; a folder is one device.

The path that matched is the identity, so for `/dev/serial/by-id/*` it is the link and not the
ttyUSBn that it leads to today.
"""

from collections.abc import Iterator, Mapping

from device_plugin.config import Companion, Selector
from device_plugin.device import Candidate, Device, Found, Node, device_id, natural_key
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
    candidates = []
    for path, captures in _matches(look, pattern, notes):
        try:
            wanted = _wanted(look.entry(path), pattern)
        except Absent:
            continue
        except Unusable:
            wanted = True  # something is there: what is wrong with it becomes the problem
        if wanted:
            candidates.append(_candidate(look, selector, path, captures))
    if not candidates:
        notes.append(f"{pattern.text} matches nothing")
    return Found(tuple(candidates), "; ".join(notes))


def _matches(look: Look, pattern: PathPattern, notes: list[str]) -> Iterator[Match]:
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
    odd = [path for path, _ in found if not path.isprintable()]
    if odd:
        others = f" and {len(odd) - 1} more" if len(odd) > 1 else ""
        notes.append(f"{shown(odd[0])}{others} passed over: unprintable characters in its name")
    yield from (match for match in found if match[0].isprintable())


def _names(look: Look, folder: str, notes: list[str]) -> list[str]:
    try:
        return sorted(look.names(folder), key=natural_key)
    except Absent:
        return []
    except Unusable as why:
        notes.append(f"{shown(folder)} {why}")
        return []


def _wanted(entry: Entry, pattern: PathPattern) -> bool:
    """A glob means nodes and `/dev/x*/` folders; a path in full may be either."""
    if entry.is_folder:
        return pattern.folder or pattern.literal is not None
    return not pattern.folder


def _candidate(look: Look, selector: Selector, path: str, captures: Mapping[str, str]) -> Candidate:
    nodes: dict[str, Node] = {}
    claims: list[str] = []
    problem = ""
    for part in _parts(selector, path, captures):
        try:
            for entry, node in _nodes(look, part):
                nodes.setdefault(node.host_path, node)
                if part.path == path:
                    claims.append(entry.real)
        except Unusable as why:
            if not part.optional:
                problem = problem or f"{part.path} {why}"
    device = Device(_id(path), tuple(nodes.values()), selector.replicas, captures)
    return Candidate(device, problem, tuple(claims))


def _parts(selector: Selector, path: str, captures: Mapping[str, str]) -> Iterator[Companion]:
    """The primary node and the companions alike, with paths in full."""
    yield Companion(path, selector.to, selector.permissions)
    for with_ in selector.with_:
        companion = Companion(with_) if isinstance(with_, str) else with_
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


def _id(path: str) -> str:
    identity = path.removeprefix("/dev/")
    folder, _, name = identity.rpartition("/")
    by_something = folder.rpartition("/")[2].startswith("by-")
    return device_id(name if by_something else identity, identity)
