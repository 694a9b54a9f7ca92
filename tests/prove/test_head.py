"""The step head: each defect that does not change the text fails exactly the expected checks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import openvino
import pytest
from openvino import passes

from irtools.errors import InvalidIRError, LocateRefusedError
from irtools.export import open_export
from irtools.prove import measure_head
from irtools.prove.drafting import Target, Text
from irtools.prove.drive import Session, UndrivableError
from irtools.prove.files import Files
from irtools.prove.head import head
from irtools.prove.prompts import DEFAULT_PROMPTS
from irtools.prove.steps import FAILED, NOT_APPLICABLE, PASSED, WARNING, Step
from irtools.prove.worker import Measured
from tests.marks import mostly_slow
from tests.prove import defects_head

BASE, WIDE = "qwen3_5_vl_trained", "qwen3_5_vl_trained_wide"
Copier = Callable[..., Path]


class Here:
    """Worker that measures in this process."""

    def __init__(self, directory: Path) -> None:
        self.session = Session(Files.of(open_export(directory)))

    def measure(self, step: str, request: dict[str, Any], progress: object = None) -> Measured:
        assert step == "head"
        try:
            measured = measure_head.measure(self.session, json.loads(json.dumps(request)))
        except UndrivableError as error:
            return Measured({}, inapplicable=str(error))
        return Measured(json.loads(json.dumps(measured)))


class Recorded:
    """The target of the trained export, run once for all heads."""

    def __init__(self) -> None:
        self._target: Target | None = None
        self._texts: dict[str, Text] = {}

    def __call__(self, *arguments: Any) -> Recorded:
        self._target = self._target or Target(*arguments)
        return self

    def write(self, prompts: Sequence[Sequence[int]], count: int) -> Text:
        assert self._target is not None
        key = json.dumps([prompts, count])
        if key not in self._texts:
            self._texts[key] = self._target.write(prompts, count)
        return self._texts[key]


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    return Recorded()


def judge(directory: Path, prompts: Sequence[str] | None = None) -> Step:
    """Result of the step; in the tiny exports, each byte of a prompt is a token."""
    export = open_export(directory)
    ids = [list(text.encode()) for text in prompts or DEFAULT_PROMPTS]
    try:
        stack = export.locate()
    except LocateRefusedError:
        stack = None
    return head(export, Here(directory), ids, stack=stack)  # type: ignore[arg-type]


def named(step: Step, status: str) -> set[str]:
    return {check.name for check in step.checks if check.status == status}


@pytest.mark.parametrize("name", mostly_slow(defects_head.FAILING, fast=2))
def test_a_defect_fails_the_checks_that_see_it(
    name: str, recorded: Recorded, monkeypatch: pytest.MonkeyPatch, export_copy: Copier
) -> None:
    edit, expected = defects_head.FAILING[name]
    directory = export_copy(BASE)
    edit(directory)
    if expected != {"hand-over"}:
        monkeypatch.setattr(measure_head, "Target", recorded)

    step = judge(directory)

    assert named(step, FAILED) == expected
    assert all(check.why for check in step.checks if check.status != PASSED)
    assert step.status == FAILED


@pytest.mark.parametrize("name", mostly_slow(defects_head.UNSEEN, fast=1))
def test_a_defect_that_it_cannot_see_is_told(
    name: str, recorded: Recorded, monkeypatch: pytest.MonkeyPatch, export_copy: Copier
) -> None:
    edit, check, words = defects_head.UNSEEN[name]
    directory = export_copy(BASE)
    edit(directory)
    monkeypatch.setattr(measure_head, "Target", recorded)

    step = judge(directory)

    (said,) = (one for one in step.checks if one.name == check)
    assert said.status == NOT_APPLICABLE
    assert words in said.why


@pytest.mark.slow
def test_a_second_trained_head_of_another_size_is_judged_alike(export_copy: Copier) -> None:
    """No threshold was fitted to it."""
    directory = export_copy(WIDE)
    right = judge(directory)
    assert named(right, FAILED) | named(right, WARNING) == set()

    defects_head.drawn("q_proj.weight_compressed")(directory)

    assert "weights" in named(judge(directory), FAILED)


@pytest.mark.parametrize("name", mostly_slow(defects_head.WARNING, fast=1))
def test_a_defect_that_may_do_no_harm_warns(
    name: str, recorded: Recorded, monkeypatch: pytest.MonkeyPatch, export_copy: Copier
) -> None:
    edit, expected = defects_head.WARNING[name]
    directory = export_copy(BASE)
    edit(directory)
    monkeypatch.setattr(measure_head, "Target", recorded)

    step = judge(directory)

    assert (named(step, FAILED), named(step, WARNING)) == (set(), expected)


def uncompressed(directory: Path) -> None:
    """Fold the decompression of all weights of the head into constants."""
    file = directory / f"{defects_head.HEAD}.xml"
    model = openvino.Core().read_model(file)
    manager = passes.Manager()
    manager.register_pass(passes.ConstantFolding())
    manager.run_passes(model)
    written = file.with_name("folded.xml")
    openvino.save_model(model, written, compress_to_fp16=False)
    del model
    for suffix in (".xml", ".bin"):
        written.with_suffix(suffix).replace(file.with_suffix(suffix))


@pytest.mark.slow
def test_an_uncompressed_head_of_a_compressed_target_warns(export_copy: Copier) -> None:
    directory = export_copy("qwen3_5_vl_int4")
    checks = [check_of(judge(directory, ["zqab"]), "precision")]
    uncompressed(directory)
    checks.append(check_of(judge(directory, ["zqab"]), "precision"))

    assert [check.status for check in checks] == [PASSED, WARNING]
    assert checks[1].saw == "most values are f32 in the head, u4 in the target"
    assert "the head is uncompressed" in checks[1].why
    assert "QNT010" in checks[1].why


@pytest.mark.slow
def test_one_short_prompt_is_enough_for_the_blocks(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, export_copy: Copier
) -> None:
    directory = export_copy(BASE)
    monkeypatch.setattr(measure_head, "Target", recorded)
    assert named(judge(directory, ["zqab"]), FAILED) == set()

    edit, expected = defects_head.FAILING["attention random"]
    edit(directory)

    assert named(judge(directory, ["zqab"]), FAILED) == expected


def test_the_trained_head_passes_with_these_figures(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, fixtures: Path
) -> None:
    monkeypatch.setattr(measure_head, "Target", recorded)

    step = judge(fixtures / BASE)

    assert named(step, NOT_APPLICABLE) <= {"norm-weights", "fusion-norms", "fusion-noise"}
    assert {check.status for check in step.checks} <= {PASSED, NOT_APPLICABLE}
    checks = {check.name: check for check in step.checks}
    agreement = checks["agreement"].figures
    assert agreement["positions"] == 8 * 24
    assert agreement["share"] >= 0.9  # type: ignore[operator]
    assert sum(right for right, _ in agreement["by_prompt"]) == agreement["agreed"]  # type: ignore[attr-defined]
    assert checks["rotary"].figures["head"] == checks["rotary"].figures["target"]
    assert checks["wiring"].figures["exchanged"] < 0.3  # type: ignore[operator]


LETTERS = tuple(range(90, 63, -1))
"""Token ids of the letters, which the trained export writes, in another order."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "graft",
    [{"vocabulary": 128}, {"vocabulary": 128, "own_head": True}, {"tokens": LETTERS, "own_head": True}],
    ids=["target", "own head", "scattered"],
)
def test_a_draft_head_over_the_tokens_of_the_target_agrees_as_often(
    graft: dict[str, Any], recorded: Recorded, monkeypatch: pytest.MonkeyPatch, export_copy: Copier
) -> None:
    monkeypatch.setattr(measure_head, "Target", recorded)
    directory = export_copy(BASE)
    whole = agreement_of(directory)
    export = open_export(directory)
    export.graft(graft.pop("vocabulary", None), **graft)
    export.save(check=False)

    step = judge(directory)

    assert step.status == PASSED
    (check,) = (check for check in step.checks if check.name == "agreement")
    written = whole.figures["positions"]
    assert check.figures["positions"] + check.figures["uncovered"] == written  # type: ignore[operator]
    assert check.figures["agreed"] >= 0.95 * whole.figures["agreed"]  # type: ignore[operator]


