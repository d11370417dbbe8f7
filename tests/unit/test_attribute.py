"""Typed attributes: what versions and quantities are, and how values compare."""

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.attribute import Attribute, Quantity, Version, fits, order, plain, text

NANO = 10**9


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("0", 0),
        ("1", 1),
        ("+3", 3),
        ("1.5", Fraction(3, 2)),
        ("5.", 5),
        (".5k", 500),
        ("80Gi", 80 << 30),
        ("1.5Ki", 1536),
        ("0.1Ki", Fraction(1024, 10)),
        ("1Ei", 1 << 60),
        ("500M", 500 * 10**6),
        ("1P", 10**15),
        ("1E", 10**18),
        ("1500m", Fraction(3, 2)),
        ("2u", Fraction(2, 10**6)),
        ("3n", Fraction(3, NANO)),
        ("1e3", 1000),
        ("1E3", 1000),
        ("12e-1", Fraction(12, 10)),
        ("-1.5Gi", -3 << 29),
    ],
)
def test_quantities_are_exact(written, value):
    assert Quantity.parse(written).nano == value * NANO
    assert str(Quantity.parse(written)) == written


@pytest.mark.parametrize(
    ("written", "nano"),
    [
        ("0.1n", 1),
        ("1.1n", 2),
        ("-0.1n", -1),
        ("1e-999", 1),
        ("0e-999", 0),
        ("8Ei", (2**63 - 1) * NANO),
        ("-9E999", -(2**63 - 1) * NANO),
    ],
)
def test_quantities_are_rounded_away_from_zero_and_cut_as_kubernetes_does(written, nano):
    assert Quantity.parse(written).nano == nano


@pytest.mark.parametrize(
    "written",
    [
        "",
        "Gi",
        "80GB",
        "80gi",
        "1K",
        "1 Gi",
        "1e",
        "--1",
        "1.5.5",
        "1_000",
        "0x10",
        "inf",
        "1Gi\n",
        "٣",
        "1" * 101,
        ".",
    ],
)
def test_what_is_no_quantity(written):
    with pytest.raises(ValueError, match="no quantity"):
        Quantity.parse(written)


SUFFIXES: dict[str, int | Fraction] = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "Gi": 1 << 30,
    "m": Fraction(1, 1000),
    "e2": 100,
}


@given(st.decimals(0, 10**6, places=3), st.sampled_from([*SUFFIXES]))
def test_any_quantity_is_what_fractions_make_of_it(number, suffix):
    assert Quantity.parse(f"{number}{suffix}").nano == Fraction(number) * SUFFIXES[suffix] * NANO


# As semver.org orders them.
VERSIONS = (
    "0.9.9 1.0.0-0 1.0.0-2 1.0.0-11 1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta"
    " 1.0.0-beta.2 1.0.0-beta.11 1.0.0-rc.1 1.0.0 1.0.1 1.2.0 1.10.0 2.0.0-a-b 2.0.0 10.0.0"
)


def test_versions_are_ordered_as_semver_has_it():
    for here, version in enumerate(VERSIONS.split()):
        for there, other in enumerate(VERSIONS.split()):
            assert order(Version.parse(version), other) == (here > there) - (here < there)


def test_the_build_of_a_version_does_not_count():
    assert order(Version.parse("1.2.3+5"), "1.2.3+6") == 0
    assert str(Version.parse("1.2.3+5")) == "1.2.3+5"


@pytest.mark.parametrize(
    "written",
    [
        "",
        "1",
        "1.2",
        "v1.2.3",
        "1.2.3.4",
        "01.2.3",
        "1.2.3-",
        "1.2.3-01",
        "1.2.3+",
        "1.2.3-a..b",
        "1.2.3 ",
        "1.2.3\n",
        "a.b.c",
        "-1.2.3",
        "1.2.3-ä",
        "1.2." + "3" * 61,
    ],
)
def test_what_is_no_version(written):
    with pytest.raises(ValueError, match="no version"):
        Version.parse(written)


MEMORY, DRIVER = Quantity.parse("24Gi"), Version.parse("1.2.3")


@pytest.mark.parametrize(
    ("value", "other", "expected"),
    [
        (5, "5", 0),
        (5, "+6", -1),
        (-5, "-6", 1),
        (5, "5.0", None),
        (5, "abc", None),
        (5, "", None),
        (MEMORY, "24Gi", 0),
        (MEMORY, "24576Mi", 0),
        (MEMORY, "40Gi", -1),
        (MEMORY, "1k", 1),
        (MEMORY, "lots", None),
        (DRIVER, "1.10.0", -1),
        (DRIVER, "1.2", None),
        (True, "true", None),
        (True, "1", None),
        ("10", "9", 1),
        ("007", "7", 0),
        ("card10", "card9", None),
        ("10", "card9", None),
        ("", "1", None),
        ("9" * 101, "1", None),
    ],
)
def test_values_compare_as_what_they_are(value, other, expected):
    assert order(value, other) == expected


@pytest.mark.parametrize(
    ("value", "pattern", "expected"),
    [
        ("full", "full", True),
        ("full", "Full", False),
        ("full", "f*l", True),
        ("full", "f?ll", True),
        ("full", "[a-f]ull", True),
        ("full", "[!a-f]ull", False),
        ("f*l", "f[*]l", True),
        ("full", "f[*]l", False),
        ("full", "ful", False),
        ("", "", True),
        ("", "*", True),
        (12, "12", True),
        (12, "1?", True),
        (12, "012", False),
        (True, "true", True),
        (True, "True", False),
        (False, "f*", True),
        (MEMORY, "24Gi", True),
        (MEMORY, "24576Mi", True),
        (MEMORY, "*Gi", True),
        (MEMORY, "25Gi", False),
        (DRIVER, "1.2.3+other", True),
        (DRIVER, "1.2.*", True),
        (DRIVER, "1.2.4", False),
    ],
)
def test_values_are_among_others_by_glob_or_by_being_equal(value, pattern, expected):
    assert fits(value, pattern) is expected


def test_values_as_text_and_as_json():
    values: list[Attribute] = ["full", 5, True, False, MEMORY, DRIVER]
    assert [text(value) for value in values] == ["full", "5", "true", "false", "24Gi", "1.2.3"]
    assert json.dumps([plain(value) for value in values]) == (
        '["full", 5, true, false, "24Gi", "1.2.3"]'
    )
