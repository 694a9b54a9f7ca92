"""DFL: what the runtime looks for in the graph of an EAGLE-3 draft."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from irtools.authoring import Context, Finding, PartFacts, Severity, finding_at, rule
from irtools.ir.constants import Constant
from irtools.ir.op import DYNAMIC
from irtools.lint.pair import eagle3_draft, pair
from irtools.model.guess import midlayer
from irtools.model.part import ModelOutput
from irtools.model.target import find_embedding_gather, head_width
from irtools.text import shape_text

_EAGLE3 = ("eagle3",)
_EXPORT = "export the draft again with Optimum Intel"
_OTHER_TARGET = "use the target that the draft was trained for"
_TAPS = 3
_MOST_BYTES = 256_000
"""Bytes of the table that are read: the entries of 32,000 tokens."""


def _projection(part: PartFacts) -> int | None:
    """The MatMul of the hidden states that the runtime moves to the target: the first one in topological order."""
    graph = part.graph
    for key in sorted(part.live_ops("MatMul"), key=graph.rank.__getitem__):
        source = graph.producers(key)[0]
        if graph.op_type(source) == "Parameter" and "hidden_states" in graph.op_name(source):
            return key
    return None


@rule(
    "DFL026",
    "eagle3-projection-not-found",
    Severity.ERROR,
    "The runtime does not find the projection of the hidden states in the EAGLE-3 draft",
    rules_out=_EAGLE3,
)
def eagle3_projection(context: Context) -> Iterator[Finding]:
    """No MatMul reads the input `hidden_states` as its first operand.

    What it checks
    --------------
    That a MatMul has the Parameter whose friendly name contains `hidden_states` directly as its first
    operand. A Convert or another op between them hides it.

    Why it matters
    --------------
    The runtime moves this projection (`fc`) from the draft to the target, and rejects the draft if it
    finds none.

    How to fix it
    -------------
    Export the draft again with Optimum Intel.

    Source
    ------
    OpenVINO GenAI, `move_fc_from_draft_to_main`; reproduced with 2026.4.1: "Failed to locate FC weights
    in eagle3 draft model".
    """
    draft = eagle3_draft(context)
    if draft is None or _projection(draft.part) is not None:
        return
    port = next((port for port in draft.part.inputs if "hidden_states" in port.friendly), None)
    if port is not None:  # else a rule about ports reports it
        message = f"no MatMul has the input {port.friendly!r} as first operand, so the runtime finds no projection"
        yield finding_at(draft.part, port, message, _EXPORT)


@rule(
    "DFL027",
    "eagle3-projection-width",
    Severity.ERROR,
    "The projection of the EAGLE-3 draft does not fit the target",
    rules_out=_EAGLE3,
)
def eagle3_projection_width(context: Context) -> Iterator[Finding]:
    """The weights of the projection do not take three hidden states of the target.

    What it checks
    --------------
    The weights of the first MatMul of `hidden_states`: stored as [output, input], with an input of three
    times the target's hidden size. Without a target, the input must be divisible by three. If the draft
    gets the target's embeddings, the output must have their width.

    Why it matters
    --------------
    The runtime concatenates three hidden states of the target and multiplies them by the transposed
    weights. With other sizes, loading or generation fails.

    How to fix it
    -------------
    Use the draft with the target it was trained for.

    Source
    ------
    OpenVINO GenAI, `move_fc_from_draft_to_main`; reproduced with 2026.4.1: "Incompatible MatMul matrix
    dimension", "hidden size mismatch".
    """
    paired, draft = pair(context), eagle3_draft(context)
    key = _projection(draft.part) if draft is not None else None
    if paired is None or draft is None or key is None:
        return
    graph = draft.part.graph
    shape = graph.shape(graph.inputs(key)[1])
    if not graph.flag(key, "transpose_b"):
        message = f"the weights of the projection, {shape_text(shape)}, are not transposed, as the runtime expects them"
        yield finding_at(draft.part, key, message, _EXPORT)
        return
    if len(shape) != 2 or DYNAMIC in shape:
        return
    rows, width = shape
    size = (context.stack.hidden_size if context.stack else head_width(paired.target)) if paired.target else None
    if size is None:
        if width % _TAPS:
            message = f"the projection takes a width of {width}, which is not divisible by {_TAPS}"
            yield finding_at(draft.part, key, message, _EXPORT)
    elif width != _TAPS * size:
        message = f"the projection takes a width of {width}, but {_TAPS} layers of the target have width {_TAPS * size}"
        yield finding_at(draft.part, key, message, _OTHER_TARGET)
    elif paired.target is not None and rows != size and _shares_embeddings(draft.part, paired.target):
        message = f"the projection has an output of width {rows}, but the target's embeddings have width {size}"
        yield finding_at(draft.part, key, message, _OTHER_TARGET)


def _shares_embeddings(draft: PartFacts, target: PartFacts) -> bool:
    """True if the draft gets the embeddings of the target: ``share_vocabulary`` of GenAI, or a part makes them."""
    if target.input("inputs_embeds") is not None:
        return True
    return find_embedding_gather(target) is not None and find_embedding_gather(draft) is not None


@rule(
    "DFL028",
    "eagle3-state-not-found",
    Severity.ERROR,
    "The runtime does not find the hidden state of the EAGLE-3 draft",
    rules_out=_EAGLE3,
)
def eagle3_state(context: Context) -> Iterator[Finding]:
    """No residual sum of the draft is in a scope called `midlayer`.

    What it checks
    --------------
    That an Add whose friendly name contains `midlayer` has a MatMul of a Multiply as its second operand:
    the sum after a gated feed-forward block.

    Why it matters
    --------------
    The runtime feeds this value back for the next token. If it finds none, it adds no output, and
    generation fails.

    How to fix it
    -------------
    Export the draft again with Optimum Intel, which calls the decoder layer `midlayer`.

    Source
    ------
    OpenVINO GenAI, `transform_hidden_state`; reproduced with 2026.4.1: "Port for tensor name
    last_hidden_state was not found".
    """
    draft = eagle3_draft(context)
    if draft is not None and midlayer(draft.part) is None:
        message = "no residual sum with a gated feed-forward block is in a scope called 'midlayer'"
        yield finding_at(draft.part, None, message, _EXPORT)


@rule(
    "DFL029",
    "unusable-d2t",
    Severity.ERROR,
    "The table d2t of the EAGLE-3 draft does not fit",
    rules_out=_EAGLE3,
)
def unusable_d2t(context: Context) -> Iterator[Finding]:
    """The table that turns the draft's token ids into those of the target is unusable, or the runtime does not find it.

    What it checks
    --------------
    That the output `d2t` is a constant whose friendly name contains `d2t`, of type i64, with an entry for
    each of the draft's logits. Each id plus its entry must be a token of the target. A table that the
    runtime does not find is a warning, and so is a missing one if the draft has other tokens.

    Why it matters
    --------------
    Another type fails during generation. A table that is too short is read beyond its end, and an id
    outside the vocabulary reads undefined data, both without an error message. Without the table, the
    draft's ids are used as they are, so that hardly any token is accepted.

    How to fix it
    -------------
    Export the draft again with Optimum Intel, and use it with the target it was trained for.

    Source
    ------
    OpenVINO GenAI, `find_d2t_result_node` and the sampler; reproduced with 2026.4.1.
    """
    paired, draft = pair(context), eagle3_draft(context)
    if paired is None or draft is None:
        return
    part = draft.part
    ours, theirs = _tokens(part), _tokens(paired.target) if paired.target is not None else None
    table = _table(context, part)
    if table is None:
        output = part.output("d2t")
        stored = _constant(context, part, output) if output is not None else None
        if stored is not None and not any(_entries(context, part, stored)):
            return  # without effect, found or not
        if output is not None:
            message = "the runtime does not find 'd2t', which must be a constant with d2t in its friendly name"
            yield finding_at(part, output, message, _EXPORT, Severity.WARNING)
        elif ours and theirs and ours < theirs:
            message = f"the draft has logits for {ours} of {theirs} tokens, but no 'd2t': its ids are used as they are"
            yield finding_at(part, None, message, _EXPORT, Severity.WARNING)
        elif ours and theirs and ours > theirs:
            message = f"the draft has logits for {ours} tokens, but the target has {theirs}"
            yield finding_at(part, part.output("logits"), message, _OTHER_TARGET)
        return
    if table.element_type != "i64":
        yield finding_at(part, table, f"'d2t' is {table.element_type}, but the runtime reads i64", _EXPORT)
    elif ours and table.elements < ours:
        yield finding_at(part, table, f"'d2t' has {table.elements} entries, but the draft has {ours} tokens", _EXPORT)
    else:
        for token, entry in enumerate(_entries(context, part, table)[:ours]):
            if token + entry < 0 or (theirs is not None and token + entry >= theirs):
                size = f" of {theirs} tokens" if theirs is not None else ""
                message = f"'d2t' turns the draft's token {token} into {token + entry}, outside the vocabulary{size}"
                yield finding_at(part, table, message, _OTHER_TARGET)
                return


def _table(context: Context, part: PartFacts) -> Constant | None:
    """The constant that the runtime takes as d2t."""
    outputs = (output for output in part.outputs if "d2t" in part.graph.op_name(output.source.op))
    return next(filter(None, (_constant(context, part, output) for output in outputs)), None)


def _constant(context: Context, part: PartFacts, output: ModelOutput) -> Constant | None:
    """The constant that an output returns, or None."""
    key = output.source.op
    if part.graph.op_type(key) not in ("Const", "Constant"):
        return None
    return next((one for one in context.constants(part.document) if one.id == key and not one.in_body), None)


def _entries(context: Context, part: PartFacts, table: Constant) -> array[int]:
    """Entries of the table, as far as they are read; empty if the .bin cannot be read (an IR rule reports it)."""
    values = array("q")
    size = min(table.size, _MOST_BYTES) // values.itemsize * values.itemsize
    values.frombytes(context.weights_reader(part.document).read(table.offset, size) or b"")
    return values


def _tokens(part: PartFacts) -> int | None:
    """Number of tokens that the logits cover, or None."""
    logits: ModelOutput | None = part.output("logits")
    return logits.shape[-1] if logits is not None and logits.shape and logits.shape[-1] > 0 else None


@rule(
    "DFL030",
    "reduced-draft-vocabulary",
    Severity.NOTE,
    "The draft proposes only some tokens of the target",
    rules_out=(),
)
def reduced_vocabulary(context: Context) -> Iterator[Finding]:
    """The draft's own output projection covers fewer tokens than the target has.

    What it checks
    --------------
    The width of the draft's `logits` against the target's, for DFlash and EAGLE-3.

    Why it matters
    --------------
    Such a draft is faster, and the text stays right. A token that it does not cover is never drafted, so
    the run of accepted tokens ends there.

    How to fix it
    -------------
    Nothing to fix if the covered tokens are those that the target writes often. `irtools prove` measures
    the acceptance rate.

    Source
    ------
    Reproduced with GenAI 2026.4.1: DFlash drafts the first tokens, EAGLE-3 those that `d2t` names.
    """
    paired = pair(context)
    if paired is None or paired.target is None or paired.draft.kind == "plain":
        return
    part = paired.draft.part
    ours, theirs = _tokens(part), _tokens(paired.target)
    if ours is None or theirs is None or ours >= theirs:
        return
    message = f"the draft has logits for {ours} of {theirs} tokens: tokens beyond {ours - 1} are never drafted"
    table = _table(context, part) if paired.draft.kind == "eagle3" else None
    if table is not None and any(_entries(context, part, table)):
        message = f"the draft proposes {ours} of the target's {theirs} tokens: the others are never drafted"
    yield finding_at(part, part.output("logits"), message, "`irtools prove` measures the acceptance rate")


@rule(
    "DFL033",
    "unpageable-eagle3-draft",
    Severity.ERROR,
    "The EAGLE-3 draft cannot be converted to paged attention",
    rules_out=_EAGLE3,
)
def unpageable_eagle3_draft(context: Context) -> Iterator[Finding]:
    """The draft has no fused attention, or keeps no state.

    What it checks
    --------------
    That the draft has a ScaledDotProductAttention op and states for its KV cache.

    Why it matters
    --------------
    The runtime converts an EAGLE-3 draft to paged attention, as it converts the target, and otherwise
    rejects it at load time.

    How to fix it
    -------------
    Export the draft again with `--task text-generation-with-past`.

    Source
    ------
    Reproduced with GenAI 2026.4.1: "No ScaledDotProductAttention operation observed in the graph", "Model
    is supposed to be stateful".
    """
    draft = eagle3_draft(context)
    if draft is None:
        return
    faults = {"has no fused attention": not draft.part.attentions, "keeps no state": not draft.part.states}
    lacking = [fault for fault, present in faults.items() if present]
    if lacking:
        message = f"the EAGLE-3 draft {' and '.join(lacking)}, so the runtime cannot convert it to paged attention"
        yield finding_at(draft.part, None, message, "export it again with --task text-generation-with-past")


@rule(
    "DFL034",
    "taken-output-name",
    Severity.ERROR,
    "The target has an output named last_hidden_state, the name that the runtime gives to the hidden states",
)
def taken_output_name(context: Context) -> Iterator[Finding]:
    """The target of a DFlash or EAGLE-3 draft already has an output `last_hidden_state`.

    What it checks
    --------------
    The tensor names of the outputs of a target that has logits and a KV cache. Without a DFlash or
    EAGLE-3 draft, this is a note.

    Why it matters
    --------------
    The runtime adds an output of this name for the hidden states that the draft reads, and then reads the
    first output of this name. DFlash fails during generation. EAGLE-3 silently gets the wrong values, and
    hardly any token is accepted.

    How to fix it
    -------------
    Rename or remove the output. `irtools expose` uses other names.

    Source
    ------
    OpenVINO GenAI, `transform_hidden_state` and `add_dflash_hidden_state_result`; reproduced with 2026.4.1.
    """
    part, paired = context.target_facts, pair(context)
    output = part.output("last_hidden_state") if part is not None else None
    if part is None or output is None or part.output("logits") is None or not part.states:
        return
    if part.graft is not None:  # MTP065 reports it
        return
    kinds = ("dflash", "eagle3")
    severity = None if paired is not None and paired.draft.kind in kinds else Severity.NOTE
    message = "the output 'last_hidden_state' takes the name that the runtime gives to the hidden states for a draft"
    hint = "rename or remove it if DFlash or EAGLE-3 is wanted"
    yield finding_at(part, output, message, hint, severity, rules_out=kinds)
