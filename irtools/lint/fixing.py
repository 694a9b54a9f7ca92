"""Apply the changes that rules offer with their findings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from irtools.errors import IrtoolsError
from irtools.ir.save import Change, Saved, save_files
from irtools.lint.engine import Verification
from irtools.lint.model import Finding
from irtools.model.document import Document
from irtools.runtime.check import checker
from irtools.surgery.patch import Patch

__all__ = ["FixPlan", "plan_fixes", "write_fixes"]


@dataclass(frozen=True, slots=True)
class FixPlan:
    """What the fixes would do. Nothing has been written.

    Attributes
    ----------
    patches : tuple of Patch
        One per file that would change.
    fixed : tuple of Finding
        What they remove.
    refused : tuple of str
        Why a fix could not be worked out.
    """

    patches: tuple[Patch, ...]
    fixed: tuple[Finding, ...]
    refused: tuple[str, ...]


def plan_fixes(verification: Verification, *, unsafe: bool = False) -> FixPlan:
    """Work out the fixes of all findings, one upon the other where they concern the same file.

    Parameters
    ----------
    verification : Verification
    unsafe : bool
        Also those that a person should look at.
    """
    patches: dict[Path, Patch] = {}
    fixed: list[Finding] = []
    refused: list[str] = []
    for finding in verification.findings:
        if finding.fix is None or finding.file is None or not (finding.fix.safe or unsafe):
            continue
        before = patches.get(finding.file)
        try:
            after = finding.fix.patch(Document(finding.file, before.data if before else None))
        except IrtoolsError as error:
            refused.append(f"{finding.code} cannot be fixed: {error}")
            continue
        patches[finding.file] = before.then(after) if before else after
        fixed.append(finding)
    return FixPlan(tuple(patch for patch in patches.values() if patch.changed), tuple(fixed), tuple(refused))


def write_fixes(patches: Iterable[Patch]) -> tuple[Saved, ...]:
    """Write patched files in place, after all whose graph changed or that are annotated have been checked.

    Raises
    ------
    SaveError
        The file that it names could not be written; others may have been.
    CheckError
        Nothing was written.
    """
    return save_files([Change(patch.path, patch.data, patch.original, checker(patch)) for patch in patches])
