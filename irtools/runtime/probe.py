"""What runs here, and what the tokenizer of an export makes of prompts; asked in a process of its own."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from irtools.runtime.exact import first_words, plugin
from irtools.runtime.lines import Child, Progress, serve

__all__ = ["Probe", "probe"]

_PACKAGES = {"openvino": "openvino", "genai": "openvino-genai", "tokenizers": "openvino-tokenizers"}
_PROPERTIES = (
    "FULL_DEVICE_NAME",
    "DEVICE_ARCHITECTURE",
    "OPTIMIZATION_CAPABILITIES",
    "INFERENCE_PRECISION_HINT",
    "KV_CACHE_PRECISION",
    "EXECUTION_MODE_HINT",
    "PERFORMANCE_HINT",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE",
    "NUM_STREAMS",
    "INFERENCE_NUM_THREADS",
    "RANGE_FOR_STREAMS",
)
"""Those that bear on numbers and speed."""
_COLLECTIVE = ("AUTO", "HETERO", "MULTI", "BATCH")
"""Names that stand for other devices."""
_TIMEOUT = 300.0


@dataclass(frozen=True, slots=True)
class Probe:
    """What was found.

    Attributes
    ----------
    devices : tuple of str
        Those that OpenVINO sees.
    properties : mapping of str to str
        Of the device that was asked for; empty when there is none of that name.
    versions : mapping of str to str
        Of OpenVINO, GenAI and tokenizers as far as installed, of Python and of the system.
    tokens : tuple of tuple of int
        Of each prompt; empty when the tokenizer could not be used.
    fault : str
        Why it could not.
    ended : str
        How the process ended instead of answering; ``""`` when it answered.
    unusable : str
        Which package cannot be imported, and why; ``""`` when all can that are installed.
    """

    devices: tuple[str, ...]
    properties: Mapping[str, str]
    versions: Mapping[str, str]
    tokens: tuple[tuple[int, ...], ...] = ()
    fault: str = ""
    ended: str = ""
    unusable: str = ""


def probe(device: str, directory: Path, prompts: Sequence[str], *, chat_template: bool) -> Probe:
    """Look at the device, and tokenize prompts as GenAI does.

    Parameters
    ----------
    device : str
    directory : Path
        With the tokenizer.
    prompts : sequence of str
    chat_template : bool
        Put them through the export's chat template.
    """
    request = {
        "device": device,
        "directory": str(directory),
        "prompts": list(prompts),
        "chat_template": chat_template,
    }
    with Child("irtools.runtime.probe") as child:
        reply = child.ask(request, timeout=_TIMEOUT)
    if reply.ended:
        return Probe((), {}, _versions(), fault=reply.ended, ended=reply.ended)
    found = reply.value
    tokens = tuple(tuple(ids) for ids in found["tokens"])
    return Probe(
        tuple(found["devices"]),
        found["properties"],
        _versions(),
        tokens,
        found["fault"],
        unusable=found["unusable"],
    )


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for name, package in _PACKAGES.items():
        with suppress(PackageNotFoundError):
            found[name] = version(package)
    return found


def _probe(request: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    found = {"devices": [], "properties": {}, "tokens": [], "fault": "", "unusable": _unusable()}
    return found if found["unusable"] else found | _device(request["device"]) | _tokenized(request)


def _unusable() -> str:
    """Which of the packages is there and cannot be imported, in words."""
    for name, package in (("openvino", "openvino"), ("openvino_genai", "openvino-genai")):
        if find_spec(name) is not None:
            try:
                import_module(name)
            except ImportError as error:
                return f"{package} cannot be imported ({first_words(error)})"
    return ""


def _device(name: str) -> dict[str, Any]:
    import openvino as ov

    core = ov.Core()
    properties: dict[str, str] = {}
    device, seen = plugin(name), list(core.available_devices)
    # The plugin of a device that is not there may answer all the same.
    if device in _COLLECTIVE or _without_index(device) in map(_without_index, seen):
        with suppress(RuntimeError):  # no such device: its properties stay empty
            known = core.get_property(device, "SUPPORTED_PROPERTIES")
            properties = {key: _shown(core.get_property(device, key)) for key in _PROPERTIES if key in known}
    return {"devices": seen, "properties": properties}


def _tokenized(request: Mapping[str, Any]) -> dict[str, Any]:
    if not request["prompts"]:
        return {}
    if find_spec("openvino_genai") is None:
        return {"fault": "openvino-genai, which brings the tokenizers, is not installed"}
    try:
        return {"tokens": _tokens(request)}
    except (RuntimeError, ValueError, ImportError) as error:
        return {"fault": first_words(error)}


def _tokens(request: Mapping[str, Any]) -> list[tuple[int, ...]]:
    import openvino_genai as genai

    from irtools.runtime.pipeline import encode

    tokenizer = genai.Tokenizer(request["directory"])
    return [encode(tokenizer, prompt, chat_template=request["chat_template"]) for prompt in request["prompts"]]


def _without_index(device: str) -> str:
    """Several devices of a kind are numbered: ``GPU.1``."""
    return device.split(".", 1)[0]


def _shown(value: object) -> str:
    """A property as text; element types by their name."""
    name = getattr(value, "get_type_name", None)
    return str(name() if callable(name) else getattr(value, "name", value))


if __name__ == "__main__":
    serve(_probe)
