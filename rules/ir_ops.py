"""IR019, IR022, IR023 and EXP024: ops that the runtime cannot create."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from irtools.authoring import Context, Finding, Severity, rule
from irtools.ir.op import layer_attributes
from irtools.ir.scan import BODY_OWNERS, Scan, bodies
from irtools.model.document import Document
from irtools.model.runtime_ops import RuntimeOps, runtime_ops
from irtools.text import plural

_EXTENSIONS = ("extension", "experimental")
_ROOTS = ("Result", "Assign", "Parameter")


@dataclass(frozen=True, slots=True)
class _Unread:
    """Ops of one type and opset that the runtime cannot create; the first of them has the offset and the name."""

    kind: str
    opset: str
    document: Document
    offset: int
    name: str
    count: int

    def finding(self, message: str, hint: str) -> Finding:
        many = f" ({plural(self.count, 'op')})" if self.count > 1 else ""
        return Finding(message + many, hint, self.document.path, self.document.line(self.offset), self.name or None)


def _unread(
    context: Context, applies: Callable[[RuntimeOps, str, str], bool], *, tokenizers: bool = False
) -> Iterator[tuple[_Unread, RuntimeOps]]:
    """Ops of all parts that the target runtime cannot create and to which a rule applies."""
    ops = runtime_ops(context.target_runtime)
    for document in context.all_documents:
        if ("tokenizer" in document.part) != tokenizers:
            continue
        wanted = {
            (kind, opset)
            for kind, opset in context.op_types(document)
            if not ops.reads(kind, opset, tokenizer=tokenizers) and applies(ops, kind, opset)
        }
        for one in _first_of_each(document, wanted):
            yield one, ops


def _first_of_each(document: Document, wanted: set[tuple[str, str]]) -> Iterator[_Unread]:
    """First op of each type and opset among those that the reader creates."""
    if not wanted:
        return
    found: dict[tuple[str, str], list[tuple[Scan, int]]] = {}
    for scan, position in _created(document.scan):
        attributes = layer_attributes(scan.data, scan.spans[position])
        pair = attributes.get("type", ""), attributes.get("version", "")
        if pair in wanted and {"type", "version"} <= attributes.keys():  # IR010 reports a missing one
            found.setdefault(pair, []).append((scan, position))
    for (kind, opset), places in sorted(found.items()):
        scan, position = min(places, key=lambda place: place[0].spans[place[1]])
        yield _Unread(kind, opset, document, scan.spans[position].start, scan.names[position], len(places))


def _created(scan: Scan) -> Iterator[tuple[Scan, int]]:
    """Ops that OpenVINO creates, bodies included: a Result or an Assign depends on them. It drops all others."""
    graphs = [scan]
    while graphs:
        graph = graphs.pop()
        for position in _live(graph):
            yield graph, position
            if graph.types[position] in BODY_OWNERS:
                graphs += [body for _, body in bodies(graph, graph.spans[position])]


def _live(scan: Scan) -> Iterator[int]:
    """Positions of the ops of one graph that a Result or an Assign depends on."""
    positions = {layer: position for position, layer in enumerate(scan.ids)}
    sources: dict[int, list[int]] = {}
    for source, _, reader, _ in scan.edges:
        sources.setdefault(reader, []).append(source)
    pending = [layer for layer, kind in zip(scan.ids, scan.types, strict=True) if kind in _ROOTS]
    seen = set(pending)
    while pending:
        layer = pending.pop()
        if layer not in positions:
            continue
        position = positions[layer]
        yield position
        new = [source for source in sources.get(layer, ()) if source not in seen]
        seen.update(new)
        pending += new


def _later(one: _Unread, ops: RuntimeOps, *, tokenizer: bool = False) -> str:
    """Clause about the first later release that reads an op; ``""`` if none does."""
    since = ops.since(one.kind, one.opset, tokenizer=tokenizer)
    return f"; OpenVINO reads it from {since} on" if since else ""


def _hint(context: Context, later: str) -> str:
    if later:
        return f"export with OpenVINO {context.target_runtime}, or require the later runtime"
    return f"export again with OpenVINO {context.target_runtime}, without extensions of the converter"


def _has_opset(ops: RuntimeOps, opset: str) -> bool:
    return opset in _EXTENSIONS or opset in ops.opsets


@rule("IR019", "unknown-opset", Severity.ERROR, "An op has an opset that the runtime does not have")
def unknown_opset(context: Context) -> Iterator[Finding]:
    """An op has an opset that the runtime does not have.

    What it checks
    --------------
    That the ``version`` of every op is an opset of the target runtime (``opset1`` to ``opset17`` for OpenVINO
    2026.4), ``extension`` or ``experimental``. Ops that no Result and no Assign depends on are not created and
    not checked.

    Why it matters
    --------------
    OpenVINO cannot read the file ("Cannot create ... from unsupported opset"), so nothing runs.

    How to fix it
    -------------
    Export with a released OpenVINO that is not newer than the runtime. An op of an extension library needs
    this library in every program that loads the model (property ``extensions`` of OpenVINO GenAI).

    Source
    ------
    ``fixtures/runtime_ops.py`` asks each release; reproduced with OpenVINO 2025.0 to 2026.4.
    """
    for one, ops in _unread(context, lambda ops, kind, opset: not _has_opset(ops, opset)):
        later = _later(one, ops)
        runs = context.target_runtime
        message = f"{one.kind!r} has the opset {one.opset!r}, which OpenVINO {runs} does not have{later}"
        yield one.finding(message, _hint(context, later))


@rule("IR022", "unknown-op", Severity.ERROR, "The runtime does not know the type of an op")
def unknown_op(context: Context) -> Iterator[Finding]:
    """The runtime does not know the type of an op.

    What it checks
    --------------
    That an opset of the target runtime has the ``type`` of every op, also in the bodies of Loop, If and
    TensorIterator. As in OpenVINO, the case of letters does not count. Ops that no Result and no Assign
    depends on are not created and not checked.

    Why it matters
    --------------
    OpenVINO cannot read the file ("doesn't contain the operation with type", "Cannot create ... from
    unsupported opset"), so nothing runs.

    How to fix it
    -------------
    Export with a released OpenVINO that is not newer than the runtime. An op of an extension library needs
    this library in every program that loads the model (property ``extensions`` of OpenVINO GenAI).

    Source
    ------
    ``fixtures/runtime_ops.py`` asks each release; reproduced with OpenVINO 2025.0 to 2026.4.
    """
    for one, ops in _unread(context, lambda ops, kind, opset: _has_opset(ops, opset) and not ops.opsets_of(kind)):
        later = _later(one, ops)
        message = f"OpenVINO {context.target_runtime} has no op of the type {one.kind!r} ({one.opset}){later}"
        yield one.finding(message, _hint(context, later))


@rule("IR023", "op-not-in-opset", Severity.ERROR, "The runtime does not have an op in the opset that it names")
def op_not_in_opset(context: Context) -> Iterator[Finding]:
    """The runtime does not have an op in the opset that it names.

    What it checks
    --------------
    That the opset which an op names has its type in the target runtime. A release can add types to an opset
    that exists already. As in OpenVINO, the case of letters does not count.

    Why it matters
    --------------
    OpenVINO cannot read the file ("Opset ... doesn't contain the operation with type"), so nothing runs.

    How to fix it
    -------------
    Export with a released OpenVINO that is not newer than the runtime, or undo the edit of the ``version``.

    Source
    ------
    ``fixtures/runtime_ops.py`` asks each release; reproduced with OpenVINO 2025.0 to 2026.4.
    """
    for one, ops in _unread(context, lambda ops, kind, opset: _has_opset(ops, opset) and bool(ops.opsets_of(kind))):
        later, have = _later(one, ops), ops.opsets_of(one.kind)
        where = have[0] if len(have) == 1 else f"{have[0]} to {have[-1]}"
        message = f"{one.opset} has no {one.kind!r}: OpenVINO {context.target_runtime} has it in {where}{later}"
        yield one.finding(message, _hint(context, later))


@rule("EXP024", "unknown-tokenizer-op", Severity.ERROR, "The runtime's tokenizers do not know an op of the tokenizer")
def unknown_tokenizer_op(context: Context) -> Iterator[Finding]:
    """The runtime's tokenizers do not know an op of the tokenizer or detokenizer.

    What it checks
    --------------
    That OpenVINO and openvino-tokenizers of the target runtime have every op of the tokenizer and the
    detokenizer.

    Why it matters
    --------------
    The pipeline cannot read the file and fails while it loads, before the model is read ("Cannot create ...
    from unsupported opset"). A tokenizer that a newer openvino-tokenizers converted can have such ops.

    How to fix it
    -------------
    Convert the tokenizer again with the runtime's own release: ``convert_tokenizer MODEL_DIR
    --with-detokenizer -o MODEL_DIR``.

    Source
    ------
    ``fixtures/runtime_ops.py`` asks each release; reproduced with openvino-tokenizers 2025.0 to 2026.4.
    """
    for one, ops in _unread(context, lambda ops, kind, opset: True, tokenizers=True):
        later = _later(one, ops, tokenizer=True)
        which = "openvino-tokenizers" if one.opset in _EXTENSIONS else "OpenVINO"
        message = f"{which} {context.target_runtime} has no op {one.kind!r} of {one.opset}{later}"
        hint = f"convert it again with openvino-tokenizers {context.target_runtime}: "
        yield one.finding(message, hint + "convert_tokenizer MODEL_DIR --with-detokenizer -o MODEL_DIR")
