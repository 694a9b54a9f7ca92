"""Each witness on its own."""

from __future__ import annotations

import networkx as nx
import pytest

from irtools.decoder.dominators import chain, dominating_sums
from irtools.decoder.head import find_embeddings, find_head
from irtools.decoder.names import read_names
from irtools.decoder.stream import Stream
from irtools.decoder.sublayer import find_states, find_sublayers
from irtools.decoder.walk import walk
from irtools.export import open_export
from irtools.model.config import read_config
from tests.decoder.variants import exports_with_truth, read_truth

EXPORTS = exports_with_truth()
SIMPLE = ["falcon", "gpt2", "granite", "llama", "opt", "qwen3", "qwen3_5_vl", "zoo/cohere", "zoo/glm4", "zoo/mamba"]


def stream_of(name):
    view = open_export(EXPORTS[name]).target.graph
    head = find_head(view)
    embeddings, above = find_embeddings(view, head)
    return Stream(view, [match.anchor for match in embeddings], head.input, above)


def carried(stream, sums):
    """Names of all ops that carry the value of a sum."""
    return {stream.view.op_name(op) for residual in sums for op in stream.same_value(residual.op)}


@pytest.mark.parametrize("witness", [walk, dominating_sums])
@pytest.mark.parametrize("name", SIMPLE)
def test_walk_and_dominators_each_see_every_hidden_state_but_the_last(name, witness):
    stream = stream_of(name)
    seen = carried(stream, witness(stream))
    truth = read_truth(EXPORTS[name])
    for layer in range(len(truth) - 1):
        assert {producer for producer, _ in truth[layer]} & seen, f"layer {layer}"


def test_values_that_bypass_layers_disturb_the_dominators_and_not_the_walk():
    stream = stream_of("gemma4_vl")
    truth = read_truth(EXPORTS["gemma4_vl"])
    wanted = {producer for layer in range(5) for producer, _ in truth[layer]}
    assert wanted <= carried(stream, walk(stream))
    assert not wanted & carried(stream, dominating_sums(stream))


def test_every_op_of_the_chain_cuts_the_embeddings_off_from_the_head():
    stream = stream_of("llama")
    graph = nx.DiGraph([(source, op) for op, sources in stream.sources.items() for source in sources])
    (root,) = stream.roots
    passed = chain(stream)
    assert len(passed) > 8  # the embeddings and 8 sums
    for op in set(passed) - {root, stream.end.op}:
        without = graph.subgraph(set(graph) - {op})
        assert not nx.has_path(without, root, stream.end.op)


def test_a_sum_of_three_has_two_branches_and_an_inner_add():
    first = walk(stream_of("zoo/cohere"))[0]
    assert len(first.branches) == 2
    assert len(first.inner) == 1


def test_an_earlier_value_mixed_in_again_ends_no_block():
    stream = stream_of("zoo/hand_x0")
    # 4 layers of attention and MLP; the embeddings are mixed in again before all layers except the first.
    assert len(walk(stream)) == 8


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("falcon", "__module.transformer.h"),
        ("qwen3_5_vl", "__module.model.model.language_model.layers"),
        ("zoo/llama_onnxold", "/m/model/layers"),
        ("zoo/nested_gpt2_digits", None),
        ("zoo/llama_export", ""),
    ],
)
def test_names_give_the_scope_of_the_stack(name, scope):
    stream = stream_of(name)
    scopes = read_names(stream.view, find_sublayers(stream, walk(stream)))
    if scope == "":
        assert scopes is None
    else:
        assert scopes is not None
        assert scope in (None, scopes.scope)
        numbers = [number for number in scopes.layers if number is not None]
        assert numbers == sorted(numbers)
        assert set(numbers) == set(read_truth(EXPORTS[name]))


def test_states_are_found_with_their_names():
    names = [state.name for state in find_states(stream_of("llama"))]
    assert len(names) == 8  # one key and one value in each of 4 layers
    assert all("past_key_values" in name for name in names)


def test_past_values_are_states_when_they_are_inputs_and_other_inputs_are_not():
    names = [state.name for state in find_states(stream_of("zoo/llama_stateless"))]
    assert len(names) == 8
    assert not [state.name for state in find_states(stream_of("gemma4_vl")) if "per_layer" in state.name]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, (None, None)),
        ({"num_hidden_layers": 4, "hidden_size": 32}, (4, 32)),
        ({"n_layer": 12, "n_embd": 768}, (12, 768)),
        ({"text_config": {"num_hidden_layers": 6, "hidden_size": 8}, "hidden_size": 99}, (6, 8)),
        ({"thinker_config": {"text_config": {"num_hidden_layers": 3}}}, (3, None)),
        ({"vision_config": {"num_hidden_layers": 27}, "llm_config": {"n_layers": 2, "d_model": 4}}, (2, 4)),
        ({"layers_block_type": ["mamba", "moe", "attention"], "hidden_size": 2}, (3, 2)),
        ({"num_hidden_layers": "four", "hidden_size": True}, (None, None)),
    ],
)
def test_the_config_is_read_nested_or_not(config, expected):
    text = read_config(config)
    assert (text.num_layers, text.hidden_size) == expected
