"""irtools: locate, annotate, check, prove, draw and edit OpenVINO IR exports of language models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = ["Document", "Export", "IrtoolsError", "__version__", "open_export"]

if TYPE_CHECKING:
    from irtools.errors import IrtoolsError
    from irtools.ir.document import Document
    from irtools.ir.export import Export, open_export

_HOMES = {
    "Document": "irtools.ir.document",
    "Export": "irtools.ir.export",
    "IrtoolsError": "irtools.errors",
    "open_export": "irtools.ir.export",
}


def __getattr__(name: str) -> Any:
    # Imported late: `irtools --help` imports this package and must not load anything heavy.
    if name not in _HOMES:
        raise AttributeError(f"module 'irtools' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
