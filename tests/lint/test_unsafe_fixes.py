"""Fixes of ports and fusions bring back the bytes of the export, and with them what the runtime accepts."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import irtools
from irtools.lint.apply_fixes import plan_fixes, write_fixes
from irtools.model.part import PartFacts
from irtools.runtime import genai
from irtools.runtime.jobs import GenerationJob
from irtools.surgery.transaction import apply

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rules"))

import defects_mtp
from ir_edit import IR, edit

BASES = ("qwen3_5_vl", "qwen3_5_vl_trained", "qwen3_5_moe_vl", "qwen3_5_vl_int4")
MTP, TARGET = "openvino_mtp_model.xml", "openvino_language_model.xml"
Change = Callable[[IR], object]


def lost(name: str, how: str) -> Change:
    """Take a name of an input from its tensor, its op, or both."""
    return defects_mtp.renamed(name, "port_7", tensor=how != "friendly", friendly=how != "tensor")


def lost_output(name: str) -> Change:
    return lambda ir: ir.rename_tensor(name, "port_7")


def exchanged_branches(ir: IR) -> None:
    """Let the norm of the embeddings read the hidden state, and the other way around."""
    ports = [ir.output(ir.parameter(name)) for name in ("hidden_states", "inputs_embeds")]
    edges = [[e for e in ir.consumers(p) if ir.by_id(e.get("to-layer")).get("type") != "ShapeOf"] for p in ports]
    ir.feed(edges[0], ports[1])
    ir.feed(edges[1], ports[0])


def exchanged_tensor_names(ir: IR) -> None:
    """Exchange the tensor names of two inputs, but not their friendly names."""
    ports = [ir.parameter(name).find("output/port") for name in ("hidden_states", "inputs_embeds")]
    for port, name in zip(ports, ("inputs_embeds", "hidden_states"), strict=True):
        port.set("names", name)


HOW = ("tensor", "friendly", "both")
MTP_INPUTS = ("hidden_states", "inputs_embeds", "attention_mask", "position_ids", "beam_idx")
DEFECTS: dict[str, tuple[str, Change]] = {
    **{f"mtp-{name}-{how}": (MTP, lost(name, how)) for name, how in itertools.product(MTP_INPUTS, HOW)},
    **{f"target-{name}-{how}": (TARGET, lost(name, how)) for name, how in itertools.product(MTP_INPUTS[1:], HOW)},
    "mtp-output": (MTP, lost_output("last_hidden_state")),
    "target-output": (TARGET, lost_output("logits")),
    "operands": (MTP, defects_mtp.swapped),
    "names": (MTP, defects_mtp.swap_names),
    "tensor-names": (MTP, exchanged_tensor_names),
    "branches": (MTP, exchanged_branches),
}
ALL = [(base, name) for base in BASES for name in DEFECTS]
SOME = random.Random(13).sample(ALL, 8)


def damage(directory: Path, name: str) -> tuple[Path, bytes]:
    """Make a defect; return the file and its content before, spelled as after."""
    file, change = DEFECTS[name]
    edit(directory / file, lambda ir: None)
    before = (directory / file).read_bytes()
    edit(directory / file, change)
    assert (directory / file).read_bytes() != before
    return directory / file, before


@pytest.mark.parametrize(
    ("base", "name"), [pytest.param(*one, marks=() if one in SOME else pytest.mark.slow) for one in ALL]
)
def test_the_bytes_come_back(base: str, name: str, export_copy: Callable[..., Path]) -> None:
    path, before = damage(export_copy(base), name)
    damaged = path.read_bytes()
    verification = irtools.open_export(path.parent).verify()

    assert plan_fixes(verification).patches == (), "--fix alone makes no unsafe fix"
    (patch,) = plan_fixes(verification, unsafe=True).patches

    assert patch.data == before
    assert apply(irtools.Document(path, patch.data), patch.undo).data == damaged


@pytest.mark.parametrize("draft_port", ["hidden_states", "inputs_embeds", "position_ids", "beam_idx"])
def test_a_port_of_a_draft_comes_back(draft_port: str, export_copy: Callable[..., Path]) -> None:
    path = export_copy("qwen3_dflash") / "openvino_model.xml"
    edit(path, lambda ir: None)
    before = path.read_bytes()
    edit(path, lost(draft_port, "both"))

    (patch,) = plan_fixes(irtools.open_export(path.parent).verify(), unsafe=True).patches

    assert patch.data == before


def test_two_candidates_are_left_alone(export_copy: Callable[..., Path]) -> None:
    """Two lost names of one form, and norms whose names do not say which operand is which."""
    path = export_copy("qwen3_5_vl") / MTP

    def nameless(ir: IR) -> None:
        for number, name in enumerate(("attention_mask", "position_ids")):
            defects_mtp.renamed(name, f"port_{number}")(ir)
        for op in ir.layers:
            op.set("name", op.get("name").replace("pre_fc_norm_embedding", "first"))
            op.set("name", op.get("name").replace("pre_fc_norm_hidden", "second"))
        ir.swap(ir.layer(defects_mtp.FUSION), 0, 1)

    edit(path, nameless)

    verification = irtools.open_export(path.parent).verify()

    assert {"MTP010", "MTP034"} <= {finding.code for finding in verification.findings}
    assert plan_fixes(verification, unsafe=True).patches == ()


def test_an_encoder_is_no_model_that_lost_its_logits(fixtures: Path) -> None:
    findings = irtools.open_export(fixtures / "bert").verify().findings
    assert [finding.fix for finding in findings if finding.code == "RUN001"] == [None]


def test_only_edges_differ_after_the_repair(export_copy: Callable[..., Path], fixtures: Path) -> None:
    path = export_copy("qwen3_5_vl_trained") / MTP
    original = path.read_bytes()
    lines = original.split(b"\n")
    for number, line in enumerate(lines):  # the example of the README
        if b'to-layer="42"' in line:
            port = b"01"[b'to-port="0"' in line] - ord("0")
            lines[number] = line.replace(b'to-port="%d"' % (1 - port), b'to-port="%d"' % port)
    path.write_bytes(b"\n".join(lines))
    assert path.read_bytes() != original

    write_fixes(plan_fixes(irtools.open_export(path.parent).verify(), unsafe=True).patches)

    differing = set(original.splitlines()) ^ set(path.read_bytes().splitlines())
    assert differing == set()
    assert irtools.diff(fixtures / "qwen3_5_vl_trained", path.parent).equal


@pytest.mark.slow
@pytest.mark.skipif(not genai.available(), reason="openvino-genai is not installed")
def test_every_draft_is_accepted_after_the_repair(export_copy: Callable[..., Path]) -> None:
    jobs = {}
    for name in ("operands", "names", "branches", "mtp-hidden_states-both", "mtp-output", "target-output"):
        directory = export_copy("qwen3_5_vl_trained", to=name)
        damage(directory, name)
        write_fixes(plan_fixes(irtools.open_export(directory).verify(), unsafe=True).patches)
        jobs[name] = GenerationJob(str(directory), "zqab", draft=str(directory), assistant_tokens=1, max_new_tokens=40)

    outcomes = dict(zip(jobs, genai.iterate(jobs.values()), strict=True))

    assert {name: (outcome.accepted, outcome.drafted) for name, outcome in outcomes.items()} == dict.fromkeys(
        jobs, (19, 19)
    )


def test_ports_of_the_fixtures_are_those_that_lose_their_names(fixtures: Path) -> None:
    for base in BASES:
        export = irtools.open_export(fixtures / base)
        assert export.mtp is not None
        assert [port.friendly for port in PartFacts(export.mtp).inputs] == list(MTP_INPUTS)
