"""Step 3: check an MTP head by measurements.

The text of speculative decoding is correct with any head, and the acceptance rate depends on the prompt. So this
step calls the head directly and compares every figure with a reference from the same export: the same head
with one input changed, with exchanged inputs, or with a permuted block output; the target's hidden states,
rotary frequencies and token probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence

from irtools.decoder.head import find_head
from irtools.decoder.stack import DecoderStack
from irtools.errors import LocateRefusedError
from irtools.lint.symptoms import cited
from irtools.model.directory import ModelDirectory
from irtools.model.part import PartFacts
from irtools.prove.head_checks import HeadChecks
from irtools.prove.head_facts import HeadFacts
from irtools.prove.steps import FAILED, PASSED, Check, Step
from irtools.prove.worker import Worker
from irtools.runtime.child import Progress

__all__ = ["head"]


def head(
    export: ModelDirectory,
    worker: Worker,
    prompts: Sequence[Sequence[int]],
    progress: Progress | None = None,
    *,
    stack: DecoderStack | LocateRefusedError | None = None,
    seed: int = 0,
) -> Step:
    """Check an export's MTP head by running it.

    Parameters
    ----------
    prompts : sequence of sequence of int
        Token ids; prompts of one token are left out.
    stack : DecoderStack or LocateRefusedError, optional
        Result of `locate` for the target.
    seed : int
        Seed of the permutations of block outputs.

    Raises
    ------
    InvalidIRError
        The head cannot be read.
    """
    document = export.mtp
    if document is None:
        return Step("head", why="the export has no openvino_mtp_model.xml")
    try:
        projection = find_head(export.target.graph)
        model_type = str(export.config.get("model_type", ""))
        located = stack if isinstance(stack, DecoderStack) else None
        facts = HeadFacts(PartFacts(export.target), PartFacts(document), projection, model_type, located)
        _ = facts.likeness
    except LocateRefusedError as error:
        return Step("head", why=str(error))
    why = _inapplicable(export, facts)
    if why:
        return Step("head", why=why)
    ports = _ports(facts)
    if ports.status == FAILED:
        return Step("head", (ports,))
    usable = [list(prompt) for prompt in prompts if len(prompt) > 1]
    if not usable:
        return Step("head", (ports,), why="no prompt has at least two tokens")
    measured = worker.measure("head", {**facts.request(), "prompts": usable, "seed": seed}, progress)
    checks = HeadChecks(facts, measured.value, measured.remark).checks() if measured.done else ()
    return measured.step("head", (ports, *checks), measured.inapplicable)


def _inapplicable(export: ModelDirectory, facts: HeadFacts) -> str:
    """Reason why this head cannot be called directly; ``""`` if it can."""
    if export.find_part("text_embeddings") is None and facts.target.input("inputs_embeds") is not None:
        return "there is no openvino_text_embeddings_model.xml to compute token embeddings"
    likeness = facts.likeness
    if likeness is None or not likeness.comparable:
        return "openvino_mtp_model.xml has the ports of no MTP head family that irtools knows"
    profile = likeness.profile
    return "" if profile.usable else f"this is a {profile.title}: {profile.remark}"


def _ports(facts: HeadFacts) -> Check:
    """Check the ports of the head: their names, and their widths against the target's hidden states."""
    did = "checked the names of the head's ports, and their widths against the hidden states of the target"
    if facts.missing:
        named = ", ".join(repr(port.name) for port in facts.missing)
        why = f"the runtime finds ports by name{cited('head/port names')}"
        return Check("ports", FAILED, did, f"no port is named {named}", why)
    odd = {name: width for name, width in facts.widths.items() if width != facts.width}
    saw = ", ".join(f"{name!r} is {width} wide" for name, width in (odd or facts.widths).items())
    figures = {"width": facts.width, **facts.widths}
    if odd:
        why = f"the target's hidden states are {facts.width} wide, so this is the head of another model"
        why += cited("head/port widths")
        return Check("ports", FAILED, did, saw, why, figures)
    return Check("ports", PASSED, did, saw, figures=figures)
