"""Whatever the bytes: `check` answers in bounded time, and what it lets through is good."""

import time

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from device_plugin.config import check, compose
from device_plugin.discovery import virtual
from device_plugin.discovery.where import mismatch
from device_plugin.pattern import PathPattern
from device_plugin.template import Template

VALID = """\
version: 1
audit_interval: 10s
resources:
- name: example.com/capture
  devices:
  - path: "/dev/snd/controlC{card}"
    to: "/dev/card{index}"
    with: ["/dev/snd/pcmC{card}D0c", {path: /dev/snd/timer, optional: true}]
  - path: '/dev/x{card}'
    permissions: rwm
    replicas: 2
    where: [{key: card, operator: AtLeast, values: ["2"]}, {key: card, operator: Exists}]
  per_container: {max: 2, distinct: true}
  container:
    env: &env {CARD: "{card} {path}", "A_{id}": x}
    mounts: [{host_path: "/opt/{id}", path: "/opt/{id}", read_only: true}]
- name: example.com/licence
  devices:
  - virtual: {count: 5, attributes: {edition: full, v: {version: 1.2.3}}, capacity: {memory: 8Gi}}
    where: [{key: memory, operator: AtMost, values: [9Gi]}, {key: v, operator: In, values: ["1*"]}]
  allocation: {prefer: spread}
  container: {env: {EDITION: "{attribute.edition}"}, annotations: {a/b: c}}
- name: example.com/gpu
  api: dra
  devices: [{virtual: {count: 2, capacity: {memory: 8Gi}}}]
  partitions: [{name: half, count: 2, capacity: {memory: 4Gi}}]
dra: {driver: gpu.example.com, unhealthy: NoExecute}
"""
# fmt: off
SPICE = st.sampled_from([
    "{", "}", "[", "]", ": ", "- ", "*", "&a ", "*a", "!x ", "!!int ", "<<: ", '"', "'", "\\", "#",
    "|", ">", "\n", "\t", " ", "\0", "\x85", "\u2028", "\ufeff", "---\n", "...\n", "%TAG", "~", "",
    "0403", "no", "2026-01-01", "1:30", "..", "/", "{id}", "{x}", "? ", "ä", "🦊", "&env ",
])
WORDS = st.sampled_from([
    "version", "resources", "name", "devices", "path", "virtual", "with", "to", "permissions",
    "replicas", "count", "attributes", "capacity", "container", "env", "mounts", "host_path",
    "annotations", "per_container", "max", "distinct", "allocation", "prefer", "usb", "where",
    "key", "operator", "values", "version", "In", "AtLeast", "Exists", "1.2.3", "[!a]",
    "example.com/a", "/dev/x", "/dev/{n}", "/dev/*", "{id}", "{n}", "{path}",
    "rw", "pack", "1Gi", "api", "dra", "driver", "partitions",
])
# fmt: on


def judged(data: bytes) -> None:
    started = time.monotonic()
    checked = check(data, "c.yaml")
    assert time.monotonic() - started < 5
    assert checked.config is not None or checked.problems
    # The end of the file may be told as a line of its own.
    lines = data.decode(errors="replace").replace("\r\n", "\n").count("\n") + 2
    breaks = sum(data.decode(errors="replace").count(char) for char in "\r\x85\u2028\u2029")
    for problem in checked.problems:
        assert 1 <= problem.line <= lines + breaks
        assert problem.column >= 1
        assert problem.message.isprintable()
        assert len(problem.message) < 600
    assert list(checked.problems) == sorted(checked.problems, key=lambda p: (p.line, p.column))
    if checked.config is None:
        return
    assert all(problem.resource is not None for problem in checked.problems)
    for resource in checked.config.resources:
        assert resource.name not in {problem.resource for problem in checked.problems}
        assert resource.devices
        for selector in resource.devices:
            assert (selector.path is None) != (selector.virtual is None)
            if selector.path is not None:
                PathPattern.parse(selector.path)
                Template.parse(selector.to or "")
            if selector.virtual is not None:
                virtual.find(selector, selector.virtual, resource.name, 0)
            mismatch(selector.where, {one.key: "7" for one in selector.where})
        for key, value in resource.container.env.items():
            Template.parse(key)
            Template.parse(value)


@given(st.binary())
@example(b"\xff\xfe")
@example(b"\xef\xbb\xbf")
def test_any_bytes(data):
    judged(data)


@given(st.text())
@example("? a")
@example("\x85")
@example("&a : *a")
@example("!<!> {}")
@example("- &a\n- *a")
def test_any_text(text):
    judged(text.encode(errors="surrogatepass"))


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), SPICE), min_size=1, max_size=4))
def test_mutations(edits):
    text = VALID
    for place, length, spice in edits:
        start = int(place * len(text))
        text = text[:start] + spice + text[start + length :]
    judged(text.encode())


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=3)
)
def test_moved_lines(moves):
    lines = VALID.splitlines(keepends=True)
    for source, target, keep in moves:
        line = lines[int(source * (len(lines) - 1))]
        lines.insert(int(target * len(lines)), line if keep < 1 / 2 else line.lstrip())
    judged("".join(lines).encode())


TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.dates()
    | WORDS
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=25,
)


@given(TREES, TREES)
def test_any_shape(resource, selector):
    tree = {
        "version": 1,
        "resources": [
            resource,
            {"name": "example.com/a", "devices": [selector]},
            {"name": "example.com/b", "devices": [{"path": "/dev/b"}], "container": resource},
        ],
    }
    judged(yaml.safe_dump(tree, allow_unicode=True).encode())


@pytest.mark.parametrize("data", [VALID, VALID.replace("path", "pth"), VALID + "]", "- " * 50])
def test_without_libyaml(data, monkeypatch):
    expected = [(p.line, p.column) for p in check(data.encode(), "c.yaml").problems]
    monkeypatch.setattr(compose, "_Loader", yaml.SafeLoader)
    judged(data.encode())
    assert [(p.line, p.column) for p in check(data.encode(), "c.yaml").problems] == expected
