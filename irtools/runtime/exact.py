"""Device properties for calculation in full precision."""

from __future__ import annotations

from typing import Any

__all__ = ["EXACT", "exact_hints", "plugin"]

EXACT = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
"""Properties that switch off reduced precision."""


def plugin(device: str) -> str:
    """The part of a device name that OpenVINO looks up properties by: ``AUTO`` for ``AUTO:GPU,CPU``."""
    return device.split(":", 1)[0]


def exact_hints(core: Any, device: str) -> dict[str, str]:
    """The entries of :data:`EXACT` that a device supports. Runs in a process that has loaded OpenVINO."""
    supported = core.get_property(plugin(device), "SUPPORTED_PROPERTIES")
    return {name: value for name, value in EXACT.items() if name in supported}
