"""What the documents show is true: every config in them passes `check`."""

import re
from pathlib import Path

import pytest

from device_plugin import config

ROOT = Path(__file__).parents[2]
EXAMPLES = [
    pytest.param(match[1], id=f"{path.name}:{path.read_text()[: match.start()].count(chr(10)) + 1}")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for match in re.finditer(r"```yaml\n(.*?)```", path.read_text(), re.DOTALL)
    if "kind: " not in match[1]  # ours, not Kubernetes'
]


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_configs_in_the_documents_are_good(text):
    assert config.check(text.encode(), "example.yaml").problems == ()


def test_there_are_examples():
    assert len(EXAMPLES) > 3


@pytest.mark.parametrize(
    "path", [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")], ids=lambda p: p.name
)
def test_links_between_documents_lead_somewhere(path):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_every_event_of_the_log_is_documented():
    """What an admin meets in the log stands in docs/operations.md."""
    documented = (ROOT / "docs" / "operations.md").read_text()
    events = {
        match[1]
        for path in (ROOT / "device_plugin").glob("*.py")
        for match in re.finditer(
            r"(?:log|logger)\.(?:info|warning|error|exception)\(\s*\"([^\"]+)\"", path.read_text()
        )
    }
    assert len(events) > 10
    assert {event for event in events if f"`{event}`" not in documented} == set()
