"""Which ways of decoding an export allows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from irtools.lint.annotation import annotation, layer_count
from irtools.lint.draft import Pair, is_draft, pair
from irtools.lint.model import Context, Finding, Severity, Strategy
from irtools.lint.mtp import head
from irtools.model.directory import MTP_FILE
from irtools.model.guess import default_layers, guess
from irtools.model.part import Part

__all__ = ["GROUPS", "strategies"]

GROUPS = frozenset({"IR", "EXP", "HID", "MTP", "DFL", "RUN", "QNT"})
"""Groups of rules that bear on the ways of decoding."""

_STATEFUL_ONLY = {"RUN003", "RUN004", "RUN005", "RUN006"}
"""Findings that rule paged attention out, but not the stateful path."""
_EMBEDS_ITSELF = " that takes input_ids and has an embedding of its own"
"""The runtime puts the target's embedding on a draft without one, where it recognises it."""
_NO_OBSTACLE = {"EXP007", "EXP012", "EXP013", "EXP014", "EXP015"}
"""Errors, if one asks for them, that the runtime does not mind."""


def strategies(context: Context, findings: Sequence[Finding]) -> tuple[Strategy, ...]:
    """Judge each way of decoding by what the rules found.

    Parameters
    ----------
    context : Context
        Of the export that was verified.
    findings : sequence of Finding
        Of all rules in ``GROUPS``: sorted, every field filled in.

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
    """Errors that rule everything out, and what rules paged attention out."""
    found = [f for f in _errors(findings, groups) if f.part != skip_part and f.code not in _NO_OBSTACLE]
    paged = [f for f in findings if f.code in ("RUN003", "RUN004")]
    return list(dict.fromkeys([*found, *paged]))


def _plain(base: Sequence[Finding]) -> Strategy:
    hard = [f for f in base if f.severity == Severity.ERROR and f.code not in _STATEFUL_ONLY]
    if hard:
        return Strategy("plain", False, _first(hard), _codes(hard))
    soft = [f for f in base if f.code in _STATEFUL_ONLY]
    reason = "only on the stateful path, without continuous batching" if soft else ""
    return Strategy("plain", True, reason, _codes(soft))


def _first(findings: Sequence[Finding]) -> str:
    """Why not: the first message, and how many more there are."""
    more = len(findings) - 1
    return findings[0].message + (f" (and {more} more)" if more else "")


def _refusal(name: str, findings: Sequence[Finding]) -> Strategy:
    return Strategy(name, False, _first(findings), _codes(findings))


def _mtp(context: Context, findings: Sequence[Finding], base: Sequence[Finding]) -> Strategy:
    assistant = head(context) if context.export.mtp is None else None
    if context.export.mtp is None and assistant is None:
        said = [f for f in findings if f.code in ("MTP001", "MTP005")]
        return Strategy("mtp", False, f"there is no {MTP_FILE}", _codes(said))
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
    count = layer_count(context, context.stack)
    if count is None:
        return Strategy("eagle3", False, "the decoder layers could not be located")
    chosen = default_layers(count)
    taken = guess(target, chosen or range(count))
    missing = [layer for layer in chosen if layer not in taken]
    if missing or len(taken) < 3:
        return Strategy("eagle3", False, "the runtime's guess does not find the layers", _guess_codes(findings, target))
    own = [f for f in findings if f.code == "RUN011"]
    given = "" if chosen else " that names its layers (hidden_layers_list): the target has fewer than 10"
    link = "," if own and given else ""
    return Strategy("eagle3", True, f"with an EAGLE-3 draft{_EMBEDS_ITSELF if own else ''}{link}{given}", _codes(own))


def _guess_codes(findings: Sequence[Finding], target: Part) -> tuple[str, ...]:
    return () if annotation(target) is not None else _codes(f for f in findings if f.code == "DFL020")


def _of_draft(context: Context, findings: Sequence[Finding]) -> tuple[Strategy, ...]:
    """A directory that is a draft itself: it decodes nothing alone."""
    judged: Pair | None = pair(context)
    kind = judged.draft.kind if judged is not None else ""
    found = []
    for name in ("plain", "mtp", "dflash", "eagle3"):
        blocked = _errors(findings, ("IR", "DFL", "MTP"))
        if name != kind:
            found.append(Strategy(name, False, f"this is a draft for {kind}, not a target"))
        elif blocked:
            found.append(_refusal(name, blocked))
        else:
            found.append(Strategy(name, True, "as the draft of a target"))
    return tuple(found)
