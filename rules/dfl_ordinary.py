"""DFL: an ordinary language model as draft, such as a FastDraft model, and its target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from irtools.authoring import Context, Finding, PartFacts, Severity, finding_at, load_rules, rule
from irtools.ir.op import DYNAMIC
from irtools.lint.engine import findings_of
from irtools.lint.pair import ordinary_pair
from irtools.lint.versions import matches
from irtools.model.directory import ModelDirectory
from irtools.model.paged import unconverted_states
from irtools.model.target import fixed_states

_ONLY = ("draft",)
_MODEL = "openvino_model.xml"
_OWN_FAULTS = ("RUN", "EXP010")
"""Rules about an export of its own whose findings also count for a draft: groups and codes."""
_HARMLESS = ("RUN007",)
"""Rules of these whose findings do not stop the runtime: the draft is only worse. That of an input which kept its
friendly name does: the conversion finds the input, and GenAI does not (reproduced with 2026.4.1)."""


@dataclass(frozen=True, slots=True)
class OrdinaryPair:
    """A target that takes tokens, an ordinary draft in another directory, and that directory."""

    target: PartFacts
    draft: PartFacts
    directory: ModelDirectory


def takes_embeddings(context: Context, target: PartFacts) -> bool:
    """True if the runtime loads a part with text embeddings beside the target."""
    return target.input("inputs_embeds") is not None or context.export.find_part("text_embeddings") is not None


def two_models(context: Context) -> OrdinaryPair | None:
    """The pair to compare; None if the runtime does not get that far, or if target and draft are the same files."""
    paired = ordinary_pair(context)
    if paired is None or paired.target is None or context.draft is None or takes_embeddings(context, paired.target):
        return None
    if not context.of_draft(paired.draft.part.document.path) or paired.draft.part.document.path.name != _MODEL:
        return None
    return OrdinaryPair(paired.target, paired.draft.part, context.draft)


@rule("DFL015", "plain-draft", Severity.ERROR, "A target with embeddings cannot use an ordinary draft", rules_out=_ONLY)
def plain_draft(context: Context) -> Iterator[Finding]:
    """The target takes embeddings, and the directory given with `--draft` holds an ordinary language model.

    What it checks
    --------------
    For an ordinary draft: that the target takes token ids and has no text embeddings part beside it.

    Why it matters
    --------------
    A small language model can draft for a text target only. For a vision-language target, loading fails:
    "Speculative decoding is not supported for models with embeddings".

    How to fix it
    -------------
    Use the MTP head of the export, or pass the directory of a DFlash draft.

    Source
    ------
    Reproduced with GenAI 2026.4, with `ContinuousBatchingPipeline` and `VLMPipeline`.
    """
    paired = ordinary_pair(context)
    if paired is not None and paired.target is not None and takes_embeddings(context, paired.target):
        message = "the draft is an ordinary language model, which a target with embeddings does not accept"
        yield finding_at(paired.draft.part, None, message, "use an MTP head or a DFlash draft with this target")


@rule(
    "DFL044",
    "other-vocabulary-size",
    Severity.WARNING,
    "Target and ordinary draft have vocabularies of different sizes",
)
def other_vocabulary_size(context: Context) -> Iterator[Finding]:
    """The logits of target and draft do not have the same width.

    What it checks
    --------------
    The last dimension of `logits` of both models, for an ordinary draft.

    Why it matters
    --------------
    The runtime does not compare it and the text stays right. But the draft never proposes tokens that it
    does not have, and tokens past the end of its embedding table are read as undefined data: fewer tokens
    are accepted. Some families pad the table to different sizes, which does no harm.

    How to fix it
    -------------
    Use a draft that was made for the target, unless only the padding differs.

    Source
    ------
    Reproduced with GenAI 2026.4: drafts with 256 and 640 rows run for a target with 512.
    """
    pair = two_models(context)
    ours, theirs = (part.output("logits") for part in (pair.draft, pair.target)) if pair else (None, None)
    if pair is None or ours is None or theirs is None or not ours.shape or not theirs.shape:
        return
    size, wanted = ours.shape[-1], theirs.shape[-1]
    if size != wanted and DYNAMIC not in (size, wanted):
        message = f"the draft has logits for {size:,} tokens, but the target for {wanted:,}"
        yield finding_at(pair.draft, ours, message, "check that the tokens with an id in both are the same")


@rule(
    "DFL045", "unusable-draft", Severity.ERROR, "The ordinary draft cannot be run with paged attention", rules_out=_ONLY
)
def unusable_draft(context: Context) -> Iterator[Finding]:
    """The ordinary draft has a fault of its own that the runtime refuses.

    What it checks
    --------------
    The rules RUN and EXP010 for the draft, as for a target; the message ends with the code of the rule. The
    draft needs states, fused attention, `logits`, and ports of the usual names and types. It needs no
    detokenizer.

    Why it matters
    --------------
    The runtime converts target and draft to paged attention before it compares anything else. There is
    no stateful path with a draft on CPU and GPU, so a draft that runs alone may not draft.

    How to fix it
    -------------
    Follow the hint, or export the draft again with `--task text-generation-with-past`.

    Source
    ------
    OpenVINO GenAI, `fast_draft_strategy.cpp`; reproduced with 2026.4: "Model is supposed to be stateful",
    "No ScaledDotProductAttention operation observed in the graph".
    """
    pair = two_models(context)
    if pair is None:
        return
    alone = Context(pair.directory, target_runtime=context.target_runtime)
    loaded = load_rules()
    unreadable = next(one for one in loaded if one.unreadable)
    for one in loaded:
        if one.code not in _OWN_FAULTS and one.group not in _OWN_FAULTS:
            continue
        if not matches(one.runtimes, context.target_runtime):
            continue
        for finding in findings_of(one, alone, unreadable):
            if "draft" in (finding.rules_out or ()):
                message = f"{finding.message.replace('the target', 'the draft')} ({finding.code})"
                own = replace(finding, message=message, severity=Severity.ERROR, code="", rules_out=_ONLY, needs={})
                harmless = one.code in _HARMLESS and finding.op != "position_ids"
                yield replace(own, severity=Severity.WARNING, rules_out=()) if harmless else own


@rule("DFL046", "linear-attention-draft", Severity.ERROR, "The ordinary draft has linear attention", rules_out=_ONLY)
def linear_attention_draft(context: Context) -> Iterator[Finding]:
    """The ordinary draft has linear-attention or convolution states.

    What it checks
    --------------
    That every state of the draft is a growing key or value cache. The target may have other states.

    Why it matters
    --------------
    The runtime takes back drafted tokens that the target rejects, which it cannot do with such a state of
    the draft. The pair loads and fails at the first prompt: "Speculative linear-attention validation
    window was not scheduled atomically".

    How to fix it
    -------------
    Use a draft in which every layer has attention.

    Source
    ------
    Reproduced with GenAI 2026.4, with drafts of three families and prefix caching off.
    """
    pair = two_models(context)
    if pair is None or not pair.draft.attentions:
        return
    strange = {state.variable for state in unconverted_states(pair.draft)}  # RUN004 names them
    rest = [state for state in fixed_states(pair.draft) if state.variable not in strange]
    if rest:
        message = (
            f"{len(rest)} of {len(pair.draft.states)} states of the draft belong to linear attention or convolutions"
        )
        yield finding_at(pair.draft, rest[0].reads[0], message, "use a draft with attention in every layer")
