"""``irtools report``: write an HTML page about an export."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from irtools.cli.common import (
    EXPORT,
    PATH,
    Ui,
    attempt,
    model_argument,
    output_options,
    part_option,
    print_error,
    write_stdout,
)
from irtools.cli.sizes import batch_option, context_option
from irtools.report.json import ModelResult, envelope, to_json
from irtools.text import visible

if TYPE_CHECKING:
    from irtools.lint.session import VerifyCall
    from irtools.report.html import View

__all__ = ["command", "tell", "write_page"]

_SUFFIXES = (".html", ".htm")


@click.command("report")
@model_argument
@click.option("-o", "--output", metavar="FILE", type=PATH, required=True, help="Output file: .html.")
@part_option
@click.option("--expect-mtp/--no-mtp", default=None, help="Require or exclude an MTP head.")
@click.option("--draft", metavar="DIR", type=EXPORT, help="Draft to check with the export; its memory counts.")
@click.option("--target-runtime", metavar="VERSION", help="OpenVINO GenAI release to check for.  [default: 2026.4]")
@context_option
@batch_option
@click.option("--proof", metavar="FILE", type=PATH, help="Show this record of `irtools prove -o FILE.json`.")
@click.option("--bench", metavar="FILE", type=PATH, help="Show this record of `irtools bench -o FILE.json`.")
@output_options()
def command(
    model: Path,
    output: Path,
    part: str,
    context: int | None,
    batch: int,
    proof: Path | None,
    bench: Path | None,
    ui: Ui,
    **options: Any,
) -> int:
    """Write one page with findings, tables, provenance and a picture that expands down to each op.

    A proof and a benchmark are shown if their records are about the files of this export, and refused otherwise.

    The page needs no network and no other file. Findings do not change the exit code; use verify for that.
    """
    if output.suffix.lower() not in _SUFFIXES:
        raise click.UsageError(f"-o {output}: the report is an HTML page; use the suffix .html")

    def work(path: Path) -> ModelResult:
        from irtools.lint.session import VerifyCall
        from irtools.report.html import View

        records = read_records(proof, bench)
        view = View(part, context, batch, records=records, draft=options["draft"])
        return write_page(path, output, VerifyCall(**options), view, ui)

    return tell("report", attempt(model, work), output, ui)


def read_records(proof: Path | None, bench: Path | None) -> dict[str, Mapping[str, Any]]:
    """Records of files by their kind."""
    from irtools.prove.record_changes import read_record

    given = {"proof": proof, "bench": bench}
    return {kind: read_record(file, kind) for kind, file in given.items() if file is not None}


def tell(command: str, entry: ModelResult, output: Path, ui: Ui) -> int:
    """Print the outcome of writing a file and return the exit code; also for ``irtools render``."""
    if entry.error is not None:
        print_error(entry.error)
    elif ui.format == "text" and not ui.quiet and not _is_stdout(output):
        ui.result(f"wrote {visible(str(output))}")
    if ui.format == "json":
        write_stdout(to_json(envelope(command, [entry])), "json")
    return entry.exit_code


def _is_stdout(path: Path) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError, AttributeError):  # stdout is missing or has no file descriptor
        return False


def write_page(path: Path, output: Path, call: VerifyCall, view: View, ui: Ui) -> ModelResult:
    """Verify an export and write its page; also for ``irtools render -o x.html``."""
    from irtools.ir.output import write_output
    from irtools.lint.session import verify_model
    from irtools.report.html import render_report

    with ui.working(f"Reporting on {path}"):
        verified = verify_model(path, call)
        verification = verified.verification
        if verification is None:
            return ModelResult(str(path), "failed", 2, verified.error)
        ui.keep(verified)
        data = render_report(verification.export, verified, view).encode()
        write_output(output, data, [verification.export.directory])
    for note in (*verified.config_notes, *verified.notes):
        ui.note(note)
    counts = {f"{severity}s": number for severity, number in verification.counts.items()}
    details = {"output": str(output), "format": "html", "bytes": len(data), **counts}
    return ModelResult(str(path), "written", details=details)
