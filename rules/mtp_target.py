"""MTP: do head, target and text embeddings belong together."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.ir.op import DYNAMIC
from irtools.lint.model import Context, Finding, Severity, rule
from irtools.lint.mtp import at_op, expected, head, own_target, qwen_like
from irtools.model.part import Part
from irtools.model.target import head_width, logits_head
from irtools.model.values import rotary_widths


def _widths(context: Context) -> Iterator[tuple[str, Part, int | None, int]]:
    """Everything that must be as wide as the residual stream: what, where, layer id, width."""
    target = own_target(context)
    if target is not None:
        width, matmul = head_width(target), logits_head(target).matmul
        if width is not None:
            yield "the target's output projection", target, matmul, width
    if context.text_embeddings is not None:
        part = context.part(context.text_embeddings)
        for output in part.outputs[:1]:
            yield "the text embeddings", part, output.op, output.shape[-1] if output.shape else DYNAMIC
    found = head(context)
    if found is not None and found.known:
        for port in found.profile.inputs:
            there = found.input(port)
            if there is not None and len(there.shape) == len(port.shape) and port.shape[-1] in ("H", "2H"):
                width = there.shape[-1]
                halves = 2 if port.shape[-1] == "2H" and width > 0 else 1
                yield f"the head's {port.name}", found.part, there.op, width // halves
        for port in found.profile.outputs:
            given = found.output(port)
            if given is not None and len(given.shape) == len(port.shape) and port.shape[-1] == "H":
                yield f"the head's {port.name}", found.part, given.op, given.shape[-1]


@rule("MTP018", "mtp-of-other-width", Severity.ERROR, "Head, target and text embeddings have different widths")
def mtp_width(context: Context) -> Iterator[Finding]:
    """The hidden size is not the same wherever it must be.

    What it checks
    --------------
    One width H for what the target's output projection reads, for the output of the text embeddings
    part, and for `hidden_states`, `inputs_embeds` and `last_hidden_state` of the head (2H for the
    embeddings of a form that gets them joined). The target's counts as right.

    Why it matters
    --------------
    The target's output projection is cloned onto the head: other widths are refused at load, in a
    MatMul that says nothing about MTP.

    How to fix it
    -------------
    Take all parts from one export.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    if head(context) is None:
        return
    found = [(what, part, op, width) for what, part, op, width in _widths(context) if width != 0]
    known = [width for _, _, _, width in found if width != DYNAMIC]
    if not known:
        return
    right, owner = known[0], next(what for what, _, _, width in found if width == known[0])
    for what, part, op, width in found:
        if width != right:
            size = "has no fixed width" if width == DYNAMIC else f"is {width} wide"
            yield Finding(
                f"{what} {size}, {owner} is {right} wide",
                "take all parts from one export",
                file=part.document.path,
                line=part.graph.line(op) if op is not None else None,
                op=part.graph.op_name(op) if op is not None else None,
            )


@rule("MTP050", "ungraftable-logits", Severity.ERROR, "The target's logits are not directly those of its MatMul")
def ungraftable_logits(context: Context) -> Iterator[Finding]:
    """The runtime cannot find the target's output projection to put it on the MTP head.

    What it checks
    --------------
    That the target has an output with the tensor name `logits`, and that a MatMul produces it. A
    bias, a scale, a soft-cap or a conversion in between is one too many.

    Why it matters
    --------------
    The hidden state is taken from that MatMul's input, and its weights are cloned. Otherwise the
    target is refused at load: "Expected the main model `logits` output to be produced by a MatMul".

    How to fix it
    -------------
    Remove what is behind the MatMul if it does nothing; a family that needs it cannot use MTP.

    Source
    ------
    OpenVINO GenAI 2026.4, `mtp_model_transforms.cpp`.
    """
    part = own_target(context)
    if qwen_like(context) is None or part is None:
        return
    found = logits_head(part)
    document = part.document
    if found.output is None:
        names = ", ".join(repr(output.label) for output in part.outputs) or "none"
        message, line, op = f"the target has no output named 'logits' (outputs: {names})", None, None
    elif not found.direct:
        tail = " <- ".join(found.tail)
        message, line, op = (
            f"'logits' is not produced by a MatMul, but by {tail}",
            found.output.line,
            found.output.friendly,
        )
    else:
        return
    yield Finding(
        message,
        "the runtime grafts the MatMul behind `logits` onto the MTP head",
        file=document.path,
        line=line or document.line(document.scan.net_tag),
        op=op,
    )


@rule("MTP051", "target-hidden-output", Severity.ERROR, "The target has an output that takes the hidden state's name")
def target_hidden_output(context: Context) -> Iterator[Finding]:
    """The target gives out something else as `last_hidden_state`.

    What it checks
    --------------
    Whether an output of the target has the tensor name `last_hidden_state` and is not the value that
    the output projection reads.

    Why it matters
    --------------
    The runtime adds an output of that name and later asks for it by name. It gets the one that was
    there, the head guesses from a wrong context, fewer candidates are accepted, and nothing is said.

    How to fix it
    -------------
    Give the exposed output another name, such as `hidden_states.3`.

    Source
    ------
    Reproduced with GenAI 2026.4: silent.
    """
    part = own_target(context)
    if head(context) is None or part is None:
        return
    output, found = part.output("last_hidden_state"), logits_head(part)
    if output is None:
        return
    wanted = part.graph.inputs(found.matmul)[0] if found.matmul is not None else None
    if output.source != wanted:
        yield Finding(
            f"the target's output {output.label!r} is not what the output projection reads",
            "give the exposed output another name",
            file=part.document.path,
            line=output.line,
            op=output.friendly,
        )


