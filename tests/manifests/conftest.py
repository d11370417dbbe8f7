"""These tests need Go, and the network where a program is not built yet."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # tests are no package

_COLD = 900  # seconds: the first test that needs a program builds it


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.timeout(_COLD))
