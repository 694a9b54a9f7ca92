"""Build the inputs of a language model or an MTP head for a call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["Call", "Embedder", "Feeder", "UndrivableError"]

_PARTS = {"inputs_embeds": "text_embeddings", "per_layer_inputs": "text_embeddings_per_layer"}
_PAST = ("past_key_values.", "cache_params.past.")


class UndrivableError(Exception):
    """The model cannot be driven by what irtools knows; the message says why, as a clause."""


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
class Call:
    """One call of a model.

    Attributes
    ----------
    tokens : array of int64
        ``[B, S]``.
    past : int
        Tokens that the state holds.
    beam : sequence of int or None
        Which sequence of the state each of the batch continues.
    start : int
        Position of the first token.
    given : mapping of str to array
        Inputs by tensor name, instead of what would be built.
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
        """Number of tokens of each."""
        return int(self.tokens.shape[1])


class Feeder:
    """Builds the inputs of one model.

    Parameters
    ----------
    embedder : Embedder
    model : openvino.Model
    given : collection of str
        Inputs that every call gives, besides ``hidden_states``.

    Raises
    ------
    UndrivableError
        It has an input whose role is not known.
    """

    def __init__(self, embedder: Embedder, model: Any, given: Collection[str] = ()) -> None:
        self._embedder = embedder
        self._given = {"hidden_states", *given}
        self._ports = {name: port for port in model.inputs for name in [_name(port)]}
        self._kernel = _kernel(model)
        self._builders: dict[str, Callable[[Call, Any], Any]] = {
            "input_ids": lambda call, port: call.tokens,
            "inputs_embeds": self._embeddings,
            "per_layer_inputs": self._embeddings,
            "attention_mask": self._attention_mask,
            "position_ids": _position_ids,
            "cache_position": self._cache_position,
            "beam_idx": _beam_idx,
            "token_type_ids": lambda call, port: _zeros(call.tokens.shape),
            "visual_pos_masks": lambda call, port: _zeros(call.tokens.shape),
            "deepstack_visual_embeds": _no_images,
        }
        self._require()

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs, in the model's order."""
        return tuple(self._ports)

    def _require(self) -> None:
        for name in self._ports:
            if name not in self._builders and not name.startswith(_PAST) and name not in self._given:
                raise UndrivableError(f"nothing is known to feed the input {name!r} with")

    def feed(self, call: Call) -> dict[str, Any]:
        """The inputs of a call by tensor name.

        Raises
        ------
        UndrivableError
            One that must be given is not, or the model takes no such shape.
        """
        found = {}
        for name, port in self._ports.items():
            if name in call.given:
                value = call.given[name]
            elif name.startswith(_PAST):
                value = _empty_past(call, port)
            elif name in self._builders:
                value = self._builders[name](call, port)
            else:
                raise UndrivableError(f"nothing was given for the input {name!r}")
            found[name] = _fitted(name, value, port)
        return found

    def _embeddings(self, call: Call, port: Any) -> Any:
        """From the part that makes them; without it any numbers will do, always the same for a token."""
        import numpy as np

        part = _PARTS[_name(port)]
        if self._embedder.has(part):
            return self._embedder.embed(call.tokens, part)
        self._embedder.made_up.add(part)
        sizes = [int(size.get_length()) if size.is_static else 1 for size in list(port.get_partial_shape())[2:]]
        made = {int(token): np.random.default_rng(int(token)).standard_normal(sizes) for token in set(call.tokens.flat)}
        return np.stack([[made[int(token)] for token in row] for row in call.tokens]).astype(np.float32)

    def _attention_mask(self, call: Call, port: Any) -> Any:
        """Ones over the past too; a model that is told cache positions multiplies with it what a call brings."""
        import numpy as np

        past = 0 if "cache_position" in self._ports else call.past
        return np.ones((call.batch, past + call.length), np.int64)

    def _cache_position(self, call: Call, port: Any) -> Any:
        """Mamba tells the first call by as many positions as its convolution is wide, and goes on one by one."""
        import numpy as np

        if call.past == 0:
            return np.arange(self._kernel or call.length, dtype=np.int64)
        return np.arange(call.start, call.start + call.length, dtype=np.int64)


def _kernel(model: Any) -> int:
    """Width of the convolutions over time, from the state that they keep; 0 without one."""
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
    known = [name for name in names if name in ("input_ids", "inputs_embeds", "position_ids", "attention_mask")]
    return str((known or names or [port.get_node().get_friendly_name()])[0])


def _fitted(name: str, value: Any, port: Any) -> Any:
    """In the port's element type; refused when the shape is another one."""
    shape = port.get_partial_shape()
    sizes = [int(size.get_length()) if size.is_static else -1 for size in shape] if shape.rank.is_static else None
    fits = sizes is None or (
        len(sizes) == value.ndim and all(size in (-1, there) for size, there in zip(sizes, value.shape, strict=True))
    )
    if not fits:
        raise UndrivableError(f"the input {name!r} has the shape {shape}, and {list(value.shape)} was to be fed")
    return value.astype(port.get_element_type().to_dtype(), copy=False)


def _zeros(shape: tuple[int, ...]) -> Any:
    import numpy as np

    return np.zeros(shape, np.int64)


def _beam_idx(call: Call, port: Any) -> Any:
    import numpy as np

    return np.asarray(range(call.batch) if call.beam is None else call.beam, np.int32)


def _position_ids(call: Call, port: Any) -> Any:
    """``[B, S]``, or with one row for each axis of a multimodal rotary embedding before that."""
    import numpy as np

    positions = np.broadcast_to(np.arange(call.start, call.start + call.length), call.tokens.shape)
    shape = port.get_partial_shape()
    if shape.rank.is_dynamic or len(shape) <= 2:
        return positions[0] if shape.rank.is_static and len(shape) == 1 else positions
    rows = [int(size.get_length()) if size.is_static else 3 for size in list(shape)[:-2]]
    return np.broadcast_to(positions, (*rows, *positions.shape))


def _no_images(call: Call, port: Any) -> Any:
    """Nothing to add to the layers that take image features. One row each: with none, the CPU computes NaN."""
    import numpy as np

    layers = len(port.get_target_inputs())
    return np.zeros((layers, 1, port.get_partial_shape()[2].get_length()), np.float32)


def _empty_past(call: Call, port: Any) -> Any:
    """The past of a stateless model at its first call: no keys and values, convolution and recurrence at rest."""
    import numpy as np

    sizes = [int(size.get_length()) if size.is_static else 0 for size in port.get_partial_shape()]
    return np.zeros((call.batch, *sizes[1:]), np.float32)
