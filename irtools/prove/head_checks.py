"""Checks of the step ``head`` from its measurements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from irtools.lint.symptoms import cited
from irtools.prove.head_facts import ATTENTION, FEED_FORWARD, HeadFacts
from irtools.prove.head_weight_checks import WeightChecks
from irtools.prove.steps import FAILED, NOT_APPLICABLE, PASSED, WARNING, Check
from irtools.prove.wording import apart, moved

__all__ = ["HeadChecks"]

_NOTHING = 1e-5
"""Maximum change of an output by rounding alone."""
_NORMALISED = 1e-2
"""Maximum effect of an input scale after a norm; it comes from the epsilon of the norm."""
_SAME = 1e-4
"""Maximum difference between equal hidden states."""
_FREQUENCY = 1e-2
"""Maximum relative difference between equal frequencies, which may be stored in 16 bits."""
_STEADY = 0.25
"""Maximum excess of the relative RMS variation of a normalised output over that of the target."""
_CERTAIN = 0.2
"""Minimum mean probability that a trained target gives its own tokens."""
_KNOWING = 1 / 3
"""Share of the tokens other than the most frequent one that a trained head must predict."""
_BETTER = 0.2
"""Minimum gain in agreement by another wiring for it to be the right one."""
_CONTRIBUTES = 0.25
"""Minimum relative increase of the loss when the output of a trained block is permuted."""
_IDLE = 0.05
"""Maximum relative change of the loss for a block without effect. Above it, this block may be weak or another wrong.

