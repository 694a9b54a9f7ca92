"""Check an export with the MTP head that it is to get, before any file is in place."""

from __future__ import annotations

from pathlib import Path

from irtools.errors import CheckError, os_reason
from irtools.ir.files import scratch
from irtools.ir.listing import link_file, link_files, real_path
from irtools.lint.engine import VerifyOptions, verify
from irtools.lint.finding import Finding, Severity
from irtools.model.directory import MTP_FILE, ModelDirectory
from irtools.runtime.check import check_file
from irtools.surgery.attach import MTP_WEIGHTS, Attachment
from irtools.surgery.attach_record import RECORD_FILE
from irtools.text import plural

__all__ = ["check_attachment"]

_ANYWAY = "nothing was written; give --no-check to attach it anyway"


def check_attachment(attachment: Attachment) -> tuple[str, ...]:
    """Read the head with OpenVINO, and verify the export as it will be.

    The rules see a temporary directory of links to the files. An error that the export has without the head too is no
    reason to refuse, unless it rules out MTP alone.

    Returns
    -------
    tuple of str
        Notes.

    Raises
    ------
    CheckError
        OpenVINO cannot read the head, a rule finds an error, or the check could not run.
    """
    directory = attachment.path.parent
    with scratch("attached") as made:
        whole, bare = (made / side / directory.absolute().name for side in ("with", "without"))
        try:
            _stage(directory, whole, attachment)
            _stage(directory, bare, None)
        except OSError as error:
            message = f"the new export cannot be checked ({os_reason(error)}); {_ANYWAY}"
            raise CheckError(message, path=directory) from error
        problems = [one.message for one in check_file(whole / MTP_FILE, whole / MTP_WEIGHTS) if one.problem]
        if problems:
            raise CheckError(f"{'; '.join(problems)}; {_ANYWAY}", path=attachment.source)
        errors = _errors(whole)
        if not errors:
            return ()
        before = {_key(finding) for finding in _errors(bare)}
    new = [finding for finding in errors if _about_mtp(finding) or _key(finding) not in before]
    if new:
        more = f" (and {len(new) - 1} more)" if new[1:] else ""
        message = f"with this head, {new[0].code} is an error: {new[0].message}{more}; {_ANYWAY}"
        raise CheckError(message, path=directory)
    found = plural(len(errors), "error")
    return (f"the export has {found} without the head too; `irtools verify` shows more",)


def _stage(directory: Path, staged: Path, attachment: Attachment | None) -> None:
    """Fill a directory with links to the files of an export, with or without the head."""
    staged.mkdir(parents=True)
    own = {MTP_FILE, MTP_WEIGHTS, RECORD_FILE}
    config = attachment.config if attachment is not None else None
    if config is not None:
        (staged / "config.json").write_bytes(config)
        own.add("config.json")
    link_files(directory, staged, own)
    if attachment is not None and attachment.source is not None:
        for source in (attachment.source, attachment.source.with_suffix(".bin")):
            link_file(real_path(source), staged / source.name)


def _errors(directory: Path) -> list[Finding]:
    found = verify(ModelDirectory.open(directory), VerifyOptions(expect_mtp=True)).findings
    return [finding for finding in found if finding.severity == Severity.ERROR]


def _about_mtp(finding: Finding) -> bool:
    """True if a finding is about the head, or rules out MTP alone."""
    rules_out = finding.rules_out or ()
    return finding.part == "mtp" or ("mtp" in rules_out and "plain" not in rules_out)


def _key(finding: Finding) -> tuple[str, str, str]:
    return finding.code, finding.message, finding.file.name if finding.file is not None else ""
