"""Step 1: check by measurements that the annotated values are the hidden states.

This needs no PyTorch. A cut shows that a value is a boundary: if the value is kept and all values before it are
changed, nothing after it may change. But a value between two sublayers of a layer is a boundary too, so patterns
check the blocks between two taps, and the taps are compared with the values that `locate` finds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from irtools.decoder.head import LmHead, find_head
from irtools.decoder.stack import DecoderStack
from irtools.errors import LocateRefusedError
from irtools.graph.view import GraphView
from irtools.model.directory import ModelDirectory
from irtools.prove.annotated import ResolvedTap, TapError, read_taps
from irtools.prove.bypass import Bypass, bypasses
from irtools.prove.prompts import few, others
from irtools.prove.steps import FAILED, NOT_APPLICABLE, PASSED, WARNING, Check, Step
from irtools.prove.sublayers import read_between
from irtools.prove.wording import apart, moved
from irtools.prove.worker import Measured, Worker
from irtools.runtime.child import Progress
from irtools.surgery.annotate import SameValue
from irtools.text import listed, plural

__all__ = ["taps"]

_SAME = 1e-5
"""Maximum rounding difference in the cut test: the same model with the same numbers, but sums in any order."""
_CLOSE = 1e-3
"""Maximum rounding difference between two compilations of the same graph: fusions round differently."""
_SEEN = 1e-3
"""Minimum effect of other tokens on the logits for a conclusive cut test."""


def taps(
    export: ModelDirectory,
    worker: Worker,
    tokens: Sequence[int],
    stack: DecoderStack | LocateRefusedError,
    progress: Progress | None = None,
) -> Step:
    """Check the annotation of an export's target by running it.

    Parameters
    ----------
    tokens : sequence of int
        Tokens of a prompt; the first few are used.
    stack : DecoderStack or LocateRefusedError
        Result of `locate`.
    """
    document = export.target
    try:
        annotated = read_taps(document)
    except TapError as error:
        obstacle = stack.obstacle if isinstance(stack, DecoderStack) else ""
        why = f"{error}; {obstacle or '`irtools annotate --force` writes a new annotation'}"
        return Step("taps", (Check("annotation", FAILED, "read the annotation", why=why),))
    if annotated is None:
        if isinstance(stack, LocateRefusedError):
            return Step("taps", why=f"the target has no annotation and cannot have one: {stack}")
        if stack.obstacle:
            return Step("taps", why=f"the target has no annotation and cannot have one: {stack.obstacle}")
        return Step("taps", why="the target has no annotation; `irtools annotate` writes it")
    try:
        head = find_head(document.graph)
    except LocateRefusedError as error:
        return Step("taps", why=str(error))
    return _TapChecks(document.graph, annotated, head, stack, few(tokens)).step(worker, progress)


@dataclass
class _TapChecks:
    view: GraphView
    taps: tuple[ResolvedTap, ...]
    head: LmHead
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
        return measured.step("taps", checks)

    def _request(self, passing: Sequence[Bypass]) -> dict[str, Any]:
        view, head = self.view, self.head
        return {
            "tokens": self.tokens,
            "other": others(self.tokens, head.vocabulary),
            "taps": [[tap.locator.producer, tap.locator.output_index] for tap in self.taps],
            "head": [view.op_name(head.op), view.inputs(head.op).index(head.input)],
            "bypasses": [
                [value.name, value.index, sorted(value.passed | value.after)] for value in passing if value.role
            ],
        }

    def _values(self, run: Measured) -> Check:
        """Check that each tap is finite and has the shape of a hidden state."""
        measured, length, faults = run.value, len(self.tokens), []
        widths = {value["shape"][-1] for value in measured["taps"][:-1] if len(value["shape"]) == 3}
        usual = self.head.shape[-1] if not widths or self.head.shape[-1] in widths else max(widths)
        last_length = measured["logits"][1] if len(measured["logits"]) == 3 else length
        for tap, value in zip(self.taps, measured["taps"], strict=True):
            last = tap is self.taps[-1]
            wanted = [1, last_length if last else length, self.head.shape[-1] if last else usual]
            if value["shape"] != wanted:
                shape = value["shape"]
                faults.append(f"the tap of layer {tap.layer} has the shape {shape}, but a hidden state has {wanted}")
            elif not value["finite"]:
                faults.append(f"the tap of layer {tap.layer} has values that are not finite")
        largest = [value["largest"] for value in measured["taps"] if value["finite"]]
        saw = f"{plural(len(self.taps), 'tap')}, the first of shape {measured['taps'][0]['shape']}, "
        saw += f"values up to {max(largest, default=0):.3g}"
        did = f"ran {length} tokens{run.remark} with exposed taps"
        shapes = [value["shape"] for value in measured["taps"]]
        figures = {"tokens": length, "properties": dict(run.properties), "shapes": shapes, "largest": largest}
        return Check("values", FAILED if faults else PASSED, did, saw, listed(faults), figures)

    def _head(self, measured: Mapping[str, Any]) -> Check:
        """Check that lm_head computes the logits from the last tap."""
        did = f"ran lm_head on the tap of layer {self.taps[-1].layer}"
        difference, effect = measured["head"]["difference"], measured["head"]["effect"]
        figures = {"difference": difference, "effect": effect}
        if measured["head"]["elements"] != math.prod(measured["logits"]):
            why = f"the result has the shape {measured['head']['shape']}, but the logits have {measured['logits']}"
            return Check("head", FAILED, did, "the shapes differ", why, figures)
        if difference is None:
            return Check("head", FAILED, did, "the result is not finite", "see the check of the values", figures)
        saw = f"{moved('the logits', difference)}; with the tap for other tokens, {moved('they', effect)}"
        if difference > _CLOSE:
            why = "the last layer's tap is not the input of lm_head, which is the value after the final norm"
            return Check("head", FAILED, did, saw, why, figures)
        if (effect or 0.0) < _SEEN:
            why = "the logits hardly depend on the input of lm_head, so this is inconclusive: are the weights trained?"
            return Check("head", WARNING, did, saw, why, figures)
        return Check("head", PASSED, did, saw, "", figures)

    def _cut(self, measured: Mapping[str, Any], passing: Sequence[Bypass]) -> Check:
        """Check that no value bypasses a tap."""
        did = f"kept each of {len(self.taps)} taps in turn and changed all values before it"
        effect = measured["effect"] or 0.0
        declared = [value for value in passing if value.role]
        figures: dict[str, Any] = {
            "effect": measured["effect"],
            "moved": [_most(by for _, by in after) for after in measured["moved"]],
            "agreement": _most(measured["agree"]),
            "bypasses": [[value.name, value.index, value.role] for value in declared],
        }
        saw = f"{moved('the values after a kept tap', _most(figures['moved']))}; "
        saw += f"without a kept tap, {moved('the logits', measured['effect'])}"
        if declared:
            roles = dict.fromkeys(value.role for value in declared)
            saw += f"; kept with the taps, because layers of this family share them: {' and '.join(roles)}"
            saw += f" ({len(declared)} values such as {declared[0].name!r})"
        if figures["agreement"] is None or figures["agreement"] > _CLOSE:
            why = f"the cut model with its own values has different results: {apart(figures['agreement'])}"
            return Check("cut", FAILED, did, saw, why, figures)
        leaks = self._leaks(measured["moved"], passing)
        if leaks:
            return Check("cut", FAILED, did, saw, listed(leaks), figures)
        if effect < _SEEN:
            why = "other tokens do not change the logits, so the cut test is inconclusive: are the weights trained?"
            return Check("cut", WARNING, did, saw, why, figures)
        quiet = [value for value in passing if not value.role]
        if quiet:
            at = self.taps[min(quiet[0].passed)].layer
            why = f"{quiet[0].name!r} bypasses the tap of layer {at}, but has no effect for these tokens"
            return Check("cut", WARNING, did, saw, why, figures)
        return Check("cut", PASSED, did, saw, "", figures)

    def _leaks(self, behind: Sequence[Sequence[Sequence[Any]]], passing: Sequence[Bypass]) -> list[str]:
        """Clauses for values that change after a kept tap, and the bypasses that may cause it."""
        leaks = []
        for position, after in enumerate(behind):
            first = next((entry for entry in after if entry[1] is None or entry[1] > _SAME), None)
            if first is None:
                continue
            changed = "the logits" if first[0] == len(self.taps) else f"the tap of layer {self.taps[first[0]].layer}"
            names = [repr(value.name) for value in passing if position in value.passed and not value.role]
            through = f", through {listed(names, separator=', ')}" if names else ""
            kept = f"although the tap of layer {self.taps[position].layer} was kept"
            leaks.append(f"{moved(changed, first[1])} {kept}{through}")
        return leaks

    def _between(self, passing: Sequence[Bypass]) -> Check:
        """Check for one token mixer with its state and one feed-forward block between two taps."""
        did = "matched the patterns between the embeddings, the taps and lm_head"
        stack = self.stack if isinstance(self.stack, DecoderStack) else None
        shares = any(value.role == "keys and values" for value in passing)
        try:
            between = read_between(self.view, self.taps, self.head, stack, shares=shares)
        except LocateRefusedError as error:
            return Check("between", NOT_APPLICABLE, did, why=str(error))
        problems, doubts = between.problems, between.doubts
        if problems or not doubts:
            return Check("between", FAILED if problems else PASSED, did, between.summary, listed(problems))
        why = f"{listed(doubts)}; `locate` finds the same layers, but the friendly names do not confirm them"
        return Check("between", WARNING, did, between.summary, why)

    def _located(self) -> Check:
        """Compare the taps with the values that `locate` finds."""
        did = "compared the taps with the result of `irtools locate`"
        if not isinstance(self.stack, DecoderStack):
            return Check("located", NOT_APPLICABLE, did, why=f"nothing was located: {self.stack}")
        same, layers = SameValue(self.view, self.stack), self.stack.layers
        faults = [
            f"layer {tap.layer} is annotated with {tap.locator.producer!r}, but `locate` finds "
            f"{layers[tap.layer].locator.producer!r}"
            for tap in self.taps
            if tap.layer < len(layers) and not same(tap.layer, tap.locator)
        ]
        annotated = {tap.layer for tap in self.taps}
        faults += [f"layer {layer} is not annotated" for layer in range(len(layers)) if layer not in annotated]
        faults += [f"there is no layer {layer}" for layer in sorted(annotated) if layer >= len(layers)]
        saw = f"{plural(len(layers), 'layer')} located, {len(self.taps)} annotated, {plural(len(faults), 'difference')}"
        return Check("located", FAILED if faults else PASSED, did, saw, listed(faults), {"differences": len(faults)})


def _most(differences: Iterable[float | None]) -> float | None:
    """Largest difference; None if one is None."""
    values = list(differences)
    return None if None in values else max(filter(None, values), default=0.0)
