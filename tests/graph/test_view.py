"""The NetworkX view describes the same graph as OpenVINO."""

from __future__ import annotations

import copy
import pickle

import networkx as nx
import openvino as ov
import pytest
from openvino import opset13 as op

from irtools.errors import InvalidIRError
from irtools.export import open_export
from irtools.graph.view import GraphView
from irtools.ir.scan import scan_ir
from irtools.model.document import Document

FILE_TYPES = {"Constant": "Const", "Softmax": "SoftMax"}
NAMES = ["falcon", "gpt2", "qwen3_5_vl", "qwen3_5_moe_vl", "qwen3_5_vl_int4", "gemma4_vl"]


@pytest.fixture(scope="module", params=NAMES)
def both(request, fixtures):
    document = open_export(fixtures / request.param).target
    return document.graph, ov.Core().read_model(document.path)


def test_every_op_has_the_type_ports_and_shapes_that_openvino_gives_it(both):
    graph, model = both
    ours = {graph.op_name(key): graph.op(key) for key in graph.scan.ids}
    theirs = list(model.get_ops())
    assert len(theirs) == len(ours)  # the exporter drops unused ops
    for node in theirs:
        mine = ours[node.get_friendly_name()]
        assert mine.type == FILE_TYPES.get(node.get_type_name(), node.get_type_name())
        outputs = [] if mine.type == "Result" else node.outputs()  # in the file, a Result has no outputs
        for port, output in zip(mine.outputs, outputs, strict=True):
            shape = output.get_partial_shape()
            assert port.element_type == output.get_element_type().get_type_name()
            assert list(port.shape) == [-1 if size.is_dynamic else size.get_length() for size in shape]
            assert set(port.names) == output.get_names()


def test_every_input_comes_from_the_op_and_output_that_openvino_names(both):
    graph, model = both
    keys = {graph.op_name(key): key for key in graph.scan.ids}
    for node in model.get_ops():
        sources = graph.inputs(keys[node.get_friendly_name()])
        theirs = [port.get_source_output() for port in node.inputs()]
        assert [(graph.op_name(source.op), graph.output_index(source)) for source in sources] == [
            (output.get_node().get_friendly_name(), output.get_index()) for output in theirs
        ]


def test_inputs_and_outputs_are_in_the_order_of_the_model(both):
    graph, model = both
    assert [graph.op_name(key) for key in graph.parameters] == [
        port.get_node().get_friendly_name() for port in model.inputs
    ]
    assert [set(graph.result_names(key)) for key in graph.results] == [port.get_names() for port in model.outputs]


def test_the_view_has_ops_that_depend_on_an_input_and_the_copy_has_all_ops(both):
    graph, model = both
    whole = graph.to_networkx()
    assert isinstance(graph, nx.DiGraph)
    assert len(whole) == len(list(model.get_ops()))
    assert set(whole) - set(graph) == graph.constants
    assert whole.number_of_edges() == sum(len(node.inputs()) for node in model.get_ops())
    ancestors = {key for key in whole if not nx.ancestors(whole, key) and whole.nodes[key]["type"] == "Const"}
    assert ancestors <= graph.constants
    assert all(
        whole.nodes[key]["type"] not in ("Parameter", "ReadValue", "Result", "Assign") for key in graph.constants
    )


def test_an_edge_of_the_copy_has_the_type_and_shape_of_its_value(both):
    graph, model = both
    names = dict(zip(graph.scan.ids, graph.scan.names, strict=True))
    theirs = {}
    for node in model.get_ops():
        for port in node.inputs():
            output = port.get_source_output()
            sizes = [-1 if size.is_dynamic else size.get_length() for size in output.get_partial_shape()]
            at = (output.get_node().get_friendly_name(), node.get_friendly_name(), port.get_index())
            theirs[at] = (output.get_index(), output.get_element_type().get_type_name(), sizes)
    ours = {
        (names[source], names[target], edge["input_index"]): (
            edge["output_index"],
            edge["element_type"],
            list(edge["shape"]),
        )
        for source, target, edge in graph.to_networkx().edges(data=True)
    }
    assert ours == theirs


def test_topological_order_puts_every_op_after_its_inputs(both):
    graph, _ = both
    assert all(graph.rank[source] < graph.rank[key] for key in graph.scan.ids for source in graph.producers(key))


def test_consumers_are_the_inverse_of_inputs(both):
    graph, _ = both
    wired = {(source, key, index) for key in graph.scan.ids for index, source in enumerate(graph.producers(key))}
    assert {(key, user.op, user.input) for key in graph.scan.ids for user in graph.consumers(key)} == wired


def test_bodies_of_loops_are_graphs_of_their_own(fixtures):
    document = open_export(fixtures / "qwen3_5_vl").target
    graph, model = document.graph, ov.Core().read_model(document.path)
    loops = {node.get_friendly_name(): node for node in model.get_ops() if node.get_type_name() == "Loop"}
    assert loops
    for key in graph.by_type["Loop"]:
        (body,) = graph.bodies(key).values()
        inner = loops[graph.op_name(key)].get_function()
        assert len(body.scan.ids) == len(list(inner.get_ops()))


def test_the_view_survives_copying_and_pickling(fixtures):
    graph = open_export(fixtures / "falcon").target.graph
    again = pickle.loads(pickle.dumps(graph))
    assert nx.utils.graphs_equal(graph, again)
    assert nx.utils.graphs_equal(graph, copy.deepcopy(graph))


def test_duplicate_ids_and_cycles_are_refused(fixtures, tmp_path):
    data = open_export(fixtures / "falcon").target.data
    with pytest.raises(InvalidIRError, match="the id 0"):
        GraphView(scan_ir(data.replace(b'<layer id="1" ', b'<layer id="0" ', 1)))
    parameter = op.parameter([1], name="p")
    sigmoid = op.sigmoid(op.relu(parameter))
    ov.save_model(ov.Model([op.result(sigmoid)], [parameter]), tmp_path / "model.xml")
    text = (tmp_path / "model.xml").read_bytes()
    # relu reads the sigmoid instead of the parameter
    cyclic = text.replace(b'from-layer="0" from-port="0" to-layer="1"', b'from-layer="2" from-port="1" to-layer="1"')
    assert cyclic != text
    with pytest.raises(InvalidIRError, match="cycle"):
        _ = GraphView(scan_ir(cyclic)).topological


def test_a_document_in_memory_is_not_read_again(tmp_path, fixtures):
    data = open_export(fixtures / "falcon").target.data
    document = Document(tmp_path / "nowhere.xml", data)
    assert len(document.graph) == len(open_export(fixtures / "falcon").target.graph)
