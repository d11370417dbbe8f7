"""`device-plugin convert`: another plugin's config in our form.

Where the meaning differs a comment says so; what cannot be had is there as a comment, with the
reason. What is no comment passes `check`.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
import yaml

from device_plugin import config
from device_plugin.config import source
from device_plugin.config.problem import Refused
from device_plugin.config.source import Source
from device_plugin.convert import generic, smarter
from device_plugin.convert.draft import Batch, Draft, Foreign, plain
from device_plugin.table import WIDTH

_INDENT = "  "
_LINE = re.compile(r" \(line \d+\)| in line \d+")  # of a text that nobody sees


class Unknown(Exception):  # noqa: N818 - an answer for people
    """Why the file cannot be converted."""


class Converted(msgspec.Struct, frozen=True):
    text: str  # our config
    left_out: list[str]  # what is there as a comment only, a line each
    changed: list[str]  # what Pods do not get here as they get it there, a line each


def convert(path: Path, domain: str = "") -> Converted:
    """Convert a file; `domain` instead of the one that it names. Raises Unknown."""
    try:
        return _convert(path, domain)
    except RecursionError:
        raise Unknown(f"{path}: nested too deeply") from None


def _convert(path: Path, domain: str) -> Converted:
    documents = [document for one in source.load(path) for document in _documents(one)]
    batches = [batch for document in documents for batch in _batches(document, domain)]
    if batches:
        return _converted(path, batches)
    if any(isinstance(one, dict) and "resources" in one for one in documents):
        raise Unknown(f"{path} may be a config of ours already: device-plugin check {path}")
    raise Unknown(
        f"{path} holds no config of {generic.NAME} (a mapping with `devices`, or flags in a"
        f" manifest) and none of {smarter.NAME} (a list with `devicematch`)"
    )


def _documents(file: Source) -> list[Foreign]:
    if file.problem:
        raise Unknown(f"{file.name}: {file.problem}")
    try:
        return list(yaml.safe_load_all(source.to_text(file.data)))
    except (Refused, yaml.YAMLError, ValueError) as why:
        raise Unknown(f"{file.name}: {' '.join(str(why).split())}") from None


def _batches(document: Foreign, domain: str) -> Iterator[Batch]:
    """The configs in a document: the file itself, or what a manifest holds."""
    if smarter.is_config(document):
        yield smarter.read(document, domain)
    elif generic.is_config(document):
        yield generic.read(document, domain)
    elif isinstance(document, dict):
        for inner in _inside(document):
            yield from _batches(inner, domain)


def _inside(document: dict[str, Foreign]) -> Iterator[Foreign]:
    """What may be a config in a manifest, or in the values of a chart."""
    if isinstance(document.get("config"), list):
        yield document["config"]
    for text in _dict(document.get("data")).values():
        yield from _parsed(text)
    pod = _dict(document.get("spec"))
    pod = _dict(_dict(pod.get("template")).get("spec")) or pod
    for container in _list(pod.get("containers")):
        words = [*_list(_dict(container).get("command")), *_list(_dict(container).get("args"))]
        given = generic.flags(map(plain, words))
        devices = [device for text in given.get("device", []) for device in _parsed(text)]
        if devices:
            domain = given.get("domain", [])[-1:]
            yield {"devices": devices, **({"domain": domain[0]} if domain else {})}


def _parsed(text: Foreign) -> Iterator[Foreign]:
    try:
        yield yaml.safe_load(text if isinstance(text, str) else "")
    except (yaml.YAMLError, ValueError):
        return


def _dict(value: Foreign) -> dict[str, Foreign]:
    return value if isinstance(value, dict) else {}


def _list(value: Foreign) -> list[Foreign]:
    return value if isinstance(value, list) else []


def _converted(path: Path, batches: list[Batch]) -> Converted:
    good: list[dict[str, Foreign]] = []
    left_out: list[str] = []
    changed: dict[str, list[str]] = {}  # names, by why
    lines: list[str] = []
    for batch in batches:
        lines += _comment([f"From {path}, a config of {batch.plugin}.", *batch.notes])
        for draft in batch.drafts:
            lines.append("")
            _fit(draft, good)
            if draft.resource is None:
                left_out.append(f"{draft.name}: {draft.notes[-1]}")
                lines += _comment([f"Left to you: {draft.name}", *draft.notes])
                lines += [f"{_INDENT}# {line}" for line in _dump([draft.source])]
                continue
            good.append(draft.resource)
            overlaps = _overlaps(good)
            for why in (*draft.changed, *overlaps):
                changed.setdefault(why, []).append(draft.name)
            lines += _comment([*overlaps, *draft.notes])
            lines += [_INDENT + line for line in _dump([draft.resource])]
    if not good:
        lines.append(f"{_INDENT}[]  # nothing yet: `check` asks for a resource")
    head = "# Made by `device-plugin convert`. Read the comments, then `check` it."
    return Converted(
        "\n".join([head, "version: 1", "resources:", *lines]),
        left_out,
        [f"{', '.join(names)}: {why}" for why, names in changed.items()],
    )


def _fit(draft: Draft, good: list[dict[str, Foreign]]) -> None:
    """See that the resource passes `check` beside the others, or say why it does not."""
    if draft.resource is None:
        return
    problems = _problems([*good, draft.resource])
    if not problems:
        return
    single = draft.resource | {"per_container": {"max": 1}}
    if not _problems([*good, single]):
        draft.resource = single
        draft.notes.append(
            "per_container: {max: 1} because its devices have one path inside: there a container"
            " with two got only one of them"
        )
        return
    draft.source, draft.resource = draft.resource, None
    draft.notes.append("`check` refuses it: " + "; ".join(problems))


def _problems(resources: list[dict[str, Foreign]]) -> list[str]:
    text = yaml.safe_dump({"version": 1, "resources": resources})
    problems = config.check(text.encode(), "converted").problems
    return [_LINE.sub("", problem.message) for problem in problems]


def _overlaps(good: list[dict[str, Foreign]]) -> list[str]:
    """Where the newest resource wants nodes that an earlier one has."""
    *earlier, newest = good
    paths = list(_paths(newest))
    names = dict.fromkeys(
        other["name"]
        for other in earlier
        for taken in _paths(other)
        for path in paths
        if _meet(taken, path) or _meet(path, taken)
    )
    return [
        f"{name} has some of the same device nodes, and each belongs to one resource only, the"
        " first: this one gets what is left, if anything"
        for name in names
    ]


def _paths(resource: dict[str, Foreign]) -> list[str]:
    return [selector["path"] for selector in resource["devices"] if "path" in selector]


def _meet(wide: str, path: str) -> bool:
    return path.startswith(f"{wide}/") or fnmatchcase(path, wide)


def _comment(notes: Iterable[str]) -> list[str]:
    return [
        line
        for note in notes
        for line in textwrap.wrap(
            _printable(note),
            WIDTH,
            initial_indent=f"{_INDENT}# ",
            subsequent_indent=f"{_INDENT}# ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]


def _printable(text: str) -> str:
    """A text that stays one line, whoever wrote what is quoted in it."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _dump(value: Foreign) -> list[str]:
    text: str = yaml.safe_dump(value, sort_keys=False, width=WIDTH - 8, default_flow_style=None)
    return text.splitlines()
