"""Witness: the scopes in friendly names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from irtools.decoder.stretch import Stretch
from irtools.graph.view import GraphView

__all__ = ["Scopes", "read_names"]

_NUMBERED = re.compile(r"(?<=[./])(\d+)(?=[./])")
_SAMPLE = 96  # names looked at per stretch: enough to outvote the ops that two layers share


@dataclass(frozen=True, slots=True)
class Scopes:
    """What names say about the stretches.

    Attributes
    ----------
    prefix : str
        Scope of the stack, up to the layer number (``__module.model.layers.``).
    layers : tuple of int or None
        Layer number of each stretch.
    """

    prefix: str
    layers: tuple[int | None, ...]

    def number(self, name: str) -> int | None:
        """Layer number in a friendly name, None when it is not under the scope."""
        if not name.startswith(self.prefix):
            return None
        match = _NUMBERED.match(name, len(self.prefix))
        return int(match[1]) if match else None

    @property
    def scope(self) -> str:
        """The prefix without its final separator."""
        return self.prefix.rstrip("./")


def read_names(view: GraphView, pieces: Sequence[Stretch]) -> Scopes | None:
    """Find the scope under which the stretches are numbered.

    Names are evidence only: the prefix may be anything, nested, or missing.

    Returns
    -------
    Scopes or None
        None when no scope numbers the stretches.
    """
    votes: list[dict[str, Counter[int]]] = []
    for piece in pieces:
        found: dict[str, Counter[int]] = {}
        for op in (piece.sum.op, *islice(sorted(piece.ops), _SAMPLE)):
            name = view.op_name(op)
            for match in _NUMBERED.finditer(name):
                found.setdefault(name[: match.start()], Counter())[int(match[1])] += 1
        votes.append(found)
    spread = Counter(prefix for found in votes for prefix in found)
    if not spread:
        return None

    # The stack's scope covers most stretches; of two that do, the one whose numbers vary.
    def merit(prefix: str) -> tuple[int, int, int]:
        numbers = {found[prefix].most_common(1)[0][0] for found in votes if prefix in found}
        return spread[prefix], len(numbers), -len(prefix)

    best = max(spread, key=merit)
    if spread[best] * 2 <= len(pieces):
        return None
    return Scopes(best, tuple(found[best].most_common(1)[0][0] if best in found else None for found in votes))
