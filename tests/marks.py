"""Marks that keep the fast tests fast."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

__all__ = ["mostly_slow"]


def mostly_slow(
    values: Iterable[Any], *, fast: int = 3, each: Callable[[Any], object] = type, names: int = 1
) -> list[Any]:
    """Parameters of which the first ``fast`` are tested always, and the others among the slow tests.

    Parameters
    ----------
    each : callable
        Kind of a value; the first ones of each kind are tested always. By default, the type.
    names : int
        Number of names that are parametrised; if there are several, a value is a tuple.
    """
    seen: dict[object, int] = {}
    params = []
    for value in values:
        kind = each(value)
        seen[kind] = seen.get(kind, 0) + 1
        marks = () if seen[kind] <= fast else pytest.mark.slow
        params.append(pytest.param(*(value if names > 1 else (value,)), marks=marks))
    return params
