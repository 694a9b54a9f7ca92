"""What changes an IR: annotate, strip."""

from __future__ import annotations

from irtools.surgery.annotate import annotate
from irtools.surgery.patch import Patch
from irtools.surgery.strip import strip

__all__ = ["Patch", "annotate", "strip"]
