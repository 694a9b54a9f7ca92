"""What the commands that change an export share: options, destinations, the last step."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from irtools.cli.common import PATH, Ui, about_model
from irtools.errors import UsageError
from irtools.ir.listing import real_path, require_empty
from irtools.report.json import Entry
from irtools.text import visible

if TYPE_CHECKING:
    from irtools.export import Export
    from irtools.surgery.patch import Patch

__all__ = ["Job", "Writing", "finish", "writer_options"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Writing:
    """How the results are to be written.

    Attributes
    ----------
    output_dir : Path or None
        None: in place.
    dry_run : bool
    diff : bool
        Print the unified diff; implies ``dry_run``.
    """

    output_dir: Path | None = None
    dry_run: bool = False
    diff: bool = False

    def destinations(self, models: Sequence[Path]) -> Mapping[Path, Path | None]:
        """Where each export goes: nowhere else, the output directory, or a subfolder of it.

        Raises
        ------
        UsageError
            Two exports would go to the same place.
        """
        if self.output_dir is None:
            return dict.fromkeys(models)
        if len(models) == 1:
            return {models[0]: self.output_dir}
        found: dict[Path, Path | None] = {}
        taken: dict[str, Path] = {}
        for model in models:
            directory = real_path(model)
            name = directory.parent.name if directory.suffix == ".xml" and not directory.is_dir() else directory.name
            if name in taken:
                raise UsageError(
                    f"{taken[name]} and {model} would both be written to {self.output_dir / name}; "
                    "give them different output directories"
                )
            taken[name] = model
            found[model] = self.output_dir / name
        return found


@dataclass(frozen=True, slots=True)
class Job:
    """A change to one export that has been worked out.

    Attributes
    ----------
    model : Path
        As the user gave it.
    export : Export
        Holds the change.
    patch : Patch
        The change.
    destination : Path or None
        Of a complete export; None to write in place.
    check : bool
        Whether the new file is checked before it takes its place.
    """

    model: Path
    export: Export
    patch: Patch
    destination: Path | None
    check: bool


def writer_options(function: F) -> F:
    """Add ``--output-dir``, ``--dry-run`` and ``--diff``; the function gets them as ``writing``."""

    @click.option(
        "--output-dir",
        metavar="DIR",
        type=PATH,
        help="Write a complete export here instead of changing it in place; several get a subfolder each.",
    )
    @click.option("--dry-run", is_flag=True, help="Write nothing; exit code 1 if something would change.")
    @click.option("--diff", is_flag=True, help="Print the change as a unified diff; writes nothing.")
    @functools.wraps(function)
    def wrapper(*args: Any, output_dir: Path | None, dry_run: bool, diff: bool, **kwargs: Any) -> Any:
        return function(*args, writing=Writing(output_dir, dry_run or diff, diff), **kwargs)

    return wrapper  # type: ignore[return-value]


def finish(
    ui: Ui,
    job: Job,
    writing: Writing,
    *,
    nothing_to_do: str,
    heading: str = "",
    details: Mapping[str, object],
) -> Entry:
    """Write what was worked out, or say what would be written.

    Parameters
    ----------
    ui : Ui
    job : Job
    writing : Writing
    nothing_to_do : str
        What to say of a file that stays as it is, without full stop.
    heading : str
        Text that goes first.
    details : mapping
        The command's own keys.

    Returns
    -------
    Entry
    """
    patch = job.patch
    files: list[str] = []
    notes = list(patch.notes)
    if not patch.changed and job.destination is None:
        status, outcome = "unchanged", f"{nothing_to_do}; nothing written"
    elif writing.dry_run:
        _require_destination(job)
        status, outcome = "would-write", f"would write {job.destination or patch.path}"
    else:
        files = _write(ui, job, notes)
        status, outcome = "written", f"wrote {', '.join(files)}"
    if not patch.changed and job.destination is not None:
        outcome = f"{nothing_to_do}; {outcome}"
    for note in notes:
        ui.note(note)
    found: dict[str, object] = {
        "file": str(patch.path),
        **details,
        "written": files,
        "notes": notes,
    }
    text = "\n".join(part for part in (heading, visible(outcome)) if part)
    if writing.diff:
        found["diff"] = patch.diff()
        text = patch.diff().rstrip("\n")
    return Entry(str(job.model), status, int(status == "would-write"), details=found, text=text, exact=writing.diff)


def _require_destination(job: Job) -> None:
    """Refuse in a dry run what would be refused without."""
    if job.destination is not None:
        with about_model(job.destination):
            require_empty(job.destination, job.export.directory)


def _write(ui: Ui, job: Job, notes: list[str]) -> list[str]:
    """Write; returns the paths of the files and adds to the notes."""
    with ui.working(f"Writing {job.destination or job.patch.path}") as report:
        saved = job.export.save(job.destination, check=job.check, progress=lambda _file, done, of: report(done, of))
    for file in saved:
        notes += file.notes
        if file.replaced_link is not None:
            notes.append(f"{file.path} was a symbolic link; it is a file now, and {file.replaced_link} is as it was")
    return [str(file.path) for file in saved] or [str(job.destination)]