A tiny trained head has 0.00 with random attention, 0.001 with a random MLP, and at least 0.9 with neither.
"""
_TINY = 1e-9
_ALIKE = 3.0
"""Maximum ratio of the two final-norm output RMS values."""
_FED = {
    "hidden_states": ("hidden-states", "hidden state"),
    "inputs_embeds": ("embeddings", "embeddings"),
    "position_ids": ("positions", "positions"),
    "attention_mask": ("mask", "mask"),
}
_CHANGED = {
    "hidden_states": "reversed the order of the hidden states",
    "inputs_embeds": "reversed the order of the embeddings",
    "position_ids": "multiplied the positions by 3",
    "attention_mask": "masked the first half of the tokens",
}
_WIRED = {
    "exchanged": "hidden states and embeddings exchanged: the inputs, their names or the operands of the fusion are "
    "swapped",
    "own token": "the embedding at the hidden state's position, but the runtime gives that of the next token",
    "next hidden state": "the hidden state at the embedded token's position, but the runtime gives the previous one",
    "before the norm": "the hidden state before the target's final norm, but the runtime gives the one after it",
}


class HeadChecks:
    """Checks of one MTP head.

    Parameters
    ----------
    measured : mapping
        Result of :func:`irtools.prove.measure_head.measure`.
    remark : str
        Remark about random inputs, to append to a clause.
    """

    def __init__(self, facts: HeadFacts, measured: Mapping[str, Any], remark: str) -> None:
        self._facts = facts
        self._measured = measured
        self._remark = remark
        self._weights = WeightChecks(facts, measured)

    def checks(self) -> Iterator[Check]:
        """All checks in order; if the output is not finite, only those that do not need it."""
        yield from self._handed_over()
        yield self._values()
        yield self._frequencies()
        yield self._layer()
        yield from self._weights.stored()
        if not self._measured["finite"]:
            return
        yield from self._inputs()
        yield self._input_norms()
        yield self._final_norm()
        yield self._agreement()
        yield self._wiring()
        yield from self._blocks()
        yield from self._weights.changed(learnt=self._learnt, needed=self._needed)

    # -- values ------------------------------------------------------------------------

    def _handed_over(self) -> Iterator[Check]:
        """The runtime uses any output named ``last_hidden_state`` as the hidden state."""
        difference = self._measured["named"]
        if difference == -1:
            return
        did = "compared the target's output 'last_hidden_state' with the input of its lm_head"
        saw, figures = apart(difference), {"difference": difference}
        if difference is None or difference > _SAME:
            why = (
                "the runtime gives the head this output because of its name, but it is not the hidden state: "
                f"rename it{cited('head/hand-over')}"
            )
            yield Check("hand-over", FAILED, did, saw, why, figures)
        else:
            yield Check("hand-over", PASSED, did, saw, figures=figures)

    def _values(self) -> Check:
        did = f"called the head with hidden states and the embeddings of the next tokens{self._remark}"
        shape, expected, finite = (self._measured[key] for key in ("shape", "expected", "finite"))
        figures = {"shape": shape, "finite": finite}
        if shape != expected:
            saw = f"the output has the shape {shape} instead of {expected}"
            return Check("values", FAILED, did, saw, "each input hidden state must yield one output", figures)
        if not finite:
            why = "a weight is not finite, or the head overflows in f32"
            return Check("values", FAILED, did, f"the output {shape} has values that are not finite", why, figures)
        return Check("values", PASSED, did, f"the output {shape} is finite", figures=figures)

    def _frequencies(self) -> Check:
        did = "compared the rotary frequencies of the head and the target"
        target, own = self._measured["frequencies"]["target"], self._measured["frequencies"]["mtp"]
        if not target or not own:
            model = "the head" if not own else "the target"
            why = f"{model} has no constant that is multiplied by the positions"
            return Check("rotary", NOT_APPLICABLE, did, why=why)
        figures = {"target": target, "head": own}
        other = [ours for ours in own if not any(_equal(ours, theirs) for theirs in target)]
        saw = f"{_count(own)} in the head, {_count(target)} in the target"
        if other:
            why = "the head should rotate like the layers of its target: its rotary dimension or base is wrong" + cited(
                "head/rotary"
            )
            return Check("rotary", FAILED, did, f"{saw}, with different values or in another order", why, figures)
        return Check("rotary", PASSED, did, f"{saw}, the same", figures=figures)

    def _layer(self) -> Check:
        did = "compared the ops and shapes of the head's layer with those of the target's layers"
        odd = self._facts.unlike_target()
        if odd is None:
            why = "the layers of the target or the head could not be divided into blocks"
            return Check("layer", NOT_APPLICABLE, did, why=why)
        if odd:
            why = "the exporter builds head and target from the same classes, so an op is missing or superfluous"
            return Check("layer", WARNING, did, f"no layer of the target has {' or '.join(odd)}", why)
        return Check("layer", PASSED, did, "a layer of the target is the same")

    # -- inputs ------------------------------------------------------------------------

    def _inputs(self) -> Iterator[Check]:
        for name, by in self._measured["inputs"].items():
            check, label = _FED[name]
            saw, figures = moved("the last output", by), {"difference": by}
            if by is not None and by > _NOTHING:
                yield Check(check, PASSED, _CHANGED[name], saw, figures=figures)
            elif name == "attention_mask":
                why = "the stateful path needs the mask; the paged path does not use it"
                yield Check(check, WARNING, _CHANGED[name], saw, why, figures)
            else:
                why = f"the head ignores its {label}: the input is not connected, or its weights are zero"
                why += cited(f"head/{check}")
                yield Check(check, FAILED, _CHANGED[name], saw, why, figures)

    def _input_norms(self) -> Check:
        did = "multiplied the hidden states by 4, then the embeddings"
        scaled = self._measured["scaled"]
        saw = "; ".join(f"with {name}, {moved('the output', by)}" for name, by in scaled.items())
        bare = [name for name, by in scaled.items() if by is None or by > _NORMALISED]
        if bare:
            why = f"{' and '.join(bare)} are not normalised before the fusion, although their scales differ"
            why += cited("head/input-norms")
            return Check("input-norms", WARNING, did, saw, why, scaled)
        return Check("input-norms", PASSED, did, saw, figures=scaled)

    def _final_norm(self) -> Check:
        did = "compared the RMS of the output per token with that of the target's hidden states"
        (mean, spread), (own_mean, own_spread) = self._measured["magnitude"], self._measured["hidden magnitude"]
        saw = (
            f"mean {mean:.3g} with a deviation of {spread:.0%}; "
            f"in the target {own_mean:.3g} with a deviation of {own_spread:.0%}"
        )
        figures = {"mean": mean, "spread": spread, "target_mean": own_mean, "target_spread": own_spread}
        if not self._facts.normed:
            why = "the output is not that of a norm, but the target's lm_head needs a normalised input"
            why += cited("head/final-norm")
            return Check("final-norm", FAILED, did, saw, why, figures)
        if spread > own_spread + _STEADY:
            why = "the outputs of a norm have about the same RMS, but these do not"
            return Check("final-norm", WARNING, did, saw, why, figures)
        if not own_mean / _ALIKE <= mean <= own_mean * _ALIKE:
            why = "the weights of the final norm may be wrong: the RMS is far from that of the target"
            return Check("final-norm", WARNING, did, saw, why, figures)
        return Check("final-norm", PASSED, did, saw, figures=figures)

    # -- drafts ------------------------------------------------------------------------

    @property
    def _share(self) -> float:
        return float(self._measured["agreement"]["as it is"] / max(1, self._measured["agreement"]["positions"]))

    @property
    def _needed(self) -> float:
        """Minimum agreement of a trained head."""
        commonest = float(self._measured["agreement"]["commonest"])
        return commonest + (1 - commonest) * _KNOWING

    @property
    def _knows(self) -> bool:
        return self._share >= self._needed

    @property
    def _learnt(self) -> bool:
        """True if the target is trained."""
        return float(self._measured["agreement"]["certainty"]) >= _CERTAIN

    @property
    def _uncovered(self) -> str:
        """Clause about the tokens of the target that a draft head does not cover; ``""`` if it covers all."""
        counts = self._measured["agreement"]
        left = counts["uncovered"]
        share = left / (left + counts["positions"])
        return f"; {left} more ({share:.0%}) are tokens that the draft head does not cover" if left else ""

    def _agreement(self) -> Check:
        counts, ahead = self._measured["agreement"], self._measured["ahead"]
        did = "continued the prompts with the target, and drafted each next token with the head"
        saw = (
            f"{counts['as it is']} of {counts['positions']} drafts are the target's token ({self._share:.2f}); "
            f"the most frequent token alone would reach {counts['commonest']:.2f}; "
            "in short texts, drafts one, two and three tokens ahead: "
            + ", ".join(f"{right} of {tried}" for right, tried in ahead)
            + self._uncovered
        )
        figures = {
            "agreed": counts["as it is"],
            "positions": counts["positions"],
            "uncovered": counts["uncovered"],
            "share": self._share,
            "chance": counts["commonest"],
            "target_certainty": counts["certainty"],
            "by_prompt": counts["by prompt"],
            "ahead": ahead,
        }
        if not counts["positions"]:
            why = "the draft head covers none of the tokens that the target generated, so no draft can be accepted"
            return Check("agreement", WARNING, did, saw, why, figures)
        if self._knows:
            return Check("agreement", PASSED, did, saw, figures=figures)
        if not self._learnt:
            why = (
                f"the agreement is near chance, but the target gives its tokens a probability of only "
                f"{counts['certainty']:.3f}: its weights are random, so no head can predict them"
            )
            return Check("agreement", WARNING, did, saw, why, figures)
        why = (
            f"a head trained for this target reaches at least {self._needed:.2f}: this one is wired wrong, untrained, "
            "or belongs to another model; the other checks of this step may show the cause"
        )
        return Check("agreement", FAILED, did, saw, why, figures)

    def _wiring(self) -> Check:
        counts = self._measured["agreement"]
        others = {name: counts[name] / max(1, counts["positions"]) for name in _WIRED if name in counts}
        did = "counted the agreeing drafts with other input wirings than that of the runtime"
        saw = "; ".join(f"{name}: {share:.2f}" for name, share in others.items())
        best = max(others, key=others.__getitem__)
        if others[best] >= max(self._share + _BETTER, self._needed):
            why = f"the drafts agree with {_WIRED[best]}{cited(f'head/wiring {best}')}"
            return Check("wiring", FAILED, did, saw, why, others)
        if not self._knows:
            why = "the drafts do not agree with the target for any wiring, so this check is inconclusive"
            return Check("wiring", NOT_APPLICABLE, did, saw, why, others)
        return Check("wiring", PASSED, did, f"{saw}; wiring of the runtime: {self._share:.2f}", figures=others)

    # -- blocks ------------------------------------------------------------------------

    def _blocks(self) -> Iterator[Check]:
        measured = self._measured["branches"]
        gains = {kind: values["reordered"] / max(values["loss"], _TINY) - 1 for kind, values in measured.items()}
        idle = min(gains, key=lambda kind: abs(gains[kind]), default="")
        for kind in (ATTENTION, FEED_FORWARD):
            did = f"permuted the output of the {kind} block in several ways"
            if kind not in measured:
                yield self._no_block(kind, did)
                continue
            values = measured[kind]
            saw = f"the loss of the target's tokens changes from {values['loss']:.3f} to {values['reordered']:.3f}"
            figures = dict(values)
            if not self._knows:
                why = "the drafts agree too little with the target for a conclusion"
                yield Check(kind, NOT_APPLICABLE, did, saw, why, figures)
            elif gains[kind] >= _CONTRIBUTES:
                yield Check(kind, PASSED, did, saw, figures=figures)
            elif abs(gains[kind]) <= _IDLE:
                why = f"the order of the {kind} block's output does not matter: its weights are random or zero"
                yield Check(kind, FAILED, did, saw, why, figures)
            else:
                why = f"the output of the {kind} block helps little or does harm; the cause may be a wrong {idle} block"
                yield Check(kind, WARNING, did, saw, why, figures)

    def _no_block(self, kind: str, did: str) -> Check:
        """Fail only for a head of one layer, which has both blocks; the pattern does not cover other heads."""
        facts = self._facts
        if facts.blocks and facts.layers <= 1:
            why = f"the head has no {kind} block on the residual stream between fusion and output"
            why += cited("head/no block")
            return Check(kind, FAILED, did, "no block was found", why)
        return Check(kind, NOT_APPLICABLE, did, why="the blocks of the head were not recognised")


def _equal(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """True if two lists have the same numbers in the same order, within 16-bit precision."""
    # The target is the reference: `math.isclose` would be symmetric.
    return len(ours) == len(theirs) and all(
        abs(one - other) <= _FREQUENCY * abs(other) for one, other in zip(ours, theirs, strict=True)
    )


def _count(lists: Sequence[Sequence[float]]) -> str:
    return " and ".join(str(size) for size in sorted({len(values) for values in lists}))
