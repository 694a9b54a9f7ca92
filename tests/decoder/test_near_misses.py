"""Refusals, evidence and explanations, each with a decoder that just misses it."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as op

from irtools.decoder import locate
from irtools.decoder.causal import looks_causal
from irtools.decoder.head import find_embeddings, find_head
from irtools.errors import LocateRefusedError
from irtools.export import open_export
from irtools.graph.match import Match, Matcher, Mismatch, Pattern, Probe, patterns
from irtools.model.document import Document
from tests.decoder.build import ROWS, WIDTH, Decoder

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


class Widening(Decoder):
    """The stream is doubled after the second of four layers; all later ops have the new width."""

    def __init__(self, *, doubled: bool) -> None:
        super().__init__(4, self.widen)
        self.doubled, self.now = doubled, WIDTH

    def widen(self, stream: ov.Node, layer: int) -> ov.Node:
        if layer != 1 or not self.doubled:
            return stream
        self.now = 2 * WIDTH
        return op.concat([stream, stream], -1)

    def linear(self, value: ov.Node, width: int = WIDTH) -> ov.Node:
        return super().linear(value, self.now if width == WIDTH else width)


def test_each_output_is_listed_once_where_there_are_no_logits(tmp_path: Path) -> None:
    value = op.parameter([1], ov.Type.f32)
    outputs = [op.result(op.relu(value)), op.result(op.exp(value))]
    for place, result in enumerate(outputs):
        result.input_value(0).get_tensor().set_names({f"a{place}", f"b{place}"})
    path = tmp_path / "openvino_model.xml"
    ov.save_model(ov.Model(outputs, [value], "none"), path)
    with pytest.raises(LocateRefusedError, match=r"\(outputs: [ab]0, [ab]1\): this is not a language model"):
        locate(Document(path))


def test_a_stream_that_changes_its_width_is_refused(tmp_path: Path) -> None:
    assert locate(Widening(doubled=False).document(tmp_path)).hidden_size == WIDTH

    with pytest.raises(LocateRefusedError, match=rf"changes its width \({WIDTH}, {2 * WIDTH}\)"):
        locate(Widening(doubled=True).document(tmp_path))


@pytest.mark.parametrize("odd", [None, 0, 2])
def test_the_config_contradicts_the_layers_whose_type_differs_and_no_other(odd: int | None) -> None:
    export = open_export(FIXTURES / "falcon")
    types = ["linear_attention" if layer == odd else "full_attention" for layer in range(4)]

    stack = locate(export.target, {**export.config, "layer_types": types})

    said = [next(verdict for verdict in layer.verdicts if verdict.witness == "config") for layer in stack.layers]
    assert [verdict.agrees for verdict in said] == [layer != odd for layer in range(4)]
    for layer, verdict in enumerate(said):
        looks = " (the graph looks like full_attention)" if layer == odd else ""
        assert verdict.reason == f"layer {layer} of 4, {types[layer]}{looks}"


def test_an_unknown_type_of_the_config_contradicts_nothing() -> None:
    export = open_export(FIXTURES / "falcon")

    stack = locate(export.target, {**export.config, "layer_types": ["something_new"] * 4})

    assert all(verdict.agrees for layer in stack.layers for verdict in layer.verdicts if verdict.witness == "config")


def test_a_sum_of_rank_2_is_explained_by_its_rank() -> None:
    export = open_export(FIXTURES / "opt")
    shapes = {name: len(export.target.graph.output_shape(key)) for name, (key, *_) in export.target.graph.named.items()}

    same = [rejection for rejection in export.locate().rejections if "same numbers" in rejection.reason]

    assert same
    for rejection in same:
        assert shapes[rejection.producer] == 2
        assert rejection.reason.endswith("but has rank 2, not 3")


def test_the_op_that_is_no_part_of_a_head_is_named() -> None:
    document = Document(FIXTURES / "falcon" / "openvino_model.xml")
    head = document.graph.op(open_export(FIXTURES / "falcon").locate().head)
    layer = document.data[head.span.start : head.span.end]
    odd = Document(document.path, document.data.replace(layer, layer.replace(b'type="MatMul"', b'type="Sin"', 1)))

    with pytest.raises(LocateRefusedError, match=re.escape(f"({head.name})")):
        find_head(odd.graph)


class TwoTables(Decoder):
    """A second table with as many rows for the same tokens, of another width."""

    def __init__(self, *, first: bool) -> None:
        super().__init__(3, self.mix)
        self.first = first

    def mix(self, stream: ov.Node, layer: int) -> ov.Node:
        if layer:
            return stream
        assert self.embeddings is not None
        ids = self.embeddings.input_value(1)
        small = op.gather(self.weights(ROWS, 3), ids, op.constant(np.int64(0)))
        small.set_friendly_name("small")
        both = [self.linear(small), stream]
        return op.add(*(both if self.first else both[::-1]))


@pytest.mark.parametrize("first", [True, False])
def test_the_table_of_the_hidden_size_is_the_embedding(first: bool, tmp_path: Path) -> None:
    graph = TwoTables(first=first).document(tmp_path).graph

    best = find_embeddings(graph, find_head(graph))[0][0]

    assert graph.output_shape(best.anchor)[-1] == WIDTH


def test_a_past_value_that_is_concatenated_and_also_read_elsewhere_is_a_state() -> None:
    """The attention reads it twice: joined with new keys, and alone."""
    document = Document(FIXTURES / "zoo" / "llama_stateless" / "openvino_model.xml")
    graph = document.graph
    past = next(key for key in graph.parameters if graph.input_name(key) == "past_key_values.1.key")
    assert "past" not in graph.op_name(past)
    attention = graph.by_type["ScaledDotProductAttention"][1]
    port = graph.op(attention).inputs[3].id
    edge = rb'<edge from-layer="\d+" from-port="\d+" to-layer="%d" to-port="%d"' % (attention, port)
    new = b'<edge from-layer="%d" from-port="%d" to-layer="%d" to-port="%d"' % (
        *(past, graph.op(past).outputs[0].id),
        *(attention, port),
    )
    edited, count = re.subn(edge, new, document.data)
    assert count == 1
    mixed = Document(document.path, edited)

    stack = locate(mixed)

    assert graph.op_name(past) in {state for layer in stack.layers for state in layer.states}


class Recurrence(Decoder):
    """A token mixer that is a loop over positions, whose body multiplies by activations or by weights."""

    def __init__(self, *, weights: bool) -> None:
        super().__init__(1)
        self.by_weights = weights

    def attention(self, value: ov.Node) -> ov.Node:
        state = op.parameter(ov.PartialShape([-1, 1, WIDTH]), np.float32)
        step = op.parameter(ov.PartialShape([-1, 1, WIDTH]), np.float32)
        if self.by_weights:
            product = op.matmul(step, self.weights(WIDTH, WIDTH), False, True)
        else:
            product = op.matmul(op.matmul(step, state, False, True), state, False, False)
        new = op.add(op.multiply(state, op.constant(np.float32(0.5))), product)
        body = ov.Model([op.result(new)], [state, step], "body")
        loop = op.tensor_iterator()
        loop.set_body(body)
        start = op.multiply(op.reduce_mean(value, op.constant(np.array([1])), True), op.constant(np.float32(0)))
        loop.set_sliced_input(step, value.output(0), 0, 1, 1, -1, 1)
        loop.set_merged_input(state, start.output(0), body.results[0].output(0))
        return loop.get_concatenated_slices(body.results[0].output(0), 0, 1, 1, -1, 1).get_node()


@pytest.mark.parametrize("weights", [True, False])
def test_a_loop_that_multiplies_activations_mixes_tokens_and_one_with_weights_does_not(
    weights: bool, tmp_path: Path
) -> None:
    graph = Recurrence(weights=weights).document(tmp_path).graph
    (loop,) = graph.by_type["TensorIterator"]

    match, mismatches = Matcher(graph).at("token_mixer", loop)

    assert (match is None) == weights
    assert weights == any("multiplies by weights" in mismatch.reason for mismatch in mismatches)


@pytest.mark.parametrize(
    ("states", "mixer", "causal"),
    [
        (("past.0.key",), "full_attention", True),  # a cache, whatever the mask
        ((), "linear_attention", True),
        ((), "state_space", True),
        ((), "convolution", True),
        ((), "full_attention", False),
        ((), "sliding_attention", False),
    ],
)
def test_a_state_or_an_order_makes_a_decoder(states: tuple[str, ...], mixer: str, causal: bool, tmp_path: Path) -> None:
    sublayer = SimpleNamespace(states=states, mixer=mixer, mixing_match=None)
    view = Decoder(1).document(tmp_path).graph

    assert looks_causal(view, [sublayer]) is causal
    assert looks_causal(view, [SimpleNamespace(states=(), mixer="none", mixing_match=None), sublayer]) is causal
    assert not looks_causal(view, [])


def test_an_input_that_an_op_does_not_have_has_no_shape(tmp_path: Path) -> None:
    graph = Decoder(1).document(tmp_path).graph
    op_id = graph.by_type["MatMul"][0]
    shapes = []

    def function(probe: Probe, key: int) -> Match | Mismatch:
        shapes.extend(probe.input_shape(key, index) for index in range(4))
        return probe.fail("seen", key)

    function(Probe(graph, (), (), Pattern("norm", "x", (), 1, "", function)), op_id)

    assert [len(shape) for shape in shapes] == [3, 2, 0, 0]


@pytest.mark.parametrize("name", ["llama", "falcon", "gpt2"])
def test_on_a_plain_decoder_all_witnesses_agree(name: str) -> None:
    stack = open_export(FIXTURES / name).locate()

    said = {verdict.witness: verdict.agrees for verdict in stack.verdicts}
    assert said == dict.fromkeys(("walk", "dominators", "names", "state", "config"), True)
    assert all(verdict.agrees for layer in stack.layers for verdict in layer.verdicts)


class Shifted(Decoder):
    """A mask of positions that are compared once, or twice, with a shift by a constant."""

    def __init__(self, *, window: bool) -> None:
        super().__init__()
        self.window = window

    def bias(self, value: ov.Node) -> ov.Node:
        length = op.gather(op.shape_of(value), op.constant(np.int64(1)), op.constant(np.int64(0)))
        position = op.range(op.constant(np.int64(0)), length, op.constant(np.int64(1)), "i64")
        row, column = (op.unsqueeze(position, op.constant(np.array([axis]))) for axis in (1, 0))
        seen = op.less(column, op.add(row, op.constant(np.int64(1))))
        if self.window:
            seen = op.logical_and(seen, op.greater(column, op.subtract(row, op.constant(np.int64(4)))))
        return op.convert(seen, "f32")


@pytest.mark.parametrize(("window", "mixer"), [(False, "full_attention"), (True, "sliding_attention")])
def test_one_shifted_comparison_is_no_window(window: bool, mixer: str, tmp_path: Path) -> None:
    stack = locate(Shifted(window=window).document(tmp_path))

    assert [layer.mixer for layer in stack.layers] == [mixer] * 3


@pytest.mark.parametrize("squared", [True, False])
def test_the_mean_that_a_norm_lacks_is_told(squared: bool, tmp_path: Path) -> None:
    """A value divided by its mean is no norm; divided by the root of the mean of its square, it is one."""
    value = op.parameter(ov.PartialShape([-1, -1, WIDTH]), np.float32, name="x")
    mean = op.reduce_mean(op.power(value, op.constant(np.float32(2))) if squared else value, op.constant([-1]), True)
    mean.set_friendly_name("mean")
    result = op.multiply(value, op.power(mean, op.constant(np.float32(-0.5))))
    path = tmp_path / "openvino_model.xml"
    ov.save_model(ov.Model([op.result(result)], [value], "m"), path, compress_to_fp16=False)
    graph = Document(path).graph
    (wanted,) = (key for key in graph.by_type["Multiply"])

    (rms,) = (pattern for pattern in patterns("norm") if pattern.name == "rms-norm")
    found = rms.function(Probe(graph, (), (), rms), wanted)

    if squared:
        assert isinstance(found, Match)
    else:
        assert isinstance(found, Mismatch)
        assert found.op is not None
        assert (found.reason, graph.op_name(found.op)) == ("the mean above it is not of a square", "x")
