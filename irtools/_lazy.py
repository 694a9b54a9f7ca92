"""Public names that are imported when they are first used, so that ``irtools --help`` loads nothing heavy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["attach"]


def attach(module: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a module whose names live in other modules.

    Parameters
    ----------
    module : str
    homes : mapping of str to str
        Module of each name.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return find, lambda: sorted(homes)
