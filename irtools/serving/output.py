"""Write the files of a server configuration: all or none, and none of them over another file without leave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from irtools.errors import SaveError
from irtools.ir.files import explained
from irtools.ir.listing import refuse_link
from irtools.ir.place import Put, place_files
from irtools.ir.reading import read_file

__all__ = ["Output", "plan_output", "write_planned"]


@dataclass(frozen=True, slots=True)
class Output:
    """What is to be written.

    Attributes
    ----------
    written : tuple of Path
        Files that are new or change.
    unchanged : tuple of Path
        Files that have this content already.
    kept : mapping of Path to Path
        Old files that would be replaced, and the names that their contents are kept under.
    """

    directory: Path
    steps: tuple[Put, ...]
    written: tuple[Path, ...]
    unchanged: tuple[Path, ...]
    kept: Mapping[Path, Path]


def plan_output(directory: Path, files: Mapping[str, bytes], exports: Iterable[Path], *, force: bool) -> Output:
    """Work out what must be written into a directory, and write nothing.

    Raises
    ------
    SaveError
        A file with another content is there, and ``force`` is false; or a link that could have come with an export.
    """
    steps: list[Put] = []
    written: list[Path] = []
    unchanged: list[Path] = []
    kept: dict[Path, Path] = {}
    roots = tuple(exports)
    for name, content in files.items():
        path = directory / name
        refuse_link(path, roots)
        with explained(path, "cannot be read"):
            old = read_file(path, "template") if path.exists() else None
        if old == content:
            unchanged.append(path)
            continue
        if old is not None:
            if not force:
                raise SaveError(
                    "has different content; give --force to replace it and keep the old file beside it, or another "
                    "--output-dir",
                    path=path,
                )
            kept[path] = _free(path)
            steps.append(Put(kept[path], old))
        steps.append(Put(path, content, original=old))
        written.append(path)
    return Output(directory, tuple(steps), tuple(written), tuple(unchanged), kept)


def _free(path: Path) -> Path:
    """Name for the old content of a file, which no file has."""
    names = (path.with_name(f"{path.name}.old{number or ''}") for number in count())
    return next(name for name in names if not name.exists() and not name.is_symlink())


def write_planned(plan: Output) -> None:
    """Write the files.

    Raises
    ------
    SaveError
        They cannot be written, or a file changed meanwhile.
    """
    with explained(plan.directory, "cannot be made"):
        plan.directory.mkdir(parents=True, exist_ok=True)
    place_files(plan.steps, locked=plan.directory)
