"""What everything that runs OpenVINO shares: hints for exact numbers, and its messages made short."""

from __future__ import annotations

from typing import Any

__all__ = ["EXACT", "exact_hints", "first_words", "plugin"]

EXACT = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
"""What a device is told, as far as it knows these properties: no reduced precision anywhere."""


def plugin(device: str) -> str:
    """The part of a device's name that OpenVINO looks properties up by: that of ``AUTO:GPU,CPU`` is ``AUTO``."""
    return device.split(":", 1)[0]


def exact_hints(core: Any, device: str) -> dict[str, str]:
    """Those of :data:`EXACT` that a device knows; in a process that runs OpenVINO."""
    known = core.get_property(plugin(device), "SUPPORTED_PROPERTIES")
    return {name: value for name, value in EXACT.items() if name in known}


def first_words(error: BaseException) -> str:
    """The runtime's message without the places in its own source."""
    lines = [line.strip() for line in str(error).splitlines()]
    wanted = [line for line in lines if line and not line.startswith(("Exception from", "Check '"))]
    return " ".join(wanted or lines)[:600]
