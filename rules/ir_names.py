"""IR016 to IR018: names and states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from irtools.authoring import Context, Finding, Severity, rule
from irtools.lint.fix_makers import make_names_unique
from irtools.lint.pair import pair
from irtools.model.document import Document
from irtools.model.guess import guess


@rule("IR016", "duplicate-friendly-name", Severity.WARNING, "Two ops have the same friendly name")
def duplicate_friendly_name(context: Context) -> Iterator[Finding]:
    """Two ops have the same friendly name.

    What it checks
    --------------
    That no two top-level ops of an IR have the same name. A model output (Result) with the name of the
    op that it reads gets a note, because some converters write that.

    Why it matters
    --------------
    The model runs. But an annotation refers to an op by name, and the runtime rejects an ambiguous
    name. Some versions of compression tools write such duplicates.

    How to fix it
    -------------
    Export again with a current nncf. ``--unsafe-fixes`` makes the names unique by appending a number to
    the later ones, but the op of a hidden state keeps its name.

    Source
    ------
    OpenVINO GenAI 2026.4.1 looks the annotated op up among all ops and requires exactly one. OpenVINO
    keeps duplicate names when it reads and saves a model.
    """
    # An annotation of which the locators can be looked up has findings of its own.
    judged = context.annotated is not None or _guessed(context)
    layers = context.stack.layers if context.stack is not None and not judged else ()
    tapped = {layer.locator.producer: layer.index for layer in layers if layer.obstacle}
    for document in context.all_documents:
        scan = document.scan
        named = document.graph.named if context.readable(document) else {*scan.names}
        if len(named) == len(scan.names):
            continue
        counts = Counter(scan.names)
        kinds = [(name, kind) for name, kind in zip(scan.names, scan.types, strict=True) if counts[name] > 1]
        ops = Counter(name for name, kind in kinds if kind != "Result")
        seen: set[str] = set()
        for name, span in zip(scan.names, scan.spans, strict=True):
            if counts[name] > 1 and name in seen:
                harmless = ops[name] < 2
                more = " (one is a model output)" if harmless else ""
                message = f"{counts[name]} ops have the name {name!r}{more}"
                hint = "Make the names unique, because an annotation cannot refer to an ambiguous name."
                severity, line = Severity.NOTE if harmless else None, document.line(span)
                finding = Finding(message, hint, document.path, line, name, severity, fix=make_names_unique(context))
                layer = tapped.get(name) if document is context.target else None
                yield finding if layer is None else _about_producer(finding, layer)
                counts[name] = 1
            seen.add(name)


def _guessed(context: Context) -> bool:
    """True if the draft of ``--draft`` needs no annotation: the runtime's guess finds its layers (DFL013 judges it)."""
    target, paired = context.target_facts, pair(context)
    if target is None or context.draft is None or paired is None or target.annotation is not None:
        return False
    layers = set(paired.draft.layers or ())
    return paired.draft.kind == "dflash" and bool(layers) and layers == guess(target, layers).keys()


def _about_producer(finding: Finding, layer: int) -> Finding:
    """The finding for the name of the producer of a layer's hidden state, which no annotation can give."""
    count = finding.message.partition(" ")[0]
    message = f"{count} ops have the name of the producer of layer {layer}"
    hint = f"Make the names unique, because the annotation cannot refer to {finding.op!r}."
    return replace(finding, message=message, hint=hint, severity=None, rules_out=("dflash",))


@rule("IR017", "state-without-partner", Severity.ERROR, "A state lacks its ReadValue or its Assign")
def state_without_partner(context: Context) -> Iterator[Finding]:
    """A state lacks its ReadValue or its Assign.

    What it checks
    --------------
    That every ``variable_id`` has a ReadValue and an Assign.

    Why it matters
    --------------
    An Assign without a ReadValue is rejected at load time with the message "map::at". A ReadValue
    without an Assign never gets a new value: the paged-attention path is not affected, but on every
    other path the model loses its context. In an MTP head, which uses only the paged path, this is a
    warning.

    How to fix it
    -------------
    Export the model again. Only an edit of the file can cause this.

    Source
    ------
    Reproduced with OpenVINO 2026.4.1 and OpenVINO GenAI 2026.4.1.
    """
    for document in context.all_documents:
        reads, writes = _states(document, "ReadValue"), _states(document, "Assign")
        for mine, others, wanted in ((reads, writes, "Assign"), (writes, reads, "ReadValue")):
            for variable, positions in mine.items():
                if variable not in others:
                    harmless = wanted == "Assign" and document is context.export.mtp
                    severity = Severity.WARNING if harmless else None
                    yield _about_state(document, positions[0], f"the state {variable!r} has no {wanted}", severity)


@rule("IR018", "shared-state", Severity.ERROR, "Several ops read or write the same state")
def shared_state(context: Context) -> Iterator[Finding]:
    """Several ops read or write the same state.

    What it checks
    --------------
    That no two ReadValue ops and no two Assign ops have the same ``variable_id``.

    Why it matters
    --------------
    The CPU plugin does not compile such a model ("doesn't have sibling output"). The paged-attention
    path runs it without an error message, but two layers overwrite each other's keys and values.

    How to fix it
    -------------
    Export the model again. Only an edit of the file can cause this.

    Source
    ------
    Reproduced with OpenVINO 2026.4.1 and OpenVINO GenAI 2026.4.1.
    """
    for document in context.all_documents:
        shared: dict[str, list[tuple[str, list[int]]]] = {}
        for kind, verb in (("ReadValue", "read"), ("Assign", "written")):
            for variable, positions in _states(document, kind).items():
                if len(positions) > 1:
                    shared.setdefault(variable, []).append((verb, positions))
        for variable, uses in shared.items():
            used = " and ".join(f"{verb} by {len(positions)} ops" for verb, positions in uses)
            yield _about_state(document, uses[0][1][1], f"the state {variable!r} is {used}")


def _states(document: Document, kind: str) -> dict[str, list[int]]:
    """Positions of the ops of one kind, by ``variable_id``."""
    states: dict[str, list[int]] = {}
    for position, type_ in enumerate(document.scan.types):
        if type_ == kind:
            states.setdefault(document.data_attributes(position).get("variable_id", ""), []).append(position)
    return states


def _about_state(document: Document, position: int, message: str, severity: Severity | None = None) -> Finding:
    line, name = document.line(document.scan.spans[position]), document.scan.names[position]
    return Finding(message, "Export the model again.", document.path, line, name, severity)
