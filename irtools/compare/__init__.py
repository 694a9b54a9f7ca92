"""Compare two exports, or two IRs: what changed, and nothing that only looks different."""

from __future__ import annotations

from irtools.compare.engine import compare
from irtools.compare.model import (
    CATEGORIES,
    AnnotationChange,
    Category,
    Change,
    Comparison,
    Region,
    OpChange,
    OpRef,
    PartDiff,
    RegionDiff,
    WeightChange,
)

__all__ = [
    "CATEGORIES",
    "AnnotationChange",
    "Category",
    "Change",
    "Comparison",
    "Region",
    "OpChange",
    "OpRef",
    "PartDiff",
    "RegionDiff",
    "WeightChange",
    "compare",
]
