"""Findings as JUnit XML, which most CI systems read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from irtools.lint.engine import ModelVerification, Verification
from irtools.lint.finding import Finding, Severity
from irtools.report.findings import shown_path

__all__ = ["clean", "count", "document", "junit"]

# XML 1.0 cannot represent these characters, not even as references.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(models: Sequence[ModelVerification], **_: object) -> str:
    """Write one test suite per model with one test case per rule, as XML with a final newline.

    A test case fails if its rule has findings at or above the threshold; findings below it become its output.
    """
    root = ElementTree.Element("testsuites", name="irtools verify")
    for model in models:
        suite = ElementTree.SubElement(root, "testsuite", name=clean(str(model.path)))
        if model.verification is not None:
            _add_rules(suite, model.verification, model.threshold)
        else:
            case = ElementTree.SubElement(suite, "testcase", classname="irtools", name="verify")
            ElementTree.SubElement(case, "error", type="error", message=clean(model.error or "not verified"))
        count(suite)
    count(root)
    return document(root)


def document(root: ElementTree.Element) -> str:
    """Write a whole document, with a final newline."""
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _add_rules(suite: ElementTree.Element, verification: Verification, threshold: Severity) -> None:
    names = {rule.code: rule.name for rule in verification.rules}
    by_code: dict[str, list[Finding]] = {code: [] for code in names}
    for finding in verification.findings:
        by_code.setdefault(finding.code, []).append(finding)
    for code, findings in by_code.items():
        group = code.rstrip("0123456789")
        name = f"{code} {names[code]}" if code in names else code
        case = ElementTree.SubElement(suite, "testcase", classname=f"irtools.{group}", name=clean(name))
        failing = [f for f in findings if (f.severity or Severity.ERROR) >= threshold]
        rest = [f for f in findings if f not in failing]
        if failing:
            worst = str(max(finding.severity or Severity.ERROR for finding in failing))
            more = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
            failure = ElementTree.SubElement(
                case, "failure", type=worst, message=clean(_line(failing[0], verification) + more)
            )
            failure.text = clean("\n".join(_line(finding, verification) for finding in failing))
        if rest:
            output = ElementTree.SubElement(case, "system-out")
            output.text = clean("\n".join(f"{f.severity}: {_line(f, verification)}" for f in rest))


def _line(finding: Finding, verification: Verification) -> str:
    place = shown_path(finding.file, verification.export.directory) if finding.file is not None else ""
    if finding.line is not None:
        place += f":{finding.line}"
    return f"{place}: {finding.text}" if place else finding.text


def count(element: ElementTree.Element) -> None:
    """Set the numbers of test cases, failures and errors."""
    cases = list(element.iter("testcase"))
    element.set("tests", str(len(cases)))
    element.set("failures", str(sum(case.find("failure") is not None for case in cases)))
    element.set("errors", str(sum(case.find("error") is not None for case in cases)))


def clean(text: str) -> str:
    """Replace characters that XML cannot represent."""
    return _FORBIDDEN.sub("\ufffd", text)
