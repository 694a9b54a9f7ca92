"""Witness: numbered scopes in friendly names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from irtools.decoder.sublayer import Sublayer
from irtools.graph.view import GraphView

__all__ = ["Scopes", "read_names"]

_NUMBERED = re.compile(r"(?<=[./])([0-9]{1,18})(?=[./])")
_SAMPLE = 96  # names read per sublayer: enough to outvote the ops that two layers share


@dataclass(frozen=True, slots=True)
class Scopes:
    """The scope of the decoder stack, and the layer numbers under it.

    Attributes
    ----------
    prefix : str
        Scope of the stack, up to the layer number (``__module.model.layers.``).
    layers : tuple of int or None
        Layer number of each sublayer.
    """

    prefix: str
    layers: tuple[int | None, ...]

    def number(self, name: str) -> int | None:
        """Layer number in a friendly name; None if the name is not under the scope."""
        if not name.startswith(self.prefix):
            return None
        match = _NUMBERED.match(name, len(self.prefix))
        return int(match[1]) if match else None

    @property
    def scope(self) -> str:
        """The prefix without its final separator."""
        return self.prefix.rstrip("./")


def read_names(view: GraphView, sublayers: Sequence[Sublayer]) -> Scopes | None:
    """Find the scope that numbers the sublayers; None if there is none.

    Names are only evidence: the prefix may be anything, nested, or missing.
    """
    votes: list[dict[str, Counter[int]]] = []
    for sublayer in sublayers:
        counts: dict[str, Counter[int]] = {}
        for op in (sublayer.sum.op, *islice(sorted(sublayer.ops), _SAMPLE)):
            name = view.op_name(op)
            for match in _NUMBERED.finditer(name):
                counts.setdefault(name[: match.start()], Counter())[int(match[1])] += 1
        votes.append(counts)
    spread = Counter(prefix for counts in votes for prefix in counts)
    if not spread:
        return None

    def layers(prefix: str) -> tuple[int | None, ...]:
        return tuple(counts[prefix].most_common(1)[0][0] if prefix in counts else None for counts in votes)

    # The stack's scope covers most sublayers. If several scopes do, it is the one whose numbers vary.
    best = max(spread, key=lambda prefix: (spread[prefix], len({*layers(prefix)} - {None}), -len(prefix)))
    return Scopes(best, layers(best)) if spread[best] * 2 > len(sublayers) else None
