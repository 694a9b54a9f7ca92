"""Discover rule packs: built-in ones, installed plug-ins and a user's own folder.

All load the same way: every module of a pack is imported, and the objects of the wanted
class that its modules define are collected. There is no list to keep.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from irtools.errors import OptionError

__all__ = ["ENTRY_POINT_GROUP", "collect", "load_folder"]

ENTRY_POINT_GROUP = "irtools.rules"

T = TypeVar("T")


def _modules(package: ModuleType, prefix: str) -> Iterator[ModuleType]:
    """The modules of a pack whose names begin with ``prefix``; a pack that is one module is that module."""
    if not hasattr(package, "__path__"):
        yield package
        return
    for found in sorted(pkgutil.walk_packages(package.__path__, package.__name__ + "."), key=lambda m: m.name):
        if found.name.rpartition(".")[2].startswith(prefix):
            yield importlib.import_module(found.name)


@cache
def _installed(prefix: str) -> tuple[ModuleType, ...]:
    found: list[ModuleType] = []
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: (point.name != "builtin", point.name)):
        try:
            found += _modules(importlib.import_module(point.module), prefix)
        except Exception as error:
            raise OptionError(
                f"the rule pack {point.name!r} ({point.module}) cannot be loaded: {type(error).__name__}: {error}",
                hint="Uninstall it or repair it.",
            ) from error
    return tuple(found)


@cache
def load_folder(folder: Path) -> tuple[ModuleType, ...]:
    """Import every ``.py`` of a folder of rules, each as a module of its own.

    Raises
    ------
    OptionError
        No such folder, or one of its modules cannot be imported.
    """
    if not folder.is_dir():
        raise OptionError(f"{folder}: no such folder of rules")
    found = []
    for path in sorted(folder.glob("*.py")):
        name = f"irtools_user_rules_{abs(hash(folder.resolve()))}_{path.stem}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            continue
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise OptionError(f"{path}: cannot be loaded: {type(error).__name__}: {error}") from error
        found.append(module)
    return tuple(found)


def collect(wanted: type[T], folders: Iterable[Path] = (), *, prefix: str = "") -> tuple[T, ...]:
    """Instances of a class at module level in all rule packs, in a stable order.

    Parameters
    ----------
    wanted : type
        Such as ``Rule`` or ``Pattern``.
    folders : iterable of Path
        A user's own folders of rules.
    prefix : str
        Look only into modules of installed packs whose names begin so (``pattern_``): locating a
        stack needs no checks, and importing them all takes longer than locating.

    Returns
    -------
    tuple
    """
    modules = [*_installed(prefix), *(module for folder in folders for module in load_folder(folder))]
    found: dict[int, T] = {}
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, wanted):
                found.setdefault(id(value), value)
    return tuple(found.values())
