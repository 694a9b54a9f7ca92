"""What a fault of the wiring names: the op, the edge and the place in the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from irtools.ir.constants import iter_graphs
from irtools.ir.integrity import FaultKind, find_faults
from irtools.model.document import Document

MISSING = 900000


def with_edge(document: Document, edge: bytes) -> Document:
    return Document(document.path, document.data.replace(b"</edges>", edge + b"\n</edges>", 1))


@pytest.mark.parametrize("missing", ["from", "to", "both"])
def test_an_edge_names_the_op_at_its_other_end(missing: str, fixtures: Path) -> None:
    document = Document(fixtures / "falcon" / "openvino_model.xml")
    graph = document.graph
    source, target = graph.parameters[0], graph.results[0]
    start = MISSING if missing in ("from", "both") else source
    end = MISSING + 1 if missing in ("to", "both") else target
    edge = b'<edge from-layer="%d" from-port="0" to-layer="%d" to-port="0" />' % (start, end)

    edited = with_edge(document, edge)
    faults = [fault for fault in find_faults(iter_graphs(edited.scan)) if fault.kind is FaultKind.DANGLING_EDGE]

    names = {"from": graph.op_name(target), "to": graph.op_name(source), "both": None}
    assert len(faults) == (2 if missing == "both" else 1)  # one for each end
    for fault in faults:
        assert fault.op == names[missing]
        assert fault.offset == edited.data.index(edge)
        assert f"from layer {start} port 0 to layer {end} port 0" in fault.message


def test_a_port_in_a_comment_is_no_port(fixtures: Path) -> None:
    """Its id goes on where those of the op end, so nothing but the comment tells it apart."""
    document = Document(fixtures / "falcon" / "openvino_model.xml")
    result = document.graph.results[0]
    span = document.graph.span(result)
    layer = document.data[span.start : span.end]
    commented = layer.replace(b"</input>", b'<!--<port id="1" precision="FP32"/>--></input>')
    assert layer.count(b"<port") == 1
    assert commented != layer

    edited = Document(document.path, document.data.replace(layer, commented))

    assert find_faults(iter_graphs(edited.scan)) == ()
    told = Document(document.path, document.data.replace(layer, commented.replace(b"<!--", b"").replace(b"-->", b"")))
    (fault,) = find_faults(iter_graphs(told.scan))
    assert (fault.kind, fault.op) == (FaultKind.UNCONNECTED_INPUT, document.graph.op_name(result))
    assert "input port 1" in fault.message
