"""Record of a proof as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from irtools.prove.steps import FAILED, NOT_APPLICABLE, PASSED, WARNING
from irtools.prove.wording import verdict
from irtools.report.html_tables import HtmlTable, number_columns, text_columns
from irtools.report.record_figures import number_text, value_text
from irtools.report.record_view import Number, RecordView, conditions

__all__ = ["proof_view"]


def proof_view(record: Mapping[str, Any]) -> RecordView:
    """Content of a page or document."""
    statuses = {step["name"]: step["status"] for step in record["steps"]}
    worst = FAILED in statuses.values() or not any(status in (PASSED, WARNING) for status in statuses.values())
    tables = (_steps(record), _checks(record), _acceptance(record))
    return RecordView(
        "proof",
        "Proof",
        record["model"]["path"],
        record.get("date", ""),
        verdict(statuses),
        "error" if worst else "warning" if WARNING in statuses.values() else "ok",
        tuple(table for table in tables if table.rows),
        (),
        conditions(record),
    )


def _steps(record: Mapping[str, Any]) -> HtmlTable:
    columns = (*text_columns("step", "result"), *number_columns("seconds"), *text_columns("why"))
    rows = tuple(
        (
            step["name"],
            step["status"],
            Number(number_text(step["timing"]["seconds"]), step["timing"]["seconds"]),
            step["why"],
        )
        for step in record["steps"]
    )
    return HtmlTable("Steps", columns, rows)


def _checks(record: Mapping[str, Any]) -> HtmlTable:
    rows = tuple(
        (
            step["name"],
            check["name"],
            check["status"],
            _seen(check),
            check["why"],
        )
        for step in record["steps"]
        for check in step["checks"]
        if check["status"] != NOT_APPLICABLE or check["why"] or check["saw"]
    )
    return HtmlTable("Checks", text_columns("step", "check", "result", "what was done and seen", "why"), rows)


def _seen(check: Mapping[str, Any]) -> str:
    return f"{check['did']}: {check['saw']}" if check["saw"] else check["did"]


def _rate(counts: Mapping[str, Any]) -> object:
    rate = counts["acceptance"]
    return Number(value_text(rate, "share"), rate) if rate is not None else "-"


def _acceptance(record: Mapping[str, Any]) -> HtmlTable:
    counts = [
        counts
        for step in record["steps"]
        for check in step["checks"]
        if check["name"] == "acceptance"
        for counts in check["figures"].get("assistant_tokens", ())
    ]
    rows = tuple((one["number"], one["accepted"], one["drafted"], _rate(one), one["passes_saved"]) for one in counts)
    columns = number_columns("drafted at a time", "accepted", "drafted", "acceptance", "passes saved")
    return HtmlTable("Acceptance", columns, rows)
