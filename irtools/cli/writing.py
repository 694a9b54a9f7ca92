"""Shared parts of the commands that change an export: options, destinations and writing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from irtools.cli.common import PATH, Ui, about_model
from irtools.errors import UsageError
from irtools.report.json import ModelResult
from irtools.text import is_url, joined, size_text, visible

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

    roots: tuple[Path, ...] = ()
    several: bool = False

    def among(self, models: Sequence[Path], roots: Sequence[Path] = ()) -> Writing:
        """The same options for several exports, each with a destination of its own.

        Parameters
        ----------
        roots : sequence of Path
            Directories in which exports were found; the output directory repeats what is below them.

        Raises
        ------
        UsageError
            Two exports would be written to one directory, or one inside the other, or an export is at a URL and there
            is no output directory.
        """
        remote = next((model for model in models if is_url(str(model))), None)
        if remote is not None and self.output_dir is None and not self.dry_run:
            raise UsageError(
                f"{remote} is at a URL, and irtools does not write there; give --output-dir for the new XML"
            )
        several = replace(self, roots=tuple(roots), several=len(models) > 1 or bool(roots))
        if self.output_dir is None or not several.several:
            return several
        taken: dict[Path, Path] = {}
        for model in models:
            name = several.subfolder(model)
            other = next((taken[one] for one in (name, *name.parents) if one in taken), None)
            if other is not None:
                raise UsageError(
                    f"{other} and {model} would both be written to {self.output_dir / name}; "
                    "give them different output directories"
                )
            taken[name] = model
        for name, model in taken.items():
            outer = next((taken[one] for one in name.parents if one in taken), None)
            if outer is not None:
                raise UsageError(f"{model} lies inside {outer}; give them different output directories")
        return several

    def destination(self, model: Path) -> Path | None:
        """Destination of an export: None for in place, the output directory, or a subfolder of it."""
        if self.output_dir is None or not self.several:
            return self.output_dir
        return self.output_dir / self.subfolder(model)

    def subfolder(self, model: Path) -> Path:
        """Subfolder of an export in the output directory."""
        from irtools.ir.listing import real_path

        if is_url(str(model)):
            return Path((model.parent if model.suffix == ".xml" else model).name.partition("@")[0])
        directory = model.parent if model.suffix == ".xml" and not model.is_dir() else model
        for root in self.roots:
            if directory != root and directory.is_relative_to(root):
                return directory.relative_to(root)
        return Path(real_path(directory).name)


def writer_options(function: F) -> F:
    """Add ``--output-dir``, ``--dry-run`` and ``--diff``, which the function gets as ``writing``."""

    @click.option(
        "-o",
        "--output-dir",
        metavar="DIR",
        type=PATH,
        help="Write a complete export here instead of changing it in place; for one at a URL, only the new XML. Each "
        "of several models gets a subfolder.",
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
        pairs = [(path, output_dir / path.relative_to(directory)) for path in sorted(directory.rglob("*.bin"))]
        pairs = [(old, new) for old, new in pairs if new.exists()]
        changed = [new for old, new in pairs if old.stat().st_size != new.stat().st_size]
        kept = [(old, new) for old, new in pairs if new not in changed]
        copied = sum(size for path, size in self._done.items() if path.suffix == ".bin")
        how = "copied" if copied else "linked" if any(old.samefile(new) for old, new in kept) else "cloned"
        texts = [f"weights {how}, {size_text(copied) if copied else '0 bytes'} copied"] if kept else []
        texts += [f"{new.relative_to(output_dir)} newly written, {size_text(new.stat().st_size)}" for new in changed]
        return "; ".join(texts)


def finish(
    ui: Ui,
    writing: Writing,
    model: Path,
    export: Export,
    patch: Patch,
    *,
    check: bool,
    nothing_to_do: str,
    heading: str = "",
    details: Mapping[str, object],
    next_step: Callable[[Path], str] | None = None,
) -> ModelResult:
    """Write a computed change, or report what would be written.

    Parameters
    ----------
    check : bool
        True to check the new file before it replaces the old one.
    nothing_to_do : str
        Message for a file that does not change, without full stop.
    heading : str
        Text before the outcome.
    details : mapping
        Additional JSON keys.
    next_step : callable
        Makes the line about the next command, from the path of what was written.
    """
    from irtools.ir.listing import require_empty
    from irtools.remote import is_remote, upload_of

    destination = writing.destination(model)
    remote = is_remote(export.directory)
    files: list[str] = []
    upload = step = ""
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
        if next_step is not None and not remote:
            written = model if destination is None else destination
            step = next_step(written / model.name if destination is not None and model.is_file() else written)
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
    return ModelResult(str(model), status, code, details=entries, text=text, exact=writing.diff, next_step=step)
