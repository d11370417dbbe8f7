"""Other plugins' configs: what comes out passes `check`, whatever went in."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from device_plugin import cli, config
from device_plugin.convert import Converted, Unknown, convert
from device_plugin.pattern import Matcher, PathPattern

FOLDER = Path(__file__).parent / "convert"
FIXTURES = sorted(FOLDER.glob("*.yaml"))


@pytest.fixture
def converted(tmp_path):
    def do(text: str, domain: str = "") -> Converted:
        path = tmp_path / "theirs.yaml"
        path.write_text(text)
        return convert(path, domain)

    return do


def resources(one: Converted) -> list[dict[str, Any]]:
    found = yaml.safe_load(one.text)["resources"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_each_file_becomes_what_it_became(path, monkeypatch):
    monkeypatch.chdir(FOLDER)
    assert convert(Path(path.name)).text == path.with_suffix(".converted").read_text().rstrip("\n")


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_what_is_no_comment_passes_check(path):
    text = convert(path).text
    assert config.check(text.encode(), "ours").problems == ()
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_what_is_left_out_is_there_as_a_comment(path):
    one = convert(path)
    assert len(one.left_out) == one.text.count("# Left to you: ")
    assert bool(one.left_out) == ("by-hand" in path.stem or "odd" in one.text)


def test_a_comment_without_its_marks_is_yaml_again():
    """Whoever mends it by hand uncomments it and goes on."""
    text = convert(FOLDER / "smarter-by-hand.yaml").text
    block = text[text.index("  # - name: smarter-devices/fuse") :].split("\n\n")[0]
    again = yaml.safe_load(block.replace("# ", ""))
    assert again[0]["devices"] == [{"path": "/dev/fuse", "replicas": 20000}]


def test_what_pods_do_not_get_as_before_is_told(converted):
    theirs = (
        "devices: [{name: audio, groups: [{paths: [{path: /dev/snd}]}]},"
        " {name: capture, groups: [{paths: [{path: /dev/snd/pcmC0D0c}]}]}]"
    )
    [told] = converted(theirs).changed
    assert told.startswith("devic.es/capture: devic.es/audio has some of the same device nodes, ")
    theirs = "[{devicematch: '^video[0-9]*$'}, {devicematch: '^i2c.*$'}, {devicematch: ^fuse$}]"
    [told] = converted(theirs).changed
    assert told.startswith("smarter-devices/video, smarter-devices/i2c: there each file is a res")
    assert converted("[{devicematch: ^fuse$}]").changed == []


def test_what_pods_do_not_get_as_before_is_no_success(tmp_path, capsys):
    (tmp_path / "theirs.yaml").write_text("[{devicematch: '^video[0-9]*$'}]")
    assert cli.main(["convert", str(tmp_path / "theirs.yaml")]) == 1
    assert "smarter-devices/video: there each file" in capsys.readouterr().err


def test_a_domain_by_hand_wins(converted):
    theirs = "domain: a.example\ndevices: [{name: tun, groups: [{paths: [{path: /dev/net/tun}]}]}]"
    assert [one["name"] for one in resources(converted(theirs))] == ["a.example/tun"]
    assert [one["name"] for one in resources(converted(theirs, "b.example"))] == ["b.example/tun"]
    theirs = "[{devicematch: ^fuse$, nummaxdevices: 1}]"
    assert [one["name"] for one in resources(converted(theirs, "b.example"))] == ["b.example/fuse"]


def test_the_values_of_a_chart_are_understood(converted):
    theirs = "config: [{devicematch: ^fuse$, nummaxdevices: 3}]"
    assert resources(converted(theirs)) == [
        {"name": "smarter-devices/fuse", "devices": [{"path": "/dev/fuse", "replicas": 3}]}
    ]


def test_when_nothing_can_be_converted_the_list_is_empty(converted):
    one = converted("[{devicematch: nvidia-gpu, nummaxdevices: 1}]")
    assert resources(one) == []
    assert one.left_out == [
        "`nvidia-gpu`: this version has no kind for NVIDIA's integrated GPUs, which have no node"
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "holds no config of generic-device-plugin (a mapping with `devices`"),
        ("[]", "and none of smarter-device-manager (a list with `devicematch`)"),
        ("a: b", "holds no config of"),
        ("kind: ConfigMap\ndata: {a: '{', b: '[]'}", "holds no config of"),
        ("version: 1\nresources: []", "may be a config of ours already: device-plugin check "),
        ("{", "while parsing a flow node"),
        ("a: !!python/object:os.system {}", "could not determine a constructor"),
        ("[" * 5000, "nested too deeply"),
        ("a: 2026-99-99", "month must be in 1..12"),
    ],
)
def test_what_is_no_config_is_refused(converted, text, why):
    with pytest.raises(Unknown, match=re.escape(why)) as refused:
        converted(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_what_cannot_be_read_is_refused(tmp_path, name):
    with pytest.raises(Unknown, match=re.escape(str(tmp_path))):
        convert(tmp_path / name)


def test_a_text_without_end_is_not_written_out(converted):
    bomb = "a0: &a0 [x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)
    )
    one = converted(f"{bomb}devices: [{{name: *a29, groups: [{{paths: [{{path: *a29}}]}}]}}, *a29]")
    assert resources(one) == []
    assert len(one.text) < 100_000
    assert len(converted("[{devicematch: &x [*x], nummaxdevices: 1}]").left_out) == 1


def test_what_nests_too_deeply_is_refused(converted):
    for depth in (100, 200, 400, 800):
        with suppress(Unknown):
            converted(f"devices: [{{name: a, groups: {'[' * depth}{']' * depth}}}]")


def test_quoted_text_cannot_leave_its_comment(converted):
    theirs = '- devicematch: "^a(\\u2028\\n- name: x\\x85b$"\n  nummaxdevices: 1\n'
    one = converted(theirs)
    assert resources(one) == []
    assert config.check(one.text.encode(), "ours").problems[0].message != ""


@pytest.mark.parametrize(
    "expression", [r"video[0-9]+", r"a.c", r"vcsm.*", r"x\.[a-f]", r"[A-C]?b|c\d", r"d[^0-9a-z]+"]
)
def test_what_an_expression_finds_the_glob_finds(converted, expression):
    branches = expression.split("|")
    one = converted(yaml.safe_dump([{"devicematch": f"^{branch}$"} for branch in branches]))
    found = {entry["name"]: entry["devices"][0]["path"] for entry in resources(one)}
    patterns = [PathPattern.parse(path) for path in found.values()]
    left_out = str(one.left_out)
    assert len(patterns) + len(one.left_out) == len(branches)

    @given(st.from_regex(re.compile(f"({expression})", re.ASCII), fullmatch=True))
    def check(name: str) -> None:
        if "/" in name or not name.isprintable() or name.startswith("."):
            return
        wanted = [
            branch
            for branch in branches
            if re.fullmatch(branch, name, re.ASCII) and f"`^{branch}$`" not in left_out
        ]
        assert not wanted or any(matches(pattern, name) for pattern in patterns)

    check()


def matches(pattern: PathPattern, name: str) -> bool:
    last = pattern.parts[-1]
    return last.match(name, {}) is not None if isinstance(last, Matcher) else last == name


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.sampled_from(["/dev/x*", "rw"])
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "groups", "paths", "path", "mountPath", "count", "usb", "type", "limit"]
            )
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
paths = st.fixed_dictionaries(
    {"path": st.text(alphabet="/dev*?[]{}\\a1", max_size=12).map(lambda text: f"/dev/{text}")},
    optional={
        "mountPath": st.text(alphabet="/a{}*", max_size=6),
        "permissions": st.text(alphabet="rwmx", max_size=4),
        "type": st.sampled_from(["Device", "Mount"]),
        "optional": st.booleans(),
        "limit": st.integers(0, 3),
    },
)
devices = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.text(alphabet="ab-", max_size=3),
            "groups": st.lists(
                st.fixed_dictionaries(
                    {"paths": st.lists(paths, max_size=3)}, optional={"count": st.integers(0, 3)}
                ),
                max_size=2,
            ),
        }
    )
    | anything,
    min_size=1,
    max_size=3,
)
expressions = st.lists(
    st.fixed_dictionaries(
        {"devicematch": st.text(alphabet="^$ab[]()0-9*+?|\\./{}", max_size=12) | anything},
        optional={"nummaxdevices": st.integers(0, 3) | anything},
    ),
    min_size=1,
    max_size=3,
)


_EMPTY_SET = {"paths": [{"path": "/dev/[]", "type": "Mount"}]}


@given(st.fixed_dictionaries({"devices": devices}, optional={"domain": scalars}) | expressions)
@example({"devices": [{"name": "a", "groups": [_EMPTY_SET]}]})
def test_whatever_goes_in_what_comes_out_passes_check(tmp_path_factory, theirs):
    path = tmp_path_factory.mktemp("fuzz") / "theirs.yaml"
    path.write_text(yaml.safe_dump(theirs))
    one = convert(path)
    problems = config.check(one.text.encode(), "ours").problems
    assert not problems or resources(one) == []
    assert len(one.left_out) == one.text.count("# Left to you: ")
