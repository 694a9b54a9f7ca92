"""IR011 to IR015: layer ids and edges of the graph."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.authoring import Context, Finding, Severity, rule
from irtools.ir.integrity import FaultKind

_AGAIN = "Export the model again, or restore the file."


def _of_kind(context: Context, kind: FaultKind) -> Iterator[Finding]:
    for document in context.all_documents:
        for fault in context.faults(document):
            if fault.kind is kind:
                line = document.line(fault.offset)
                yield Finding(fault.message, _AGAIN, file=document.path, line=line, op=fault.op)


@rule("IR011", "duplicate-layer-id", Severity.ERROR, "Two ops have the same layer id")
def duplicate_layer_id(context: Context) -> Iterator[Finding]:
    """Two ops have the same layer id.

    What it checks
    --------------
    That layer ids are unique within each graph. The body of a Loop, TensorIterator or If is a separate
    graph.

    Why it matters
    --------------
    Edges refer to ops by layer id, so a duplicate makes them ambiguous. OpenVINO rejects the file with
    a misleading message ("Can not find input port with id 0 in layer"). Most other rules skip such a
    file.

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
    OpenVINO rejects an edge with a missing source ("Cannot create  layer  id:0 from unsupported
    opset:"). It silently ignores an edge with a missing destination, which leaves an input unconnected.

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
    That every input port of every op has an edge, and that an op has the inputs and outputs that its type
    requires: a MatMul has two inputs, a Parameter has an output and no input.

    Why it matters
    --------------
    OpenVINO rejects the file ("layer ... is inconsistent!").

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
    OpenVINO treats the second edge as another input and rejects the file ("has incorrect input with
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
    That the edges of each graph form no cycle. A Loop is an op with a body, not a cycle.

    Why it matters
    --------------
    The ops have no valid execution order. Most other rules skip such a file.

    How to fix it
    -------------
    Export the model again, or restore the file.

    Source
    ------
    Reproduced with OpenVINO 2026.4.1: rejected ("Attempt to access node ... that not in graph.").
    """
    return _of_kind(context, FaultKind.CYCLE)
