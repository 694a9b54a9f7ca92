"""``irtools atlas``: a table of many exports."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from irtools.cli.common import PATH, Ui, output_options, write_stdout
from irtools.cli.defects import defect_text, is_defect
from irtools.cli.many_options import require_directories, root_options
from irtools.cli.sizes import context_option
from irtools.errors import SaveError
from irtools.report.formats import ATLAS, format_of, render
from irtools.report.terminal import Style, folded
from irtools.text import is_url, printable

if TYPE_CHECKING:
    from irtools.cli.many import Many
    from irtools.fleet import Outcome
    from irtools.report.atlas_row import AtlasRow

__all__ = ["command"]


def _checked(ctx: click.Context, param: click.Parameter, value: tuple[Path, ...]) -> tuple[Path, ...]:
    for file in value:
        if format_of(ATLAS, file) == "text":
            known = ", ".join(suffix for form in ATLAS.values() for suffix in form.suffixes)
            raise click.BadParameter(f"{str(file)!r} has none of the suffixes {known}")
    return require_directories(ctx, param, value)


@click.command("atlas")
@root_options
@click.option(
    "-o",
    "--output",
    "outputs",
    metavar="FILE",
    multiple=True,
    type=PATH,
    callback=_checked,
    help="Write a file; can be repeated. The suffix sets the format: .html, .csv, .json or .md.",
)
@click.option("--target-runtime", metavar="VERSION", help="OpenVINO GenAI release to check for.  [default: 2026.4]")
@context_option
@output_options("text", "json", "csv", "markdown")
def command(*, many: Many, outputs: tuple[Path, ...], target_runtime: str | None, context: int | None, ui: Ui) -> int:
    """Chart all exports in and below directories: one row for each, including drafts and exports that fail.

    A row has family, size, layers, MTP head, annotation, precisions, decoding strategies, memory, findings and draft
    head. Measured acceptance and speed-up come from records of prove and bench (`-o FILE.json`) that are in or beside
    the export and are about exactly these files.

    Without -o, a table is printed. Findings do not change the exit code; use verify for that.
    """
    from irtools.report.atlas import AtlasRow, failed_row, remeasured

    rows: list[AtlasRow] = []

    def take(outcome: Outcome) -> None:
        if outcome.row is None:
            rows.append(failed_row(outcome.path, outcome.failure or ""))
            return
        row = AtlasRow.restored(outcome.row)
        rows.append(remeasured(row) if many.resume is not None else row)  # a record can be newer than its export

    work = functools.partial(_row, target_runtime=target_runtime, context=context)
    ended = many.each(ui, work, take, read=AtlasRow.restored, failed=_failed, kept=lambda row: not _failed(row))
    code = ended.code(2 if any(row.error is not None for row in rows) else 0)
    unwritten = False
    for file in outputs:
        try:
            _write(file, rows, code, ui)
        except SaveError as error:  # the rows of many exports are not lost for it
            ui.error(str(error))
            unwritten = True
    if not outputs or ui.format != "text":
        _print(rows, code, ui)
    failures = [(row.path, row.error) for row in rows if row.error is not None]
    ended.tell(ui, failures if outputs else [], len(many.models))
    return 2 if unwritten else code


def _row(_ui: Ui, path: Path, *, target_runtime: str | None, context: int | None) -> dict[str, Any]:
    """The row of one export in plain values."""
    from irtools.report.atlas import atlas_row, failed_row

    try:
        return atlas_row(path, target_runtime=target_runtime, context=context).plain()
    except Exception as error:
        if not is_defect(error):
            raise
        return failed_row(path, defect_text(error, path)).plain()


def _failed(row: dict[str, Any]) -> bool:
    return row["error"] is not None


def _write(file: Path, rows: list[AtlasRow], code: int, ui: Ui) -> None:
    from irtools.ir.output import write_output

    form = ATLAS[format_of(ATLAS, file)]
    text = printable(render(form, rows, style=Style(), exit_code=code), form.escapes, whole=True)
    write_output(
        file, text.encode("utf-8", "backslashreplace"), [Path(row.path) for row in rows if not is_url(row.path)]
    )
    ui.note(f"wrote {file}")


def _print(rows: list[AtlasRow], code: int, ui: Ui) -> None:
    form = ATLAS[ui.format]
    text = render(form, rows, style=ui.style, exit_code=code)
    as_text = ui.format == "text"
    if not (as_text and ui.quiet):
        write_stdout(folded(text, ui.style) if as_text else text, form.escapes, styled=ui.style.colour and as_text)
