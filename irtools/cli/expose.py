"""``irtools expose``: make hidden states outputs of the model."""

from __future__ import annotations

from pathlib import Path

import click

from irtools.cli.common import Ui, models_argument, output_options, part_option, run_models
from irtools.cli.writing import Job, Writing, finish, writer_options
from irtools.report.json import Entry

__all__ = ["command"]


@click.command("expose")
@models_argument
@click.option("--layers", metavar="LAYERS", help="Which: 1,8,15, also with ranges such as 3-5; all; or last.")
@click.option("--concat", metavar="NAME", help="One output with all of them side by side, in the order given.")
@click.option(
    "--name",
    "names",
    metavar="NAMES",
    help="One name per layer, with commas between them, or one with {layer} in it.  [default: hidden_states.{layer}]",
)
@click.option(
    "--remove", is_flag=True, help="Take such outputs away: all of them, or what the options above had added."
)
@writer_options
@click.option("--no-check", is_flag=True, help="Do not let OpenVINO read the new file before it takes its place.")
@part_option
@output_options()
def command(
    models: tuple[Path, ...],
    layers: str | None,
    concat: str | None,
    names: str | None,
    remove: bool,
    writing: Writing,
    no_check: bool,
    part: str,
    ui: Ui,
) -> int:
    """Make hidden states outputs of the model, for runtimes that read no annotation.

    Each layer gives an output hidden_states.<layer>; with --concat there is one output for all of them, and the
    single ones only if --name is given too. They come behind the outputs that are there; GenAI takes no notice of
    them. Only the last layer's may be named last_hidden_state, since GenAI takes that for what the head reads. --remove
    gives the file back as it was, and never takes away an output that was not added by this command.
    """
    if layers is None and not remove:
        raise click.UsageError("say which layers: --layers 1,8,15, or all, or last")
    destinations = writing.destinations(models)

    def work(path: Path) -> Entry:
        from irtools.export import open_export

        export = open_export(path)
        document = export.part(part)
        if not no_check and not writing.dry_run:
            from irtools.runtime.check import warm_up

            warm_up()
        with ui.working(f"{'Looking through' if remove else 'Locating the decoder stack of'} {document.path}"):
            from irtools.report.exposure import exposure_rows, exposure_text

            with export.edit(part) as editor:
                if remove:
                    found = editor.conceal(layers, names=names, concat=concat)
                else:
                    found = editor.expose(layers or "", names=names, concat=concat)
        patch = editor.patch
        assert patch is not None, "the block has ended"
        return finish(
            ui,
            Job(path, export, patch, destinations[path], check=not no_check),
            writing,
            nothing_to_do=f"{patch.path} has {'no such outputs' if remove else 'these outputs already'}",
            heading=exposure_text(document.path, found, ui.style),
            details={"removed" if remove else "outputs": exposure_rows(found)},
        )

    return run_models(ui, "expose", models, work)
