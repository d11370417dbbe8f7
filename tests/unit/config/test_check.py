"""`check`: what a good config comes to, and bytes that no golden file can hold."""

import pytest

from device_plugin.config import (
    Allocation,
    Companion,
    Config,
    Container,
    Mount,
    PerContainer,
    Resource,
    Selector,
    Virtual,
    check,
)

EVERYTHING = """\
# every key of this version
version: 1
audit_interval: 1m30s
removed_grace: 2h
resources:
  - name: example.com/capture
    devices:
      - path: "/dev/snd/controlC{card}"
        to: "/dev/card{index}"
        permissions: r
        with:
          - "/dev/snd/pcmC{card}D0c"
          - {path: /dev/snd/timer, to: /dev/timer, permissions: rwm, optional: true}
        replicas: 3
    allocation: {prefer: spread}
    per_container: {max: 2, distinct: yes}
    container:
      env: {CARD: "{card}"}
      mounts: [{host_path: /opt/gpu, path: /opt/gpu, read_only: true}]
      annotations: {example.com/card: "{card}"}
  - name: example.com/licence
    devices:
      - virtual:
          count: 5
          attributes: {edition: full, seats: 12, trial: false}
          capacity: {memory: 80Gi}
"""


def said(text: bytes) -> list[str]:
    return [str(problem).removeprefix("c.yaml:") for problem in check(text, "c.yaml").problems]


def test_everything():
    checked = check(EVERYTHING.encode(), "c.yaml")
    assert checked.problems == ()
    assert checked.config == Config(
        version=1,
        audit_interval=90.0,
        removed_grace=7200.0,
        resources=(
            Resource(
                name="example.com/capture",
                devices=(
                    Selector(
                        path="/dev/snd/controlC{card}",
                        to="/dev/card{index}",
                        permissions="r",
                        with_=(
                            "/dev/snd/pcmC{card}D0c",
                            Companion("/dev/snd/timer", "/dev/timer", "rwm", optional=True),
                        ),
                        replicas=3,
                    ),
                ),
                allocation=Allocation("spread"),
                per_container=PerContainer(max=2, distinct=True),
                container=Container(
                    env={"CARD": "{card}"},
                    mounts=(Mount("/opt/gpu", "/opt/gpu", read_only=True),),
                    annotations={"example.com/card": "{card}"},
                ),
            ),
            Resource(
                name="example.com/licence",
                devices=(
                    Selector(
                        virtual=Virtual(
                            count=5,
                            attributes={"edition": "full", "seats": 12, "trial": False},
                            capacity={"memory": "80Gi"},
                        )
                    ),
                ),
            ),
        ),
    )


def test_what_is_left_out():
    text = b"version: 1\nresources: [{name: example.com/a, devices: [{path: /dev/x}]}]\n"
    selector = Selector(path="/dev/x", permissions="rw", replicas=1)
    assert check(text, "c.yaml").config == Config(
        version=1, resources=(Resource("example.com/a", (selector,)),)
    )


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("500ms", 0.5),
        ("100ms", 0.1),
        ("30s", 30),
        ("1m30s", 90),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("1s500ms", 1.5),
        ("1500000us", 1.5),
        ("1500000µs", 1.5),
        ("1000000000ns", 1),
        ("24h", 86400),
    ],
)
def test_durations(value, seconds):
    config = check(
        f"audit_interval: {value}\n{EVERYTHING.replace('audit', '#')}".encode(), "c"
    ).config
    assert config is not None
    assert config.audit_interval == pytest.approx(seconds)


def test_anchors_and_aliases():
    text = b"""\
version: 1
resources:
- name: example.com/a
  devices: &devices [{virtual: {count: 1}}]
  container: {env: {A: &value same}}
- name: example.com/b
  devices: *devices
  container: {env: {A: *value}}
"""
    config = check(text, "c.yaml").config
    assert config is not None
    first, second = config.resources
    assert first.devices == second.devices
    assert first.container == second.container


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", "1:1: the file is empty"),
        (b" \n\n", "1:1: the file is empty"),
        (b"\xef\xbb\xbf", "1:1: the file is empty"),
        (b"a: 1\nb: \x07\n", "2:4: the character U+0007 may not stand in YAML; remove it"),
        (b"a: \0", "1:4: the character U+0000 may not stand in YAML; remove it"),
        ("a: \ufeff".encode(), "1:4: the character U+FEFF may not stand in YAML; remove it"),
        (b"a: 1\nb: \xe9", "2:4: not UTF-8: byte 0xe9 at offset 8; save the file as UTF-8"),
        ("äö".encode()[:-1], "1:2: not UTF-8: byte 0xc3 at offset 2; save the file as UTF-8"),
        ("a: 1".encode("utf-16"), "1:1: the file is UTF-16; save it as UTF-8"),
        (b"a" * ((1 << 20) + 1), "1:1: the file is larger than 1 MiB"),
    ],
)
def test_bytes(text, expected):
    assert said(text) == [expected]


def test_byte_order_mark_takes_no_column():
    assert said(b"\xef\xbb\xbfversion: 2\nresources: [{name: a.b/c, devices: [{path: /x}]}]") == [
        "1:10: `version` must be 1, not 2"
    ]


def test_windows_line_ends():
    assert said(EVERYTHING.replace("\n", "\r\n").encode()) == []
    assert said(b"version: 1\r\nresources: []\r\n") == [
        "2:12: `resources` is empty; there is nothing to offer"
    ]


@pytest.mark.parametrize(
    ("length", "expected"),
    [(4096, []), (4097, ["3:10: `path` is longer than 4096 characters"])],
)
def test_long_values(length, expected):
    path = "/" + "a" * (length - 1)
    text = f"version: 1\nresources: [{{name: a.b/c, devices: [\n  {{path: {path}}}]}}]"
    assert said(text.encode()) == expected


def test_messages_stay_short_and_printable():
    text = f'version: 1\n"{"x" * 900}": 1\n"\\e[31m": 1\nresources: []\n'
    first, second, _ = said(text.encode())
    assert first == (
        f"2:1: unknown key `{'x' * 57}...`; there are `version`, `resources`, `audit_interval`,"
        " `removed_grace` and `dra`"
    )
    assert second.startswith("3:1: unknown key `\\x1b[31m`; there are ")


def test_a_thousand_problems_are_enough():
    text = "version: 1\nresources:\n- name: a.b/c\n  devices: [{path: /dev/x}]\n"
    text += "".join(f"  k{n}: 1\n" for n in range(1500))
    checked = check(text.encode(), "c.yaml")
    assert checked.config is None
    assert len(checked.problems) == 1001
    assert str(checked.problems[-1]) == (
        "c.yaml:1005:3: 500 more problems from here on are not shown"
    )
