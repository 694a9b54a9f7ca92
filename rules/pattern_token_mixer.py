"""Patterns for the token mixer: fused or decomposed attention, recurrences, convolutions."""

from __future__ import annotations

from irtools.authoring import Match, Mismatch, Probe, pattern
from irtools.graph.view import GraphView

_RESHAPING = {"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Convert", "Broadcast"}
_OVER_SCORES = _RESHAPING | {
    *("Add", "Subtract", "Multiply", "Divide", "Select", "Tanh"),
    *("Concat", "Slice", "Clamp", "Maximum", "Minimum"),
}
_UNDER_SOFTMAX = _RESHAPING | {"Select", "Slice", "Multiply", "StridedSlice", "Split", "VariadicSplit", "Where"}
_SELECTING = _RESHAPING | {"Gather", "Slice", "Subtract", "Multiply"}
_PRODUCTS = {"MatMul", "Einsum"}
_COMPARISONS = {"Less", "LessEqual", "Greater", "GreaterEqual"}


@pattern("token_mixer", "fused-attention", "ScaledDotProductAttention", priority=10)
def fused_attention(probe: Probe, op: int) -> Match | Mismatch:
    """A ScaledDotProductAttention whose query comes from the residual stream.

    It is cross-attention if its keys do not depend on the token embeddings.
    """
    sources = probe.inputs(op)
    query, key, value = sources[:3]
    if not probe.on_stream(query):
        return probe.fail("its query does not come from the residual stream", query)
    roles = {"query": query, "key": key, "value": value}
    if not probe.on_stream(key):
        return probe.match("cross_attention", op, roles)
    if len(sources) > 3 and len(probe.input_shape(op, 3)) > 0:
        roles["mask"] = sources[3]
        return probe.match(_attention_kind(probe, sources[3]), op, roles)
    return probe.match("full_attention", op, roles)


@pattern("token_mixer", "decomposed-attention", "SoftMax", "Softmax", priority=20)
def decomposed_attention(probe: Probe, op: int) -> Match | Mismatch:
    """A SoftMax over a MatMul of two activations, multiplied by a third activation.

    ``MatMul(SoftMax([scale, mask, soft-cap](MatMul(query, key))), value)``. A router's SoftMax
    has a MatMul with constant weights above it instead.
    """
    scores, masks = op, []
    for _ in range(24):
        if probe.type(scores) in _PRODUCTS:
            break
        streaming = probe.streaming(scores)
        if not streaming or (scores != op and probe.type(scores) not in _OVER_SCORES):
            return probe.fail(f"{probe.type(scores)} above the SoftMax is not a product of query and key", scores)
        if probe.type(scores) in ("Add", "Select", "Subtract", "Multiply"):
            others = [source for source in probe.inputs(scores) if source not in streaming]
            masks += [source for source in others if len(probe.shape(source)) > 1]
        scores = streaming[0]
    if probe.type(scores) not in _PRODUCTS:
        return probe.fail("no product of query and key lies above the SoftMax", scores)
    query, key = (*probe.inputs(scores), scores, scores)[:2]
    if probe.constant(query) or probe.constant(key):
        return probe.fail("the product above the SoftMax has constant weights, so it is a router", scores)
    weighted = _product_below(probe, op)
    if weighted is None:
        return probe.fail("the output of the SoftMax is not multiplied by values", op)
    roles = {"query": query, "key": key, "scores": scores, "output": weighted}
    if probe.on_stream(query) != probe.on_stream(key):
        return probe.match("cross_attention", op, roles)
    # Some exports add the padding mask and the causal mask separately.
    roles |= {f"mask_{number}": mask for number, mask in enumerate(masks)}
    kinds = {_attention_kind(probe, mask) for mask in masks}
    return probe.match("sliding_attention" if "sliding_attention" in kinds else "full_attention", op, roles)


def _product_below(probe: Probe, op: int) -> int | None:
    """The MatMul of activations that reads a SoftMax, directly or reshaped or masked."""
    pending = [op]
    for current in pending:  # the loop appends to it
        for consumer in probe.view.consumers(current):
            kind = probe.type(consumer.op)
            if kind in _PRODUCTS and not any(probe.constant(source) for source in probe.inputs(consumer.op)):
                return consumer.op
            if kind in _UNDER_SOFTMAX and consumer.op not in pending:
                pending.append(consumer.op)
    return None


