"""Graft a draft head over the first tokens onto a target, and remove it again.

The runtime copies the target's lm_head into the draft and computes all its rows for each drafted token. With a graft it
copies a second, smaller MatMul (see :mod:`irtools.model.graft`). The graft needs no new weights: token ids are row
numbers, so the first rows of ``[vocabulary, width]`` weights are a prefix of their bytes. Small integers are computed
from the shapes of constants. Weights ``[width, vocabulary]`` are sliced along their last axis.

The MatMul reads an empty matrix of rank 2. So it costs the target nothing, and GenAI 2026.3, which takes the MatMul
before the first output for lm_head if its input has rank 3, does not mistake it for lm_head.

The output ``last_hidden_state`` moves roundings on a CPU that computes in bf16: the plugin keeps the ops between the
last products and an output in f32 (``EnforceInferencePrecision`` in ``intel_cpu/src/graph.cpp``). MTP adds the same
output to a target without a graft, so plain decoding with a graft rounds as drafting does with and without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from irtools.errors import EditError
from irtools.graph.view import GraphView, Source
from irtools.ir.constants import ELEMENT_BITS, Constant, byte_size
from irtools.ir.op import DYNAMIC, layer_attributes
from irtools.model.document import Document
from irtools.model.graft import GRAFT_OUTPUT, GRAFT_PREFIX, RENAMED, Graft, find_graft, graft_ops
from irtools.model.head_weights import HeadWeights
from irtools.surgery.edits import AddOp, Edit, NewPort, OpOutput, RemoveOp, Rename, SetTensorNames
from irtools.surgery.graft.writer import HeadCopy, OpWriter, head_bytes, lm_head
from irtools.text import short_repr

__all__ = ["Grafting", "grafting", "ungrafting"]

_LOGITS = "logits"
_HIDDEN = "last_hidden_state"
_COSTS = (
    "this target cannot be used with DFlash or EAGLE-3 drafts while it has the draft head, because of its output "
    "'last_hidden_state'; `irtools graft --remove` restores the file",
    "compress weights before grafting: NNCF spares the last layer of a model, which would be the draft head, and would "
    "compress lm_head to 4 bits unless all_layers=True",
    "on a CPU that computes in bf16, plain decoding is rounded as MTP rounds it with or without the draft head, so "
    "tokens that score almost the same may change places",
)


@dataclass(frozen=True, slots=True)
class Grafting:
    """Edits that graft a draft head, or that remove one.

    Attributes
    ----------
    edits : tuple of Edit
        Empty if there is nothing to do.
    rows : int
        Tokens that the draft head covers; for a removal, those of lm_head.
    vocabulary : int
        Tokens that lm_head covers.
    head_bytes, graft_bytes : int
        Bytes that the draft reads for each token with lm_head and with the draft head.
    notes : tuple of str
        Costs of the draft head.
    """

    edits: tuple[Edit, ...]
    rows: int
    vocabulary: int
    head_bytes: int
    graft_bytes: int
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return short_repr(self, f"{self.rows} of {self.vocabulary} tokens")


class _PrefixCopy(HeadCopy):
    """Copy of the first rows of lm_head that shares their bytes."""

    def __init__(self, writer: OpWriter, target: GraphView, head: HeadWeights, rows: int) -> None:
        super().__init__(writer, target, head, rows)
        self._anchor = min(constant.offset for constant in self._constants.values())
        self._numbers: dict[int, OpOutput] = {}

    def number(self, value: int) -> OpOutput:
        """Add a one-element i64 tensor, from -1 up, without new weights: the length of a constant over any bytes."""
        if value not in self._numbers:
            port = NewPort("i64", (1,))
            if value > 0:
                counted = self.writer.constant(f"{value}/bytes", "u8", (value,), self._anchor, value)
                attributes = {"output_type": "i64"}
                output = self.writer.add("ShapeOf", f"{value}", (counted,), port, attributes, opset="opset3")
            else:
                terms = (self.number(1 if value == 0 else value + 1), self.number(1))
                output = self.writer.add("Subtract", f"{value}", terms, port, {"auto_broadcast": "numpy"})
            self._numbers[value] = output
        return self._numbers[value]

    def _selected(self, constant: Constant, axis: int, name: str) -> OpOutput | None:
        shape = (*constant.shape[:axis], self.rows, *constant.shape[axis + 1 :])
        size = byte_size(constant.element_type, prod(shape)) or 0
        self.read += size
        if axis == 0:
            return self.writer.constant(name, constant.element_type, shape, constant.offset, size)
        if ELEMENT_BITS[constant.element_type] < 8:  # OpenVINO 2026.4 crashes on a Slice of them
            return None
        return self._sliced(OpOutput(constant.id), constant.element_type, shape, axis, name)

    def _sliced(self, whole: OpOutput, kind: str, shape: tuple[int, ...], axis: int, name: str) -> OpOutput:
        """Add the first elements of a value along an axis."""
        numbers = [self.number(value) for value in (0, self.rows, 1, axis)]
        return self.writer.add("Slice", name, (whole, *numbers), NewPort(kind, shape), opset="opset8")

    def _converted(self, convert: int, output: NewPort, axis: int, name: str) -> OpOutput:
        op = self._target.op(convert)
        whole = NewPort(output.element_type, op.outputs[0].shape)
        inputs = [self.writer.of(source) for source in self._target.inputs(convert)]
        # Without the mark of a decompression, so that OpenVINO computes it once, when it compiles the model.
        values = self.writer.add("Convert", f"{name}/whole", inputs, whole, op.attributes, opset=op.opset)
        return self._sliced(values, output.element_type, output.shape, axis, name)

    def _whole(self, source: Source) -> OpOutput:
        return self.writer.of(source)

    def _shape(self, dims: tuple[int, int], name: str) -> OpOutput:
        numbers = [self.number(value) for value in dims]
        return self.writer.add("Concat", name, numbers, NewPort("i64", (2,)), {"axis": "0"})

    def empty(self, hidden: Source) -> OpOutput:
        """Add a matrix without rows of the width of a value."""
        port = self.writer.graph.port(hidden)
        if port is None or len(port.shape) != 3 or port.shape[-1] == DYNAMIC:
            shape = list(port.shape) if port is not None else []
            raise EditError(f"lm_head reads a value of shape {shape}; a draft head needs rank 3 and a static width")
        zero, one = self.number(0), self.number(1)
        scalars = [
            self.writer.add("Squeeze", f"hidden/{name}", (number,), NewPort("i64", ()))
            for name, number in (("index", zero), ("axis", one))
        ]
        flat = NewPort(port.element_type, (port.shape[0], port.shape[2]))
        read = (self.writer.of(hidden), *scalars)
        row = self.writer.add("Gather", "hidden/row", read, flat, {"batch_dims": "0"}, opset="opset8")
        none = NewPort(port.element_type, (0, port.shape[2]))
        return self.writer.add("Slice", "hidden/none", (row, zero, zero, one, zero), none, opset="opset8")


def grafting(document: Document, rows: int, *, force: bool = False) -> Grafting:
    """Work out the edits that graft a draft head over the first tokens onto a target.

    Parameters
    ----------
    rows : int
        Number of tokens, at least 1 and less than the vocabulary.
    force : bool
        True to replace another graft.

    Raises
    ------
    EditError
        The number is out of range, the target has another graft or an output of a reserved name, or the weights of
        lm_head have a form that is not known.
    LocateRefusedError
        There are no logits that one MatMul with constant weights computes.
    """
    graph = document.graph
    head, own = lm_head(graph)
    if not 1 <= rows < head.vocabulary:
        raise EditError(
            f"a draft head over {rows} tokens is out of range: this target has {head.vocabulary}; give a number "
            f"from 1 to {head.vocabulary - 1}"
        )
    before, added = find_graft(graph), graft_ops(graph)
    size = head_bytes(graph, head)
    edits: list[Edit] = []
    if before is not None or added:
        if before is not None and before.rows == rows and _is_own(graph, before):
            return Grafting((), rows, head.vocabulary, size, round(size * rows / head.vocabulary))
        if not added:
            raise EditError("this target has a draft head that irtools did not add; restore the original file")
        if not force:
            covered = f"over {before.rows} tokens" if before is not None else "of which only parts are left"
            raise EditError(f"this target already has a draft head {covered}; replace it with --force, or --remove it")
        edits += _removal(graph, before)
    prefix = f"{GRAFT_PREFIX}{rows}/"
    edits += _free_logits_name(graph, own, before, prefix)
    writer = OpWriter(graph, prefix, own)
    copy = _PrefixCopy(writer, graph, head, rows)
    weights = copy.make()
    output = NewPort(graph.output(head.matmul).element_type, (0, rows), (GRAFT_OUTPUT,))
    matmul = copy.matmul(copy.empty(head.hidden), weights, output)
    writer.edits.append(AddOp("Result", _LOGITS, (matmul,), output_names=(GRAFT_OUTPUT,), before=own))
    _add_hidden(writer, head.hidden)
    return Grafting((*edits, *writer.edits), rows, head.vocabulary, size, copy.read, _COSTS)


def _is_own(graph: GraphView, graft: Graft) -> bool:
    """True for a graft as this module writes it that the runtime takes."""
    return (
        graft.first and graph.op_name(graft.matmul) == f"{GRAFT_PREFIX}{graft.rows}/MatMul" and graft.hidden is not None
    )


def _free_logits_name(graph: GraphView, own: int, before: Graft | None, prefix: str) -> list[Edit]:
    """Rename the model's own Result if it has the friendly name that the graft needs."""
    taken = [key for key in graph.named.get(_LOGITS, ()) if before is None or key != before.result]
    if RENAMED.fullmatch(graph.op_name(own)):
        taken.append(own)
    if not taken:
        return []
    if taken != [own]:
        raise EditError(
            f"an op {graph.op_type(taken[0])} of this target is named {_LOGITS!r}, the name that the draft head needs; "
            "rename it first"
        )
    return [Rename(own, f"{prefix}own/{_LOGITS}")]


