"""Availability of the decoding modes for an export."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from irtools.lint.model import Context, Finding, Severity, Strategy
from irtools.lint.mtp import head
from irtools.lint.pair import pair
from irtools.model.directory import MTP_FILE
from irtools.model.draft import is_draft
from irtools.model.guess import default_layers, guess
from irtools.model.part import Part

__all__ = ["GROUPS", "strategies"]

GROUPS = frozenset({"IR", "EXP", "HID", "MTP", "DFL", "RUN", "QNT"})
"""Groups of rules that affect the decoding modes."""

_STATEFUL_ONLY = {"RUN003", "RUN004", "RUN005", "RUN006"}
"""Codes of findings that exclude paged attention but not the stateful path."""
_EMBEDS_ITSELF = " that takes input_ids and has an embedding of its own"
"""Needed if the runtime does not recognise the target's embedding, which it gives to a draft without one."""
_NO_OBSTACLE = {"EXP007", "EXP012", "EXP013", "EXP014", "EXP015"}
"""Codes of findings that can have severity error but do not affect the runtime."""


def strategies(context: Context, findings: Sequence[Finding]) -> tuple[Strategy, ...]:
    """Judge each decoding mode by the findings.

    Parameters
    ----------
    findings : sequence of Finding
        Findings of all rules in ``GROUPS``, sorted and with every field filled in.

    Returns
    -------
    tuple of Strategy
        ``plain``, ``mtp``, ``dflash`` and ``eagle3``; empty without a readable target.
    """
    if context.target is None:
        return ()
    target = context.part(context.target)
    if is_draft(target):
        return _of_draft(context, findings)
    base = _blockers(findings, ("IR", "EXP", "RUN", "QNT"), skip_part="mtp")
    return (
        _plain(base),
        _mtp(context, findings, base),
        _dflash(context, findings, base),
        _eagle3(context, target, findings, base),
    )


def _codes(findings: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(sorted({finding.code for finding in findings}))


def _errors(findings: Iterable[Finding], groups: Iterable[str]) -> list[Finding]:
    wanted = set(groups)
    return [f for f in findings if f.severity == Severity.ERROR and f.code.rstrip("0123456789") in wanted]


def _blockers(findings: Iterable[Finding], groups: Iterable[str], *, skip_part: str = "") -> list[Finding]:
    """Errors that exclude every mode, and findings that exclude paged attention."""
    errors = [f for f in _errors(findings, groups) if f.part != skip_part and f.code not in _NO_OBSTACLE]
    paged = [f for f in findings if f.code in ("RUN003", "RUN004")]
    return list(dict.fromkeys([*errors, *paged]))


def _plain(base: Sequence[Finding]) -> Strategy:
    hard = [f for f in base if f.severity == Severity.ERROR and f.code not in _STATEFUL_ONLY]
    if hard:
        return Strategy("plain", False, _first(hard), _codes(hard))
    soft = [f for f in base if f.code in _STATEFUL_ONLY]
    reason = "only on the stateful path, without continuous batching" if soft else ""
    return Strategy("plain", True, reason, _codes(soft))


def _first(findings: Sequence[Finding]) -> str:
    """The first message and the number of further ones."""
    more = len(findings) - 1
    return findings[0].message + (f" (and {more} more)" if more else "")


def _refusal(name: str, findings: Sequence[Finding]) -> Strategy:
    return Strategy(name, False, _first(findings), _codes(findings))


def _mtp(context: Context, findings: Sequence[Finding], base: Sequence[Finding]) -> Strategy:
    assistant = head(context) if context.export.mtp is None else None
    if context.export.mtp is None and assistant is None:
        missing = [f for f in findings if f.code in ("MTP001", "MTP005")]
        return Strategy("mtp", False, f"there is no {MTP_FILE}", _codes(missing))
    blocked = [*base, *_errors(findings, ("MTP",)), *[f for f in _errors(findings, ("IR",)) if f.part == "mtp"]]
    blocked += [f for f in findings if f.code == "MTP007"]
    if blocked:
        return _refusal("mtp", list(dict.fromkeys(blocked)))
    if assistant is not None:
        return Strategy("mtp", True, f"with the {assistant.profile.title} of --draft, on the SDPA backend")
    notes = [f for f in findings if f.code == "RUN009"]
    return Strategy("mtp", True, "with enable_prefix_caching=False" if notes else "", _codes(notes))


def _dflash(context: Context, findings: Sequence[Finding], base: Sequence[Finding]) -> Strategy:
    judged = pair(context)
    with_draft = judged is not None and judged.draft.kind == "dflash"
    blocked = [*base, *_errors(findings, ("DFL",))]
    blocked += [f for f in _errors(findings, ("HID",)) if f.code != "HID001"]
    if not with_draft or (judged is not None and judged.draft.part.output("logits") is None):
        blocked += [f for f in findings if f.code == "RUN010"]
    if not with_draft:
        blocked += [f for f in findings if f.code == "DFL020"]
        if context.stack is None:
            return Strategy("dflash", False, "the decoder layers could not be located", _codes(blocked))
    if blocked:
        return _refusal("dflash", list(dict.fromkeys(blocked)))
    own = [] if with_draft else [f for f in findings if f.code == "RUN011"]
    needs = [] if with_draft else [f"with a DFlash draft{_EMBEDS_ITSELF if own else ''} (--draft DIR checks the pair)"]
    needs += _prefix_caching(findings)
    return Strategy("dflash", True, ", ".join(needs), _codes(own))


def _prefix_caching(findings: Sequence[Finding]) -> list[str]:
    return ["with enable_prefix_caching=False"] if any(f.code == "RUN009" for f in findings) else []


def _eagle3(context: Context, target: Part, findings: Sequence[Finding], base: Sequence[Finding]) -> Strategy:
    blocked = [*base, *[f for f in findings if f.code == "DFL021" and f.severity == Severity.ERROR]]
    if blocked:
        return _refusal("eagle3", blocked)
    count = context.layer_count
    if count is None:
        return Strategy("eagle3", False, "the decoder layers could not be located")
    chosen = default_layers(count)
    guessed = guess(target, chosen or range(count))
    if len(guessed) < 3 or not guessed.keys() >= set(chosen):
        return Strategy("eagle3", False, "the runtime's guess does not find the layers", _guess_codes(findings, target))
    own = [f for f in findings if f.code == "RUN011"]
    listed = "" if chosen else " that names its layers (hidden_layers_list): the target has fewer than 10"
    link = "," if own and listed else ""
    return Strategy("eagle3", True, f"with an EAGLE-3 draft{_EMBEDS_ITSELF if own else ''}{link}{listed}", _codes(own))


def _guess_codes(findings: Sequence[Finding], target: Part) -> tuple[str, ...]:
    return () if target.annotation is not None else _codes(f for f in findings if f.code == "DFL020")


def _of_draft(context: Context, findings: Sequence[Finding]) -> tuple[Strategy, ...]:
    """Decoding modes of a directory that is itself a draft."""
    judged = pair(context)
    kind = judged.draft.kind if judged is not None else ""
    blocked = _errors(findings, ("IR", "DFL", "MTP"))
    own = _refusal(kind, blocked) if blocked else Strategy(kind, True, "as the draft of a target")
    other = f"this is a draft for {kind}, not a target"
    return tuple(own if name == kind else Strategy(name, False, other) for name in ("plain", "mtp", "dflash", "eagle3"))
