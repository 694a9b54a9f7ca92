"""MTP: compatibility of head, target and text embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.ir.op import DYNAMIC
from irtools.lint.mtp import expected, head, own_target, runnable_head
from irtools.model.part import PartFacts
from irtools.model.target import find_runtime_lm_head, head_width
from irtools.model.values import rotary_widths
from irtools.text import plural


def _widths(context: Context) -> Iterator[tuple[str, PartFacts, int | None, int]]:
    """Values that must have the width of the residual stream: label, part, layer id, width; the target's first."""
    target = own_target(context)
    if target is not None:
        width, matmul = head_width(target), find_runtime_lm_head(target).matmul
        if width is not None:
            yield "the target's output projection", target, matmul, width
    if context.text_embeddings is not None:
        part = context.facts(context.text_embeddings)
        for output in part.outputs[:1]:
            width = output.shape[-1] if output.shape else DYNAMIC
            yield "the output of the text embeddings part", part, output.op, width
    mtp = head(context)
    if mtp is not None and mtp.comparable:
        for port in mtp.profile.inputs:
            actual = mtp.input(port)
            if actual is not None and len(actual.shape) == len(port.shape) and port.shape[-1] in ("H", "2H"):
                width = actual.shape[-1]
                halves = 2 if port.shape[-1] == "2H" and width > 0 else 1
                yield f"the head's {port.name}", mtp.part, actual.op, width // halves
        for port in mtp.profile.outputs:
            produced = mtp.output(port)
            if produced is not None and len(produced.shape) == len(port.shape) and port.shape[-1] == "H":
                yield f"the head's {port.name}", mtp.part, produced.op, produced.shape[-1]


