"""The paged cache of keys and values: its size in each precision, and the precision that an export asks for."""

from __future__ import annotations

from dataclasses import dataclass

from irtools.model.document import Document
from irtools.model.provenance import flat_rt_info

__all__ = ["CACHE_BITS", "PagedCache", "asked_precision"]

CACHE_BITS = {"f32": 32, "f16": 16, "bf16": 16, "u8": 8, "i8": 8, "u4": 4, "u3": 3}
"""Bits of one element, for the precisions that OpenVINO 2026.4 takes on a CPU (``intel_cpu/src/config.cpp``)."""

_BLOCK = 32
"""Tokens in a block of the CPU (``continuous_batching/cache/kv_cache_manager.hpp`` of OpenVINO GenAI)."""
_SCALE_AND_ZERO_POINT = 8
_OPTIONS = "runtime_options/"
_BOTH, _KEY, _VALUE = "KV_CACHE_PRECISION", "KEY_CACHE_PRECISION", "VALUE_CACHE_PRECISION"


@dataclass(frozen=True, slots=True)
class PagedCache:
    """Keys and values of one shape, in blocks of 32 tokens.

    Quantised keys have a scale and a zero point, 8 bytes, for each channel of a block; quantised values have them for
    each token and head. Read from the inputs ``key_cache.N`` and ``value_cache.N`` of models that OpenVINO 2026.4.1
    compiled for a CPU: with head size 256 ``u8[?,2,40,256]`` and ``u8[?,2,32,264]``, ``u4[?,2,48,256]`` and
    ``u4[?,2,32,272]``.

    Attributes
    ----------
    keys, values : int
        Number of tensors.
    heads, width : int
        Number of heads and head size.
    """

    keys: int
    values: int
    sequences: int
    context: int
    heads: int
    width: int

    def size(self, key: str, value: str, context: int | None = None) -> int:
        """Bytes in the given precisions, for its own context or another."""
        blocks = self.sequences * -(-(self.context if context is None else context) // _BLOCK)
        of_keys = self.width * (_BLOCK * CACHE_BITS[key] // 8 + _scales(key))
        of_values = _BLOCK * (self.width * CACHE_BITS[value] // 8 + _scales(value))
        return blocks * self.heads * (self.keys * of_keys + self.values * of_values)


def _scales(precision: str) -> int:
    return _SCALE_AND_ZERO_POINT if CACHE_BITS[precision] < 16 else 0


def asked_precision(document: Document) -> tuple[str, str] | None:
    """Precisions of keys and values that a part asks for in its rt_info; None if it asks for none that is known."""
    entries = flat_rt_info(document)
    both = entries.get(_OPTIONS + _BOTH, "")
    asked = [(entries.get(_OPTIONS + name) or both).strip().lower() for name in (_KEY, _VALUE)]
    key, value = (asked[0] or asked[1]), (asked[1] or asked[0])
    return (key, value) if key in CACHE_BITS and value in CACHE_BITS else None
