"""``irtools attach``: put the MTP head of another export beside a target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from irtools.cli.common import PATH, Ui, about_model, model_argument, output_options, run_models
from irtools.cli.next_step import next_step
from irtools.cli.writing import CopiedBytes
from irtools.errors import EditError
from irtools.report.json import ModelResult
from irtools.text import joined, visible

if TYPE_CHECKING:
    from irtools.export import Export
    from irtools.surgery.attach import Attachment

__all__ = ["command"]


@click.command("attach")
@model_argument
@click.option("--mtp-from", metavar="OTHER", type=PATH, help="Export of the same base that has an MTP head.")
@click.option("--remove", is_flag=True, help="Remove an attached head, and restore config.json byte for byte.")
@click.option("--force", is_flag=True, help="Replace another MTP head; with --remove, also one that has changed since.")
@click.option("-o", "--output-dir", metavar="DIR", type=PATH, help="Write a complete export here instead.")
@click.option("--dry-run", is_flag=True, help="Write nothing; exit with 1 if something would change.")
@click.option("--no-check", is_flag=True, help="Do not read the head with OpenVINO and do not apply the rules.")
@output_options()
def command(
    model: Path,
    mtp_from: Path | None,
    remove: bool,
    force: bool,
    output_dir: Path | None,
    dry_run: bool,
    no_check: bool,
    ui: Ui,
) -> int:
    """Put the MTP head of another export of the same base beside the target.

    Use it for a fine-tune that was exported without a head. It first compares the two exports: width, family,
    embeddings, tokenizer, attention, experts, compression. The files of the head are cloned, linked or copied
    unchanged, and config.json declares the head. `irtools prove --steps head` then measures how often the
    head's drafts are right.
    """
    if remove == (mtp_from is not None):
        raise click.UsageError("give either --mtp-from OTHER, an export that has an MTP head, or --remove")

    def work(path: Path) -> ModelResult:
        from irtools.export import open_export

        export = open_export(path)
        try:
            plan = _plan(ui, export, mtp_from, force=force, check=not no_check)
        except EditError as error:
            with about_model(path):
                return ModelResult(str(path), "refused", error.exit_code, str(error))
        return _finish(ui, path, plan, output_dir, dry_run)

    return run_models(ui, "attach", [model], work)


def _plan(ui: Ui, export: Export, mtp_from: Path | None, *, force: bool, check: bool) -> Attachment:
    from irtools.surgery.attach import plan_attachment, plan_removal

    if mtp_from is None:
        return plan_removal(export, force=force)
    from irtools.lint.attached import check_attachment
    from irtools.model.directory import ModelDirectory
    from irtools.runtime.check import warm_up

    if check:
        warm_up()
    with ui.working(f"Comparing {export.path} with {mtp_from}"):
        plan = plan_attachment(export, ModelDirectory.open(mtp_from), force=force)
    if check and plan.changed:
        with ui.working(f"Checking {export.path} with the head"):
            plan = replace(plan, notes=plan.notes + check_attachment(plan))
    return plan


def _finish(ui: Ui, path: Path, plan: Attachment, output_dir: Path | None, dry_run: bool) -> ModelResult:
    from irtools.ir.listing import require_empty
    from irtools.report.attach import attachment_details, attachment_text
    from irtools.surgery.attach import write_attachment

    where = output_dir or plan.path.parent
    status, outcome, step = plan.status, "", ""
    if not plan.changed:
        outcome = f"{where} already has this MTP head" if plan.source is not None else f"{where} has no MTP head"
    if not plan.changed and output_dir is None:
        outcome += "; nothing written"
    elif dry_run:
        if output_dir is not None:
            with about_model(output_dir):
                require_empty(output_dir, plan.path.parent)
        status = "would-write"
        outcome = f"would write {where}"
    else:
        with ui.working(f"Writing {where}") as report:
            copied = CopiedBytes(report)
            plan = write_attachment(plan, output_dir, progress=copied)
        status = plan.status
        done = [f"wrote {joined(plan.written)}"] if plan.written else []
        done += [f"removed {joined(plan.removed)}"] if plan.removed else []
        if output_dir is not None:
            done += [copied.sentence(plan.path.parent, output_dir)]
        outcome = "; ".join(filter(None, done))
        step = next_step("attach", where) if plan.source is not None else ""
    for note in plan.notes:
        ui.note(note)
    parts = (attachment_text(plan, ui.style), visible(outcome))
    text = "\n".join(part for part in parts if part)
    code = int(status == "would-write")
    return ModelResult(str(path), status, code, details=attachment_details(plan), text=text, next_step=step)