def _add_hidden(writer: OpWriter, hidden: Source) -> None:
    """Add the output ``last_hidden_state``: without it the runtime takes the empty input of the draft head."""
    graph = writer.graph
    present = graph.result_named(_HIDDEN)
    if present is not None and not graph.op_name(present).startswith(GRAFT_PREFIX):
        if graph.inputs(present) == (hidden,):
            return
        raise EditError(
            f"the output {_HIDDEN!r} of this target is not what lm_head reads, so the runtime would draft from another "
            "value; remove this output first"
        )
    port = graph.port(hidden)
    names = port.names if port is not None else ()
    spread = any(
        hidden in graph.inputs(key) and not layer_attributes(graph.scan.data, graph.span(key)).get("output_names")
        for key in graph.results
    )
    if _HIDDEN not in names and not spread:
        writer.edits.append(SetTensorNames(writer.of(hidden), (*names, _HIDDEN)))
    mark = "" if _HIDDEN in names else "+"
    writer.before = None
    writer.add("Result", f"{_HIDDEN}{mark}", (writer.of(hidden),), output_names=(_HIDDEN,))


def ungrafting(document: Document) -> Grafting:
    """Work out the edits that remove a draft head that :func:`grafting` added.

    Raises
    ------
    EditError
        The target has a draft head that irtools did not add.
    LocateRefusedError
        There are no logits that one MatMul with constant weights computes.
    """
    graph = document.graph
    before = find_graft(graph)
    ops = graft_ops(graph)
    head, _ = lm_head(graph)
    size = head_bytes(graph, head)
    if before is not None and not ops:
        raise EditError("this target has a draft head that irtools did not add; restore the original file")
    return Grafting(tuple(_removal(graph, before)), head.vocabulary, head.vocabulary, size, size)


def _removal(graph: GraphView, graft: Graft | None) -> list[Edit]:
    edits: list[Edit] = []
    removed = [graft.result] if graft is not None else []
    for key in graft_ops(graph):
        name = graph.op_name(key)
        renamed = RENAMED.fullmatch(name)
        if renamed is None:
            removed.append(key)
        elif graph.op_type(key) == "Result":
            edits.append(Rename(key, renamed[1]))
        if graph.op_type(key) == "Result" and name.endswith(f"/{_HIDDEN}+"):
            source = graph.inputs(key)[0]
            port = graph.port(source)
            if port is not None and _HIDDEN in port.names:
                kept = tuple(name for name in port.names if name != _HIDDEN)
                edits.append(SetTensorNames(OpOutput(source.op, graph.output_index(source)), kept))
    return [*(RemoveOp(key) for key in removed), *edits]
