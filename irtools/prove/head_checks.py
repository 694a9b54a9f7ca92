"""What the figures of the step ``head`` mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from irtools.prove.head_facts import ATTENTION, FEED_FORWARD, HeadFacts
from irtools.prove.model import FAILED, NOT_APPLICABLE, PASSED, WARNING, Check
from irtools.prove.wording import apart, moved

__all__ = ["Judgement"]

_NOTHING = 1e-5
"""What an output moves by when nothing about its inputs matters: rounding."""
_NORMALISED = 1e-2
"""A norm leaves no more than its epsilon of a scale."""
_SAME = 1e-4
_FREQUENCY = 1e-2
"""Frequencies may be stored in 16 bits."""
_STEADY = 0.25
"""How much more, relative to its mean, the size of a normalised output may vary than the target's own does."""
_CERTAIN = 0.2
"""Mean probability of its own token from which a target has learnt something."""
_KNOWING = 1 / 3
"""How much of what a guess at the commonest token leaves open a head must get right."""
_BETTER = 0.2
_CONTRIBUTES = 0.25
"""How much worse the drafts must become, at least, when what a trained block adds is put out of order."""
_IDLE = 0.05
"""What it makes no difference to, nearly; more than that may be a block that matters little, or another that is wrong.

Of a tiny trained head: 0.00 with random attention, 0.001 with a random MLP, 0.9 and more with neither.
"""
_TINY = 1e-9
_ALIKE = 3.0
"""By which factor the sizes of what two final norms give out may differ."""
_FED = {
    "hidden_states": ("hidden-states", "hidden state", "MTP035"),
    "inputs_embeds": ("embeddings", "embeddings", "MTP035"),
    "position_ids": ("positions", "positions", "MTP035"),
    "attention_mask": ("mask", "mask", ""),
}
_CHANGED = {
    "hidden_states": "fed the hidden states in reverse order",
    "inputs_embeds": "fed the embeddings in reverse order",
    "position_ids": "fed positions three times as far apart",
    "attention_mask": "masked the first half of the tokens",
}
_WIRED = {
    "exchanged": "hidden states and embeddings exchanged: the inputs, their names or the operands of the fusion are "
    "swapped (MTP034)",
    "own token": "the embedding of the hidden state's own token, where the runtime feeds that of the next one",
    "next hidden state": "the hidden state of the embedded token, where the runtime feeds that of the one before",
    "before the norm": "the hidden state before the target's final norm, where the runtime feeds the one behind it",
}


