"""Figures of the runtime step as JSON. Figures that vary between runs are under ``timing``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from irtools.model.directory import ModelDirectory
from irtools.model.footprint import states
from irtools.prove.break_even import Totals, advise, break_even, share, speed_up
from irtools.prove.decoding import Decoded, Runs

__all__ = ["acceptance_figures", "memory_figures", "plain_figures", "speed_figures"]

_BYTES = {"f32": 4, "f16": 2, "bf16": 2, "u8": 1, "i8": 1}


def plain_figures(decoded: Decoded) -> dict[str, Any]:
    """Prompts as text and token ids, with their continuations by plain decoding."""
    return {
        "prompts": [
            {
                "text": prompt.text,
                "token_ids": list(outcome.prompt_ids),
                "tokens": list(outcome.tokens),
                "continuation": outcome.text,
            }
            for prompt, outcome in zip(decoded.prompts, decoded.plain.outcomes, strict=True)
        ]
    }


def acceptance_figures(decoded: Decoded) -> dict[str, Any]:
    """Token counts by number of assistant tokens: totals, and counts per prompt."""
    return {
        "assistant_tokens": [
            {
                "number": number,
                **_counts(decoded.plain.totals, runs.totals),
                "prompts": [
                    _counts(Totals.of([plain]), Totals.of([drafted]))
                    for plain, drafted in zip(decoded.plain.outcomes, runs.outcomes, strict=True)
                ],
            }
            for number, runs in sorted(decoded.drafted.items())
        ]
    }


def _counts(plain: Totals, drafted: Totals) -> dict[str, Any]:
    """Token counts; ``passes_saved`` is the number of target passes fewer than with plain decoding."""
    return {
        "accepted": drafted.accepted,
        "drafted": drafted.drafted,
        "acceptance": drafted.acceptance,
        "passes": drafted.passes,
        "passes_saved": plain.passes - drafted.passes,
    }


def speed_figures(decoded: Decoded) -> dict[str, Any]:
    """Seconds and derived speeds by number of assistant tokens; 0 is plain decoding."""
    advice = advise(decoded.plain.totals, {number: runs.totals for number, runs in decoded.drafted.items()})
    all_runs = sorted({0: decoded.plain, **decoded.drafted}.items())
    rows = [_row(number, runs, decoded.plain) for number, runs in all_runs]
    return {"timing": {"assistant_tokens": rows, "recommendation": asdict(advice) if advice else None}}


def _row(number: int, runs: Runs, plain: Runs) -> dict[str, Any]:
    pairs = zip(plain.outcomes, runs.outcomes, strict=True)
    return {
        "number": number,
        **_speeds(plain.totals, runs.totals, compare=number > 0),
        "prompts": [_speeds(Totals.of([before]), Totals.of([after]), compare=number > 0) for before, after in pairs],
    }


def _speeds(plain: Totals, drafted: Totals, *, compare: bool) -> dict[str, Any]:
    speeds: dict[str, Any] = {
        "tokens_per_second": drafted.tokens_per_second,
        "first_token": share(drafted.first_token, drafted.prompts),
        "decode": drafted.decode,
    }
    if compare:
        speeds |= {
            "draft": drafted.draft,
            "verify": drafted.verify,
            "speed_up": speed_up(plain, drafted),
            "break_even": break_even(plain, drafted),
        }
    return speeds


def memory_figures(export: ModelDirectory, draft: Path | None, decoded: Decoded) -> dict[str, Any]:
    """Declared state size by part; under ``timing``, GenAI's allocation and the peak memory of the processes.

    The device may store keys and values in fewer bits than the IR declares.
    """
    measured = [
        {"number": number, "cache_bytes": runs.outcomes[-1].timing.cache_bytes, "peak_memory": runs.peak_memory}
        for number, runs in sorted({0: decoded.plain, **decoded.drafted}.items())
    ]
    return {"state": dict(_states(export, draft)), "timing": {"assistant_tokens": measured}}


def _states(export: ModelDirectory, draft: Path | None) -> Iterator[tuple[str, dict[str, int]]]:
    documents = {"target": export.target}
    if draft is not None and draft == export.directory and export.mtp is not None:
        documents["mtp"] = export.mtp
    elif draft is not None:
        other = ModelDirectory.open(draft)
        documents["draft"] = other.mtp or other.target
    for name, document in documents.items():
        sizes = {"bytes_per_token": 0, "fixed_bytes": 0}
        for state in states(document):
            size = state.elements(1, 1) * _BYTES.get(state.element_type, 4)
            sizes["bytes_per_token" if state.grows else "fixed_bytes"] += size
        yield name, sizes
