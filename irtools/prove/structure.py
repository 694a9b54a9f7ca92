"""Structure of trained weights. Runs in the worker process.

Rows of a trained matrix resemble each other more than rows of independent numbers do, because training moves them along
few directions. The measure is the sum of the squared products of all pairs of rows, relative to what independent
numbers with the same variance and kurtosis give: 1 for random or shuffled weights of any distribution, more for trained
ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from irtools.model.annotation import Locator
from irtools.prove.cutting import find
from irtools.prove.drafting import constants
from irtools.prove.drive import Session

__all__ = ["measure_structure", "structure"]

_ROWS, _COLUMNS = 1024, 4096
"""Maximum size of the sample of a matrix."""
_EXPERTS = 4
"""Maximum number of matrices of one constant that are measured."""


def measure_structure(session: Session, places: Mapping[str, Sequence[Sequence[Any]]]) -> dict[str, list[float]]:
    """Structure of the matrices of each part, in the order of their places (``[name, input index]``)."""
    measured = {}
    for part, wanted in places.items():
        readers = find(session.copy(part), [Locator(name) for name, _ in wanted]) if wanted else {}
        ports = [readers[Locator(name)].get_node().input_value(index) for name, index in wanted]
        measured[part] = [_of(session, port) for port in ports]
    return measured


def _of(session: Session, port: Any) -> float:
    (values,) = constants(session, [port])
    matrices = values.reshape(-1, *values.shape[-2:])[:_EXPERTS]
    return float(np.mean([structure(matrix) for matrix in matrices]))


def structure(matrix: Any) -> float:
    """Structure of a matrix; 0 if all its elements are equal.

    For independent elements with variance v and kurtosis k, the expected sum over all pairs of r rows of c elements is
    ``v^2 r c (r + c + k - 2)``.
    """
    steps = [max(1, -(-size // most)) for size, most in zip(sorted(matrix.shape), (_ROWS, _COLUMNS), strict=True)]
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    sample = wide[:: steps[0], :: steps[1]].astype(np.float32)
    sample = sample - sample.mean()
    rows, columns = sample.shape
    variance = float((sample**2).mean())
    if not variance or not np.isfinite(variance):
        return 0.0
    sample = sample / np.float32(variance**0.5)
    kurtosis = float((sample**4).mean())
    found = float(((sample @ sample.T).astype(np.float64) ** 2).sum())
    return found / float(rows * columns * (rows + columns + kurtosis - 2))
