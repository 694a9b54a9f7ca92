"""Compare two exports, or two IRs, by structure."""

from __future__ import annotations

from irtools.compare.engine import compare
from irtools.compare.model import (
    CATEGORIES,
    AnnotationChange,
    Category,
    Change,
    Comparison,
    OpChange,
    OpRef,
    PartDiff,
    Region,
    RegionDiff,
    WeightChange,
)

__all__ = [
    "CATEGORIES",
    "AnnotationChange",
    "Category",
    "Change",
    "Comparison",
    "OpChange",
    "OpRef",
    "PartDiff",
    "Region",
    "RegionDiff",
    "WeightChange",
    "compare",
]
