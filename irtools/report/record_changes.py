"""Changes between two records of a proof or a benchmark as text: first the conditions, then the figures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from irtools.prove.record_changes import RecordChange
from irtools.report.terminal import Column, Style, numbers, paragraph, table
from irtools.text import joined

__all__ = ["changes_text"]

_FORM = ("steps", "checks", "figures", "files", "effective")
_LESSER = ("passes", "passes_saved", "length", "elements", "samples")
"""Keys whose changes only JSON contains: they follow from other keys."""
_LONGEST = 60
_FILES = re.compile(r"(?:\w+/)+files/(?P<file>[^/]+)/\w+")


def changes_text(changes: Sequence[RecordChange], style: Style) -> str:
    """Changes since an earlier record, without a final newline: first conditions that differ, then figures."""
    if not changes:
        return "nothing changed since the earlier record: the conditions are the same, and so are the figures"
    conditions = [change for change in changes if change.condition]
    figures = [change for change in changes if not change.condition]
    parts = [paragraph(_headline(conditions), style)]
    sides = [Column("before", fold="anywhere"), Column("now", fold="anywhere")]
    rows = _rows(conditions)
    if rows:
        parts.append(table([Column("condition", fold="words"), *sides], rows, style))
    rows = _rows(figures)
    parts.append("" if rows else "no figure changed")
    if rows:
        columns = [Column("figure", fold="words"), *sides, *numbers("ratio")]
        shown = [change for change in figures if not _lesser(change)]
        ratios = [f"{change.ratio:.2f}" if change.ratio else "" for change in shown]
        parts.append(table(columns, [[*row, ratio] for row, ratio in zip(rows, ratios, strict=True)], style))
    return "\n".join(parts)


def _headline(conditions: Sequence[RecordChange]) -> str:
    """What kind of conditions differ, in one sentence."""
    kinds = joined(dict.fromkeys(_kinds(conditions)))
    if not kinds:
        return "the conditions are those of the earlier record"
    return f"the figures cannot be compared as they are, because the earlier record has other conditions: {kinds}"


def _kinds(conditions: Sequence[RecordChange]) -> Iterator[str]:
    files = dict.fromkeys(found["file"] for one in conditions if (found := _FILES.fullmatch(one.what)))
    weights = [name for name in files if name.endswith(".bin") and "tokenizer" not in name]
    if weights:
        yield f"weights ({', '.join(weights)})"
    if len(files) > len(weights):
        yield "files"
    for one in conditions:
        if not _FILES.fullmatch(one.what) and one.what not in ("model/path", "draft/path"):
            yield one.what.split("/", 1)[0].replace("_", " ")


def _rows(changes: Sequence[RecordChange]) -> list[list[object]]:
    return [[_place(one.what), _short(one.before), _short(one.now)] for one in changes if not _lesser(one)]


def _lesser(change: RecordChange) -> bool:
    return any(word in change.what.split("/") for word in _LESSER)


def _place(what: str) -> str:
    """Path of a figure as words, without the keys that only structure the record."""
    words = re.sub(r"assistant_tokens/(\d+)", r"\1 at a time", what).split("/")
    kept = (word for word in words if word not in _FORM)
    return " ".join(word if "." in word or word.isupper() else word.replace("_", " ") for word in kept)


def _short(text: str) -> str:
    longest = 12 if re.fullmatch("[0-9a-f]{64}", text) else _LONGEST
    return (f"{text[:longest]}..." if len(text) > longest else text) or "-"
