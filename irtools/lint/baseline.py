"""Baselines: files of known findings that are not reported again."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from irtools.errors import UsageError, os_reason
from irtools.ir.output import write_output
from irtools.ir.reading import parse_json, read_file
from irtools.lint.engine import ModelVerification, Verification
from irtools.lint.finding import Finding

__all__ = ["apply_baseline", "baseline_text", "fingerprints", "read_baseline", "write_baseline"]

_VERSION = 1
_PLACE = re.compile(r"\b(lines?) \d+(?:, column \d+)?|(\.xml):\d+")


def fingerprints(verification: Verification) -> tuple[str, ...]:
    """One fingerprint per finding, in their order.

    A fingerprint covers the code, the file path relative to the model directory, the op and the message
    without line numbers. It therefore survives edits elsewhere in the file and a move of the directory.
    A counter distinguishes findings that share all of these.
    """
    import hashlib  # only the formats with fingerprints need it

    seen: Counter[str] = Counter()
    digests = []
    for finding in verification.findings:
        key = "\0".join((finding.code, _file(finding, verification), finding.op or "", _message(finding)))
        seen[key] += 1
        digests.append(hashlib.sha256(f"{key}\0{seen[key]}".encode("utf-8", "surrogatepass")).hexdigest()[:32])
    return tuple(digests)


def _file(finding: Finding, verification: Verification) -> str:
    directory = verification.export.directory
    if finding.file is None:
        return ""
    if finding.file.is_relative_to(directory):
        return finding.file.relative_to(directory).as_posix()
    return finding.file.name  # a file of the draft


def _message(finding: Finding) -> str:
    return _PLACE.sub(r"\1\2", finding.message)


def read_baseline(path: Path) -> Counter[str]:
    """Count the fingerprints of a baseline file; raises ``UsageError`` if it is unreadable or not a baseline."""
    try:
        content = parse_json(read_file(path, "baseline"))
        if content["schema_version"] != _VERSION:
            raise ValueError(f"schema_version {content['schema_version']!r}, not {_VERSION}")
        return Counter(str(entry["fingerprint"]) for entry in content["findings"])
    except OSError as error:
        hint = "Create one with --write-baseline."
        raise UsageError(f"the baseline cannot be read: {os_reason(error)}", hint=hint, path=path) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        hint = "Create it again with --write-baseline."
        raise UsageError(f"is not an irtools baseline ({error})", hint=hint, path=path) from error


def apply_baseline(verification: Verification, known: Counter[str]) -> Verification:
    """Remove the findings that a baseline lists.

    Parameters
    ----------
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
    return replace(verification, findings=tuple(new), in_baseline=len(verification.findings) - len(new))


def baseline_text(verifications: Iterable[Verification]) -> str:
    """Content of a baseline file with every finding of the given verifications."""
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


def write_baseline(path: Path, models: Iterable[ModelVerification]) -> list[ModelVerification]:
    """Write a baseline file with every finding; return the models without these findings."""
    models = list(models)
    done = [model.verification for model in models if model.verification is not None]
    write_output(path, baseline_text(done).encode(), [one.export.directory for one in done])
    return [
        replace(model, verification=replace(v, findings=(), in_baseline=v.in_baseline + len(v.findings)))
        if (v := model.verification)
        else model
        for model in models
    ]
