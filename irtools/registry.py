"""Discover rule packs: built-in packs, installed plug-ins and folders of the user.

All packs load the same way: every module is imported, and the objects of one class at module level, alone or in
a tuple, are collected. There is no list of rules to maintain.
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
    """Modules of a pack whose names begin with ``prefix``; a single-module pack is its only module."""
    if not hasattr(package, "__path__"):
        yield package
        return
    for info in sorted(pkgutil.walk_packages(package.__path__, package.__name__ + "."), key=lambda info: info.name):
        if info.name.rpartition(".")[2].startswith(prefix):
            yield importlib.import_module(info.name)


@cache
def _installed(prefix: str) -> tuple[ModuleType, ...]:
    modules: list[ModuleType] = []
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: (point.name != "builtin", point.name)):
        try:
            modules += _modules(importlib.import_module(point.module), prefix)
        except Exception as error:
            raise OptionError(
                f"the rule pack {point.name!r} ({point.module}) cannot be loaded: {type(error).__name__}: {error}",
                hint="Uninstall it or repair it.",
            ) from error
    return tuple(modules)


@cache
def load_folder(folder: Path) -> tuple[ModuleType, ...]:
    """Import every ``.py`` of a folder of rules as a separate module.

    Raises
    ------
    OptionError
        The folder does not exist, or one of its modules cannot be imported.
    """
    if not folder.is_dir():
        raise OptionError(f"{folder}: no such folder of rules")
    modules = []
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
        modules.append(module)
    return tuple(modules)


def collect(wanted: type[T], folders: Iterable[Path] = (), *, prefix: str = "") -> tuple[T, ...]:
    """Instances of a class at module level in all rule packs, alone or in a tuple, in a stable order.

    Parameters
    ----------
    wanted : type
        Class of the instances, such as ``Rule`` or ``Pattern``.
    folders : iterable of Path
        Folders of rules of the user.
    prefix : str
        Prefix of the modules to import from installed packs (``pattern_``). Locating a decoder stack needs
        no lint rules, and importing all of them takes longer than locating.
    """
    modules = [*_installed(prefix), *(module for folder in folders for module in load_folder(folder))]
    held = (value for module in modules for value in vars(module).values())
    values = (one for value in held for one in (value if isinstance(value, tuple) else (value,)))
    return tuple({id(value): value for value in values if isinstance(value, wanted)}.values())
