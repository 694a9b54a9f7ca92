"""What locating a decoder stack yields. Frozen: later stages only read it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from irtools.display import Drawable
from irtools.graph.view import Source
from irtools.model.annotation import Locator

__all__ = ["DecoderLayer", "DecoderStack", "Rejection", "Verdict"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one witness says.

    Attributes
    ----------
    witness : str
        ``walk``, ``dominators``, ``names``, ``state`` or ``config``.
    agrees : bool or None
        None when it has nothing to say.
    reason : str
        Why, as a sentence without full stop.
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
        The same as layer id and output port id of the graph.
    shape : tuple of int
        Of the hidden state, -1 for dynamic dimensions.
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
        Common scope of its friendly names, ``""`` when they have none.
    ops : frozenset of int
        Layer ids of everything computed between its input and its hidden state.
    verdicts : tuple of Verdict
        One per witness.
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
    ops: frozenset[int] = field(repr=False)
    verdicts: tuple[Verdict, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Rejection:
    """A value that was considered and not taken.

    Attributes
    ----------
    producer : str
    layer : int or None
        The layer it competed for, if one.
    reason : str
    """

    producer: str
    layer: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class DecoderStack(Drawable):
    """The decoder stack of one IR.

    Attributes
    ----------
    layers : tuple of DecoderLayer
    hidden_size : int
    scope : str
        Common scope of the layers' names (``__module.model.layers``), ``""`` without one.
    embedding : int
        Layer id of the Gather or Parameter that the residual stream starts from.
    stream_start : int
        Layer id of the value that enters layer 0.
    head : int
        Layer id of the head's MatMul.
    head_input : Source
        The value that the head reads: the last layer's hidden state.
    logits : int
        Layer id of the Result.
    logits_tail : tuple of int
        Layer ids from the head (excluded) to the Result (excluded), in order.
    last_sum : int
        Layer id of the last residual sum, before the final norm.
    verdicts : tuple of Verdict
        Of every witness on the stack as a whole.
    explain : callable
        Works out ``rejections``; it keeps the graph.
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
    explain: Callable[[], tuple[Rejection, ...]] = field(repr=False, compare=False)

    @property
    def rejections(self) -> tuple[Rejection, ...]:
        """Why each value that looks like a hidden state was not taken; worked out when asked for."""
        return self.explain()

    @property
    def locators(self) -> tuple[Locator, ...]:
        """The hidden states by layer."""
        return tuple(layer.locator for layer in self.layers)

    def annotation(self) -> str:
        """Value of ``hidden_states_decoder_layers``, as the exporter writes it.

        Returns
        -------
        str
            JSON without spaces, layers in order.
        """
        layers = {
            str(layer.index): {"producer": layer.locator.producer, "output_index": layer.locator.output_index}
            for layer in self.layers
        }
        return json.dumps({"layers": layers}, separators=(",", ":"))
