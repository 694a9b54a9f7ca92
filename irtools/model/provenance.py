"""Provenance of a part, and the state of its hidden-state annotation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from irtools.ir.rt_info import ANNOTATION_KEY, RtInfo
from irtools.model.document import Document

__all__ = ["flat_rt_info", "origin", "versions"]

_VERSIONS = {
    "Runtime_version": "OpenVINO",
    "optimum/optimum_intel_version": "Optimum Intel",
    "optimum/optimum_version": "Optimum",
    "optimum/transformers_version": "Transformers",
    "optimum/pytorch_version": "PyTorch",
    "nncf/version": "NNCF",
    "nncf/nncf_version": "NNCF",
    "openvino_tokenizers_version": "OpenVINO Tokenizers",
}
_ORIGINS = {
    "optimum": "Optimum",
    "nncf": "NNCF",
    "runtime_options": "Optimum (hints to the runtime)",
    "conversion_parameters": "OpenVINO",
    "Runtime_version": "OpenVINO",
    "OpenVINO Runtime": "OpenVINO",
    ANNOTATION_KEY: "annotation",
    "dflash": "DFlash draft",
    "dflash_mode": "DFlash draft",
    "eagle3_mode": "EAGLE-3 draft",
    "openvino_tokenizers_version": "OpenVINO Tokenizers",
}


def origin(key: str) -> str:
    """Program or purpose that an entry of the flat rt_info comes from; ``unknown`` for other keys."""
    return _ORIGINS.get(key.split("/", 1)[0], "unknown")


def flat_rt_info(document: Document) -> Mapping[str, str]:
    """Model-level rt_info with nested keys joined by ``/``."""
    return dict(_flat(document.rt_info, ""))


def _flat(entries: RtInfo, path: str) -> Iterator[tuple[str, str]]:
    for key, value in entries.items():
        if isinstance(value, str):
            yield path + key, value
        else:
            yield from _flat(value, f"{path}{key}/")


def versions(document: Document) -> Mapping[str, str]:
    """Versions of the programs that made a part, by program name, as recorded in its rt_info."""
    entries = flat_rt_info(document)
    by_program: dict[str, str] = {}
    for key, name in _VERSIONS.items():
        if key in entries:
            build = entries[key]
            by_program.setdefault(name, build.split("-", 1)[0] if name.startswith("OpenVINO") else build)
    return by_program
