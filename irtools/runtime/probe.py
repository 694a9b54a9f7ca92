"""Versions, device properties and tokenized prompts, collected in a separate process."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from irtools.errors import OptionError, UsageError
from irtools.runtime.child import Child, Progress, Reply, ask_each, serve
from irtools.runtime.exact import plugin
from irtools.runtime.messages import short_message

__all__ = ["RuntimeFacts", "Tokenized", "probe", "shown", "tokenize"]

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
"""Properties that affect numbers and speed."""
_DRIVER = "DRIVER_VERSION"
"""Part of the name of the property with the version of a device's driver, such as ``NPU_DRIVER_VERSION``."""
_COLLECTIVE = ("AUTO", "HETERO", "MULTI", "BATCH")
"""Virtual devices that use others."""
_TIMEOUT = 300.0


@dataclass(frozen=True, slots=True)
class RuntimeFacts:
    """Properties of the installation and the device.

    Attributes
    ----------
    devices : tuple of str
        Devices that OpenVINO sees.
    properties : mapping of str to str
        Properties of the chosen device; empty if no device has that name.
    versions : mapping of str to str
        Versions of Python, the system, and OpenVINO, GenAI and tokenizers if installed.
    tokens : tuple of tuple of int
        Token ids of each prompt; empty if the tokenizer could not be used.
    fault : str
        Reason why the tokenizer could not be used.
    ended : str
        How the process ended instead of answering; ``""`` if it answered.
    unusable : str
        The installed package that cannot be imported, and the reason; ``""`` if there is none.
    """

    devices: tuple[str, ...]
    properties: Mapping[str, str]
    versions: Mapping[str, str]
    tokens: tuple[tuple[int, ...], ...] = ()
    fault: str = ""
    ended: str = ""
    unusable: str = ""

    def require(self, device: str) -> None:
        """Refuse an installation that cannot be used, and a device that OpenVINO does not see.

        Raises
        ------
        UsageError
            With what to do.
        """
        if self.unusable:
            raise UsageError(
                f"{self.unusable}; install the extra again (in a checkout: pip install --force-reinstall '.[runtime]')"
            )
        if not self.properties and not self.ended:
            raise OptionError(f"there is no device {device!r}; OpenVINO sees {', '.join(self.devices)}")


def probe(device: str, directory: Path, prompts: Sequence[str], *, chat_template: bool) -> RuntimeFacts:
    """Read the device's properties; tokenize prompts with the tokenizer in ``directory`` as GenAI does."""
    texts = {"directory": str(directory), "prompts": list(prompts), "chat_template": chat_template}
    with Child("irtools.runtime.probe") as child:
        reply = child.ask({"device": device, **texts}, timeout=_TIMEOUT)
    if reply.ended:
        return RuntimeFacts((), {}, _versions(), fault=reply.ended, ended=reply.ended)
    lists = {"devices": tuple(reply.value["devices"]), "tokens": tuple(map(tuple, reply.value["tokens"]))}
    return RuntimeFacts(**{**reply.value, **lists}, versions=_versions())


@dataclass(frozen=True, slots=True)
class Tokenized:
    """A text as token ids.

    Attributes
    ----------
    ids : tuple of int
        Empty if the tokenizer could not be used.
    fault : str
        Reason why it could not be used.
    """

    ids: tuple[int, ...] = ()
    fault: str = ""


def tokenize(directories: Sequence[Path], text: str) -> tuple[Tokenized, ...]:
    """Tokenize a text with the tokenizer of each directory, in one process, without a chat template."""
    requests = ({"directory": str(directory), "prompts": [text], "chat_template": False} for directory in directories)
    with closing(ask_each("irtools.runtime.probe", requests, timeout=_TIMEOUT)) as replies:
        return tuple(map(_tokenized_text, replies))


def _tokenized_text(reply: Reply) -> Tokenized:
    if reply.ended:
        return Tokenized(fault=reply.ended)
    ids = [tuple(ids) for ids in reply.value["tokens"]]
    return Tokenized(ids[0] if ids else (), reply.value["unusable"] or reply.value["fault"])


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "platform": platform.platform()}
    for name, package in _PACKAGES.items():
        with suppress(PackageNotFoundError):
            versions[name] = version(package)
    return versions


def _probe(request: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    answer = {"devices": [], "properties": {}, "tokens": [], "fault": "", "unusable": _unusable()}
    if answer["unusable"]:
        return answer
    device = _device(request["device"]) if "device" in request else {}
    return answer | device | _tokenized(request)


def _unusable() -> str:
    for name, package in (("openvino", "openvino"), ("openvino_genai", "openvino-genai")):
        if find_spec(name) is not None:
            try:
                import_module(name)
            except ImportError as error:
                return f"{package} cannot be imported ({short_message(error)})"
    return ""


def _device(name: str) -> dict[str, Any]:
    import openvino as ov

    core = ov.Core()
    properties: dict[str, str] = {}
    device, seen = plugin(name), list(core.available_devices)
    # The plugin of a missing device may answer, too.
    if device in _COLLECTIVE or _without_index(device) in map(_without_index, seen):
        with suppress(RuntimeError):  # no such device: the properties stay empty
            supported = core.get_property(device, "SUPPORTED_PROPERTIES")
            wanted = [*_PROPERTIES, *(key for key in supported if _DRIVER in key)]
            properties = {key: shown(core.get_property(device, key)) for key in wanted if key in supported}
    return {"devices": seen, "properties": properties}


def _tokenized(request: Mapping[str, Any]) -> dict[str, Any]:
    if not request["prompts"]:
        return {}
    if find_spec("openvino_genai") is None:
        return {"fault": "openvino-genai, which contains the tokenizer, is not installed"}
    try:
        import openvino_genai as genai

        from irtools.runtime.pipeline import encode

        tokenizer, template = genai.Tokenizer(request["directory"]), request["chat_template"]
        return {"tokens": [encode(tokenizer, prompt, chat_template=template) for prompt in request["prompts"]]}
    except (RuntimeError, ValueError, ImportError) as error:
        return {"fault": short_message(error)}


def _without_index(device: str) -> str:
    """A device name without the number of several of a kind, as in ``GPU.1``."""
    return device.split(".", 1)[0]


def shown(value: object) -> str:
    """A property as text, element types by their names."""
    name = getattr(value, "get_type_name", None)
    return str(name() if callable(name) else getattr(value, "name", value))


if __name__ == "__main__":
    serve(_probe)
