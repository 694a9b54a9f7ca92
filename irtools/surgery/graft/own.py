"""Give a draft a head of its own, over the first tokens or over chosen ones.

The runtime uses the first output ``logits`` of an MTP head or a DFlash draft in place of a copy of the target's
lm_head. The rows of lm_head are appended to the draft's weights file, and the target is untouched.

An MTP head keeps its output ``last_hidden_state``, and the runtime still copies lm_head onto the first Result that
this name finds. So a Result with the friendly name ``last_hidden_state`` over an empty value comes first: the copy then
computes nothing.

Rows that were compressed for the draft come from heads of their own, each with some of the rows, which are joined.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from irtools.errors import EditError, unreadable
from irtools.graph.view import GraphView, Source
from irtools.ir.constants import Constant, iter_graphs, read_constants
from irtools.ir.op import DYNAMIC, Port
from irtools.ir.reading import chunks, open_file
from irtools.ir.rows import Rows
from irtools.ir.save import WeightsChange
from irtools.ir.weights_file import added_rows, footer, require_weights
from irtools.model.document import Document
from irtools.model.graft import GRAFT_PREFIX, graft_ops
from irtools.model.head_weights import HeadWeights
from irtools.surgery.edits import AddOp, Edit, NewPort, OpOutput, OpRef, RemoveOp, Rename
from irtools.surgery.graft.writer import HeadCopy, OpWriter, head_bytes, lm_head
from irtools.surgery.patch import Patch
from irtools.surgery.transaction import apply
from irtools.text import plural, short_repr

__all__ = ["Compress", "CompressedRows", "DraftHead", "own_head", "without_own_head"]

_LOGITS = "logits"
_HIDDEN = "last_hidden_state"
_EMPTY = "irtools.graft.last_hidden_state"
_OWN = f"{GRAFT_PREFIX}own/"
_MARK = re.compile(re.escape(_OWN) + r"([0-9]{1,18})/([0-9]{1,18})/(.+)", re.DOTALL)
_LINE = 64  # bytes of a cache line
_NEVER = -65504.0
"""Logit of the tokens that the head does not cover: the lowest value that f16 can represent."""

Pieces = Callable[[], Iterable[bytes | memoryview]]


@dataclass(frozen=True, slots=True)
class DraftHead:
    """A draft head that was added or removed.

    Attributes
    ----------
    patch : Patch
        The change. For a head of its own, it includes the change of the weights.
    rows : int
        Tokens that the draft head covers; for a removal, those of lm_head.
    vocabulary : int
        Tokens that lm_head covers.
    head_bytes, graft_bytes : int
        Bytes of weights that the draft reads for each token with lm_head and with the draft head.
    """

    patch: Patch
    rows: int
    vocabulary: int
    head_bytes: int
    graft_bytes: int

    def __repr__(self) -> str:
        return short_repr(self, f"{self.rows} of {self.vocabulary} tokens", self.patch.status)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class CompressedRows:
    """Rows of lm_head in another precision.

    Attributes
    ----------
    heads : tuple of Document
        Models with the output ``logits`` of one MatMul, by runs of rows. They have the same ops with the same layer
        ids, and weights ``[rows, width]`` of whole bytes.
    """

    heads: tuple[Document, ...]


Compress = Callable[[Document, Sequence[int]], CompressedRows]
"""Compresses the rows of some tokens of a target's lm_head."""


class _Appended:
    """Bytes that are appended to a weights file."""

    def __init__(self, size: int) -> None:
        self._size = self._position = size
        self._pieces: list[Pieces] = []
        self._ranges: dict[object, int] = {}

    def add(self, key: object, size: int, pieces: Pieces) -> int:
        """Append bytes and return their offset; bytes with an equal key are stored once."""
        if key not in self._ranges:
            padding = -self._position % _LINE
            if padding:
                self._pieces.append(partial(_same, bytes(padding)))
            self._pieces.append(pieces)
            self._ranges[key] = self._position + padding
            self._position += padding + size
        return self._ranges[key]

    def all(self) -> Iterator[bytes | memoryview]:
        """Yield all bytes, and at the end of the file the size that it had before.

        A process that is killed between the two renames leaves the longer weights beside the graph that does not use
        them. The footer tells them from weights that were longer before.
        """
        for pieces in self._pieces:
            yield from pieces()
        yield footer(self._size, self._position)


def _same(data: bytes) -> tuple[bytes]:
    return (data,)


def _range(path: Path, offset: int, size: int) -> Iterator[bytes | memoryview]:
    try:
        with open_file(path) as file:
            file.seek(offset)
            yield from chunks(file, size)
    except OSError as error:
        raise unreadable(path, error, "; repair it, or get the export again") from error


