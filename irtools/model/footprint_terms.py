"""The terms of a memory footprint: what GenAI allocates or maps for the parts of an export on a CPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from irtools.errors import EditError, InvalidIRError
from irtools.ir.constants import ELEMENT_BITS, iter_graphs, read_constants
from irtools.ir.op import DYNAMIC
from irtools.model.directory import ModelDirectory
from irtools.model.document import Document
from irtools.model.draft import draft as read_draft
from irtools.model.head_weights import head_weights
from irtools.model.kv_cache import PagedCache
from irtools.model.part import PartFacts
from irtools.model.ports import is_past
from irtools.model.target import find_runtime_lm_head
from irtools.model.weights import Weight, covered_bytes
from irtools.text import plural, size_text

__all__ = ["Sizes", "StateGroup", "Term", "drafting_terms", "export_terms", "states"]

_SIDE = ("tokenizer", "detokenizer")

_PROCESS = 128 * 2**20
_PER_XML_BYTE = 40
"""A process that has loaded OpenVINO, GenAI and tokenizers, and the compiled graph for each byte of XML.

Measured with GenAI 2026.4.1 on a CPU: 130 MiB for an export of 0.3 MB of XML, 210 MiB for one of 2.0 MB.
"""
_PAGE = 4096
_PROMPT_COPIES = 4
"""Copies of the embedded prompt in f32 for a target that takes ``inputs_embeds``; a draft has three more.

Measured: 18.6 and 28 KB for each token of a prompt at hidden size 1,024.
"""
_DRAFT_COPIES = 3
_PACKED = {"f32": 1.0, "f16": 3.0, "bf16": 3.0}
"""Bytes that the CPU plugin allocates for each stored byte of a weight that is not compressed; 1 if it is compressed.

