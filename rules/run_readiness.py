"""RUN: will the runtime take the target at all, and on which path."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.lint.model import Context, Finding, Severity, rule
from irtools.lint.run import target_part
from irtools.model.paged import converts_before_attention, unconverted_states
from irtools.model.part import Part


def _at(part: Part, op: int | None, message: str, hint: str, severity: Severity | None = None) -> Finding:
    line = part.graph.line(op) if op is not None else part.document.line(part.document.scan.net_tag)
    name = part.graph.op_name(op) if op is not None else None
    return Finding(message, hint, part.document.path, line, name, severity)


@rule("RUN001", "no-logits", Severity.ERROR, "The target has no output named logits")
def no_logits(context: Context) -> Iterator[Finding]:
    """No output of the target has the tensor name `logits`.

    What it checks
    --------------
    The tensor names of the outputs: the `output_names` of a Result, or else the names of the port
    that it reads.

    Why it matters
    --------------
    The runtime asks for this output by name: it loads, and fails with the first token. A model that
    has none by nature, such as an encoder, generates no text.

    How to fix it
    -------------
    Name the output of the output projection `logits`, or export a causal language model.

    Source
    ------
    Reproduced with GenAI 2026.4: "Port for tensor name logits was not found".
    """
    part = target_part(context)
    if part is not None and part.output("logits") is None:
        names = ", ".join(repr(output.label) for output in part.outputs) or "none"
        first = part.outputs[0].op if part.outputs else None
        yield _at(part, first, f"no output is named 'logits' (outputs: {names})", "is this a causal language model?")


@rule("RUN002", "stateless-target", Severity.ERROR, "The target has no states")
def stateless_target(context: Context) -> Iterator[Finding]:
    """The target keeps keys and values in inputs and outputs, or computes them anew for each token.

    What it checks
    --------------
    Whether there is any ReadValue or Assign.

    Why it matters
    --------------
    The paged-attention conversion needs states ("Model is supposed to be stateful"), and the
    stateful path needs the inputs that go with them: the export cannot be run by GenAI.

    How to fix it
    -------------
    Export with `--task text-generation-with-past` (or image-text-to-text), and without
    `--disable-stateful`.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    part = target_part(context)
    if part is not None and part.output("logits") is not None and not part.states:
        past = [port.label for port in part.inputs if "past" in port.label or "cache" in port.label]
        how = f"its past is in {len(past)} inputs such as {past[0]!r}" if past else "it has no past at all"
        yield _at(
            part,
            None,
            f"the target has no state variables: {how}",
            "export with `--task text-generation-with-past`, without `--disable-stateful`",
        )


@rule("RUN003", "unfused-attention", Severity.WARNING, "The target has no fused attention")
def unfused_attention(context: Context) -> Iterator[Finding]:
    """There is no ScaledDotProductAttention in the target.

    What it checks
    --------------
    Whether there is a live op of that type in a stateful model.

    Why it matters
    --------------
    The paged-attention conversion replaces this op, and refuses a model without: no continuous
    batching, no MTP, no DFlash, no EAGLE-3. `LLMPipeline` goes back to the stateful path by itself,
    which is slower with several requests.

    How to fix it
    -------------
    Export with `attn_implementation="sdpa"`, the exporter's default where the family has it.

    Source
    ------
    Reproduced with GenAI 2026.4: "No ScaledDotProductAttention operation observed in the graph".
    """
    part = target_part(context)
    if part is not None and part.states and not part.attentions:
        yield _at(
            part,
            None,
            "the target has no ScaledDotProductAttention, so it cannot be converted to paged attention",
            "export with fused attention (sdpa) if the family has it",
        )


@rule("RUN004", "unmanaged-state", Severity.WARNING, "A state stays behind after the paged-attention conversion")
def unmanaged_state(context: Context) -> Iterator[Finding]:
    """A state is neither a key or value cache of a fused attention nor that of a linear attention.

    What it checks
    --------------
    Where the value of each ReadValue goes: to the key or value operand of a
    ScaledDotProductAttention, into a causal convolution, or into a recurrence. A model in which only
    some layers have fused attention has others.

    Why it matters
    --------------
    The runtime manages the states that it converts. If another one is reordered by `beam_idx`, the
    target is refused at load on the paged path ("Model references undeclared parameters"). If not,
    it is shared by all requests and never rewound: wrong text, and nothing is said. DFlash refuses
    the target in any case: "contains unmanaged state op(s) after paging conversion".

    How to fix it
    -------------
    Export all attention layers fused.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    part = target_part(context)
    if part is None or not part.attentions:
        return
    for state in unconverted_states(part):
        yield _at(
            part,
            state.reads[0],
            f"the state {state.variable!r} feeds no fused attention, convolution or recurrence",
            "export all attention layers fused",
        )


@rule("RUN005", "converted-cache", Severity.ERROR, "A conversion lies between the cache and its attention")
def converted_cache(context: Context) -> Iterator[Finding]:
    """Keys or values are converted to another type and back on their way to the attention.

    What it checks
    --------------
    Whether a Convert of an activation lies between a ReadValue and the key or value operand of a
    ScaledDotProductAttention in the target.

    Why it matters
    --------------
    The paged-attention conversion does not match through it: "Model references undeclared
    parameters", at load.

    How to fix it
    -------------
    Load the checkpoint as float32 for the export; compress the weights only.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    part = target_part(context)
    for op in converts_before_attention(part) if part is not None else ():
        if part is not None:
            name = part.graph.op_name(op)
            message = f"{name!r} converts the cache on its way to the attention"
            yield _at(part, op, message, "load the checkpoint as float32 for the export")


@rule("RUN009", "prefix-caching-conflict", Severity.NOTE, "Linear attention works only with prefix caching off")
def prefix_caching(context: Context) -> Iterator[Finding]:
    """The target has linear-attention or convolution states.

    What it checks
    --------------
    Whether there are states that are no growing cache of keys or values.

    Why it matters
    --------------
    Speculative decoding of such a model is refused while generating when prefix caching is on, and
    `VLMPipeline` turns it on by default.

    How to fix it
    -------------
    Give the pipeline a `scheduler_config` with `enable_prefix_caching = False`.

    Source
    ------
    Reproduced with GenAI 2026.4: "Linear-attention verifier speculative decoding requires
    enable_prefix_caching=false".
    """
    part = target_part(context)
    if part is None or not part.attentions:
        return
    rest = [state for state in part.states if state.reads and state.shape and not state.grows]
    if rest:
        yield _at(
            part,
            rest[0].reads[0],
            f"{len(rest)} of {len(part.states)} states belong to linear attention or convolutions",
            "with a draft, set enable_prefix_caching=False",
        )
