"""Seeded defects: the class, and helpers to edit an export.

A module ``tests/rules/defects_<group>.py`` has a tuple ``DEFECTS``; ``test_defects.py`` collects
them all, applies each to a copy of its base export and checks the findings of ``verify``.
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
    """One edit of one export, and the finding that it must cause.

    Attributes
    ----------
    name : str
        Unique id of the test.
    base : str
        Name of the fixture.
    edit : callable
        Changes the copy's directory in place.
    code : str
        Rule that must report the defect.
    file : str or None
        File of the finding; None for the directory.
    at : str or callable or None
        Line of the finding: a regular expression whose first match in the changed file starts there,
        or a function of the directory; None if the finding has no line.
    options : mapping
        Arguments of ``VerifyOptions``, such as ``expect_mtp``. ``draft`` is the name of a fixture, which
        is copied beside the export.
    severity : str
        Severity of the finding.
    causes : tuple of str
        Codes of other errors that the defect causes; any further error fails the test.
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
        """The line of the finding."""
        if self.at is None or self.file is None:
            return None
        if callable(self.at):
            return self.at(directory)
        data = (directory / self.file).read_bytes()
        match = re.search(self.at.encode(), data, re.DOTALL)
        assert match is not None, f"{self.name}: nothing matches {self.at!r}"
        return data.count(b"\n", 0, match.start()) + 1


def rewrite(file: str, change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    """An edit that passes the bytes of one file through a function, which must change them."""

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
    """An edit that writes a new file."""

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
