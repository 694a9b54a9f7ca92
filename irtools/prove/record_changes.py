"""Changes between two records of a proof or a benchmark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from irtools.errors import OptionError, os_reason
from irtools.ir.reading import parse_json, read_file
from irtools.prove.decoding import first_difference
from irtools.prove.evidence import TIMING
from irtools.prove.record import RECORD_VERSIONS, settled
from irtools.text import size_text

__all__ = ["WRITERS", "RecordChange", "changes", "read_record", "unwrapped"]

WRITERS = {"proof": ("prove", "proof"), "bench": ("bench", "benchmark")}
"""Command that writes a record, and what the record is of, by kind."""
_KEYS = ("name", "number", "class")
"""Keys that identify an item of a list."""
_MOVED = 1.2
"""Minimum factor for a reported change of the time of a step: two runs with the same settings may differ by less."""
_WORDS = ("did", "saw", "why", "continuation")
"""Keys of text that repeats the figures."""
_DERIVED = ("samples", "repetitions", "break_even", "acceptance_by_position", "policy")
"""Keys of single times of a benchmark, and of what follows from other keys."""
_DRAFT = re.compile(r"drafts/\d+")
_UNTIMED = ("load", "warm_up")
"""Figures of a benchmark that are not part of the timed runs."""
_CONDITIONS = ("model", "draft", "drafts", "drafting", "device", "versions", "machine", "settings", "prompts")
"""Keys of the conditions of a measurement; those that explain most come first."""
_SINCE = re.compile(r"machine/.*|device/(?!name$|properties/).*|(?:.*/)?weights/.*|(?:.*/)?sha256(?:_of_samples)?")
"""Conditions that older records do not have, or only in some cases: if one of two has none, nothing is known."""
_FEWEST = 2
"""Repetitions without which an interval says nothing about other runs."""
_BUSIER = 0.25
"""Smallest difference of the load for each CPU that is a change."""


@dataclass(frozen=True, slots=True)
class RecordChange:
    """One changed value.

    Attributes
    ----------
    what : str
        Keys from the outermost to the innermost, joined by ``/``.
    before, now : str
        Value as text; ``""`` if the record has none.
    ratio : float or None
        For a time or a figure of a benchmark: now divided by before.
    condition : bool
        True for a condition of the measurement, false for a figure.
    """

    what: str
    before: str
    now: str
    ratio: float | None = None
    condition: bool = False


def unwrapped(content: Any) -> Any:
    """The record in the content of a file: the content itself, or that of the envelope around it."""
    if isinstance(content, dict) and isinstance(content.get("models"), list) and content["models"]:
        content = content["models"][0]
    if isinstance(content, dict):
        content = next((content[one] for one in WRITERS if isinstance(content.get(one), dict)), content)
    return content


def read_record(path: Path, kind: str = "proof") -> Mapping[str, Any]:
    """Read the record from a file that ``irtools prove`` or, with the kind ``bench``, ``irtools bench`` wrote.

    Raises
    ------
    OptionError
        The file cannot be read or holds no record of this kind and of the current version.
    """
    command, title = WRITERS[kind]
    give = f"give a file that `irtools {command} -o FILE.json` wrote"
    try:
        content = parse_json(read_file(path, "record"))
    except OSError as error:
        raise OptionError(f"{path}: cannot be read: {os_reason(error)}") from error
    except ValueError as error:
        raise OptionError(f"{path}: is not valid JSON; {give}") from error
    content = unwrapped(content)
    version = content.get("record_version") if isinstance(content, dict) else None
    if type(version) is not int:  # True is an int too
        raise OptionError(f"{path}: holds no record of a {title}; {give}")
    held = content.get("kind", "proof")  # the record of a proof has no such key
    if held != kind:
        other = f"of a {WRITERS[held][1]}, not " if held in WRITERS else "of another kind, not "
        raise OptionError(f"{path}: holds a record {other}of a {title}; {give}")
    if version != RECORD_VERSIONS[kind]:
        raise OptionError(
            f"{path}: holds a record of version {version}, but only version {RECORD_VERSIONS[kind]} can be read; "
            f"write a new one with `irtools {command} MODEL_DIR -o FILE.json`"
        )
    record: Mapping[str, Any] = content
    return record


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[RecordChange, ...]:
    """Changes from one record to another: conditions, then reproducible figures, then times and other measurements."""
    before, now = dict(_leaves(settled(old), "")), dict(_leaves(settled(new), ""))
    alone = _places(before) ^ _places(now)
    drafts = {found[0] for what in before.keys() ^ now.keys() if (found := _DRAFT.match(what))}
    alone |= {one for one in drafts if f"{one}/path" not in before or f"{one}/path" not in now}
    changed = [
        RecordChange(what, *_shown(before.get(what), now.get(what)), condition=_top(what) in _CONDITIONS)
        for what in dict.fromkeys((*before, *now))
        if before.get(what) != now.get(what) and not _covered_by_status(what, alone) and not _unknown(what, before, now)
    ]
    conditions = [*_once(one for one in changed if one.condition), *_busier(old, new)]
    figures = [one for one in changed if not one.condition]
    then, after = dict(_times(old)), dict(_times(new))
    for what in sorted(then.keys() & after.keys()):
        ratio = after[what] / then[what]
        if not 1 / _MOVED < ratio < _MOVED:
            figures.append(RecordChange(what, f"{then[what]:.3g}", f"{after[what]:.3g}", ratio))
    figures += _measured(old, new)
    return (*sorted(conditions, key=lambda one: _CONDITIONS.index(_top(one.what))), *figures)


def _is_figure(value: Any) -> bool:
    """True for a figure of a benchmark: a median with its interval."""
    return isinstance(value, Mapping) and {"median", "low", "high"} <= value.keys()


def _measured(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[RecordChange]:
    """Figures of a benchmark whose intervals do not overlap."""
    if any(record.get("settings", {}).get("repeat", 1) < _FEWEST for record in (old, new)):
        return
    then, now = dict(_figures(old)), dict(_figures(new))
    for what in [what for what in then if what in now]:
        one, other = then[what], now[what]
        highs = (one["high"], other["high"])
        if None not in highs and (one["high"] < other["low"] or other["high"] < one["low"]):
            before, after = (
                "{} ({} to {})".format(*(_amount(each[key], each.get("unit")) for key in ("median", "low", "high")))
                for each in (one, other)
            )
            yield RecordChange(what, before, after, other["median"] / one["median"] if one["median"] else None)


def _amount(value: float, unit: str | None) -> str:
    if unit == "bytes":
        return size_text(value)
    if unit == "s":
        return f"{value:.3g} s" if value >= 1 else f"{1000 * value:.3g} ms"
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _figures(record: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for row in _dicts(record.get("rows")):
        for key, figure in row["figures"].items():
            if _is_figure(figure) and key not in _UNTIMED:
                yield f"rows/{row['name']}/{key}", figure
    for one in _dicts(record.get("classes")):
        for key in ("speed_up", "acceptance"):
            if _is_figure(one[key]):
                yield f"classes/{one['class']}/{key}", one[key]


def _top(what: str) -> str:
    return what.split("/", 1)[0]


def _unknown(what: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    return bool(_SINCE.fullmatch(what)) and (before.get(what) is None or now.get(what) is None)


def _once(changed: Iterable[RecordChange]) -> list[RecordChange]:
    """The changes without a property of the device that a property of the compiled target repeats."""
    changed = list(changed)
    compiled = {one.what.rpartition("/")[2] for one in changed if one.what.startswith("device/effective/target/")}
    repeats = {f"device/{place}/{name}" for name in compiled for place in ("properties", "defaults")}
    return [one for one in changed if one.what not in repeats]


def _busier(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[RecordChange]:
    """Change of the load of the machine, if it is large for its CPUs."""
    then, now, cpus = _load(old), _load(new), new.get("machine", {}).get("cpus")
    if then is not None and now is not None and isinstance(cpus, int) and abs(then - now) > _BUSIER * cpus:
        yield RecordChange("machine/load", f"{then:.2g}", f"{now:.2g}", condition=True)


def _load(record: Mapping[str, Any]) -> float | None:
    """Larger of the load averages at the begin and at the end, over a minute."""
    machine = record.get("machine")
    timing = machine.get(TIMING) if isinstance(machine, Mapping) else None
    averages = [timing.get(key) for key in ("load_start", "load_end")] if isinstance(timing, Mapping) else []
    return max((float(one[0]) for one in averages if isinstance(one, list) and one), default=None)


def _places(leaves: Mapping[str, Any]) -> set[str]:
    """Paths of the steps and checks of a record."""
    return {what.removesuffix("/status") for what in leaves if what.endswith("/status")}


def _covered_by_status(what: str, alone: set[str]) -> bool:
    """True if a value is part of a step, check or draft in only one record; its status or path shows that."""
    parts = what.split("/")
    above = ["/".join(parts[:length]) for length in range(1, len(parts))]
    outermost = next((place for place in above if place in alone), None)
    return outermost is not None and what not in (f"{outermost}/status", f"{outermost}/path")


def _leaves(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Every value by its path, without figures of a benchmark; a list of numbers or words is one value."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key not in (*_WORDS, *_DERIVED) and not _is_figure(item) and not (key == "rows" and where):
                yield from _leaves(item, f"{where}/{key}" if where else key)
    elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        names = [_name(item, number) for number, item in enumerate(value)]
        unique = len(set(names)) == len(names)
        for number, item in enumerate(value):
            named = {key: inner for key, inner in item.items() if key not in _KEYS} if unique else item
            yield from _leaves(named, f"{where}/{names[number] if unique else number}")
    elif where != "drafts":  # no draft
        yield where, value


def _name(item: Mapping[str, Any], number: int) -> str:
    return next((str(item[key]) for key in _KEYS if key in item), str(number))


def _shown(before: Any, now: Any) -> tuple[str, str]:
    if isinstance(before, list) and isinstance(now, list):
        place = first_difference(before, now)
        if place is not None:
            return _part(before, place), _part(now, place)
    return _text(before), _text(now)


def _part(values: Sequence[Any], place: int) -> str:
    """First items of a list from the first difference on."""
    shown = " ".join(str(value) for value in values[place : place + 4])
    return f"from item {place}: {shown or 'nothing'}{' ...' if len(values) > place + 4 else ''}"


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _times(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Seconds of each step."""
    for step in _dicts(record.get("steps")):
        timing = step.get(TIMING)
        seconds = timing.get("seconds") if isinstance(timing, Mapping) else None
        if isinstance(seconds, int | float) and seconds > 0:
            yield f"steps/{step.get('name')}/seconds", float(seconds)


def _dicts(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
