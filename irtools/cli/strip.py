"""``irtools strip``: remove the hidden-state annotation."""

from __future__ import annotations

from pathlib import Path

import click

from irtools.cli.common import Ui, models_argument, output_options, part_option, run_models
from irtools.cli.writing import Writing, finish, writer_options
from irtools.report.json import ModelResult

__all__ = ["command"]


@click.command("strip")
@models_argument
@writer_options
@part_option
@output_options()
def command(models: tuple[Path, ...], part: str, writing: Writing, ui: Ui) -> int:
    """Remove the hidden-state annotation; after annotate this restores the original file."""
    destinations = writing.destinations(models)

    def work(path: Path) -> ModelResult:
        from irtools.export import open_export

        export = open_export(path)
        patch = export.strip(part)
        details = {"previous": patch.old, "annotation": patch.new}
        unchanged = f"{patch.path} has no annotation"
        where = destinations[path]
        return finish(ui, writing, path, export, patch, where, check=False, nothing_to_do=unchanged, details=details)

    return run_models(ui, "strip", models, work)