class _RowsCopy(HeadCopy):
    """Copy of chosen rows of lm_head with bytes of its own."""

    def __init__(
        self, writer: OpWriter, target: Document, head: HeadWeights, tokens: Sequence[int], appended: _Appended
    ) -> None:
        super().__init__(writer, target.graph, head, len(tokens))
        self._path = target.weights_path
        self._tokens = tokens
        self._appended = appended
        self._every = {constant.id: constant for constant in read_constants((target.graph.scan,))}
        needed = max(constant.end for constant in self._constants.values())
        require_weights(self._path, needed, "lm_head")

    def values(self, name: str, element_type: str, shape: tuple[int, ...], data: bytes) -> OpOutput:
        """Add a constant with given bytes."""
        offset = self._appended.add(data, len(data), partial(_same, data))
        return self.writer.constant(name, element_type, shape, offset, len(data))

    def integers(self, name: str, values: Sequence[int], shape: tuple[int, ...]) -> OpOutput:
        """Add an i64 constant."""
        return self.values(name, "i64", shape, struct.pack(f"<{len(values)}q", *values))

    def _selected(self, constant: Constant, axis: int, name: str) -> OpOutput:
        rows = Rows(self._path, constant, axis, self._tokens)
        if not rows.readable:
            raise EditError(f"lm_head stores its weights as {constant.element_type}, of which rows cannot be copied")
        self.read += rows.size
        offset = self._appended.add((constant.offset, constant.size, axis), rows.size, rows.pieces)
        return self.writer.constant(name, constant.element_type, rows.shape, offset, rows.size)

    def _whole(self, source: Source) -> OpOutput:
        graph = self._target
        op = graph.op(source.op)
        name = f"whole/{op.id}"
        if any(isinstance(edit, AddOp) and edit.name == f"{self.writer.prefix}{name}" for edit in self.writer.edits):
            return OpOutput(f"{self.writer.prefix}{name}")
        port = op.outputs[0]
        output = NewPort(port.element_type, port.shape)
        if op.type != "Const":
            inputs = [self._whole(below) for below in graph.inputs(op.id)]
            return self.writer.add(op.type, name, inputs, output, op.attributes, opset=op.opset)
        constant = self._every[op.id]
        copied = partial(_range, self._path, constant.offset, constant.size)
        offset = self._appended.add((constant.offset, constant.size), constant.size, copied)
        return self.writer.constant(name, constant.element_type, constant.shape, offset, constant.size)

    def _shape(self, dims: tuple[int, int], name: str) -> OpOutput:
        return self.integers(name, dims, (2,))

    def scattered(self, logits: OpOutput, hidden: Source, vocabulary: int, kind: str) -> OpOutput:
        """Add the ops that put logits of the chosen tokens at their ids among those of the whole vocabulary."""
        writer, port = self.writer, self.writer.graph.port(hidden)
        assert port is not None, "it is the last hidden state"
        lowest = self.values("scatter/lowest", "f32", (), struct.pack("<f", _NEVER))
        if kind != "f32":
            lowest = writer.add("Convert", "scatter/typed", (lowest,), NewPort(kind, ()), {"destination_type": kind})
        dims, i64 = NewPort("i64", (3,)), {"output_type": "i64"}
        whole = writer.add("ShapeOf", "scatter/whole", (writer.of(hidden),), dims, i64, opset="opset3")
        axes = self.integers("scatter/axes", (0, 1), (2,))
        zero = self.integers("scatter/zero", (0,), ())
        leading = writer.add(
            "Gather", "scatter/leading", (whole, axes, zero), NewPort("i64", (2,)), {"batch_dims": "0"}, opset="opset8"
        )
        last = self.integers("scatter/vocabulary", (vocabulary,), (1,))
        shape = writer.add("Concat", "scatter/shape", (leading, last), dims, {"axis": "0"})
        full = NewPort(kind, (*port.shape[:2], vocabulary))
        empty = writer.add("Broadcast", "scatter/empty", (lowest, shape), full, {"mode": "numpy"}, opset="opset3")
        ids = self.integers("scatter/tokens", self._tokens, (self.rows,))
        axis = self.integers("scatter/axis", (2,), ())
        named = replace(full, names=(_LOGITS,))
        return writer.add("ScatterUpdate", "scatter/logits", (empty, ids, logits, axis), named, opset="opset3")


class _CompressedCopy(_RowsCopy):
    """Copy of rows that were compressed."""

    def __init__(self, writer: OpWriter, rows: CompressedRows, tokens: Sequence[int], appended: _Appended) -> None:
        super().__init__(writer, rows.heads[0], lm_head(rows.heads[0].graph)[0], tokens, appended)
        self._compressed = rows

    def _selected(self, constant: Constant, axis: int, name: str) -> OpOutput:
        parts = _parts(self._compressed, constant.id, axis)
        size = sum(part.size for part in parts)
        self.read += size
        offset = self._appended.add((constant.id, axis), size, partial(_joined, self._compressed, parts))
        return self.writer.constant(name, constant.element_type, (self.rows, *parts[0].shape[1:]), offset, size)


