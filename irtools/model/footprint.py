"""Minimum memory that an export needs, from its files alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from irtools.display import Tabular
from irtools.errors import EditError, InvalidIRError, UsageError
from irtools.ir.constants import ELEMENT_BITS, iter_graphs, read_constants
from irtools.ir.op import DYNAMIC
from irtools.model.directory import ModelDirectory
from irtools.model.document import Document
from irtools.model.head_weights import head_weights
from irtools.model.part import PartFacts
from irtools.model.ports import is_past
from irtools.model.target import find_runtime_lm_head
from irtools.model.weights import covered_bytes
from irtools.text import short_repr, size_text

__all__ = ["KV_PRECISIONS", "UNKNOWN", "Footprint", "StateGroup", "Term", "footprint", "states"]

KV_PRECISIONS = {"f32": 4, "f16": 2, "u8": 1}
"""Bytes of one KV cache element, by the precisions that runtimes store it in."""
_SIDE = ("tokenizer", "detokenizer")

UNKNOWN = (
    "activations, logits and intermediate buffers",
    "weights that the device compiles or repacks a second time",
    "code, tokenizers, images, the allocator's reserve",
    "scales of quantised keys and values, and the rounding of paged caches to whole blocks",
)
"""Memory that cannot be computed from the files."""


@dataclass(frozen=True, slots=True)
class StateGroup:
    """Cached tensors of one shape and element type.

    Attributes
    ----------
    shape : tuple of int
        -1 for dynamic dimensions.
    count : int
        Number of such tensors.
    """

    shape: tuple[int, ...]
    element_type: str
    count: int

    @property
    def grows(self) -> bool:
        """True if the state grows with the context: it has a dynamic dimension other than the batch."""
        return DYNAMIC in self.shape[1:]

    def elements(self, context: int, batch: int) -> int:
        """Number of elements of all tensors together."""
        return self.count * batch * prod(context if dim == DYNAMIC else dim for dim in self.shape[1:])

    def formula(self, context: int, batch: int) -> str:
        """Factors of ``elements`` as text."""
        factors = [f"{self.count} states", f"batch {batch}"]
        factors += [f"context {context}" if dim == DYNAMIC else str(dim) for dim in self.shape[1:]]
        return " x ".join(factors)


@dataclass(frozen=True, slots=True)
class Term:
    """One summand of a footprint.

    Attributes
    ----------
    name : str
        ``target weights``, ``target keys and values``, ...
    kind : str
        ``weights``, ``copies`` (weights that the runtime copies), ``keys and values`` (size depends on the
        precision) or ``recurrent state`` (linear attention, convolution or state space, which does not grow).
    bytes : int
        For keys and values: bytes in the precision that the IR declares.
    elements : int
        Number of elements; 0 for weights.
    """

    name: str
    part: str
    kind: str
    formula: str
    bytes: int
    elements: int = 0

    def size(self, precision: str) -> int:
        """Bytes if keys and values are stored in the given precision."""
        return self.elements * KV_PRECISIONS[precision] if self.kind == "keys and values" else self.bytes


@dataclass(frozen=True, slots=True)
class Footprint(Tabular):
    """Minimum memory of an export.

    Attributes
    ----------
    unread : tuple of str
        Parts whose XML cannot be read; they are not counted.
    """

    context: int
    batch: int
    terms: tuple[Term, ...]
    unread: tuple[str, ...] = ()

    def __repr__(self) -> str:
        least = f"at least {size_text(self.total('f16'))} with keys and values in f16"
        return short_repr(self, f"context {self.context}", f"batch {self.batch}", least)

    def total(self, precision: str) -> int:
        """Sum of all terms if keys and values are stored in the given precision."""
        return sum(term.size(precision) for term in self.terms)


def states(document: Document) -> tuple[StateGroup, ...]:
    """States of a part by shape: its variables, or the past inputs of a stateless model."""
    graph = document.graph
    counts: Counter[tuple[tuple[int, ...], str]] = Counter()
    for state in PartFacts(document).states:
        for port in (port for key in state.reads[:1] for port in graph.op(key).outputs[:1]):
            counts[state.shape or port.shape, state.element_type or port.element_type] += 1
    for key in graph.parameters:
        port = graph.op(key).outputs[0]
        if any(is_past(name) for name in (*port.names, graph.op_name(key))):
            counts[port.shape, port.element_type] += 1
    return tuple(StateGroup(shape, kind, count) for (shape, kind), count in counts.items())


def footprint(export: ModelDirectory, *, context: int = 4096, batch: int = 1) -> Footprint:
    """Compute the minimum memory of an export from its files, as :meth:`irtools.Export.footprint` documents it."""
    if context < 1 or batch < 1:
        raise UsageError(f"context {context} and batch {batch}: both must be at least 1")
    targets = export.target_candidates
    names = {export.mtp.path: "MTP"} if export.mtp is not None else {}
    names |= {targets[0].path: "target"} if len(targets) == 1 else {}
    order = {"target": 0, "MTP": 1}
    documents = {document.path: document for document in (*export.parts.values(), *targets)}
    terms: list[Term] = []
    unread: list[str] = []
    for path in sorted(documents, key=lambda path: (order.get(names.get(path, ""), 2), path)):
        document = documents[path]
        if document.part in _SIDE:
            continue
        try:
            name = names.get(path)
            terms += _terms(name, document, context, batch) if name else [_weights(document.part, document)]
        except InvalidIRError:
            unread.append(document.part)
    if export.mtp is not None and len(targets) == 1:
        terms += _head_copy(targets[0], export.mtp)
    return Footprint(context, batch, tuple(terms), tuple(unread))


def _head_copy(target: Document, mtp: Document) -> Iterator[Term]:
    """Copy of lm_head, or of the draft head, that the runtime makes for the MTP head.

    GenAI 2026.4 makes it even if the MTP head has a head of its own.
    """
    try:
        part = PartFacts(target)
        graft, matmul = part.graft, find_runtime_lm_head(part).matmul
        weights = head_weights(target.graph, matmul) if matmul is not None else None
    except (InvalidIRError, EditError):
        return
    if weights is not None:
        size = covered_bytes(one for one in read_constants((target.graph.scan,)) if one.id in weights.axes)
        copied, rows = "lm_head", weights.vocabulary
        if graft is not None and graft.first:
            copied, rows = "draft head", graft.rows
        formula = f"{rows} of {weights.vocabulary} rows of lm_head"
        yield Term(f"MTP copy of {copied}", mtp.part, "copies", formula, size * rows // weights.vocabulary)


def _weights(name: str, document: Document) -> Term:
    size = covered_bytes(read_constants(iter_graphs(document.scan)))
    return Term(f"{name} weights", document.part, "weights", f"constants in {document.weights_path.name}", size)


def _terms(name: str, document: Document, context: int, batch: int) -> Iterator[Term]:
    yield _weights(name, document)
    for state in states(document):
        elements = state.elements(context, batch)
        width = -(-ELEMENT_BITS.get(state.element_type, 32) // 8)
        kind = "keys and values" if state.grows else "recurrent state"
        formula = state.formula(context, batch)
        formula += " x bytes of one" if state.grows else f" x {width} bytes"
        yield Term(f"{name} {kind}", document.part, kind, formula, elements * width, elements)
