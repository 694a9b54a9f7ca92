"""Ops that each release of OpenVINO and of its tokenizers reads from an IR."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from irtools.model.versions import release_numbers

__all__ = ["RuntimeOps", "runtime_ops"]

_SPELLINGS = {"Const": "Constant"}
_IN_OPSET6 = frozenset(
    {
        "ExperimentalDetectronDetectionOutput",
        "ExperimentalDetectronGenerateProposalsSingleImage",
        "ExperimentalDetectronPriorGridGenerator",
        "ExperimentalDetectronROIFeatureExtractor",
        "ExperimentalDetectronTopKROIs",
        "GRUCell",
        "RNNCell",
        "Proposal",
    }
)
_EXTENSION = "extension"


@dataclass(frozen=True)
class RuntimeOps:
    """Ops that one release reads. The reader of OpenVINO decides, so the lookup is as lenient as it.

    Attributes
    ----------
    release : str
        Release whose ops these are: the newest known one that is not newer than the one asked for, else the oldest.
    opsets : mapping of str to set of str
        Lower-case op types of each opset; an opset has only the ops that the reader creates from it.
    tokenizer_ops : set of str
        Types in the opset ``extension`` that openvino-tokenizers adds.

    Notes
    -----
    ``XmlDeserializer::create_node`` of OpenVINO (``src/core/xml_util/src/xml_deserialize_util.cpp``): the case of a
    type in an opset does not count, ``Const`` stands for ``Constant``, and eight types of the opsets ``experimental``
    and ``extension`` are taken from opset6.
    """

    release: str
    opsets: Mapping[str, frozenset[str]]
    tokenizer_ops: frozenset[str]

    def reads(self, kind: str, opset: str, *, tokenizer: bool = False) -> bool:
        """True if the release creates an op of this type from this opset.

        Parameters
        ----------
        kind, opset : str
            ``type`` and ``version`` of the ``<layer>``.
        tokenizer : bool
            True if openvino-tokenizers is loaded, as for a tokenizer or detokenizer.
        """
        if tokenizer and opset == _EXTENSION and kind in self.tokenizer_ops:
            return True
        if kind in _IN_OPSET6 and opset in ("experimental", _EXTENSION):
            opset = "opset6"
        return _SPELLINGS.get(kind, kind).lower() in self.opsets.get(opset, ())

    def opsets_of(self, kind: str) -> tuple[str, ...]:
        """Opsets that have a type, oldest first."""
        wanted = _SPELLINGS.get(kind, kind).lower()
        return tuple(opset for opset, kinds in self.opsets.items() if wanted in kinds)

    def since(self, kind: str, opset: str, *, tokenizer: bool = False) -> str:
        """First later release that reads an op; ``""`` if no known one does."""
        releases = list(_table())
        later = releases[releases.index(self.release) + 1 :]
        return next((name for name in later if _of(name).reads(kind, opset, tokenizer=tokenizer)), "")


def runtime_ops(release: str) -> RuntimeOps:
    """Ops that a release reads.

    Parameters
    ----------
    release : str
        Version such as ``2026.4`` or ``2026.4.1``. A release that irtools does not know is judged by the newest older
        one that it knows, or by the oldest.

    Examples
    --------
    >>> runtime_ops("2025.4").reads("ScaledDotProductAttention", "opset13")
    True
    >>> runtime_ops("2025.4").reads("Convert", "opset17"), runtime_ops("2027.0").release
    (False, '2026.4')
    """
    known = list(_table())
    older = [name for name in known if release_numbers(name) <= release_numbers(release)]
    return _of(older[-1] if older else known[0])


@cache
def _table() -> Mapping[str, Mapping[str, list[str]]]:
    """Additions of each release: types by range of opsets, and those of the tokenizers.

    ``fixtures/runtime_ops.py`` writes the file.
    """
    table: dict[str, dict[str, list[str]]] = json.loads(Path(__file__).with_name("runtime_ops.json").read_text("utf-8"))
    return table


@cache
def _of(release: str) -> RuntimeOps:
    opsets: dict[int, set[str]] = {}
    tokenizer_ops: set[str] = set()
    for name, added in _table().items():
        for where, kinds in added.items():
            if where == _EXTENSION:
                tokenizer_ops.update(kinds)
                continue
            first, last = where.removeprefix("opset").split("-")
            for number in range(int(first), int(last) + 1):
                opsets.setdefault(number, set()).update(kind.lower() for kind in kinds)
        if name == release:
            break
    by_name = {f"opset{number}": frozenset(opsets[number]) for number in sorted(opsets)}
    return RuntimeOps(release, by_name, frozenset(tokenizer_ops))
