"""Outcome of ``irtools prove`` as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from irtools.prove.run import Proof
from irtools.prove.settings import Prompt
from irtools.prove.steps import FAILED, NOT_APPLICABLE, PASSED, WARNING, Check, Step
from irtools.report.terminal import Column, Style, numbers, paragraph, table
from irtools.text import plural, size_text

__all__ = ["proof_text"]

_COLOURS = {PASSED: "green", FAILED: "red", WARNING: "yellow", NOT_APPLICABLE: "dim"}
_ROWS = (
    ("tokens per second", "tokens_per_second"),
    ("first token", "first_token"),
    ("total draft time", "draft"),
    ("total verify time", "verify"),
    ("speed-up over plain", "speed_up"),
    ("breaks even at", "break_even"),
)
_SECONDS = ("first_token", "draft", "verify")
_NARROW = 60


def proof_text(proof: Proof, style: Style) -> str:
    """Verdict, steps with their checks, figures of drafting, and recommendation, without a final newline."""
    device = proof.record["device"]
    name = device["properties"].get("FULL_DEVICE_NAME")
    where = f"{device['name']} ({name})" if name else device["name"]
    own = proof.setup.draft == proof.export.directory
    how = f"with its {proof.setup.title}" if own else f"with the {proof.setup.title} of {proof.setup.draft}"
    drafting = f", {how}" if proof.setup.title else ""
    lines = [paragraph(_verdict(proof.steps), style), paragraph(f"{proof.export.path} on {where}{drafting}", style)]
    if proof.record["tokenizer_fault"] and proof.record["prompts"]:
        seed = proof.record["settings"]["seed"]
        text = f"the prompts could not be tokenized, and random token ids from seed {seed} replace them"
        lines.append(paragraph(f"{text}: {proof.record['tokenizer_fault']}", style))
    for step in proof.steps:
        lines += ["", *_step(step, style)]
    return "\n".join(lines)


def _verdict(steps: Sequence[Step]) -> str:
    failed = [step.name for step in steps if step.status == FAILED]
    if failed:
        return f"not proved: {', '.join(failed)} failed"
    passed = sum(step.status in (PASSED, WARNING) for step in steps)
    warned = sum(step.status == WARNING for step in steps)
    rest = len(steps) - passed
    if not passed:
        return "nothing proved: no step applies"
    text = f"{plural(passed, 'step')} passed" + (f", {warned} of them with a warning" if warned else "")
    return text + (f"; {plural(rest, 'step')} {'do' if rest > 1 else 'does'} not apply" if rest else "")


def _step(step: Step, style: Style) -> Iterator[str]:
    took = [f"{step.seconds:.1f} s"] if step.seconds else []
    took += [size_text(step.peak_memory)] if step.peak_memory else []
    cost = f" ({', '.join(took)})" if took else ""
    yield f"{style.paint(step.name, 'bold')}: {_painted(step.status, style)}{cost}"
    if step.why:
        yield paragraph(step.why, style, 2)
    for check in step.checks:
        yield f"  {check.name}: {_painted(check.status, style)}"
        yield paragraph(f"{check.did}: {check.saw}" if check.saw else check.did, style, 4)
        if check.why:
            yield paragraph(check.why, style, 4)
        yield from _figures(check, step, style)


def _painted(status: str, style: Style) -> str:
    return style.paint(status, _COLOURS[status])


def _figures(check: Check, step: Step, style: Style) -> Iterator[str]:
    """Tables of the runtime step."""
    if step.name != "runtime":
        return
    if check.name == "acceptance" and check.figures:
        plain = next((other for other in step.checks if other.name == "plain"), None)
        labels = [_label(prompt) for prompt in plain.figures["prompts"]] if plain else []  # type: ignore[attr-defined]
        yield _acceptance(check.figures, labels, style)
    timing = check.figures.get("timing")
    if check.name == "speed" and isinstance(timing, Mapping):
        yield _speeds(timing["assistant_tokens"], style)
        if timing["recommendation"]:
            yield paragraph(f"recommendation: {timing['recommendation']['text']}", style, 4)
            yield paragraph(f"but: {timing['recommendation']['warning']}", style, 4)
    if check.name == "memory" and isinstance(timing, Mapping):
        yield _memory(timing["assistant_tokens"], style)


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
    return [f"{entry['accepted']} of {entry['drafted']}", _number(entry["acceptance"]), entry["passes_saved"]]


def _speeds(entries: Sequence[Mapping[str, Any]], style: Style) -> str:
    names = [str(entry["number"] or "none") for entry in entries]
    columns = [Column("draft", fold="words"), *numbers(*names)]
    rows = [
        [title, *(_cell(key, entry.get(key)) for entry in entries)]
        for title, key in _ROWS
        if any(entry.get(key) is not None for entry in entries)
    ]
    return table(columns, rows, style, indent=_indent(style))


def _memory(entries: Sequence[Mapping[str, Any]], style: Style) -> str:
    columns = [*numbers("draft"), *numbers("allocated for state", "peak memory", fold="words")]
    rows = [
        [entry["number"] or "none", size_text(entry["cache_bytes"]), size_text(entry["peak_memory"])]
        for entry in entries
    ]
    return table(columns, rows, style, indent=_indent(style))


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _cell(key: str, value: float | None) -> str:
    if key in _SECONDS:
        return _seconds(value)
    if key == "break_even" and value is not None and not 0 < value <= 1:
        return "never" if value > 1 else "always"
    return _number(value)


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    if value >= 1:
        return f"{value:.1f} s"
    return f"{1000 * value:.0f} ms" if value >= 0.1 else f"{1000 * value:.1f} ms"
