"""The MTP rules on valid heads: structure counts, names do not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from defects_mtp import gemma_assistant, gemma_outputs, head, self_contained
from ir_edit import IR, edit

import irtools
from irtools.lint.context import Context
from irtools.lint.mtp import head as nearest_head
from irtools.model.config import MTP_KEYS, declared_mtp
from irtools.model.document import Document
from irtools.model.mtp import MtpProfile
from irtools.model.part import PartFacts
from irtools.model.values import norm_input, rotary_widths
from irtools.registry import collect

Copier = Callable[..., Path]
HEADS = ["qwen3_5_vl", "qwen3_5_moe_vl", "qwen3_5_vl_int4", "qwen3_5_vl_trained"]
M = "openvino_mtp_model.xml"
PORTS = {"hidden_states", "inputs_embeds", "attention_mask", "position_ids", "beam_idx"}


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("expect_mtp", [True, None])
def test_a_valid_head_has_no_finding(name: str, expect_mtp: bool | None, fixtures: Path) -> None:
    findings = irtools.open_export(fixtures / name).verify(expect_mtp=expect_mtp).findings

    assert [f"{f.severity} {f.code} {f.message}" for f in findings if str(f.severity) != "note"] == []
    assert [finding.code for finding in findings if finding.code.startswith("MTP")] == []


@pytest.mark.parametrize("name", HEADS)
def test_names_do_not_matter_but_those_of_the_ports(name: str, export_copy: Copier) -> None:
    directory = export_copy(name)

    def anonymous(ir: IR) -> None:
        for op in ir.layers:
            if op.get("name") not in PORTS:
                op.set("name", f"op{op.get('id')}")

    edit(directory / M, anonymous)

    assert irtools.open_export(directory).verify(select=["MTP"], expect_mtp=True).findings == ()


def test_further_tensor_names_do_not_matter(export_copy: Copier) -> None:
    directory = export_copy("qwen3_5_vl")

    def more_names(ir: IR) -> None:
        for op in ir.typed("Parameter"):
            port = op.find("output/port")
            port.set("names", f"a_{op.get('id')},{port.get('names')},z_{op.get('id')}")

    edit(directory / M, more_names)

    assert irtools.open_export(directory).verify(select=["MTP"], expect_mtp=True).findings == ()


@pytest.mark.parametrize(
    ("name", "profile"), [("qwen3_5_vl", "qwen3_5"), ("qwen3_5_moe_vl", "qwen3_5_moe"), ("qwen3_5_vl_int4", "qwen3_5")]
)
def test_the_profile_is_that_of_the_family(name: str, profile: str, fixtures: Path) -> None:
    nearest = nearest_head(Context(irtools.open_export(fixtures / name)))

    assert nearest is not None
    assert (nearest.profile.name, nearest.likeness) == (profile, 1.0)


@pytest.mark.parametrize(("change", "profile"), [(gemma_assistant, "gemma4"), (self_contained, "self-contained")])
def test_other_forms_are_recognised_by_their_ports(
    change: Callable[[IR], None], profile: str, export_copy: Copier
) -> None:
    directory = export_copy("qwen3_5_vl_trained")
    head(change)(directory)
    export = irtools.open_export(directory)

    nearest = nearest_head(Context(export))

    assert nearest is not None
    assert nearest.profile.name == profile
    messages = [f.message for f in export.verify(select=["MTP007"]).findings]
    assert len(messages) == 1
    assert nearest.profile.title in messages[0]


def test_a_language_model_is_compared_with_the_head_it_stands_for(export_copy: Copier) -> None:
    directory = export_copy("qwen3_5_vl")
    for suffix in (".xml", ".bin"):
        shutil.copy(directory / f"openvino_language_model{suffix}", directory / f"openvino_mtp_model{suffix}")

    findings = irtools.open_export(directory).verify(select=["MTP"]).findings

    assert {"MTP010", "MTP013", "MTP016"} <= {finding.code for finding in findings}
    assert "MTP007" not in {finding.code for finding in findings}


def test_a_gemma_4_assistant_is_judged_as_the_draft_it_is(export_copy: Copier) -> None:
    directory, assistant = export_copy("qwen3_5_vl_trained", to="target"), export_copy("qwen3_5_vl_trained", to="draft")
    edit(assistant / M, gemma_assistant)
    for path in assistant.glob("*"):
        if path.suffix in (".xml", ".bin") and path.stem != "openvino_mtp_model":
            path.unlink()
    for suffix in (".xml", ".bin"):
        (assistant / f"openvino_mtp_model{suffix}").rename(assistant / f"openvino_model{suffix}")
        (directory / f"openvino_mtp_model{suffix}").unlink()
    export = irtools.open_export(directory)

    without = export.verify(select=["MTP", "DFL"], draft=assistant)
    edit(directory / "openvino_language_model.xml", lambda ir: gemma_outputs(ir, missing=0))
    complete = irtools.open_export(directory).verify(select=["MTP", "DFL"], draft=assistant)

    assert [finding.code for finding in without.findings if str(finding.severity) == "error"] == ["MTP055"]
    assert [finding.code for finding in complete.findings if str(finding.severity) == "error"] == []
    available = [
        {strategy.name: strategy.available for strategy in verified.strategies} for verified in (without, complete)
    ]
    assert [strategies["mtp"] for strategies in available] == [False, True]


def test_profiles_are_data_with_unique_names() -> None:
    names = [profile.name for profile in collect(MtpProfile)]

    assert sorted(names) == sorted(set(names))
    assert {"qwen3_5", "qwen3_5_moe", "gemma4", "self-contained"} <= set(names)


@pytest.mark.parametrize("key", MTP_KEYS)
@pytest.mark.parametrize("section", [None, "text_config"])
def test_a_declaration_is_found_under_every_key(key: str, section: str | None, tmp_path: Path) -> None:
    config = {key: 1}
    (tmp_path / "config.json").write_text(json.dumps({section: config} if section else config))

    declared = declared_mtp(irtools.open_export(tmp_path).config)

    assert declared is not None
    assert (declared.key, declared.count) == (f"{section}.{key}" if section else key, 1)


@pytest.mark.parametrize("value", [True, "1", None, 1.0])
def test_a_declaration_is_a_number(value: object, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"mtp_num_hidden_layers": value}))

    assert declared_mtp(irtools.open_export(tmp_path).config) is None


def test_a_missing_head_is_explained_with_the_task_that_works(export_copy: Copier) -> None:
    directory = export_copy("qwen3_5_vl")
    for suffix in (".xml", ".bin"):
        (directory / f"openvino_mtp_model{suffix}").unlink()

    (finding,) = irtools.open_export(directory).verify(select=["MTP"]).findings

    assert "image-text-to-text" in finding.hint
    assert "text-generation-with-past" in finding.hint
    assert irtools.open_export(directory).verify(select=["MTP"], expect_mtp=False).findings == ()


def without_head(directory: Path, layers: int) -> None:
    """Change an export to that of a checkpoint without MTP layers, as Optimum Intel 2.2 writes it."""
    for suffix in (".xml", ".bin"):
        (directory / f"openvino_mtp_model{suffix}").unlink()
    config = json.loads((directory / "config.json").read_text())
    config["text_config"]["mtp_num_hidden_layers"] = layers
    (directory / "config.json").write_text(json.dumps(config))


def test_no_other_task_is_advised_where_the_checkpoint_has_no_head(export_copy: Copier, fixtures: Path) -> None:
    directory = export_copy("qwen3_5_vl")
    without_head(directory, 0)

    (finding,) = irtools.open_export(directory).verify(select=["MTP"], expect_mtp=True).findings
    (other,) = irtools.open_export(fixtures / "llama").verify(select=["MTP"], expect_mtp=True).findings

    assert (finding.code, other.code) == ("MTP005", "MTP005")
    assert "config.json has text_config.mtp_num_hidden_layers = 0" in finding.message
    assert "the checkpoint has no head" in finding.hint
    assert "does not support an MTP head for the family 'llama'" in other.hint
    assert "--task" not in finding.hint + other.hint


@pytest.mark.parametrize(
    "name",
    [
        "qwen3/openvino_model.xml",
        "opt/openvino_model.xml",
        "gpt2/openvino_model.xml",
        "gemma4_vl/openvino_language_model.xml",
        "zoo/cohere/openvino_model.xml",
        "zoo/llama_fp16/openvino_model.xml",
    ],
)
def test_norms_are_recognised_by_structure(name: str, fixtures: Path) -> None:
    """The output projection reads a norm, and the norm reads a residual sum."""
    document = Document(fixtures / name)
    stack = irtools.open_export(document.path).locate()

    value = norm_input(document.graph, stack.head_input)

    assert value is not None
    assert document.graph.unreshaped(value).op == stack.last_sum
    assert norm_input(document.graph, value) is None


@pytest.mark.parametrize("name", HEADS)
def test_rotary_frequencies_are_half_of_what_is_rotated(name: str, fixtures: Path) -> None:
    config = json.loads((fixtures / name / "config.json").read_text())["text_config"]
    rotated = int(config["head_dim"] * config["rope_parameters"]["partial_rotary_factor"])

    for part in (M, "openvino_language_model.xml"):
        assert rotary_widths(PartFacts(Document(fixtures / name / part))) == {rotated // 2}
