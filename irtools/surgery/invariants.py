"""Validity of an IR after edits.

Faults that the file had before do not refuse an edit, so that a file can be repaired step by step. Only new
faults count. The old file is examined only if the new one has faults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain
from typing import TypeVar

from irtools.errors import EditError
from irtools.ir.integrity import Fault, FaultKind, find_faults
from irtools.ir.op import data_attributes, layer_attributes, split_names
from irtools.ir.scan import Scan, Span

__all__ = ["output_names", "require_sound"]

T = TypeVar("T", bound=Hashable)
_OTHER = {"ReadValue": "Assign", "Assign": "ReadValue"}


def require_sound(before: Scan, after: Scan) -> None:
    """Refuse edits that introduce faults.

    Raises
    ------
    EditError
        Names the first new fault of ids, ports and edges, cycles, friendly names, names of model outputs,
        or states.
    """
    faults = find_faults([after])
    old = Counter(_identity(before, fault) for fault in find_faults([before])) if faults else Counter()
    for fault in faults:
        identity = _identity(after, fault)
        old[identity] -= 1
        if old[identity] < 0:
            raise EditError(f"{fault.message} after the edits; nothing was changed")
    for name, count in _worse(before, after, lambda scan: scan.names):
        raise EditError(f"{count} ops would be named {name!r}; give each a unique name")
    for name, count in _worse(before, after, lambda scan: chain.from_iterable(output_names(scan))):
        raise EditError(f"{count} model outputs would be named {name!r}; give each a unique name")
    for (kind, variable), count in _worse(before, after, _states):
        raise EditError(f"the state {variable!r} would have {count} {kind} ops; give each state a unique variable_id")
    unpaired = _unpaired_states(after)
    old_unpaired = _unpaired_states(before) if unpaired else {}
    for state, message in unpaired.items():
        if state not in old_unpaired:
            raise EditError(f"{message}; edit both together")


def _identity(scan: Scan, fault: Fault) -> tuple[FaultKind, bytes, str]:
    """Identify a fault independently of its op's name: kind, layer id or edge, and message without the name."""
    end = scan.data.index(b">", fault.offset)
    if fault.kind is FaultKind.DANGLING_EDGE:
        where = scan.data[fault.offset : end]
    else:
        where = layer_attributes(scan.data, Span(fault.offset, len(scan.data)))["id"].encode()
    message = "" if fault.kind is FaultKind.CYCLE else fault.message.replace(repr(fault.op), "")
    return fault.kind, where, message


def _worse(before: Scan, after: Scan, listed: Callable[[Scan], Iterable[T]]) -> Iterator[tuple[T, int]]:
    """Yield the items that are repeated, and more often than before, with their counts."""
    items = list(listed(after))
    if len(set(items)) == len(items):  # in half the time of counting them
        return iter(())
    repeated = {item: count for item, count in Counter(items).items() if count > 1}
    old = Counter(listed(before)) if repeated else Counter()
    return ((item, count) for item, count in repeated.items() if count > old[item])


def output_names(scan: Scan) -> Iterator[tuple[str, ...]]:
    """Yield the ``output_names`` of every model output."""
    for kind, span in zip(scan.types, scan.spans, strict=True):
        if kind == "Result":
            yield split_names(layer_attributes(scan.data, span).get("output_names", ""))


def _unpaired_states(scan: Scan) -> dict[tuple[str, str], str]:
    """Map (op type, variable) to a message, for states that are only read or only written."""
    names = (name for name, kind in zip(scan.names, scan.types, strict=True) if kind in _OTHER)
    states = dict(zip(_states(scan), names, strict=True))
    return {
        (kind, variable): f"the state {variable!r} has the {kind} {name!r} and no {_OTHER[kind]}"
        for (kind, variable), name in states.items()
        if (_OTHER[kind], variable) not in states
    }


def _states(scan: Scan) -> Iterator[tuple[str, str]]:
    """Yield the type and variable of every op that reads or writes a state."""
    for kind, span in zip(scan.types, scan.spans, strict=True):
        if kind in _OTHER:
            yield kind, data_attributes(scan.data, span).get("variable_id", "")
