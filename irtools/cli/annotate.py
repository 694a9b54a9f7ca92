"""``irtools annotate``: write the hidden-state annotation."""

from __future__ import annotations

import functools
from pathlib import Path

import click

from irtools.cli.common import Ui, output_options, part_option
from irtools.cli.many import Many
from irtools.cli.many_options import many_options
from irtools.cli.next_step import next_step
from irtools.cli.writing import Writing, finish, writer_options
from irtools.errors import AnnotationDiffersError
from irtools.report.json import ModelResult

__all__ = ["command"]


@click.command("annotate")
@many_options
@writer_options
@click.option("--force", is_flag=True, help="Replace an annotation with different content.")
@click.option("--no-check", is_flag=True, help="Do not check the new file with OpenVINO.")
@part_option
@output_options()
def command(many: Many, writing: Writing, force: bool, no_check: bool, part: str, ui: Ui) -> int:
    """Write the hidden-state annotation.

    Locates the decoder stack of the target, writes the entry hidden_states_decoder_layers, which
    speculative decoding reads, and checks the new file as the runtime would. Nothing else in the
    file changes, and the weights are never touched.
    """
    writing = writing.among(many.models, many.roots)
    work = functools.partial(_annotate, part=part, force=force, no_check=no_check, writing=writing)
    return many.run(ui, "annotate", work)


def _annotate(ui: Ui, path: Path, *, part: str, force: bool, no_check: bool, writing: Writing) -> ModelResult:
    # The check runs during the imports here: it loads OpenVINO, then reads the file.
    checked = not no_check and not writing.dry_run
    if checked:
        from irtools.runtime.check import warm_up

        warm_up()
    from irtools.export import open_export
    from irtools.model.draft import require_target

    export = open_export(path)
    ui.keep(export)
    document = export.part(part)
    if checked:
        warm_up(document.path)
    require_target(document)  # before the stack, which a draft may not have
    from irtools.report.stack import comparison_table, layer_rows, layers_table, summary_line

    with ui.working(f"Locating the decoder stack of {document.path}"):
        stack = export.locate(part)
    located: dict[str, object] = {"layers": layer_rows(stack)}
    summary = summary_line(document.path, stack, ui.style)
    try:
        patch = export.annotate(part, stack=stack, force=force)
    except AnnotationDiffersError as error:
        return ModelResult(
            str(path),
            "differs",
            error.exit_code,
            str(error),
            details={"file": str(document.path), "previous": error.old, "annotation": error.new, **located},
            text=f"{summary}\n{comparison_table(error.old, error.new, ui.style)}",
        )
    return finish(
        ui,
        writing,
        path,
        export,
        patch,
        check=not no_check,
        nothing_to_do=f"{patch.path} already has this annotation",
        heading=f"{summary}\n{layers_table(stack, ui.style)}",
        details={"previous": patch.old, "annotation": patch.new, **located},
        next_step=functools.partial(next_step, "annotate", mtp=export.mtp is not None) if part == "target" else None,
    )
