"""The form of a seeded defect, and the runner's helpers.

A module ``tests/rules/defects_<group>.py`` has a tuple ``DEFECTS``; ``test_defects.py`` collects
them all, applies each to a copy of its base export and compares what ``verify`` says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Defect", "add", "both", "copy", "in_json", "remove", "rewrite", "sub"]


@dataclass(frozen=True)
class Defect:
    """One edit of one export, and what must be reported.

    Attributes
    ----------
    name : str
        Unique; the test's id.
    base : str
        Name of the fixture.
    edit : callable
        Takes the directory of the copy and changes it in place.
    code : str
        The rule that must report it.
    file : str or None
        Name of the file that the finding is at; None: the directory.
    at : str or callable or None
        Which line: a regular expression whose first match in the changed file begins there, or a
        function of the directory; None: the finding has no line.
    options : mapping
        For ``Options``: ``expect_mtp``, ``target_runtime``, ... A ``draft`` is the name of a
        fixture, copied beside the export.
    severity : str
        That the finding must have.
    causes : tuple of str
        Other codes that the defect causes at error level; anything else there fails the test.
    """

    name: str
    base: str
    edit: Callable[[Path], object]
    code: str
    file: str | None
    at: str | Callable[[Path], int] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    severity: str = "error"
    causes: tuple[str, ...] = ()

    def line(self, directory: Path) -> int | None:
        """The line that the finding must be at."""
        if self.at is None or self.file is None:
            return None
        if callable(self.at):
            return self.at(directory)
        data = (directory / self.file).read_bytes()
        match = re.search(self.at.encode(), data, re.DOTALL)
        assert match is not None, f"{self.name}: nothing matches {self.at!r}"
        return data.count(b"\n", 0, match.start()) + 1


def rewrite(file: str, change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    """An edit that passes the bytes of one file through a function; it must change something."""

    def edit(directory: Path) -> None:
        path = directory / file
        before = path.read_bytes()
        after = change(before)
        assert after != before, f"the edit of {file} changes nothing"
        path.write_bytes(after)

    return edit


def sub(file: str, pattern: str, replacement: str, count: int = 1) -> Callable[[Path], object]:
    """An edit by regular expression (``.`` matches newlines)."""
    return rewrite(
        file, lambda data: re.sub(pattern.encode(), replacement.encode(), data, count=count, flags=re.DOTALL)
    )


def remove(*files: str) -> Callable[[Path], object]:
    """An edit that deletes files."""

    def edit(directory: Path) -> None:
        for file in files:
            (directory / file).unlink()

    return edit


def add(file: str, content: bytes = b"") -> Callable[[Path], object]:
    """An edit that writes a file that was not there."""

    def edit(directory: Path) -> None:
        assert not (directory / file).exists()
        (directory / file).write_bytes(content)

    return edit


def copy(source: str, to: str) -> Callable[[Path], object]:
    """An edit that copies a file of the export under another name."""
    return lambda directory: (directory / to).write_bytes((directory / source).read_bytes())


def both(*edits: Callable[[Path], object]) -> Callable[[Path], object]:
    """Several edits, one after the other."""

    def edit(directory: Path) -> None:
        for one in edits:
            one(directory)

    return edit


def in_json(file: str, *path: str, value: object) -> Callable[[Path], object]:
    """An edit that sets one key of a JSON file, or removes it with ``...``."""

    def edit(directory: Path) -> None:
        content = json.loads((directory / file).read_text())
        table = content
        for key in path[:-1]:
            table = table[key]
        if value is ...:
            del table[path[-1]]
        else:
            table[path[-1]] = value
        (directory / file).write_text(json.dumps(content, indent=2))

    return edit
