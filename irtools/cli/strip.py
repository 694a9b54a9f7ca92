"""``irtools strip``: remove the hidden-state annotation."""

from __future__ import annotations

import functools
from pathlib import Path

import click

from irtools.cli.common import Ui, output_options, part_option
from irtools.cli.many import Many
from irtools.cli.many_options import many_options
from irtools.cli.writing import Writing, finish, writer_options
from irtools.report.json import ModelResult

__all__ = ["command"]


@click.command("strip")
@many_options
@writer_options
@part_option
@output_options()
def command(many: Many, part: str, writing: Writing, ui: Ui) -> int:
    """Remove the hidden-state annotation; after annotate this restores the original file."""
    writing = writing.among(many.models, many.roots)
    return many.run(ui, "strip", functools.partial(_strip, part=part, writing=writing))


def _strip(ui: Ui, path: Path, *, part: str, writing: Writing) -> ModelResult:
    from irtools.export import open_export

    export = open_export(path)
    patch = export.strip(part)
    details = {"previous": patch.old, "annotation": patch.new}
    unchanged = f"{patch.path} has no annotation"
    return finish(ui, writing, path, export, patch, check=False, nothing_to_do=unchanged, details=details)
