"""The check of the documentation finds what does not exist; docs/choose.md agrees with the code."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import irtools
from irtools.model.decoding import DECODING
from rules.conditions import BEAMS, GREEDY
from rules.conditions import GEMMA4 as GEMMA4_PAIR
from rules.families import GEMMA4


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


@pytest.fixture(scope="module")
def comparison() -> dict[str, dict[str, str]]:
    """The two tables of docs/choose.md, joined, by the name in irtools."""
    page = (Path(__file__).parents[1] / "docs" / "choose.md").read_text()
    ways: dict[str, dict[str, str]] = {}
    for table in page[page.index("## Comparison") :].split("\n\n")[1:3]:
        head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
        for row in rows:
            ways.setdefault(row[0], {}).update(zip(head, row, strict=True))
    return {way["name in irtools"]: way for way in ways.values()}


def test_the_comparison_has_the_releases_of_the_code(comparison: dict[str, dict[str, str]]) -> None:
    expected = {f"`{one.name}`": one.since or "any release" for one in DECODING.values()}

    assert {name: row["GenAI from"] for name, row in comparison.items()} == {
        **expected,
        "`mtp` with `--draft`": GEMMA4.since,
    }


def test_the_comparison_has_the_conditions_of_the_code(comparison: dict[str, dict[str, str]]) -> None:
    samples = {"False": "yes", "False, if a streamer is given": "with a streamer"}
    greedy = {one.strategy: samples[one.condition.value] for one in GREEDY}
    (backend,) = (one.condition for one in GEMMA4_PAIR if one.condition.setting == "ATTENTION_BACKEND")

    assert {name: row["greedy only"] for name, row in comparison.items()} == {
        **{f"`{name}`": greedy.get(name, "no") for name in DECODING},
        "`mtp` with `--draft`": "yes",
    }
    assert f'{backend.setting}="{backend.value}"' in comparison["`mtp` with `--draft`"]["pipeline class"]
    assert {one.strategy for one in BEAMS} == set(DECODING) - {"plain"}


def test_the_comparison_has_the_pipeline_classes_that_fit(
    comparison: dict[str, dict[str, str]], fixtures: Path
) -> None:
    vision, text = (irtools.open_export(fixtures / name).verify() for name in ("qwen3_5_vl_trained", "llama"))
    vision_fits, text_fits = ({one.name for one in found.pipelines if one.fits} for found in (vision, text))
    refused = {one.name for one in vision.strategies if not one.available}
    expected = dict.fromkeys(DECODING, vision_fits | text_fits)

    assert refused == {"draft"}
    assert {name: set(re.findall(r"\w+Pipeline", row["pipeline class"])) for name, row in comparison.items()} == {
        **{f"`{name}`": fits for name, fits in (expected | {"mtp": vision_fits, "draft": text_fits}).items()},
        "`mtp` with `--draft`": {"LLMPipeline"},
    }
