"""Shared parts of the commands that write a record: options, changes since an earlier record, files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from irtools.cli.common import PATH, Ui
from irtools.report.json import ModelResult

__all__ = ["device_option", "names", "numbers", "record_options", "with_files"]

F = TypeVar("F", bound=Callable[..., Any])

_RANGE = re.compile(r"(\d{1,24})(?:-(\d{1,24}))?", re.ASCII)
_MOST = 64

device_option = click.option("--device", metavar="NAME", help="OpenVINO device.  [default: CPU]")


def names(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Parse names separated by commas."""
    return tuple(item.strip() for item in value.split(",") if item.strip()) if value is not None else None


def numbers(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    """Parse numbers and ranges separated by commas."""
    found: list[int] = []
    for item in names(_ctx, _param, value) or ():
        match = _RANGE.fullmatch(item)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if high < low:
            raise click.BadParameter(f"{item!r} is neither a number nor a range such as 1-5")
        if high - low >= _MOST:
            raise click.BadParameter(f"{item!r} are more than {_MOST} numbers")
        found += range(low, high + 1)
    return tuple(sorted(set(found))) if value is not None else None


def record_options(kind: str) -> Callable[[F], F]:
    """Add ``--compare`` with an earlier record of a kind, ``--hash`` and ``-o``.

    The function gets them as ``earlier``, the record or None, ``hash_weights`` and ``outputs``. What would fail after a
    long run is refused at once.
    """

    def read(_ctx: click.Context, _param: click.Parameter, value: Path | None) -> Mapping[str, Any] | None:
        from irtools.prove.record_changes import read_record

        return read_record(value, kind) if value is not None else None

    def checked(_ctx: click.Context, _param: click.Parameter, value: tuple[Path, ...]) -> tuple[Path, ...]:
        from irtools.report.formats import RECORD, format_of

        for file in value:
            format_ = format_of(RECORD, file)
            if format_ not in RECORD:
                known = ", ".join(suffix for form in RECORD.values() for suffix in form.suffixes)
                raise click.BadParameter(f"{str(file)!r} has none of the suffixes {known}")
            if not file.parent.is_dir():
                raise click.BadParameter(f"there is no directory {str(file.parent)!r} for {file.name!r}")
            if kind == "bench" and format_ == "html":
                from irtools.report.plots import require_plots

                require_plots()
        return value

    def decorate(function: F) -> F:
        for option in (
            click.option(
                "-o",
                "--output",
                "outputs",
                metavar="FILE",
                multiple=True,
                type=PATH,
                callback=checked,
                help="Also write a file; can be repeated. The suffix sets the format: .json, .md, .html, or .xml for "
                "JUnit.",
            ),
            click.option(
                "--hash",
                "hash_weights",
                is_flag=True,
                help="Hash weights of more than 1 GiB in full, not only samples.",
            ),
            click.option(
                "--compare",
                "earlier",
                metavar="FILE",
                type=PATH,
                callback=read,
                help="Show changes since an earlier record, made with `-o FILE.json`: conditions first, then figures.",
            ),
        ):
            function = option(function)
        return function

    return decorate


def with_files(
    entry: ModelResult, command: str, earlier: Mapping[str, Any] | None, outputs: Iterable[Path], ui: Ui
) -> ModelResult:
    """Add the changes since an earlier record to the result of a command, and write the files of ``-o`` about it."""
    from irtools.ir.output import write_output
    from irtools.prove.record_changes import changes
    from irtools.report.formats import RECORD, format_of, render
    from irtools.report.record_changes import changes_text

    if earlier is not None:
        (record,) = entry.details.values()
        found = changes(earlier, record)  # type: ignore[arg-type]
        text = f"{entry.text}\n\n{changes_text(found, ui.style)}" if entry.text else ""
        entry = replace(entry, text=text, details={**entry.details, "changes": list(map(asdict, found))})
    for file in outputs:
        text = render(RECORD[format_of(RECORD, file)], entry, command=command)
        write_output(file, text.encode("utf-8", "backslashreplace"))
        ui.note(f"wrote {file}")
    return entry
