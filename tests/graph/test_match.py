"""Patterns match the graphs that they describe and give a reason for all others."""

from __future__ import annotations

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as op

from irtools.graph.match import ROLES, Match, Matcher, Mismatch, pattern, patterns
from irtools.model.document import Document

WIDTH = 8


@pytest.fixture
def view(tmp_path):
    def build(*outputs, inputs):
        ov.save_model(ov.Model([op.result(out) for out in outputs], inputs), tmp_path / "m.xml", compress_to_fp16=False)
        return Document(tmp_path / "m.xml").graph

    return build


def stream_input(name="inputs_embeds", kind=np.float32, shape=(-1, -1, WIDTH)):
    parameter = op.parameter(ov.PartialShape(list(shape)), kind, name=name)
    parameter.output(0).get_tensor().set_names({name})
    return parameter


def weights(*shape):
    return op.constant(np.ones(shape, np.float32))


def matches(view, role, kind):
    return [result for result in tries(view, role, kind) if isinstance(result, Match)]


def tries(view, role, kind):
    results = []
    for key in view.by_type.get(kind, ()):
        match, misses = Matcher(view).at(role, key)
        results += [*misses, *([match] if match else [])]
    return results


def reasons(view, role, kind):
    return [result.reason for result in tries(view, role, kind) if isinstance(result, Mismatch)]


def test_every_role_has_a_pattern_with_an_explanation():
    for role in ROLES:
        assert patterns(role)
        assert all(entry.explanation for entry in patterns(role))


def test_an_unknown_role_is_refused():
    with pytest.raises(ValueError, match="role"):
        pattern("token_mixxer", "x")


class TestAttention:
    def attention(self, x, key=None, key_weights=None):
        query, value = (
            op.matmul(x, weights(WIDTH, WIDTH), False, True),
            op.matmul(x, weights(WIDTH, WIDTH), False, True),
        )
        key = key_weights if key_weights is not None else key if key is not None else op.relu(x)
        scores = op.multiply(op.matmul(query, key, False, True), weights(1))
        return op.matmul(op.softmax(scores, -1), value, False, False)

    def test_softmax_between_two_products_of_activations_is_attention(self, view):
        x = stream_input()
        (match,) = matches(view(self.attention(x), inputs=[x]), "token_mixer", "SoftMax")
        assert match.kind == "full_attention"

    def test_a_routing_softmax_is_not(self, view):
        x = stream_input()
        routed = op.multiply(op.softmax(op.matmul(x, weights(4, WIDTH), False, True), -1), weights(1))
        graph = view(routed, inputs=[x])
        assert not matches(graph, "token_mixer", "SoftMax")
        assert any("is a router" in reason for reason in reasons(graph, "token_mixer", "SoftMax"))

    def test_a_mismatch_names_the_op_that_did_not_fit(self, view):
        x = stream_input()
        graph = view(op.softmax(op.matmul(x, weights(4, WIDTH), False, True), -1), inputs=[x])
        (miss,) = [result for result in tries(graph, "token_mixer", "SoftMax") if not result]
        assert graph.op_type(miss.op) == "MatMul"


class TestEmbedding:
    def ids(self, name="input_ids"):
        return stream_input(name, np.int64, (-1, -1))

    def test_rows_gathered_by_token_ids(self, view):
        ids = self.ids()
        graph = view(op.gather(weights(16, WIDTH), op.convert(ids, "i32"), op.constant(0)), inputs=[ids])
        (match,) = matches(graph, "embedding", "Gather")
        assert graph.op_name(match.ops["ids"]) == "input_ids"

    def test_rows_gathered_by_computed_positions_are_not_tokens(self, view):
        ids = self.ids()
        positions = op.cum_sum(ids, op.constant(1))
        graph = view(op.gather(weights(16, WIDTH), positions, op.constant(0)), inputs=[ids])
        assert any("CumSum" in reason for reason in reasons(graph, "embedding", "Gather"))

    def test_an_input_of_rank_three(self, view):
        x = stream_input()
        assert matches(view(op.relu(x), inputs=[x]), "embedding", "Parameter")


class TestLogitsTail:
    def head(self, x):
        return op.matmul(x, weights(16, WIDTH), False, True)

    @pytest.mark.parametrize(
        ("tail", "length"),
        [
            (lambda y: y, 0),
            (lambda y: op.add(y, weights(16)), 1),
            (lambda y: op.divide(y, weights(1)), 1),
            (lambda y: op.multiply(op.tanh(op.divide(y, weights(1))), weights(1)), 3),
            (lambda y: op.convert(op.reshape(y, op.constant([0, 0, 16]), True), "f16"), 2),
        ],
    )
    def test_elementwise_ops_over_one_product(self, view, tail, length):
        x = stream_input()
        (match,) = matches(view(tail(self.head(x)), inputs=[x]), "logits_tail", "Result")
        assert len(match.tail) == length

    def test_a_sum_of_two_heads_is_not_a_head(self, view):
        x, y = stream_input(), stream_input("other")
        graph = view(op.add(self.head(x), self.head(y)), inputs=[x, y])
        assert any("joins 2 values" in reason for reason in reasons(graph, "logits_tail", "Result"))

    def test_a_product_of_activations_is_not_a_head(self, view):
        x = stream_input()
        graph = view(op.matmul(x, op.relu(x), False, True), inputs=[x])
        assert any("two activations" in reason for reason in reasons(graph, "logits_tail", "Result"))


class TestNorm:
    def test_root_mean_square(self, view):
        x = stream_input()
        mean = op.reduce_mean(op.power(x, op.constant(np.float32(2))), op.constant([-1]), True)
        normed = op.multiply(
            x, op.divide(op.constant(np.float32(1)), op.sqrt(op.add(mean, op.constant(np.float32(1e-6)))))
        )
        assert [match.kind for match in matches(view(normed, inputs=[x]), "norm", "Multiply")] == ["rms_norm"]

    def test_a_gate_is_not_a_norm(self, view):
        x = stream_input()
        assert not matches(view(op.multiply(x, op.sigmoid(x)), inputs=[x]), "norm", "Multiply")


class TestFusion:
    @pytest.mark.parametrize(("order", "kind"), [((0, 1), "embeddings_first"), ((1, 0), "hidden_first")])
    def test_the_kind_gives_the_order_of_the_two_halves(self, view, order, kind):
        halves = [stream_input("inputs_embeds"), stream_input("hidden_states")]
        normed = [op.mvn(half, op.constant([-1]), True, 1e-6, "inside_sqrt") for half in halves]
        joined = op.concat([normed[index] for index in order], -1)
        graph = view(op.matmul(joined, weights(WIDTH, 2 * WIDTH), False, True), inputs=halves)
        assert [match.kind for match in matches(graph, "mtp_fusion", "Concat")] == [kind]

    def test_every_real_head_has_exactly_one(self, fixtures):
        for name in ("qwen3_5_vl", "qwen3_5_moe_vl", "qwen3_5_vl_int4", "qwen3_5_vl_trained"):
            graph = Document(fixtures / name / "openvino_mtp_model.xml").graph
            assert [match.kind for match in matches(graph, "mtp_fusion", "Concat")] == ["embeddings_first"], name
