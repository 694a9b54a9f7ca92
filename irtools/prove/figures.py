"""Figures of the runtime step as JSON."""

from __future__ import annotations

from typing import Any

from irtools.prove.decoding import Decoded, Totals

__all__ = ["acceptance_figures", "plain_figures"]


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
