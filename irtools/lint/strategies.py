"""Which ways of decoding an export allows."""

from __future__ import annotations

from collections.abc import Sequence

from irtools.lint.model import Context, Finding, Strategy

__all__ = ["strategies"]


def strategies(context: Context, findings: Sequence[Finding]) -> tuple[Strategy, ...]:
    """Judge each way of decoding by what the rules found.

    Parameters
    ----------
    context : Context
        Of the export that was verified.
    findings : sequence of Finding
        Sorted, every field filled in.
    """
    return ()
