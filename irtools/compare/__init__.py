"""Compare two exports, or two IRs, by structure."""

from __future__ import annotations

from irtools.compare.differences import (
    CATEGORIES,
    AnnotationChange,
    Category,
    ComparedOp,
    Comparison,
    Difference,
    OpChange,
    PartDiff,
    RegionDiff,
    RegionPair,
    WeightChange,
)
from irtools.compare.engine import compare

__all__ = [
    "CATEGORIES",
    "AnnotationChange",
    "Category",
    "ComparedOp",
    "Comparison",
    "Difference",
    "OpChange",
    "PartDiff",
    "RegionDiff",
    "RegionPair",
    "WeightChange",
    "compare",
]
