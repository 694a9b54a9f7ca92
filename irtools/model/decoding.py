"""Decoding strategies of OpenVINO GenAI: their names and the releases that have them."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from irtools.model.versions import release_numbers

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

    def missing(self, runtime: str, since: str = "") -> str:
        """Statement that a release of OpenVINO GenAI does not have the strategy; ``""`` if it has it.

        Parameters
        ----------
        runtime : str
            Version such as ``2026.3.1``.
        since : str, optional
            First release for the kind of draft in use, if it differs from that of the strategy.
        """
        first = since or self.since
        older = bool(first) and release_numbers(runtime) < release_numbers(first)
        return f"OpenVINO GenAI has it from {first} on" if older else ""


DECODING = MappingProxyType(
    {
        one.name: one
        for one in (
            Decoding("plain"),
            Decoding("mtp", "2026.4", "libopenvino_genai.so of 2026.3.1 does not contain openvino_mtp_model"),
            Decoding("dflash", "2026.4", "libopenvino_genai.so of 2026.3.1 does not contain dflash"),
            Decoding("eagle3", "2026.0", "libopenvino_genai.so of 2025.4.1 does not contain eagle3"),
            Decoding("draft", "2024.5", "tag 2024.5.0.0 of openvino.genai has `draft_model`, tag 2024.4.1.0 does not"),
        )
    }
)
"""All decoding strategies by name, in the order of every report."""
STRATEGIES = tuple(DECODING)
"""Names of all decoding strategies."""
DRAFTING = STRATEGIES[1:]
"""Names of the decoding strategies with a draft."""
