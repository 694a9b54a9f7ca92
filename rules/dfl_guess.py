"""DFL: the runtime's own guess of the hidden states in a target without annotation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from irtools.anatomy.describe import layers_text
from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.decoder.stack import DecoderStack
from irtools.lint.pair import pair
from irtools.model.guess import default_layers, guess
from irtools.model.part import PartFacts


@rule("DFL020", "unguessable-layers", Severity.NOTE, "The runtime's guess for hidden states is wrong or finds nothing")
def unguessable_layers(context: Context) -> Iterator[Finding]:
    """Without an annotation, EAGLE-3 and DFlash do not get the hidden states of this target.

    What it checks
    --------------
    Only for a target without annotation. The runtime guesses the hidden state of a layer as an Add
    named `layers.<id>/` whose second operand is a MatMul over a Multiply. This rule compares the guess
    for each layer with the located hidden state. For the last layer, the guess is always the value
    before the final norm; that alone is not reported.

    Why it matters
    --------------
    Either loading fails with "Eagle3 fallback found 0 outputs", or the runtime silently uses a value
    from inside a layer.

    How to fix it
    -------------
    Run `irtools annotate` for DFlash. EAGLE-3 always uses the guess.

    Source
    ------
    OpenVINO GenAI, `eagle3_model_transforms.cpp`.
    """
    part, stack = context.target_facts, context.stack
    if part is None or stack is None or part.annotation is not None or pair(context) is not None:
        return
    if not part.states:
        return  # no decoding strategy is available; RUN002 reports it
    message = _verdict(part, stack)
    if message:
        hint, needs = "run `irtools annotate` to make the target usable for DFlash", {"dflash": "with an annotation"}
        yield finding_at(part, None, f"without annotation, {message}", hint, rules_out=("dflash",), needs=needs)


def _verdict(part: PartFacts, stack: DecoderStack) -> str:
    taken = guess(part, range(len(stack.layers)))
    if not taken:
        return "the runtime's guess finds no layer"
    missing = [layer.index for layer in stack.layers if layer.index not in taken]
    wrong = [
        layer.index for layer in stack.layers[:-1] if layer.index in taken and taken[layer.index] != layer.source.op
    ]
    last = stack.layers[-1].index
    if last in taken and taken[last] not in (stack.last_sum, stack.layers[-1].source.op):
        wrong.append(last)
    parts = []
    if missing:
        parts.append(f"finds nothing for {layers_text(missing)}")
    if wrong:
        parts.append(f"takes the wrong value for {layers_text(wrong)}")
    return f"the runtime's guess {' and '.join(parts)} (of {len(stack.layers)} layers)" if parts else ""


@rule(
    "DFL021",
    "unguessable-eagle3-layers",
    Severity.ERROR,
    "The runtime does not find the layers that the EAGLE-3 draft reads",
    rules_out=("eagle3",),
)
def eagle3_layers(context: Context) -> Iterator[Finding]:
    """An EAGLE-3 draft is given, and the runtime's guess does not find exactly three hidden states.

    What it checks
    --------------
    The layers listed in the draft's rt_info `hidden_layers_list`; without that list, layers 2, N/2 and
    N-3, where N is `num_hidden_layers` in the target's config.json and at least 10. The guess for each
    layer that the target has is compared with the located hidden state. A guess that finds another value
    is a warning.

    Why it matters
    --------------
    EAGLE-3 does not read the annotation. If a layer is not found, the runtime rejects the target at
    load time.

    How to fix it
    -------------
    Use DFlash or MTP, or a target whose layers the runtime can guess.

    Source
    ------
    OpenVINO GenAI, `extract_eagle3_info_from_config` and `transform_hidden_state`.
    """
    paired = pair(context)
    if paired is None or paired.draft.kind != "eagle3" or paired.target is None:
        return
    target, hint = paired.target, "EAGLE-3 uses this guess even if the target has an annotation"
    layers, count = paired.draft.layers, context.layer_count
    if paired.draft.hidden_layers_list is None:
        layers = list(default_layers(_configured(context)))
        if not layers:
            has = f"has {_configured(context)}" if _configured(context) else "gives no num_hidden_layers"
            message = f"the draft names no layers, and the runtime's default needs 10 layers: config.json {has}"
            yield finding_at(paired.draft.part, None, message, "list three layers in hidden_layers_list")
            return
    else:
        layers = [layer for layer in layers or () if layer >= 0 and (count is None or layer < count)]
    taken = guess(target, layers)
    missing = [layer for layer in layers if layer not in taken]
    if missing:
        yield finding_at(target, None, f"the runtime's guess finds nothing for {layers_text(missing)}", hint)
    for layer, op in taken.items():
        located = context.stack.layers[layer] if context.stack and layer < len(context.stack.layers) else None
        if located is not None and op not in (located.source.op, context.stack.last_sum if context.stack else op):
            name, producer = target.graph.op_name(op), located.locator.producer
            message = f"the runtime's guess for layer {layer} is {name!r}, not {producer!r}"
            yield finding_at(target, op, message, hint, Severity.WARNING)


def _configured(context: Context) -> int:
    """Number of layers as the runtime reads it from the target's config.json; 0 if it finds none."""
    for section in (context.config, context.config.get("text_config")):
        count = section.get("num_hidden_layers") if isinstance(section, Mapping) else None
        if isinstance(count, int) and count > 0:
            return count
    return 0
