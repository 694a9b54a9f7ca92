"""Outcome of ``irtools prove`` or ``irtools bench`` as a file: JSON, Markdown, HTML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from irtools.errors import OptionError
from irtools.model.directory import ModelDirectory
from irtools.prove.evidence import other_file
from irtools.prove.record_changes import WRITERS, RecordChange
from irtools.report.html_page import page
from irtools.report.html_tables import HtmlTable
from irtools.report.json import ModelResult, envelope, to_json
from irtools.report.markdown import escaped, markdown_table
from irtools.report.record_view import RecordView, changes_table

__all__ = ["own_records", "record_html", "record_json", "record_markdown", "record_view"]


def record_view(record: Mapping[str, Any], kind: str, *, plots: bool = True) -> RecordView:
    """Content about a record; ``kind`` is ``proof`` or ``bench``.

    Raises
    ------
    OptionError
        The record is damaged.
    UsageError
        matplotlib, which draws the plots of a benchmark, is not installed.
    """
    from irtools.report.bench_view import bench_view
    from irtools.report.proof_view import proof_view

    try:
        return proof_view(record) if kind == "proof" else bench_view(record, plots=plots)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise OptionError(f"the record of the {WRITERS[kind][1]} is damaged ({error!r}); write it again") from error


def own_records(export: ModelDirectory, records: Mapping[str, Mapping[str, Any]]) -> tuple[RecordView, ...]:
    """Content about records, by kind, that must be about the files of an export.

    Raises
    ------
    OptionError
        A record is about other files, or damaged.
    UsageError
        matplotlib, which draws the plots of a benchmark, is not installed.
    """
    for kind, record in records.items():
        command, title = WRITERS[kind]
        if other := other_file(export, record.get("model")):
            raise OptionError(
                f"the record of the {title} describes other files: {other}; "
                f"run `irtools {command}` on this export again"
            )
    return tuple(record_view(record, kind) for kind, record in records.items())


def record_json(entry: ModelResult, *, command: str, **_: object) -> str:
    """The same JSON as ``--format json``."""
    return to_json(envelope(command, [entry]))


def record_markdown(entry: ModelResult, **_: object) -> str:
    """Write the verdict, the tables and the conditions as Markdown, with a final newline."""
    view = _view(entry, plots=False)
    lines = [f"# {view.title} of {escaped(view.path)}", "", f"**{escaped(view.verdict)}**", ""]
    for table in (*_changes(entry), *view.tables):
        lines += markdown_table(table, 2)
    lines += ["## Conditions", ""]
    for table in view.conditions:
        lines += markdown_table(table, 3)
    return "\n".join(lines).rstrip() + "\n"


def record_html(entry: ModelResult, **_: object) -> str:
    """Write a page that needs no network and no other file; it contains the record as JSON.

    Raises
    ------
    UsageError
        matplotlib, which draws the plots of a benchmark, is not installed.
    """
    view = _view(entry, plots=True)
    return page(
        "record.html",
        scripts=("page.js",),
        styles=("page.css", "record.css"),
        title=f"{view.title} of {view.path}",
        views=[view],
        changes=_changes(entry),
        records={view.kind: entry.details[view.kind]},
    )


def _view(entry: ModelResult, *, plots: bool) -> RecordView:
    kind = next(key for key in WRITERS if key in entry.details)
    return record_view(entry.details[kind], kind, plots=plots)  # type: ignore[arg-type]


def _changes(entry: ModelResult) -> tuple[HtmlTable, ...]:
    found: Any = entry.details.get("changes")
    if found is None:
        return ()
    return (changes_table([RecordChange(**change) for change in found]),)
