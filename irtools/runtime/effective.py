"""Properties that a device really uses for a model, read from the compiled model in a separate process.

The properties of a device are defaults. The rt_info of a model (``runtime_options``), the settings of a pipeline and
the graph itself change them: with ``KV_CACHE_PRECISION`` ``f16`` in the rt_info, OpenVINO 2026.4.1 reports ``u8`` for
the CPU and ``f16`` for the compiled model, and a CPU with bf16 arithmetic keeps the cache in ``bf16``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from irtools.runtime.child import Progress, ask_each, serve
from irtools.runtime.messages import short_message
from irtools.runtime.probe import shown

__all__ = ["EffectiveProperties", "effective"]

_OF_NO_EFFECT = {"SUPPORTED_PROPERTIES", "NETWORK_NAME", "LOG_LEVEL", "PERF_COUNT", "RUNTIME_REQUIREMENTS"}
"""Properties that do not affect numbers or speed, or that name the process."""
_TABLES = ("_cache", "_table")
"""Endings of the names of the inputs that hold state after the conversion to paged attention, without the layer."""


@dataclass(frozen=True, slots=True)
class EffectiveProperties:
    """Properties of one compiled model.

    Attributes
    ----------
    properties : mapping of str to str
        By name; empty if the model could not be compiled.
    state : mapping of str to str
        Element types of the paged state, such as ``key_cache`` and ``value_cache``; several are joined by a comma.
    paged : bool
        True if the model was converted to paged attention before, as GenAI does; false if only the model as it is
        in the file can be compiled.
    fault : str
        Reason why it could not be compiled; ``""`` if it could.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    state: Mapping[str, str] = field(default_factory=dict)
    paged: bool = False
    fault: str = ""


def effective(
    files: Sequence[Path], device: str, properties: Mapping[str, str] | None = None, *, timeout: float
) -> list[EffectiveProperties]:
    """Compile models one after the other, each ``.xml`` in at most ``timeout`` seconds, and read their properties.

    ``properties`` are those that the pipeline gets.
    """
    settings = {"device": device, "properties": dict(properties or {})}
    requests = [{"xml": str(path.absolute()), **settings} for path in files]
    return [
        EffectiveProperties(fault=reply.ended) if reply.ended else EffectiveProperties(**reply.value)
        for reply in ask_each("irtools.runtime.effective", requests, timeout=timeout)
    ]


def _effective(request: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    import openvino as ov

    from irtools.runtime.rehearsal import to_paged

    core = ov.Core()
    try:
        model = core.read_model(request["xml"])
        if not to_paged(model):
            try:
                return _read(core, model, request) | {"paged": True}
            except RuntimeError:
                progress("compiling the model as it is in the file")
        return _read(core, core.read_model(request["xml"]), request)
    except RuntimeError as error:
        return {"fault": short_message(error)}


def _read(core: Any, model: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    compiled = core.compile_model(model, request["device"], request["properties"])
    names = [name for name in compiled.get_property("SUPPORTED_PROPERTIES") if name not in _OF_NO_EFFECT]
    kinds: dict[str, set[str]] = {}
    for port in compiled.inputs:
        table = next((stem for name in port.names if (stem := name.rpartition(".")[0]).endswith(_TABLES)), "")
        if table:
            kinds.setdefault(table, set()).add(port.get_element_type().get_type_name())
    return {
        "properties": {name: shown(compiled.get_property(name)) for name in sorted(names)},
        "state": {table: ", ".join(sorted(types)) for table, types in sorted(kinds.items())},
    }


if __name__ == "__main__":
    serve(_effective)
