"""What the project's own files promise one another."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TESTING = "device_plugin.testing"
LOWEST = ROOT / ".ci" / "requirements" / "lowest.in"


def test_the_lowest_versions_that_are_tested_are_those_that_are_allowed():
    extra = PROJECT["project"]["optional-dependencies"]["kubernetes"]
    lines = [*PROJECT["project"]["dependencies"], *extra]
    bounds = (re.match(r"([\w-]+)>=([\d.]+)", line) for line in lines)
    allowed = {match[1]: match[2] for match in bounds if match}
    tested = dict(re.findall(r"^([\w-]+)==([\d.]+)$", LOWEST.read_text(), re.MULTILINE))
    assert allowed.keys() == tested.keys()
    assert all(tested[name].startswith(allowed[name]) for name in allowed)


def test_the_embedded_kubelet_is_kept_from_every_module_of_ours():
    """The contract in pyproject.toml names them one by one: a new one must be among them."""
    contracts = PROJECT["tool"]["importlinter"]["contracts"]
    (contract,) = (one for one in contracts if one.get("source_modules") == [TESTING])
    modules = {
        f"device_plugin.{path.stem}"
        for path in (ROOT / "device_plugin").iterdir()
        if not path.name.startswith("_")
        and (path.suffix == ".py" or (path / "__init__.py").exists())
    } - {TESTING}
    assert modules <= set(contract["forbidden_modules"])
