"""Facts about the target that several rules need: its lm_head as the runtime finds it, and its attention."""

from __future__ import annotations

from dataclasses import dataclass

from irtools.ir.op import DYNAMIC
from irtools.model.part import ModelOutput, PartFacts, State

__all__ = [
    "RuntimeLmHead",
    "attention_states",
    "find_embedding_gather",
    "find_lm_head",
    "find_runtime_lm_head",
    "fixed_states",
    "head_width",
]

_EMBEDDING_ROWS = 1000
_EMBEDDING_NAMES = ("embed_tokens", "embedding")


@dataclass(frozen=True, slots=True)
class RuntimeLmHead:
    """The lm_head as the runtime finds it.

    Attributes
    ----------
    output : ModelOutput or None
        The output named ``logits``.
    matmul : int or None
        Layer id of the MatMul; None if the runtime does not find it.
    tail : tuple of str
        Op types from the output up to the MatMul, or up to the op at which the search failed.
    """

    output: ModelOutput | None
    matmul: int | None
    tail: tuple[str, ...]

    @property
    def direct(self) -> bool:
        """True if the output is the MatMul itself."""
        return self.matmul is not None and not self.tail


_PATTERNS = ((), ("Add",), ("Transpose",), ("Multiply", "Tanh", "Divide"))
"""Op types that the runtime accepts between ``logits`` and the MatMul; it follows the first operand."""


def find_runtime_lm_head(part: PartFacts) -> RuntimeLmHead:
    """Find the lm_head as ``find_llm_matmul`` of GenAI does.

    It refuses forms that :func:`irtools.decoder.head.find_head` finds.
    """
    output = part.output("logits")
    return RuntimeLmHead(None, None, ()) if output is None else find_lm_head(part, output)


def find_lm_head(part: PartFacts, output: ModelOutput) -> RuntimeLmHead:
    """Find the MatMul of an output as ``find_llm_matmul`` of GenAI does for ``logits``."""
    graph = part.graph
    walked: list[str] = []
    key = output.source.op
    while graph.op_type(key) != "MatMul":
        walked.append(graph.op_type(key))
        if not any(pattern[: len(walked)] == tuple(walked) for pattern in _PATTERNS):
            return RuntimeLmHead(output, None, tuple(walked))
        key = graph.producers(key)[0]
    if tuple(walked) in _PATTERNS:
        return RuntimeLmHead(output, key, tuple(walked))
    return RuntimeLmHead(output, None, (*walked, "MatMul"))


def head_width(part: PartFacts) -> int | None:
    """Width of the input of the lm_head, or None."""
    matmul = find_runtime_lm_head(part).matmul
    if matmul is None:
        return None
    shape = part.graph.shape(part.graph.inputs(matmul)[0])
    return shape[-1] if shape and shape[-1] != DYNAMIC else None


def attention_states(part: PartFacts) -> tuple[State, ...]:
    """States of the KV cache, which grow with the sequence."""
    return tuple(state for state in part.states if state.grows)


def fixed_states(part: PartFacts) -> tuple[State, ...]:
    """States of linear attention and convolutions, whose size does not depend on the sequence."""
    return tuple(state for state in part.states if state.reads and state.shape and not state.grows)


def find_embedding_gather(part: PartFacts) -> int | None:
    """The Gather that the runtime treats as the token embedding, or None.

    It is the first Gather in topological order whose data has more than 1000 rows or whose
    name contains ``embed_tokens`` or ``embedding``.
    """
    graph = part.graph
    for key in sorted(part.live_ops("Gather"), key=graph.rank.__getitem__):
        data = graph.inputs(key)[0]
        shape, name = graph.shape(data), graph.op_name(data.op)
        if (len(shape) >= 2 and shape[0] > _EMBEDDING_ROWS) or any(word in name for word in _EMBEDDING_NAMES):
            return key
    return None
