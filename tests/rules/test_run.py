"""The RUN rules and the decoding strategies, against OpenVINO's own conversion to paged attention."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openvino
import pytest

import irtools
from irtools.lint.engine import VerifyOptions, verify
from tests.marks import mostly_slow

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
TARGETS = ["openvino_model.xml", "openvino_language_model.xml"]
NOT_CONVERTED = {"RUN002", "RUN003", "RUN005", "RUN008"}


def exports() -> list[str]:
    """Every fixture with a target, including the zoo."""
    directories = [path.parent for name in TARGETS for path in FIXTURES.glob(f"**/{name}")]
    return sorted(path.relative_to(FIXTURES).as_posix() for path in directories)


def rehearse(path: Path) -> tuple[bool, int]:
    """True if OpenVINO converts a model to paged attention, and the number of remaining states."""
    from openvino._offline_transformations import paged_attention_transformation

    model = openvino.Core().read_model(path)
    try:
        paged_attention_transformation(model)
    except RuntimeError:
        return False, 0
    kinds = Counter(op.get_type_name() for op in model.get_ordered_ops())
    return True, kinds["ReadValue"]


@pytest.mark.parametrize("name", mostly_slow(exports(), fast=8))
def test_readiness_agrees_with_the_conversion(name: str) -> None:
    export = irtools.open_export(FIXTURES / name)
    if len(export.target_candidates) != 1:
        pytest.skip("no single target")
    path = export.target.path

    converted, left = rehearse(path)

    codes = {finding.code for finding in export.verify(select=["RUN"]).findings}
    if name == "qwen3_dflash":
        assert codes == set()  # a draft is not a target and is not converted
    elif "RUN001" in codes:
        assert not converted
    else:
        assert converted == codes.isdisjoint(NOT_CONVERTED)
        assert bool(left) == ("RUN004" in codes)


@pytest.mark.parametrize(
    ("name", "available"),
    [
        ("qwen3", {"plain", "dflash", "eagle3", "draft"}),
        ("falcon", {"plain", "draft"}),
        ("llama", {"plain", "dflash", "eagle3", "draft"}),
        ("qwen3_5_vl", {"plain", "mtp", "dflash", "eagle3"}),
        ("qwen3_5_moe_vl", {"plain", "mtp", "dflash"}),
        ("qwen3_5_vl_int4", {"plain", "mtp", "dflash", "eagle3"}),
        ("bert", set()),
        ("mixtral", set()),  # no tokenizer
    ],
)
def test_strategies(name: str, available: set[str]) -> None:
    strategies = irtools.open_export(FIXTURES / name).verify().strategies

    assert [strategy.name for strategy in strategies] == ["plain", "mtp", "dflash", "eagle3", "draft"]
    assert {strategy.name for strategy in strategies if strategy.available} == available
    assert [strategy.name for strategy in strategies if not strategy.available and not strategy.reason] == []


def test_a_refused_strategy_names_its_findings(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("qwen3_5_vl")
    for suffix in ("xml", "bin"):
        (directory / f"openvino_detokenizer.{suffix}").unlink()

    verified = irtools.open_export(directory).verify()

    codes = {finding.code for finding in verified.findings}
    for strategy in verified.strategies:
        assert not strategy.available
        assert "EXP003" in strategy.findings
        assert set(strategy.findings) <= codes


@pytest.mark.parametrize("name", mostly_slow(["qwen3_5_moe_vl", "bert", "mixtral", "gpt2", "zoo/xglm"], fast=2))
@pytest.mark.parametrize(
    "options",
    [{"select": ("VER",)}, {"ignore": ("ALL",)}, {"ignore": ("DFL", "EXP")}, {"severities": {"EXP": 1}}],
    ids=str,
)
def test_what_is_shown_does_not_change_the_strategies(name: str, options: dict[str, Any]) -> None:
    export = irtools.open_export(FIXTURES / name)

    assert verify(export, VerifyOptions(**options)).strategies == verify(export).strategies


def test_an_embedding_that_is_not_recognised_leaves_drafts_that_bring_one(export_copy: Callable[..., Path]) -> None:
    """GenAI 2026.4 rejects gpt2 with a draft that takes embeddings, and runs it with one that takes token ids."""
    export = irtools.open_export(export_copy("gpt2"))
    export.annotate()
    export.save()

    alone = {s.name: s for s in export.verify().strategies}["dflash"]
    refused = {s.name: s for s in export.verify(draft=FIXTURES / "qwen3_dflash").strategies}["dflash"]

    assert (alone.available, alone.findings) == (True, ("RUN011",))
    assert "draft that takes input_ids and has an embedding of its own" in alone.reason
    assert (refused.available, refused.findings) == (False, ("DFL011",))


@pytest.mark.parametrize("name", ["zoo/xglm", "zoo/gpt2_eager"])
def test_without_fused_attention_only_the_stateful_path_is_left(name: str, export_copy: Callable[..., Path]) -> None:
    directory = export_copy(name, to="eager")
    for path in (FIXTURES / "falcon").glob("openvino_*tokenizer.*"):
        shutil.copy(path, directory)

    verified = irtools.open_export(directory).verify()

    by_name = {strategy.name: strategy for strategy in verified.strategies}
    assert by_name["plain"].available
    assert "stateful" in by_name["plain"].reason
    assert not by_name["dflash"].available
    assert "RUN003" in by_name["dflash"].findings


def test_a_stateless_export_is_told_the_task() -> None:
    (finding,) = irtools.open_export(FIXTURES / "zoo" / "llama_stateless").verify(select=["RUN002"]).findings

    assert "`--task text-generation-with-past`" in finding.hint