class Judgement:
    """Checks of one head.

    Parameters
    ----------
    facts : HeadFacts
    found : mapping
        What :func:`irtools.prove.measure_head.measure` returned.
    remark : str
        To be put behind what was done, about inputs that were made up.
    """

    def __init__(self, facts: HeadFacts, found: Mapping[str, Any], remark: str) -> None:
        self._facts = facts
        self._found = found
        self._remark = remark

    def checks(self) -> Iterator[Check]:
        """All, in order; those that need numbers only if the output has some."""
        yield from self._handed_over()
        yield self._values()
        yield self._frequencies()
        yield self._layer()
        if not self._found["finite"]:
            return
        yield from self._inputs()
        yield self._input_norms()
        yield self._final_norm()
        yield self._agreement()
        yield self._wiring()
        yield from self._blocks()

    # -- values ------------------------------------------------------------------------

    def _handed_over(self) -> Iterator[Check]:
        """The runtime takes an output of this name for the hidden state, whatever it is."""
        difference = self._found["named"]
        if difference == -1:
            return
        did = "compared the target's output 'last_hidden_state' with what its output projection reads"
        saw, figures = apart(difference), {"difference": difference}
        if difference is None or difference > _SAME:
            why = (
                "the runtime feeds the head with that output because of its name, and it is not the hidden state: "
                "rename it (MTP051)"
            )
            yield Check("hand-over", FAILED, did, saw, why, figures)
        else:
            yield Check("hand-over", PASSED, did, saw, figures=figures)

    def _values(self) -> Check:
        found = self._found
        did = f"fed the head with hidden states and the embeddings of the tokens after them{self._remark}"
        figures = {"shape": found["shape"], "finite": found["finite"]}
        if found["shape"] != found["expected"]:
            saw = f"the output has the shape {found['shape']}, and {found['expected']} was expected"
            return Check("values", FAILED, did, saw, "it must be one hidden state for each it is fed", figures)
        if not found["finite"]:
            why = "a weight is no number, or the head overflows in f32"
            return Check(
                "values", FAILED, did, f"the output {found['shape']} has values that are no numbers", why, figures
            )
        return Check("values", PASSED, did, f"the output {found['shape']} is finite", figures=figures)

    def _frequencies(self) -> Check:
        did = "compared the rotary frequencies of head and target"
        target, own = self._found["frequencies"]["target"], self._found["frequencies"]["mtp"]
        if not target or not own:
            which = "the head" if not own else "the target"
            why = f"no constant that positions are multiplied with was found in {which}"
            return Check("rotary", NOT_APPLICABLE, did, why=why)
        figures = {"target": target, "head": own}
        other = [ours for ours in own if not any(_equal(ours, theirs) for theirs in target)]
        saw = f"{_count(own)} in the head, {_count(target)} in the target"
        if other:
            why = (
                "the head, built like a layer of its target, rotates by other angles or over another width: "
                "its rotary dimension or base is wrong (MTP052 compares the dimension)"
            )
            return Check("rotary", FAILED, did, f"{saw}, of other values or in another order", why, figures)
        return Check("rotary", PASSED, did, f"{saw}, the same", figures=figures)

    def _layer(self) -> Check:
        did = "compared the ops and shapes of its layer with those of the target's layers"
        odd = self._facts.unlike_target()
        if odd is None:
            why = "the layers of target and head could not both be taken apart"
            return Check("layer", NOT_APPLICABLE, did, why=why)
        if odd:
            why = "the exporter makes it from the same classes; something in it is missing or more than there should be"
            return Check("layer", WARNING, did, f"no layer of the target has {' or '.join(odd)}", why)
        return Check("layer", PASSED, did, "one of the target is the same")

    # -- inputs ------------------------------------------------------------------------

    def _inputs(self) -> Iterator[Check]:
        for name, by in self._found["inputs"].items():
            check, what, rule = _FED[name]
            saw, figures = moved("its last output", by), {"difference": by}
            if by is not None and by > _NOTHING:
                yield Check(check, PASSED, _CHANGED[name], saw, figures=figures)
            elif name == "attention_mask":
                why = "the stateful path needs the mask; the paged one does without"
                yield Check(check, WARNING, _CHANGED[name], saw, why, figures)
            else:
                why = f"the head ignores its {what}: it is not connected, or what reads it is zero"
                yield Check(check, FAILED, _CHANGED[name], saw, f"{why} ({rule})", figures)

    def _input_norms(self) -> Check:
        did = "fed hidden states four times as large, and then embeddings"
        scaled = self._found["scaled"]
        saw = "; ".join(f"with {name}, {moved('the output', by)}" for name, by in scaled.items())
        bare = [name for name, by in scaled.items() if by is None or by > _NORMALISED]
        if bare:
            why = f"{' and '.join(bare)} are not normalised before they are joined, and their scales differ (MTP036)"
            return Check("input-norms", WARNING, did, saw, why, scaled)
        return Check("input-norms", PASSED, did, saw, figures=scaled)

    def _final_norm(self) -> Check:
        did = "compared the size of the output for each token with that of the target's hidden states"
        (mean, spread), (own_mean, own_spread) = self._found["magnitude"], self._found["hidden magnitude"]
        saw = (
            f"{mean:.3g} on average, varying by {spread:.0%}; the target's {own_mean:.3g}, varying by {own_spread:.0%}"
        )
        figures = {"mean": mean, "spread": spread, "target_mean": own_mean, "target_spread": own_spread}
        if not self._facts.normed:
            why = "the output is not that of a norm, and the target's output projection expects one (MTP037)"
            return Check("final-norm", FAILED, did, saw, why, figures)
        if spread > own_spread + _STEADY:
            why = "a norm makes all outputs about as large, and these are not"
            return Check("final-norm", WARNING, did, saw, why, figures)
        if not own_mean / _ALIKE <= mean <= own_mean * _ALIKE:
            why = "the weights of the final norm may be wrong: the output projection is used to other values"
            return Check("final-norm", WARNING, did, saw, why, figures)
        return Check("final-norm", PASSED, did, saw, figures=figures)

    # -- drafts ------------------------------------------------------------------------

    @property
    def _share(self) -> float:
        return float(self._found["agreement"]["as it is"] / self._found["agreement"]["positions"])

    @property
    def _needed(self) -> float:
        """Below this, a head knows next to nothing of what its target writes."""
        commonest = float(self._found["agreement"]["commonest"])
        return commonest + (1 - commonest) * _KNOWING

    @property
    def _knows(self) -> bool:
        return self._share >= self._needed

    @property
    def _learnt(self) -> bool:
        """Whether the target itself is trained."""
        return float(self._found["agreement"]["certainty"]) >= _CERTAIN

    def _agreement(self) -> Check:
        found, ahead = self._found["agreement"], self._found["ahead"]
        did = "let the target continue the prompts, and the head draft each next token from what the target had so far"
        saw = (
            f"{found['as it is']} of {found['positions']} drafts are the target's own token ({self._share:.2f}); "
            f"always the commonest one would be {found['commonest']:.2f}; "
            f"drafting one, two and three ahead of short texts: {_ahead(ahead)}"
        )
        figures = {
            "agreed": found["as it is"],
            "positions": found["positions"],
            "share": self._share,
            "chance": found["commonest"],
            "target_certainty": found["certainty"],
            "by_prompt": found["by prompt"],
            "ahead": ahead,
        }
        if self._knows:
            return Check("agreement", PASSED, did, saw, figures=figures)
        if not self._learnt:
            why = (
                f"not much more than chance, but the target gives its own tokens a probability of only "
                f"{found['certainty']:.3f}: its weights are random, and there is nothing that a head could know"
            )
            return Check("agreement", WARNING, did, saw, why, figures)
        why = (
            f"a head of this target would do better than {self._needed:.2f}: it is wired wrong, its weights are not "
            "trained, or they belong to another model; the other checks of this step tell which, if they can"
        )
        return Check("agreement", FAILED, did, saw, why, figures)

    def _wiring(self) -> Check:
        found = self._found["agreement"]
        others = {name: found[name] / found["positions"] for name in _WIRED if name in found}
        did = "fed it in other ways than the runtime does, and counted again"
        saw = "; ".join(f"{name}: {share:.2f}" for name, share in others.items())
        best = max(others, key=others.__getitem__)
        if others[best] >= max(self._share + _BETTER, self._needed):
            why = f"its drafts are right with {_WIRED[best]}"
            return Check("wiring", FAILED, did, saw, why, others)
        if not self._knows:
            why = "in no way do its drafts agree with the target, so this says nothing"
            return Check("wiring", NOT_APPLICABLE, did, saw, why, others)
        return Check("wiring", PASSED, did, f"{saw}; as the runtime does: {self._share:.2f}", figures=others)

    # -- blocks ------------------------------------------------------------------------

    def _blocks(self) -> Iterator[Check]:
        measured = self._found["branches"]
        gains = {kind: values["reordered"] / max(values["loss"], _TINY) - 1 for kind, values in measured.items()}
        idle = min(gains, key=lambda kind: abs(gains[kind]), default="")
        for kind in (ATTENTION, FEED_FORWARD):
            did = f"put the elements that its {kind} block adds out of order, in several ways"
            if kind not in measured:
                yield self._no_block(kind, did)
                continue
            values = measured[kind]
            saw = f"the loss of the target's tokens goes from {values['loss']:.3f} to {values['reordered']:.3f}"
            figures = dict(values)
            if not self._knows:
                why = "its drafts agree too little with the target for this to say anything"
                yield Check(kind, NOT_APPLICABLE, did, saw, why, figures)
            elif gains[kind] >= _CONTRIBUTES:
                yield Check(kind, PASSED, did, saw, figures=figures)
            elif abs(gains[kind]) <= _IDLE:
                why = f"what the {kind} block adds is worth as much anywhere: its weights are random, zero or untrained"
                yield Check(kind, FAILED, did, saw, why, figures)
            else:
                why = f"what the {kind} block adds is of little use or does harm, as when the {idle} block is wrong"
                yield Check(kind, WARNING, did, saw, why, figures)

    def _no_block(self, kind: str, did: str) -> Check:
        """A head of one layer has both; of others the pattern does not tell."""
        facts = self._facts
        if facts.blocks and facts.layers <= 1:
            why = f"the head has no {kind} block on its residual stream between fusion and output (MTP030, MTP037)"
            return Check(kind, FAILED, did, "none was found", why)
        return Check(kind, NOT_APPLICABLE, did, why="the blocks of the head were not recognised")


def _equal(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Whether two lists hold the same numbers in the same order, as precise as 16 bits."""
    return len(ours) == len(theirs) and all(
        abs(one - other) <= _FREQUENCY * abs(other) for one, other in zip(ours, theirs, strict=True)
    )


def _count(lists: Sequence[Sequence[float]]) -> str:
    return " and ".join(str(size) for size in sorted({len(values) for values in lists}))


def _ahead(counts: Sequence[Sequence[int]]) -> str:
    return ", ".join(f"{right} of {tried}" for right, tried in counts)
