"""What everything that runs OpenVINO shares: hints for exact numbers, and its messages made short."""

from __future__ import annotations

__all__ = ["EXACT", "first_words"]

EXACT = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
"""What a device is told, as far as it knows these properties: no reduced precision anywhere."""


def first_words(error: BaseException) -> str:
    """The runtime's message without the places in its own source."""
    lines = [line.strip() for line in str(error).splitlines()]
    wanted = [line for line in lines if line and not line.startswith(("Exception from", "Check '"))]
    return " ".join(wanted or lines)[:600]
