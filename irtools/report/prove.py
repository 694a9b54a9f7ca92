"""Outcome of ``irtools prove`` as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from irtools.prove.run import Proof
from irtools.prove.settings import Prompt
from irtools.prove.steps import FAILED, NOT_APPLICABLE, PASSED, WARNING, Step
from irtools.prove.wording import verdict
from irtools.report.terminal import Column, Style, numbers, paragraph, table

__all__ = ["proof_text"]

_COLOURS = {PASSED: "green", FAILED: "red", WARNING: "yellow", NOT_APPLICABLE: "dim"}
_NARROW = 60


def proof_text(proof: Proof, style: Style) -> str:
    """Verdict, and the steps with their checks and counts of tokens, without a final newline."""
    device = proof.record["device"]
    where = f"{device['name']} ({device['full_name']})" if device["full_name"] else device["name"]
    own = proof.setup.draft == proof.export.directory
    how = f"with its {proof.setup.title}" if own else f"with the {proof.setup.title} of {proof.setup.draft}"
    drafting = f", {how}" if proof.setup.title else ""
    said = verdict({step.name: step.status for step in proof.steps})
    lines = [paragraph(said, style), paragraph(f"{proof.export.path} on {where}{drafting}", style)]
    if proof.record["tokenizer_fault"] and proof.record["prompts"]:
        seed = proof.record["settings"]["seed"]
        text = f"the prompts could not be tokenized, and random token ids from seed {seed} replace them"
        lines.append(paragraph(f"{text}: {proof.record['tokenizer_fault']}", style))
    for step in proof.steps:
        lines += ["", *_step(step, style)]
    return "\n".join(lines)


def _step(step: Step, style: Style) -> Iterator[str]:
    took = f" ({step.seconds:.1f} s)" if step.seconds else ""
    yield f"{style.paint(step.name, 'bold')}: {_painted(step.status, style)}{took}"
    if step.why:
        yield paragraph(step.why, style, 2)
    for check in step.checks:
        yield f"  {check.name}: {_painted(check.status, style)}"
        yield paragraph(f"{check.did}: {check.saw}" if check.saw else check.did, style, 4)
        if check.why:
            yield paragraph(check.why, style, 4)
        if step.name == "runtime" and check.name == "acceptance" and check.figures:
            plain = next((other for other in step.checks if other.name == "plain"), None)
            labels = [_label(prompt) for prompt in plain.figures["prompts"]] if plain else []  # type: ignore[attr-defined]
            yield _acceptance(check.figures, labels, style)


def _painted(status: str, style: Style) -> str:
    return style.paint(status, _COLOURS[status])


def _indent(style: Style) -> int:
    """Indent of tables: none in a narrow terminal."""
    return 4 if style.width is None or style.width >= _NARROW else 0


def _label(prompt: Mapping[str, Any]) -> str:
    return Prompt(prompt["text"], tuple(prompt["token_ids"])).label


def _acceptance(figures: Mapping[str, Any], labels: Sequence[str], style: Style) -> str:
    columns = [Column("prompt", fold="anywhere"), *numbers("draft", "accepted", "rate", "saved")]
    by_number = figures["assistant_tokens"]
    prompts = [(label, [entry["prompts"][place] for entry in by_number]) for place, label in enumerate(labels)]
    rows = [
        ["" if line else title, entry["number"], *_counts(counts)]
        for title, figures_of in [*prompts, ("total", by_number)]
        for line, (entry, counts) in enumerate(zip(by_number, figures_of, strict=True))
    ]
    return table(columns, rows, style, indent=_indent(style))


def _counts(entry: Mapping[str, Any]) -> list[object]:
    return [f"{entry['accepted']} of {entry['drafted']}", _rate(entry["acceptance"]), entry["passes_saved"]]


def _rate(value: float | None) -> str:
    return f"{value:.2f}" if value is not None else "-"
