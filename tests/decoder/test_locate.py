"""The decoder stack is located exactly, independent of names and exporters."""

from __future__ import annotations

import pytest

from irtools.decoder import locate
from irtools.errors import LocateRefusedError
from irtools.export import open_export
from irtools.model.document import Document
from tests.decoder.variants import FIXTURES, VARIANTS, ZOO, exports_with_truth, read_truth, rename
from tests.marks import mostly_slow

EXPORTS = exports_with_truth()

REFUSED = {
    # The graph can be read in two ways, and the evidence that decides is missing.
    "zoo/bart_causal": {"meaningless names", "neither"},
    "zoo/hand_macaron": {"meaningless names", "neither"},
    "zoo/hand_mlp3att": {"neither"},
    "zoo/hand_x0": {"meaningless names", "neither"},
    "zoo/hand_unet": {"meaningless names", "neither"},
    # No single hidden state per layer, or two stacks.
    "zoo/gemma3n_text": set(VARIANTS),
    "zoo/two_stacks": set(VARIANTS),
}
# Without names and config these blocks are those of a plain decoder with half as many layers.
AMBIGUOUS = {"zoo/hand_alternate_noconfig"}


CASES = [(name, variant) for variant in VARIANTS for name in sorted(set(EXPORTS) - AMBIGUOUS)]
ALWAYS = {"as exported", "neither"}


@pytest.mark.parametrize(
    ("name", "variant"),
    mostly_slow(CASES, fast=15, each=lambda case: case if case[1] in ALWAYS else case[1], names=2),
)
def test_every_hidden_state_is_where_the_truth_file_says(name, variant):
    made = VARIANTS[variant](EXPORTS[name])
    if variant in REFUSED.get(name, ()):
        with pytest.raises(LocateRefusedError):
            locate(made.document, made.config)
        return
    stack = locate(made.document, made.config)
    truth = read_truth(EXPORTS[name])
    assert [layer.index for layer in stack.layers] == sorted(truth)
    for layer in stack.layers:
        located = (made.producer(layer.locator.producer), layer.locator.output_index)
        assert located in truth[layer.index], f"layer {layer.index}"


def test_an_ambiguous_stack_is_refused_while_names_and_structure_disagree():
    export = open_export(EXPORTS["zoo/hand_alternate_noconfig"])
    with pytest.raises(LocateRefusedError, match="contradict each other"):
        locate(export.target, export.config)


@pytest.mark.parametrize(
    ("name", "file", "reason"),
    [
        ("bert", "openvino_model.xml", "no output is named 'logits'"),
        ("zoo/bert_mlm", "openvino_model.xml", "this is an encoder"),
        ("zoo/bert_tokenclass", "openvino_model.xml", "this is an encoder"),
        ("zoo/deberta_mlm", "openvino_model.xml", "this is an encoder"),
        ("zoo/t5", "openvino_decoder_model.xml", "cross-attention"),
        ("zoo/whisper", "openvino_decoder_model.xml", "cross-attention"),
        ("zoo/vit_classify", "openvino_model.xml", "without a token embedding"),
        ("zoo/llama_classify", "openvino_model.xml", "a classifier, not a language model"),
        ("zoo/llama_feature", "openvino_model.xml", "no output is named 'logits'"),
        ("zoo/wav2vec2_ctc", "openvino_model.xml", "without a token embedding"),
        ("zoo/two_stacks", "openvino_model.xml", "there are two decoder stacks"),
        ("zoo/gemma3n_text", "openvino_model.xml", "several parallel streams"),
        ("qwen3_5_vl", "openvino_mtp_model.xml", "no output is named 'logits'"),
        ("llava", "openvino_vision_embeddings_model.xml", "no output is named 'logits'"),
    ],
)
def test_what_is_no_decoder_is_refused_in_one_sentence(name, file, reason):
    with pytest.raises(LocateRefusedError, match=reason) as caught:
        locate(Document(FIXTURES / name / file))
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("qwen3_5_vl", "linear+dense linear+dense linear+dense full+dense"),
        ("qwen3_5_moe_vl", "linear+experts linear+experts linear+experts full+experts"),
        ("gemma4_vl", "sliding+dense sliding+dense full+dense sliding+dense sliding+dense full+dense"),
        ("mixtral", "full+experts " * 4),
        ("falcon", "full+dense " * 4),
        ("zoo/falcon_export", "full+dense " * 4),
        ("zoo/cohere2", "sliding+dense sliding+dense sliding+dense full+dense"),
        ("zoo/gemma2_onnxold", "sliding+dense full+dense sliding+dense full+dense"),
        ("zoo/gpt_oss", "sliding+experts full+experts sliding+experts full+experts"),
        ("zoo/granitemoehybrid", "space+experts space+experts full+experts space+experts"),
        ("zoo/lfm2_moe", "conv+dense conv+dense full+experts conv+experts"),
        ("zoo/mamba", "space+none " * 4),
        ("zoo/falcon_mamba", "space+none " * 4),
        ("zoo/qwen3_next", "linear+experts linear+experts linear+experts full+experts"),
        ("zoo/xglm", "full+dense " * 4),
    ],
)
def test_token_mixers_and_feed_forward_blocks_are_those_of_the_config(name, kinds):
    """The expected kinds come from each model's ``layer_types`` and MoE settings."""
    words = {
        "full": "full_attention",
        "sliding": "sliding_attention",
        "linear": "linear_attention",
        "space": "state_space",
        "conv": "convolution",
    }
    expected = [(words[mixer], block) for mixer, block in (kind.split("+") for kind in kinds.split())]
    stack = open_export(FIXTURES / name).locate()
    assert [(layer.mixer, layer.feed_forward) for layer in stack.layers] == expected


