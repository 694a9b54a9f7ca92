"""Availability of the decoding strategies for an export."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from irtools.errors import IrtoolsError
from irtools.lint.conditions import conditions
from irtools.lint.context import Context
from irtools.lint.decoding import too_new
from irtools.lint.finding import Finding, Severity, Strategy
from irtools.lint.mtp import head
from irtools.lint.pair import dflash_draft, eagle3_draft, ordinary_pair, pair
from irtools.lint.symptoms import of_check
from irtools.model.decoding import DRAFTING, STRATEGIES
from irtools.model.directory import MTP_FILE
from irtools.model.draft import is_draft, most_assistant_tokens
from irtools.model.guess import default_layers, guess
from irtools.model.part import PartFacts

__all__ = ["strategies"]


def strategies(context: Context, findings: Sequence[Finding]) -> tuple[Strategy, ...]:
    """Judge each decoding strategy by the findings.

    Parameters
    ----------
    findings : sequence of Finding
        Findings of all rules that rule out a strategy, sorted and with every field filled in.

    Returns
    -------
    tuple of Strategy
        One for each name of ``STRATEGIES``, in their order; empty without a readable target.
    """
    judged = _judged(context, findings)
    return tuple(replace(one, conditions=conditions(context, one.name)) if one.available else one for one in judged)


def _judged(context: Context, findings: Sequence[Finding]) -> tuple[Strategy, ...]:
    """The strategies without their conditions."""
    if context.target is None:
        return ()
    target = context.facts(context.target)
    if is_draft(target):
        judged = _of_draft(context, findings)
    else:
        plain, mtp = _by_findings("plain", findings), _mtp(context, findings)
        drafted = _dflash(context, findings), _eagle3(context, target, findings), _ordinary(context, findings)
        judged = plain, mtp, *drafted
    return tuple(_by_release(context, one, findings) for one in judged)


def _by_release(context: Context, judged: Strategy, findings: Sequence[Finding]) -> Strategy:
    """The strategy, not available if the target runtime does not have it: nothing in the export changes that."""
    reason = too_new(context, judged.name)
    if not reason or not (judged.available or judged.findings):
        return judged
    return Strategy(judged.name, False, reason, _codes(f for f in findings if judged.name in (f.rules_out or ())))


def _codes(findings: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(sorted({finding.code for finding in findings}))


def _blockers(findings: Iterable[Finding], strategy: str) -> list[Finding]:
    """Findings that rule out a strategy: general ones first, errors first among them, those with a remedy last."""
    blocked = [f for f in findings if strategy in (f.rules_out or ())]

    def order(finding: Finding) -> tuple[bool, bool, bool]:
        about_draft = not set(DRAFTING).issubset(finding.rules_out or ())
        return about_draft, finding.severity != Severity.ERROR, strategy in finding.needs

    return sorted(blocked, key=order)


def _conditions(findings: Iterable[Finding], strategy: str) -> tuple[list[str], tuple[str, ...]]:
    """Conditions under which a strategy works, without duplicates, and the codes of their findings."""
    needing = [f for f in findings if strategy in f.needs]
    return list(dict.fromkeys(f.needs[strategy] for f in needing)), _codes(needing)


def _refusal(name: str, findings: Sequence[Finding]) -> Strategy:
    """Refusal with the first message and the number of further ones."""
    more, fix = len(findings) - 1, findings[0].fix
    message = findings[0].message + (f" (and {more} more)" if more else "")
    return Strategy(name, False, message, _codes(findings), fix.remedy if fix is not None else "")


def _by_findings(name: str, findings: Sequence[Finding]) -> Strategy:
    """Judge a strategy by the findings alone."""
    blocked = _blockers(findings, name)
    if blocked:
        return _refusal(name, blocked)
    conditions, codes = _conditions(findings, name)
    return Strategy(name, True, ", ".join(conditions), codes)


def _mtp(context: Context, findings: Sequence[Finding]) -> Strategy:
    assistant = head(context) if context.export.mtp is None else None
    if context.export.mtp is None and assistant is None:
        return Strategy("mtp", False, f"there is no {MTP_FILE}", _codes(of_check("mtp/head", findings)))
    strategy = _by_findings("mtp", findings)
    if strategy.available and assistant is not None:
        return Strategy("mtp", True, f"with the {assistant.profile.title} of --draft, on the SDPA backend")
    return strategy


def _dflash(context: Context, findings: Sequence[Finding]) -> Strategy:
    with_draft = dflash_draft(context) is not None
    blocked = _blockers(findings, "dflash")
    if blocked:
        return _refusal("dflash", blocked)
    if not with_draft and context.stack is None:
        return Strategy("dflash", False, _not_located(context))
    clauses, others, codes = _draft_conditions(findings, "dflash")
    needs = _block(context) if with_draft else [f"with a DFlash draft{clauses} (--draft DIR checks the pair)"]
    return Strategy("dflash", True, ", ".join([*needs, *others]), codes)


def _block(context: Context) -> list[str]:
    """The bound on assistant tokens that a DFlash draft sets, as a condition."""
    draft = dflash_draft(context)
    most = most_assistant_tokens(draft, context.draft or context.export) if draft is not None else None
    return [f"with at most {most} assistant tokens (the draft has block_size {most + 1})"] if most is not None else []


def _not_located(context: Context) -> str:
    """Reason why there is no decoder stack."""
    return str(context.location.args[0]) if isinstance(context.location, IrtoolsError) else "no decoder layers"


def _draft_conditions(findings: Iterable[Finding], strategy: str) -> tuple[str, list[str], tuple[str, ...]]:
    """Clauses about the draft, the other conditions, and the codes of the findings with a clause."""
    own = [f for f in findings if f.needs.get(strategy, "").startswith("that ")]
    clauses = dict.fromkeys(f.needs[strategy] for f in own)
    others = [text for text in _conditions(findings, strategy)[0] if text not in clauses]
    return "".join(f" {clause}" for clause in clauses), others, _codes(own)


def _eagle3(context: Context, target: PartFacts, findings: Sequence[Finding]) -> Strategy:
    blocked = _blockers(findings, "eagle3")
    if blocked:
        return _refusal("eagle3", blocked)
    if eagle3_draft(context) is not None:  # the findings judge the layers that it names
        return Strategy("eagle3", True, ", ".join(_conditions(findings, "eagle3")[0]))
    count = context.layer_count
    if count is None:
        return Strategy("eagle3", False, _not_located(context))
    chosen = default_layers(count)
    guessed = guess(target, chosen or range(count))
    if len(guessed) < 3 or not guessed.keys() >= set(chosen):
        causes = of_check("eagle3/guess", findings)
        return Strategy("eagle3", False, "the runtime's guess does not find the layers", _codes(causes))
    clauses, others, codes = _draft_conditions(findings, "eagle3")
    listed = "" if chosen else " that names its layers (hidden_layers_list): the target has fewer than 10"
    link = "," if clauses and listed else ""
    return Strategy("eagle3", True, ", ".join([f"with an EAGLE-3 draft{clauses}{link}{listed}", *others]), codes)


def _ordinary(context: Context, findings: Sequence[Finding]) -> Strategy:
    """Judge drafting with an ordinary language model, which the runtime supports only for targets that take tokens."""
    strategy = _by_findings("draft", findings)
    if not strategy.available or ordinary_pair(context) is not None:
        return strategy
    if context.needs_embeddings or context.text_embeddings is not None:
        return Strategy("draft", False, "ordinary drafts need a target that takes token ids")
    needs = "with an ordinary draft that has the same tokenizer (--draft DIR checks the pair)"
    return replace(strategy, reason=", ".join(filter(None, [needs, strategy.reason])))


def _of_draft(context: Context, findings: Sequence[Finding]) -> tuple[Strategy, ...]:
    """Decoding strategies of a directory that is itself a draft.

    A draft has one strategy. An error that rules out any strategy rules out this one.
    """
    paired = pair(context)
    kind = paired.draft.kind if paired is not None else ""
    blocked = [f for f in findings if f.severity == Severity.ERROR and f.rules_out]
    role = ", ".join(["as the draft of a target", *_block(context)])
    own = _refusal(kind, blocked) if blocked else Strategy(kind, True, role)
    other = f"this is a draft for {kind}, not a target"
    return tuple(own if name == kind else Strategy(name, False, other) for name in STRATEGIES)
