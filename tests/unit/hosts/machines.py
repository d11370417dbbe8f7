"""The described machines by name."""

import importlib
from pathlib import Path

from tests.unit.hosts.expected import Case

NAMES = tuple(sorted(path.stem for path in (Path(__file__).parent / "described").glob("[a-z]*.py")))
_MODULES = {name: importlib.import_module(f"tests.unit.hosts.described.{name}") for name in NAMES}
TEXTS: dict[str, str] = {name: module.TEXT for name, module in _MODULES.items()}
CASES: dict[str, tuple[Case, ...]] = {name: module.CASES for name, module in _MODULES.items()}