def _attention_kind(probe: Probe, mask: int) -> str:
    """Sliding if the mask compares positions twice, once shifted by a constant window."""
    compared = shifted = 0
    for op in probe.ancestors(mask, stop=lambda op: probe.type(op) == "ShapeOf" or probe.on_stream(op)):
        if probe.type(op) in _COMPARISONS and len(probe.moving(op)) == 2:
            compared += 1
            shifted += any(_shifted(probe, source) for source in probe.moving(op))
    return "sliding_attention" if compared > 1 and shifted else "full_attention"


def _shifted(probe: Probe, op: int) -> bool:
    """True if a position has a constant added or subtracted."""
    op = probe.upward(op, _RESHAPING, limit=8)
    return probe.type(op) in ("Add", "Subtract") and len(probe.moving(op)) == 1


@pattern("token_mixer", "recurrence", "Loop", "TensorIterator", priority=30)
def recurrence(probe: Probe, op: int) -> Match | Mismatch:
    """A loop over positions that carries a state and has no MatMul with weights.

    A loop over experts multiplies by weights, passed in or in its body. The kind is linear
    attention if the body has a Subtract on the state (delta rule), state space if a SoftPlus
    (step size) precedes the loop, and otherwise linear attention.
    """
    if not probe.streaming(op):
        return probe.fail("no input of the loop comes from the residual stream", op)
    types = probe.view.body_types(op)
    if not types:
        return probe.fail("the loop has no body", op)
    if "MatMul" in types and _weight_product(probe, op, probe.view.bodies(op)["body"]) is not None:
        return probe.fail("its body multiplies by weights, so it loops over experts, not over positions", op)
    if "Subtract" in types:
        return probe.match("linear_attention", op)
    softplus = any(probe.type(other) == "SoftPlus" for other in probe.region)
    return probe.match("state_space" if softplus else "linear_attention", op)


def _weight_product(probe: Probe, loop: int, body: GraphView) -> int | None:
    """A MatMul in the body whose weights are constants of the body or passed in from outside."""
    passed = {
        internal
        for external, internal in probe.view.port_map(loop)
        if external < len(probe.inputs(loop))
        and probe.constant(probe.inputs(loop)[external])
        and len(probe.input_shape(loop, external)) >= 2
    }
    for product in body.by_type.get("MatMul", ()):
        for source in body.producers(product):
            if body.constant(source):
                return product
            while source not in passed and body.op_type(source) in _SELECTING:
                source = body.producers(source)[0]
            if source in passed:
                return product
    return None


@pattern("token_mixer", "recurrent-cell", "LSTMSequence", "GRUSequence", "RNNSequence", priority=35)
def recurrent_cell(probe: Probe, op: int) -> Match | Mismatch:
    """A recurrent cell over the sequence."""
    return probe.match("state_space", op)


@pattern("token_mixer", "product-attention", "MatMul", "Einsum", priority=38)
def product_attention(probe: Probe, op: int) -> Match | Mismatch:
    """Linear attention: two nested products of activations without a SoftMax.

    ``(query @ key) @ value`` or ``query @ (key @ value)``, with decay or gates in between. A
    router rules this pattern out, because its gathered expert weights are activations too.
    """
    if not _joins_activations(probe, op):
        return probe.fail("it does not multiply two activations", op)
    if any(probe.type(other) == "TopK" for other in probe.region):
        return probe.fail("a router selects one of its operands", op)
    for above in probe.ancestors(op, stop=lambda above: above not in probe.region):
        if above in probe.region and probe.type(above) in _PRODUCTS and _joins_activations(probe, above):
            return probe.match("linear_attention", op, {"inner": above})
    return probe.fail("no other product of activations lies above it", op)


def _joins_activations(probe: Probe, op: int) -> bool:
    return sum(probe.on_stream(source) for source in probe.inputs(op)) > 1


@pattern("token_mixer", "convolution", "GroupConvolution", "Convolution", priority=40)
def convolution(probe: Probe, op: int) -> Match | Mismatch:
    """A convolution over positions whose input comes from the residual stream."""
    if not probe.streaming(op):
        return probe.fail("its input does not come from the residual stream", op)
    kernel = probe.input_shape(op, 1)
    if kernel and kernel[-1] == 1:
        return probe.fail("its kernel has width 1, so it does not mix positions", op)
    return probe.match("convolution", op)


@pattern("token_mixer", "cumulative-sum", "CumSum", priority=36)
def cumulative_sum(probe: Probe, op: int) -> Match | Mismatch:
    """A cumulative sum of activations over positions, as in state spaces without a loop."""
    if probe.view.output(op).element_type not in ("f32", "f16", "bf16"):
        return probe.fail("it sums integers (positions), not activations", op)
    if any(probe.type(other) == "TopK" for other in probe.region):
        return probe.fail("it counts the tokens that a router assigns to each expert", op)
    return probe.match("state_space", op)
