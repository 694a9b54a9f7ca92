"""The configuration file: ``irtools.toml``, or ``[tool.irtools]`` in ``pyproject.toml``.

irtools searches the working directory and its parents. A file that it finds never loads code, because it may come
with a downloaded repository. A file beside an IR could hide the findings about it, so it counts only if the user
trusts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from irtools.errors import OptionError, UsageError, os_reason
from irtools.ir.listing import holds_ir, real_path
from irtools.ir.reading import read_file, shallow
from irtools.lint.finding import Severity
from irtools.model.compression import parse_spec
from irtools.text import clipped

__all__ = ["Config", "comes_with_model", "config_files", "find_config", "load_config", "parse_severity"]

T = TypeVar("T")
_FILES = ("irtools.toml", "pyproject.toml")


@dataclass(frozen=True, slots=True)
class Config:
    """Content of the configuration file; every value has a neutral default.

    Attributes
    ----------
    path : Path or None
        The configuration file; None without one.
    rules : tuple of Path
        Folders of rules; the file writes them, and ``baseline``, relative to its directory.
    severity : mapping of str to Severity
        ``severities`` of :class:`~irtools.lint.engine.VerifyOptions`, which describes the others too.
    """

    path: Path | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: Severity | None = None
    target_runtime: str | None = None
    expect_mtp: bool | None = None
    expect_compression: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[Path, ...] = ()
    baseline: Path | None = None
    severity: Mapping[str, Severity] = field(default_factory=dict)
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


_KEYS = sorted({item.name.replace("_", "-") for item in fields(Config)} - {"path"})


def _shown(value: object) -> str:
    return clipped(repr(value))


def parse_severity(text: str, key: str, path: Path) -> Severity:
    """Severity from the value of a configuration key.

    Raises
    ------
    UsageError
        The value is not error, warning or note.
    """
    try:
        return Severity[text.upper()]
    except KeyError:
        raise UsageError(
            f"{key}: {_shown(text)} is not a severity", hint="Use error, warning or note.", path=path
        ) from None


def find_config(
    start: Path, *, outside: Iterable[Path] = (), trust: bool = False
) -> tuple[Path | None, tuple[Path, ...]]:
    """Find the configuration file in a directory or its parents.

    A file beside an IR could come with the model, so it does not count, and its content is not parsed.

    Parameters
    ----------
    outside : iterable of Path
        Directories whose files do not count, at any depth: the export under test, and its draft.
    trust : bool
        True to accept files beside an IR and in ``outside``.

    Returns
    -------
    tuple
        The nearest file that counts, or None; and the nearer files that were skipped.
    """
    skipped: list[Path] = []
    barred = tuple(map(real_path, outside))
    for path in config_files(start):
        if not trust and comes_with_model(path, barred):
            skipped += [path] if _mentions_irtools(path) else []
        elif _configures(path):
            return path, tuple(skipped)
    return None, tuple(skipped)


def config_files(start: Path) -> Iterator[Path]:
    """Files in a directory and its parents that have the name of a configuration file, the nearest first."""
    start = real_path(start)
    for directory in (start, *start.parents):
        yield from (path for name in _FILES if (path := directory / name).is_file())


def comes_with_model(path: Path, barred: Iterable[Path] = ()) -> bool:
    """True if a file, or the target of a link, lies beside an IR or below one of some directories, resolved."""
    places = {path.parent.absolute(), real_path(path).parent}
    return any(place.is_relative_to(bar) for place in places for bar in barred) or any(map(holds_ir, places))


def _mentions_irtools(path: Path) -> bool:
    """True for an irtools.toml, and for a pyproject.toml that could have a table for irtools."""
    if path.name != "pyproject.toml":
        return True
    try:
        return b"irtools" in read_file(path)
    except OSError:
        return False


def _configures(path: Path) -> bool:
    """True for an irtools.toml, and for a pyproject.toml with a table [tool.irtools]."""
    if path.name != "pyproject.toml":
        return True
    try:
        tool = _parsed(path).get("tool")
    except (OSError, ValueError):
        return False  # it may be another tool's file, so its faults are not reported
    return isinstance(tool, dict) and "irtools" in tool


def _parsed(path: Path) -> dict[str, Any]:
    import tomllib  # imported late: few runs have such a file

    try:  # dotted keys nest without recursion of the parser
        return shallow(tomllib.loads(read_file(path, "toml").decode()))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def load_config(path: Path | None) -> Config:
    """Read a configuration file.

    Parameters
    ----------
    path : Path or None
        ``pyproject.toml``, or a file of any other name with the same keys at the top level. None for defaults.

    Raises
    ------
    UsageError
        The file cannot be read, or contains an invalid key or value.
    """
    if path is None:
        return Config()
    try:
        content = _parsed(path)
    except OSError as error:
        raise UsageError(f"cannot be read: {os_reason(error)}", path=path) from error
    except UnicodeDecodeError as error:
        raise UsageError("is not UTF-8, which TOML requires", path=path) from error
    except ValueError as error:
        raise UsageError(f"is not valid TOML: {error}", path=path) from error
    if path.name == "pyproject.toml":
        tool = content.get("tool")
        content = tool.get("irtools", {}) if isinstance(tool, dict) else {}
    if not isinstance(content, dict):
        raise UsageError("tool.irtools must be a table", path=path)
    return _ConfigReader(path, content).config()


class _ConfigReader:
    """Convert the table to a ``Config``; errors name the key."""

    def __init__(self, path: Path, table: dict[str, Any]) -> None:
        self.path = path
        self.table = table

    def config(self) -> Config:
        for key in self.table:
            if key not in _KEYS:
                raise UsageError(f"unknown key {_shown(key)}", hint=f"The keys are {', '.join(_KEYS)}.", path=self.path)
        fail_on = self._one(str, "fail-on", "a string")
        baseline = self._one(str, "baseline", "a string")
        return Config(
            path=self.path,
            select=self._codes("select", self.table.get("select", [])),
            ignore=self._codes("ignore", self.table.get("ignore", [])),
            fail_on=parse_severity(fail_on, "fail-on", self.path) if fail_on is not None else None,
            target_runtime=self._one(str, "target-runtime", "a string"),
            expect_mtp=self._one(bool, "expect-mtp", "true or false"),
            expect_compression=self._compression("expect-compression"),
            rules=tuple(self.path.parent / folder for folder in self._strings("rules", self.table.get("rules", []))),
            baseline=self.path.parent / baseline if baseline is not None else None,
            severity={
                code.strip(): parse_severity(str(value), f"severity.{code}", self.path)
                for code, value in self._table("severity").items()
            },
            per_file_ignores={
                pattern: self._codes(f"per-file-ignores.{pattern}", value)
                for pattern, value in self._table("per-file-ignores").items()
            },
        )

    def _one(self, kind: type[T], key: str, expected: str) -> T | None:
        value = self.table.get(key)
        if value is not None and not isinstance(value, kind):
            raise UsageError(f"{key} must be {expected}, not {_shown(value)}", path=self.path)
        if value == "":
            raise UsageError(f"{key} is empty", path=self.path)
        return value

    def _compression(self, key: str) -> Mapping[str, str]:
        """A compression for target and MTP head, or a table of compressions by part."""
        value = self.table.get(key, {})
        table = {"": value} if isinstance(value, str) else self._table(key)
        for part, text in table.items():
            if not isinstance(text, str):
                raise UsageError(f"{key}.{part} must be a string, not {_shown(text)}", path=self.path)
            try:
                parse_spec(text)
            except OptionError as error:
                raise UsageError(f"{key}: {error.args[0]}", hint=error.hint, path=self.path) from None
        return table

    def _table(self, key: str) -> Mapping[str, Any]:
        value = self.table.get(key, {})
        if not isinstance(value, dict):
            raise UsageError(f"{key} must be a table, not {_shown(value)}", path=self.path)
        return value

    def _strings(self, key: str, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise UsageError(f"{key} must be a list of strings, not {_shown(value)}", path=self.path)
        if "" in value:
            raise UsageError(f"{key} contains an empty string", path=self.path)
        return tuple(value)

    def _codes(self, key: str, value: Any) -> tuple[str, ...]:
        return tuple(code.strip() for code in self._strings(key, value))
