"""Compare two exports, or two IRs: what changed, and nothing that only looks different."""

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
