"""What `check` says, to the letter: every case of `golden/`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from device_plugin.config import check

GOLDEN = Path(__file__).with_name("golden")
EXPECTED = "=> "


def cases() -> Iterator[tuple[str, str, list[str]]]:
    """Yield name, config and expected lines of each case; each file tells the format."""
    for file in sorted(GOLDEN.glob("*.txt")):
        head, *parts = file.read_text().split("\n## ")
        frame = head.rpartition("\n\n")[2]
        for part in parts:
            name, *lines = part.strip("\n").split("\n")
            body = [line for line in lines if not line.startswith(EXPECTED)]
            expected = [line.removeprefix(EXPECTED) for line in lines if line not in body]
            yield f"{file.stem}: {name}", frame.replace("...", "\n".join(body)), expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [pytest.param(text, expected, id=name) for name, text, expected in cases()],
)
def test_case(text, expected):
    checked = check(text.encode(), "c.yaml")
    said = [
        f"{resource}: {line}" if resource is not None else line
        for problem in checked.problems
        for resource, line in [(problem.resource, str(problem).removeprefix("c.yaml:"))]
    ]
    assert said == expected
    refused = {problem.resource for problem in checked.problems}
    if None in refused:
        assert checked.config is None
    elif checked.config is None:
        assert "example.com/good" not in text
    else:
        assert refused.isdisjoint(resource.name for resource in checked.config.resources)
        assert ("example.com/good" in text) <= (len(checked.config.resources) >= 1)
