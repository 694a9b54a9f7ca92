"""irtools: locate, annotate, check, prove, draw and edit OpenVINO IR exports of language models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from irtools._version import __version__

__all__ = ["Document", "Export", "IrtoolsError", "__version__", "open_export"]

if TYPE_CHECKING:
    from irtools.errors import IrtoolsError
    from irtools.export import Export, open_export
    from irtools.model.document import Document

_HOMES = {
    "Document": "irtools.model.document",
    "Export": "irtools.export",
    "IrtoolsError": "irtools.errors",
    "open_export": "irtools.export",
}


def __getattr__(name: str) -> Any:
    # Imported late: `irtools --help` imports this package and must not load anything heavy.
    if name not in _HOMES:
        raise AttributeError(f"module 'irtools' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