def _attention_sizes(part: Part) -> set[tuple[int, int]]:
    """Number of query heads and head size of each attention, where they are fixed."""
    sizes = set()
    for key in part.attentions:
        inputs = part.graph.op(key).inputs
        shape = inputs[0].shape if inputs else ()
        if len(shape) == 4 and DYNAMIC not in (shape[1], shape[3]):
            sizes.add((shape[1], shape[3]))
    return sizes


@rule("MTP052", "mtp-attention-mismatch", Severity.ERROR, "The MTP head's attention is not built like the target's")
def mtp_attention_size(context: Context) -> Iterator[Finding]:
    """Number of heads, head size or rotary size differ from the target's full-attention layers.

    What it checks
    --------------
    The query's shape at each ScaledDotProductAttention, and the number of rotary frequencies, in
    head and target.

    Why it matters
    --------------
    An MTP layer is a full-attention layer of its target. Other sizes mean that the head belongs to
    another model, or was built from another config: it runs, and few candidates are accepted.

    How to fix it
    -------------
    Take head and target from one export.

    Source
    ------
    Optimum Intel 2.2 builds the head from the target's text_config.
    """
    found, target = qwen_like(context), own_target(context)
    if found is None or target is None:
        return
    theirs = _attention_sizes(target)
    for heads, size in sorted(_attention_sizes(found.part) - theirs if theirs else ()):
        listed = " or ".join(f"{other} of size {width}" for other, width in sorted(theirs))
        message = f"the attention has {heads} heads of size {size}, the target's full attention has {listed}"
        yield at_op(found, found.part.attentions[0], message, "take head and target from one export")
    ours, wanted = rotary_widths(found.part), rotary_widths(target)
    if wanted and ours - wanted:
        listed = " or ".join(map(str, sorted(wanted)))
        message = f"the head rotates with {max(ours - wanted)} frequencies, the target with {listed}"
        yield at_op(found, None, message, "take head and target from one export")


@rule("MTP053", "mtp-from-elsewhere", Severity.WARNING, "Target and MTP head come from different exports")
def mtp_from_elsewhere(context: Context) -> Iterator[Finding]:
    """Both parts say what they were exported with, and it is not the same.

    What it checks
    --------------
    The versions in the model-level rt_info under `optimum`, and `Runtime_version`. An error with
    `--expect-mtp`.

    Why it matters
    --------------
    A head from another export may be that of another checkpoint: same shapes, other weights, and
    hardly any candidate accepted.

    How to fix it
    -------------
    Export target and head together.

    Source
    ------
    The exporter writes all parts in one run.
    """
    found, target = head(context), own_target(context)
    if found is None or target is None:
        return
    ours, theirs = _provenance(found.part), _provenance(target)
    differing = [key for key in sorted(ours.keys() & theirs.keys()) if ours[key] != theirs[key]]
    if differing:
        listed = "; ".join(f"{key} {ours[key]} here, {theirs[key]} in the target" for key in differing)
        yield at_op(
            found,
            None,
            f"the head was not exported together with the target: {listed}",
            "export target and head together",
            expected(context),
        )


def _provenance(part: Part) -> dict[str, str]:
    info = part.rt_info
    found = {"Runtime_version": info.get("Runtime_version")}
    optimum = info.get("optimum")
    if optimum is not None and not isinstance(optimum, str):
        found |= {f"optimum/{key}": value for key, value in optimum.items()}
    return {key: value for key, value in found.items() if isinstance(value, str)}


@rule("MTP054", "mtp-experts-mismatch", Severity.WARNING, "Head and target are not both mixtures of experts")
def mtp_experts(context: Context) -> Iterator[Finding]:
    """The head's feed-forward block routes to experts and the target's do not, or the other way round.

    What it checks
    --------------
    Whether there are TopK ops in head and target. An error with `--expect-mtp`.

    Why it matters
    --------------
    In the families whose heads the exporter knows, the MTP layer is built like the target's layers.

    How to fix it
    -------------
    Take head and target from one export.

    Source
    ------
    Optimum Intel 2.2: `Qwen3_5MTPModule` and `Qwen3_5MoeMTPModule`.
    """
    found, target = qwen_like(context), own_target(context)
    if found is None or target is None or not found.part.attentions:
        return
    target_routes = next(target.live_ops("TopK"), None) is not None
    if found.experts != target_routes:
        has, lacks = ("the head", "the target") if found.experts else ("the target", "the head")
        message = f"{has} has experts, {lacks} has none"
        yield at_op(found, None, message, "take head and target from one export", expected(context))


@rule("MTP055", "missing-target-output", Severity.ERROR, "The target does not give out what its assistant needs")
def missing_target_output(context: Context) -> Iterator[Finding]:
    """An MTP assistant of the Gemma 4 form needs outputs of the target that are not there.

    What it checks
    --------------
    The tensor names of the target's outputs, when the head has the Gemma 4 form: `logits`,
    `mtp_last_hidden_state`, and `mtp_{full,sliding}_attention_{key,value}`.

    Why it matters
    --------------
    Both models are known by their port names. Otherwise the pair is no MTP pair for the runtime, and
    the SDPA backend refuses it: "only supported for Gemma4 MTP model pairs".

    How to fix it
    -------------
    Export target and assistant as a pair.

    Source
    ------
    OpenVINO GenAI 2026.4, `is_gemma4_mtp_model_pair`.
    """
    found = head(context)
    if found is None or context.target is None or not found.known:
        return
    target = context.part(context.target)
    missing = [port.name for port in found.profile.target_outputs if target.output(port.name) is None]
    if missing:
        yield Finding(
            f"the {found.profile.title} needs outputs of the target that are not there: {', '.join(missing)}",
            "export target and assistant as a pair",
            file=target.document.path,
            line=target.document.line(target.document.scan.net_tag),
        )
