"""Compare two exports, or two IRs, by structure."""

from __future__ import annotations

from irtools.compare.engine import compare
from irtools.compare.model import (
    CATEGORIES,
    AnnotationChange,
    Category,
    Comparison,
    Difference,
    OpChange,
    OpRef,
    PartDiff,
    RegionDiff,
    RegionPair,
    WeightChange,
)

__all__ = [
    "CATEGORIES",
    "AnnotationChange",
    "Category",
    "Comparison",
    "Difference",
    "OpChange",
    "OpRef",
    "PartDiff",
    "RegionDiff",
    "RegionPair",
    "WeightChange",
    "compare",
]