oneDNN packs the weights of every MatMul. A 16-bit weight is first converted to f32. A CPU that computes in bf16 needs
0.5 and 2.
"""


@dataclass(frozen=True, slots=True)
class StateGroup:
    """Cached tensors of one shape and element type.

    Attributes
    ----------
    shape : tuple of int
        -1 for dynamic dimensions.
    count : int
        Number of such tensors.
    values : int
        Number of those that hold values; the others hold keys, or are no KV cache.
    """

    shape: tuple[int, ...]
    element_type: str
    count: int
    values: int = 0

    @property
    def grows(self) -> bool:
        """True if the state grows with the context: it has a dynamic dimension other than the batch."""
        return DYNAMIC in self.shape[1:]

    def elements(self, context: int, batch: int) -> int:
        """Number of elements of all tensors together."""
        return self.count * batch * prod(context if dim == DYNAMIC else dim for dim in self.shape[1:])

    def formula(self, context: int, batch: int) -> str:
        """Factors of ``elements`` as text."""
        factors = [plural(self.count, "state"), f"batch {batch}"]
        factors += [f"context {context}" if dim == DYNAMIC else str(dim) for dim in self.shape[1:]]
        return " x ".join(factors)

    def cache(self, context: int, batch: int) -> PagedCache:
        """The cache that the runtime keeps for them."""
        static = [dim for dim in self.shape[1:] if dim != DYNAMIC]
        width = static[-1] if static else 1
        return PagedCache(self.count - self.values, self.values, batch, context, prod(static[:-1]), width)


@dataclass(frozen=True, slots=True)
class Term:
    """One summand of a footprint.

    Attributes
    ----------
    name : str
        ``target weights``, ``target keys and values``, ...
    kind : str
        ``process``, ``weights`` (mapped from the file), ``packed`` (copies that the device makes for its kernels),
        ``copies`` (weights that the runtime copies), ``embeddings`` (rows that are looked up, mapped from the file),
        ``keys and values`` (size depends on the precision), ``recurrent state`` (linear attention, convolution or
        state space, which does not grow), ``checkpoints`` (of recurrent state) or ``prompt``.
    bytes : int
        For keys and values: bytes in the precision that the IR declares, without scales and unused room of blocks.
    elements : int
        Number of elements; 0 for weights.
    drafting : bool
        True if only drafting needs it.
    cache : PagedCache or None
        The cache of keys and values.
    per_token, most : int
        For a term that grows with the context: bytes for each token, and its limit (0: none).
    """

    name: str
    part: str
    kind: str
    formula: str
    bytes: int
    elements: int = 0
    drafting: bool = False
    cache: PagedCache | None = None
    per_token: int = 0
    most: int = 0

    def size(self, key: str, value: str = "", *, context: int | None = None) -> int:
        """Bytes if keys and values are stored in the given precisions, for the context of the footprint or another.

        Parameters
        ----------
        value : str
            Precision of the values; by default that of the keys.
        """
        if self.cache is not None:
            return self.cache.size(key, value or key, context)
        if self.per_token and context is not None:
            return min(self.per_token * context, self.most or self.per_token * context)
        return self.bytes


def states(document: Document) -> tuple[StateGroup, ...]:
    """States of a part by shape: its variables, or the past inputs of a stateless model."""
    graph = document.graph
    counts: Counter[tuple[tuple[int, ...], str]] = Counter()
    values: Counter[tuple[tuple[int, ...], str]] = Counter()

    def add(group: tuple[tuple[int, ...], str], name: str) -> None:
        counts[group] += 1
        values[group] += name.rpartition(".")[2] in ("value", "v")

    for state in PartFacts(document).states:
        for port in (port for key in state.reads[:1] for port in graph.op(key).outputs[:1]):
            add((state.shape or port.shape, state.element_type or port.element_type), state.variable)
    for key in graph.parameters:
        port = graph.op(key).outputs[0]
        past = [name for name in (*port.names, graph.op_name(key)) if is_past(name)]
        if past:
            add((port.shape, port.element_type), past[0])
    return tuple(StateGroup(shape, kind, count, values[shape, kind]) for (shape, kind), count in counts.items())


@dataclass(frozen=True, slots=True)
class Sizes:
    """Tokens in the state of a sequence, number of sequences, tokens drafted per pass."""

    context: int
    batch: int
    assistant_tokens: int


def export_terms(
    export: ModelDirectory, role: str, sizes: Sizes, unread: list[str], *, mtp: Document | None = None
) -> Iterator[Term]:
    """Terms of a directory: its target called by its role, the MTP head, and the other parts."""
    targets = export.target_candidates
    names = {mtp.path: "MTP"} if mtp is not None else {}
    names |= {targets[0].path: role} if len(targets) == 1 else {}
    order = {role: 0, "MTP": 1}
    documents = {document.path: document for document in (*export.parts.values(), *targets)}
    skipped = {export.mtp.path} if export.mtp is not None and mtp is None else set()
    drafting = role == "draft"
    xml = 0
    for path in sorted(documents, key=lambda path: (order.get(names.get(path, ""), 2), path)):
        document = documents[path]
        if document.part in _SIDE or path in skipped:
            continue
        name = names.get(path, "")
        try:
            found = list(_part_terms(name or document.part, document, sizes, named=bool(name)))
        except InvalidIRError:
            unread.append(document.part)
            continue
        xml += len(document.data)
        yield from (_for_drafting(term) if drafting or name == "MTP" else term for term in found)
    size = _PER_XML_BYTE * xml + (0 if drafting else _PROCESS)
    formula = f"{'' if drafting else f'{size_text(_PROCESS)} + '}{_PER_XML_BYTE} x bytes of XML"
    process = Term("draft graph" if drafting else "process and graph", "", "process", formula, size)
    yield _for_drafting(process) if drafting else process


def _for_drafting(term: Term) -> Term:
    return replace(term, drafting=True)


def _part_terms(name: str, document: Document, sizes: Sizes, *, named: bool) -> Iterator[Term]:
    """Terms of one part; those beside the target and the MTP head are not packed until they are used."""
    part = PartFacts(document)
    tables = [weight for weight in part.weights if _is_table(part, weight)]
    looked_up = {constant.id for weight in tables for constant in weight.parts}
    constants = read_constants(iter_graphs(document.scan))
    rest = [constant for constant in constants if constant.in_body or constant.id not in looked_up]
    file = document.weights_path.name
    yield Term(f"{name} weights", document.part, "weights", f"constants in {file}", covered_bytes(rest))
    if tables:
        yield _looked_up(name, document, tables, sizes)
    if not named:
        return
    packed = sum(map(_packed, part.weights)) - sum(map(_packed, tables))
    yield Term(f"{name} weights, packed", document.part, "packed", "copies that the CPU makes for its kernels", packed)
    for state in states(document):
        yield _state_term(name, document, state, sizes)
    if name == "target" and (width := _embedded(part)):
        yield _prompt(name, document.part, width, _PROMPT_COPIES, sizes)


def _embedded(part: PartFacts) -> int:
    """Width of the embeddings that a part takes in place of token ids; 0 if it takes none."""
    port = part.input("inputs_embeds")
    return max(0, port.shape[-1]) if port is not None and port.shape else 0


def _is_table(part: PartFacts, weight: Weight) -> bool:
    """True for a table of which a Gather reads single rows; f32 is read whole when the model is compiled."""
    graph = part.graph
    if weight.body or not weight.learned or len(weight.shape) < 2 or weight.precision == "f32":
        return False
    return bool(weight.consumers) and all(graph.op_type(key) == "Gather" for key in weight.consumers)


def _looked_up(name: str, document: Document, tables: Sequence[Weight], sizes: Sizes) -> Term:
    row = sum(max(_PAGE, weight.size // max(1, weight.shape[0])) for weight in tables)
    most = sum(weight.size for weight in tables)
    size = min(most, row * sizes.context * sizes.batch)
    formula = f"rows that are looked up, at most {size_text(row)} a token; {size_text(most)} in the file"
    per_token = row * sizes.batch
    return Term(f"{name} rows", document.part, "embeddings", formula, size, per_token=per_token, most=most)


def _packed(weight: Weight) -> int:
    """Bytes that the CPU plugin allocates for a weight."""
    if not weight.learned or len(weight.shape) < 2:
        return 0
    return int(weight.size * (1 if weight.scale is not None else _PACKED.get(weight.constant.element_type, 1)))


def _state_term(name: str, document: Document, state: StateGroup, sizes: Sizes) -> Term:
    context, batch = sizes.context, sizes.batch
    elements = state.elements(context, batch)
    width = -(-ELEMENT_BITS.get(state.element_type, 32) // 8)
    formula = state.formula(context, batch)
    if not state.grows:
        kind = "recurrent state"
        return Term(f"{name} {kind}", document.part, kind, f"{formula} x {width} bytes", elements * width, elements)
    kind = "keys and values"
    cache = state.cache(context, batch)
    return Term(
        f"{name} {kind}", document.part, kind, f"{formula} x bytes of one", elements * width, elements, cache=cache
    )


def _prompt(name: str, part: str, width: int, copies: int, sizes: Sizes) -> Term:
    per_token = copies * width * 4 * sizes.batch
    formula = f"{copies} copies x batch {sizes.batch} x context {sizes.context} x {width} x 4 bytes"
    return Term(f"{name} prompt", part, "prompt", formula, per_token * sizes.context, per_token=per_token)


def drafting_terms(
    target: Document, mtp: Document | None, draft: ModelDirectory | None, sizes: Sizes
) -> Iterator[Term]:
    """What drafting needs besides the draft's own parts: copies of lm_head, checkpoints, copies of the prompt."""
    try:
        part = PartFacts(target)
        if mtp is not None:
            yield from _head_copy("MTP", part, mtp.part)
        elif draft is not None and len(draft.target_candidates) == 1 and _takes_head(draft.target_candidates[0]):
            yield from _head_copy("draft", part, draft.target_candidates[0].part)
        checkpoints = sizes.assistant_tokens + 2
        for state in states(target):
            if not state.grows:
                one = _state_term("target", target, state, sizes)
                formula, size = f"{checkpoints} x ({one.formula})", checkpoints * one.bytes
                yield Term("checkpoints of the state", one.part, "checkpoints", formula, size, drafting=True)
        name = "MTP" if mtp is not None else "draft"
        others = draft.target_candidates[:1] if draft is not None and mtp is None else ()
        for reader in (part, *map(PartFacts, others)):
            if width := _embedded(reader):
                yield _for_drafting(_prompt(name, reader.document.part, width, _DRAFT_COPIES, sizes))
                break
    except InvalidIRError:
        return