def _parts(rows: CompressedRows, key: int, axis: int) -> list[Rows]:
    parts = []
    for head in rows.heads:
        constant = next(constant for constant in read_constants((head.graph.scan,)) if constant.id == key)
        parts.append(Rows(head.weights_path, constant, axis, range(constant.shape[axis])))
    return parts


def _joined(_files: CompressedRows, parts: Sequence[Rows]) -> Iterator[bytes]:
    """Yield the bytes of the parts, whose files exist as long as the first argument does."""
    for part in parts:
        yield from part.pieces()


def own_head(
    target: Document,
    draft: Document,
    tokens: Sequence[int],
    *,
    replaces_hidden: bool = False,
    force: bool = False,
    compress: Compress | None = None,
) -> DraftHead:
    """Work out a draft with a head of its own.

    Parameters
    ----------
    target : Document
        The target, whose lm_head is copied.
    draft : Document
        An MTP head or a DFlash draft for this target.
    tokens : sequence of int
        Token ids that the head covers. The first ids in order make logits of that length; others are scattered into
        logits of the whole vocabulary.
    replaces_hidden : bool
        True for a draft that has the output ``logits`` instead of ``last_hidden_state``, as a DFlash draft does.
    force : bool
        True to replace a head that irtools added.
    compress : callable, optional
        Called after all checks; the head gets the rows that it returns instead of those of lm_head.

    Raises
    ------
    EditError
        The tokens are out of range, the widths differ, the draft has a head of its own, or the weights of lm_head have
        a form that is not known.
    ExportError
        The weights of target or draft are missing, too short or unreadable.
    """
    graph = draft.graph
    head, _ = lm_head(target.graph)
    _require_tokens(tokens, head.vocabulary)
    edits, kept = _cleared(draft, replaces_hidden=replaces_hidden, force=force)
    removed = {edit.op for edit in edits if isinstance(edit, RemoveOp)}
    result, hidden, port = _last_hidden_state(graph, head)
    before = next(key for key in graph.results if key not in removed)
    writer = OpWriter(graph, f"{_OWN}{len(tokens)}/{kept}/", before)
    appended = _Appended(kept)
    copy = (
        _RowsCopy(writer, target, head, tokens, appended)
        if compress is None
        else _CompressedCopy(writer, compress(target, tokens), tokens, appended)
    )
    if not replaces_hidden:
        renamed: list[OpRef] = [edit.op for edit in edits if isinstance(edit, Rename) and edit.name == _HIDDEN]
        edits += _empty_hidden(copy, hidden, port, [*renamed, *_named_results(graph, removed)])
    whole = list(tokens) == list(range(len(tokens)))
    kind = target.graph.output(head.matmul).element_type
    output = NewPort(kind, (*port.shape[:2], len(tokens)), (_LOGITS,) if whole else ())
    logits = copy.matmul(writer.of(hidden), copy.make(), output)
    if not whole:
        logits = copy.scattered(logits, hidden, head.vocabulary, kind)
    writer.edits.append(AddOp("Result", _LOGITS, (logits,), output_names=(_LOGITS,), before=writer.before))
    if replaces_hidden:
        writer.edits.append(RemoveOp(result))
    patch = apply(draft, (*edits, *writer.edits))
    change = WeightsChange(draft.weights_path, kept, _weights_size(draft), appended.all)
    size = head_bytes(target.graph, head)
    return DraftHead(replace(patch, weights=change), len(tokens), head.vocabulary, size, copy.read)


def _cleared(draft: Document, *, replaces_hidden: bool, force: bool) -> tuple[list[Edit], int]:
    """Edits that remove a head that irtools added, and the size of the weights without it."""
    kept = _size_without_rows(draft)
    if graft_ops(draft.graph):
        if replaces_hidden:
            raise EditError("this draft already has its own head; give the draft that it was made from")
        if not force:
            raise EditError("this draft already has its own head; replace it with --force, or --remove it")
        return _removal(draft.graph, kept)
    if draft.graph.result_named(_LOGITS) is not None:
        raise EditError("this draft already has an output 'logits', which irtools did not add")
    return [], kept


def _last_hidden_state(graph: GraphView, head: HeadWeights) -> tuple[int, Source, Port]:
    """Result of the output ``last_hidden_state``, the value that it reads, and the port of that value."""
    result = graph.result_named(_HIDDEN)
    if result is None:
        raise EditError(f"this draft has no output {_HIDDEN!r} for a head to read")
    hidden = graph.inputs(result)[0]
    port = graph.port(hidden)
    if port is None or len(port.shape) != 3 or port.shape[-1] not in (head.width, DYNAMIC):
        shape = list(port.shape) if port is not None else []
        raise EditError(
            f"the output {_HIDDEN!r} of this draft has the shape {shape}, and lm_head reads {head.width} values"
        )
    return result, hidden, port


