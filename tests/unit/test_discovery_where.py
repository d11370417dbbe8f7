"""`where`: which devices a selector takes, and what it says of the others."""

import pytest

from device_plugin.attribute import Attribute, Quantity, Version
from device_plugin.config import Config, Requirement, Resource, Selector, Virtual
from device_plugin.device import Lost
from device_plugin.discovery import discover, virtual
from device_plugin.discovery.path import find
from device_plugin.discovery.where import mismatch

GPU: dict[str, Attribute] = {
    "memory": Quantity.parse("24Gi"),
    "driver": Version.parse("1.2.3"),
    "edition": "full",
    "cores": 8,
    "trial": False,
    "slot": "12",
    "note": "a, b",
}


def judge(key, operator, *values):
    return mismatch([Requirement(key, operator, values)], GPU)


def reason(*requirement):
    """Why the GPU does not fit; empty if it does."""
    why = judge(*requirement)
    return why.reason if why else ""


HOLD = [
    ("edition", "In", "full"),
    ("edition", "In", "trial", "f*"),
    ("edition", "NotIn", "trial"),
    ("cores", "In", "8"),
    ("cores", "AtLeast", "8"),
    ("cores", "AtMost", "10"),
    ("memory", "AtLeast", "24576Mi"),
    ("memory", "AtMost", "1Ti"),
    ("memory", "In", "24576Mi"),
    ("driver", "AtLeast", "1.2.3-rc.1"),
    ("slot", "AtLeast", "9"),
    ("trial", "In", "false"),
    ("edition", "Exists"),
    ("serial", "DoesNotExist"),
    ("serial", "NotIn", "x"),
]


@pytest.mark.parametrize("requirement", HOLD, ids=" ".join)
def test_what_holds(requirement):
    assert reason(*requirement) == ""


FAIL = {
    ("memory", "AtLeast", "40Gi"): "memory is 24Gi, and must be at least 40Gi",
    ("memory", "AtMost", "1Gi"): "memory is 24Gi, and must be at most 1Gi",
    ("driver", "AtLeast", "1.10.0"): "driver is 1.2.3, and must be at least 1.10.0",
    ("slot", "AtMost", "9"): "slot is 12, and must be at most 9",
    ("cores", "In", "4"): "cores is 8, and must be 4",
    ("edition", "In", "a", "b c", ""): 'edition is full, and must be a, "b c" or ""',
    ("edition", "In", *"abcdefg"): "edition is full, and must be a, b, c, d, e or 2 more",
    ("edition", "NotIn", "f*", "x"): "edition is full, and must not be f* or x",
    ("edition", "DoesNotExist"): "edition is full, and must be absent",
    ("serial", "Exists"): "there is no attribute serial",
    ("serial", "In", "*"): "there is no attribute serial",
    ("serial", "AtLeast", "1"): "there is no attribute serial",
    ("serial", "AtMost", "1"): "there is no attribute serial",
    ("note", "In", "c"): 'note is "a, b", and must be c',
    ("edition", "AtLeast", "1"): "edition is full, which does not compare with 1",
    ("memory", "AtMost", "lots"): "memory is 24Gi, which does not compare with lots",
    ("trial", "AtMost", "1"): "trial is false, which does not compare with 1",
}


@pytest.mark.parametrize(("requirement", "expected"), FAIL.items(), ids=map(" ".join, FAIL))
def test_what_does_not_hold(requirement, expected):
    assert reason(*requirement) == expected


def test_all_must_hold_and_the_first_that_does_not_is_the_reason():
    requirements = [
        Requirement("edition", "Exists"),
        Requirement("cores", "AtLeast", ("9",)),
        Requirement("memory", "AtLeast", ("40Gi",)),
    ]
    why = mismatch(requirements, GPU)
    assert why is not None
    assert why.reason == "cores is 8, and must be at least 9"
    assert mismatch([], GPU) is None


def test_only_what_does_not_even_compare_is_odd():
    odd = {requirement for requirement in FAIL if judge(*requirement).odd}
    assert {reason(*one).partition("which")[2] for one in odd} == {
        " does not compare with 1",
        " does not compare with lots",
    }
    assert len(odd) == 3


