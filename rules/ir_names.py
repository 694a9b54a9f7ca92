"""IR016 to IR018: names and states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from irtools.lint import Context, Finding, Severity, rule
from irtools.lint.fixes import make_names_unique
from irtools.model.document import Document


@rule("IR016", "duplicate-friendly-name", Severity.WARNING, "Two ops have the same friendly name")
def duplicate_friendly_name(context: Context) -> Iterator[Finding]:
    """Two ops have the same friendly name.

    What it checks
    --------------
    That no two ops at the top level of an IR have the same name. A model output (Result) that is
    called like the op it reads gets a note: some converters write that.

    Why it matters
    --------------
    The model runs. But an annotation finds its op by name, and the runtime refuses one that names
    two; compression tools have produced such duplicates in the past.

    How to fix it
    -------------
    Export again with a current nncf. ``--unsafe-fixes`` makes the names unique by adding a number to
    the later ones.

    Source
    ------
    OpenVINO GenAI 2026.4.1 looks up the annotated op among all ops and wants exactly one; duplicates
    survive saving and reading with OpenVINO.
    """
    for document in context.judged:
        scan = document.scan
        if len(set(scan.names)) == len(scan.names):
            continue
        counts = Counter(scan.names)
        kinds = [(name, kind) for name, kind in zip(scan.names, scan.types, strict=True) if counts[name] > 1]
        ops = Counter(name for name, kind in kinds if kind != "Result")
        seen: set[str] = set()
        for name, span in zip(scan.names, scan.spans, strict=True):
            if counts[name] > 1 and name in seen:
                harmless = ops[name] < 2
                yield Finding(
                    f"{counts[name]} ops have the name {name!r}" + (" (one is a model output)" if harmless else ""),
                    "An annotation cannot name either of them; make the names unique.",
                    file=document.path,
                    line=document.line(span),
                    op=name,
                    severity=Severity.NOTE if harmless else None,
                    fix=make_names_unique(),
                )
                counts[name] = 1
            seen.add(name)


@rule("IR017", "state-without-partner", Severity.ERROR, "A state is read but not written, or written but not read")
def state_without_partner(context: Context) -> Iterator[Finding]:
    """A state is read but not written, or written but not read.

    What it checks
    --------------
    That every ``variable_id`` has a ReadValue and an Assign.

    Why it matters
    --------------
    An Assign without ReadValue is refused at load with the message "map::at". A ReadValue without
    Assign never gets a new value: on the paged-attention path nothing happens, everywhere else the
    model forgets what it has read. In an MTP head, which runs on that path only, it is a warning.

    How to fix it
    -------------
    Export the model again; nothing but an edit of the file produces this.

    Source
    ------
    Reproduced with OpenVINO 2026.4.1 and OpenVINO GenAI 2026.4.1.
    """
    for document in context.judged:
        reads, writes = _states(document, "ReadValue"), _states(document, "Assign")
        for mine, others, wanted in ((reads, writes, "Assign"), (writes, reads, "ReadValue")):
            for variable, positions in mine.items():
                if variable not in others:
                    found = _about_state(document, positions[0], f"the state {variable!r} has no {wanted}")
                    harmless = wanted == "Assign" and document is context.export.mtp
                    yield replace(found, severity=Severity.WARNING if harmless else None)


@rule("IR018", "shared-state", Severity.ERROR, "Several ops read or write the same state")
def shared_state(context: Context) -> Iterator[Finding]:
    """Several ops read or write the same state.

    What it checks
    --------------
    That no two ReadValue ops, and no two Assign ops, have the same ``variable_id``.

    Why it matters
    --------------
    The CPU plugin refuses to compile such a model ("doesn't have sibling output"). On the
    paged-attention path it runs silently, and two layers overwrite each other's keys and values.

    How to fix it
    -------------
    Export the model again; nothing but an edit of the file produces this.

    Source
    ------
    Reproduced with OpenVINO 2026.4.1 and OpenVINO GenAI 2026.4.1.
    """
    for document in context.judged:
        for kind, verb in (("ReadValue", "read"), ("Assign", "written")):
            for variable, positions in _states(document, kind).items():
                if len(positions) > 1:
                    message = f"the state {variable!r} is {verb} by {len(positions)} ops"
                    yield _about_state(document, positions[1], message)


def _states(document: Document, kind: str) -> dict[str, list[int]]:
    """Positions of the ops of one kind by the state they name."""
    found: dict[str, list[int]] = {}
    for position, type_ in enumerate(document.scan.types):
        if type_ == kind:
            found.setdefault(document.data_attributes(position).get("variable_id", ""), []).append(position)
    return found


def _about_state(document: Document, position: int, message: str) -> Finding:
    span, name = document.scan.spans[position], document.scan.names[position]
    return Finding(message, "Export the model again.", file=document.path, line=document.line(span), op=name)
