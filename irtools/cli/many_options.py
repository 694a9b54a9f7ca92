"""Options of the commands that take many exports."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from glob import has_magic
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

import click

from irtools.cli.common import EXPORT, PATH
from irtools.cli.many import Many
from irtools.text import is_url

__all__ = ["identity", "many_options", "require_directories", "root_options"]

F = TypeVar("F", bound=Callable[..., Any])
AUTO = "auto"
_MOST_JOBS = 512


class _Jobs(click.ParamType):  # type: ignore[type-arg]  # older click is not generic
    """A number of processes, or ``auto``, which is 0 here."""

    name = "N"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the value."""
        text = str(value).strip().lower()
        if text == AUTO:
            return 0
        if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= _MOST_JOBS):
            self.fail(f"{value!r} is not a number of processes from 1 to {_MOST_JOBS}, nor {AUTO}", param, ctx)
        return int(text)


def many_options(function: F) -> F:
    """Add the exports and the options for many, which the function gets as ``many``."""
    models = click.argument("models", metavar="[MODEL_DIR]...", nargs=-1, type=EXPORT)
    recursive = click.option(
        "--recursive",
        metavar="ROOT",
        type=PATH,
        multiple=True,
        help="Process every export in and below this directory, found by its files; can be repeated.",
    )
    return models(recursive(_work_options(function)))


def root_options(function: F) -> F:
    """Add directories below which all exports are meant, by default the working directory; else as `many_options`."""
    return click.argument("roots", metavar="[ROOT]...", nargs=-1, type=EXPORT)(_work_options(function))


def _work_options(function: F) -> F:
    """Add the options that say how the work is done."""

    @click.option(
        "--jobs",
        type=_Jobs(),
        default="1",
        show_default=True,
        help="Processes that work at the same time, each on one export; auto: one for each processor.",
    )
    @click.option(
        "--timeout",
        metavar="SECONDS",
        type=click.FloatRange(0, min_open=True),
        help="Stop the work on an export after this time, and continue with the others.",
    )
    @click.option(
        "--resume",
        metavar="FILE",
        type=PATH,
        help="Save results in this file, and reuse those of unchanged exports.",
    )
    @click.option("--scheduler", metavar="ADDRESS", help="Work on a Dask cluster, such as tcp://host:8786.")
    @functools.wraps(function)
    def wrapper(
        *args: Any,
        jobs: int,
        timeout: float | None,
        resume: Path | None,
        scheduler: str | None,
        models: tuple[Path, ...] = (),
        recursive: tuple[Path, ...] = (),
        roots: tuple[Path, ...] | None = None,
        **kwargs: Any,
    ) -> Any:
        if scheduler is not None and jobs != 1:
            raise click.UsageError("--jobs is for processes of this machine; the cluster of --scheduler has its own")
        if roots is not None:
            models = tuple(filter(_is_no_root, roots))
            recursive = tuple(path for path in roots or (Path(),) if path not in models)
        many = _found(models, recursive)
        if resume is not None:
            many = replace(many, resume=resume, options=_options_text(click.get_current_context().params))
        jobs = min(jobs or _processors(), len(many.models))
        return function(*args, many=replace(many, jobs=jobs, timeout=timeout, scheduler=scheduler), **kwargs)

    return wrapper  # type: ignore[return-value]


def require_directories(_ctx: click.Context, _param: click.Parameter, value: tuple[Path, ...]) -> tuple[Path, ...]:
    """Refuse an output without a place before the work on many exports, not after it."""
    for file in value:
        if file.is_dir():
            raise click.BadParameter(f"{str(file)!r} is a directory")
        if not file.parent.is_dir():
            raise click.BadParameter(f"there is no directory {str(file.parent)!r} for {file.name!r}")
    return value


def _found(models: tuple[Path, ...], roots: tuple[Path, ...]) -> Many:
    if not roots and len(models) < 2 and not any(has_magic(str(path)) or is_url(str(path)) for path in models):
        return Many(models or (Path(),))
    from irtools.fleet.find import find, real_place

    notes: list[str] = []
    below = find(roots, True, skipped=lambda path, reason: notes.append(f"{path} is {reason}"))
    given = [*find(models), *below]
    real = {real_place(path): path for path in reversed(given)}
    once = set(real.values())
    return Many(tuple(path for path in given if path in once), roots, notes=tuple(notes))


def _is_no_root(path: Path) -> bool:
    """True for a file, a pattern or a URL, which stand for exports without a search."""
    return is_url(str(path)) or path.is_file() or (has_magic(str(path)) and not path.is_dir())


def _processors() -> int:
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_OF_THE_RUN = (
    "models",
    "recursive",
    "roots",
    "jobs",
    "timeout",
    "resume",
    "scheduler",
    "format_",
    "formats",
    "outputs",
    "quiet",
)
"""Parameters that the result for an export does not depend on."""
_DESTINATIONS = ("output_dir", "write_baseline")


def _options_text(parameters: Mapping[str, object]) -> str:
    """The options that results depend on; of a file or directory also what tells that it has changed."""
    counting = {name: value for name, value in sorted(parameters.items()) if name not in _OF_THE_RUN}
    return repr([(name, str(value) if name in _DESTINATIONS else identity(value)) for name, value in counting.items()])


def identity(value: object) -> object:
    """A value of an option; with a file or directory also sizes and times, which tell that it has changed."""
    if isinstance(value, tuple):
        return tuple(map(identity, value))
    if not isinstance(value, Path):
        return value
    if is_url(str(value)):
        return str(value), token_hex()  # nobody knows whether it has changed
    try:
        folder = value.parent if value.suffix == ".xml" else value  # a file has weights and a config.json beside it
        files = sorted(folder.iterdir()) if folder.is_dir() else [value]
        stats = [(file.name, file.stat()) for file in files]
    except OSError:
        return str(value)
    return str(value.absolute()), [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
