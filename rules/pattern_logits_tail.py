"""From the `logits` output back to the head's MatMul."""

from __future__ import annotations

from irtools.graph.match import Match, Mismatch, Probe, pattern

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
    """The output is a MatMul with constant weights, or elementwise ops and moves over one.

    ``logits <- [Convert | Add bias | Divide, Multiply by a scale | soft-cap Multiply(Tanh(Divide))
    | LogSoftmax
    | Reshape, Transpose, Slice ...]* <- MatMul(activation, weights)``. Each op has one operand
    that is no constant.
    """
    tail: list[int] = []
    current = op
    while True:
        moving = set(probe.moving(current))
        if probe.type(current) == "MatMul":
            constants = [source for source in probe.inputs(current) if probe.constant(source)]
            if len(moving) != 1 or len(constants) != 1:
                return probe.fail(
                    "the MatMul above the logits multiplies two activations, not one with weights", current
                )
            return probe.match("tail" if tail else "direct", op, {"head": current}, tuple(reversed(tail)))
        if not moving:
            return probe.fail(f"{probe.type(current)} is not computed from any input", current)
        if probe.type(current) in _MOVES:
            # Only the data moves; where to is computed from shapes.
            moving = {probe.inputs(current)[0]} - ({current} if not probe.inputs(current) else set())
        if len(moving) != 1:
            return probe.fail(
                f"{len(moving)} values meet in this {probe.type(current)}, so there is no single head", current
            )
        if current != op:
            if probe.type(current) not in _ELEMENTWISE | _MOVES:
                return probe.fail(f"{probe.type(current)} lies between the logits and the head's MatMul", current)
            tail.append(current)
        current = moving.pop()
