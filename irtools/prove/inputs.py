"""Build the inputs for a call of a language model or an MTP head. Runs in the worker process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

__all__ = ["Embedder", "Feeder", "ModelCall", "UndrivableError"]

_PARTS = {"inputs_embeds": "text_embeddings", "per_layer_inputs": "text_embeddings_per_layer"}
_PAST = ("past_key_values.", "cache_params.past.")  # stricter than `is_past`: other inputs are refused as unknown


class UndrivableError(Exception):
    """The model cannot be run; the message is a clause with the reason."""


class Embedder(Protocol):
    """Source of embeddings: the parts of an export that compute them.

    Attributes
    ----------
    made_up : set of str
        Parts that the export lacks; their outputs are replaced by fixed random numbers.
    """

    made_up: set[str]

    def has(self, part: str) -> bool:
        """True if the export has the part."""

    def embed(self, tokens: Any, part: str = "text_embeddings") -> Any:
        """Embeddings of token ids ``[B, S]``."""


@dataclass(frozen=True)
class ModelCall:
    """One call of a model.

    Attributes
    ----------
    tokens : array of int64
        ``[B, S]``.
    past : int
        Number of tokens in the state.
    beam : sequence of int or None
        For each batch row, the sequence of the state to continue.
    start : int
        Position of the first token.
    given : mapping of str to array
        Inputs by tensor name that replace the default ones.
    """

    tokens: Any
    past: int = 0
    beam: Sequence[int] | None = None
    start: int = 0
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def batch(self) -> int:
        """Number of sequences."""
        return int(self.tokens.shape[0])

    @property
    def length(self) -> int:
        """Number of tokens per sequence."""
        return int(self.tokens.shape[1])


class Feeder:
    """Build the inputs of one model.

    Parameters
    ----------
    embedder : Embedder
    given : collection of str
        Inputs that every call gives, besides ``hidden_states``.

    Raises
    ------
    UndrivableError
        The model has an unknown input.
    """

    def __init__(self, embedder: Embedder, model: Any, given: Collection[str] = ()) -> None:
        self._embedder = embedder
        self._ports = {_name(port): port for port in model.inputs}
        self._kernel = _kernel(model)
        self._builders: dict[str, Callable[[ModelCall, Any], Any]] = {
            "input_ids": lambda call, port: call.tokens,
            "inputs_embeds": self._embeddings,
            "per_layer_inputs": self._embeddings,
            "attention_mask": self._attention_mask,
            "position_ids": _position_ids,
            "cache_position": self._cache_position,
            "beam_idx": _beam_idx,
            "token_type_ids": lambda call, port: np.zeros(call.tokens.shape, np.int64),
            "visual_pos_masks": lambda call, port: np.zeros(call.tokens.shape, np.int64),
            "deepstack_visual_embeds": _no_images,
        }
        for name in self._ports:
            if not name.startswith(_PAST) and name not in (*self._builders, "hidden_states", *given):
                raise UndrivableError(f"the input {name!r} is unknown to irtools")

    def feed(self, call: ModelCall) -> dict[str, Any]:
        """Inputs of a call by tensor name.

        Raises
        ------
        UndrivableError
            A required input is missing, or its shape does not fit the model.
        """
        values = {}
        for name, port in self._ports.items():
            if name in call.given:
                value = call.given[name]
            elif name.startswith(_PAST):
                value = _empty_past(call, port)
            elif name in self._builders:
                value = self._builders[name](call, port)
            else:
                raise UndrivableError(f"the input {name!r} needs a value")
            values[name] = _fitted(name, value, port)
        return values

    def _embeddings(self, call: ModelCall, port: Any) -> Any:
        """Embeddings from the export's part; without it, random numbers that are fixed for each token id."""
        part = _PARTS[_name(port)]
        if self._embedder.has(part):
            return self._embedder.embed(call.tokens, part)
        self._embedder.made_up.add(part)
        sizes = [int(size.get_length()) if size.is_static else 1 for size in list(port.get_partial_shape())[2:]]
        made = {int(token): np.random.default_rng(int(token)).standard_normal(sizes) for token in set(call.tokens.flat)}
        return np.stack([[made[int(token)] for token in row] for row in call.tokens]).astype(np.float32)

    def _attention_mask(self, call: ModelCall, port: Any) -> Any:
        """Ones for past and new tokens; a model with ``cache_position`` multiplies only the new tokens by the mask."""
        past = 0 if "cache_position" in self._ports else call.past
        return np.ones((call.batch, past + call.length), np.int64)

    def _cache_position(self, call: ModelCall, port: Any) -> Any:
        """On prefill, Mamba's ``cache_position`` has the length of the convolution kernel; later, one per token."""
        if call.past == 0:
            return np.arange(self._kernel or call.length, dtype=np.int64)
        return np.arange(call.start, call.start + call.length, dtype=np.int64)


def _kernel(model: Any) -> int:
    """Kernel length of the convolutions over time, from the shape of their state; 0 without convolution state."""
    for op in model.get_ops():
        if op.get_type_name() not in ("ReadValue", "Parameter"):
            continue
        name = op.get_variable_id() if op.get_type_name() == "ReadValue" else op.get_friendly_name()
        shape = op.get_output_partial_shape(0)
        if ".conv." in name and shape.rank.is_static and shape[len(shape) - 1].is_static:
            return int(shape[len(shape) - 1].get_length())
    return 0


def _name(port: Any) -> str:
    names = sorted(port.get_names())
    usual = [name for name in names if name in ("input_ids", "inputs_embeds", "position_ids", "attention_mask")]
    return str((usual or names or [port.get_node().get_friendly_name()])[0])


def _fitted(name: str, value: Any, port: Any) -> Any:
    """Convert a value to the port's element type; refuse a wrong shape."""
    shape = port.get_partial_shape()
    sizes = [int(size.get_length()) if size.is_static else -1 for size in shape] if shape.rank.is_static else None
    fits = sizes is None or (
        len(sizes) == value.ndim and all(size in (-1, there) for size, there in zip(sizes, value.shape, strict=True))
    )
    if not fits:
        raise UndrivableError(f"the input {name!r} has the shape {shape}, but its value the shape {list(value.shape)}")
    return value.astype(port.get_element_type().to_dtype(), copy=False)


def _beam_idx(call: ModelCall, port: Any) -> Any:
    return np.asarray(range(call.batch) if call.beam is None else call.beam, np.int32)


def _position_ids(call: ModelCall, port: Any) -> Any:
    """``[B, S]``, or ``[axes, B, S]`` for a multimodal rotary embedding."""
    positions = np.broadcast_to(np.arange(call.start, call.start + call.length), call.tokens.shape)
    shape = port.get_partial_shape()
    if shape.rank.is_dynamic or len(shape) <= 2:
        return positions[0] if shape.rank.is_static and len(shape) == 1 else positions
    rows = [int(size.get_length()) if size.is_static else 3 for size in list(shape)[:-2]]
    return np.broadcast_to(positions, (*rows, *positions.shape))


def _no_images(call: ModelCall, port: Any) -> Any:
    """Zeros for the layers that add image features. One row each: with no row, the CPU computes NaN."""
    layers = len(port.get_target_inputs())
    return np.zeros((layers, 1, port.get_partial_shape()[2].get_length()), np.float32)


def _empty_past(call: ModelCall, port: Any) -> Any:
    """Past of a stateless model at its first call: no keys and values, zeros for other state."""
    sizes = [int(size.get_length()) if size.is_static else 0 for size in port.get_partial_shape()]
    return np.zeros((call.batch, *sizes[1:]), np.float32)
