"""Checks of the weights of an MTP head: their precision, their structure, and what other weights would change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from irtools.ir.op import FLOATS
from irtools.lint.symptoms import cited
from irtools.prove.head_facts import HeadFacts
from irtools.prove.head_matrices import HeadMatrix
from irtools.prove.steps import FAILED, NOT_APPLICABLE, PASSED, WARNING, Check
from irtools.text import joined

__all__ = ["WeightChecks"]

_RANDOM = 1.1
"""Maximum structure of random weights: of 8,192 normally distributed matrices of 32 x 32, 18 had more, up to 1.16;
2,048 matrices of 64 x 64 had 0.95 to 1.07."""
_TRAINED = 1.2
"""Minimum structure of the matrices of a target by which those of a head are judged."""
_DECISIVE = 0.2
"""Minimum difference of the agreement by other norm weights for a conclusion.

A smaller one is no proof: a trained head can draft unusual texts better with other weights than its own.
"""
_SHIFTED = {"one larger": "too small by one", "one smaller": "too large by one"}
_SHOWN = 3


class WeightChecks:
    """Checks of the weights of one MTP head.

    Parameters
    ----------
    measured : mapping
        Result of :func:`irtools.prove.measure_head.measure`.
    """

    def __init__(self, facts: HeadFacts, measured: Mapping[str, Any]) -> None:
        self._facts = facts
        self._structure = measured["structure"]
        self._changed: Mapping[str, float] = measured.get("changed", {})

    # -- as they are stored ------------------------------------------------------------

    def stored(self) -> Iterator[Check]:
        """Checks that do not run the head."""
        yield self._precision()
        yield self._random()

    def _precision(self) -> Check:
        did = "compared the element types of the weights of head and target"
        types = self._facts.types
        head, target = types["head"], types["target"]
        saw = f"most values are {head} in the head, {target} in the target"
        if head in FLOATS and target and target not in FLOATS:
            why = "the head is uncompressed, but the target is compressed: the head runs for every drafted token, and "
            why += f"costs time and memory{cited('head/precision')}"
            return Check("precision", WARNING, did, saw, why, types)
        if head in FLOATS:
            saw += "; both are uncompressed"
        return Check("precision", PASSED, did, saw, figures=types)

    def _random(self) -> Check:
        did = "compared the structure of the head's matrices with that of the same matrices in the target"
        own, theirs = self._structure["mtp"], self._structure["target"]
        if not own:
            return Check("weights", NOT_APPLICABLE, did, why="no matrix of the head is large enough for this check")
        figures = {
            "head": {matrix.name: value for matrix, value in zip(self._facts.matrices, own, strict=True)},
            "target": theirs,
        }
        saw = f"from {min(own):.2f} to {max(own):.2f} in the head"
        saw += f", from {min(theirs):.2f} to {max(theirs):.2f} in the target" if theirs else ""
        saw += "; random numbers have 1"
        judged = list(self._judged())
        random = [matrix.name for matrix, value, _ in judged if value <= _RANDOM]
        more = [f"{len(random) - _SHOWN} more"] if len(random) > _SHOWN else []
        named = joined([*random[:_SHOWN], *more]) if random else ""
        wrong = [matrix.name for matrix, value, reference in judged if value <= _RANDOM and reference >= _TRAINED]
        if wrong:
            part = "all matrices" if len(random) == len(own) else named
            why = (
                f"{part} of the head {'are' if len(random) > 1 else 'is'} random, but the target is trained: the "
                "exporter leaves random what it does not find in a checkpoint"
            )
            return Check("weights", FAILED, did, saw, why + cited("head/weights"), figures)
        if random:
            why = (
                f"{named} of the head cannot be distinguished from random matrices, but neither can the target's, "
                "so this is not a fault"
            )
            return Check("weights", NOT_APPLICABLE, did, saw, why, figures)
        return Check("weights", PASSED, did, saw, figures=figures)

    def _judged(self) -> Iterator[tuple[HeadMatrix, float, float]]:
        """Each matrix with its structure and that of the reference: the least of its counterparts, or all."""
        rest, theirs = iter(self._structure["target"]), self._structure["target"]
        for matrix, value in zip(self._facts.matrices, self._structure["mtp"], strict=True):
            same = [next(rest) for _ in matrix.counterparts]
            if value:  # a matrix of equal elements is not random; other checks see what it does
                yield matrix, value, min(same) if same else median(theirs or [0.0])

    # -- with other weights ------------------------------------------------------------

    def changed(self, *, learnt: bool, needed: float) -> Iterator[Check]:
        """Checks that run the head with other weights.

        Parameters
        ----------
        learnt : bool
            True if the target is trained.
        needed : float
            Minimum agreement of a trained head.
        """
        shifted = "moved the weights of all norms by one, up and down"
        exchanged = "exchanged the weights of the two norms before the fusion"
        noisy = "added noise to the weights of the fusion"
        names = ("norm-weights", "fusion-norms", "fusion-noise")
        knows = any(share >= needed for share in self._changed.values())
        if not self._changed or not learnt or not knows:
            why = "the drafts agree too little with the target for a conclusion"
            for name, did in zip(names, (shifted, exchanged, noisy), strict=True):
                yield Check(name, NOT_APPLICABLE, did, why=why)
            return
        yield self._norms("norm-weights", shifted, tuple(_SHIFTED), needed)
        yield self._norms("fusion-norms", exchanged, ("exchanged",), needed)
        yield self._noise(noisy, needed)

    def _norms(self, name: str, did: str, changes: tuple[str, ...], needed: float) -> Check:
        tried = {change: self._changed[change] for change in changes if change in self._changed}
        if not tried:
            return Check(name, NOT_APPLICABLE, did, why="these norms were not found")
        own, saw, figures = self._changed["as it is"], self._saw(tried), self._figures(tried)
        best = max(tried, key=tried.__getitem__)
        if tried[best] >= max(own + _DECISIVE, needed):
            fault = _SHIFTED.get(best)
            why = f"the weights of the norms are {fault}" if fault else "the weights of these norms are exchanged"
            return Check(name, FAILED, did, saw, f"{why}: with the change, many more drafts agree", figures)
        alike = [change for change, share in tried.items() if share > own - _DECISIVE]
        if not alike:
            return Check(name, PASSED, did, saw, figures=figures)
        fault = " or ".join(_SHIFTED.get(change, change) for change in alike)
        why = f"about as many drafts agree, so this step cannot see norm weights that are {fault}"
        return Check(name, NOT_APPLICABLE, did, saw, f"{why}; {_COMPARE}", figures)

    def _noise(self, did: str, needed: float) -> Check:
        tried = {change: share for change, share in self._changed.items() if change.startswith("noise ")}
        if not tried:
            return Check("fusion-noise", NOT_APPLICABLE, did, why="the weights of the fusion were not found")
        saw, figures = self._saw(tried), self._figures(tried)
        hidden = [float(change.removeprefix("noise ")) for change, share in tried.items() if share >= needed]
        if not hidden:
            return Check("fusion-noise", PASSED, did, saw, figures=figures)
        why = (
            f"with noise of {max(hidden):.0%} of the weights' standard deviation the agreement is still that of a "
            f"trained head, so this step cannot see as much; compression to 4 bits adds about 10%; {_COMPARE}"
        )
        return Check("fusion-noise", NOT_APPLICABLE, did, saw, why, figures)

    def _saw(self, tried: Mapping[str, float]) -> str:
        shares = ", ".join(f"{_title(change)}: {share:.2f}" for change, share in tried.items())
        return f"share of agreeing drafts {self._changed['as it is']:.2f}; {shares}"

    def _figures(self, tried: Mapping[str, float]) -> dict[str, object]:
        return {"as it is": self._changed["as it is"], **tried}


_COMPARE = "compare the weights with the checkpoint's to exclude it"


def _title(change: str) -> str:
    size = change.removeprefix("noise ")
    return change if size == change else f"{float(size):.0%}"
