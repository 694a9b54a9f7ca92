"""Provenance of a part: the programs and versions that its rt_info records."""

from __future__ import annotations

import re
from collections.abc import Mapping

from irtools.ir.rt_info import ANNOTATION_KEY, leaves
from irtools.model.document import Document

__all__ = ["UNKNOWN_ORIGIN", "flat_rt_info", "origin", "recorded_versions", "short_version", "version_line", "versions"]

_VERSION_ENTRIES: Mapping[str, tuple[str, ...]] = {
    "OpenVINO": ("Runtime_version",),
    "Optimum Intel": ("optimum/optimum_intel_version",),
    "Optimum": ("optimum/optimum_version",),
    "Transformers": ("optimum/transformers_version",),
    "PyTorch": ("optimum/pytorch_version",),
    "NNCF": ("nncf/version", "nncf/nncf_version"),
    "OpenVINO Tokenizers": ("openvino_tokenizers_version",),
}
"""rt_info entries with the version of a program that made a part, by program; the first non-empty entry counts."""
_TOKENIZER_ENTRIES: Mapping[str, tuple[str, ...]] = {
    "OpenVINO": ("openvino_version", "OpenVINO Runtime"),
    "Transformers": ("transformers_version",),
}
"""Entries of openvino-tokenizers: versions that were installed when it converted a tokenizer."""
_BUILD = re.compile(r"-\d+-[0-9a-f]{7,}")
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


UNKNOWN_ORIGIN = "unknown"


def origin(key: str) -> str:
    """Program or purpose that an entry of the flat rt_info comes from; ``unknown`` for other keys."""
    return _ORIGINS.get(key.split("/", 1)[0], UNKNOWN_ORIGIN)


def flat_rt_info(document: Document) -> Mapping[str, str]:
    """Model-level rt_info with nested keys joined by ``/``."""
    return {"/".join(path): value for path, value in leaves(document.rt_info)}


def recorded_versions(document: Document) -> Mapping[str, str]:
    """Versions by program, as written in the rt_info of a part, also those that were only installed."""
    entries = flat_rt_info(document)
    return {program: value for program in _VERSION_ENTRIES if (value := _first(entries, _entries_of(program)))}


def versions(document: Document) -> Mapping[str, str]:
    """Short versions of the programs that made a part, by program."""
    entries = flat_rt_info(document)
    recorded = {program: _first(entries, keys) for program, keys in _VERSION_ENTRIES.items()}
    return {program: short_version(value) for program, value in recorded.items() if value}


def _entries_of(program: str) -> tuple[str, ...]:
    return _VERSION_ENTRIES[program] + _TOKENIZER_ENTRIES.get(program, ())


def _first(entries: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((entries[key] for key in keys if entries.get(key)), "")


def version_line(document: Document, program: str) -> int | None:
    """Line of the entry with the version of a program."""
    scan = document.scan
    start = scan.rt_infos[0].start if scan.rt_infos else scan.meta_data.start if scan.meta_data else 0
    for entry in _entries_of(program):
        name = re.escape(entry.rpartition("/")[2]).encode()
        match = re.compile(rb'<(?:%s|info name="%s")\s' % (name, name)).search(document.data, start)
        if match is not None:
            return document.line(match.start())
    return None


def short_version(version: str) -> str:
    """A version without build number and branch.

    Examples
    --------
    >>> short_version("2026.4.1-22982-e213a147257-releases/2026/4"), short_version("2.3.0.dev0+1a2b3c4")
    ('2026.4.1', '2.3.0.dev0+1a2b3c4')
    """
    return _BUILD.split(version)[0]
