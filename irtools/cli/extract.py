"""``irtools extract``: extract a piece of an export as a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from irtools.cli.common import PATH, Ui, about_model, model_argument, output_options, part_option, run_models
from irtools.report.json import ModelResult
from irtools.text import joined, plural, visible

if TYPE_CHECKING:
    from irtools.export import Export

__all__ = ["command"]


@click.command("extract")
@model_argument
@click.option("--layers", metavar="LAYERS", help="Layers of the decoder stack: 3, 3-5, 3-, last or all.")
@click.option("--stages", metavar="LAYERS", help="All layers as consecutive pieces, such as 0-11,12-23,24-.")
@click.option("--from", "from_", metavar="OP", multiple=True, help="First op of the piece; can be repeated.")
@click.option("--to", metavar="OP", multiple=True, help="Last op, or OP:1 for its output 1; can be repeated.")
@click.option("-o", "--output-dir", metavar="DIR", type=PATH, required=True, help="Empty or new directory.")
@click.option("--stateless", is_flag=True, help="Replace states with inputs and outputs.")
@click.option("--dry-run", is_flag=True, help="Write nothing, and exit with 1.")
@click.option("--no-check", is_flag=True, help="Do not check the piece with OpenVINO.")
@part_option
@output_options()
def command(
    model: Path,
    output_dir: Path,
    stages: str | None,
    stateless: bool,
    dry_run: bool,
    no_check: bool,
    part: str,
    ui: Ui,
    **choice: Any,
) -> int:
    """Extract a piece of an export as a separate model.

    The result is openvino_model.xml and .bin in DIR, with only the weights that the piece needs. Values that
    flow into the piece become inputs, its results become outputs, and both are equal to the values in the
    whole model. Inputs such as attention_mask stay inputs. With --layers 3- --to logits the piece has the head.

    --stages writes the pieces to DIR/stage-0, DIR/stage-1, ..., the first with the embeddings and the last with the
    head, and DIR/stages.json, which says which output feeds which input. One after the other they are equal to the
    whole model.
    """
    from irtools.surgery.extraction.extract import plan_piece, require_choice, save_piece

    require_choice(**choice, stages=stages)

    def work(path: Path) -> ModelResult:
        from irtools.export import open_export
        from irtools.ir.listing import require_empty
        from irtools.report.extract import piece_details, piece_text
        from irtools.runtime.check import check_piece

        export = open_export(path)
        ui.keep(export)
        document = export.part(part)
        if stages is not None:
            return _stages(
                ui, export, path, part, output_dir, stages, stateless=stateless, dry_run=dry_run, check=not no_check
            )
        with ui.working(f"Cutting a piece out of {document.path}"):
            plan = plan_piece(document, lambda: export.locate(part), stateless=stateless, **choice)
        written: list[str] = []
        if dry_run:
            with about_model(output_dir):
                require_empty(output_dir, document.path.parent, in_place=False)
            outcome = f"would write {output_dir}"
        else:
            with ui.working(f"Writing {output_dir}") as report:
                piece = save_piece(document, plan, output_dir, check=None if no_check else check_piece, progress=report)
            plan = replace(plan, notes=piece.notes)
            written = [str(piece.path), str(piece.weights_path)]
            outcome = f"wrote {joined(written)}"
        for note in plan.notes:
            ui.note(note)
        details = {**piece_details(document.path, plan), "written": written}
        text = f"{piece_text(document.path, plan, ui.style)}\n{visible(outcome)}"
        return ModelResult(str(path), "would-write" if dry_run else "written", int(dry_run), details=details, text=text)

    return run_models(ui, "extract", [model], work)


def _stages(
    ui: Ui,
    export: Export,
    path: Path,
    part: str,
    output_dir: Path,
    stages: str,
    *,
    stateless: bool,
    dry_run: bool,
    check: bool,
) -> ModelResult:
    from irtools.ir.listing import require_empty
    from irtools.report.extract import manifest, stages_details, stages_text
    from irtools.runtime.check import check_piece
    from irtools.surgery.extraction.extract import MANIFEST, plan_stages, save_stages

    document = export.part(part)
    with ui.working(f"Cutting {document.path} into stages"):
        planned = plan_stages(document, lambda: export.locate(part), stages, stateless=stateless)
    written: list[str] = []
    notes = [f"stage {number}: {note}" for number, stage in enumerate(planned) for note in stage.plan.notes]
    if dry_run:
        with about_model(output_dir):
            require_empty(output_dir, document.path.parent, in_place=False)
        outcome = f"would write {output_dir}"
    else:
        data = manifest(document.path, planned)
        with ui.working(f"Writing {output_dir}") as report:
            pieces = save_stages(
                document, planned, output_dir, manifest=data, check=check_piece if check else None, progress=report
            )
        notes = [f"stage {number}: {note}" for number, piece in enumerate(pieces) for note in piece.notes]
        written = [str(one) for piece in pieces for one in (piece.path, piece.weights_path)]
        written.append(str(output_dir / MANIFEST))
        outcome = f"wrote {output_dir / MANIFEST} and {plural(len(pieces), 'directory')} with a model each"
    for note in notes:
        ui.note(note)
    details = {**stages_details(document.path, planned), "written": written, "notes": notes}
    text = f"{stages_text(document.path, planned, ui.style)}\n{visible(outcome)}"
    return ModelResult(str(path), "would-write" if dry_run else "written", int(dry_run), details=details, text=text)
