"""Which files have tests, and a garbage collector that does not visit the modules again and again."""

from __future__ import annotations

import gc
from collections.abc import Generator
from pathlib import Path

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Leave out the search for doctests in a file without any: it would take as long as the collection of the tests."""
    found = yield
    if not found or ">>> " in file_path.read_text(encoding="utf-8"):
        return found
    return [one for one in found if type(one) is pytest.Module]


def pytest_collection_finish() -> None:
    """Collect cycles without visiting the modules and the tests again and again; they stay until the end."""
    gc.collect()
    gc.freeze()
