"""Advice on draft heads as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict

from irtools.advise.advice import Advice, Row
from irtools.advise.calibration import Calibration
from irtools.report.terminal import Column, Style, numbers, paragraph, table
from irtools.text import joined, size_text, visible

__all__ = ["advice_details", "advice_text"]

_KINDS = {
    "shipped": "the texts that irtools ships",
    "file": "the given texts",
    "generated": "texts that the target wrote from the shipped prompts",
}
_OWN_TEXT = (
    "Coverage depends on language and tokenizer: the first 32k tokens of one Qwen vocabulary covered 0.91 of English "
    "prose and 0.30 of Chinese. Bring your own text with --corpus, or let the target write it with --generate."
)
_UNCALIBRATED = (
    "Bytes do not predict time, so no row is marked as the best. For speeds on this machine give --calibrate, or "
    "--bench with a record of `irtools bench -o FILE.json`."
)
_SOURCES = {"record": "the record of a benchmark", "runs": "timed runs"}


def advice_text(advice: Advice, style: Style) -> str:
    """Tables by size of the draft head, with the limits of the figures; without a final newline."""
    return "\n".join(_lines(advice, style))


def _lines(advice: Advice, style: Style) -> Iterator[str]:
    read, coverage = advice.traffic, advice.coverage
    title = style.paint(visible(str(advice.export.path)), "bold")
    yield f"{title}: draft heads for {read.head.vocabulary:,} tokens"
    head = size_text(read.head.of(read.head.vocabulary))
    yield paragraph(
        f"A pass of the target reads {size_text(read.per_pass)} of weights: {size_text(read.target.dense)} dense, "
        f"{_experts(advice)}{head} in lm_head. A drafted token reads {size_text(read.draft.read)} in the MTP head, and "
        f"its copy of lm_head{_present(advice)}.",
        style,
    )
    kind = _KINDS[coverage.sources[0].kind]
    yield paragraph(f"Coverage is the share of {kind} ({coverage.tokens:,} tokens) with ids below the size.", style)
    yield ""
    yield _sizes(advice, style)
    yield ""
    if len(coverage.sources) > 1:
        yield paragraph("all: all texts together.", style)
    yield paragraph(
        "frequent: coverage by the same number of most frequent tokens, for a head of its own (--own-head --tokens); "
        "counted on one half of the texts, measured on the other.",
        style,
    )
    yield paragraph(_OWN_TEXT, style)
    yield ""
    yield paragraph(
        f"Expected tokens per pass by tokens drafted: 1 + p + p^2 + ... with p = {advice.acceptance:g} (acceptance) x "
        "coverage",
        style,
    )
    yield _by_drafts([(row, row.tokens_per_pass) for row in advice.rows], "{:.2f}", advice, style)
    yield ""
    if advice.calibration is None:
        yield paragraph(_UNCALIBRATED, style)
        return
    yield from _speeds(advice, advice.calibration, style)


def _experts(advice: Advice) -> str:
    part = advice.traffic.target
    if not part.experts:
        return ""
    return f"{size_text(part.active)} in the experts of one token (of {size_text(part.experts)}), "


def _present(advice: Advice) -> str:
    read = advice.traffic
    if read.present == read.head.vocabulary:
        return ""
    return f", which now covers {read.present:,} tokens"


def _sizes(advice: Advice, style: Style) -> str:
    sources = advice.coverage.sources
    several = len(sources) > 1
    columns = [
        *numbers("tokens"),
        *(Column(source.name, right=True, fold="anywhere") for source in sources),
        *numbers(*(["all"] if several else []), "frequent", "read per draft", "memory saved"),
    ]
    rows = [
        [
            f"{row.tokens:,}",
            *(_share(row.coverage[source.name]) for source in sources),
            *([_share(row.covered)] if several else []),
            _share(row.frequent),
            size_text(row.draft_bytes),
            size_text(row.memory_saved) if row.memory_saved else "-",
        ]
        for row in advice.rows
    ]
    return table(columns, rows, style)


def _share(share: float) -> str:
    """Share with two digits, without rounding to a full 1."""
    return f"{share:.2f}" if share == 1 or share < 0.995 else ">0.99"


def _by_drafts(rows: list[tuple[Row, tuple[float, ...]]], form: str, advice: Advice, style: Style) -> str:
    drafts = len(rows[0][1])
    columns = numbers("tokens", *map(str, range(1, drafts + 1)))
    cells = [[f"{row.tokens:,}", *(form.format(value) for value in values)] for row, values in rows]
    return table(columns, cells, style)


def _reading(read: int) -> str:
    return f"if it reads {size_text(read)}" if read else "without weights"


def _speeds(advice: Advice, calibration: Calibration, style: Style) -> Iterator[str]:
    best = advice.best
    yield paragraph(
        f"Predicted tokens per second by tokens drafted, from {_SOURCES[calibration.source]}: plain decoding "
        f"{1 / calibration.plain:.1f}; a drafted token takes "
        + joined([f"{1000 * time:.2f} ms {_reading(read)}" for read, time in calibration.drafts]),
        style,
    )
    drafts = len(advice.rows[0].tokens_per_pass)
    columns = [*numbers("tokens", "draft", *map(str, range(1, drafts + 1))), Column("")]
    rows = []
    for row in advice.rows:
        marked = best is not None and best.drafts > 0 and row.tokens == best.tokens
        cells = [f"{row.tokens:,}", f"{1000 * (row.draft_seconds or 0):.2f} ms"]
        cells += [f"{speed:.1f}" for speed in row.speeds or ()]
        rows.append([*cells, f"<- best, {best.drafts} drafted" if marked and best is not None else ""])
    yield table(columns, rows, style)
    yield ""
    yield paragraph(_recommendation(advice), style)
    if calibration.acceptance is not None:
        yield paragraph(
            f"The measured runs accepted drafted tokens with probability {calibration.acceptance:.2f}; the tables use "
            f"{advice.acceptance:g} (--acceptance).",
            style,
        )
    if calibration.busy:
        yield paragraph(
            "The times varied much between runs: the machine had other work. Repeat the calibration when it has none.",
            style,
        )


def _recommendation(advice: Advice) -> str:
    best = advice.best
    assert best is not None, "calibrated advice has a best row"
    whole = advice.traffic.head.vocabulary
    if not best.drafts:
        return "recommendation: leave drafting off; plain decoding is faster than every row"
    if best.tokens == whole:
        return f"recommendation: keep the whole lm_head and draft {best.drafts} at a time; no smaller one is faster"
    return (
        f"recommendation: a draft head over {best.tokens:,} tokens (irtools graft --vocabulary {best.tokens}) and "
        f"{best.drafts} drafted at a time: {best.tokens_per_second:.1f} tokens per second, {best.gain:.2f} times the "
        "best speed without it"
    )


def advice_details(advice: Advice) -> Mapping[str, object]:
    """JSON form of the advice; bytes, seconds and shares from 0 to 1."""
    read = advice.traffic
    calibration = advice.calibration
    return {
        "advice": {
            "vocabulary": read.head.vocabulary,
            "present_tokens": read.present,
            "acceptance": advice.acceptance,
            "texts": [
                {"name": source.name, "kind": source.kind, "tokens": source.tokens}
                for source in advice.coverage.sources
            ],
            "target_pass": {
                "dense": read.target.dense,
                "active_experts": read.target.active,
                "experts": read.target.experts,
                "lm_head": read.head.of(read.head.vocabulary),
                "bytes": read.per_pass,
            },
            "mtp_head": {
                "dense": read.draft.dense,
                "active_experts": read.draft.active,
                "experts": read.draft.experts,
            },
            "rows": [_row(advice, row) for row in advice.rows],
            "calibration": {
                **asdict(calibration),
                "passes": {str(number): seconds for number, seconds in calibration.passes.items()},
            }
            if calibration is not None
            else None,
            "best": asdict(advice.best) if advice.best is not None else None,
        }
    }


def _row(advice: Advice, row: Row) -> dict[str, object]:
    return {
        "tokens": row.tokens,
        "coverage": dict(row.coverage),
        "covered": row.covered,
        "frequent": row.frequent,
        "draft_bytes": row.draft_bytes,
        "draft_head_bytes": advice.traffic.head.of(row.tokens),
        "memory_saved": row.memory_saved,
        "tokens_per_pass": list(row.tokens_per_pass),
        "draft_seconds": row.draft_seconds,
        "tokens_per_second": list(row.speeds) if row.speeds is not None else None,
    }
