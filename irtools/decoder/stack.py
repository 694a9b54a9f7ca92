"""The located decoder stack, its layers and the evidence. Frozen: later stages only read it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from irtools.decoder.stream import Stream
from irtools.decoder.sublayer import Sublayer
from irtools.display import Drawable
from irtools.errors import LocateRefusedError
from irtools.graph.view import Source
from irtools.model.annotation import Locator
from irtools.text import plural, short_repr

__all__ = ["DecoderLayer", "DecoderStack", "Rejection", "Verdict"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of one witness.

    Attributes
    ----------
    witness : str
        ``walk``, ``dominators``, ``names``, ``state`` or ``config``.
    agrees : bool or None
        None if the witness does not apply.
    reason : str
        A sentence without a full stop.
    """

    witness: str
    agrees: bool | None
    reason: str


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """One transformer block.

    Attributes
    ----------
    index : int
        Position in the stack, from 0.
    locator : Locator
        Its hidden state.
    source : Source
        Its hidden state as layer id and output port id of the graph.
    shape : tuple of int
        Shape of the hidden state, -1 for dynamic dimensions.
    sums : tuple of int
        Layer ids of its residual sums, in order.
    mixer : str
        ``full_attention``, ``sliding_attention``, ``linear_attention``, ``convolution``,
        ``state_space``, ``none`` or ``unknown``.
    feed_forward : str
        ``dense``, ``experts`` or ``none``.
    states : tuple of str
        ``variable_id`` of the states it reads, in file order.
    scope : str
        Common scope of its friendly names, ``""`` if they have none.
    ops : frozenset of int
        Layer ids of all ops between its input and its hidden state.
    verdicts : tuple of Verdict
        One per witness.
    obstacle : str
        Reason why the annotation cannot name the hidden state, with the remedy; ``""`` if it can. Other ops have the
        friendly name of its producer.
    """

    index: int
    locator: Locator
    source: Source
    shape: tuple[int, ...]
    sums: tuple[int, ...]
    mixer: str
    feed_forward: str
    states: tuple[str, ...]
    scope: str
    ops: frozenset[int]
    verdicts: tuple[Verdict, ...]
    obstacle: str = ""

    def __repr__(self) -> str:
        producer, index = self.locator.producer, self.locator.output_index
        return short_repr(self, f"layer {self.index}", self.mixer, self.feed_forward, f"{producer} output {index}")


@dataclass(frozen=True, slots=True)
class Rejection:
    """A value that looks like a hidden state and was rejected.

    Attributes
    ----------
    layer : int or None
        The layer whose hidden state it could be.
    """

    producer: str
    layer: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class DecoderStack(Drawable):
    """The decoder stack of one IR.

    Attributes
    ----------
    scope : str
        Common scope of the layers' names (``__module.model.layers``), ``""`` if there is none.
    embedding : int
        Layer id of the Gather or Parameter that the residual stream starts from.
    stream_start : int
        Layer id of the value that enters layer 0.
    head : int
        Layer id of the lm_head, a MatMul.
    head_input : Source
        The value that the lm_head reads: the last layer's hidden state.
    logits : int
        Layer id of the Result.
    logits_tail : tuple of int
        Layer ids between the lm_head and the Result, in order.
    last_sum : int
        Layer id of the last residual sum, before the final norm.
    verdicts : tuple of Verdict
        One per witness, on the whole stack.
    stream : Stream
        The ops between the embeddings and the lm_head; holds the graph.
    sublayers : tuple of Sublayer
        Those of all layers, in order.
    """

    layers: tuple[DecoderLayer, ...]
    hidden_size: int
    scope: str
    embedding: int
    stream_start: int
    head: int
    head_input: Source
    logits: int
    logits_tail: tuple[int, ...]
    last_sum: int
    verdicts: tuple[Verdict, ...]
    stream: Stream = field(compare=False)
    sublayers: tuple[Sublayer, ...] = field(compare=False)
    _explain: Callable[[], tuple[Rejection, ...]] = field(compare=False)  # computes `rejections`; holds the graph

    def __repr__(self) -> str:
        return short_repr(self, plural(len(self.layers), "layer"), f"hidden size {self.hidden_size}", self.scope)

    @property
    def rejections(self) -> tuple[Rejection, ...]:
        """Rejected values that look like a hidden state; computed on access."""
        return self._explain()

    @property
    def locators(self) -> tuple[Locator, ...]:
        """Locators of the hidden states, by layer."""
        return tuple(layer.locator for layer in self.layers)

    @property
    def obstacle(self) -> str:
        """Reason why no annotation can be written, that of the first layer with one; ``""`` if it can be."""
        return next((layer.obstacle for layer in self.layers if layer.obstacle), "")

    def annotation(self) -> str:
        """Value of ``hidden_states_decoder_layers`` as the exporter writes it: JSON without spaces, layers in order.

        Raises
        ------
        LocateRefusedError
            The runtime would not find one of the hidden states by name; the message is the :attr:`obstacle`.
        """
        if self.obstacle:
            raise LocateRefusedError(self.obstacle)
        layers = {
            str(layer.index): {"producer": layer.locator.producer, "output_index": layer.locator.output_index}
            for layer in self.layers
        }
        return json.dumps({"layers": layers}, separators=(",", ":"))