@pytest.mark.slow
def test_a_draft_head_without_the_tokens_of_the_target_is_told(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, export_copy: Copier
) -> None:
    monkeypatch.setattr(measure_head, "Target", recorded)
    directory = export_copy(BASE)
    export = open_export(directory)
    export.graft(64)
    export.save(check=False)

    step = judge(directory)

    assert named(step, FAILED) == set()
    (check,) = (check for check in step.checks if check.name == "agreement")
    assert check.status == WARNING
    assert check.figures["agreed"] == 0


@pytest.mark.slow
def test_logits_of_its_own_with_wrong_content_fail(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, export_copy: Copier
) -> None:
    """The runtime uses them: 0 of 38 accepted."""
    monkeypatch.setattr(measure_head, "Target", recorded)
    directory = export_copy(BASE)
    export = open_export(directory)
    export.graft(tokens=tuple(range(512)), own_head=True)
    export.save(check=False)
    weights = directory / "openvino_mtp_model.bin"
    data = bytearray(weights.read_bytes())
    data[-512 * 64 * 4 :] = b"".join(
        data[-512 * 64 * 4 :][row * 256 : row * 256 + 256] for row in (*range(7, 512), *range(7))
    )
    weights.write_bytes(data)

    assert "agreement" in named(judge(directory), FAILED)


