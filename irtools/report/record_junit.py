"""Outcome of ``irtools prove`` or ``irtools bench`` as JUnit XML.

It is valid against both common schemas: that of Jenkins (``junit-10.xsd``) and the stricter one of Apache Ant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree import ElementTree

from irtools.bench.run import gates
from irtools.prove.steps import FAILED, NOT_APPLICABLE, WARNING
from irtools.report.json import ModelResult
from irtools.report.junit import clean, count, document

__all__ = ["record_junit"]


def record_junit(entry: ModelResult, **_: object) -> str:
    """Write a test suite for each step of a proof with a test case for each check, or one with the rows of a benchmark.

    A row that did not run is an error. A minimum that was required and not reached is a failure.
    """
    root = ElementTree.Element("testsuites")
    bench: Any = entry.details.get("bench")
    proof: Any = entry.details.get("proof")
    suites = _bench(entry, bench) if bench is not None else _proof(entry, proof)
    for number, (suite, record) in enumerate(suites):
        attributes = {"id": str(number), "package": "irtools", "hostname": "localhost"}
        suite.attrib.update({**attributes, "timestamp": record.get("date", "1970-01-01T00:00:00")[:19]})
        _finish(suite)
        root.append(suite)
    return document(root)


def _proof(entry: ModelResult, record: Mapping[str, Any]) -> Iterator[tuple[ElementTree.Element, Mapping[str, Any]]]:
    for step in record["steps"]:
        suite = _suite(f"{entry.path} {step['name']}", record, step["timing"]["seconds"])
        group = f"irtools.prove.{step['name']}"
        if step["broken"]:
            _case(suite, group, "completed", "error", step["why"])
        elif step["why"] and not step["checks"]:
            _case(suite, group, "applicable", "skipped", step["why"])
        for check in step["checks"]:
            kinds = {FAILED: "failure", NOT_APPLICABLE: "skipped"}
            texts = [check["did"], check["saw"], check["why"]]
            _case(suite, group, check["name"], kinds.get(check["status"], ""), ": ".join(filter(None, texts)))
            if check["status"] == WARNING:
                _say(suite, f"warning: {check['name']}: {check['saw']}; {check['why']}")
        yield suite, record


def _bench(entry: ModelResult, record: Mapping[str, Any]) -> Iterator[tuple[ElementTree.Element, Mapping[str, Any]]]:
    seconds = [_seconds(row) for row in record["rows"]]
    suite = _suite(entry.path, record, sum(seconds))
    for row, took in zip(record["rows"], seconds, strict=True):
        kind = "" if row["status"] == "ran" else "error"
        case = _case(suite, f"irtools.bench.{row['strategy']}", row["name"], kind, f"{row['status']}: {row['message']}")
        case.set("time", f"{took:.3f}")
    wanted = [name for name in ("min_speedup", "min_acceptance") if record["settings"][name] is not None]
    if wanted:
        missed = "; ".join(gates(record))
        _case(suite, "irtools.bench", " and ".join(wanted), "failure" if missed else "", missed)
    _say(suite, entry.text)
    yield suite, record


def _seconds(row: Mapping[str, Any]) -> float:
    times = (one["load"] + one["warm_up"] + sum(run["seconds"] for run in one["runs"]) for one in row["samples"])
    return float(sum(times))


def _suite(name: str, record: Mapping[str, Any], seconds: float) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", name=clean(name), time=f"{seconds:.3f}")
    properties = ElementTree.SubElement(suite, "properties")
    values = {**record["versions"], "device": record["device"]["name"], "revision": record["model"]["revision"] or ""}
    for key, value in values.items():
        ElementTree.SubElement(properties, "property", name=key, value=clean(value))
    ElementTree.SubElement(suite, "system-out").text = ""
    return suite


def _case(suite: ElementTree.Element, group: str, name: str, kind: str, text: str) -> ElementTree.Element:
    """Add a test case; ``kind`` is ``failure``, ``error``, ``skipped`` or empty."""
    case = ElementTree.Element("testcase", classname=group, name=clean(name), time="0")
    if kind:
        about = {} if kind == "skipped" else {"type": kind, "message": clean(text)}
        ElementTree.SubElement(case, kind, about).text = clean(text)
    suite.insert(len(suite) - 1, case)  # before the output
    return case


def _say(suite: ElementTree.Element, text: str) -> None:
    output = suite[-1]
    output.text = clean("\n".join(filter(None, (output.text, text))))


def _finish(suite: ElementTree.Element) -> None:
    ElementTree.SubElement(suite, "system-err")
    count(suite)
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
