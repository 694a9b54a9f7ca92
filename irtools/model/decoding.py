"""Decoding strategies of OpenVINO GenAI: their names and the releases that have them."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["DECODING", "DRAFTING", "STRATEGIES", "Decoding"]


@dataclass(frozen=True, slots=True)
class Decoding:
    """A decoding strategy, as the runtime has it.

    Attributes
    ----------
    since : str
        First release of OpenVINO GenAI that has it, such as ``2026.4``; empty if every release does that irtools knows.
    source : str
        Origin of ``since``.
    """

    name: str
    since: str = ""
    source: str = ""


DECODING = MappingProxyType(
    {
        one.name: one
        for one in (
            Decoding("plain"),
            Decoding("mtp", "2026.4", "the library of OpenVINO GenAI 2026.3.1 does not contain the string"),
            Decoding("dflash", "2026.4", "the library of OpenVINO GenAI 2026.3.1 does not contain the string"),
            Decoding("eagle3", "2026.0", "optimum-intel pull request 1588"),
        )
    }
)
"""All decoding strategies by name, in the order of every report."""
STRATEGIES = tuple(DECODING)
"""Names of all decoding strategies."""
DRAFTING = STRATEGIES[1:]
"""Names of the decoding strategies with a draft."""
