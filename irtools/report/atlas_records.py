"""Measurements of an export from the records of ``irtools prove`` and ``irtools bench`` in and beside its directory.

A record counts only if it is about the very files of the export: names, sizes and hashes of the IRs and weights.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from irtools.ir.reading import open_file, parse_json, read_file
from irtools.model.directory import ModelDirectory
from irtools.prove.evidence import HEADS, WHOLE, changed_file, file_marks
from irtools.prove.record import RECORD_VERSIONS
from irtools.prove.record_changes import WRITERS, unwrapped
from irtools.prove.wording import verdict
from irtools.report.atlas_row import Measurement
from irtools.text import shortened

__all__ = ["measurements"]

_BEGINNING = 512
_SIGNS = re.compile(rb'"(?:schema_version|record_version|kind)"')
"""One of the first keys of a record, with the envelope around it or without."""
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{5,15}(?:Z|[+-][0-9:]{4,5})?")
_DAMAGED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_FOLDERS = 16
"""Folders whose records are kept; the exports of one folder follow each other."""
_MOST_BYTES = 64 << 30
"""Bytes of an export that are hashed: a sparse file of terabytes takes a few kilobytes in an archive."""
_MOST = 1000
"""Measurements that are taken from one record."""


_Key = frozenset[tuple[str, int]]
"""Names and sizes of the IRs and weights of a directory."""


@dataclass(frozen=True, slots=True)
class _About:
    """A model directory that a record is about, and what was measured of it."""

    name: str
    files: Mapping[str, Mapping[str, Any]]
    measured: tuple[Measurement, ...]

    @property
    def key(self) -> _Key:
        return frozenset((name, mark["size"]) for name, mark in self.files.items())


@dataclass(frozen=True, slots=True)
class _Record:
    """A file with a record: the directories that it is about, or its fault."""

    file: str
    about: tuple[_About, ...] = ()
    fault: str = ""


class _Folder:
    """Records in a folder, by the directories that they are about: thousands of exports can lie beside as many."""

    def __init__(self, records: Iterable[_Record] = ()) -> None:
        self.records = tuple(records)
        self._near: dict[_Key | str, dict[str, _Record]] = {}
        for record in self.records:
            for about in record.about:
                for key in (about.key, about.name):
                    self._near.setdefault(key, {})[record.file] = record

    def near(self, name: str, key: _Key) -> list[_Record]:
        """Records about a directory of this name or with files of these sizes."""
        found = {**self._near.get(name, {}), **self._near.get(key, {})}
        return [found[file] for file in sorted(found)]


def measurements(export: ModelDirectory) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """Measurements of an export, the newest first, and the records that are about other files, with the reason.

    A record in the directory, or one beside it that names a directory like this one, is expected to be about the
    export. Others beside it, which are those of its neighbours, are passed over.
    """
    directory = Path(os.path.abspath(export.directory))  # noqa: PTH100  # a link has its own neighbours
    key = _key(directory)
    found: list[Measurement] = []
    others: list[str] = []
    marks: dict[str, dict[str, Any]] = {}
    inside = [("", record) for record in _records(directory).records]
    for prefix, record in (*inside, *(("../", one) for one in _records(directory.parent).near(directory.name, key))):
        reasons = [record.fault] if record.fault else []
        for about in record.about:
            if about.key != key:
                reason = _other_size(about.key, key)
            elif sum(size for name, size in key if size <= WHOLE or name in HEADS) > _MOST_BYTES:
                reason = "it covers too many bytes to hash here; `irtools report --proof` and `--bench` read it"
            else:
                marks = marks or file_marks(directory, names={name for name, _ in key})
                reason = changed_file(about.files, marks)
            if not reason:
                found += [replace(one, file=f"{prefix}{record.file}") for one in about.measured]
                reasons = []
                break
            if not prefix or about.name == directory.name:
                reasons.append(reason)
        if reasons:
            others.append(shortened(f"{prefix}{record.file}: {reasons[0]}"))
    return tuple(sorted(found, key=lambda one: (one.date, one.kind), reverse=True)), tuple(others)


def _key(directory: Path) -> _Key:
    with suppress(OSError), os.scandir(directory) as entries:
        return frozenset((one.name, one.stat().st_size) for one in entries if _counts(one.name) and one.is_file())
    return frozenset()


def _counts(name: str) -> bool:
    """True for the files that decide whether a record is about an export."""
    return name.endswith((".xml", ".bin")) and "tokenizer" not in name


def _other_size(then: _Key, now: _Key) -> str:
    """The first file of which a record and a directory have other sizes, as ``changed_file`` names it."""
    marks = [{name: {"size": size} for name, size in key} for key in (then, now)]
    return changed_file(*marks)


def _records(folder: Path) -> _Folder:
    """Records in a folder; they are read once, however many exports lie there."""
    try:
        return _read(folder, folder.stat().st_mtime_ns)
    except OSError:
        return _Folder()


@lru_cache(_FOLDERS)
def _read(folder: Path, _changed: int) -> _Folder:
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if entry.name.lower().endswith(".json"))
    return _Folder(record for name in names if (record := _record(folder / name)) is not None)


def _record(path: Path) -> _Record | None:
    """The record in a file; None for any other JSON file."""
    try:
        with open_file(path) as file:
            if _SIGNS.search(file.read(_BEGINNING)) is None:
                return None
        record = unwrapped(parse_json(read_file(path, "record")))
    except (OSError, ValueError):
        return None
    if not isinstance(record, dict) or type(record.get("record_version")) is not int:
        return None
    kind = record.get("kind", "proof")
    if kind not in WRITERS:
        return None
    if record["record_version"] != RECORD_VERSIONS[kind]:
        return _Record(path.name, fault=f"holds a record of version {record['record_version']}, which is not read")
    try:
        return _Record(path.name, tuple(_abouts(record, kind)))
    except _DAMAGED:
        command, title = WRITERS[kind]
        return _Record(path.name, fault=f"the record of the {title} is damaged; run `irtools {command}` again")


def _abouts(record: Mapping[str, Any], kind: str) -> Iterator[_About]:
    """The target of a record and its drafts."""
    rows = _bench_rows if kind == "bench" else _proof_rows
    yield _about(record["model"], rows(record, None))
    drafts = record.get("drafts", ()) if kind == "bench" else filter(None, [record.get("draft")])
    for draft in drafts:
        yield _about(draft, rows(record, draft["path"]))


def _about(model: Mapping[str, Any], measured: Iterator[Measurement]) -> _About:
    files = {name: {**mark, "size": int(mark["size"])} for name, mark in model["files"].items() if _counts(name)}
    taken = tuple(one for _, one in zip(range(_MOST), measured, strict=False))
    return _About(Path(str(model["path"])).name, files, taken)


def _bench_rows(record: Mapping[str, Any], draft: str | None) -> Iterator[Measurement]:
    """The row that a benchmark recommends, or else the fastest that drafts with these files as they are.

    Temporary copies and other exports that were measured with this one do not count.
    """
    recommended: Mapping[str, Any] = record["recommendation"]
    rows: list[Mapping[str, Any]] = [
        row
        for row in record["rows"]
        if row["assistant_tokens"] and not row["copy"] and _draft_fits(row, record["model"]["path"], draft)
    ]
    measured = [row for row in rows if row["figures"]["speed_up"] is not None or row["figures"]["acceptance"]]
    if not measured:
        return
    best = next((row for row in measured if row["name"] == recommended["row"]), None)
    speed_up = recommended["speed_up"] if best is not None else None
    best = best or max(measured, key=lambda row: _median(row["figures"]["speed_up"]) or 0.0)
    speed_up = speed_up or best["figures"]["speed_up"] or {}
    yield Measurement(
        "bench",
        "",
        *_conditions(record),
        shortened(str(best["name"])),
        int(best["assistant_tokens"]),
        _median(best["figures"]["acceptance"]),
        _number(speed_up.get("median")),
        _number(speed_up.get("low")),
        _number(speed_up.get("high")),
        shortened(str(best["decision"] or "")),
    )


def _draft_fits(row: Mapping[str, Any], model: str, draft: str | None) -> bool:
    return bool(row["draft"] == draft if draft is not None else row["model"] == model)


def _proof_rows(record: Mapping[str, Any], _draft: str | None) -> Iterator[Measurement]:
    """The acceptance of a proof, for each number of tokens that were drafted at a time."""
    steps: Sequence[Mapping[str, Any]] = record["steps"]
    result = verdict({step["name"]: step["status"] for step in steps})
    for check in (check for step in steps for check in step["checks"] if check["name"] == "acceptance"):
        for counts in check["figures"].get("assistant_tokens", ()):
            number = int(counts["number"])
            name = f"{record.get('drafting') or 'draft'} {number}"
            rate = _number(counts["acceptance"])
            about = *_conditions(record), shortened(name)
            yield Measurement("proof", "", *about, number, rate, result=shortened(result))


def _conditions(record: Mapping[str, Any]) -> tuple[str, str, str]:
    """Date, device and its full name."""
    date, device = record.get("date"), record["device"]
    known = date if isinstance(date, str) and _DATE.fullmatch(date) else ""
    return known, shortened(str(device["name"])), shortened(str(device.get("full_name") or ""))


def _median(figure: Mapping[str, Any] | None) -> float | None:
    return _number(figure["median"]) if figure else None


def _number(value: object) -> float | None:
    """A finite number of at least 0; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    with suppress(OverflowError):
        return float(value) if math.isfinite(value) and value >= 0 else None
    return None
