"""The record of a proof: complete, reproducible except for timing, comparable."""

from __future__ import annotations

import copy
import hashlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import irtools
from irtools.errors import OptionError
from irtools.export import open_export
from irtools.prove.evidence import Evidence
from irtools.prove.record import record, schema, settled
from irtools.prove.record_changes import changes, read_record
from irtools.prove.settings import Prompt, ProveSettings
from irtools.prove.speculate import DraftSetup
from irtools.prove.steps import PASSED, Check, Step
from irtools.report.json import schema as envelope_schema
from irtools.report.record_changes import changes_text
from irtools.report.terminal import Style
from irtools.runtime.probe import RuntimeFacts
from tests.bench.examples import Machine, example_record
from tests.prove.conftest import Proved

VALIDATOR = jsonschema.Draft202012Validator(schema())


def recorded(export: irtools.Export, *steps: Step) -> dict[str, Any]:
    seen = RuntimeFacts(("CPU",), {"INFERENCE_PRECISION_HINT": "f32"}, {"python": "3.11", "platform": "any"})
    evidence = Evidence.take("CPU", seen, {"model": export})
    return record(DraftSetup(), [Prompt("ab", (1, 2))], ProveSettings(), evidence, steps)


@pytest.mark.slow
def test_the_record_holds_what_reproduces_the_run(trained: Proved, fixtures: Path) -> None:
    done = trained
    jsonschema.Draft202012Validator(envelope_schema()).validate(done.envelope)
    VALIDATOR.validate(done.proof)
    assert done.proof["versions"]["openvino"] == "2026.4.1"
    assert done.proof["versions"]["genai"] == "2026.4.1.0"
    assert done.proof["device"]["name"] == "CPU"
    assert done.proof["device"]["properties"]["KV_CACHE_PRECISION"] == "f16"  # rt_info of the target
    assert done.proof["device"]["effective"]["target"]["properties"]["KV_CACHE_PRECISION"] == "f16"
    assert {"key_cache", "value_cache"} <= done.proof["device"]["effective"]["mtp"]["state"].keys()
    assert done.proof["prompts"][0] == {"text": "zqab", "token_ids": [89, 80, 64, 65], "length": 4}
    files = done.proof["model"]["files"]
    for path in (fixtures / "qwen3_5_vl_trained").iterdir():
        assert files[path.name]["size"] == path.stat().st_size
    for head in ("openvino_mtp_model.xml", "openvino_mtp_model.bin"):
        data = (fixtures / "qwen3_5_vl_trained" / head).read_bytes()
        assert files[head]["sha256"] == hashlib.sha256(data).hexdigest()
    assert all(step["timing"].keys() == {"seconds"} for step in done.proof["steps"])
    names = [check["name"] for check in done.step("runtime")["checks"]]
    assert names == ["conversion", "plain", "image", "text", "acceptance"]


@pytest.mark.slow
def test_two_runs_give_the_same_record_but_for_times(dflash: Proved, fixtures: Path) -> None:
    """Once through the command line, once through the API."""
    first = dflash.proof
    settings = ProveSettings(
        draft=fixtures / "qwen3_dflash",
        steps=("runtime",),
        prompts=("zqab",),
        assistant_tokens=(2,),
        max_new_tokens=10,
    )

    second = open_export(first["model"]["path"]).prove(settings)

    # Through JSON: tuples are lists there.
    assert settled(json.loads(json.dumps(second.record))) == settled(first)
    assert second.exit_code == 0
    moved = [change for change in changes(first, second.record) if change.ratio is None]
    assert {change.what for change in moved} <= {"machine/load"}


