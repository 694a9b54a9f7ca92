"""One oddity in the residual stream at a time."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from openvino import opset13 as op

from irtools.decoder import locate
from irtools.errors import InvalidIRError, LocateRefusedError
from irtools.model.annotation import Locator
from irtools.model.document import Document
from irtools.surgery.annotate import SameValue
from tests.decoder.build import WIDTH, Decoder
from tests.decoder.variants import rename


def located(document):
    return [layer.locator.producer for layer in locate(document).layers]


def test_the_plain_decoder_is_located(tmp_path):
    decoder = Decoder()
    assert located(decoder.document(tmp_path)) == [*decoder.sums[:-1], "final"]


def split_and_join(stream, layer):
    """Split the width into halves and join them: the intermediate [?, ?, 4] is not a hidden state."""
    half = op.reshape(stream, op.constant(np.array([0, -1, WIDTH // 2])), True)
    half.set_friendly_name(f"half_{layer}")
    return op.reshape(half, op.constant(np.array([0, -1, WIDTH])), True)


def test_a_reshape_to_another_width_is_not_the_hidden_state(tmp_path):
    decoder = Decoder(after=split_and_join)
    document = decoder.document(tmp_path)
    stack = locate(document)
    assert [layer.shape[-1] for layer in stack.layers] == [WIDTH] * 3
    assert stack.hidden_size == WIDTH
    same = SameValue(document.graph, stack)
    assert same(0, Locator("sum_0"))
    assert not same(0, Locator("half_0"))


def test_a_duplicate_name_is_not_resolved_by_a_reshape_to_another_width(tmp_path):
    data = Decoder(after=split_and_join).document(tmp_path).data
    document = Document(tmp_path / "m.xml", rename(rename(data, "sum_1", "sum_0"), "sum_2", "sum_0"))
    stack = locate(document)  # the reshape back to the full width has a name of its own
    assert {layer.shape[-1] for layer in stack.layers} == {WIDTH}
    assert not {layer.locator.producer for layer in stack.layers} & {"sum_0", "half_0", "half_1"}


@pytest.mark.parametrize("layers", [4, 200])
def test_the_embeddings_mixed_into_every_layer_of_a_deep_model(tmp_path, layers):
    decoder = Decoder(layers)
    decoder.after = lambda stream, layer: op.add(
        op.multiply(stream, op.constant(np.float32(0.9))), op.multiply(decoder.embeddings, op.constant(np.float32(0.1)))
    )
    # Only a name could tell if the mix ends a layer or begins the next. The depth does not matter.
    with pytest.raises(LocateRefusedError, match="earlier value mixed in"):
        locate(decoder.document(tmp_path))


@pytest.mark.parametrize("when", [[1], [0, 1, 2]])
def test_layers_that_a_projected_value_hides_are_not_passed_over(tmp_path, when):
    decoder = Decoder()
    decoder.after = lambda stream, layer: (
        op.add(stream, decoder.linear(decoder.embeddings)) if layer in when else stream
    )
    with pytest.raises(LocateRefusedError, match=r"mixes tokens outside the residual blocks|no residual stream"):
        locate(decoder.document(tmp_path))


def test_the_output_that_the_stream_goes_on_from_is_named(tmp_path):
    """The sum is output 1 of a split; output 0 is another value of the same shape."""

    def behind_another(stream, layer):
        other = op.multiply(stream, op.constant(np.float32(0)))
        split = op.variadic_split(op.concat([other, stream], 2), op.constant(np.int64(2)), op.constant([WIDTH, WIDTH]))
        split.set_friendly_name(f"split_{layer}")
        return split.output(1)

    layers = locate(Decoder(after=behind_another).document(tmp_path)).layers
    assert [layer.locator for layer in layers] == [Locator("split_0", 1), Locator("split_1", 1), Locator("final", 0)]


@pytest.mark.parametrize("quantised", ["stream", "both"])
def test_activation_quantisation_in_the_stream_hides_nothing(tmp_path, quantised):
    decoder = Decoder()
    decoder.quantised = quantised
    assert len(located(decoder.document(tmp_path))) == 3


def test_a_stream_that_goes_on_scaled_is_taken_where_it_arrives(tmp_path):
    def scaled(stream, layer):
        value = op.multiply(stream, op.constant(np.float32(0.5)))
        value.set_friendly_name(f"scaled_{layer}")
        return value

    assert located(Decoder(after=scaled).document(tmp_path)) == ["scaled_0", "scaled_1", "final"]


@pytest.mark.parametrize("mask", ["none", "relative"])
def test_attention_that_sees_later_tokens_is_an_encoder(tmp_path, mask):
    """A table of relative positions may be square, but it hides no token."""
    with pytest.raises(LocateRefusedError, match="this is an encoder"):
        locate(Decoder(mask=mask).document(tmp_path))


def test_an_op_without_outputs_is_met_with_a_sentence(tmp_path):
    data = Decoder().document(tmp_path).data
    start = data.index(b'name="sum_1"')
    end = data.index(b"</layer>", start)
    output = data.index(b"<output>", start)
    broken = data[:output] + data[data.index(b"</output>", start) + len(b"</output>") : end] + data[end:]
    with pytest.raises((InvalidIRError, LocateRefusedError), match="sum_1") as caught:
        locate(Document(tmp_path / "broken.xml", broken))
    assert "\n" not in str(caught.value)


def test_a_stack_survives_pickling(tmp_path):
    stack = locate(Decoder().document(tmp_path))
    again = pickle.loads(pickle.dumps(stack))
    assert again == stack
    assert again.rejections == stack.rejections
