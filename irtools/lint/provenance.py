"""Versions that exporter, compression and runtime wrote into an IR."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from irtools.ir.rt_info import RtInfo, read_rt_info
from irtools.model.document import Document

__all__ = ["Provenance", "provenance", "short", "version_line"]

_BUILD = re.compile(r"-\d+-[0-9a-f]{7,}")


@dataclass(frozen=True, slots=True)
class Provenance:
    """Versions as written; empty if the file has none.

    Attributes
    ----------
    openvino : str
        Version of the conversion.
    exporter : str
        Version of optimum-intel.
    compression : str
        Version of nncf.
    """

    openvino: str = ""
    exporter: str = ""
    transformers: str = ""
    compression: str = ""
    tokenizers: str = ""


_KEYS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "openvino": (("Runtime_version",), ("openvino_version",), ("OpenVINO Runtime",)),
    "exporter": (("optimum", "optimum_intel_version"),),
    "transformers": (("optimum", "transformers_version"), ("transformers_version",)),
    "compression": (("nncf", "version"),),
    "tokenizers": (("openvino_tokenizers_version",),),
}


def provenance(document: Document) -> Provenance:
    """Read the versions of one IR."""
    info = read_rt_info(document.scan)
    return Provenance(**{field: _first(info, keys) for field, keys in _KEYS.items()})


def _first(info: RtInfo, keys: tuple[tuple[str, ...], ...]) -> str:
    for key in keys:
        value: str | RtInfo | None = info
        for step in key:
            value = value.get(step) if isinstance(value, Mapping) else None
        if isinstance(value, str) and value:
            return value
    return ""


def version_line(document: Document, field: str) -> int | None:
    """Line of the entry with a field of the provenance."""
    scan = document.scan
    start = scan.rt_infos[0].start if scan.rt_infos else scan.meta_data.start if scan.meta_data else 0
    for key in _KEYS[field]:
        name = re.escape(key[-1]).encode()
        match = re.compile(rb'<(?:%s|info name="%s")\s' % (name, name)).search(document.data, start)
        if match is not None:
            return document.line(match.start())
    return None


def short(version: str) -> str:
    """A version without build number and branch.

    Examples
    --------
    >>> short("2026.4.1-22982-e213a147257-releases/2026/4"), short("2.3.0.dev0+1a2b3c4")
    ('2026.4.1', '2.3.0.dev0+1a2b3c4')
    """
    return _BUILD.split(version)[0]
