"""Names of model inputs and outputs: those that the runtime sets and reads, and those of cached values."""

from __future__ import annotations

from typing import NamedTuple

from irtools.ir.op import DYNAMIC

__all__ = ["CACHE_WORDS", "PORTS", "TOKEN_INPUTS", "PortForm", "is_past", "is_present"]


class PortForm(NamedTuple):
    """Form of a port that the runtime identifies by its tensor name.

    Attributes
    ----------
    element_type : str
        The type of the tensor that the runtime sets or reads.
    ranks : tuple of int
        Numbers of dimensions that models of different families have.
    width : int or None
        Last dimension, if it is known.
    """

    element_type: str
    ranks: tuple[int, ...]
    width: int | None = None

    def fits(self, element_type: str, shape: tuple[int, ...]) -> bool:
        """True for a port of this form; a dynamic width fits any."""
        known = self.width is None or shape[-1:] in ((self.width,), (DYNAMIC,))
        return element_type == self.element_type and len(shape) in self.ranks and known


PORTS = {
    "input_ids": PortForm("i64", (2,)),
    "inputs_embeds": PortForm("f32", (3,)),
    "per_layer_inputs": PortForm("f32", (4,)),
    "hidden_states": PortForm("f32", (3,)),
    "position_ids": PortForm("i64", (2, 3)),
    "attention_mask": PortForm("i64", (2,)),
    "token_type_ids": PortForm("i64", (2,)),
    "beam_idx": PortForm("i32", (1,)),
    "logits": PortForm("f32", (3,)),
    "last_hidden_state": PortForm("f32", (3,)),
}
"""Ports by tensor name."""
TOKEN_INPUTS = ("input_ids", "inputs_embeds")
"""Inputs of which a language model has one for its tokens."""

_PAST = ("past_key_values", "cache_params.past")
_PRESENT = ("present", "cache_params.present")
CACHE_WORDS = ("past", "cache")
"""Words in the names of inputs with cached values, also of other exporters than Optimum Intel.

They also occur in names of other inputs, such as ``cache_position``, so other facts must support them.
"""


def is_past(name: str) -> bool:
    """True for the name that Optimum Intel gives to an input with cached values."""
    return name.startswith(_PAST)


def is_present(name: str) -> bool:
    """True for the name that Optimum Intel gives to an output with new cached values."""
    return name.startswith(_PRESENT)
