"""Columns and totals of an atlas, for the text, Markdown, CSV and the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from irtools.lint.finding import Severity
from irtools.model.decoding import STRATEGIES
from irtools.report.atlas_row import AtlasRow, Measurement
from irtools.report.record_figures import figure_text, value_text
from irtools.text import plural, size_text

__all__ = ["COLUMNS", "NOT_MEASURED", "AtlasColumn", "speed_up_text", "totals"]

NOT_MEASURED = "not measured"
_ANNOTATIONS = {
    "present": "as located",
    "early": "early form, as located",
    "differs": "not as located",
    "absent": "absent",
    "unknown": "present, not compared",
}
_ALWAYS = ("path", "findings")
"""Columns that say something about every export, also if it could not be looked at."""
_ROLES = {
    "target": "target",
    "dflash": "DFlash draft",
    "eagle3": "EAGLE-3 draft",
    "mtp": "MTP draft",
    "other": "other model",
}


@dataclass(frozen=True, slots=True)
class AtlasColumn:
    """A column of the tables for people.

    Attributes
    ----------
    text : callable
        Text of a row.
    value : callable or None
        What the page sorts by; None for the text.
    right : bool
        True for numbers.
    choices : callable or None
        Values of a row that the page offers as a filter.
    room : int
        Columns of a terminal from which the table there has it; 0 for never.
    brief : callable or None
        Text there, if it is another one.
    page : callable or None
        Text on the page, if it is another one.
    """

    key: str
    title: str
    text: Callable[[AtlasRow], str]
    value: Callable[[AtlasRow], float | None] | None = None
    right: bool = False
    choices: Callable[[AtlasRow], Sequence[str]] | None = None
    room: int = 0
    brief: Callable[[AtlasRow], str] | None = None
    page: Callable[[AtlasRow], str] | None = None

    def cell(self, row: AtlasRow, *, brief: bool = False, page: bool = False) -> str:
        """Text of a row; empty where nothing is known of the export."""
        if not row.parts and self.key not in _ALWAYS:
            return ""
        other = self.brief if brief else self.page if page else None
        return (other or self.text)(row)

    def chosen_by(self, row: AtlasRow) -> Sequence[str]:
        """Values of a row for the filter; none where nothing is known of the export."""
        known = row.parts or self.key in _ALWAYS
        return [text for text in self.choices(row) if text] if self.choices is not None and known else ()


def _counts_text(row: AtlasRow) -> str:
    """Findings by severity; the failure, if the export could not be looked at."""
    if row.error is not None:
        return "failed"
    counts = sorted(row.severities.items(), reverse=True)
    parts = [plural(count, str(severity)) for severity, count in counts if count]
    return ", ".join(parts) or "none"


def _badness(row: AtlasRow) -> float:
    """Failed exports first, then by the numbers of errors, warnings and notes."""
    counts = [min(row.severities.get(one, 0), 999) for one in sorted(Severity, reverse=True)]
    return (row.error is not None) * 1e9 + counts[0] * 1e6 + counts[1] * 1e3 + counts[2]


def _memory_text(row: AtlasRow) -> str:
    """Memory for plain decoding, and with the MTP head."""
    memory = row.memory
    if memory is None:
        return ""
    drafting = f", {size_text(memory.drafting)} with MTP" if memory.drafting is not None else ""
    return f"{size_text(memory.plain)}{drafting} at {memory.context:,}"


def _acceptance_text(row: AtlasRow) -> str:
    """Measured acceptance rate, with what was measured, when and where."""
    found = row.acceptance
    if found is None or found.acceptance is None:
        return NOT_MEASURED
    return f"{value_text(found.acceptance, 'share')} ({_when(found)})"


def speed_up_text(found: Measurement) -> str:
    """Speed-up with its interval."""
    figure = {"median": found.speed_up, "low": found.low, "high": found.high, "unit": "times"}
    if found.low is not None and found.high is not None:
        return figure_text(figure)
    return value_text(found.speed_up or 0.0, "times")


def _speed_up_cell(row: AtlasRow) -> str:
    return f"{speed_up_text(found)} ({_when(found)})" if (found := row.speed_up) is not None else NOT_MEASURED


def _when(found: Measurement) -> str:
    return ", ".join(filter(None, (found.row, found.date[:10], found.device)))


def _measured(row: AtlasRow) -> str:
    known = {"acceptance": row.acceptance, "speed-up": row.speed_up}
    return " and ".join(name for name, one in known.items() if one is not None) or NOT_MEASURED


def _role(row: AtlasRow) -> str:
    return _ROLES.get(row.role, "")


def _annotation(row: AtlasRow) -> str:
    return _ANNOTATIONS.get(row.annotation, "")


def _graft(row: AtlasRow) -> str:
    return row.graft or "none"


def _parts(row: AtlasRow) -> list[str]:
    return [part.name for part in row.parts]


def _numbers(key: str, title: str, value: Callable[[AtlasRow], int | None], room: int = 0) -> AtlasColumn:
    """Column of a number that may be unknown."""

    def text(row: AtlasRow) -> str:
        number = value(row)
        return str(number) if number is not None else ""

    return AtlasColumn(key, title, text, value, right=True, room=room)


def _names(
    key: str, title: str, text: Callable[[AtlasRow], str], room: int = 0, brief: Callable[[AtlasRow], str] | None = None
) -> AtlasColumn:
    """Column of a text of which there are few, so that it is a filter too."""
    return AtlasColumn(key, title, text, choices=lambda row: [text(row)], room=room, brief=brief)


COLUMNS = (
    AtlasColumn("path", "export", lambda row: row.path, room=1),
    AtlasColumn("findings", "findings", _counts_text, _badness, choices=lambda row: [row.worst], room=1),
    _names("role", "role", _role),
    _names("family", "family", lambda row: row.family, 1),
    _numbers("layers", "layers", lambda row: row.layers, 1),
    _numbers("hidden", "hidden size", lambda row: row.hidden_size),
    AtlasColumn("size", "size", lambda row: size_text(row.size), lambda row: row.size, right=True, room=100),
    _names("precision", "target weights", lambda row: row.precision, 130),
    _names("mtp", "MTP head", lambda row: row.mtp.text, 70, lambda row: row.mtp.word),
    _names("annotation", "annotation", _annotation, 110),
    AtlasColumn(
        "decoding",
        "decoding",
        lambda row: ", ".join(row.decoding) or "none",
        choices=lambda row: row.decoding or ["none"],
        room=1,
    ),
    AtlasColumn(
        "memory", "memory", _memory_text, lambda row: row.memory.plain if row.memory is not None else None, right=True
    ),
    AtlasColumn(
        "acceptance", "acceptance", _acceptance_text, lambda row: one.acceptance if (one := row.acceptance) else None
    ),
    AtlasColumn("speed_up", "speed-up", _speed_up_cell, lambda row: one.speed_up if (one := row.speed_up) else None),
    _names("measured", "measured", _measured),
    _names("graft", "graft", _graft),
    _names("lm_head", "lm_head weights", lambda row: row.lm_head_precision),
    _names("mtp_precision", "MTP weights", lambda row: row.mtp_precision),
    AtlasColumn(
        "parts",
        "parts",
        lambda row: ", ".join(_parts(row)),
        lambda row: len(row.parts),
        right=True,
        choices=_parts,
        page=lambda row: str(len(row.parts)),
    ),
)
"""Columns in the order of all tables."""


def totals(rows: Sequence[AtlasRow]) -> tuple[tuple[str, str], ...]:
    """Totals by title; what does not occur is left out."""
    return tuple((title, text) for title, text in _totals(rows) if text)


def _totals(rows: Sequence[AtlasRow]) -> Iterator[tuple[str, str]]:
    roles = Counter(row.role for row in rows)
    named = {f"{noun}{'' if roles[role] == 1 else 's'}": roles[role] for role, noun in _ROLES.items()}
    yield "exports", f"{len(rows):,}: {_counted({**named, 'not readable': roles['']})}" if rows else "none"
    failed = sum(row.error is not None for row in rows)
    yield "failed", f"{failed:,}, each with its reason" if failed else ""
    yield "size", size_text(sum(row.size for row in rows))
    worst = Counter(row.worst for row in rows)
    graded = {f"with {name}s": worst[name] for name in ("error", "warning", "note")}
    yield "worst finding", _counted({**graded, "without findings": worst["ok"]})
    heads = [row.mtp for row in rows]
    yield (
        "MTP heads",
        _counted(
            {
                "declared": sum(bool(head.declared) for head in heads),
                "present": sum(head.present for head in heads),
                "valid": sum(bool(head.valid) for head in heads),
            }
        ),
    )
    targets = [row for row in rows if row.role == "target"]
    present = sum(row.annotation not in ("absent", "") for row in targets)
    located = sum(row.annotation == "present" for row in targets)
    yield "annotated", f"{present:,} of {len(targets):,} targets, {located:,} as located" if targets else ""
    ways = Counter(name for row in rows for name in row.decoding)
    release = next((f" on GenAI {row.target_runtime}" for row in rows if row.target_runtime), "")
    yield f"decoding{release}", _counted({name: ways[name] for name in STRATEGIES})
    yield "grafts", _some(sum(bool(row.graft) for row in rows))
    measured = {
        "acceptance": sum(row.acceptance is not None for row in rows),
        "speed-up": sum(row.speed_up is not None for row in rows),
    }
    yield "measured", _counted(measured) or ("none" if rows else "")


def _some(number: int) -> str:
    return f"{number:,}" if number else ""


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in counts.items() if number)
