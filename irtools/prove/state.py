"""Step 2: compare calls of target and MTP head that continue from state with single calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from irtools.decoder.head import find_head
from irtools.errors import LocateRefusedError
from irtools.model.directory import ModelDirectory
from irtools.prove.prompts import few, others
from irtools.prove.steps import FAILED, NOT_APPLICABLE, PASSED, WARNING, Check, Step
from irtools.prove.wording import moved
from irtools.prove.worker import Measured, Worker
from irtools.runtime.child import Progress
from irtools.text import listed, plural

__all__ = ["state"]

_SAME = 1e-3
"""Maximum rounding difference between one call and two: other kernels compute a single token."""
_OTHERWISE = 2e-2
"""Minimum difference of a wrong result. Smaller ones occur if only one of two paths uses compressed weights."""
_SHARED = 1e-6
"""Maximum difference between two equal calls."""
_NOTHING = 1e-4
"""Maximum effect of a state that does not matter."""
_INCONCLUSIVE = "the state does not affect the output, so this check is inconclusive"


def state(export: ModelDirectory, worker: Worker, tokens: Sequence[int], progress: Progress | None = None) -> Step:
    """Check the state of an export's target and MTP head; the first tokens of a prompt are used."""
    view = export.target.graph
    try:
        head = find_head(view)
    except LocateRefusedError as error:
        return Step("state", why=str(error))
    used = few(tokens)
    request = {
        "tokens": used,
        "other": others(used, head.vocabulary),
        "hidden": [view.op_name(head.input.op), view.output_index(head.input)],
    }
    parts = ["target", *(["mtp"] if export.mtp is not None else [])]
    # Separate measurements, so that a fault of the head does not hide the results of the target.
    runs = {part: worker.measure("state", {**request, "part": part}, progress) for part in parts}
    checks = [check for part, run in runs.items() for check in _checks(part, run, len(used))]
    broken = next((run.broken for run in runs.values() if run.broken), "")
    return Step("state", tuple(checks), broken, sum(run.seconds for run in runs.values()), bool(broken))


def _checks(part: str, run: Measured, length: int) -> list[Check]:
    prefix, model = ("", "the target") if part == "target" else ("mtp-", "the MTP head")
    if run.broken:
        return []
    if run.inapplicable:
        return [Check(f"{prefix}state", NOT_APPLICABLE, f"called {model}", why=run.inapplicable)]
    measured = run.value
    if not measured["states"]:
        why = f"{model} has no state"
        why += "; export it with `--task text-generation-with-past`" if part == "target" else ""
        return [Check(f"{prefix}state", NOT_APPLICABLE, f"called {model}", why=why)]
    return [
        _continued(prefix, f"{model}{run.remark}", measured, length, dict(run.properties)),
        _causal(prefix, model, measured, length),
        _reset(prefix, model, measured),
        _growth(prefix, model, measured, length),
        _reordered(prefix, model, measured["reordered"]),
    ]


def _continued(
    prefix: str, model: str, measured: Mapping[str, Any], length: int, properties: Mapping[str, str]
) -> Check:
    did = f"called {model} with {length - 1} tokens and then 1, and with {length} in one call"
    difference, effect = measured["continued"], measured["forgotten"]
    worst = max(measured["states"], key=lambda entry: float("inf") if entry[4] is None else entry[4])
    figures: dict[str, Any] = {"properties": properties, "difference": difference, "without_state": effect}
    figures |= {"state_difference": worst[4], "worst_state": worst[0]}
    saw = f"{moved('the last output', difference)} and {moved('the states', worst[4])}; "
    saw += f"without the state, {moved('the last output', effect)}"
    name = f"{prefix}continuation"
    if _above(difference, _OTHERWISE) or _above(worst[4], _OTHERWISE):
        why = "a call does not continue from the state of the previous call: a state is not written or not read"
        if _above(worst[4], _OTHERWISE):
            why += f"; the state {worst[0]!r} differs most"
        return Check(name, FAILED, did, saw, why, figures)
    if not _above(effect, _NOTHING):
        return Check(name, WARNING, did, saw, _INCONCLUSIVE, figures)
    if _above(difference, _SAME) or _above(worst[4], _SAME):
        why = "more than rounding: prefill and decode step use different weights, such as compressed ones"
        return Check(name, WARNING, did, saw, why, figures)
    return Check(name, PASSED, did, saw, "", figures)