def test_states_belong_to_the_layer_that_reads_them():
    stack = open_export(FIXTURES / "qwen3_5_vl").locate()
    assert [len(layer.states) for layer in stack.layers] == [2, 2, 2, 2]
    assert all("conv" in layer.states[0] or "ssm" in layer.states[0] for layer in stack.layers[:3])
    assert sorted("key" in name for name in stack.layers[3].states) == [False, True]


def test_layers_that_share_keys_own_no_state():
    stack = open_export(FIXTURES / "gemma4_vl").locate()
    assert [len(layer.states) for layer in stack.layers] == [2, 2, 2, 2, 0, 0]


@pytest.mark.parametrize("name", ["falcon", "gemma4_vl", "zoo/cohere", "opt", "zoo/qwen3_vl"])
def test_the_ends_of_the_stream_are_found(name):
    export = open_export(FIXTURES / name)
    graph, stack = export.target.graph, export.locate()
    assert graph.op_type(stack.head) == "MatMul"
    assert graph.op_type(stack.logits) == "Result"
    embedding = graph.op(stack.embedding)
    assert embedding.type == "Gather" or "inputs_embeds" in embedding.outputs[0].names
    assert stack.layers[-1].source.op in {stack.head_input.op, *graph.producers(stack.head_input.op)}


def test_each_witness_gives_a_reason():
    stack = open_export(FIXTURES / "gemma4_vl").locate()
    verdicts = {verdict.witness: verdict for verdict in stack.verdicts}
    assert set(verdicts) == {"walk", "dominators", "names", "state", "config"}
    assert verdicts["walk"].agrees is True
    assert verdicts["dominators"].agrees is None  # values bypass the layers
    assert all(verdict.reason for layer in stack.layers for verdict in layer.verdicts)


def test_a_config_that_contradicts_the_graph_is_outvoted_and_reported():
    export = open_export(FIXTURES / "falcon")
    stack = locate(export.target, {**export.config, "num_hidden_layers": 7})
    assert len(stack.layers) == 4
    verdicts = {verdict.witness: verdict for verdict in stack.verdicts}
    assert verdicts["config"].agrees is False
    assert "7" in verdicts["config"].reason


def test_a_config_that_was_changed_since_is_another():
    export = open_export(FIXTURES / "falcon")
    config = {**export.config}
    assert {verdict.witness: verdict.agrees for verdict in locate(export.target, config).verdicts}["config"]
    config["num_hidden_layers"] = 7
    assert not {verdict.witness: verdict.agrees for verdict in locate(export.target, config).verdicts}["config"]


def test_rejections_give_the_reason_why_a_mid_layer_sum_is_not_a_hidden_state():
    stack = open_export(FIXTURES / "llama").locate()
    rejections = {rejection.producer: rejection for rejection in stack.rejections}
    inside = rejections["__module.model.layers.1/aten::add/Add"]
    assert inside.layer == 1
    assert "mixes no tokens" in inside.reason
    assert "before the final norm" in rejections["__module.model.layers.3/aten::add/Add_1"].reason
    assert not {layer.locator.producer for layer in stack.layers} & rejections.keys()


class TestDuplicateNames:
    """The runtime requires that exactly one live top-level op has the producer's name."""

    def test_a_duplicate_producer_is_located_and_the_annotation_is_refused(self):
        export = open_export(FIXTURES / "falcon")
        wanted = export.locate().layers[1].locator.producer
        other = export.target.graph.op_name(export.locate().embedding)
        document = Document(export.target.path, rename(export.target.data, other, wanted))
        stack = locate(document, export.config)
        assert stack.locators == export.locate().locators
        assert [bool(layer.obstacle) for layer in stack.layers] == [False, True, False, False]
        with pytest.raises(LocateRefusedError, match="2 ops have that name") as caught:
            stack.annotation()
        assert wanted in str(caught.value)

    def test_an_equal_valued_neighbour_with_a_unique_name_is_taken(self):
        export = open_export(FIXTURES / "gpt2")
        last = export.locate().layers[-1].locator.producer
        neighbours = {name for name, _ in read_truth(export.directory)[3]} - {last}
        assert neighbours, "gpt2 has two ops that carry the last hidden state"
        other = export.target.graph.op_name(export.locate().embedding)
        document = Document(export.target.path, rename(export.target.data, other, last))
        assert locate(document, export.config).layers[-1].locator.producer in neighbours


def test_zoo_is_unpacked():
    assert len(list(ZOO.iterdir())) > 50
