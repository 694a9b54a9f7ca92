"""The configuration file: ``irtools.toml``, or ``[tool.irtools]`` in ``pyproject.toml``.

It is looked for in the working directory and above. A file that lies inside the export that is
being judged could make its own findings disappear: it counts only when the user says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from irtools.errors import UsageError
from irtools.ir.listing import real_path
from irtools.lint.model import Severity

__all__ = ["Config", "find_config", "load_config", "parse_severity"]

T = TypeVar("T")
_FILES = ("irtools.toml", "pyproject.toml")
_KEYS = {
    *("select", "ignore", "fail-on", "target-runtime", "expect-mtp", "rules", "baseline"),
    *("severity", "per-file-ignores"),
}


@dataclass(frozen=True, slots=True)
class Config:
    """What the configuration file says; everything has a neutral default.

    Attributes
    ----------
    path : Path or None
        The file; None when there is none.
    select, ignore : tuple of str
        Codes or groups of rules.
    fail_on : Severity or None
    target_runtime : str or None
    expect_mtp : bool or None
        True is ``--expect-mtp``, False ``--no-mtp``.
    rules : tuple of Path
        Folders of rules, relative to the file.
    baseline : Path or None
        Relative to the file.
    severity : mapping of str to Severity
        By code or group.
    per_file_ignores : mapping of str to tuple of str
        Codes or groups by a pattern for file names.
    """

    path: Path | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: Severity | None = None
    target_runtime: str | None = None
    expect_mtp: bool | None = None
    rules: tuple[Path, ...] = ()
    baseline: Path | None = None
    severity: Mapping[str, Severity] = field(default_factory=dict)
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def parse_severity(text: str, key: str, path: Path) -> Severity:
    """A severity by its name, the value of a key of the configuration file.

    Raises
    ------
    UsageError
        It is none of error, warning, note.
    """
    try:
        return Severity[text.upper()]
    except KeyError:
        raise UsageError(f"{key}: {text!r} is no severity", hint="Write error, warning or note.", path=path) from None


def find_config(start: Path, *, outside: Path | None = None) -> tuple[Path | None, tuple[Path, ...]]:
    """Look for the configuration file in a directory and above it.

    Parameters
    ----------
    start : Path
    outside : Path, optional
        A directory whose files do not count: the export that is being judged.

    Returns
    -------
    tuple
        The nearest file that counts, or None; and the nearer ones that were passed over.
    """
    passed: list[Path] = []
    start = real_path(start)
    barred = real_path(outside) if outside is not None else None
    for directory in (start, *start.parents):
        for name in _FILES:
            path = directory / name
            if not _configures(path):
                continue
            if barred is not None and real_path(path).is_relative_to(barred):
                passed.append(path)
            else:
                return path, tuple(passed)
    return None, tuple(passed)


def _configures(path: Path) -> bool:
    """Whether a file is ours: a pyproject.toml only with its table."""
    if not path.is_file():
        return False
    if path.name != "pyproject.toml":
        return True
    import tomllib

    try:
        tool = tomllib.loads(path.read_text("utf-8")).get("tool")
    except (OSError, ValueError):
        return False  # somebody else's file, and somebody else's trouble
    return isinstance(tool, dict) and "irtools" in tool


def load_config(path: Path) -> Config:
    """Read a configuration file.

    Parameters
    ----------
    path : Path
        ``pyproject.toml``, or any other name for a file with the same keys at its top level.

    Returns
    -------
    Config

    Raises
    ------
    UsageError
        It cannot be read, or says something that makes no sense.
    """
    import tomllib  # here and above: few calls find such a file

    try:
        content: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", path=path) from error
    except UnicodeDecodeError as error:
        raise UsageError("is not UTF-8, as TOML must be", path=path) from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"is not valid TOML: {error}", path=path) from error
    if path.name == "pyproject.toml":
        tool = content.get("tool")
        content = tool.get("irtools", {}) if isinstance(tool, dict) else {}
    if not isinstance(content, dict):
        raise UsageError("tool.irtools must be a table", path=path)
    return _Reader(path, content).config()


class _Reader:
    """Turn the table into a ``Config``, complaining with the name of the key."""

    def __init__(self, path: Path, table: dict[str, Any]) -> None:
        self.path = path
        self.table = table

    def config(self) -> Config:
        for key in self.table:
            if key not in _KEYS:
                raise UsageError(
                    f"unknown key {key!r}", hint=f"The keys are {', '.join(sorted(_KEYS))}.", path=self.path
                )
        fail_on = self._one(str, "fail-on", "a string")
        baseline = self._one(str, "baseline", "a string")
        return Config(
            path=self.path,
            select=self._codes("select", self.table.get("select", [])),
            ignore=self._codes("ignore", self.table.get("ignore", [])),
            fail_on=parse_severity(fail_on, "fail-on", self.path) if fail_on is not None else None,
            target_runtime=self._one(str, "target-runtime", "a string"),
            expect_mtp=self._one(bool, "expect-mtp", "true or false"),
            rules=tuple(self.path.parent / folder for folder in self._strings("rules", self.table.get("rules", []))),
            baseline=self.path.parent / baseline if baseline is not None else None,
            severity={
                code.upper(): parse_severity(str(value), f"severity.{code}", self.path)
                for code, value in self._table("severity").items()
            },
            per_file_ignores={
                pattern: self._codes(f"per-file-ignores.{pattern}", value)
                for pattern, value in self._table("per-file-ignores").items()
            },
        )

    def _one(self, kind: type[T], key: str, what: str) -> T | None:
        value = self.table.get(key)
        if value is not None and not isinstance(value, kind):
            raise UsageError(f"{key} must be {what}, not {value!r}", path=self.path)
        if value == "":
            raise UsageError(f"{key} is empty", path=self.path)
        return value

    def _table(self, key: str) -> Mapping[str, Any]:
        value = self.table.get(key, {})
        if not isinstance(value, dict):
            raise UsageError(f"{key} must be a table, not {value!r}", path=self.path)
        return value

    def _strings(self, key: str, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise UsageError(f"{key} must be a list of strings, not {value!r}", path=self.path)
        if "" in value:
            raise UsageError(f"{key} holds an empty string", path=self.path)
        return tuple(value)

    def _codes(self, key: str, value: Any) -> tuple[str, ...]:
        return tuple(code.strip().upper() for code in self._strings(key, value))
