"""Every fixture has a line that says how it was made, and all of them together stay small."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import openvino
import pytest

from tests.marks import mostly_slow

ROOT = Path(__file__).resolve().parents[1]
FIXTURES = ROOT / "fixtures"
PACKED = {path.name.removesuffix(".tar.xz") for path in (FIXTURES / "packed").glob("*.tar.xz")}
TRUTHS = {
    **{path.stem: path for path in (FIXTURES / "truth").glob("*.json")},
    **{f"zoo/{path.parent.name}": path for path in (FIXTURES / "zoo").glob("*/truth.json")},
}


def made() -> list[str]:
    command = [sys.executable, str(FIXTURES / "build.py"), "--list"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_readme_says_how_each_was_made() -> None:
    lines = made()
    names = {"falcon"} | (PACKED - {"zoo"}) | {path.name for path in (FIXTURES / "zoo").iterdir()}
    assert {line.split("`")[1] for line in lines} == names
    readme = (FIXTURES / "README.md").read_text().splitlines()
    assert [line for line in readme if line.startswith("- `")] == lines


def test_they_stay_below_ten_megabytes() -> None:
    listed = subprocess.run(["git", "ls-files", "-z", "fixtures"], cwd=ROOT, capture_output=True, check=True).stdout
    files = [ROOT / name for name in listed.decode().split("\0") if name]
    assert sum(file.stat().st_size for file in files if file.exists()) < 10_000_000


# Gemma 3n has several parallel streams: none is the hidden state.
@pytest.mark.parametrize("name", mostly_slow(sorted(TRUTHS.keys() - {"zoo/gemma3n_text"}), fast=25))
def test_truth_names_outputs_that_openvino_finds(name: str) -> None:
    truth: dict[str, Any] = json.loads(TRUTHS[name].read_text())
    candidates = [FIXTURES / name / file for file in ("openvino_language_model.xml", "openvino_model.xml")]
    xml = next(path for path in candidates if path.exists())
    outputs = {op.get_friendly_name(): op.get_output_size() for op in openvino.Core().read_model(xml).get_ops()}
    assert len(truth["layers"]) > 0
    for layer in truth["layers"].values():
        assert layer
        assert all(index < outputs[producer] for producer, index in layer)