def _takes_head(document: Document) -> bool:
    """True for a DFlash draft without logits of its own: it gets the lm_head of the target."""
    part = PartFacts(document)
    return read_draft(part).kind == "dflash" and part.output("logits") is None


def _head_copy(name: str, part: PartFacts, drafted: str) -> Iterator[Term]:
    """Copy of lm_head, or of the draft head, that the runtime makes for a draft, and the packed copy of that.

    GenAI 2026.4 makes it even if an MTP head has a head of its own.
    """
    try:
        graft, matmul = part.graft, find_runtime_lm_head(part).matmul
        weights = head_weights(part.graph, matmul) if matmul is not None else None
    except EditError:
        return
    if weights is None:
        return
    constants = [one for one in read_constants((part.graph.scan,)) if one.id in weights.axes]
    copied, rows = "lm_head", weights.vocabulary
    if name == "MTP" and graft is not None and graft.first:
        copied, rows = "draft head", graft.rows
    size = covered_bytes(constants) * rows // weights.vocabulary
    formula = f"{rows} of {weights.vocabulary} rows of lm_head"
    yield Term(f"{name} copy of {copied}", drafted, "copies", formula, size, drafting=True)
    compressed = any(one.element_type not in _PACKED for one in constants)
    packed = int(size * (1.0 if compressed else max(_PACKED[one.element_type] for one in constants)))
    yield Term(f"{name} copy, packed", drafted, "packed", "of that copy", packed, drafting=True)
