"""Parameters of classes and claims: read as the config is, and nothing else is taken."""

import pytest

from device_plugin.allocation import Refused
from device_plugin.config import Container, Mount
from device_plugin.dra.allocated import Configuration, _Opaque
from device_plugin.dra.parameters import layers

DRIVER = "gpu.example.com"
VARIABLE = (
    "a variable's name is made of letters, digits, `_`, `.` and `-`,"
    " and begins with a letter or `_`"
)
HEAD = {"apiVersion": f"{DRIVER}/v1", "kind": "Container"}
NO_OBJECT = "they are no object: write them as in docs/dra.md"


def configuration(parameters, source="FromClaim"):
    return Configuration(source, None, _Opaque(DRIVER, parameters))


def read(source="FromClaim", **fields):
    (layer,) = layers([configuration({**HEAD, **fields}, source)], "gpu", DRIVER)
    return layer


def refused(parameters, source="FromClaim"):
    with pytest.raises(Refused) as why:
        layers([configuration(parameters, source)], "gpu", DRIVER)
    whose = "claim" if source == "FromClaim" else "DeviceClass"
    start = f"the parameters of the {whose}: "
    assert str(why.value).startswith(start)
    return str(why.value).removeprefix(start)


def test_a_claim_has_env():
    assert read() == Container()
    assert read(env={"A": "{id}", "B": "é \U0001f600"}) == Container(
        env={"A": "{id}", "B": "é \U0001f600"}
    )


def test_a_class_has_mounts_too():
    mount = {"host_path": "/opt/{id}", "path": "/opt", "read_only": True}
    layer = read("FromClass", env={"A": "1"}, mounts=[mount])
    assert layer == Container(env={"A": "1"}, mounts=(Mount("/opt/{id}", "/opt", read_only=True),))


def test_the_claims_come_last():
    ordered = [("1", "FromClaim"), ("2", "FromClass"), ("3", "FromClaim"), ("4", "FromClass")]
    given = [configuration({**HEAD, "env": {"A": a}}, source) for a, source in ordered]
    assert [one.env["A"] for one in layers(given, "gpu", DRIVER)] == ["2", "4", "1", "3"]


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        (None, NO_OBJECT),
        ([HEAD], NO_OBJECT),
        ({"kind": "Container"}, f"`apiVersion` must be `{DRIVER}/v1`"),
        ({**HEAD, "apiVersion": "v1"}, f'`apiVersion` must be `{DRIVER}/v1`, not "v1"'),
        ({**HEAD, "kind": ["x" * 999]}, '`kind` must be `Container`, not ["' + "x" * 78),
        ({**HEAD, "envs": {}}, "unknown key `envs`; did you mean `env`?"),
        (
            {**HEAD, "mounts": []},
            "`mounts` is taken from a DeviceClass only: ask whoever runs the cluster",
        ),
        ({**HEAD, "annotations": {}}, "unknown key `annotations`; there is `env`"),
        ({**HEAD, "env": {"A": 1}}, 'env.A: YAML reads 1 as a number; quote it: "1"'),
        ({**HEAD, "env": {"A": None}}, 'env.A: YAML reads null as no value; quote it: "null"'),
        ({**HEAD, "env": []}, "`env` must be a mapping, not a list; write each as `name: value`"),
        ({**HEAD, "env": {"A": "{id"}}, "env.A: `{` is never closed; write `{{` for a literal one"),
        ({**HEAD, "env": {"A": "a\nb"}}, "`A` may not hold a line break"),
        (
            {**HEAD, "env": {"A": "\x7f"}},
            "the character U+007F may not stand in YAML; remove it",
        ),
        (
            {**HEAD, "env": {"A=B": "1"}},
            f"env.A=B: {VARIABLE}",
        ),
    ],
)
def test_what_is_refused(parameters, text):
    assert refused(parameters) == text


@pytest.mark.parametrize(
    ("mount", "text"),
    [
        ({"host_path": "opt", "path": "/o"}, "a path must be absolute: begin it with `/`"),
        ({"host_path": "/a/../b", "path": "/o"}, "a path may not hold `.` or `..`"),
        ({"host_path": "/a", "path": "/"}, "`/` alone cannot be mounted over"),
        ({"host_path": "/a"}, "`path` is missing in an item of `mounts`"),
        ({"host_path": "/a", "path": "/o", "readOnly": True}, "unknown key `readOnly`;"),
        ({"host_path": "/a", "path": "/o", "read_only": "yes"}, "`read_only` must be true or"),
    ],
)
def test_mounts_that_are_refused(mount, text):
    assert text in refused({**HEAD, "mounts": [mount]}, "FromClass")


def test_no_more_than_anybody_reads():
    many = {f"A={i}": "1" for i in range(50)}
    assert refused({**HEAD, "env": many}).count("a variable's name") == 3


def test_very_deep_ones():
    deep: object = "x"
    for _ in range(500):
        deep = [deep]
    assert refused({**HEAD, "env": {"A": deep}}) == "nested deeper than 32 levels"
