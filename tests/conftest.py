"""Shared by all tests: the fixtures, unpacked once, and copies of them to write in."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # its fork would keep pipes open

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in a background job of a shell; children inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return  # the controller of xdist has done it
    spec = importlib.util.spec_from_file_location("irtools_fixtures_pack", FIXTURES / "pack.py")
    assert spec is not None
    assert spec.loader is not None
    pack = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pack)
    pack.unpack_all()


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """``fixtures/``; an export is the directory of its name in there. No test writes in it."""
    return FIXTURES


@pytest.fixture
def export_copy(tmp_path: Path) -> Callable[..., Path]:
    """Copy an export into the test's own directory; returns the copy."""

    def copy(name: str, to: str | None = None) -> Path:
        return shutil.copytree(FIXTURES / name, tmp_path / (to or name))

    return copy


@pytest.fixture(scope="session")
def truth() -> Callable[[str], dict[str, Any]]:
    """Read ``fixtures/truth/<name>.json``."""
    return lambda name: json.loads((FIXTURES / "truth" / f"{name}.json").read_text())


@pytest.fixture
def snapshot() -> Callable[[str, str], None]:
    """Compare text with a file of ``tests/render/snapshots``; ``UPDATE_SNAPSHOTS=1`` writes it instead."""

    def compare(name: str, text: str) -> None:
        path = Path(__file__).parent / "render" / "snapshots" / name
        if os.environ.get("UPDATE_SNAPSHOTS"):
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return compare
