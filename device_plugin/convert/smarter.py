"""smarter-device-manager: a list of regular expressions over the names below /dev.

Each file that matches becomes a resource there, with the file's name and "_" for "/".
"""

import re
from collections.abc import Iterator

from device_plugin.config.problem import show
from device_plugin.convert.draft import (
    Batch,
    Draft,
    Foreign,
    Manual,
    number,
    plain,
    text,
    unknown_keys,
)

NAME = "smarter-device-manager"
DOMAIN = "smarter-devices"

_TOKEN = re.compile(
    r"\\(?P<escaped>.)|\[(?P<set>\^?\]?[^\]]*)\]|(?P<any>\.)|(?P<end>[\^$])|(?P<or>\|)"
    r"|(?P<quantifier>[*+?]|\{[0-9,]*\})|(?P<other>[(){}\[\\])|(?P<literal>.)",
    re.DOTALL,
)
_NVIDIA = "nvidia-gpu"
_GLOB = frozenset("*?[{}")
_REPEATED = (
    "Characters that repeat there, as in the expressions `[0-9]*`, `[0-9]+` and `\\d+`, are here a"
    " glob such as `[0-9]*`: one such character, then anything."
)
_RENAMED = (
    "there each file is a resource with a name of its own, here all are devices of this one: Pods"
    " that ask for another name stay Pending"
)


def is_config(document: Foreign) -> bool:
    return (
        isinstance(document, list)
        and bool(document)
        and all(isinstance(entry, dict) and "devicematch" in entry for entry in document)
    )


def read(document: list[dict[str, Foreign]], domain: str) -> Batch:
    domain = domain or DOMAIN
    note = (
        "There an expression finds files, in folders below /dev too, and each is a resource. Here"
        " what a pattern finds are devices of one resource, of which Pods get any; to keep a name"
        f" such as {domain}/video0, write a resource of that name, with that file as its path."
    )
    drafts = [draft for entry in document for draft in _drafts(entry, domain)]
    notes = [note]
    for draft in drafts:
        if _REPEATED in draft.notes:  # once for the whole file
            draft.notes.remove(_REPEATED)
            notes = [note, _REPEATED]
    return Batch(NAME, drafts, notes)


def _drafts(entry: dict[str, Foreign], domain: str) -> list[Draft]:
    """One resource for each branch of the expression."""
    extra = unknown_keys(entry, {"devicematch", "nummaxdevices"}, "the entry")
    try:
        match = text(entry["devicematch"], "devicematch")
        notes, replicas = _replicas(entry)
        branches = [_Branch(tokens) for tokens in _branches(match)]
        return [
            Draft(
                name := f"{domain}/{branch.name}",
                entry,
                {"name": name, "devices": [{"path": branch.path} | replicas]},
                [*extra, *notes, *branch.notes],
                [_RENAMED] if branch.varies else [],
            )
            for branch in branches
        ]
    except Manual as why:
        return [Draft(f"`{show(plain(entry['devicematch']))}`", entry, notes=[*extra, str(why)])]


def _replicas(entry: dict[str, Foreign]) -> tuple[list[str], dict[str, int]]:
    if "nummaxdevices" not in entry:
        return ["nummaxdevices is missing: there that means none, here it became 1"], {}
    count = number(entry["nummaxdevices"], "nummaxdevices")
    if not count:
        raise Manual("nummaxdevices is 0: there is nothing to offer")
    return [], {"replicas": count} if count > 1 else {}


def _branches(match: str) -> Iterator[list[re.Match[str]]]:
    """Cut at each `|`."""
    if match == _NVIDIA:
        raise Manual("this version has no kind for NVIDIA's integrated GPUs, which have no node")
    branch: list[re.Match[str]] = []
    for token in _TOKEN.finditer(match):
        if token["or"]:
            yield branch
            branch = []
        else:
            branch.append(token)
    yield branch


class _Branch:
    """One regular expression without `|`, as a glob."""

    def __init__(self, tokens: list[re.Match[str]]) -> None:
        self.notes: list[str] = []
        self.stem = ""  # the text in front of what varies
        self.varies = False
        pieces = [self._piece(token, tokens, index) for index, token in enumerate(tokens)]
        written = "".join(token[0] for token in tokens)
        starts, ends = written.startswith("^"), bool(tokens) and tokens[-1][0] == "$"
        if not (starts and ends):
            self.varies = True
            missing = " and ".join(
                end for end, there in (("`^`", starts), ("`$`", ends)) if not there
            )
            self.notes.append(f"`{written}` has no {missing}: `*` in its place")
        glob = "".join(["" if starts else "*", *pieces, "" if ends else "*"])
        self.path = "/dev/" + re.sub(r"\*+", "*", glob)
        self.name = self._name()

    def _name(self) -> str:
        if not self.varies:
            return self.stem.replace("/", "_")
        name = self.stem.replace("/", "_").rstrip("-_.")
        if not name:
            raise Manual("the expression begins with no name that the resource could have")
        return name

    def _piece(self, token: re.Match[str], tokens: list[re.Match[str]], index: int) -> str:
        after = tokens[index + 1] if index + 1 < len(tokens) else None
        quantifier = after["quantifier"] or "" if after else ""
        if token["quantifier"]:
            return ""  # taken together with what it follows
        if token["end"]:
            if index != (0 if token[0] == "^" else len(tokens) - 1):
                raise Manual(f"no glob says what `{token[0]}` does in the midst of a name")
            return ""
        if token["other"]:
            raise Manual(f"no glob says what `{token[0]}` does: write a pattern by hand")
        if token["set"] is not None or token["any"] or token["escaped"] == "d":
            return self._variable(token, quantifier)
        if quantifier or (token["escaped"] or "").isalnum():
            raise Manual(f"no glob says `{token[0]}{quantifier}`: write a pattern by hand")
        literal = token["escaped"] or token["literal"]
        if not self.varies:
            self.stem += literal
        return _escaped(literal)

    def _variable(self, token: re.Match[str], quantifier: str) -> str:
        self.varies = True
        if quantifier not in ("", "*", "+"):
            raise Manual(f"no glob says `{token[0]}{quantifier}`: write a pattern by hand")
        if token["any"]:
            return {"": "?", "*": "*", "+": "?*"}[quantifier]
        members = "0-9" if token["escaped"] else token["set"]
        if "\\" in members or "[" in members:
            raise Manual(f"no glob says `{token[0]}`: write a pattern by hand")
        glob = f"[!{members[1:]}]" if members.startswith("^") else f"[{members}]"
        if not quantifier:
            return glob
        if _REPEATED not in self.notes:
            self.notes.append(_REPEATED)
        return f"{glob}*"


def _escaped(literal: str) -> str:
    if literal in "{}":
        return literal * 2
    return f"[{literal}]" if literal in _GLOB else literal
