"""Behavior of OpenVINO and GenAI on the seeded defects of files and directories, as the rules describe it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import openvino
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rules"))

import defects_exp
import defects_ir
from defects import Defect

from irtools.runtime import genai
from irtools.runtime.jobs import GenerationJob

REFUSED, READ = "refused", "read"

# Behavior of `Core.read_model` of OpenVINO 2026.4.1 on the changed file.
READING = {
    "xml-truncated": REFUSED,
    "xml-empty": REFUSED,
    "xml-doctype": READ,
    "xml-control-character": REFUSED,  # here it is in a type; in a name it is read
    "xml-other-root": REFUSED,
    "xml-garbage-behind": READ,
    "tokenizer-truncated": REFUSED,
    "xml-lfs-pointer": REFUSED,
    "bin-lfs-pointer": REFUSED,
    "net-version-9": REFUSED,
    "net-version-missing": REFUSED,
    "xml-utf16": READ,
    "xml-latin1": READ,
    "layers-missing": READ,
    "bin-missing": REFUSED,
    "bin-of-mtp-missing": REFUSED,
    "bin-link-to-nowhere": REFUSED,
    "bin-truncated": REFUSED,
    "bin-empty": REFUSED,
    "constant-past-end": REFUSED,
    "constant-in-body-past-end": REFUSED,
    "bin-longer": READ,
    "bin-of-another-model": READ,
    "constant-too-small": REFUSED,
    "constant-larger": READ,
    "constant-packed-too-small": REFUSED,
    "constant-of-wider-type": REFUSED,
    "dimension-no-number": REFUSED,
    "dimension-empty": REFUSED,
    "dimension-minus-two": REFUSED,
    "offset-no-number": REFUSED,
    "size-negative": REFUSED,
    "shape-of-constant-no-number": REFUSED,
    "element-type-unknown": REFUSED,
    "input-type-unknown": REFUSED,
    "input-shape-malformed": REFUSED,
    "precision-unknown": REFUSED,
    "layer-id-no-number": REFUSED,
    "layer-id-enormous": REFUSED,
    "edge-without-port": REFUSED,
    "port-id-no-number": REFUSED,
    "layer-without-type": REFUSED,
    "layer-id-twice": REFUSED,
    "layer-id-twice-in-mtp": REFUSED,
    "edge-from-nowhere": REFUSED,
    "edge-from-port-that-is-none": REFUSED,
    "edge-missing": REFUSED,
    "edge-of-product-missing": REFUSED,
    "edge-twice": REFUSED,
    "cycle-of-two": REFUSED,
    "cycle-from-end-to-start": REFUSED,
    "sums-with-one-name": READ,
    "products-with-one-name-in-mtp": READ,
    "output-called-like-op": READ,
    "assign-of-unknown-state": REFUSED,
    "read-of-unknown-state": REFUSED,
    "opset-of-the-future": REFUSED,
    "opset-of-a-vendor": REFUSED,
    "rt-info-twice": READ,
    "rt-info-before": READ,
    "meta-data-beside-rt-info": READ,
    "rt-info-key-twice": READ,
    "rt-info-key-in-two-spellings": READ,
}
BY_NAME = {defect.name: defect for defect in (*defects_ir.DEFECTS, *defects_exp.DEFECTS)}


def seeded(defect: Defect, export_copy: Callable[..., Path]) -> Path:
    directory = export_copy(defect.base, to=defect.name)
    defect.edit(directory)
    return directory


@pytest.mark.parametrize("name", READING)
def test_reading(name: str, export_copy: Callable[..., Path]) -> None:
    defect = BY_NAME[name]
    xml = (seeded(defect, export_copy) / str(defect.file)).with_suffix(".xml")

    try:
        openvino.Core().read_model(xml)
        verdict = READ
    except RuntimeError:
        verdict = REFUSED

    assert verdict == READING[name]


def test_the_first_rt_info_and_the_last_of_a_key_count(export_copy: Callable[..., Path]) -> None:
    core = openvino.Core()
    emptied = core.read_model(seeded(BY_NAME["rt-info-before"], export_copy) / "openvino_model.xml")
    doubled = core.read_model(seeded(BY_NAME["rt-info-key-twice"], export_copy) / "openvino_model.xml")

    assert not emptied.has_rt_info("Runtime_version")
    assert doubled.get_rt_info("Runtime_version").value == "2020.1"


# Behavior of GenAI 2026.4.1 on the directory.
RUNNING = {
    "tokenizer-missing": "generate",
    "text-embeddings-missing": "generate",
    "vision-positions-missing": "load",
    "vision-merger-missing": "ran",
    "family-of-text-model": "load",
    "config-truncated": "load",
    "generation-config-malformed": "load",
    "tokenizer-json-malformed": "ran",
    "config-of-wrapper-missing": "load",
    "config-missing": "ran",
    "preprocessor-config-missing": "ran",
    "tokenizer-json-missing": "ran",
    "config-has-more-layers": "ran",
    "config-has-larger-vocabulary": "ran",
}


@pytest.mark.slow
@pytest.mark.skipif(not genai.available(), reason="openvino-genai is not installed")
def test_running(export_copy: Callable[..., Path]) -> None:
    directories = [seeded(BY_NAME[name], export_copy) for name in RUNNING]

    outcomes = list(genai.iterate([GenerationJob(str(directory), prompt="a b c") for directory in directories]))

    assert dict(zip(RUNNING, [outcome.stage for outcome in outcomes], strict=True)) == RUNNING
