"""Pipeline classes of OpenVINO GenAI: which of them can run an export."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from irtools.lint.context import Context
from irtools.lint.finding import STATEFUL_ONLY, Finding
from irtools.model.directory import TARGET_FILES
from irtools.model.part import PartFacts

__all__ = ["Pipeline", "pipelines"]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline class of GenAI, judged by the parts of an export.

    Attributes
    ----------
    name : str
        ``LLMPipeline``, ``VLMPipeline`` or ``ContinuousBatchingPipeline``.
    fits : bool
        True if the class reads the files of this export and can feed its target. A fault in these files can make it
        refuse them all the same; the findings and the strategy ``plain`` say so.
    reason : str
        Reason why it does not fit, as a clause.
    """

    name: str
    fits: bool
    reason: str = ""


def pipelines(context: Context, findings: Iterable[Finding]) -> tuple[Pipeline, ...]:
    """Judge the pipeline classes, the one that the export is made for first.

    The classes read other files: ``LLMPipeline`` and ``ContinuousBatchingPipeline`` read ``openvino_model.xml`` or else
    ``openvino_language_model.xml``, ``VLMPipeline`` only the latter. ``LLMPipeline`` sets ``input_ids``,
    ``VLMPipeline`` sets ``inputs_embeds``, and ``ContinuousBatchingPipeline`` sets ``inputs_embeds`` if there is a text
    embeddings part. Only ``ContinuousBatchingPipeline`` has no stateful path (openvino.genai, ``llm/pipeline.cpp``,
    ``visual_language/pipeline.cpp``, ``continuous_batching/pipeline.cpp``, ``utils::read_model``; reproduced with
    GenAI 2026.4.1).

    Parameters
    ----------
    findings : iterable of Finding
        Findings that rule out a strategy.

    Returns
    -------
    tuple of Pipeline
        Empty without a readable target.
    """
    if context.target is None:
        return ()
    part = context.target_facts
    stateful = any(one.needs.get("plain") == STATEFUL_ONLY for one in findings)
    reasons = dict.fromkeys(_CLASSES, "this is a draft, which a pipeline gets as draft_model")
    if part is not None:
        reasons = {name: next(faults(context, part, stateful), "") for name, faults in _CLASSES.items()}
    judged = [Pipeline(name, not reason, reason) for name, reason in reasons.items()]
    return tuple(sorted(judged, key=lambda one: not one.fits))


def _any(context: Context, part: PartFacts) -> Iterator[str]:
    """Reasons why no class fits."""
    name = part.document.path.name
    if name not in TARGET_FILES:
        yield f"it reads {' or '.join(TARGET_FILES)}, not {name}"
    if part.output("logits") is None:
        yield "the target has no output logits"
    if not part.states:
        yield "the target has no state"


def _text(context: Context, part: PartFacts, stateful: bool) -> Iterator[str]:
    yield from _any(context, part)
    if part.input("input_ids") is None:
        yield "the target does not take input_ids"


def _vision(context: Context, part: PartFacts, stateful: bool) -> Iterator[str]:
    yield from _any(context, part)
    if part.input("inputs_embeds") is None:
        yield "the target does not take inputs_embeds"
    if part.document.path.name != TARGET_FILES[1]:
        yield f"it reads only {TARGET_FILES[1]}"
    if context.export.find_part("text_embeddings") is None:
        yield "there is no openvino_text_embeddings_model.xml"


def _batching(context: Context, part: PartFacts, stateful: bool) -> Iterator[str]:
    yield from _any(context, part)
    if stateful or not part.attentions:
        yield "the target cannot be converted to paged attention"
    embeds = context.export.find_part("text_embeddings") is not None
    wanted = "inputs_embeds" if embeds else "input_ids"
    if part.input(wanted) is None:
        there = "there is an" if embeds else "there is no"
        yield f"the target does not take {wanted}, and {there} openvino_text_embeddings_model.xml"


_CLASSES = {"VLMPipeline": _vision, "LLMPipeline": _text, "ContinuousBatchingPipeline": _batching}
"""Reasons against each class; classes for one kind of model before the general one."""
