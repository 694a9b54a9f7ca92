"""Graft a draft head over the first tokens onto a target, and remove it again.

The runtime copies the target's lm_head into the draft and computes all its rows for each drafted token. With a graft it
copies a second, smaller MatMul (see :mod:`irtools.model.graft`). The graft needs no new weights: token ids are row
numbers, so the first rows of ``[vocabulary, width]`` weights are a prefix of their bytes. Small integers are computed
from the shapes of constants. Weights ``[width, vocabulary]`` are sliced along their last axis.

The MatMul reads an empty matrix of rank 2. So it costs the target nothing, and GenAI 2026.3, which takes the MatMul
before the first output for lm_head if its input has rank 3, does not mistake it for lm_head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from irtools.errors import EditError
from irtools.graph.view import GraphView, Source
from irtools.ir.constants import Constant, byte_size, read_constants
from irtools.ir.op import DYNAMIC, layer_attributes
from irtools.model.document import Document
from irtools.model.graft import GRAFT_PREFIX, RENAMED, Graft, find_graft, graft_ops
from irtools.model.head_weights import HeadWeights, head_weights
from irtools.surgery.edits import AddOp, Edit, NewPort, OpOutput, OpRef, RemoveOp, Rename, SetTensorNames
from irtools.text import short_repr

__all__ = ["Grafting", "OpWriter", "copy_weights", "grafting", "lm_head", "ungrafting"]

_LOGITS = "logits"
_HIDDEN = "last_hidden_state"
_OUTPUT = "irtools.graft.logits"


@dataclass(frozen=True, slots=True)
class Grafting:
    """Edits that graft a draft head, or that remove one.

    Attributes
    ----------
    edits : tuple of Edit
        Empty if there is nothing to do.
    rows : int
        Tokens that the draft head covers, or covered.
    vocabulary : int
        Tokens that lm_head covers.
    head_bytes, graft_bytes : int
        Bytes that the draft reads for each token with lm_head and with the draft head.
    """

    edits: tuple[Edit, ...]
    rows: int
    vocabulary: int
    head_bytes: int
    graft_bytes: int
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return short_repr(self, f"{self.rows} of {self.vocabulary} tokens")


def lm_head(graph: GraphView) -> tuple[HeadWeights, int]:
    """Find the weights of lm_head and the Result of its logits.

    Raises
    ------
    EditError
        The weights have a form that is not known.
    LocateRefusedError
        There are no logits that one MatMul with constant weights computes.
    """
    from irtools.decoder.head import find_head

    head = find_head(graph)
    return head_weights(graph, head.op), head.logits


@dataclass(slots=True)
class OpWriter:
    """Collector of new ops with a common start of their names.

    Attributes
    ----------
    anchor : int
        Offset in the weights file that the constants of :meth:`number` begin at.
    before : str, int or None
        Op of the file that they are written before.
    """

    graph: GraphView
    prefix: str
    anchor: int
    before: OpRef | None = None
    edits: list[Edit] = field(default_factory=list)
    _numbers: dict[str, OpOutput] = field(default_factory=dict)

    def add(
        self,
        kind: str,
        name: str,
        inputs: Sequence[OpOutput] = (),
        output: NewPort | None = None,
        attributes: dict[str, str] | None = None,
        *,
        opset: str = "opset1",
        like: OpRef | None = None,
        output_names: tuple[str, ...] = (),
    ) -> OpOutput:
        """Add an op and return its output."""
        name = f"{self.prefix}{name}"
        outputs = (output,) if output is not None else ()
        op = AddOp(kind, name, tuple(inputs), outputs, attributes or {}, opset, output_names, self.before, like)
        self.edits.append(op)
        return OpOutput(name)

    def of(self, source: Source) -> OpOutput:
        """Return a value of the file."""
        return OpOutput(source.op, self.graph.output_index(source))

    def constant(self, name: str, element_type: str, shape: Sequence[int], offset: int, size: int) -> OpOutput:
        """Add a constant over bytes of the weights file."""
        attributes = {
            "element_type": element_type,
            "shape": ", ".join(map(str, shape)),
            "offset": str(offset),
            "size": str(size),
        }
        return self.add("Const", name, (), NewPort(element_type, tuple(shape)), attributes)

    def number(self, value: int) -> OpOutput:
        """Add a one-element i64 tensor without new weights, from -1 up: the length of a constant over any bytes."""
        known = self._numbers.get(str(value))
        if known is not None:
            return known
        port, kind = NewPort("i64", (1,)), {"auto_broadcast": "numpy"}
        if value > 0:
            bytes_of = self.constant(f"{value}/bytes", "u8", (value,), self.anchor, value)
            output = self.add("ShapeOf", f"{value}", (bytes_of,), port, {"output_type": "i64"}, opset="opset3")
        else:
            one = self.number(1)
            larger = one if value == 0 else self.number(value + 1)
            output = self.add("Subtract", f"{value}", (larger, one), port, kind)
        self._numbers[str(value)] = output
        return output


def copy_weights(writer: OpWriter, head: HeadWeights, rows: int) -> tuple[OpOutput, int]:
    """Add a copy of the weights of lm_head that covers the first tokens.

    Returns
    -------
    OpOutput
        The weights, ``[rows, width]`` or ``[width, rows]``.
    int
        Bytes that they are read from.
    """
    graph = writer.graph
    constants = {constant.id: constant for constant in _constants(graph, head)}
    made: dict[int, OpOutput] = {}
    read = 0
    for key, axis in head.axes.items():
        op = graph.op(key)
        port = op.outputs[0]
        shape = (*port.shape[:axis], rows, *port.shape[axis + 1 :])
        output = NewPort(port.element_type, shape)
        role = f"weights/{len(made)}"
        if key in constants:
            constant = constants[key]
            elements = constant.elements // constant.shape[axis] * rows
            size = byte_size(constant.element_type, elements)
            if constant.faults or size is None or size > constant.size:
                raise EditError(
                    f"the constant {constant.name!r} of lm_head is malformed; `irtools verify` names the fault"
                )
            read += size
            if axis == 0:
                made[key] = writer.constant(role, constant.element_type, shape, constant.offset, size)
            else:
                number = [writer.number(value) for value in (0, rows, 1, axis)]
                whole = OpOutput(key)
                made[key] = writer.add("Slice", role, (whole, *number), output, opset="opset8")
            continue
        inputs = [made.get(source.op) or writer.of(source) for source in graph.inputs(key)]
        attributes = dict(op.attributes)
        if op.type == "Reshape":
            number = [writer.number(value) for value in ((rows, -1) if axis == 0 else (-1, rows))]
            target = writer.add("Concat", f"{role}/shape", number, NewPort("i64", (2,)), {"axis": "0"})
            inputs, attributes = [inputs[0], target], {"special_zero": "false"}
        made[key] = writer.add(op.type, role, inputs, output, attributes, opset=op.opset, like=key)
    return made[head.weights], read


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
    before = find_graft(graph)
    size = sum(constant.size for constant in _constants(graph, head))
    edits: list[Edit] = []
    if before is not None or graft_ops(graph):
        if before is not None and before.rows == rows and _is_own(graph, before):
            return Grafting((), rows, head.vocabulary, size, round(size * rows / head.vocabulary))
        if not force:
            covered = f"over {before.rows} tokens" if before is not None else "of which only parts are left"
            raise EditError(f"this target has a draft head {covered} already; replace it with --force, or --remove it")
        edits += _removal(graph, before)
    prefix = f"{GRAFT_PREFIX}{rows}/"
    edits += _free_logits_name(graph, own, before, prefix)
    writer = OpWriter(graph, prefix, min(constant.offset for constant in _constants(graph, head)), own)
    weights, read = copy_weights(writer, head, rows)
    matmul = _add_matmul(writer, head, weights, rows)
    writer.edits.append(AddOp("Result", _LOGITS, (matmul,), output_names=(_OUTPUT,), before=own))
    _add_hidden(writer, head.hidden)
    return Grafting((*edits, *writer.edits), rows, head.vocabulary, size, read)


def _constants(graph: GraphView, head: HeadWeights) -> tuple[Constant, ...]:
    return tuple(constant for constant in read_constants((graph.scan,)) if constant.id in head.axes)


def _is_own(graph: GraphView, graft: Graft) -> bool:
    """True for a graft as this module writes it that the runtime takes."""
    return (
        graft.first
        and graft.matmul is not None
        and graph.op_name(graft.matmul) == f"{GRAFT_PREFIX}{graft.rows}/MatMul"
        and graft.hidden is not None
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


def _add_matmul(writer: OpWriter, head: HeadWeights, weights: OpOutput, rows: int) -> OpOutput:
    """Add the MatMul, which reads no row of the hidden state."""
    graph = writer.graph
    port = graph.port(head.hidden)
    assert port is not None, "lm_head reads it"
    hidden = writer.of(head.hidden)
    zero, one = writer.number(0), writer.number(1)
    if len(port.shape) != 3 or port.shape[-1] == DYNAMIC:
        raise EditError(
            f"lm_head reads a value of shape {list(port.shape)}; a draft head needs one of rank 3 with a static width"
        )
    scalars = [
        writer.add("Squeeze", f"hidden/{name}", (number,), NewPort("i64", ()))
        for name, number in (("index", zero), ("axis", one))
    ]
    flat = NewPort(port.element_type, (port.shape[0], port.shape[2]))
    row = writer.add("Gather", "hidden/row", (hidden, *scalars), flat, {"batch_dims": "0"}, opset="opset8")
    none = NewPort(port.element_type, (0, port.shape[2]))
    empty = writer.add("Slice", "hidden/none", (row, zero, zero, one, zero), none, opset="opset8")
    attributes = {"transpose_a": "false", "transpose_b": "true" if head.transposed else "false"}
    logits = NewPort(graph.output(head.matmul).element_type, (0, rows), (_OUTPUT,))
    return writer.add("MatMul", "MatMul", (empty, weights), logits, attributes)


def _add_hidden(writer: OpWriter, hidden: Source) -> None:
    """Add the output ``last_hidden_state``: without it the runtime takes the empty input of the draft head."""
    graph = writer.graph
    present = next((key for key in graph.results if _HIDDEN in graph.result_names(key)), None)
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
    size = sum(constant.size for constant in _constants(graph, head))
    if before is None and not ops:
        return Grafting((), head.vocabulary, head.vocabulary, size, size)
    if before is not None and not ops:
        raise EditError("this target has a draft head that irtools did not add; restore the original file")
    rows = before.rows if before is not None else 0
    return Grafting(tuple(_removal(graph, before)), rows, head.vocabulary, size, round(size * rows / head.vocabulary))


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
