"""Unchanged real exports have no false errors or warnings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import irtools
from irtools.authoring import Severity

WITH_HEAD = ("qwen3_5_vl", "qwen3_5_moe_vl", "qwen3_5_vl_int4", "qwen3_5_vl_trained")
WITHOUT_HEAD = ("qwen3", "llama", "falcon", "gpt2", "granite", "qwen3_dflash")
WITHOUT_TOKENIZERS = ("gemma4_vl", "llava", "mixtral", "opt")


def serious(directory: Path, **options: object) -> list[tuple[str, str | None]]:
    findings = irtools.open_export(directory).verify(**options).findings
    return [(f.code, f.file.name if f.file else None) for f in findings if f.severity != Severity.NOTE]


@pytest.mark.parametrize("name", WITH_HEAD)
def test_export_with_head_is_releasable(fixtures: Path, name: str) -> None:
    assert serious(fixtures / name, expect_mtp=True) == []


@pytest.mark.parametrize("name", [*WITHOUT_HEAD, *WITH_HEAD])
def test_sound_export_is_clean(fixtures: Path, name: str) -> None:
    assert serious(fixtures / name) == []


@pytest.mark.parametrize("name", ["llama", "falcon", "gpt2", "granite"])
def test_annotated_export_is_clean(export_copy: Callable[..., Path], name: str) -> None:
    export = irtools.open_export(export_copy(name))
    export.annotate()
    export.save(check=False)

    assert serious(export.path) == []
    assert "HID001" not in {finding.code for finding in irtools.open_export(export.path).verify().findings}


@pytest.mark.parametrize("name", WITHOUT_TOKENIZERS)
def test_exactly_the_missing_tokenizers_are_reported(fixtures: Path, name: str) -> None:
    expected = [("EXP003", "openvino_detokenizer.xml"), ("EXP003", "openvino_tokenizer.xml")]

    assert serious(fixtures / name) == expected


def test_head_is_an_error_where_none_is_wanted(fixtures: Path) -> None:
    assert serious(fixtures / "qwen3_5_vl", expect_mtp=False) == [("MTP004", "openvino_mtp_model.xml")]


def test_pair_of_target_and_draft_is_clean(fixtures: Path) -> None:
    assert serious(fixtures / "qwen3", draft=fixtures / "qwen3_dflash") == []
