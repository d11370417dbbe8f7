"""What the documents show is true: configs pass `check`, programs run, units load."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from device_plugin import commands, config, sdk

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
        for path in (ROOT / "device_plugin").rglob("*.py")
        for match in re.finditer(
            r"(?:log|logger)\.(?:info|warning|error|exception)\(\s*\"([^\"]+)\"", path.read_text()
        )
    }
    assert len(events) > 10
    assert {event for event in events if f"`{event}`" not in documented} == set()


def block(document: str, language: str) -> str:
    """The only block of this language in a document below docs/."""
    text = (ROOT / "docs" / document).read_text()
    [only] = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert isinstance(only, str)
    return only


def test_the_sdk_shows_the_example_as_it_is():
    """Which tests/integration/test_sdk.py installs and runs."""
    acme = ROOT / "examples" / "acme"
    assert block("sdk.md", "python") == (acme / "acme.py").read_text()
    assert block("sdk.md", "toml").strip() in (acme / "pyproject.toml").read_text()
    assert (acme / "config.yaml").read_text() in (ROOT / "docs" / "sdk.md").read_text()


def test_the_public_api_is_documented():
    documented = (ROOT / "docs" / "sdk.md").read_text()
    assert {name for name in sdk.__all__ if name not in documented} == set()


def test_the_test_of_a_plugin_passes():
    program = [sys.executable, "-c", block("testing.md", "python")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_the_systemd_unit_starts_the_daemon():
    unit = block("install.md", "ini")
    [line] = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    program, *words = line.split()
    assert Path(program).name == "device-plugin"
    parsed = commands.parser("run").parse_args(words)
    assert parsed.config == Path("/etc/device-plugin")
    # What systemd makes for it is where the daemon keeps its state.
    [folder] = re.findall(r"^StateDirectory=(.*)$", unit, re.MULTILINE)
    assert parsed.state_dir == Path("/var/lib") / folder


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_systemd_unit_is_good(tmp_path):
    program = Path(sys.executable).parent / "device-plugin"
    unit = block("install.md", "ini").replace("/opt/device-plugin/bin/device-plugin", str(program))
    file = tmp_path / "device-plugin.service"
    file.write_text(unit)
    command = ["systemd-analyze", "verify", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    # It warns on stderr and exits with 0; what other units of the machine lack is not ours.
    assert done.returncode == 0, done.stderr
    assert "device-plugin" not in done.stderr


@pytest.fixture
def status(tmp_path) -> Iterator[dict[str, object]]:
    """`status -o json` of a daemon that nobody serves."""
    (tmp_path / "config.yaml").write_text(
        "version: 1\nresources: [{name: example.com/a, devices: [{virtual: {count: 1}}]}]\n"
    )
    ours = [sys.executable, "-m", "device_plugin"]
    words = ["--config=config.yaml", "--device-plugin-dir=.", "--kubelet-root=.", "--http=off"]
    with subprocess.Popen(
        [*ours, "run", *words, "--state-dir=state"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    ) as daemon:
        try:
            assert daemon.stderr is not None
            assert any('"started"' in line for line in daemon.stderr)
            said = subprocess.run(
                [*ours, "status", "-o", "json", "--state-dir=state"],
                cwd=tmp_path,
                capture_output=True,
                check=True,
            )
            yield json.loads(said.stdout)
        finally:
            daemon.terminate()


def keys(value: object, above: str = "") -> Iterator[str]:
    """Every key, as the table of the document writes it."""
    if isinstance(value, list):
        for one in value or [None]:
            yield from keys(one, f"{above}[]")
    elif isinstance(value, dict):
        for key, below in value.items():
            yield from keys(below, f"{above}.{key}".lstrip("."))
    else:
        yield above


def test_every_key_of_the_status_is_documented(status):
    text = (ROOT / "docs" / "operations.md").read_text()
    documented = set(re.findall(r"^\| `([a-z_0-9.\[\]]+)` \|", text, re.MULTILINE))
    found = set(keys(status))
    assert "resources[].devices[].holders[]" in found
    assert found <= documented, found - documented
