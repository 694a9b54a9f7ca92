"""Record of a benchmark as tables and plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from irtools.report.bench import row_notes, verdict_reason
from irtools.report.html_tables import HtmlTable, number_columns, text_columns
from irtools.report.plots import bench_plots
from irtools.report.record_figures import break_even_text, figure_text, value_text
from irtools.report.record_view import Number, RecordView, conditions

__all__ = ["bench_view"]

_FIGURES = {
    "speed_up": "speed-up",
    "tokens_per_second": "tokens/s",
    "time_per_token": "time per token",
    "prompt_tokens_per_second": "prompt tokens/s",
    "first_token": "time to first token",
    "acceptance": "acceptance",
    "tokens_per_pass": "tokens per pass",
    "draft_share": "share of the draft",
    "peak_memory": "peak memory",
    "cpu": "CPU cores",
    "load": "loading",
    "warm_up": "warm-up",
}
_GRADES = {"on": "ok", "off": "ok", "undecided": "warning"}


def bench_view(record: Mapping[str, Any], *, plots: bool = True) -> RecordView:
    """Content of a page, or without ``plots`` of a document.

    Raises
    ------
    UsageError
        matplotlib is not installed.
    """
    path = record["model"]["path"]
    tables = (_rows(record), _positions(record["rows"]), _classes(record), _policy(record["policy"], path))
    decision = record["recommendation"]["decision"]
    return RecordView(
        "bench",
        "Benchmark",
        path,
        record["date"],
        f"{decision}: {verdict_reason(record)}",
        _GRADES[decision],
        tuple(table for table in tables if table.rows),
        bench_plots(record) if plots else (),
        conditions(record),
    )


def _rows(record: Mapping[str, Any]) -> HtmlTable:
    rows = record["rows"]
    shown = {key: title for key, title in _FIGURES.items() if any(row["figures"].get(key) for row in rows)}
    columns = (*text_columns("row", "result"), *number_columns(*shown.values(), "breaks even at"))
    made = tuple(
        (row["name"], _result(row), *(_cell(row["figures"].get(key)) for key in shown), _break_even(row["break_even"]))
        for row in rows
    )
    notes = [f"{row['name']}: {row['message']}" for row in rows if row["message"]]
    notes += row_notes(record)
    notes.append("Median over the repetitions, with the interval of 95 % confidence in parentheses.")
    return HtmlTable("Rows", columns, made, tuple(notes))


def _result(row: Mapping[str, Any]) -> str:
    """What became of a row, or the decision about it; plain decoding has none."""
    return row["status"] if row["status"] != "ran" else row["decision"] or ""


def _cell(figure: Mapping[str, Any] | None) -> object:
    return Number(figure_text(figure), figure["median"]) if figure is not None else "-"


def _break_even(value: float | None) -> str:
    return break_even_text(value, lambda rate: value_text(rate, "share")) or "-"


def _positions(rows: Sequence[Mapping[str, Any]]) -> HtmlTable:
    drafting = [row for row in rows if row["acceptance_by_position"]]
    most = max((len(row["acceptance_by_position"]) for row in drafting), default=0)
    columns = (*text_columns("row"), *number_columns(*(f"position {place}" for place in range(1, most + 1))))
    made = tuple(
        (row["name"], *map(_cell, row["acceptance_by_position"]), *["-"] * (most - len(row["acceptance_by_position"])))
        for row in drafting
    )
    return HtmlTable("Acceptance by position", columns, made)


def _classes(record: Mapping[str, Any]) -> HtmlTable:
    columns = (
        *text_columns("class"),
        *number_columns("prompts", "acceptance", "speed-up", "breaks even at"),
        *text_columns("fastest row", "decision"),
    )
    made = tuple(
        (
            one["class"],
            len(one["prompts"]),
            _cell(one["acceptance"]),
            _cell(one["speed_up"]),
            _break_even(one["break_even"]),
            one["recommendation"]["row"],
            one["decision"],
        )
        for one in record["classes"]
    )
    return HtmlTable("Workload classes", columns, made)


def _draft(draft: str | None, path: str) -> str:
    if draft is None or draft.endswith(f" of {path}"):  # how a temporary copy is made
        return draft or "-"
    return "MTP head of the export" if draft == path else Path(draft).name


def _policy(policy: Mapping[str, Any], path: str) -> HtmlTable:
    columns = (*text_columns("class", "drafting"), *number_columns("drafted at a time"), *text_columns("draft"))
    rules = {**policy["classes"], "any other": policy["default"]}
    made = tuple(
        (name, rule["decision"], rule["assistant_tokens"] or "-", _draft(rule["draft"], path))
        for name, rule in rules.items()
    )
    return HtmlTable("Policy", columns, made, ("A class whose figures are undecided is off.",))
