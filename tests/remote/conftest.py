"""The servers that the tests of this folder share; each test gets them without requests and faults."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.remote.hub_server import Hub


@pytest.fixture(scope="session")
def _hub() -> Iterator[Hub]:
    with Hub() as hub:
        yield hub


@pytest.fixture
def hub(_hub: Hub) -> Hub:
    """A hub and its CDN without repositories."""
    _hub.clear()
    _hub.repositories.clear()
    return _hub


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)


@pytest.fixture
def served(hub: Hub, fixtures: Path) -> Hub:
    """The hub with the export ``falcon`` as ``org/falcon``."""
    hub.add("org/falcon", fixtures / "falcon")
    return hub
