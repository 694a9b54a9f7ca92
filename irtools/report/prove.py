"""The outcome of ``irtools prove`` for people."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from irtools.prove.compare import Change
from irtools.prove.model import FAILED, NOT_APPLICABLE, PASSED, WARNING, Check, Step
from irtools.prove.run import Proof
from irtools.report.terminal import Column, Style, table
from irtools.text import plural, size_text

__all__ = ["changes_text", "proof_text"]

_COLOURS = {PASSED: "green", FAILED: "red", WARNING: "yellow", NOT_APPLICABLE: "dim"}
_ROWS = (
    ("tokens per second", "tokens_per_second"),
    ("first token", "first_token"),
    ("draft time, in all", "draft"),
    ("verify time, in all", "verify"),
    ("times as fast as plain", "speed_up"),
    ("breaks even at", "break_even"),
)
_SECONDS = ("first_token", "draft", "verify")
_FORM = ("steps", "checks", "figures")
_NARROW = 60
_LESSER = ("passes", "passes_saved", "length")
"""What of a comparison is left to JSON: it follows from the rest."""
_LONGEST = 60


def proof_text(proof: Proof, style: Style) -> str:
    """Every step with its checks, the figures of drafting, and the recommendation.

    Parameters
    ----------
    proof : Proof
    style : Style

    Returns
    -------
    str
        Without a final newline.
    """
    device = proof.record["device"]
    name = device["properties"].get("FULL_DEVICE_NAME")
    where = f"{device['name']} ({name})" if name else device["name"]
    own = proof.way.draft == proof.export.directory
    how = f"with its {proof.way.title}" if own else f"with the {proof.way.title} of {proof.way.draft}"
    drafting = f", {how}" if proof.way.title else ""
    lines = [*_paragraph(f"{proof.export.path} on {where}{drafting}", style, 0)]
    lines += _stand_ins(proof.record, style)
    for step in proof.steps:
        lines += ["", *_step(step, style)]
    return "\n".join([*lines, "", *_paragraph(_verdict(proof.steps), style, 0)])


def _stand_ins(record: Mapping[str, Any], style: Style) -> Iterator[str]:
    """That the numeric steps use other token ids than those of the prompts, and why."""
    if record["tokenizer_fault"] and record["prompts"]:
        seed = record["settings"]["seed"]
        text = f"the prompts could not be tokenized, and token ids of the seed {seed} stand in for them"
        yield from _paragraph(f"{text}: {record['tokenizer_fault']}", style, 0)


def _verdict(steps: Sequence[Step]) -> str:
    failed = [step.name for step in steps if step.status == FAILED]
    if failed:
        return f"not proved: {', '.join(failed)} failed"
    passed = sum(step.status in (PASSED, WARNING) for step in steps)
    warned = sum(step.status == WARNING for step in steps)
    rest = len(steps) - passed
    if not passed:
        return "nothing proved: no step applies"
    said = f"{plural(passed, 'step')} passed" + (f", {warned} of them with a warning" if warned else "")
    return said + (f"; {plural(rest, 'step')} {'do' if rest > 1 else 'does'} not apply" if rest else "")


def _step(step: Step, style: Style) -> Iterator[str]:
    took = [f"{step.seconds:.1f} s"] if step.seconds else []
    took += [size_text(step.peak_memory)] if step.peak_memory else []
    cost = f" ({', '.join(took)})" if took else ""
    yield f"{style.paint(step.name, 'bold')}: {_painted(step.status, style)}{cost}"
    if step.why:
        yield from _paragraph(step.why, style, 2)
    for check in step.checks:
        yield f"  {check.name}: {_painted(check.status, style)}"
        yield from _paragraph(f"{check.did}: {check.saw}" if check.saw else check.did, style, 4)
        if check.why:
            yield from _paragraph(check.why, style, 4)
        yield from _figures(check, step, style)


def _painted(status: str, style: Style) -> str:
    return style.paint(status, _COLOURS[status])


def _paragraph(text: str, style: Style, indent: int) -> Iterator[str]:
    yield from table([Column("", fold="words")], [[text]], style, indent=indent).split("\n")


def _figures(check: Check, step: Step, style: Style) -> Iterator[str]:
    """The tables of the runtime step."""
    if step.name != "runtime":
        return
    if check.name == "acceptance" and check.figures:
        plain = next((other for other in step.checks if other.name == "plain"), None)
        labels = [_label(prompt) for prompt in plain.figures["prompts"]] if plain else []  # type: ignore[attr-defined]
        yield from _acceptance(check.figures, labels, style).split("\n")
    timing = check.figures.get("timing")
    if check.name == "speed" and isinstance(timing, Mapping):
        yield from _speeds(timing, style).split("\n")
        if timing["recommendation"]:
            yield from _paragraph(_sentence("recommendation", timing["recommendation"]["text"]), style, 4)
            yield from _paragraph(_sentence("but", timing["recommendation"]["warning"]), style, 4)
    if check.name == "memory" and isinstance(timing, Mapping):
        yield from _memory(timing, style).split("\n")


def _indent(style: Style) -> int:
    """Of tables: none where every column counts."""
    return 4 if style.width is None or style.width >= _NARROW else 0


def _sentence(start: str, text: str) -> str:
    return f"{start}: {text}"


def _label(prompt: Mapping[str, Any]) -> str:
    from irtools.prove.settings import Prompt

    return Prompt(prompt["text"], tuple(prompt["token_ids"])).label


def _acceptance(figures: Mapping[str, Any], labels: Sequence[str], style: Style) -> str:
    columns = [
        Column("prompt", fold="anywhere"),
        Column("draft", right=True),
        Column("accepted", right=True),
        Column("rate", right=True),
        Column("saved", right=True),
    ]
    rows: list[list[object]] = []
    for place, label in enumerate(labels):
        for found in figures["assistant_tokens"]:
            shown = label if found is figures["assistant_tokens"][0] else ""
            rows.append([shown, found["number"], *_counts(found["prompts"][place])])
    for found in figures["assistant_tokens"]:
        shown = "in all" if found is figures["assistant_tokens"][0] else ""
        rows.append([shown, found["number"], *_counts(found)])
    return table(columns, rows, style, indent=_indent(style))


def _counts(found: Mapping[str, Any]) -> list[object]:
    return [f"{found['accepted']} of {found['drafted']}", _number(found["acceptance"]), found["passes_saved"]]


def _speeds(timing: Mapping[str, Any], style: Style) -> str:
    found = timing["assistant_tokens"]
    rows = [
        [title, *(_cell(key, row.get(key)) for row in found)]
        for title, key in _ROWS
        if any(row.get(key) is not None for row in found)
    ]
    return table(_by_number(found), rows, style, indent=_indent(style))


def _memory(timing: Mapping[str, Any], style: Style) -> str:
    columns = [
        Column("draft", right=True),
        Column("allocated for state", right=True, fold="words"),
        Column("peak memory", right=True, fold="words"),
    ]
    rows = [
        [row["number"] or "none", size_text(row["cache_bytes"]), size_text(row["peak_memory"])]
        for row in timing["assistant_tokens"]
    ]
    return table(columns, rows, style, indent=_indent(style))


def _by_number(found: Sequence[Mapping[str, Any]]) -> list[Column]:
    names = [str(row["number"]) if row["number"] else "none" for row in found]
    return [Column("draft", fold="words"), *(Column(name, right=True) for name in names)]


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


def changes_text(changes: Sequence[Change], style: Style) -> str:
    """What moved since an earlier record, as a table; without a final newline."""
    if not changes:
        return "nothing moved since the earlier record"
    columns = [
        Column("moved", fold="words"),
        Column("before", fold="anywhere"),
        Column("now", fold="anywhere"),
        Column("ratio", right=True),
    ]
    rows = [
        [_place(one.what), _short(one.before), _short(one.now), _number(one.ratio) if one.ratio else ""]
        for one in changes
        if not any(word in one.what.split("/") for word in _LESSER)
    ]
    return table(columns, rows, style)


def _place(what: str) -> str:
    """Keys as words, without those that only give the record its form."""
    words = re.sub(r"assistant_tokens/(\d+)", r"\1 at a time", what).split("/")
    return " ".join(word.replace("_", " ") for word in words if word not in _FORM)


def _short(text: str) -> str:
    longest = 12 if re.fullmatch("[0-9a-f]{64}", text) else _LONGEST
    return (f"{text[:longest]}..." if len(text) > longest else text) or "-"
