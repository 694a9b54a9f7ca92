"""Shared parts of the commands that change an export: options, destinations and writing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from irtools.cli.common import PATH, Ui, about_model
from irtools.errors import UsageError
from irtools.report.json import ModelResult
from irtools.text import joined, size_text, visible

if TYPE_CHECKING:
    from irtools.export import Export
    from irtools.surgery.patch import Patch

__all__ = ["CopiedBytes", "Writing", "finish", "writer_options"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Writing:
    """Options for writing results; without ``output_dir`` in place, and ``diff`` implies ``dry_run``."""

    output_dir: Path | None = None
    dry_run: bool = False
    diff: bool = False

    def destinations(self, models: Sequence[Path]) -> Mapping[Path, Path | None]:
        """Destination of each export: None for in place, the output directory, or a subfolder of it."""
        from irtools.remote import RemotePath

        remote = next((model for model in models if isinstance(model, RemotePath)), None)
        if self.output_dir is None:
            if remote is not None and not self.dry_run:
                raise UsageError(f"{remote} is at a URL, where nothing is written; give --output-dir for the new XML")
            return dict.fromkeys(models)
        if len(models) == 1:
            return {models[0]: self.output_dir}
        from irtools.ir.listing import real_path

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
        return {model: self.output_dir / name for name, model in taken.items()}


def writer_options(function: F) -> F:
    """Add ``--output-dir``, ``--dry-run`` and ``--diff``, which the function gets as ``writing``."""

    @click.option(
        "-o",
        "--output-dir",
        metavar="DIR",
        type=PATH,
        help="Write a complete export here instead of changing it in place; of one at a URL the new XML alone. Each of "
        "several models gets a subfolder.",
    )
    @click.option("--dry-run", is_flag=True, help="Write nothing; exit with 1 if something would change.")
    @click.option("--diff", is_flag=True, help="Print the change as a unified diff; write nothing.")
    @functools.wraps(function)
    def wrapper(*args: Any, output_dir: Path | None, dry_run: bool, diff: bool, **kwargs: Any) -> Any:
        return function(*args, writing=Writing(output_dir, dry_run or diff, diff), **kwargs)

    return wrapper  # type: ignore[return-value]


class CopiedBytes:
    """Count what a complete export copies, and show the progress; files that are linked or cloned are not copied."""

    def __init__(self, report: Callable[[int, int], None]) -> None:
        self._report = report
        self._done: dict[Path, int] = {}

    def __call__(self, file: Path, done: int, of: int) -> None:
        """Take the progress of one file."""
        self._done[file] = done
        self._report(done, of)

    def sentence(self, directory: Path, output_dir: Path) -> str:
        """How the weights came into an output directory: ``weights linked, 0 bytes copied``."""
        weights = [
            path for path in sorted(directory.rglob("*.bin")) if (output_dir / path.relative_to(directory)).exists()
        ]
        copied = sum(size for path, size in self._done.items() if path.suffix == ".bin")
        linked = [path for path in weights if path.samefile(output_dir / path.relative_to(directory))]
        how = "copied" if copied else "linked" if linked else "cloned"
        return f"weights {how}, {size_text(copied) if copied else '0 bytes'} copied" if weights else ""


def finish(
    ui: Ui,
    writing: Writing,
    model: Path,
    export: Export,
    patch: Patch,
    destination: Path | None,
    *,
    check: bool,
    nothing_to_do: str,
    heading: str = "",
    details: Mapping[str, object],
) -> ModelResult:
    """Write a computed change, or report what would be written.

    Parameters
    ----------
    destination : Path or None
        Directory for a complete export; None to write in place.
    check : bool
        True to check the new file before it replaces the old one.
    nothing_to_do : str
        Message for a file that does not change, without full stop.
    heading : str
        Text before the outcome.
    details : mapping
        Additional JSON keys.
    """
    from irtools.ir.listing import require_empty
    from irtools.remote import is_remote, upload_of

    remote = is_remote(export.directory)
    files: list[str] = []
    upload = ""
    notes = list(patch.notes)
    where = destination or patch.path
    if not patch.changed and (destination is None or remote):
        status, outcome = "unchanged", f"{nothing_to_do}; nothing written"
    elif writing.dry_run:
        if destination is not None:
            with about_model(destination):
                require_empty(destination, export.directory)
        status, outcome = "would-write", f"would write {where}"
    else:
        with ui.working(f"Writing {where}") as report:
            copied = CopiedBytes(report)
            saved = export.save(destination, check=check, progress=copied)
        files = [str(file.path) for file in saved] or [str(destination)]
        notes += [note for file in saved for note in (*file.notes, file.link_note) if note]
        status, outcome = "written", f"wrote {joined(files)}"
        if remote:
            upload = upload_of(patch.path, Path(files[0]))
            details = {**details, "upload": upload or None}
            outcome += "; upload it with" if upload else f"; put it in the place of {patch.path}"
        elif destination is not None:
            details = {**details, "weights": copied.sentence(export.directory, destination) or None}
            outcome += f"; {details['weights']}" if details["weights"] else ""
    if not patch.changed and destination is not None and not remote:
        outcome = f"{nothing_to_do}; {outcome}"
    for note in notes:
        ui.note(note)
    entries: dict[str, object] = {"file": str(patch.path), **details, "written": files, "notes": notes}
    text = "\n".join(part for part in (heading, visible(outcome), visible(upload)) if part)
    if writing.diff:
        entries["diff"] = patch.diff()
        text = patch.diff().rstrip("\n")
    code = int(status == "would-write")
    return ModelResult(str(model), status, code, details=entries, text=text, exact=writing.diff)
