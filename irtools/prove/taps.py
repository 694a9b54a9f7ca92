"""Step 1: whether the annotated values are the hidden states, as running the model shows it.

Nothing of PyTorch is needed. That a value is a boundary, a cut shows: when it is kept and all
before it changed, nothing after it may move. But a point inside a layer is a boundary too, so
the patterns say what lies between two taps, and `locate` says which values it would name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from irtools.decoder.head import Head, find_head
from irtools.decoder.stack import DecoderStack
from irtools.errors import LocateRefusedError
from irtools.graph.view import GraphView
from irtools.model.directory import ModelDirectory
from irtools.prove.annotated import Tap, TapError, read_taps
from irtools.prove.between import read_between
from irtools.prove.bypass import Bypass, bypasses
from irtools.prove.model import FAILED, NOT_APPLICABLE, PASSED, WARNING, Check, Step
from irtools.prove.tokens import few, others
from irtools.prove.wording import apart, listed, moved
from irtools.prove.worker import Measured, Worker
from irtools.runtime.lines import Progress
from irtools.surgery.annotate import SameValue

__all__ = ["taps"]

_SAME = 1e-5
"""What may move in the cut test: the same model with the same numbers computes the same, but for the order of sums."""
_CLOSE = 1e-3
"""What may differ between two compilations of the same graph: fusions round differently."""
_SEEN = 1e-3
"""Below this, other tokens change the logits too little for a cut to say anything."""


def taps(
    export: ModelDirectory,
    worker: Worker,
    tokens: Sequence[int],
    stack: DecoderStack | LocateRefusedError,
    progress: Progress | None = None,
) -> Step:
    """Judge the annotation of an export's target by running it.

    Parameters
    ----------
    export : ModelDirectory
    worker : Worker
    tokens : sequence of int
        Of a prompt; the first few are used.
    stack : DecoderStack or LocateRefusedError
        What `locate` found, or why it refuses.
    progress : callable, optional
        Takes what is being done, as a clause.
    """
    document = export.target
    try:
        found = read_taps(document)
    except TapError as error:
        check = Check(
            "annotation", FAILED, "read the annotation", why=f"{error}; `irtools annotate --force` writes another"
        )
        return Step("taps", (check,))
    if found is None:
        if isinstance(stack, LocateRefusedError):
            return Step("taps", why=f"the target has no annotation, and can have none: {stack}")
        return Step("taps", why="the target has no annotation; `irtools annotate` writes it")
    try:
        head = find_head(document.graph)
    except LocateRefusedError as error:
        return Step("taps", why=str(error))
    return _Judgement(document.graph, found, head, stack, list(tokens)).step(worker, progress)


@dataclass
class _Judgement:
    view: GraphView
    taps: tuple[Tap, ...]
    head: Head
    stack: DecoderStack | LocateRefusedError
    tokens: list[int]

    def step(self, worker: Worker, progress: Progress | None) -> Step:
        passing = bypasses(self.view, self.taps, self.head.logits)
        measured = worker.measure("taps", self._request(passing), progress)
        checks: list[Check] = []
        if measured.done:
            values = measured.value
            checks += [self._values(measured), self._head(values), self._cut(values, passing)]
        elif measured.inapplicable:
            did, why = "ran the target", measured.inapplicable
            checks += [Check(name, NOT_APPLICABLE, did, why=why) for name in ("values", "head", "cut")]
        checks += [self._between(passing), self._located()]
        return Step(
            "taps",
            tuple(checks),
            why=measured.broken,
            seconds=measured.seconds,
            peak_memory=measured.peak_memory,
            broken=bool(measured.broken),
        )

    def _request(self, passing: Sequence[Bypass]) -> dict[str, Any]:
        view, head = self.view, self.head
        tokens = few(self.tokens)
        return {
            "tokens": tokens,
            "other": others(tokens, head.vocabulary),
            "taps": [[tap.locator.producer, tap.locator.output_index] for tap in self.taps],
            "head": [view.op_name(head.op), view.inputs(head.op).index(head.input)],
            "bypasses": [
                [value.name, value.index, sorted(value.passed | value.after)] for value in passing if value.role
            ],
        }

    def _values(self, run: Measured) -> Check:
        """Finite, and of the shape that a hidden state has."""
        measured, length, faults = run.value, len(few(self.tokens)), []
        widths = {found["shape"][-1] for found in measured["taps"][:-1] if len(found["shape"]) == 3}
        usual = self.head.shape[-1] if not widths or self.head.shape[-1] in widths else max(widths)
        last_length = measured["logits"][1] if len(measured["logits"]) == 3 else length
        for tap, found in zip(self.taps, measured["taps"], strict=True):
            last = tap is self.taps[-1]
            wanted = [1, last_length if last else length, self.head.shape[-1] if last else usual]
            if found["shape"] != wanted:
                faults.append(f"the tap of layer {tap.layer} has the shape {found['shape']}, a hidden state {wanted}")
            elif not found["finite"]:
                faults.append(f"the tap of layer {tap.layer} has values that are not finite")
        largest = [found["largest"] for found in measured["taps"] if found["finite"]]
        saw = f"{len(self.taps)} taps, the first of shape {measured['taps'][0]['shape']}, "
        saw += f"values up to {max(largest, default=0):.3g}"
        return Check(
            "values",
            FAILED if faults else PASSED,
            f"ran {length} tokens{run.remark} with the annotated outputs exposed",
            saw,
            listed(faults),
            {
                "tokens": length,
                "properties": dict(run.properties),
                "shapes": [found["shape"] for found in measured["taps"]],
                "largest": largest,
            },
        )

    def _head(self, measured: Mapping[str, Any]) -> Check:
        """The head makes the logits of the last tap."""
        did = f"multiplied the tap of layer {self.taps[-1].layer} with the head's weights"
        difference, effect = measured["head"]["difference"], measured["head"]["effect"]
        figures = {"difference": difference, "effect": effect}
        if measured["head"]["elements"] != math.prod(measured["logits"]):
            why = f"the head makes {measured['head']['shape']} of it, and the logits are {measured['logits']}"
            return Check("head", FAILED, did, "no logits", why, figures)
        if difference is None:
            return Check("head", FAILED, did, "values that are not finite", "no number came out: see the taps", figures)
        saw = f"{moved('the logits', difference)}; with the tap of other tokens, {moved('they', effect)}"
        if difference > _CLOSE:
            why = "the last layer's tap is not what the head reads, which is taken after the final norm"
            return Check("head", FAILED, did, saw, why, figures)
        if (effect or 0.0) < _SEEN:
            why = "the logits hardly depend on what the head is given, so this says nothing: are the weights real?"
            return Check("head", WARNING, did, saw, why, figures)
        return Check("head", PASSED, did, saw, "", figures)

    def _cut(self, measured: Mapping[str, Any], passing: Sequence[Bypass]) -> Check:
        """Nothing passes a tap by."""
        did = f"kept each of {len(self.taps)} taps in turn and changed the tokens before it"
        effect = measured["effect"] or 0.0
        declared = [value for value in passing if value.role]
        figures: dict[str, Any] = {
            "effect": measured["effect"],
            "moved": [_most(by for _, by in after) for after in measured["moved"]],
            "agreement": _most(measured["agree"]),
            "bypasses": [[value.name, value.index, value.role] for value in declared],
        }
        saw = f"{moved('what lies behind a kept tap', _most(figures['moved']))}; "
        saw += f"with no tap kept, {moved('the logits', measured['effect'])}"
        if declared:
            roles = dict.fromkeys(value.role for value in declared)
            saw += f"; kept with the taps, because the family shares them: {' and '.join(roles)}"
            saw += f" ({len(declared)} values such as {declared[0].name!r})"
        if figures["agreement"] is None or figures["agreement"] > _CLOSE:
            why = f"cut and fed with its own values, the model gives other ones: {apart(figures['agreement'])}"
            return Check("cut", FAILED, did, saw, why, figures)
        leaks = self._leaks(measured["moved"], passing)
        if leaks:
            return Check("cut", FAILED, did, saw, listed(leaks), figures)
        if effect < _SEEN:
            why = "changing the tokens does not change the logits, so the cut test says nothing: are the weights real?"
            return Check("cut", WARNING, did, saw, why, figures)
        quiet = [value for value in passing if not value.role]
        if quiet:
            at = self.taps[min(quiet[0].passed)].layer
            why = f"{quiet[0].name!r} passes the tap of layer {at} by, though these tokens show no effect of it"
            return Check("cut", WARNING, did, saw, why, figures)
        return Check("cut", PASSED, did, saw, "", figures)

    def _leaks(self, behind: Sequence[Sequence[Sequence[Any]]], passing: Sequence[Bypass]) -> list[str]:
        """What moves behind a kept tap, and what carries it there."""
        found = []
        for position, after in enumerate(behind):
            first = next((entry for entry in after if entry[1] is None or entry[1] > _SAME), None)
            if first is None:
                continue
            what = "the logits" if first[0] == len(self.taps) else f"the tap of layer {self.taps[first[0]].layer}"
            names = [repr(value.name) for value in passing if position in value.passed and not value.role]
            through = f", through {_some(names)}" if names else ""
            kept = f"though the tap of layer {self.taps[position].layer} was kept"
            found.append(f"{moved(what, first[1])} {kept}{through}")
        return found

    def _between(self, passing: Sequence[Bypass]) -> Check:
        """One token mixer with its state and one feed-forward block from tap to tap."""
        did = "matched the patterns between the embeddings, the taps and the head"
        stack = self.stack if isinstance(self.stack, DecoderStack) else None
        shares = any(value.role == "keys and values" for value in passing)
        try:
            between = read_between(self.view, self.taps, self.head, stack, shares=shares)
        except LocateRefusedError as error:
            return Check("between", NOT_APPLICABLE, did, why=str(error))
        problems, doubts = between.problems, between.doubts
        if problems or not doubts:
            return Check("between", FAILED if problems else PASSED, did, between.summary, listed(problems))
        why = f"{listed(doubts)}; `locate` takes these for layers, and nothing in their names says so"
        return Check("between", WARNING, did, between.summary, why)

    def _located(self) -> Check:
        """The same values as those that `locate` finds."""
        did = "compared with what `irtools locate` finds"
        if not isinstance(self.stack, DecoderStack):
            return Check("located", NOT_APPLICABLE, did, why=f"nothing was located: {self.stack}")
        same, layers = SameValue(self.view, self.stack), self.stack.layers
        faults = [
            f"layer {tap.layer} is annotated with {tap.locator.producer!r}, located was "
            f"{layers[tap.layer].locator.producer!r}"
            for tap in self.taps
            if tap.layer < len(layers) and not same(tap.layer, tap.locator)
        ]
        annotated = {tap.layer for tap in self.taps}
        faults += [f"layer {layer} has no annotation" for layer in range(len(layers)) if layer not in annotated]
        faults += [f"there is no layer {layer}" for layer in sorted(annotated) if layer >= len(layers)]
        saw = f"{len(layers)} layers located, {len(self.taps)} annotated, {len(faults)} differences"
        return Check("located", FAILED if faults else PASSED, did, saw, listed(faults), {"differences": len(faults)})


def _most(differences: Iterable[float | None]) -> float | None:
    """The largest of some differences; None if one is no number."""
    found = list(differences)
    return None if None in found else max(filter(None, found), default=0.0)


def _some(names: Sequence[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
