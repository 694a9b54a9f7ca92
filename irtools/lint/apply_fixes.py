"""Apply the fixes of findings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from irtools.errors import IrtoolsError
from irtools.ir.save import FileChange, Saved, save_files
from irtools.lint.engine import Verification
from irtools.lint.finding import Finding
from irtools.model.document import Document
from irtools.runtime.check import checker
from irtools.surgery.patch import Patch

__all__ = ["FixPlan", "plan_fixes", "write_fixes"]


@dataclass(frozen=True, slots=True)
class FixPlan:
    """Changes of the fixes. Nothing has been written.

    Attributes
    ----------
    patches : tuple of Patch
        One per file that would change.
    refused : tuple of str
        Error texts of the fixes that failed.
    """

    patches: tuple[Patch, ...]
    fixed: tuple[Finding, ...]
    refused: tuple[str, ...]


def plan_fixes(verification: Verification, *, unsafe: bool = False) -> FixPlan:
    """Compute the fixes of all findings, with ``unsafe`` also those that a person must review.

    Fixes of the same file build on each other.
    """
    patches: dict[Path, Patch] = {}
    fixed: list[Finding] = []
    left = [f for f in verification.findings if f.fix is not None and (f.fix.safe or unsafe)]
    while True:
        refused: list[tuple[Finding, str]] = []
        for finding in left:
            if finding.fix is None or finding.file is None:
                continue
            before = patches.get(finding.file)
            try:
                after = finding.fix.patch(Document(finding.file, before.data if before else None))
            except IrtoolsError as error:
                refused.append((finding, f"{finding.code} cannot be fixed: {error}"))
                continue
            patches[finding.file] = before.then(after) if before else after
            fixed.append(finding)
        # A fix may need another one of the same file that comes later.
        if not refused or len(refused) == len(left):
            break
        left = [finding for finding, _ in refused]
    changed = tuple(patch for patch in patches.values() if patch.changed)
    return FixPlan(changed, tuple(fixed), tuple(dict.fromkeys(text for _, text in refused)))


def write_fixes(patches: Iterable[Patch]) -> tuple[Saved, ...]:
    """Check all patched files that have a new graph or an annotation, then write all files in place.

    Raises
    ------
    SaveError
        The named file could not be written; other files may have been written.
    CheckError
        A check failed; nothing was written.
    """
    return save_files([FileChange(patch.path, patch.data, patch.original, checker(patch)) for patch in patches])
