"""What changes an IR: annotate, strip, and single edits, all of it through one transaction; and extract."""

from __future__ import annotations

from irtools.surgery.annotate import annotate
from irtools.surgery.patch import Patch
from irtools.surgery.strip import strip
from irtools.surgery.transaction import apply

__all__ = ["Patch", "annotate", "apply", "strip"]
