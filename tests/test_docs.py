"""The check of the documentation notices names, links and files that do not exist."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_check", Path(__file__).parents[1] / "docs" / "check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("`irtools.decoder.locate`", None),
        ("`irtools.surgery.patch.Patch.undo`", None),
        ("`irtools.lint.engine.Verification.findings`", None),  # an annotated field
        ("`irtools.decoder.find`", "there is no irtools.decoder.find"),
        ("`irtools.decoders`", "there is no irtools.decoders"),
        ("`irtools.toml`, irtools.expose/0,3/taps/Concat", None),
        ("`Export.locate` and `Finding.severity`", None),
        ("`Export.find`", "there is no Export.find"),
        ("[page](other.md#two-words)", None),
        ("[page](other.md#three)", "the link other.md#three leads nowhere"),
        ("[page](gone.md)", "the link gone.md leads nowhere"),
        ("[page](https://example.org/gone.md)", None),
        ("`docs/other.md`", None),
        ("`docs/gone.md`", "there is no docs/gone.md"),
        ("New file `docs/gone.md`:", None),
        ("```sh\ncat irtools.decoders.gone\n```", None),
    ],
)
def test_what_does_not_exist_is_a_fault(check: ModuleType, tmp_path: Path, text: str, fault: str | None) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "other.md").write_text("# Two `words`\n")
    page = tmp_path / "docs" / "page.md"
    page.write_text(text)

    assert list(check.faults(page, tmp_path)) == ([fault] if fault else [])