def agreement_of(directory: Path) -> Any:
    return check_of(judge(directory), "agreement")


def check_of(step: Step, name: str) -> Any:
    (check,) = (check for check in step.checks if check.name == name)
    return check


@pytest.mark.slow
def test_an_untrained_target_and_head_only_warn(fixtures: Path) -> None:
    step = judge(fixtures / "qwen3_5_moe_vl", ["some text", "and more"])

    assert named(step, FAILED) == set()
    assert named(step, WARNING) == {"agreement"}
    other = {"weights", "norm-weights", "fusion-norms", "fusion-noise"}
    assert named(step, NOT_APPLICABLE) == {"wiring", "attention", "feed-forward"} | other
    (check,) = (check for check in step.checks if check.name == "agreement")
    assert "random" in check.why


def test_exports_that_it_is_not_for_are_told_why(fixtures: Path, export_copy: Copier) -> None:
    assert "no openvino_mtp_model.xml" in judge(fixtures / "falcon").why
    directory = export_copy(BASE)
    (directory / "openvino_text_embeddings_model.xml").unlink()
    assert "openvino_text_embeddings_model.xml" in judge(directory).why


def test_ports_under_other_names_are_reported(export_copy: Copier) -> None:
    directory = export_copy(BASE)
    defects_head.mtp.head(defects_head.mtp.renamed("hidden_states"))(directory)

    (check,) = judge(directory).checks

    assert (check.name, check.status) == ("ports", FAILED)
    assert "'hidden_states'" in check.saw


def test_what_cannot_be_driven_does_not_apply(export_copy: Copier) -> None:
    directory = export_copy(BASE)
    defects_head.mtp.target(defects_head.mtp.renamed("position_ids", "places"))(directory)

    step = judge(directory)

    assert (step.status, [check.name for check in step.checks]) == (NOT_APPLICABLE, ["ports"])
    assert "'places'" in step.why


def test_a_head_that_cannot_be_read_is_an_error(export_copy: Copier) -> None:
    directory = export_copy(BASE)
    (directory / "openvino_mtp_model.xml").write_text("<net")

    with pytest.raises(InvalidIRError):
        judge(directory)