@rule("MTP018", "mtp-of-other-width", Severity.ERROR, "Head, target and text embeddings have different widths")
def mtp_width(context: Context) -> Iterator[Finding]:
    """The hidden size differs between head, target and text embeddings.

    What it checks
    --------------
    That one width H is the input width of the target's output projection, the output width of the text
    embeddings part, and the width of `hidden_states`, `inputs_embeds` and `last_hidden_state` of the
    head (2H for embeddings that are joined with the hidden state outside the head). The target's width
    is the reference.

    Why it matters
    --------------
    The target's output projection is cloned onto the head. With other widths, loading fails in a
    MatMul, with a message that does not mention MTP.

    How to fix it
    -------------
    Take all parts from one export.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    if head(context) is None:
        return
    widths = [entry for entry in _widths(context) if entry[-1] != 0]
    owner, _, _, right = next((entry for entry in widths if entry[-1] != DYNAMIC), ("", None, None, DYNAMIC))
    # Ports of one part that have the same other width have one cause.
    for (part, width), entries in groupby(widths, key=lambda entry: (entry[1], entry[3])):
        labels, ops = zip(*((label, op) for label, _, op, _ in entries), strict=True)
        if width != right:
            have = "have" if len(labels) > 1 else "has"
            size = f"{have} no fixed width" if width == DYNAMIC else f"{have} width {width}"
            message = f"{', '.join(labels)} {size}, but {owner} has width {right}"
            yield finding_at(part, ops[0], message, "take all parts from one export")


@rule("MTP050", "ungraftable-logits", Severity.ERROR, "The target's logits do not come directly from its MatMul")
def ungraftable_logits(context: Context) -> Iterator[Finding]:
    """The runtime cannot find the target's output projection to graft it onto the MTP head.

    What it checks
    --------------
    That the target has an output with the tensor name `logits`, and that a MatMul produces it. A bias,
    a scale, a soft-cap or a conversion in between is not allowed.

    Why it matters
    --------------
    The runtime takes the hidden state from this MatMul's input and clones its weights. Without the
    MatMul, it rejects the target at load time: "Expected the main model `logits` output to be produced
    by a MatMul".

    How to fix it
    -------------
    Add a draft head with `irtools graft`: the runtime takes that instead. Or remove the ops after the MatMul if they
    have no effect.

    Source
    ------
    OpenVINO GenAI 2026.4, `mtp_model_transforms.cpp`.
    """
    part = own_target(context)
    if runnable_head(context) is None or part is None:
        return
    projection = find_runtime_lm_head(part)
    if part.graft is not None and part.graft.first:
        return
    if projection.output is None:
        names = ", ".join(repr(output.label) for output in part.outputs) or "none"
        message = f"the target has no output named 'logits' (outputs: {names})"
    elif not projection.direct:
        message = f"'logits' is produced by {' <- '.join(projection.tail)}, not by a MatMul"
    else:
        return
    hint = "the runtime must find a MatMul to copy into the draft; `irtools graft` adds one"
    yield finding_at(part, projection.output, message, hint)


@rule("MTP051", "target-hidden-output", Severity.ERROR, "The target has another output named last_hidden_state")
def target_hidden_output(context: Context) -> Iterator[Finding]:
    """The target's output `last_hidden_state` is not the value that MTP needs.

    What it checks
    --------------
    That no output of the target has the tensor name `last_hidden_state`, unless it is the input of the
    output projection.

    Why it matters
    --------------
    The runtime adds an output of this name and later looks it up by name. It then gets the existing
    output. The head predicts from a wrong context, and the acceptance rate drops without an error
    message.

    How to fix it
    -------------
    Rename the exposed output, for example to `hidden_states.3`.

    Source
    ------
    Reproduced with GenAI 2026.4: no error message.
    """
    part = own_target(context)
    if head(context) is None or part is None:
        return
    output, projection = part.output("last_hidden_state"), find_runtime_lm_head(part)
    if output is None:
        return
    wanted = part.graph.inputs(projection.matmul)[0] if projection.matmul is not None else None
    if output.source != wanted:
        message = f"the target's output {output.label!r} is not the input of the output projection"
        yield finding_at(part, output, message, "rename the exposed output")


def _attention_sizes(part: PartFacts) -> set[tuple[int, int]]:
    """Number of query heads and head size of each attention with fixed sizes."""
    sizes = set()
    for key in part.attentions:
        inputs = part.graph.op(key).inputs
        shape = inputs[0].shape if inputs else ()
        if len(shape) == 4 and DYNAMIC not in (shape[1], shape[3]):
            sizes.add((shape[1], shape[3]))
    return sizes


@rule("MTP052", "mtp-attention-mismatch", Severity.ERROR, "The MTP head's attention differs from the target's")
def mtp_attention_size(context: Context) -> Iterator[Finding]:
    """Number of heads, head size or rotary size differ from the target's full-attention layers.

    What it checks
    --------------
    The query's shape at each ScaledDotProductAttention, and the number of rotary frequencies, in head
    and target.

    Why it matters
    --------------
    An MTP layer has the form of a full-attention layer of its target. Different sizes mean that the head
    belongs to another model or was built from another config. It runs, but the acceptance rate is low.

    How to fix it
    -------------
    Take the head and the target from the same export.

    Source
    ------
    Optimum Intel 2.2 builds the head from the target's text_config.
    """
    mtp, target = runnable_head(context), own_target(context)
    if mtp is None or target is None:
        return
    theirs = _attention_sizes(target)
    for heads, size in sorted(_attention_sizes(mtp.part) - theirs if theirs else ()):
        listed = " or ".join(f"{other} of size {width}" for other, width in sorted(theirs))
        message = (
            f"the attention has {plural(heads, 'head')} of size {size}, but the target's full attention has {listed}"
        )
        yield finding_at(mtp.part, mtp.part.attentions[0], message, "take head and target from one export")
    ours, wanted = rotary_widths(mtp.part), rotary_widths(target)
    if wanted and ours - wanted:
        listed = " or ".join(map(str, sorted(wanted)))
        message = f"the head has {max(ours - wanted)} rotary frequencies, but the target has {listed}"
        yield finding_at(mtp.part, None, message, "take head and target from one export")


@rule("MTP053", "mtp-from-elsewhere", Severity.WARNING, "Target and MTP head come from different exports")
def mtp_from_elsewhere(context: Context) -> Iterator[Finding]:
    """The recorded exporter versions of head and target differ.

    What it checks
    --------------
    The versions in the model-level rt_info under `optimum`, and `Runtime_version`. An error with
    `--expect-mtp`.

    Why it matters
    --------------
    A head from another export may come from another checkpoint: same shapes, other weights, and an
    acceptance rate near zero.

    How to fix it
    -------------
    Export target and head together.

    Source
    ------
    The exporter writes all parts in one run.
    """
    mtp, target = head(context), own_target(context)
    if mtp is None or target is None:
        return
    ours, theirs = _provenance(mtp.part), _provenance(target)
    differing = [key for key in sorted(ours.keys() & theirs.keys()) if ours[key] != theirs[key]]
    if differing:
        listed = "; ".join(f"{key} {ours[key]} in the head, {theirs[key]} in the target" for key in differing)
        message = f"head and target come from different exports: {listed}"
        yield finding_at(mtp.part, None, message, "export target and head together", expected(context))


def _provenance(part: PartFacts) -> dict[str, str]:
    info = part.rt_info
    versions = {"Runtime_version": info.get("Runtime_version")}
    optimum = info.get("optimum")
    if optimum is not None and not isinstance(optimum, str):
        versions |= {f"optimum/{key}": value for key, value in optimum.items()}
    return {key: value for key, value in versions.items() if isinstance(value, str)}


@rule("MTP054", "mtp-experts-mismatch", Severity.WARNING, "Only one of head and target is a mixture of experts")
def mtp_experts(context: Context) -> Iterator[Finding]:
    """Either the head's or the target's feed-forward block routes to experts, but not both.

    What it checks
    --------------
    That both head and target have TopK ops, or neither. An error with `--expect-mtp`.

    Why it matters
    --------------
    In the families that the exporter supports, the MTP layer has the form of the target's layers.

    How to fix it
    -------------
    Take the head and the target from the same export.

    Source
    ------
    Optimum Intel 2.2: `Qwen3_5MTPModule` and `Qwen3_5MoeMTPModule`.
    """
    mtp, target = runnable_head(context), own_target(context)
    if mtp is None or target is None or not mtp.part.attentions:
        return
    target_routes = next(target.live_ops("TopK"), None) is not None
    if mtp.experts != target_routes:
        has, lacks = ("the head", "the target") if mtp.experts else ("the target", "the head")
        message = f"{has} has experts, but {lacks} has none"
        yield finding_at(mtp.part, None, message, "take head and target from one export", expected(context))


@rule("MTP055", "missing-target-output", Severity.ERROR, "The target lacks outputs that its assistant needs")
def missing_target_output(context: Context) -> Iterator[Finding]:
    """An MTP assistant of the Gemma 4 form needs outputs that the target does not have.

    What it checks
    --------------
    If the head has the Gemma 4 form: that the target has outputs with the tensor names `logits`,
    `mtp_last_hidden_state`, and `mtp_{full,sliding}_attention_{key,value}`.

    Why it matters
    --------------
    The runtime recognises both models by their port names. Without these outputs, it does not treat the
    two models as an MTP pair, and the SDPA backend rejects them: "only supported for Gemma4 MTP model
    pairs".

    How to fix it
    -------------
    Export target and assistant as a pair.

    Source
    ------
    OpenVINO GenAI 2026.4, `is_gemma4_mtp_model_pair`.
    """
    mtp = head(context)
    if mtp is None or context.target is None or not mtp.comparable:
        return
    target = context.facts(context.target)
    missing = [port.name for port in mtp.profile.target_outputs if target.output(port.name) is None]
    if missing:
        message = f"the {mtp.profile.title} needs outputs that the target lacks: {', '.join(missing)}"
        yield finding_at(target, None, message, "export target and assistant as a pair")
