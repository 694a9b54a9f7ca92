"""OpenVINO's bindings without the Python package around them: for a process that somebody waits for.

The package imports numpy and every opset, which takes 0.07 s; the bindings alone take 0.01 s (2026.4), and
reading and converting a model needs no more.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

__all__ = ["Model", "load_bindings", "load_package", "to_paged_attention"]

_PACKAGE = "openvino"
_BINDINGS = "openvino._pyopenvino"


class Model:
    """What the conversion takes for an ``openvino.Model``: it looks for the model of the bindings in there."""

    def __init__(self, model: Any) -> None:
        self.__model = model


def load_bindings() -> None:
    """Let ``import openvino`` give the bindings; the package where they cannot be loaded without it.

    On Windows, for example, it is the package that knows where the libraries are.
    """
    if _PACKAGE in sys.modules:
        return
    spec = PathFinder.find_spec(_PACKAGE)
    if spec is None or spec.submodule_search_locations is None:
        return
    package: Any = ModuleType(_PACKAGE)
    package.__path__ = list(spec.submodule_search_locations)
    package.Model = Model
    sys.modules[_PACKAGE] = package
    try:
        import openvino._pyopenvino as bindings

        package.Core = bindings.Core
    except (ImportError, AttributeError):
        load_package()


def load_package() -> None:
    """Let ``import openvino`` give the whole package from now on."""
    if _is_package():
        return
    for name in [*sys.modules]:
        if (name == _PACKAGE or name.startswith(f"{_PACKAGE}.")) and not name.startswith(_BINDINGS):
            del sys.modules[name]
    with suppress(ImportError):  # whoever needs it says so
        import openvino  # noqa: F401


def _is_package() -> bool:
    return getattr(sys.modules.get(_PACKAGE), "Model", None) is not Model and _PACKAGE in sys.modules


def to_paged_attention(model: Any) -> None:
    """Convert a model to paged attention, in place, as OpenVINO GenAI does.

    Raises
    ------
    RuntimeError
        OpenVINO cannot convert it.
    """
    from openvino._offline_transformations import paged_attention_transformation

    paged_attention_transformation(model if _is_package() else Model(model))
