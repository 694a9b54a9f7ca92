"""What has to hold of an IR after it was edited.

What was wrong before is no reason to refuse an edit: a file can be repaired step by step. Only what
is wrong now and was not, or is more often wrong than it was, counts. How the file was is looked at
only when something is wrong now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

from irtools.errors import EditError
from irtools.ir.integrity import Fault, FaultKind, find_faults
from irtools.ir.op import data_attributes, layer_attributes, split_names
from irtools.ir.scan import Scan, Span

__all__ = ["require_sound"]

T = TypeVar("T", bound=Hashable)
_OTHER = {"ReadValue": "Assign", "Assign": "ReadValue"}


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
    faults = find_faults([after])
    old = Counter(_identity(before, fault) for fault in find_faults([before])) if faults else Counter()
    for fault in faults:
        known = _identity(after, fault)
        old[known] -= 1
        if old[known] < 0:
            raise EditError(f"{fault.message} after the edits; nothing was changed")
    for name, count in _worse(before, after, lambda scan: scan.names):
        raise EditError(f"{count} ops would be named {name!r}; give each a name of its own")
    for name, count in _worse(before, after, _output_names):
        raise EditError(f"{count} model outputs would be named {name!r}; give each a name of its own")
    for (kind, variable), count in _worse(before, after, _states):
        raise EditError(
            f"the state {variable!r} would have {count} {kind} ops; give each state a variable_id of its own"
        )
    unpaired = _unpaired_states(after)
    known_states = _unpaired_states(before) if unpaired else {}
    for state, message in unpaired.items():
        if state not in known_states:
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


def _worse(before: Scan, after: Scan, listed: Callable[[Scan], Iterable[T]]) -> Iterator[tuple[T, int]]:
    """What is there several times, and more often than before."""
    repeated = {item: count for item, count in Counter(listed(after)).items() if count > 1}
    old = Counter(listed(before)) if repeated else Counter()
    return ((item, count) for item, count in repeated.items() if count > old[item])


def _output_names(scan: Scan) -> Iterator[str]:
    for kind, span in zip(scan.types, scan.spans, strict=True):
        if kind == "Result":
            yield from split_names(layer_attributes(scan.data, span).get("output_names", ""))


def _unpaired_states(scan: Scan) -> dict[tuple[str, str], str]:
    """What is said of states that are read and never written, or the other way round, by which of it."""
    names = (name for name, kind in zip(scan.names, scan.types, strict=True) if kind in _OTHER)
    states = dict(zip(_states(scan), names, strict=True))
    return {
        (kind, variable): f"the state {variable!r} has the {kind} {name!r} and no {_OTHER[kind]}"
        for (kind, variable), name in states.items()
        if (_OTHER[kind], variable) not in states
    }


def _states(scan: Scan) -> Iterator[tuple[str, str]]:
    """Type and variable of each op that reads or writes a state."""
    for kind, span in zip(scan.types, scan.spans, strict=True):
        if kind in _OTHER:
            yield kind, data_attributes(scan.data, span).get("variable_id", "")
