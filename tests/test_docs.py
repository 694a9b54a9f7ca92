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
        ("```console\n$ cat irtools.decoders.gone\n```", None),
        ("```sh needs-network\npip install x\n```", None),
        ("```sh\nls\n```", "a block marked 'sh' is not run: make it `console` or `python`, or say what it needs"),
        (
            "```python later\n1\n```",
            "a block marked 'python later' is not run: make it `console` or `python`, or say what it needs",
        ),
    ],
)
def test_what_does_not_exist_is_a_fault(check: ModuleType, tmp_path: Path, text: str, fault: str | None) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "other.md").write_text("# Two `words`\n")
    page = tmp_path / "docs" / "page.md"
    page.write_text(text)

    assert list(check.faults(page, tmp_path)) == ([fault] if fault else [])


def test_blocks_run_in_their_order_in_one_directory(check: ModuleType) -> None:
    page = "```console\n$ echo 1 > n\n```\n\n```python\nprint(open('n').read(), 'b')\n```\n\n```text output\nold\n```\n"
    page += "```console\n$ rm n\n```\n\n```python\nopen('n')\n```\n"

    fresh, failed = check.replay(page)

    assert fresh == page.replace("old\n", "1\n b\n")
    assert failed == 1


@pytest.mark.parametrize(("shown", "same"), [("took 1.5 s", True), ("took 22 ms", False), ("took  12.25 s", True)])
def test_numbers_of_a_session_may_vary(check: ModuleType, shown: str, same: bool) -> None:
    page = f"```console varies\n$ echo 'took 0.3 s'\n{shown}\n```\n"

    fresh, _ = check.replay(page)

    assert fresh == (page if same else page.replace(shown, "took 0.3 s"))
