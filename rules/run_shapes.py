"""RUN: element types and shapes of the target's ports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.ir.constants import ELEMENT_BITS
from irtools.ir.op import DYNAMIC
from irtools.model.part import ModelInput, ModelOutput, PartFacts
from irtools.model.ports import PORTS, TOKEN_INPUTS
from irtools.text import shape_text

_TYPED = (*TOKEN_INPUTS, "position_ids", "attention_mask", "beam_idx", "logits")
_REPLACED = ("attention_mask", "beam_idx")
"""Inputs that the paged path replaces with its own."""
_DYNAMIC = {"input_ids": 2, "attention_mask": 2, "beam_idx": 1, "inputs_embeds": 2}
"""Number of leading dimensions that vary from call to call."""


def _generating(context: Context) -> PartFacts | None:
    part = context.target_facts
    return part if part is not None and part.states else None


@rule("RUN012", "mistyped-port", Severity.ERROR, "A port of the target has the wrong element type")
def port_type(context: Context) -> Iterator[Finding]:
    """An input or the logits do not have the element type that the runtime uses.

    What it checks
    --------------
    i64 for `input_ids`, `position_ids` and `attention_mask`; f32 for `inputs_embeds` and `logits`; i32
    for `beam_idx`. A warning for `attention_mask` and `beam_idx`, which the paged path replaces.

    Why it matters
    --------------
    The runtime sets and reads tensors of these types. The model loads, but fails at the first token.

    How to fix it
    -------------
    Keep the ports as exported. Weight compression does not change ports.

    Source
    ------
    Reproduced with GenAI 2026.4: "Tensor data with element type ... is not representable".
    """
    part = _generating(context)
    if part is None:
        return
    ports: list[ModelInput | ModelOutput] = [*part.inputs, *part.outputs]
    for port in ports:
        name = next((name for name in port.names if name in _TYPED), None)
        if name is not None and port.element_type in ELEMENT_BITS and port.element_type != PORTS[name].element_type:
            message = f"{name!r} is {port.element_type}, but the runtime uses {PORTS[name].element_type}"
            hint = "keep the ports as exported; only weights are compressed"
            yield finding_at(part, port, message, hint, Severity.WARNING if name in _REPLACED else None)


@rule("RUN013", "fixed-dimension", Severity.WARNING, "The target has a fixed batch or length")
def fixed_dimension(context: Context) -> Iterator[Finding]:
    """An input dimension that varies from call to call is fixed.

    What it checks
    --------------
    Batch and length of `input_ids`, `inputs_embeds` and `attention_mask`, and the size of `beam_idx`.

    Why it matters
    --------------
    The paged path uses its own token layout and is not affected. The stateful path and NPU use the
    fixed value, so a prompt of another length fails.

    How to fix it
    -------------
    Export with dynamic shapes.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    part = _generating(context)
    if part is None:
        return
    for port in part.inputs:
        count = next((_DYNAMIC[name] for name in port.names if name in _DYNAMIC), 0)
        if any(dim != DYNAMIC for dim in port.shape[:count]):
            message = f"{port.label!r} is {shape_text(port.shape)}, with a fixed batch or length"
            yield finding_at(part, port, message, "export with dynamic shapes")


@rule("RUN014", "position-rank-mismatch", Severity.ERROR, "The target's position_ids have the wrong rank")
def position_rank(context: Context) -> Iterator[Finding]:
    """The rank of `position_ids` does not match the number of position axes in config.json.

    What it checks
    --------------
    For a target with `inputs_embeds`: that `position_ids` has rank 3 if config.json has an
    `mrope_section`, and rank 2 otherwise.

    Why it matters
    --------------
    The runtime chooses the rank by model family. It sets a tensor of another rank, and generation
    fails.

    How to fix it
    -------------
    Export the model again, and take config.json from the same checkpoint.

    Source
    ------
    Reproduced with GenAI 2026.4: "Can not clone with new dims".
    """
    part = _generating(context)
    positions = part.input("position_ids") if part is not None else None
    if part is None or positions is None or part.input("inputs_embeds") is None or not context.config:
        return
    wanted = 3 if _several_axes(context) else 2
    if len(positions.shape) != wanted:
        message = f"'position_ids' is {shape_text(positions.shape)}, but config.json requires rank {wanted}"
        yield finding_at(part, positions, message, "export the model again")


def _several_axes(context: Context) -> bool:
    sections = (context.text_config, context.config)
    values = (section.get(key) for section in sections for key in ("rope_parameters", "rope_scaling"))
    return any(isinstance(value, Mapping) and "mrope_section" in value for value in values)


@rule("RUN015", "text-position-rank", Severity.ERROR, "The position_ids of a text target do not have rank 2")
def text_position_rank(context: Context) -> Iterator[Finding]:
    """The `position_ids` of a target with `input_ids` do not have rank 2.

    What it checks
    --------------
    The rank of `position_ids`, for a target that takes `input_ids`.

    Why it matters
    --------------
    For such a target the runtime sets positions of batch and length, also if config.json has an
    `mrope_section`. With several axes of positions, generation fails at the first token, with and
    without paged attention.

    How to fix it
    -------------
    Export the vision-language model as a whole (``--task image-text-to-text``), so that the language
    model takes embeddings.

    Source
    ------
    Reproduced with GenAI 2026.4.1, LLMPipeline: "Can not clone with new dims" with paged attention,
    "Can't set the input tensor" without. Rank 1 is refused by both, too.
    """
    part = _generating(context)
    positions = part.input("position_ids") if part is not None else None
    if part is None or positions is None or part.input("input_ids") is None or not positions.shape:
        return
    if len(positions.shape) != 2:
        message = f"'position_ids' is {shape_text(positions.shape)}, but the runtime sets rank 2 beside 'input_ids'"
        hint = "export the whole vision-language model (--task image-text-to-text), or remove the further axis"
        yield finding_at(part, positions, message, hint)