def _named_results(graph: GraphView, removed: Collection[OpRef]) -> list[int]:
    """Results that keep the friendly name ``last_hidden_state``."""
    return [key for key in graph.named.get(_HIDDEN, ()) if key not in removed and graph.op_type(key) == "Result"]


def _require_tokens(tokens: Sequence[int], vocabulary: int) -> None:
    outside = next((token for token in tokens if not 0 <= token < vocabulary), None)
    if outside is not None:
        raise EditError(f"token {outside} is out of range: this target has {vocabulary} tokens, from 0 on")
    if not tokens:
        raise EditError("a head needs one token at least")
    if len(set(tokens)) < len(tokens):
        repeated = plural(len(tokens) - len(set(tokens)), "token id")
        raise EditError(f"the list has {repeated} too many: each id may be given only once")


def _weights_size(draft: Document) -> int:
    return draft.weights_path.stat().st_size


def _size_without_rows(draft: Document) -> int:
    """Size of the weights of a draft without rows that an interrupted run has left at their end.

    Raises
    ------
    ExportError
        The weights are missing, a Git-LFS pointer, too short or unreadable.
    """
    needed = max((constant.end for constant in read_constants(iter_graphs(draft.scan))), default=0)
    require_weights(draft.weights_path, needed, "the draft")
    added = added_rows(draft.weights_path)
    return added.start if added is not None and needed <= added.start else _weights_size(draft)


def _empty_hidden(copy: _RowsCopy, hidden: Source, like: Port, taken: Sequence[OpRef]) -> list[Edit]:
    """Add the Result that the runtime's copy of lm_head reads; rename the Results that have its friendly name."""
    writer = copy.writer
    zero, one = copy.integers("empty/zero", (0,), (1,)), copy.integers("empty/one", (1,), (1,))
    port = NewPort(like.element_type, (0, *like.shape[1:]), (_EMPTY,))
    empty = writer.add("Slice", "empty/hidden", (writer.of(hidden), zero, zero, one, zero), port, opset="opset8")
    writer.edits.append(AddOp("Result", _HIDDEN, (empty,), output_names=(_EMPTY,), before=writer.before))
    return [Rename(key, f"{writer.prefix}renamed/{_HIDDEN}") for key in taken]


def without_own_head(target: Document, draft: Document) -> DraftHead:
    """Work out a draft without the head that :func:`own_head` added, byte for byte as before.

    The weights keep the rows if OpenVINO has written the files since.

    Raises
    ------
    EditError
        The draft has a head that irtools did not add.
    ExportError
        The weights are missing.
    """
    graph = draft.graph
    head, _ = lm_head(target.graph)
    size = head_bytes(target.graph, head)
    before = _weights_size(draft)
    edits, kept = _removal(graph, _size_without_rows(draft))
    if edits and graph.result_named(_HIDDEN) is None:
        raise EditError("this draft was made from another one, which is its original; use that one")
    if not edits and graph.result_named(_LOGITS) is not None:
        raise EditError("this draft has a head that irtools did not add; restore the original files")
    left = (
        ["the weights keep the rows, because OpenVINO has written the files since"] if edits and kept == before else []
    )
    patch = apply(draft, edits, notes=left)
    if kept != before:
        patch = replace(patch, weights=WeightsChange(draft.weights_path, kept, before))
    return DraftHead(patch, head.vocabulary, head.vocabulary, size, size)


def _removal(graph: GraphView, size: int) -> tuple[list[Edit], int]:
    """Edits that remove the head, and the size of the weights without it."""
    ops = graft_ops(graph)
    marks = {key: mark for key in ops if (mark := _MARK.fullmatch(graph.op_name(key))) is not None}
    if not marks:
        return [], size
    renamed = {key: mark[3].removeprefix("renamed/") for key, mark in marks.items() if mark[3].startswith("renamed/")}
    added = marks.keys() - renamed.keys()
    results = [key for key in graph.results if key not in renamed and set(graph.producers(key)) & added]
    kept = int(next(iter(marks.values()))[2])
    constants = read_constants((graph.scan,))
    others = max((constant.end for constant in constants if constant.id not in added), default=0)
    own = min((constant.offset for constant in constants if constant.id in added), default=0)
    edits: list[Edit] = [RemoveOp(key) for key in (*results, *(key for key in ops if key in added))]
    edits += [Rename(key, name) for key, name in renamed.items()]
    return edits, kept if others <= kept <= own and kept <= size else size