def _causal(prefix: str, model: str, measured: Mapping[str, Any], length: int) -> Check:
    """A later token must not change earlier outputs."""
    name, difference = f"{prefix}causality", measured["earlier"]
    did = f"compared the first {length - 1} outputs of {model} with and without a token after them"
    if difference == -1:
        return Check(name, NOT_APPLICABLE, did, why=f"{model} outputs only the last position")
    saw, figures = moved("they", difference), {"difference": difference}
    if _above(difference, _OTHERWISE):
        why = (
            "a later token changes earlier outputs: the causal mask is missing. The paged path of the runtime hides "
            "this fault, because it creates its own mask"
        )
        return Check(name, FAILED, did, saw, why, figures)
    return Check(name, PASSED, did, saw, figures=figures)


def _reset(prefix: str, model: str, measured: Mapping[str, Any]) -> Check:
    name, figures = f"{prefix}reset", {"difference": measured["reset"]}
    did, saw = f"reset the state of {model} and called it again", moved("the output", measured["reset"])
    if _above(measured["reset"], _SHARED):
        return Check(name, FAILED, did, saw, "the reset does not clear all state", figures)
    if not _above(measured["forgotten"], _NOTHING):
        return Check(name, WARNING, did, saw, _INCONCLUSIVE, figures)
    return Check(name, PASSED, did, saw, "", figures)


def _growth(prefix: str, model: str, measured: Mapping[str, Any], length: int) -> Check:
    """The KV cache must grow by the number of tokens; other states must keep their size."""
    growing, faults = 0, []
    for name, declared, first, second, _ in measured["states"]:
        dynamic = [index for index, size in enumerate(declared or ()) if size < 0]
        grown = [index for index, (old, new) in enumerate(zip(first, second, strict=True)) if old != new]
        grows = len(dynamic) > 1 if declared is not None else bool(grown)
        growing += grows
        if not grows and grown:
            faults.append(f"the state {name!r} has no length dimension, but changed from {first} to {second}")
        elif grows and ([(first[index], second[index]) for index in grown] != [(length - 1, length)]):
            faults.append(f"the state {name!r} is {first} after {length - 1} tokens and {second} after {length}")
    fixed = len(measured["states"]) - growing
    saw = f"{growing} states hold {length - 1} tokens and then {length}, {fixed} keep their size"
    figures = {"growing": growing, "fixed": fixed}
    did = f"compared the state shapes of {model} after {length - 1} tokens and after {length}"
    if faults:
        saw = f"{plural(len(faults), 'state')} of an unexpected shape"
        return Check(f"{prefix}growth", FAILED, did, saw, listed(faults, 1), figures)
    return Check(f"{prefix}growth", PASSED, did, saw, "", figures)


def _reordered(prefix: str, model: str, measured: Mapping[str, Any]) -> Check:
    did = f"ran two sequences through {model} and swapped them by `beam_idx`"
    name = f"{prefix}reorder"
    if "inapplicable" in measured:
        return Check(name, NOT_APPLICABLE, did, why=measured["inapplicable"])
    difference, unswapped = measured["difference"], measured["unswapped"]
    figures = {"difference": difference, "unswapped": unswapped}
    saw = f"compared with the other sequence without a swap, {moved('the outputs', difference)}; "
    saw += f"compared with the same sequence without a swap, {moved('the outputs', unswapped)}"
    if _above(difference, _SAME):
        why = "a state does not follow `beam_idx`, so beam search mixes up its sequences"
        return Check(name, FAILED, did, saw, why, figures)
    if not _above(unswapped, _NOTHING):
        return Check(name, WARNING, did, saw, "both outputs are equal, so this check is inconclusive", figures)
    return Check(name, PASSED, did, saw, "", figures)


def _above(difference: float | None, limit: float) -> bool:
    """True if a difference is above the limit or None."""
    return difference is None or difference > limit
