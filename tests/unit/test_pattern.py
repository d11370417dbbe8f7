import fnmatch
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.pattern import Matcher, PathPattern, PatternError


def match(pattern: str, path: str) -> dict[str, str] | None:
    """Walk as discovery does."""
    parts, names = PathPattern.parse(pattern).parts, path[1:].split("/")
    captures: dict[str, str] | None = {}
    if len(parts) != len(names):
        return None
    for part, name in zip(parts, names, strict=True):
        if captures is None:
            return None
        if isinstance(part, Matcher):
            captures = part.match(name, captures)
        elif part != name:
            return None
    return captures


@pytest.mark.parametrize(
    ("pattern", "path", "captures"),
    [
        ("/dev/fuse", "/dev/fuse", {}),
        ("/dev/fuse", "/dev/fus", None),
        ("/dev/tty*", "/dev/ttyUSB0", {}),
        ("/dev/tty*", "/dev/tty", {}),
        ("/dev/tty?", "/dev/tty", None),
        ("/dev/tty?", "/dev/tty0", {}),
        ("/dev/tty?", "/dev/tty10", None),
        ("/dev/*/x", "/dev/a/x", {}),
        ("/dev/*", "/dev/a/x", None),
        ("/dev/tty[0-3]", "/dev/tty3", {}),
        ("/dev/tty[0-3]", "/dev/tty4", None),
        ("/dev/tty[!0-3]", "/dev/tty4", {}),
        ("/dev/tty[!0-3]", "/dev/tty0", None),
        ("/dev/[]-]x", "/dev/]x", {}),
        ("/dev/[]-]x", "/dev/-x", {}),
        ("/dev/[!]]x", "/dev/]x", None),
        ("/dev/[a\\]x", "/dev/\\x", {}),
        ("/dev/[.]x", "/dev/.x", {}),
        ("/dev/x[*?[]y", "/dev/x[y", {}),
        ("/dev/x[*]", "/dev/x*", {}),
        ("/dev/x[*]", "/dev/xy", None),
        ("/dev/x{{1}}", "/dev/x{1}", {}),
        ("/dev/x.y", "/dev/xzy", None),
        # a leading dot must be named
        ("/dev/*", "/dev/.x", None),
        ("/dev/?x", "/dev/.x", None),
        ("/dev/[!a]x", "/dev/.x", None),
        ("/dev/{n}", "/dev/.x", None),
        ("/dev/.*", "/dev/.x", {}),
        ("/dev/.{n}", "/dev/.x", {"n": "x"}),
        ("/dev/x*", "/dev/x.y", {}),
        # captures
        ("/dev/tty{n}", "/dev/ttyUSB0", {"n": "USB0"}),
        ("/dev/tty{n}", "/dev/tty", None),
        ("/dev/{a}-{b}", "/dev/1-2-3", {"a": "1", "b": "2-3"}),
        ("/dev/{a}/{b}", "/dev/1/2", {"a": "1", "b": "2"}),
        ("/dev/{a}/x{a}y", "/dev/1/x1y", {"a": "1"}),
        ("/dev/{a}/x{a}y", "/dev/1/x2y", None),
        ("/dev/{a}/{b}/{a}-{b}", "/dev/1/2/1-2", {"a": "1", "b": "2"}),
        ("/dev/{a}/{b}/{a}-{b}", "/dev/1/2/2-1", None),
        ("/dev/{a}/{a}*", "/dev/1/1", {"a": "1"}),
        ("/dev/{a}-{a}", "/dev/1-1", {"a": "1"}),
        ("/dev/{a}-{a}", "/dev/1-2", None),
        ("/dev/{a}{a}", "/dev/abab", {"a": "ab"}),
        ("/dev/*x{a}y{a}", "/dev/1x2x3y3", {"a": "3"}),
        ("/dev/{b}-{a}-{a}", "/dev/1-2-3-3", {"b": "1-2", "a": "3"}),
        ("/dev/{a}-{a}-{b}", "/dev/1-1-1-2", {"a": "1", "b": "1-2"}),
        # what would lead out of a folder is no piece
        ("/dev/x{a}", "/dev/x..", None),
        ("/dev/x{a}", "/dev/x.", None),
        ("/dev/x{a}", "/dev/x...", {"a": "..."}),
        ("/dev/x{a}", "/dev/x\n", {"a": "\n"}),
        ("/dev/x{a}", "/dev/x\udcff", {"a": "\udcff"}),
    ],
)
def test_match(pattern, path, captures):
    assert match(pattern, path) == captures


