"""Outcome of ``irtools bench`` as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from irtools.bench.decision import FEWEST, OFF, ON
from irtools.bench.figures import Row, row_figures, speed_ups
from irtools.bench.intervals import BEYOND
from irtools.bench.samples import RAN
from irtools.bench.schedule import Progress
from irtools.report.record_figures import break_even_text, has_interval, number_text, seconds_text
from irtools.report.terminal import Column, Style, numbers, paragraph, table
from irtools.text import plural, size_text

__all__ = ["bench_text", "progress_text", "row_notes", "row_text", "verdict_reason"]

_COLOURS = {"on": "green", "off": "cyan", "undecided": "yellow"}
_BUSY = 0.5
"""Load of a core above which the machine had other work."""
_MANY = 0.1
"""Share of the time in the first pass above which a note says so."""

Figure = Mapping[str, Any]


def progress_text(progress: Progress) -> str:
    """The row that runs, its repetition and the time left, on one line."""
    left = f", {_duration(progress.left)} left" if progress.left is not None else ""
    return f"{progress.row}, repetition {progress.repetition} of {progress.repeat}{left}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"about {max(round(seconds), 1)} s"
    return f"about {round(seconds / 60)} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


def row_text(row: Row, plain: Row | None) -> str:
    """A finished row on one line."""
    if row.status != RAN and not row.runs():
        return f"{row.contender.name}: {row.status}: {row.message}"
    figures = row_figures(row)
    speed, rate = figures["tokens_per_second"], figures["acceptance"]
    parts = [f"{speed.median:.1f} tokens/s"] if speed else []
    if ratio := speed_ups([row], plain).get(row.contender.name):
        shown = ratio.figure().to_json()
        parts.append(f"{_with_interval(shown, number_text)} times plain")
    parts += [f"{rate.median:.0%} accepted"] if rate else []
    parts += [f"{row.status} in one repetition: {row.message}"] if row.status != RAN else []
    return f"{row.contender.name}: {', '.join(parts)}"


def bench_text(record: Mapping[str, Any], missed: Sequence[str], style: Style) -> str:
    """Verdict, tables and notes, without a final newline."""
    return "\n".join(_lines(record, missed, style))


def _lines(record: Mapping[str, Any], missed: Sequence[str], style: Style) -> Iterator[str]:
    yield from _verdict(record, style)
    yield from (paragraph(f"{style.paint('failed', 'red')}: {one}", style) for one in missed)
    device = record["device"]
    name = device["properties"].get("FULL_DEVICE_NAME")
    where = f"{device['name']} ({name})" if name else device["name"]
    settings = record["settings"]
    runs = f"{plural(settings['repeat'], 'repetition')}, {plural(len(record['prompts']), 'prompt')}"
    yield ""
    yield paragraph(
        f"{record['model']['path']} on {where}: {runs}, {settings['max_new_tokens']} new tokens each", style
    )
    if record["interrupted"]:
        yield paragraph("interrupted: the figures are those of the rows that were done", style)
    ran = [row for row in record["rows"] if row["figures"]["tokens_per_second"]]
    if ran:
        yield from ("", _speeds(ran, style), "", _times_table(ran, style))
        if any(row["acceptance_by_position"] for row in ran):
            yield from ("", _acceptance(ran, style))
        yield from ("", _costs(ran, style))
        if len(record["classes"]) > 1:
            yield from ("", _classes(record["classes"], style))
    for row in record["rows"]:
        if row["status"] != RAN:
            yield ""
            yield paragraph(f"{row['name']}: {style.paint(row['status'], 'red')}: {row['message']}", style)
    if notes := [*_notes(record, ran)]:
        yield ""
        yield from (paragraph(note, style) for note in notes)


def _verdict(record: Mapping[str, Any], style: Style) -> Iterator[str]:
    found = record["recommendation"]
    word = style.paint(found["decision"], "bold", _COLOURS[found["decision"]])
    yield paragraph(f"{word}: {verdict_reason(record)}", style)
    classes = record["policy"]["classes"]
    if found["row"] and len(classes) > 1:
        yield paragraph("; ".join(f"{name}: {_rule(rule)}" for name, rule in classes.items()), style)


def _rule(rule: Mapping[str, Any]) -> str:
    if rule["measured"] == ON:
        return f"on with {rule['assistant_tokens']}"
    return OFF if rule["measured"] == OFF else "undecided"


def verdict_reason(record: Mapping[str, Any]) -> str:
    """What to do and why, as a clause after the decision."""
    found = record["recommendation"]
    speed_up = found["speed_up"]
    if speed_up is None:
        drafts = any(row["assistant_tokens"] for row in record["rows"])
        return "no row that drafts could be compared" if drafts else "there is no draft to compare; give --draft"
    figures = f"{_with_interval(speed_up, number_text)} times the speed of plain decoding"
    if found["decision"] == ON:
        return f"draft {found['assistant_tokens']} at a time, as {found['row']} does: {figures}"
    if found["decision"] == OFF:
        return f"leave drafting off: the fastest row, {found['row']}, has {figures}"
    row = next(row for row in record["rows"] if row["name"] == found["row"])
    if few := _few(row):
        return f"the fastest row, {found['row']}, has {figures}; {few}"
    if _impossible(row, record):
        per_pass = number_text(row["figures"]["tokens_per_pass"]["median"])
        more = f"that is more than its {per_pass} tokens per pass allow, so other work disturbed the runs; repeat them"
        return f"the fastest row, {found['row']}, has {figures}; {more} on a machine without other work"
    more = "the interval leaves both open; more --repeat, or a machine without other work, makes it narrower"
    if speed_up["low"] > 1:
        more = f"a gain below {record['settings']['worth_it']:g} is no reason to draft"
    return f"the fastest row, {found['row']}, has {figures}; {more}"


def _speeds(rows: Sequence[Mapping[str, Any]], style: Style) -> str:
    columns = [Column("row", fold="words"), *numbers("tokens/s", "speed-up", fold="words"), Column("verdict")]
    cells = [
        [
            row["name"],
            _of(row, "tokens_per_second", number_text),
            _of(row, "speed_up", number_text),
            row["decision"] or "",
        ]
        for row in rows
    ]
    return table(columns, cells, style)


def _times_table(rows: Sequence[Mapping[str, Any]], style: Style) -> str:
    titles = ("prompt tokens/s", "first token", "per token", "tokens per pass", "draft's share")
    figures = (
        ("prompt_tokens_per_second", number_text),
        ("first_token", seconds_text),
        ("time_per_token", seconds_text),
        ("tokens_per_pass", number_text),
        ("draft_share", _percent),
    )
    return _table(titles, figures, rows, style)


def _costs(rows: Sequence[Mapping[str, Any]], style: Style) -> str:
    titles = ("peak memory", "cores in use", "loading", "warm-up")
    figures = (("peak_memory", size_text), ("cpu", number_text), ("load", seconds_text), ("warm_up", seconds_text))
    return _table(titles, figures, rows, style)


def _table(
    titles: Sequence[str],
    figures: Sequence[tuple[str, Callable[[float], str]]],
    rows: Sequence[Mapping[str, Any]],
    style: Style,
) -> str:
    """Medians of some figures."""
    columns = [Column("row", fold="words"), *numbers(*titles, fold="words")]
    cells = [[row["name"], *(_median(row, name, shown) for name, shown in figures)] for row in rows]
    return table(columns, cells, style)


def _acceptance(rows: Sequence[Mapping[str, Any]], style: Style) -> str:
    columns = [
        Column("row", fold="words"),
        *numbers("accepted", "breaks even at", fold="words"),
        Column("by position in the draft", fold="words"),
    ]
    cells = [
        [
            row["name"],
            _of(row, "acceptance", _percent),
            break_even_text(row["break_even"], _percent),
            " ".join(_percent(one["median"]) for one in row["acceptance_by_position"]),
        ]
        for row in rows
        if row["acceptance_by_position"]
    ]
    return table(columns, cells, style)


def _classes(classes: Sequence[Mapping[str, Any]], style: Style) -> str:
    columns = [
        Column("workload", fold="words"),
        Column("fastest", fold="words"),
        *numbers("speed-up", "accepted", "breaks even at", fold="words"),
        Column("verdict"),
    ]
    cells = [
        [
            one["class"],
            one["recommendation"]["row"],
            _with_interval(one["speed_up"], number_text),
            _percent(one["acceptance"]["median"]) if one["acceptance"] else "",
            break_even_text(one["break_even"], _percent),
            one["decision"],
        ]
        for one in classes
    ]
    return table(columns, cells, style)


def _few(row: Mapping[str, Any]) -> str:
    """Clause about a row with too few repetitions; ``""`` if there are enough."""
    number = row.get("repetitions", FEWEST)
    if not 0 < number < FEWEST:
        return ""
    return f"{plural(number, 'repetition')} {'is' if number == 1 else 'are'} too few to decide; give --repeat 5"


def _impossible(row: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """True if a row is faster than its tokens per pass allow with the target of plain decoding."""
    plain = next((one["model"] for one in record["rows"] if one["strategy"] == "plain" and not one["copy"]), None)
    speed_up, per_pass = (row["figures"][name] for name in ("speed_up", "tokens_per_pass"))
    return bool(row["model"] == plain and speed_up and speed_up["median"] > BEYOND * per_pass["median"])


def row_notes(record: Mapping[str, Any]) -> Iterator[str]:
    """Sentences about rows whose figures must be read with care."""
    few = [(row["name"], _few(row)) for row in record["rows"] if _few(row)]
    for clause in dict.fromkeys(clause for _, clause in few):
        yield f"{', '.join(name for name, one in few if one == clause)}: {clause}"
    for row in record["rows"]:
        if row.get("stateful") and row["status"] == RAN:
            yield f"{row['name']}: the target runs only on the stateful path of LLMPipeline, which cannot draft"


def _notes(record: Mapping[str, Any], ran: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield from row_notes(record)
    if any(row["status"] != RAN for row in record["rows"]):
        yield "`irtools prove` explains what the runtime refuses, and `irtools verify` looks for faults of the files"
    loads = [
        attempt["load_average"]
        for row in ran
        for attempt in row["samples"]
        if attempt["repetition"] == 0 and attempt["load_average"] is not None
    ]
    if loads and loads[0] > _BUSY:
        yield f"the machine had other work: its load was {loads[0]:.1f} before the first row"
    for row in ran:
        first, steady = (row["figures"][name] for name in ("first_pass", "time_per_token"))
        new = record["settings"]["max_new_tokens"] - 1
        if row["assistant_tokens"] and steady and first["median"] > _MANY * new * steady["median"]:
            yield (
                "the pass after the first token takes long, because the draft then reads the prompt too "
                f"({row['name']}: {seconds_text(first['median'])}); tokens/s contain it, speed-ups do not"
            )
            break


def _of(row: Mapping[str, Any], name: str, shown: Callable[[float], str]) -> str:
    return _with_interval(row["figures"][name], shown)


def _median(row: Mapping[str, Any], name: str, shown: Callable[[float], str]) -> str:
    figure = row["figures"][name]
    return shown(figure["median"]) if figure else ""


def _with_interval(figure: Figure | None, shown: Callable[[float], str]) -> str:
    """Median, and the interval in brackets unless it is too wide to say anything."""
    if figure is None:
        return ""
    center = shown(figure["median"])
    return f"{center} ({shown(figure['low'])}-{shown(figure['high'])})" if has_interval(figure) else center


def _percent(value: float) -> str:
    return f"{value:.0%}"