def test_whatever_a_device_says_is_shown_printably_and_cut():
    for value in ("\x1b[31m", "a\nb", "\udcff", "x" * 500, "\u2028", "a b\x07"):
        why = mismatch([Requirement("a", "In", ("b",))], {"a": value})
        assert why is not None
        assert why.reason.isprintable()
        assert len(why.reason) < 450


def paths(tree, *requirements, path="/dev/x{n}"):
    return find(tree.host.look(), Selector(path=path, where=requirements))


def test_captures_are_attributes(tree):
    for n in (1, 2, 10):
        tree.node(f"/dev/x{n}")
    found = paths(tree, Requirement("n", "AtLeast", ("2",)))
    assert [c.device.id for c in found.candidates] == ["x2", "x10"]
    assert [dict(c.device.attributes) for c in found.candidates] == [{"n": "2"}, {"n": "10"}]
    assert found.lost == (Lost("/dev/x1", "n is 1, and must be at least 2"),)
    assert found.note == "", "nothing that anybody need look into"


def test_a_selector_that_where_leaves_nothing_says_so(tree):
    tree.node("/dev/x1")
    found = paths(tree, Requirement("n", "In", ("2",)))
    assert found.candidates == ()
    assert found.note == "/dev/x{n}: nothing that matches passes `where`"
    assert paths(tree, Requirement("n", "In", ("2",)), path="/dev/y{n}").note == (
        "/dev/y{n} matches nothing"
    )


def test_captures_that_do_not_compare_are_noted_once(tree):
    for name in ("front", "rear", "7"):
        tree.node(f"/dev/x{name}")
    found = paths(tree, Requirement("n", "AtLeast", ("2",)))
    assert [c.device.id for c in found.candidates] == ["x7"]
    assert found.note == "/dev/xfront: n is front, which does not compare with 2 and 1 more"
    assert [lost.what for lost in found.lost] == ["/dev/xfront", "/dev/xrear"]


def test_what_where_passes_over_claims_nothing(tree):
    for n in (0, 1):
        tree.node(f"/dev/x{n}")
    only = Selector(path="/dev/x{n}", where=(Requirement("n", "In", ("0",)),))
    resources = (
        Resource("example.com/a", (only,)),
        Resource("example.com/b", (Selector(path="/dev/x*"),)),
    )
    found = discover(tree.host.look(), Config(version=1, resources=resources))
    (first,) = found["example.com/a"].candidates
    assert first.device.id == "x0"
    problems = {c.device.id: c.problem for c in found["example.com/b"].candidates}
    assert problems["x1"] == ""
    assert problems["x0"].startswith("/dev/x0 already belongs to example.com/a")


def licences(*requirements, count=3):
    made = Virtual(count, attributes={"edition": "full"}, capacity={"memory": "8Gi"})
    selector = Selector(virtual=made, where=requirements)
    return virtual.find(selector, made, "example.com/licence", 0)


def test_virtual_devices_pass_together_or_not_at_all():
    assert len(licences(Requirement("memory", "AtLeast", ("8Gi",))).candidates) == 3
    found = licences(Requirement("memory", "AtLeast", ("9Gi",)))
    assert found.candidates == ()
    assert found.note == "virtual: nothing passes `where`: memory is 8Gi, and must be at least 9Gi"
    (lost,) = found.lost
    assert lost.what.startswith("licence-0-")
    assert lost.what.endswith(" and 2 more")
    assert lost.reason == "memory is 8Gi, and must be at least 9Gi"
    (one,) = licences(Requirement("memory", "AtLeast", ("9Gi",)), count=1).lost
    assert " " not in one.what
    assert licences(Requirement("memory", "AtLeast", ("9Gi",)), count=0).note == ""


def test_where_is_no_part_of_a_name():
    plain = [c.device.id for c in licences().candidates]
    assert [c.device.id for c in licences(Requirement("edition", "Exists")).candidates] == plain