def test_a_name_and_revision_come_from_a_hugging_face_cache(fixtures: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "models--some--model-ov" / "snapshots" / "0123abc"
    shutil.copytree(fixtures / "falcon", snapshot)
    (tmp_path / "link").symlink_to(snapshot)

    for path in (snapshot, tmp_path / "link"):
        found = recorded(open_export(path))["model"]
        assert (found["id"], found["revision"]) == ("some/model-ov", "0123abc")
    assert recorded(open_export(fixtures / "falcon"))["model"]["revision"] is None


def test_what_moved_is_told(fixtures: Path) -> None:
    figures = {"prompts": [{"tokens": [1, 2, 3]}], "timing": {"seconds": 1.0}}
    checks = (Check("plain", PASSED, "ran", "3 tokens", figures=figures),)
    old = recorded(open_export(fixtures / "falcon"), Step("runtime", checks, seconds=2.0))
    VALIDATOR.validate({**old, "steps": []})
    new = copy.deepcopy(old)
    new["versions"]["openvino"] = "2027.1"
    new["device"]["name"] = "GPU"
    new["model"]["files"]["config.json"]["size"] += 1
    step = new["steps"][0]
    step["status"] = step["checks"][0]["status"] = "failed"
    step["checks"][0]["figures"]["prompts"][0]["tokens"] = [1, 9, 3]
    step["timing"] = {"seconds": 4.0}

    found = {change.what: (change.before, change.now, change.ratio) for change in changes(old, new)}

    assert found.pop("versions/openvino") == ("", "2027.1", None)
    assert found.pop("device/name") == ("CPU", "GPU", None)
    size = old["model"]["files"]["config.json"]["size"]
    assert found == {
        "model/files/config.json/size": (str(size), str(size + 1), None),
        "steps/runtime/status": ("passed", "failed", None),
        "steps/runtime/checks/plain/status": ("passed", "failed", None),
        "steps/runtime/checks/plain/figures/prompts/0/tokens": ("from item 1: 2 3", "from item 1: 9 3", None),
        "steps/runtime/seconds": ("2", "4", 2.0),
    }
    new["steps"] = [{**old["steps"][0], "timing": {"seconds": 2.1}}]
    assert not any(change.what.startswith("steps/") for change in changes(old, new))
    assert changes(old, copy.deepcopy(old)) == ()


def test_conditions_are_told_before_figures(export_copy: Callable[..., Path]) -> None:
    copied = export_copy("qwen3_5_vl_trained")
    step = Step("taps", (Check("values", PASSED, "ran", figures={"largest": 1.0}),), seconds=2.0)
    old = recorded(open_export(copied), step)
    weights = copied / "openvino_mtp_model.bin"
    data = bytearray(weights.read_bytes())
    data[1000] ^= 1
    weights.write_bytes(data)
    new = recorded(open_export(copied), step)
    new["steps"][0]["checks"][0]["figures"]["largest"] = 2.0
    effective = {"target": {"properties": {"KV_CACHE_PRECISION": "f16"}}}
    old["device"] |= {"properties": {"KV_CACHE_PRECISION": "f16"}, "effective": effective}
    new["device"] |= {"properties": {"KV_CACHE_PRECISION": "u8"}, "effective": copy.deepcopy(effective)}
    new["device"]["effective"]["target"]["properties"]["KV_CACHE_PRECISION"] = "u8"
    for made, load in ((old, 0.1), (new, 3.0 * new["machine"]["cpus"])):
        made["machine"]["timing"] = {"load_start": [load] * 3, "load_end": [load] * 3}

    told = changes(old, new)

    assert [(one.what, one.condition) for one in told] == [
        ("model/files/openvino_mtp_model.bin/sha256", True),
        ("device/effective/target/properties/KV_CACHE_PRECISION", True),
        ("machine/load", True),
        ("steps/taps/checks/values/figures/largest", False),
    ]
    lines = changes_text(told, Style()).splitlines()
    assert "weights (openvino_mtp_model.bin), device and machine" in lines[0]
    assert any(line.split()[:3] == ["taps", "values", "largest"] for line in lines[5:])
    assert changes_text((), Style()).startswith("nothing changed")


def test_changes_of_a_benchmark_are_those_that_intervals_tell_apart(fixtures: Path) -> None:
    old = json.loads(json.dumps(example_record(fixtures / "qwen3_5_vl_trained")))
    slower = json.loads(json.dumps(example_record(fixtures / "qwen3_5_vl_trained", Machine(plain=0.04))))
    again = json.loads(json.dumps(example_record(fixtures / "qwen3_5_vl_trained", Machine(chance=random.Random(1)))))
    slower["settings"]["repeat"] = 7

    assert [one.what for one in changes(old, again) if not one.condition and one.what.endswith("_second")] == []
    told = changes(old, slower)

    assert [(one.what, one.before, one.now) for one in told if one.condition] == [("settings/repeat", "5", "7")]
    ratios = {one.what: one.ratio for one in told if one.ratio is not None}
    assert ratios["rows/plain/tokens_per_second"] == pytest.approx(0.5, abs=0.02)
    assert ratios["rows/mtp 2/time_per_token"] > 1.5
    assert not any("samples" in one.what or "median" in one.what for one in told)
    drafted = {**old, "drafts": [recorded(open_export(fixtures / "falcon"))["model"]]}
    path = str(fixtures / "falcon")
    assert [(one.what, one.before, one.now) for one in changes(old, drafted)] == [("drafts/0/path", "", path)]
    assert changes_text(changes(drafted, old), Style()).splitlines()[0].endswith("other conditions: drafts")
    once = json.loads(json.dumps(slower))
    once["settings"]["repeat"] = 1
    assert all(one.ratio is None for one in changes(old, once))
    assert changes(old, old) == ()


def test_a_record_without_evidence_is_not_told_to_differ_in_it(fixtures: Path) -> None:
    new = recorded(open_export(fixtures / "qwen3_5_vl_trained"))
    old = {key: item for key, item in copy.deepcopy(new).items() if key not in ("date", "machine")}
    old["device"] = {key: old["device"][key] for key in ("name", "properties")}
    del old["model"]["weights"]
    for name, mark in old["model"]["files"].items():
        mark["sha256"] = mark["sha256"] if not name.endswith(".bin") else None

    assert changes(old, new) == changes(new, old) == ()


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"models": [{}]}', '{"record_version": true}', "\0", "[" * 99999],
)
def test_nonsense_is_no_record(content: str, tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(content)

    with pytest.raises(OptionError, match=r"irtools prove -o FILE\.json"):
        read_record(path)


def test_a_record_is_found_in_an_envelope(fixtures: Path, tmp_path: Path) -> None:
    found = recorded(open_export(fixtures / "falcon"))
    path = tmp_path / "old.json"
    for content in (found, {"models": [{"proof": found}]}):
        path.write_text(json.dumps(content))
        assert read_record(path) == found
    with pytest.raises(OptionError, match="no such file"):
        read_record(tmp_path / "missing.json")


@pytest.mark.parametrize("kind", ["proof", "bench"])
def test_the_record_of_another_version_or_kind_is_refused_with_the_command_to_write_one(
    kind: str, fixtures: Path, tmp_path: Path
) -> None:
    path = tmp_path / "old.json"
    records = {"proof": recorded(open_export(fixtures / "falcon")), "bench": example_record(fixtures / "falcon")}
    command = {"proof": "prove", "bench": "bench"}[kind]
    path.write_text(json.dumps({"models": [{kind: {**records[kind], "record_version": 0}}]}))
    with pytest.raises(OptionError, match=f"version 0, but only .* new one with `irtools {command} MODEL_DIR -o FILE"):
        read_record(path, kind)
    path.write_text(json.dumps({"models": [{kind: records[kind]}]}))
    other, said = (
        ("bench", "of a proof, not of a benchmark") if kind == "proof" else ("proof", "of a benchmark, not of")
    )
    with pytest.raises(OptionError, match=said):
        read_record(path, other)
