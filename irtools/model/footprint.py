"""How much memory an export needs at least, from its files alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from irtools.errors import InvalidIRError, UsageError
from irtools.ir.constants import iter_graphs, read_constants
from irtools.ir.op import DYNAMIC
from irtools.model.directory import ModelDirectory
from irtools.model.document import Document
from irtools.model.weights import covered_bytes

__all__ = ["KV_PRECISIONS", "UNKNOWN", "Footprint", "State", "Term", "footprint", "states"]

KV_PRECISIONS = {"f32": 4, "f16": 2, "u8": 1}
"""Bytes of one key or value in the precisions that runtimes keep them in."""
_BYTES = {
    "f64": 8,
    "i64": 8,
    "u64": 8,
    "f32": 4,
    "i32": 4,
    "u32": 4,
    "f16": 2,
    "bf16": 2,
    "i8": 1,
    "u8": 1,
    "boolean": 1,
}
_PAST = ("past_key_values", "cache_params.past")
_SIDE = ("tokenizer", "detokenizer")

UNKNOWN = (
    "activations, logits and intermediate buffers",
    "weights that the device compiles or repacks a second time",
    "code, tokenizers, images, the allocator's reserve",
    "scales of quantised keys and values, and the rounding of paged caches to whole blocks",
)
"""What no file tells."""


@dataclass(frozen=True, slots=True)
class State:
    """Cached values of one shape.

    Attributes
    ----------
    shape : tuple of int
        -1 for dynamic dimensions.
    element_type : str
        As the IR declares it.
    count : int
        How many there are.
    """

    shape: tuple[int, ...]
    element_type: str
    count: int

    @property
    def grows(self) -> bool:
        """Whether it grows with the context: a dynamic dimension beside the batch."""
        return DYNAMIC in self.shape[1:]

    def elements(self, context: int, batch: int) -> int:
        """Values in all of them."""
        fixed: int = prod(dim for dim in self.shape[1:] if dim != DYNAMIC)
        growing = sum(dim == DYNAMIC for dim in self.shape[1:])
        return self.count * batch * fixed * int(context**growing)

    def formula(self, context: int, batch: int) -> str:
        """The same as a product."""
        factors = [f"{self.count} states", f"batch {batch}"]
        factors += [f"context {context}" if dim == DYNAMIC else str(dim) for dim in self.shape[1:]]
        return " x ".join(factors)


@dataclass(frozen=True, slots=True)
class Term:
    """One summand.

    Attributes
    ----------
    name : str
        ``target weights``, ``target keys and values``, ...
    part : str
        Name of the part.
    kind : str
        ``weights``, ``keys and values`` (depends on their precision) or ``recurrent state``
        (linear attention, convolution, state space: does not grow).
    formula : str
    elements : int
        Values, for keys and values.
    bytes : int
        For keys and values: in the precision that the IR declares.
    """

    name: str
    part: str
    kind: str
    formula: str
    bytes: int
    elements: int = 0

    def size(self, precision: str) -> int:
        """Bytes with keys and values in a precision."""
        return self.elements * KV_PRECISIONS[precision] if self.kind == "keys and values" else self.bytes


@dataclass(frozen=True, slots=True)
class Footprint:
    """What an export takes in memory at least.

    Attributes
    ----------
    context, batch : int
    terms : tuple of Term
    unread : tuple of str
        Parts whose XML cannot be read; nothing of them is counted.
    """

    context: int
    batch: int
    terms: tuple[Term, ...]
    unread: tuple[str, ...] = ()

    def total(self, precision: str) -> int:
        """Sum of all terms with keys and values in a precision."""
        return sum(term.size(precision) for term in self.terms)


def states(document: Document) -> tuple[State, ...]:
    """States of a part by shape: its variables, or the past values that are inputs of a stateless model."""
    graph = document.graph
    found: Counter[tuple[tuple[int, ...], str]] = Counter()
    seen: set[str] = set()
    for key in graph.by_type.get("ReadValue", ()):
        data = graph.data(key)
        if data.get("variable_id", "") in seen:
            continue
        seen.add(data.get("variable_id", ""))
        outputs = graph.op(key).outputs
        shape = _dims(data["variable_shape"]) if "variable_shape" in data else outputs[0].shape if outputs else ()
        found[shape, data.get("variable_type") or (outputs[0].element_type if outputs else "")] += 1
    for key in graph.parameters:
        port = graph.op(key).outputs[0]
        if any(name.startswith(_PAST) for name in (*port.names, graph.op_name(key))):
            found[port.shape, port.element_type] += 1
    return tuple(State(shape, kind, count) for (shape, kind), count in found.items())


def _dims(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return tuple(int(part) if part.isdecimal() else DYNAMIC for part in parts)


def footprint(export: ModelDirectory, *, context: int = 4096, batch: int = 1) -> Footprint:
    """Add up what the files say about memory.

    Parameters
    ----------
    export : ModelDirectory
    context : int
        Tokens in the state of each sequence.
    batch : int
        Sequences.

    Returns
    -------
    Footprint

    Raises
    ------
    UsageError
        A context or batch below one.
    """
    if context < 1 or batch < 1:
        raise UsageError(f"context {context} and batch {batch}: both are at least 1")
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
    return Footprint(context, batch, tuple(terms), tuple(unread))


def _weights(name: str, document: Document) -> Term:
    size = covered_bytes(read_constants(iter_graphs(document.scan)))
    return Term(f"{name} weights", document.part, "weights", f"constants in {document.weights_path.name}", size)


def _terms(name: str, document: Document, context: int, batch: int) -> Iterator[Term]:
    yield _weights(name, document)
    for state in states(document):
        elements = state.elements(context, batch)
        width = _BYTES.get(state.element_type, 4)
        kind = "keys and values" if state.grows else "recurrent state"
        formula = state.formula(context, batch)
        formula += " x bytes of one" if state.grows else f" x {width} bytes"
        yield Term(f"{name} {kind}", document.part, kind, formula, elements * width, elements)