BRACES = " write `{{` and `}}` for literal braces"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a path must be absolute: begin it with `/`"),
        ("dev/x", "a path must be absolute: begin it with `/`"),
        ("~/x", "a path must be absolute: begin it with `/`"),
        ("/", "`/` is no device; name a file or a folder under it"),
        ("//", "a path may not hold `//`"),
        ("//dev", "a path may not hold `//`"),
        ("/dev//x", "a path may not hold `//`"),
        ("/dev//", "a path may not hold `//`"),
        ("/dev/../x", "a path may not hold `..`"),
        ("/dev/.", "a path may not hold `.`"),
        ("/dev/[.].", "a path may not hold `[.].`"),
        ("/dev/a\nb", "a path may not hold control characters"),
        ("/dev/a\x7f", "a path may not hold control characters"),
        ("/dev/**", "`**` is not supported; write `*` once for each folder level"),
        ("/dev/a**b", "`**` is not supported; write `*` once for each folder level"),
        ("/dev/{", "`{` is never closed; write `{{` for a literal one"),
        ("/dev/{a", "`{` is never closed; write `{{` for a literal one"),
        ("/dev/{a/b}", "`{` is never closed; write `{{` for a literal one"),
        ("/dev/a}", "`}` closes nothing; write `}}` for a literal one"),
        ("/dev/[", "`[` is never closed; write `[[]` for a literal one"),
        ("/dev/[]", "`[]` names no character"),
        ("/dev/[!]", "`[!]` names no character"),
        ("/dev/[a/b]", "`[` is never closed; write `[[]` for a literal one"),
        ("/dev/[z-a]", "`[z-a]`: the range `z-a` is backwards"),
        ("/dev/[^a]", "`[^a]` is not supported; write `[!...]` or ranges such as `[0-9]`"),
        (
            "/dev/[[:digit:]]",
            "`[[:digit:]` is not supported; write `[!...]` or ranges such as `[0-9]`",
        ),
        ("/dev/{id}", "`{id}` is a placeholder; give the capture another name"),
        ("/dev/{attribute}", "`{attribute}` is a placeholder; give the capture another name"),
        ("/dev/{a}{b}", "`{a}` and `{b}` side by side: nothing says where one ends"),
        ("/dev/{a}*", "`{a}` and `*` side by side: nothing says where one ends"),
        (
            "/dev/{a}-{b}-{a}-{b}",
            "only one capture may be repeated within a name, not both `{a}` and `{b}`",
        ),
        *(
            (
                f"/dev/{{{name}}}",
                f"`{{{name}}}` is no capture: a name is letters, digits and `_`;{BRACES}",
            )
            for name in ("", "1", "a b", "a.b", "ä", "a:b")
        ),
    ],
)
def test_refused(text, message):
    with pytest.raises(PatternError) as caught:
        PathPattern.parse(text)
    assert str(caught.value) == message


def test_parts():
    pattern = PathPattern.parse("/dev/{a}/x*/[[]y/{b}-{a}/")
    first, second, third, fourth, fifth = pattern.parts
    assert (first, fourth) == ("dev", "[y")
    assert all(isinstance(part, Matcher) for part in (second, third, fifth))
    assert pattern.captures == ("a", "b")
    assert pattern.folder
    assert pattern.literal is None
    assert pattern.template is None


@pytest.mark.parametrize(
    ("text", "literal", "folder"),
    [
        ("/dev/fuse", "/dev/fuse", False),
        ("/dev/snd/", "/dev/snd", True),
        ("/dev/[*]{{x}}", "/dev/*{x}", False),
        ("/dev/x*", None, False),
        ("/dev/{x}/", None, True),
    ],
)
def test_literal(text, literal, folder):
    pattern = PathPattern.parse(text)
    assert (pattern.text, pattern.literal, pattern.folder) == (text, literal, folder)


def test_captures_of_before_are_kept():
    (_, matcher) = PathPattern.parse("/dev/{b}").parts
    assert isinstance(matcher, Matcher)
    before = {"a": "1"}
    assert matcher.match("2", before) == {"a": "1", "b": "2"}
    assert before == {"a": "1"}


