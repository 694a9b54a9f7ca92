"""``irtools rt-info``: show, set and remove entries of the model-level rt_info."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from irtools.cli.common import EXPORT, Ui, output_options, part_option, run_models
from irtools.cli.writing import Writing, finish, writer_options
from irtools.report.json import ModelResult
from irtools.text import listed

__all__ = ["command"]

_model = click.argument("model", metavar="MODEL_DIR", type=EXPORT)
_no_check = click.option("--no-check", is_flag=True, help="Do not check the new file with OpenVINO.")


@click.group("rt-info")
def command() -> None:
    """Show, set or remove rt_info entries: metadata and hints that the runtime reads from an IR.

    KEY is a key such as Runtime_version, or a path such as runtime_options/KV_CACHE_PRECISION.
    """


@command.command("show")
@_model
@click.argument("keys", metavar="[KEY]...", nargs=-1)
@click.option("--full", is_flag=True, help="Print long values in full.")
@part_option
@output_options()
def show(model: Path, keys: tuple[str, ...], full: bool, part: str, ui: Ui) -> int:
    """Show all entries, or those of some keys and groups. JSON has all values in full."""

    def work(path: Path) -> ModelResult:
        from irtools.export import open_export
        from irtools.report.rt_info import chosen, entries_details, entries_text

        document = open_export(path).part(part)
        entries = chosen(document, keys)
        details = {"file": str(document.path), "entries": entries_details(entries)}
        text = entries_text(entries, ui.style, full=full)
        return ModelResult(str(path), "ok", details=details, text=text, exact=full)

    return run_models(ui, "rt-info show", [model], work)


@command.command("set")
@_model
@click.argument("entries", metavar="KEY=VALUE...", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Replace a group of entries by a value, or a value by a group.")
@writer_options
@_no_check
@part_option
@output_options()
def set_(
    model: Path, entries: tuple[str, ...], force: bool, writing: Writing, no_check: bool, part: str, ui: Ui
) -> int:
    """Set entries, all or none; missing groups are added, and no other byte of the file changes.

    To undo this byte for byte, remove a new entry, or set the old value again; the output has the command.
    """
    values: dict[str, str | None] = {}
    for entry in entries:
        key, equals, value = entry.partition("=")
        if not (key and equals):
            raise click.UsageError(f"{entry!r} is not KEY=VALUE")
        if key in values:
            raise click.UsageError(f"{key!r} is given twice")
        values[key] = value
    if "=" in str(model) and not model.exists():
        raise click.UsageError(f"give MODEL_DIR before {str(model)!r}: . stands for the current directory")
    return _change(model, "rt-info set", values, writing, ui, part, force=force, check=not no_check)


@command.command("remove")
@_model
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@writer_options
@_no_check
@part_option
@output_options()
def remove(model: Path, keys: tuple[str, ...], writing: Writing, no_check: bool, part: str, ui: Ui) -> int:
    """Remove entries, or whole groups. After new entries were set, this restores the file byte for byte.

    To undo this, set the entries again; the output has the command.
    """
    return _change(model, "rt-info remove", dict.fromkeys(keys), writing, ui, part, check=not no_check)


def _change(
    model: Path,
    name: str,
    values: Mapping[str, str | None],
    writing: Writing,
    ui: Ui,
    part: str,
    *,
    check: bool,
    force: bool = False,
) -> int:
    def work(path: Path) -> ModelResult:
        from irtools.export import open_export
        from irtools.report.rt_info import change_details, changes_text

        export = open_export(path)
        document = export.part(part)
        with export.edit(part) as editor:
            for key, value in values.items():
                editor.set_rt_info(key, value, force=force)
        patch = editor.patch
        assert patch is not None, "the edit block sets it"
        details = change_details(document, patch, values, path, part)
        state = "has no entry" if None in values.values() else "already has this value for"
        return finish(
            ui,
            writing,
            path,
            export,
            patch,
            check=check,
            nothing_to_do=f"{patch.path} {state} {listed(list(values), separator=', ')}",
            heading=changes_text(details, undo=writing.output_dir is None and patch.changed),
            details=details,
        )

    return run_models(ui, name, [model], work)
