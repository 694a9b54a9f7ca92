"""``irtools inspect``: show the contents of an export."""

from __future__ import annotations

from pathlib import Path

import click

from irtools.cli.common import Ui, models_argument, output_options, part_option, run_models
from irtools.report.json import ModelResult

__all__ = ["command"]


@click.command("inspect")
@models_argument
@part_option
@click.option(
    "--context", metavar="N", type=click.IntRange(1), default=4096, show_default=True, help="Tokens in the KV cache."
)
@click.option("--batch", metavar="B", type=click.IntRange(1), default=1, show_default=True, help="Sequences.")
@output_options()
def command(models: tuple[Path, ...], part: str, context: int, batch: int, ui: Ui) -> int:
    """Show parts, layers, ports, states, weights, decoding strategies and memory on one screen."""

    def work(path: Path) -> ModelResult:
        from irtools.export import open_export
        from irtools.report.inspect import inspection_text

        with ui.working(f"Inspecting {path}"):
            inspection = open_export(path).inspect(part, context=context, batch=batch)
            if ui.format == "json":
                return ModelResult(str(path), "ok", details=inspection.details())
            return ModelResult(str(path), "ok", text=inspection_text(inspection, ui.style))

    return run_models(ui, "inspect", models, work)
