"""What has to hold of an IR after it was edited.

What was wrong before is no reason to refuse an edit: a file can be repaired step by step. Only what
is wrong now and was not, or is more often wrong than it was, counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from irtools.errors import EditError
from irtools.ir.integrity import Fault, FaultKind, find_faults
from irtools.ir.op import data_attributes, layer_attributes, split_names
from irtools.ir.scan import Scan, Span

__all__ = ["require_sound"]


def require_sound(before: Scan, after: Scan) -> None:
    """Refuse a result that has faults which the file did not have.

    Parameters
    ----------
    before, after : Scan

    Raises
    ------
    EditError
        Names the first fault: ids, ports and edges, cycles, friendly names, names of model outputs,
        states.
    """
    old = Counter(_identity(before, fault) for fault in find_faults([before]))
    for fault in find_faults([after]):
        known = _identity(after, fault)
        old[known] -= 1
        if old[known] < 0:
            raise EditError(f"{fault.message} after the edits; nothing was changed")
    for name, count in _worse(Counter(before.names), Counter(after.names)):
        raise EditError(f"{count} ops would be named {name!r}; give each a name of its own")
    for name, count in _worse(_output_names(before), _output_names(after)):
        raise EditError(f"{count} model outputs would be named {name!r}; give each a name of its own")
    unpaired = _unpaired_states(before)
    for state, message in _unpaired_states(after).items():
        if state not in unpaired:
            raise EditError(f"{message}; edit both together")


def _identity(scan: Scan, fault: Fault) -> tuple[FaultKind, bytes, str]:
    """What stays of a fault when its op is renamed: the layer id or the edge, and what is said of it."""
    end = scan.data.index(b">", fault.offset)
    if fault.kind is FaultKind.DANGLING_EDGE:
        where = scan.data[fault.offset : end]
    else:
        where = layer_attributes(scan.data, Span(fault.offset, len(scan.data)))["id"].encode()
    said = "" if fault.kind is FaultKind.CYCLE else fault.message.replace(repr(fault.op), "")
    return fault.kind, where, said


def _worse(before: Counter[str], after: Counter[str]) -> Iterator[tuple[str, int]]:
    """What is there several times, and more often than before."""
    return ((name, count) for name, count in after.items() if count > max(before[name], 1))


def _output_names(scan: Scan) -> Counter[str]:
    return Counter(
        name
        for kind, span in zip(scan.types, scan.spans, strict=True)
        if kind == "Result"
        for name in split_names(layer_attributes(scan.data, span).get("output_names", ""))
    )


def _unpaired_states(scan: Scan) -> dict[tuple[str, str], str]:
    """What is said of states that are read and never written, or the other way round, by which of it."""
    variables: dict[str, dict[str, str]] = {"ReadValue": {}, "Assign": {}}
    for name, kind, span in zip(scan.names, scan.types, scan.spans, strict=True):
        if kind in variables:
            variables[kind].setdefault(data_attributes(scan.data, span).get("variable_id", ""), name)
    return {
        (kind, variable): f"the state {variable!r} has the {kind} {name!r} and no {other}"
        for kind, other in (("ReadValue", "Assign"), ("Assign", "ReadValue"))
        for variable, name in variables[kind].items()
        if variable not in variables[other]
    }