@pytest.mark.parametrize(
    "component",
    [
        "*a" * 100 + "b",
        "{x}a" + "*a" * 60 + "b",
        "".join(f"{{c{n}}}a" for n in range(60)) + "b",
        "*a{x}" + "b*" * 30 + "a{x}",
        "*a" * 40 + "{x}" + "a*" * 40 + "a{x}b",
        "*a?{x}?a*?a{x}?a*?{x}?b",
        "[!b]*[!b]{x}[!b]*[!b]{x}[!c]*[!b]b",
    ],
)
@pytest.mark.parametrize("name", ["a" * 255, "ab" * 127, "a" * 127 + "b" * 127 + "c"])
def test_no_pattern_takes_long(component, name):
    (matcher,) = PathPattern.parse(f"/{component}").parts
    assert isinstance(matcher, Matcher)
    started = time.monotonic()
    matcher.match(name, {})
    assert time.monotonic() - started < 2  # measured: at most 0.15 s; unguarded, for ever


PIECES = st.text(alphabet="abcXYZ019._", min_size=1, max_size=5).filter(
    lambda piece: not piece.startswith(".")
)
LITERALS = st.text(alphabet="-+=*?[]{}", min_size=1, max_size=3)


def literal(text: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char * (1 + (char in "{}")) for char in text)


@given(st.data())
def test_captures_come_back(data):
    names = data.draw(st.permutations(["a", "b", "c", "d"]))
    values = {name: data.draw(PIECES) for name in names}
    pattern = ""
    for name in names:
        # a literal on either side: pieces hold none of its characters
        pattern += data.draw(st.sampled_from(["/", ""])) + literal(data.draw(LITERALS))
        pattern += f"{{{name}}}"
        if data.draw(st.booleans()):
            pattern += literal(data.draw(LITERALS)) + f"/{{{data.draw(st.sampled_from(names))}}}"
    pattern = "/" + pattern.lstrip("/") + literal("-")
    try:
        parsed = PathPattern.parse(pattern)
    except PatternError as error:
        assert "repeated within a name" in str(error)  # noqa: PT017
        return
    assert parsed.template is not None
    path = parsed.template.render(values)
    assert match(pattern, path) == {name: values[name] for name in parsed.captures}


@given(
    st.lists(st.sampled_from(["*", "?", "a", "b", "[ab]", "[!a]", "[a-b]", "[*]"]), min_size=1),
    st.text(alphabet="ab*", min_size=1, max_size=8),
)
def test_globs_are_the_shells(tokens, name):
    tokens = [one for one, after in pairwise([*tokens, ""]) if (one, after) != ("*", "*")]
    component = "".join(tokens)
    expected = fnmatch.fnmatchcase(name, component)
    assert (match(f"/{component}", f"/{name}") is not None) == expected


def fits(tokens: list[str], name: str, values: dict[str, str]) -> bool:
    """Try everything: what a match is, in the simplest words."""
    if not tokens:
        return not name
    first, rest = tokens[0], tokens[1:]
    if len(first) > 1 and first[1] in values:  # a capture again
        value = values[first[1]]
        return name.startswith(value) and fits(rest, name.removeprefix(value), values)
    if first == "*":
        return any(fits(rest, name[end:], values) for end in range(len(name) + 1))
    if len(first) > 1:
        return any(
            fits(rest, name[end:], values | {first[1]: name[:end]})
            for end in range(1, len(name) + 1)
        )
    return name[:1] == first and fits(rest, name[1:], values)


@given(
    st.lists(st.sampled_from(["*", "x", "y", "{a}", "{a}", "{b}"]), min_size=1, max_size=8),
    st.text(alphabet="xy", min_size=1, max_size=9),
)
def test_a_match_is_found_whenever_there_is_one(tokens, name):
    try:
        found = match(f"/{''.join(tokens)}", f"/{name}")
    except PatternError:
        return
    assert (found is not None) == fits(tokens, name, {})
    if found is not None:
        filled = [found[token[1]] if len(token) > 1 else token for token in tokens]
        assert fits(list("".join(filled)), name, {})


@given(st.text(alphabet="/{}[]*?!ab-.", max_size=12))
def test_any_text_is_parsed_or_refused_in_words(text):
    try:
        pattern = PathPattern.parse(f"/{text}")
    except PatternError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert (pattern.literal is None) == any(isinstance(p, Matcher) for p in pattern.parts)
