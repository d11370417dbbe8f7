"""The reference in docs/config.md is what the types say."""

from pathlib import Path

import pytest

from device_plugin.config import reference
from device_plugin.config.describe import config, describe, structs

DOCUMENT = Path(__file__).parents[3] / "docs" / "config.md"


def test_the_document_is_up_to_date():
    text = DOCUMENT.read_text()
    assert reference.updated(text) == text, f"out of date; run {reference.COMMAND}"


def test_what_stands_around_it_stays():
    text = DOCUMENT.read_text()
    begin, end = text.index("<!-- begin"), text.index("<!-- end")
    stale = text[:begin] + text[begin:].split("\n", 1)[0] + "\nstale\n" + text[end:]
    assert reference.updated(stale) == text
    assert reference.updated(f"before\n{stale}after\n") == f"before\n{text}after\n"


def test_a_document_without_marks_is_left_alone(tmp_path):
    path = tmp_path / "x.md"
    path.write_text("# Something\n")
    with pytest.raises(ValueError, match="the marks are missing"):
        reference.main(path)
    assert path.read_text() == "# Something\n"


def test_the_command_writes_it(tmp_path):
    path = tmp_path / "config.md"
    path.write_text(DOCUMENT.read_text().replace("| `replicas` |", "| `replcias` |"))
    reference.main(path)
    assert path.read_text() == DOCUMENT.read_text()


def test_every_key_stands_in_it_and_is_described():
    text = reference.reference()
    left = [config()]
    for kind in left:
        mapping = describe(kind)
        assert mapping.text
        for key in mapping.keys:
            assert key.text.endswith("."), key.name
            assert f"| `{key.name}` |" in text
            assert key.text in text
            left += structs(key.kind)
    assert len(left) > 8


def test_tables_are_tables():
    rows = [line for line in reference.reference().splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} == {5}
