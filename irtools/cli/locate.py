"""``irtools locate``: show the decoder stack of an IR."""

from __future__ import annotations

import functools
from pathlib import Path

import click

from irtools.cli.common import Ui, output_options, part_option
from irtools.cli.many import Many
from irtools.cli.many_options import many_options
from irtools.report.json import ModelResult

__all__ = ["command"]


@click.command("locate")
@many_options
@part_option
@click.option("--explain", is_flag=True, help="Give the reason why each other candidate was rejected.")
@output_options()
def command(many: Many, part: str, explain: bool, ui: Ui) -> int:
    """Show the decoder stack; write nothing.

    The result has the hidden state and the contents of each layer, and the evidence of each witness: the
    residual stream, dominators, names, states and config.json.
    """
    return many.run(ui, "locate", functools.partial(_locate, part=part, explain=explain))


def _locate(ui: Ui, path: Path, *, part: str, explain: bool) -> ModelResult:
    from irtools.export import open_export
    from irtools.report.stack import stack_details, stack_text

    export = open_export(path)
    ui.keep(export)
    document = export.part(part)
    with ui.working(f"Locating the decoder stack of {document.path}"):
        stack = export.locate(part)
    return ModelResult(
        str(path),
        "ok",
        details=stack_details(document.path, document.graph, stack, explain=explain),
        text=stack_text(document.path, document.graph, stack, ui.style, explain=explain),
    )
