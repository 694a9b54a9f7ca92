"""What moved between two records of a proof."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from irtools.errors import OptionError
from irtools.ir.reading import read_file
from irtools.prove.decoding import first_difference
from irtools.prove.record import RECORD_VERSION, settled

__all__ = ["Change", "changes", "read_record"]

_KEYS = ("name", "number")
"""What an item of a list goes by, if it has one of these."""
_MOVED = 1.2
"""Times, speeds and memory that changed by less than this factor are not told: two runs differ by as much."""
_WORDS = ("did", "saw", "why", "continuation")
"""Put into words what figures say too."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is not as it was.

    Attributes
    ----------
    what : str
        Keys from the outside in, with ``/`` between.
    before, now : str
        As text; ``""`` where there is none.
    ratio : float or None
        Of a time or speed: now by before.
    """

    what: str
    before: str
    now: str
    ratio: float | None = None


def read_record(path: Path) -> Mapping[str, Any]:
    """The record in a file that ``irtools prove --format json`` wrote.

    Raises
    ------
    OptionError
        There is none in it.
    """
    try:
        content = json.loads(read_file(path))
    except OSError as error:
        raise OptionError(f"{path}: cannot be read: {(error.strerror or type(error).__name__).lower()}") from error
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{path}: is not valid JSON; give what `irtools prove --format json` wrote") from error
    if isinstance(content, dict) and isinstance(content.get("models"), list) and content["models"]:
        content = content["models"][0]
    if isinstance(content, dict) and isinstance(content.get("proof"), dict):
        content = content["proof"]
    version = content.get("record_version") if isinstance(content, dict) else None
    if type(version) is not int:  # True is no version
        raise OptionError(f"{path}: holds no record of a proof; give what `irtools prove --format json` wrote")
    if version != RECORD_VERSION:
        raise OptionError(
            f"{path}: holds a record of version {version}, and versions are compared with {RECORD_VERSION} only; "
            "prove once more and keep what `irtools prove --format json` writes"
        )
    found: Mapping[str, Any] = content
    return found


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Change, ...]:
    """What moved from one record to another: first what does not depend on the moment, then speeds and times.

    Parameters
    ----------
    old, new : mapping
        Records.
    """
    before, now = dict(_leaves(settled(old), "")), dict(_leaves(settled(new), ""))
    alone = _places(before) ^ _places(now)
    found = [
        Change(what, *_shown(before.get(what), now.get(what)))
        for what in dict.fromkeys((*before, *now))
        if before.get(what) != now.get(what) and not _told_by_status(what, alone)
    ]
    advised, advice = _recommended(old), _recommended(new)
    if advised != advice:
        found.append(Change("steps/runtime/recommendation", advised or "", advice or ""))
    then, after = dict(_speeds(old)), dict(_speeds(new))
    for what in then.keys() & after.keys():
        ratio = after[what] / then[what]
        if not 1 / _MOVED < ratio < _MOVED:
            found.append(Change(what, f"{then[what]:.3g}", f"{after[what]:.3g}", ratio))
    return (*(c for c in found if c.ratio is None), *sorted((c for c in found if c.ratio is not None), key=_what))


def _what(change: Change) -> str:
    return change.what


def _places(leaves: Mapping[str, Any]) -> set[str]:
    """Where the steps and the checks of a record are."""
    return {what.removesuffix("/status") for what in leaves if what.endswith("/status")}


def _told_by_status(what: str, alone: set[str]) -> bool:
    """Whether something is part of a step or check that only one of the records has: its status says that."""
    parts = what.split("/")
    above = ["/".join(parts[:length]) for length in range(1, len(parts))]
    outermost = next((place for place in above if place in alone), None)
    return outermost is not None and what != f"{outermost}/status"


def _leaves(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Every value by its place; a list of numbers or words is one."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key not in _WORDS:
                yield from _leaves(item, f"{where}/{key}" if where else key)
    elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        for number, item in enumerate(value):
            named = {key: inner for key, inner in item.items() if key not in _KEYS}
            yield from _leaves(named, f"{where}/{_name(item, number)}")
    else:
        yield where, value


def _name(item: Mapping[str, Any], number: int) -> str:
    names = [item[key] for key in _KEYS if key in item]
    return str(names[0]) if names else str(number)


def _shown(before: Any, now: Any) -> tuple[str, str]:
    if isinstance(before, list) and isinstance(now, list):
        place = first_difference(before, now)
        if place is not None:
            return _part(before, place), _part(now, place)
    return _text(before), _text(now)


def _part(values: Sequence[Any], place: int) -> str:
    """A list from where it differs."""
    shown = " ".join(str(value) for value in values[place : place + 4])
    return f"from item {place}: {shown or 'nothing'}{' ...' if len(values) > place + 4 else ''}"


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _speeds(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Times, speeds and memory of each step; those of decoding by number of assistant tokens."""
    for step in _dicts(record.get("steps")):
        place = f"steps/{step.get('name')}"
        yield from _numbers(step.get("timing"), place)
        for timing in _timings(step):
            yield from _numbers({key: item for key, item in timing.items() if key != "recommendation"}, place)


def _recommended(record: Mapping[str, Any]) -> str | None:
    """The number of assistant tokens that is recommended; None where nothing was measured."""
    for step in _dicts(record.get("steps")):
        for timing in _timings(step):
            advice = timing.get("recommendation")
            if isinstance(advice, Mapping):
                return str(advice.get("assistant_tokens") or "off")
    return None


def _timings(step: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for check in _dicts(step.get("checks")):
        figures = check.get("figures")
        timing = figures.get("timing") if isinstance(figures, Mapping) else None
        if isinstance(timing, Mapping):
            yield timing


def _numbers(value: Any, where: str) -> Iterator[tuple[str, float]]:
    """The positive numbers in a part of a record by their places; not those of single prompts."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if isinstance(item, list):
                for row in _dicts(item) if key != "prompts" else []:
                    named = {inner: number for inner, number in row.items() if inner not in _KEYS}
                    yield from _numbers(named, f"{where}/{_name(row, 0)}")
            else:
                yield from _numbers(item, f"{where}/{key}")
    elif isinstance(value, int | float) and value > 0:
        yield where, float(value)


def _dicts(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
