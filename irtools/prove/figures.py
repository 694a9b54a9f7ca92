"""The figures of the runtime step as JSON; what differs from run to run is under ``timing``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from irtools.model.directory import ModelDirectory
from irtools.model.footprint import states
from irtools.prove.advice import Totals, advise, break_even, share, speed_up
from irtools.prove.decoding import Decoded, Runs
from irtools.runtime.genai import Outcome

__all__ = ["acceptance_figures", "memory_figures", "plain_figures", "speed_figures"]

_BYTES = {"f32": 4, "f16": 2, "bf16": 2, "u8": 1, "i8": 1}


def plain_figures(found: Decoded) -> dict[str, Any]:
    """What was decoded: the prompts as text and token ids, and what came of them."""
    return {
        "prompts": [
            {
                "text": prompt.text,
                "token_ids": list(outcome.prompt_ids),
                "tokens": list(outcome.tokens),
                "continuation": outcome.text,
            }
            for prompt, outcome in zip(found.prompts, found.plain.outcomes, strict=True)
        ]
    }


def acceptance_figures(found: Decoded) -> dict[str, Any]:
    """Counts by number of assistant tokens: in all and by prompt."""
    return {
        "assistant_tokens": [
            {
                "number": number,
                **_counts(found.plain.totals, runs.totals),
                "prompts": [
                    _counts(Totals.of([plain]), Totals.of([drafted]))
                    for plain, drafted in zip(found.plain.outcomes, runs.outcomes, strict=True)
                ],
            }
            for number, runs in sorted(found.drafted.items())
        ]
    }


def _counts(plain: Totals, drafted: Totals) -> dict[str, Any]:
    """``passes_saved`` are those of the target that plain decoding makes and drafted decoding does not."""
    return {
        "accepted": drafted.accepted,
        "drafted": drafted.drafted,
        "acceptance": drafted.acceptance,
        "passes": drafted.passes,
        "passes_saved": plain.passes - drafted.passes,
    }


def speed_figures(found: Decoded) -> dict[str, Any]:
    """Seconds and what follows from them, by number of assistant tokens; 0 is plain decoding."""
    plain = found.plain.totals
    advice = advise(plain, {number: runs.totals for number, runs in found.drafted.items()})
    rows = [
        _row(0, found.plain, found.plain),
        *(_row(n, runs, found.plain) for n, runs in sorted(found.drafted.items())),
    ]
    return {"timing": {"assistant_tokens": rows, "recommendation": asdict(advice) if advice else None}}


def _row(number: int, runs: Runs, plain: Runs) -> dict[str, Any]:
    pairs = zip(plain.outcomes, runs.outcomes, strict=True)
    return {
        "number": number,
        **_speeds(plain.totals, runs.totals, compare=number > 0),
        "prompts": [_speeds(Totals.of([before]), Totals.of([after]), compare=number > 0) for before, after in pairs],
    }


def _speeds(plain: Totals, drafted: Totals, *, compare: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "tokens_per_second": drafted.tokens_per_second,
        "first_token": share(drafted.first_token, drafted.prompts),
        "decode": drafted.decode,
    }
    if compare:
        found |= {
            "draft": drafted.draft,
            "verify": drafted.verify,
            "speed_up": speed_up(plain, drafted),
            "break_even": break_even(plain, drafted),
        }
    return found


def memory_figures(export: ModelDirectory, draft: Path | None, found: Decoded) -> dict[str, Any]:
    """State by part as the IR declares it, and under ``timing`` what GenAI allocated and the processes held.

    The device may keep keys and values in fewer bits than declared.
    """
    measured = [
        {"number": number, "cache_bytes": _last(runs).timing.cache_bytes, "peak_memory": runs.peak_memory}
        for number, runs in sorted({0: found.plain, **found.drafted}.items())
    ]
    return {"state": dict(_states(export, draft)), "timing": {"assistant_tokens": measured}}


def _last(runs: Runs) -> Outcome:
    return runs.outcomes[-1]


def _states(export: ModelDirectory, draft: Path | None) -> Iterator[tuple[str, dict[str, int]]]:
    documents = {"target": export.target}
    if draft is not None and draft == export.directory and export.mtp is not None:
        documents["mtp"] = export.mtp
    elif draft is not None:
        other = ModelDirectory.open(draft)
        documents["draft"] = other.mtp or other.target
    for name, document in documents.items():
        found = states(document)
        yield (
            name,
            {
                "bytes_per_token": sum(s.elements(1, 1) * _BYTES.get(s.element_type, 4) for s in found if s.grows),
                "fixed_bytes": sum(s.elements(1, 1) * _BYTES.get(s.element_type, 4) for s in found if not s.grows),
            },
        )
