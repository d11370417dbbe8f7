"""Files that want too much: each is refused, or read, in bounded time, depth and memory."""

import time

import pytest
import yaml

from device_plugin.config import check, compose

MIB = 1 << 20
HEAD = b"version: 1\nresources:\n- name: example.com/a\n  devices: ["
MANY = b",".join(b"attribute_%03d_of_many: 1" % n for n in range(190))

HOSTILE = {
    "nested lists": b"[" * 10_000,
    "nested mappings": b"{a: " * 10_000,
    "nested blocks": b"- " * 10_000,
    "nested keys": b"? " * 10_000,
    "nested lines": b"".join(b" " * depth + b"a:\n" for depth in range(1_000)),
    "laughs": b"a: &a [x,x,x,x,x,x,x,x,x]\n"
    + b"".join(
        b"%c: &%c [%s]\n" % (char + 1, char + 1, b",".join([b"*%c" % char] * 9))
        for char in b"abcdefghijklmn"
    ),
    "aliases of a long text": b"a: &a " + b"x" * 5_000 + b"\nb: [" + b"*a," * 300_000 + b"]",
    "aliases of a resource": b"version: 1\nresources: [&a {name: a.b/c, devices: [{path: /x}]}"
    + b",*a" * 5_000
    + b"]",
    "many values": b"[" + b"a," * 500_000 + b"]",
    "many folders": b"[" + b"{}," * 300_000 + b"]",
    "many keys": b"".join(b"k%d: 1\n" % n for n in range(20_000)),
    "many anchors": b"[" + b"".join(b"&a%d x," % n for n in range(30_000)) + b"]",
    "many documents": b"---\n" * 250_000,
    "tag directives": b"".join(b"%%TAG !a%d! b\n" % n for n in range(50_000)) + b"--- a",
    "colons": b":" * MIB,
    "quoted keys": b"{" + b'"a":' * 200_000,
    "question marks": b"?" * MIB,
    "backslashes": b'"' + b"\\" * (MIB - 1),
    "stars": b"*" * MIB,
    "tabs": b"a:\n" + b"\t" * 500_000,
    "digits": b"version: " + b"9" * MIB,
    "base 60": HEAD + b"{path: /x, replicas: 1" + b":1" * 400_000 + b"}]\n",
    "hexadecimal": HEAD
    + b"{path: 0x"
    + b"f" * 500_000
    + b", replicas: 0x"
    + b"f" * 500_000
    + b"}]",
    "duration": b"version: 1\naudit_interval: " + b"1s" * 500_000 + b"x",
    "captures": HEAD + b"".join(b"{path: '/d/{c%d}'}," % n for n in range(4_000)) + b"]\n"
    b"  container: {env: {"
    + b"".join(b"A%d: '{c%d}{d%d}'," % (n, n, n) for n in range(6_000))
    + b"}}\n",
    "captures in a path": HEAD
    + b"".join(
        b"{path: '/%s'}," % b"/".join(b"{c%d}-{d%d}" % (n, n) for n in range(300))
        for _ in range(50)
    )
    + b"]\n",
    "companions": HEAD
    + b"{path: '/d/%s', with: [" % b"-".join(b"{c%d}" % n for n in range(500))
    + b"".join(b"'/x%s'," % b"".join(b"{d%d}x" % n for n in range(500)) for _ in range(50))
    + b"]}]\n",
    "attributes that are not there": HEAD
    + b"{virtual: {count: 1, attributes: {%s}}, where: [" % MANY
    + b"".join(b"{key: atribute_%d_of_mny, operator: Exists}," % n for n in range(18_000))
    + b"]}]\n",
    "placeholders that are not there": HEAD
    + b"{virtual: {count: 1, attributes: {%s}}}]\n  container: {env: {" % MANY
    + b"".join(b"A%d: '{attribute.atribute_%d_of_mny}'," % (n, n) for n in range(20_000))
    + b"}}\n",
    "operators that are none": HEAD
    + b"{path: '/d{n}', where: ["
    + b"".join(b"{key: n, operator: Inn%d}," % n for n in range(30_000))
    + b"]}]\n",
    "values": HEAD
    + b"{path: '/d{n}', where: [{key: n, operator: In, values: ["
    + b"'[',%s" % (b"'[a]'," * 140_000)
    + b"]}]}]\n",
    "quantities": HEAD
    + b"{virtual: {count: 1, capacity: {"
    + b"".join(b"a%d: 1e-999," % n for n in range(60_000))
    + b"}}}]\n",
    "one node a thousand times": HEAD + b"{path: /dev/x, to: /y}," * 5_000 + b"]\n",
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", [text[:MIB] for text in HOSTILE.values()], ids=HOSTILE)
def test_hostile(text):
    started = time.monotonic()
    checked = check(text, "c.yaml")
    assert time.monotonic() - started < 20  # measured: at most 3 s on an idle machine
    assert checked.config is None or checked.problems == ()
    assert all(len(problem.message) < 1000 for problem in checked.problems)


@pytest.mark.parametrize("loader", [compose._Loader, yaml.SafeLoader])
@pytest.mark.parametrize("text", [b"[" * 10_000, b"{a: " * 10_000, b"- " * 10_000, b"? " * 10_000])
def test_depth_in_words(text, loader, monkeypatch):
    monkeypatch.setattr(compose, "_Loader", loader)
    (problem,) = check(text, "c.yaml").problems
    assert problem.message == "nested deeper than 32 levels"
    assert problem.line == 1
    assert problem.column > 32


def test_aliases_in_words():
    (problem,) = check(HOSTILE["laughs"], "c.yaml").problems
    assert str(problem) == (
        "c.yaml:6:29: with its aliases written out this file is larger than 1 MiB"
    )


def test_more_resources_than_a_daemon_can_serve():
    one = "- {{name: example.com/r{0}, devices: [{{path: /dev/x{0}}}]}}\n"
    text = "version: 1\nresources:\n"
    many = [one.format(n) for n in range(129)]
    assert check((text + "".join(many[:128])).encode(), "c.yaml").problems == ()
    (problem,) = check((text + "".join(many)).encode(), "c.yaml").problems
    assert str(problem) == (
        "c.yaml:3:1: more than 128 resources: each takes threads and a socket of its own;"
        " use several daemons"
    )


def test_too_many_selectors():
    one = "  - {{name: example.com/r{}, devices: [{}]}}\n"
    devices = ", ".join(["{path: '/dev/x[0-9]'}"] * 501)
    text = "version: 1\nresources:\n" + one.format(1, devices) + one.format(2, devices)
    (problem,) = check(text.encode(), "c.yaml").problems
    assert str(problem) == (
        "c.yaml:3:3: more than 1000 selectors: each is asked at every look; let globs and"
        " captures find several devices"
    )


def test_the_largest_config():
    one = """\
  - name: example.com/r{0}
    devices:
      - path: /dev/foo{0}/x{{card}}
        with: ["/dev/bar{0}-{{card}}"]
        to: /dev/{{card}}
    container:
      env: {{A{0}: "{{path}}"}}
"""
    text = "version: 1\nresources:\n" + "".join(one.format(n) for n in range(5_000))
    assert len(text) > 0.8 * MIB
    started = time.monotonic()
    checked = check(text.encode(), "c.yaml")
    assert time.monotonic() - started < 20  # measured: 2 s on an idle machine
    assert [problem.line for problem in checked.problems] == [3, 3], "too many, and all good"
