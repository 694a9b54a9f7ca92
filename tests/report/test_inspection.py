"""``irtools inspect`` and the memory footprint against configs, OpenVINO and the files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openvino
import pytest
from openvino._offline_transformations import stateful_to_stateless_transformation

from irtools.errors import UsageError
from irtools.export import open_export
from irtools.model.footprint import footprint
from irtools.report.inspect import inspection_text
from irtools.report.inspection import Inspection
from irtools.report.terminal import Style
from irtools.runtime.genai import iterate
from irtools.runtime.jobs import GenerationJob
from irtools.text import shape_text

EXPORTS = ("bert", "falcon", "gemma4_vl", "qwen3_5_moe_vl", "qwen3_5_vl_int4", "qwen3_dflash")
Snapshot = Callable[[str, str], None]


def details(path: Path, part: str = "target", **sizes: int) -> dict[str, Any]:
    return json.loads(json.dumps(Inspection(open_export(path), part, **sizes).details()))


@pytest.mark.parametrize("name", EXPORTS)
def test_ports_are_those_that_openvino_reads(fixtures: Path, name: str) -> None:
    export = open_export(fixtures / name)
    model = openvino.Core().read_model(export.target.path)
    found = details(fixtures / name)
    for key, ports in (("inputs", model.inputs), ("outputs", model.outputs)):
        expected = [
            (
                set(port.get_names()),
                port.get_element_type().to_string(),
                [-1 if dim.is_dynamic else dim.get_length() for dim in port.get_partial_shape()],
            )
            for port in ports
        ]
        assert [(set(p["tensor_names"]), p["element_type"], p["shape"]) for p in found[key]] == expected


@pytest.mark.parametrize("name", EXPORTS)
def test_states_are_those_that_openvino_reads(fixtures: Path, name: str) -> None:
    model = openvino.Core().read_model(open_export(fixtures / name).target.path)
    attributes = [op.get_attributes() for op in model.get_ops() if op.get_type_name() == "ReadValue"]
    expected = Counter(
        (state["variable_type"], str(state["variable_shape"]).replace(" ", "").replace("-1", "?"))
        for state in attributes
    )
    states = details(fixtures / name)["states"]
    assert {(s["element_type"], shape_text(s["shape"])): s["count"] for s in states} == expected


@pytest.mark.parametrize("name", EXPORTS)
def test_sizes_are_those_of_the_files(fixtures: Path, name: str) -> None:
    for part in details(fixtures / name)["parts"]:
        path = fixtures / name / part["file"]
        assert part["xml_bytes"] == path.stat().st_size
        assert part["bin_bytes"] == path.with_suffix(".bin").stat().st_size
        # No two constants of these files overlap.
        assert sum(constant["bytes"] for constant in part["constants"]) >= part["constant_bytes"]
        assert sum(group["bytes"] for group in part["weights"]) == sum(c["bytes"] for c in part["constants"])


def test_keys_and_values_follow_from_the_config(fixtures: Path) -> None:
    config = json.loads((fixtures / "qwen3_5_vl" / "config.json").read_text())["text_config"]
    context, batch = 1000, 3
    found = footprint(open_export(fixtures / "qwen3_5_vl"), context=context, batch=batch)
    full = config["layer_types"].count("full_attention")
    one = 2 * config["num_key_value_heads"] * config["head_dim"] * 1024 * batch  # blocks of 32 tokens
    caches = {term.name: term for term in found.terms if term.kind == "keys and values"}
    assert caches["target keys and values"].size("f16") == full * one * 2
    assert caches["target keys and values"].size("f32") == full * one * 4


def test_linear_attention_state_follows_from_the_config_and_does_not_grow(fixtures: Path) -> None:
    config = json.loads((fixtures / "qwen3_5_vl" / "config.json").read_text())["text_config"]
    linear = config["layer_types"].count("linear_attention")
    keys, values = config["linear_num_key_heads"], config["linear_num_value_heads"]
    key, value = config["linear_key_head_dim"], config["linear_value_head_dim"]
    convolution = (2 * keys * key + values * value) * config["linear_conv_kernel_dim"]
    expected = linear * 2 * 4 * (convolution + values * key * value)  # two sequences, f32
    for context in (16, 100_000):
        found = footprint(open_export(fixtures / "qwen3_5_vl"), context=context, batch=2)
        assert sum(term.bytes for term in found.terms if term.kind == "recurrent state") == expected


def test_weights_and_total_add_up_to_the_files(fixtures: Path) -> None:
    found = footprint(open_export(fixtures / "qwen3_5_vl_int4"), context=64)
    bins = {path.stem: path.stat().st_size for path in (fixtures / "qwen3_5_vl_int4").glob("*.bin")}
    expected = sum(size for stem, size in bins.items() if "tokenizer" not in stem)
    assert found.stored == expected
    assert found.total("u8") < found.total("f16") < found.total("f32")
    assert found.total("f16") == sum(term.size("f16") for term in found.terms)


def test_the_copy_of_lm_head_shrinks_with_a_draft_head(export_copy: Callable[..., Path]) -> None:
    """lm_head of the export is f32 [512, 64]."""
    path = export_copy("qwen3_5_vl_trained")
    for rows in (512, 128):
        if rows < 512:
            export = open_export(path)
            export.graft(rows)
            export.save(check=False)
        terms = footprint(open_export(path)).terms
        copies = [term.bytes for term in terms if term.kind == "copies" or term.name == "MTP copy, packed"]
        assert copies == [rows * 64 * 4] * 2
    assert details(path)["mtp"]["draft_head"] == "the first 128 tokens, in the target"


def test_formulas_give_the_numbers(fixtures: Path) -> None:
    for term in footprint(open_export(fixtures / "qwen3_5_vl"), context=512, batch=2).terms:
        if term.kind not in ("keys and values", "recurrent state", "prompt"):
            continue
        words = term.formula.replace("x bytes of one", "x 4").split(" x ")
        product = 1
        for word in words:
            product *= next(int(piece) for piece in word.split() if piece.isdecimal())
        assert product == term.bytes


def test_stateless_exports_keep_keys_as_inputs(export_copy: Callable[..., Path]) -> None:
    path = export_copy("llama")
    model = openvino.Core().read_model(path / "openvino_model.xml")
    stateful_to_stateless_transformation(model)
    text = path / "stateless"
    text.mkdir()
    openvino.save_model(model, text / "openvino_model.xml", compress_to_fp16=False)
    with_state, without = (footprint(open_export(one), context=512) for one in (path, text))
    assert [t.size("f16") for t in without.terms if t.kind == "keys and values"] == [
        t.size("f16") for t in with_state.terms if t.kind == "keys and values"
    ]


def test_a_context_of_nothing_is_refused(fixtures: Path) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        footprint(open_export(fixtures / "falcon"), context=0)


def test_runs_of_equal_layers_take_one_line_each(fixtures: Path) -> None:
    text = inspection_text(Inspection(open_export(fixtures / "qwen3_5_vl")), Style())
    assert "layers 0-2: linear attention + dense MLP" in text
    assert "layer 3: full attention + dense MLP" in text
    assert len(text.splitlines()) < 72
    assert max(map(len, text.splitlines())) < 270


def test_requested_and_applied_compression(fixtures: Path) -> None:
    parts = {part["name"]: part for part in details(fixtures / "qwen3_5_vl_int4")["parts"]}
    language = parts["language"]
    assert language["compression"]["asked"]["mode"] == "int4_asym"
    assert language["compression"]["asked"]["group_size"] == 64
    stored = sum(
        group["bytes"]
        for group in language["weights"]
        if group["kind"] == "MLP" and group["precision"].startswith("u4")
    )
    assert stored == sum(group["bytes"] for group in language["weights"] if group["kind"] == "MLP")
    assert 0.9 < language["compression"]["compressed_share"] < 1
    assert parts["tokenizer"]["compression"]["asked"] is None


def test_presence_declaration_and_wiring_of_the_mtp_head(fixtures: Path) -> None:
    found = details(fixtures / "qwen3_5_vl")
    assert found["mtp"] == {
        "present": True,
        "declared_layers": 1,
        "wiring": "Concat(inputs_embeds, hidden_states) -> 1 layer -> last_hidden_state",
        "draft_head": None,
    }
    assert {s["name"]: s["available"] for s in found["strategies"]}["mtp"]
    without = {"present": False, "declared_layers": None, "wiring": None, "draft_head": None}
    assert details(fixtures / "falcon")["mtp"] == without


def test_a_draft_is_recognised(fixtures: Path) -> None:
    assert details(fixtures / "qwen3_dflash")["draft"] == {
        "kind": "dflash",
        "target_layers": [0, 1, 2],
        "mask_token_id": "258",
    }
    assert details(fixtures / "falcon")["draft"] is None


def test_symbolic_shapes(fixtures: Path) -> None:
    found = details(fixtures / "qwen3_5_vl")
    assert {port["name"]: port["symbolic"] for port in found["inputs"] + found["outputs"]} == {
        "attention_mask": "[B, T]",
        "inputs_embeds": "[B, S, 32]",
        "position_ids": "[4, B, S]",
        "beam_idx": "[B]",
        "logits": "[B, S, 512]",
    }
    assert {state["symbolic"] for state in found["states"]} == {"[B, 2, P, 16]", "[B, 64, 4]", "[B, 4, 8, 8]"}


def test_rt_info_is_complete(fixtures: Path) -> None:
    model = openvino.Core().read_model(open_export(fixtures / "qwen3_5_vl_int4").target.path)
    found = details(fixtures / "qwen3_5_vl_int4")["rt_info"]["language"]
    assert found["nncf/version"]["origin"] == "NNCF"
    assert found["optimum/optimum_intel_version"]["origin"] == "Optimum"
    assert found["nncf/version"]["value"] == model.get_rt_info(["nncf", "version"]).astype(str)
    assert found["Runtime_version"]["value"] == model.get_rt_info(["Runtime_version"]).astype(str)


@pytest.mark.parametrize("name", ["falcon", "qwen3_5_moe_vl"])
def test_text_snapshot(fixtures: Path, name: str, snapshot: Snapshot) -> None:
    found = Inspection(open_export(fixtures / name))
    strategies = tuple(f"  {strategy.name} " for strategy in found.strategies)  # the rules determine this text
    lines = inspection_text(found, Style()).splitlines(keepends=True)
    snapshot(f"{name}.txt", "".join(line for line in lines if not line.startswith(strategies)))


def test_formulas_have_lines_of_their_own_in_a_narrow_terminal(fixtures: Path) -> None:
    found = Inspection(open_export(fixtures / "gpt2"))
    lines = inspection_text(found, Style(width=60)).splitlines()
    assert max(map(len, lines)) <= 60
    assert "target weights: constants in openvino_model.bin" in lines
    assert "512 KiB 256 KiB 208 KiB 144 KiB" in " ".join(" ".join(lines).split())


def test_a_missing_config_is_mentioned(export_copy: Callable[..., Path]) -> None:
    copy = export_copy("gpt2")
    assert "MTP head    none, config.json declares none" in inspection_text(Inspection(open_export(copy)), Style())
    (copy / "config.json").unlink()
    assert "MTP head    none, there is no config.json" in inspection_text(Inspection(open_export(copy)), Style())


def test_the_largest_context_is_the_last_that_fits(fixtures: Path) -> None:
    memory = footprint(open_export(fixtures / "qwen3_5_vl_trained"), context=64)
    for drafting in (False, True):
        budget = memory.total("u8", "u4", drafting=drafting, context=300)
        largest = memory.largest_context(budget, "u8", "u4", drafting=drafting)
        again = [
            footprint(open_export(fixtures / "qwen3_5_vl_trained"), context=context).total(
                "u8", "u4", drafting=drafting
            )
            for context in (largest, largest + 1)
        ]
        assert again[0] <= budget < again[1]
        assert largest >= 300
    assert memory.largest_context(1000, "u8") == 0
    assert memory.largest_context(2**40, "u8") == memory.limit == 512


def test_drafting_counts_the_copy_of_lm_head_and_checkpoints(fixtures: Path) -> None:
    """The state of a sequence is 3 x (64 x 4 + 4 x 8 x 8) x 4 bytes; lm_head is f32 [512, 64]."""
    few, many = (footprint(open_export(fixtures / "qwen3_5_vl_trained"), assistant_tokens=tokens) for tokens in (1, 5))
    assert many.total("u8") - few.total("u8") == 4 * 3 * (64 * 4 + 4 * 8 * 8) * 4
    assert many.total("u8", drafting=False) == few.total("u8", drafting=False)
    assert sum(term.bytes for term in few.terms if "cop" in term.name and term.drafting) == 2 * 512 * 64 * 4


def test_a_draft_directory_takes_the_place_of_an_mtp_head(fixtures: Path) -> None:
    target = open_export(fixtures / "qwen3")
    memory = target.footprint(draft=fixtures / "qwen3_dflash")
    weights = (fixtures / "qwen3_dflash" / "openvino_model.bin").stat().st_size
    found = {term.name: term.bytes for term in memory.terms if term.drafting}
    assert found["draft weights"] == weights
    assert found["draft copy of lm_head"] == 512 * 32 * 4
    assert target.footprint().draft == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "drafted"),
    [("llama", False), ("gpt2", False), ("qwen3_5_vl_trained", False), ("qwen3_5_vl_trained", True)],
)
def test_the_footprint_is_near_the_peak_of_genai(fixtures: Path, name: str, drafted: bool) -> None:
    pytest.importorskip("openvino_genai")
    path = str(fixtures / name)
    job = GenerationJob(path, draft=path if drafted else None, prompt="ab" * 100, assistant_tokens=3)
    (outcome,) = iterate([job])
    assert outcome.timing is not None, outcome
    estimate = footprint(open_export(path), context=320).total("f16", drafting=drafted)
    assert estimate == pytest.approx(outcome.timing.peak_memory, rel=0.15)
