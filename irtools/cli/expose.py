"""``irtools expose``: add hidden states as outputs of the model."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import click

from irtools.cli.common import Ui, output_options, part_option
from irtools.cli.many import Many
from irtools.cli.many_options import many_options
from irtools.cli.writing import Writing, finish, writer_options
from irtools.report.json import ModelResult

__all__ = ["command"]


@click.command("expose")
@many_options
@click.option("--layers", metavar="LAYERS", help="Layers: numbers and ranges such as 1,3-5, or all, or last.")
@click.option("--concat", metavar="NAME", help="One output that concatenates the layers in the given order.")
@click.option(
    "--name",
    "names",
    metavar="NAMES",
    help="One name per layer, separated by commas, or one name with {layer}.  [default: hidden_states.{layer}]",
)
@click.option("--remove", is_flag=True, help="Remove the added outputs, or only those of --layers, --concat or --name.")
@writer_options
@click.option("--no-check", is_flag=True, help="Do not check the new file with OpenVINO.")
@part_option
@output_options()
def command(
    many: Many,
    writing: Writing,
    ui: Ui,
    **options: Any,
) -> int:
    """Add hidden states as outputs of the model, for runtimes that do not read the annotation.

    Each layer gets an output hidden_states.<layer>. With --concat all layers share one output, and separate outputs
    need --name too. New outputs follow the existing ones, and GenAI ignores them. Only the last layer's output may be
    named last_hidden_state, because GenAI takes this output for the input of lm_head. --remove restores the original
    file and never removes an output that this command did not add.
    """
    if options["layers"] is None and not options["remove"]:
        raise click.UsageError("--layers is missing: give numbers such as 1,8,15, or all, or last")
    writing = writing.among(many.models, many.roots)
    return many.run(ui, "expose", functools.partial(_expose, writing=writing, **options))


def _expose(
    ui: Ui,
    path: Path,
    *,
    layers: str | None,
    concat: str | None,
    names: str | None,
    remove: bool,
    no_check: bool,
    part: str,
    writing: Writing,
) -> ModelResult:
    from irtools.export import open_export

    export = open_export(path)
    ui.keep(export)
    document = export.part(part)
    if not no_check and not writing.dry_run:
        from irtools.runtime.check import warm_up

        warm_up()
    with ui.working(f"{'Looking through' if remove else 'Locating the decoder stack of'} {document.path}"):
        from irtools.report.exposure import exposure_rows, exposure_text

        with export.edit(part) as editor:
            if remove:
                outputs = editor.conceal(layers, names=names, concat=concat)
            else:
                outputs = editor.expose(layers or "", names=names, concat=concat)
    patch = editor.patch
    assert patch is not None, "the edit block sets it"
    return finish(
        ui,
        writing,
        path,
        export,
        patch,
        check=not no_check,
        nothing_to_do=f"{patch.path} {'has no such outputs' if remove else 'already has these outputs'}",
        heading=exposure_text(document.path, outputs, ui.style, removed=remove),
        details={"removed" if remove else "outputs": exposure_rows(outputs)},
    )
