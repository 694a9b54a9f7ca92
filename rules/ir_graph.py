"""IR011 to IR015: the wiring of the graph."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.ir.integrity import FaultKind
from irtools.lint import Context, Finding, Severity, rule

_AGAIN = "Export the model again, or restore the file."
_MOST = 20  # of one kind in one file; a damaged file can have thousands


def _of_kind(context: Context, kind: FaultKind, hint: str = _AGAIN) -> Iterator[Finding]:
    for document in context.judged:
        faults = [fault for fault in context.faults(document) if fault.kind is kind]
        for number, fault in enumerate(faults[:_MOST], 1):
            left = len(faults) - _MOST
            more = f" ({left} more like this)" if number == _MOST and left > 0 else ""
            yield Finding(fault.message + more, hint, file=document.path, line=document.line(fault.offset), op=fault.op)


@rule("IR011", "duplicate-layer-id", Severity.ERROR, "Two ops have the same layer id")
def duplicate_layer_id(context: Context) -> Iterator[Finding]:
    """Two ops have the same layer id.

    What it checks
    --------------
    That layer ids are unique in each graph. The body of a Loop, TensorIterator or If is a graph of
    its own.

    Why it matters
    --------------
    Edges name ops by this id: with two of them nobody can tell what is meant. OpenVINO refuses the
    file with a message that helps nobody ("Can not find input port with id 0 in layer"). The other
    rules leave such a file alone.

    How to fix it
    -------------
    Export the model again, or restore the file.

    Source
    ------
    Reproduced with OpenVINO 2026.4.1.
    """
    return _of_kind(context, FaultKind.DUPLICATE_ID)


@rule("IR012", "dangling-edge", Severity.ERROR, "An edge starts or ends at a layer or port that does not exist")
def dangling_edge(context: Context) -> Iterator[Finding]:
    """An edge starts or ends at a layer or port that does not exist.

    What it checks
    --------------
    That both ends of every edge are a layer of the same graph and one of its ports.

    Why it matters
    --------------
    An edge from nowhere is refused ("Cannot create  layer  id:0 from unsupported opset:"), one to
    nowhere is ignored silently and leaves something unconnected.

    How to fix it
    -------------
    Export the model again, or restore the file.

    Source
    ------
    Reproduced with OpenVINO 2026.4.1.
    """
    return _of_kind(context, FaultKind.DANGLING_EDGE)


@rule("IR013", "unconnected-input", Severity.ERROR, "An input of an op has no edge")
def unconnected_input(context: Context) -> Iterator[Finding]:
    """An input of an op has no edge.

    What it checks
    --------------
    That an edge leads to every input port that an op declares.

    Why it matters
    --------------
    OpenVINO refuses the file ("layer ... is inconsistent!").

    How to fix it
    -------------
    Export the model again, or restore the file.

    Source
    ------
    Reproduced with OpenVINO 2026.4.1.
    """
    return _of_kind(context, FaultKind.UNCONNECTED_INPUT)


@rule("IR014", "doubled-input", Severity.ERROR, "Several edges lead to the same input")
def doubled_input(context: Context) -> Iterator[Finding]:
    """Several edges lead to the same input.

    What it checks
    --------------
    That no input port has more than one edge.

    Why it matters
    --------------
    OpenVINO takes the second edge for another input and refuses the file ("has incorrect input with
    index").

    How to fix it
    -------------
    Export the model again, or restore the file.

    Source
    ------
    Reproduced with OpenVINO 2026.4.1.
    """
    return _of_kind(context, FaultKind.DOUBLED_INPUT)


@rule("IR015", "graph-cycle", Severity.ERROR, "An op depends on its own output")
def graph_cycle(context: Context) -> Iterator[Finding]:
    """An op depends on its own output.

    What it checks
    --------------
    That the edges of each graph have no cycle. Loops are ops with a body, not cycles.

    Why it matters
    --------------
    No order exists in which the ops could be computed. The other rules leave such a file alone.

    How to fix it
    -------------
    Export the model again, or restore the file.

    Source
    ------
    Reproduced with OpenVINO 2026.4.1: refused ("Attempt to access node ... that not in graph.").
    """
    return _of_kind(context, FaultKind.CYCLE)
