"""RUN: the runtime's requirements for running the target, and for the paged path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.lint.lost_names import lost_output, name_output
from irtools.model.paged import converts_before_attention, unconverted_states
from irtools.model.part import ModelOutput, PartFacts
from irtools.model.ports import CACHE_WORDS, PORTS
from irtools.model.target import find_lm_head, fixed_states


@rule("RUN001", "no-logits", Severity.ERROR, "The target has no output named logits")
def no_logits(context: Context) -> Iterator[Finding]:
    """No output of the target has the tensor name `logits`.

    What it checks
    --------------
    The tensor names of the outputs: the `output_names` of a Result, or else the names of the port that
    it reads.

    Why it matters
    --------------
    The runtime looks this output up by name. The model loads, but fails at the first token. A model
    without logits, such as an encoder, does not generate text.

    How to fix it
    -------------
    Name the output of the output projection `logits`, or export a causal language model. `--unsafe-fixes` names
    it if only one output is possible.

    Source
    ------
    Reproduced with GenAI 2026.4: "Port for tensor name logits was not found".
    """
    part = context.target_facts
    if part is not None and part.output("logits") is None:
        names = ", ".join(repr(output.label) for output in part.outputs) or "none"
        first = part.outputs[0].op if part.outputs else None
        message = f"no output is named 'logits' (outputs: {names})"
        lost = lost_output(part, PORTS["logits"])
        fix = name_output(part, lost, "logits") if lost is not None and _is_lm_head(part, lost) else None
        hint = "restore the output's name" if fix is not None else "export a causal language model"
        yield finding_at(part, first, message, hint, fix=fix)


def _is_lm_head(part: PartFacts, output: ModelOutput) -> bool:
    """True if an output is a projection with constant weights, which the runtime accepts as logits."""
    matmul = find_lm_head(part, output).matmul
    return matmul is not None and any(map(part.graph.constant, part.graph.producers(matmul)))


@rule("RUN002", "stateless-target", Severity.ERROR, "The target has no states")
def stateless_target(context: Context) -> Iterator[Finding]:
    """The target has its keys and values as inputs and outputs, or recomputes them for each token.

    What it checks
    --------------
    That the target has a ReadValue or Assign.

    Why it matters
    --------------
    The paged-attention conversion needs states ("Model is supposed to be stateful"), and the stateful
    path needs the inputs that belong to them. GenAI cannot run the export.

    How to fix it
    -------------
    Export with `--task text-generation-with-past` (or image-text-to-text), and without
    `--disable-stateful`.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    part = context.target_facts
    if part is not None and part.output("logits") is not None and not part.states:
        past = [port.label for port in part.inputs if any(word in port.label for word in CACHE_WORDS)]
        cache = f"its KV cache is in {len(past)} inputs such as {past[0]!r}" if past else "it has no KV cache"
        message = f"the target has no state variables: {cache}"
        hint = "export with `--task text-generation-with-past`, without `--disable-stateful`"
        yield finding_at(part, None, message, hint)


@rule("RUN003", "unfused-attention", Severity.WARNING, "The target has no fused attention")
def unfused_attention(context: Context) -> Iterator[Finding]:
    """The target has no ScaledDotProductAttention.

    What it checks
    --------------
    That a stateful model has a live op of this type.

    Why it matters
    --------------
    The paged-attention conversion replaces this op and rejects a model without it: no continuous
    batching, no MTP, no DFlash, no EAGLE-3. `LLMPipeline` falls back to the stateful path, which is
    slower with several requests.

    How to fix it
    -------------
    Export with `attn_implementation="sdpa"`, the exporter's default for families that support it.

    Source
    ------
    Reproduced with GenAI 2026.4: "No ScaledDotProductAttention operation observed in the graph".
    """
    part = context.target_facts
    if part is not None and part.states and not part.attentions:
        message = "the target has no ScaledDotProductAttention, so it cannot be converted to paged attention"
        yield finding_at(
            part, None, message, "export with fused attention (sdpa) if the family supports it"
        ).stateful_only()


@rule("RUN004", "unmanaged-state", Severity.WARNING, "A state remains after the paged-attention conversion")
def unmanaged_state(context: Context) -> Iterator[Finding]:
    """A state is neither a KV cache of a fused attention nor the state of a linear attention or convolution.

    What it checks
    --------------
    That the value of each ReadValue reaches the key or value operand of a ScaledDotProductAttention, a
    causal convolution, or a recurrence. A model with fused attention in only some layers has other
    states.

    Why it matters
    --------------
    The runtime manages only the states that it converts. If `beam_idx` reorders another state, the
    paged path rejects the target at load time ("Model references undeclared parameters"). Otherwise all
    requests share the state, and it is never rewound: the text is wrong, without an error message.
    DFlash rejects the target in both cases: "contains unmanaged state op(s) after paging conversion".

    How to fix it
    -------------
    Export all attention layers as fused attention.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    part = context.target_facts
    if part is None or not part.attentions:
        return
    for state in unconverted_states(part):
        message = f"the state {state.variable!r} feeds no fused attention, convolution or recurrence"
        yield finding_at(
            part, state.reads[0], message, "export all attention layers as fused attention"
        ).stateful_only()


@rule("RUN005", "converted-cache", Severity.ERROR, "A conversion lies between the cache and its attention")
def converted_cache(context: Context) -> Iterator[Finding]:
    """Keys or values are converted to another type and back before they reach the attention.

    What it checks
    --------------
    That no Convert of an activation lies between a ReadValue and the key or value operand of a
    ScaledDotProductAttention in the target.

    Why it matters
    --------------
    The paged-attention conversion does not match such a pair. Loading fails: "Model references
    undeclared parameters".

    How to fix it
    -------------
    Load the checkpoint as float32 for the export, and compress only the weights.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    part = context.target_facts
    if part is None:
        return
    for op in converts_before_attention(part):
        message = f"{part.graph.op_name(op)!r} converts the cache before it reaches the attention"
        yield finding_at(part, op, message, "load the checkpoint as float32 for the export").stateful_only()


@rule("RUN009", "prefix-caching-conflict", Severity.NOTE, "Linear attention with a draft needs prefix caching off")
def prefix_caching(context: Context) -> Iterator[Finding]:
    """The target has linear-attention or convolution states.

    What it checks
    --------------
    That every state is a growing key or value cache.

    Why it matters
    --------------
    If prefix caching is on, speculative decoding of such a model fails during generation. `VLMPipeline`
    turns prefix caching on by default.

    How to fix it
    -------------
    Pass the pipeline a `scheduler_config` with `enable_prefix_caching = False`.

    Source
    ------
    Reproduced with GenAI 2026.4: "Linear-attention verifier speculative decoding requires
    enable_prefix_caching=false".
    """
    part = context.target_facts
    if part is None or not part.attentions:
        return
    unmanaged = list(unconverted_states(part))  # RUN004 reports them
    rest = [state for state in fixed_states(part) if state not in unmanaged]
    if rest:
        message = f"{len(rest)} of {len(part.states)} states belong to linear attention or convolutions"
        finding = finding_at(part, rest[0].reads[0], message, "with a draft, set enable_prefix_caching=False")
        yield replace(finding, needs=dict.fromkeys(("mtp", "dflash", "draft"), "with enable_prefix_caching=False"))
