"""Pattern for the ops between the lm_head MatMul and the `logits` output."""

from __future__ import annotations

from irtools.authoring import Match, Mismatch, Probe, pattern

_ELEMENTWISE = {
    "Add",
    "Subtract",
    "Multiply",
    "Divide",
    "Tanh",
    "Minimum",
    "Maximum",
    "Clamp",
    "Convert",
    "LogSoftmax",
    "SoftMax",
}
_MOVES = {"Reshape", "Squeeze", "Unsqueeze", "Transpose", "Slice", "StridedSlice", "Gather", "Concat", "Split"}


@pattern("logits_tail", "logits-tail", "Result")
def logits_tail(probe: Probe, op: int) -> Match | Mismatch:
    """A MatMul with constant weights, optionally followed by elementwise ops and data moves.

    ``logits <- [Convert | Add bias | Divide, Multiply by a scale | soft-cap Multiply(Tanh(Divide))
    | LogSoftmax | Reshape, Transpose, Slice ...]* <- MatMul(activation, weights)``. Each op has
    exactly one operand that is not constant.
    """
    tail: list[int] = []
    current = op
    while True:
        moving = set(probe.moving(current))
        if probe.type(current) == "MatMul":
            constants = [source for source in probe.inputs(current) if probe.constant(source)]
            if len(moving) != 1 or len(constants) != 1:
                return probe.fail("the MatMul above the logits multiplies two activations", current)
            return probe.match("tail" if tail else "direct", op, {"head": current}, tuple(reversed(tail)))
        if not moving:
            return probe.fail(f"{probe.type(current)} does not depend on any model input", current)
        if probe.type(current) in _MOVES:
            # Input 0 is the data; the other inputs are computed from shapes.
            moving = {probe.inputs(current)[0]}
        if len(moving) != 1:
            message = f"this {probe.type(current)} joins {len(moving)} values, so there is no single lm_head"
            return probe.fail(message, current)
        if current != op:
            if probe.type(current) not in _ELEMENTWISE | _MOVES:
                return probe.fail(f"{probe.type(current)} lies between the logits and the lm_head MatMul", current)
            tail.append(current)
        current = moving.pop()
