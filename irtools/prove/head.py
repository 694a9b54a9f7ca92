"""Step 3: whether the MTP head does what its target's hidden states and tokens ask of it, as numbers show.

The text of speculative decoding is right whatever the head says, and how much of it is accepted
depends on the prompt. So the head is fed by hand and every figure has something to be compared
with that comes from the same export: the same head with one input changed, with its inputs
exchanged, with what a block adds put out of order; the target's own hidden states, frequencies
and certainty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from irtools.decoder.head import find_head
from irtools.decoder.stack import DecoderStack
from irtools.errors import LocateRefusedError
from irtools.model.directory import ModelDirectory
from irtools.model.part import Part
from irtools.prove.head_checks import Judgement
from irtools.prove.head_facts import HeadFacts
from irtools.prove.model import FAILED, Check, Step
from irtools.prove.worker import Worker
from irtools.runtime.lines import Progress

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
    """Judge an export's MTP head by running it.

    Parameters
    ----------
    export : ModelDirectory
    worker : Worker
    prompts : sequence of sequence of int
        Token ids; those of one token are left out.
    progress : callable, optional
        Takes what is being done, as a clause.
    stack : DecoderStack or LocateRefusedError, optional
        What `locate` found in the target, or why it refuses.
    seed : int
        Of the orders that what a block adds is put in.

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
        facts = HeadFacts(Part(export.target), Part(document), projection, model_type, located)
        _ = facts.likeness
    except LocateRefusedError as error:
        return Step("head", why=str(error))
    why = _inapplicable(export, facts)
    if why:
        return Step("head", why=why)
    ports = _ports(facts)
    if ports.status == FAILED:
        return Step("head", (ports,))
    return _run(facts, worker, [list(prompt) for prompt in prompts if len(prompt) > 1], ports, progress, seed)


def _run(
    facts: HeadFacts,
    worker: Worker,
    prompts: list[list[int]],
    ports: Check,
    progress: Progress | None,
    seed: int,
) -> Step:
    if not prompts:
        return Step("head", (ports,), why="no prompt has two tokens or more")
    measured = worker.measure("head", {**facts.request(), "prompts": prompts, "seed": seed}, progress)
    step = Step("head", (ports,), seconds=measured.seconds, peak_memory=measured.peak_memory)
    if not measured.done:
        return replace(step, why=measured.broken or measured.inapplicable, broken=bool(measured.broken))
    return replace(step, checks=(ports, *Judgement(facts, measured.value, measured.remark).checks()))


def _inapplicable(export: ModelDirectory, facts: HeadFacts) -> str:
    """Why this head cannot be fed by hand."""
    if export.find_part("text_embeddings") is None and facts.target.input("inputs_embeds") is not None:
        return "there is no openvino_text_embeddings_model.xml to make embeddings of tokens"
    likeness = facts.likeness
    if likeness is None or not likeness.known:
        return "openvino_mtp_model.xml has the ports of no MTP head that irtools knows"
    profile = likeness.profile
    return "" if profile.usable else f"this is a {profile.title}: {profile.remark}"


def _ports(facts: HeadFacts) -> Check:
    """Whether the head has the ports of its family, as wide as what the target hands it."""
    did = "looked for the ports of its family, as wide as the hidden states of the target"
    if facts.missing:
        named = ", ".join(repr(port.name) for port in facts.missing)
        return Check(
            "ports", FAILED, did, f"no port is named {named}", "the runtime asks for it by name: MTP010, MTP013"
        )
    odd = {name: width for name, width in facts.widths.items() if width != facts.width}
    saw = ", ".join(f"{name!r} is {width} wide" for name, width in (odd or facts.widths).items())
    figures = {"width": facts.width, **facts.widths}
    if odd:
        why = f"the target's hidden states are {facts.width} wide: this is the head of another model (MTP018)"
        return Check("ports", FAILED, did, saw, why, figures)
    return Check("ports", "passed", did, saw, figures=figures)
