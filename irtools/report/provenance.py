"""Provenance of a part, and the state of its hidden-state annotation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from irtools.decoder.stack import DecoderStack
from irtools.errors import AnnotationDiffersError, IrtoolsError
from irtools.ir.document import Document
from irtools.ir.rt_info import ANNOTATION_KEY, RtInfo

__all__ = ["annotation_status", "flat_rt_info", "origin", "versions"]

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


def annotation_status(document: Document, stack: DecoderStack | None) -> tuple[str, str]:
    """Compare the annotation of a part with its decoder stack.

    Returns
    -------
    status : str
        ``absent``, ``present`` (it agrees with the located stack), ``early`` (it agrees, but the
        runtime does not read its form), ``differs`` or ``unknown`` (there is no stack to compare
        it with).
    text : str
        The same as a sentence without full stop.
    """
    from irtools.surgery.annotate import annotate

    if ANNOTATION_KEY not in document.rt_info:
        return "absent", "not annotated"
    if stack is None:
        return "unknown", "annotated, but no decoder stack was located to compare it with"
    try:
        patch = annotate(document, stack)
    except AnnotationDiffersError as error:
        return "differs", error.difference
    except IrtoolsError as error:
        return "unknown", str(error)
    if patch.changed:
        return "early", "annotated in the early form, which the runtime does not read"
    return "present", f"annotated, {len(stack.layers)} layers, as located"
