"""Public names for single edits of a graph, as values for :meth:`irtools.Editor.make`.

>>> import irtools
>>> from irtools.edits import Rename, SetRtInfo
>>> export = irtools.open_export("fixtures/falcon")
>>> with export.edit() as e:
...     e.make(Rename("__module.lm_head/aten::linear/MatMul", "head"), SetRtInfo("made_for", "debugging"))
>>> export.pending[0].status
'would-write'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from irtools._lazy import attach

if TYPE_CHECKING:
    from irtools.surgery.edits import (
        AddOp,
        NewPort,
        OpOutput,
        RemoveOp,
        Rename,
        Rewire,
        SetAttribute,
        SetRtInfo,
        SetTensorNames,
    )

__all__ = [
    "AddOp",
    "NewPort",
    "OpOutput",
    "RemoveOp",
    "Rename",
    "Rewire",
    "SetAttribute",
    "SetRtInfo",
    "SetTensorNames",
]

__getattr__, __dir__ = attach(__name__, dict.fromkeys(__all__, "irtools.surgery.edits"))
