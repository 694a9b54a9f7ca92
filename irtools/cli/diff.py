"""``irtools diff``: compare two exports."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from irtools.cli.common import EXPORT, PATH, Ui, attempt, output_options, print_error
from irtools.report.formats import DIFF, format_of, render, suffixes_text
from irtools.report.json import ModelResult, envelope, to_json
from irtools.report.terminal import Style
from irtools.text import printable

__all__ = ["command"]


def _words(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word.strip() for value in values for word in value.split(",") if word.strip())


_OUTPUT = f"Output file. Format by suffix: {suffixes_text(DIFF)}."


@click.command("diff")
@click.argument("a", metavar="A", type=EXPORT)
@click.argument("b", metavar="B", type=EXPORT)
@click.option("--part", metavar="PART", help="Only this part: target, mtp, or a file stem.")
@click.option("--ignore", metavar="WORDS", multiple=True, callback=_words, help="Aspects to ignore, comma-separated.")
@click.option("--output", "-o", metavar="FILE", type=PATH, help=_OUTPUT)
@output_options(*DIFF)
def command(a: Path, b: Path, part: str | None, ignore: tuple[str, ...], output: Path | None, ui: Ui) -> int:
    """Show what changed between two exports, or two IRs.

    Ops are paired by structure, layer by layer. Different names, ids and orders in the files are
    summarised in one line. --ignore takes: parts, ports, states, structure, shapes, weights (with values),
    values, annotation, rt_info, versions, names, config, files.

    Exit codes: 0 equal, 1 different, 2 a part could not be compared.
    """

    def work(path: Path) -> ModelResult:
        from irtools.export import diff
        from irtools.ir.output import write_output
        from irtools.model.directory import ModelDirectory
        from irtools.report.compare import comparison_result

        with ui.working(f"Comparing {path} with {b}"):
            comparison = diff(path, b, part=part, ignore=ignore)
        ui.keep(comparison)
        text = render(DIFF[form], comparison, style=ui.style if output is None else Style())
        if output is not None:
            sides = [ModelDirectory(side).directory for side in (path, b)]
            write_output(output, printable(text, DIFF[form].escapes).encode("utf-8", "backslashreplace"), sides)
        return comparison_result(comparison, text)

    form = _format(ui, output)
    entry = attempt(a, work)
    if entry.error is not None:
        print_error(entry.error)
    if output is not None and entry.text:
        ui.note(f"wrote {output}")
    elif form == "json":
        ui.result(entry.text.rstrip("\n") or to_json(envelope("diff", [entry])).rstrip("\n"), "json")
    elif form == "html" or not ui.quiet:
        ui.result(entry.text.rstrip("\n"), DIFF[form].escapes)
    return entry.exit_code


def _format(ui: Ui, output: Path | None) -> str:
    """The format of --format, else that of the suffix of the output."""
    explicit = click.get_current_context().get_parameter_source("format_") is not ParameterSource.DEFAULT
    return ui.format if explicit or output is None else format_of(DIFF, output)
