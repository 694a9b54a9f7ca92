"""``irtools render``: draw an export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from irtools.cli.common import PATH, Ui, attempt, model_argument, output_options
from irtools.cli.report import tell, write_page
from irtools.cli.sizes import Layer
from irtools.report.json import ModelResult

__all__ = ["command"]


@click.command("render")
@model_argument
@click.option(
    "-o", "--output", metavar="FILE", type=PATH, required=True, help="A .svg, .png, .pdf, .dot or .html file."
)
@click.option("--part", metavar="PART", default="target", help="Part to draw: target, mtp, or a file stem.")
@click.option("--layer", type=Layer(), help="One decoder layer, op by op: its number, or last.")
@click.option("--around", metavar="OP", help="An op (friendly name, part of it, or id) and its neighbours.")
@click.option("--radius", metavar="R", type=click.IntRange(0), help="Number of steps around the op.  [default: 2]")
@click.option("--between", metavar="A B", nargs=2, help="The ops between two ops.")
@click.option("--pair", is_flag=True, help="Target and MTP head, connected as in the runtime.")
@click.option("--full", is_flag=True, help="Every op.")
@click.option(
    "--max-nodes", metavar="N", type=click.IntRange(1), help="Maximum number of ops.  [default: 500, PNG 300]"
)
@output_options()
def command(model: Path, output: Path, part: str, max_nodes: int | None, ui: Ui, **view: Any) -> int:
    """Draw an export the way a person would on a whiteboard, or draw a section op by op.

    Equal layers are collapsed, and each kind of layer is expanded once. Drawing ends within 5 seconds;
    stderr and the picture list the omitted details. A .html file is the page of irtools report, with a
    picture that expands down to each op.
    """
    from irtools.render.pictures import format_of, request_for

    form = format_of(output, "html")
    request = request_for(form, part=part, max_nodes=max_nodes, **view)
    layer, around = view.pop("layer"), view.pop("around")
    if form == "html" and (
        max_nodes is not None or any(value is not None and value is not False for value in view.values())
    ):
        raise click.UsageError("a .html page has every op; of these options, it takes only --layer and --around")

    def work(path: Path) -> ModelResult:
        if form == "html":
            return _page(path, output, part, layer, around, ui)
        from irtools.export import open_export
        from irtools.ir.output import write_output
        from irtools.render.drawing import render

        with ui.working(f"Drawing {path}"):
            export = open_export(path)
            ui.keep(export)
            drawing = render(export, request, form)
        write_output(output, drawing.data, [export.directory])
        for sentence in drawing.picture.omitted:
            ui.note(f"omitted: {sentence}")
        if max_nodes is not None and len(drawing.picture.boxes) > max_nodes and not request.limited:
            ui.note("--max-nodes has no effect without --full, --layer, --around or --between")
        details = {
            "output": str(output),
            "format": form,
            "bytes": len(drawing.data),
            "boxes": len(drawing.picture.boxes),
            "omitted": list(drawing.picture.omitted),
        }
        return ModelResult(str(path), "written", details=details)

    return tell("render", attempt(model, work), output, ui)


def _page(path: Path, output: Path, part: str, layer: int | None, around: str | None, ui: Ui) -> ModelResult:
    from irtools.export import open_export
    from irtools.graph.find import find_op
    from irtools.lint.session import VerifyCall
    from irtools.render.part import shown_part
    from irtools.report.html import View

    op = ""
    if around is not None:
        view = shown_part(open_export(path), part).graph
        op = view.op_name(find_op(view, around))
    return write_page(path, output, VerifyCall(), View(part, op=op, layer=layer), ui)
