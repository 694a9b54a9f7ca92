"""Known findings: a file that keeps them silent."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from irtools.errors import UsageError
from irtools.ir.output import write_output
from irtools.lint.engine import Judged, Verification
from irtools.lint.model import Finding

__all__ = ["apply_baseline", "baseline_text", "fingerprints", "read_baseline", "write_baseline"]

_VERSION = 1
_PLACE = re.compile(r"\b(lines?) \d+(?:, column \d+)?|(\.xml):\d+")


def fingerprints(verification: Verification) -> tuple[str, ...]:
    """One fingerprint per finding, in their order.

    It is made of the code, the file below the model directory, the op and the message without line
    numbers, so it survives edits elsewhere in the file and another place of the directory. Findings
    that share all of these are counted.

    Parameters
    ----------
    verification : Verification
    """
    import hashlib  # text has no use for fingerprints

    seen: Counter[str] = Counter()
    found = []
    for finding in verification.findings:
        key = "\0".join((finding.code, _file(finding, verification), finding.op or "", _message(finding)))
        seen[key] += 1
        found.append(hashlib.sha256(f"{key}\0{seen[key]}".encode("utf-8", "surrogatepass")).hexdigest()[:32])
    return tuple(found)


def _file(finding: Finding, verification: Verification) -> str:
    directory = verification.export.directory
    if finding.file is None:
        return ""
    if finding.file.is_relative_to(directory):
        return finding.file.relative_to(directory).as_posix()
    return finding.file.name  # of the draft


def _message(finding: Finding) -> str:
    return _PLACE.sub(r"\1\2", finding.message)


def read_baseline(path: Path) -> Counter[str]:
    """Fingerprints of a baseline file, with how often each occurs.

    Raises
    ------
    UsageError
        It cannot be read, or is no baseline.
    """
    try:
        content = json.loads(path.read_bytes())
        if content["schema_version"] != _VERSION:
            raise ValueError(f"schema_version {content['schema_version']!r}, not {_VERSION}")
        return Counter(str(entry["fingerprint"]) for entry in content["findings"])
    except OSError as error:
        hint = "`--write-baseline` makes one."
        raise UsageError(f"the baseline cannot be read: {error.strerror}", hint=hint, path=path) from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        hint = "Write it again with --write-baseline."
        raise UsageError(f"is no baseline of irtools ({error})", hint=hint, path=path) from error


def apply_baseline(verification: Verification, known: Counter[str]) -> Verification:
    """Leave out the findings that a baseline knows.

    Parameters
    ----------
    verification : Verification
    known : Counter of str
        From :func:`read_baseline`.
    """
    left = Counter(known)
    new = []
    for finding, fingerprint in zip(verification.findings, fingerprints(verification), strict=True):
        if left[fingerprint] > 0:
            left[fingerprint] -= 1
        else:
            new.append(finding)
    return replace(verification, findings=tuple(new), known=len(verification.findings) - len(new))


def baseline_text(verifications: Iterable[Verification]) -> str:
    """Content of a baseline file that knows every finding of some verifications."""
    entries = [
        {
            "fingerprint": fingerprint,
            "code": finding.code,
            "file": _file(finding, verification),
            "op": finding.op,
            "message": _message(finding),
        }
        for verification in verifications
        for finding, fingerprint in zip(verification.findings, fingerprints(verification), strict=True)
    ]
    return json.dumps({"schema_version": _VERSION, "findings": entries}, indent=2) + "\n"


def write_baseline(path: Path, judged: Iterable[Judged]) -> list[Judged]:
    """Write a baseline file that knows every finding.

    Parameters
    ----------
    path : Path
    judged : iterable of Judged

    Returns
    -------
    list of Judged
        The same, with the findings silenced.

    Raises
    ------
    SaveError
        It cannot be written.
    """
    judged = list(judged)
    done = [model.verification for model in judged if model.verification is not None]
    write_output(path, baseline_text(done).encode())
    return [
        replace(model, verification=replace(v, findings=(), known=v.known + len(v.findings))) if v else model
        for model, v in ((model, model.verification) for model in judged)
    ]
