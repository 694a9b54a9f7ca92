"""Step 2: whether a model that is called in pieces says what it says when called once; target and MTP head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from irtools.decoder.head import find_head
from irtools.errors import LocateRefusedError
from irtools.model.directory import ModelDirectory
from irtools.prove.model import FAILED, NOT_APPLICABLE, PASSED, WARNING, Check, Step
from irtools.prove.tokens import few, others
from irtools.prove.wording import listed, moved
from irtools.prove.worker import Measured, Worker
from irtools.runtime.lines import Progress

__all__ = ["state"]

_SAME = 1e-3
"""What may differ between one call and two: other kernels compute a single token."""
_OTHERWISE = 2e-2
"""From here on it is another result. In between lie exports in which only one of two paths uses compressed weights."""
_SHARED = 1e-6
_NOTHING = 1e-4
"""Below this, what a state holds does not matter to the output."""


def state(export: ModelDirectory, worker: Worker, tokens: Sequence[int], progress: Progress | None = None) -> Step:
    """Judge the state of an export's target, and of its MTP head.

    Parameters
    ----------
    export : ModelDirectory
    worker : Worker
    tokens : sequence of int
        Of a prompt; the first few are used.
    progress : callable, optional
        Takes what is being done, as a clause.
    """
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
    # One by one: what is wrong with the head must not hide what the target does.
    runs = {part: worker.measure("state", {**request, "part": part}, progress) for part in parts}
    checks = [check for part, run in runs.items() for check in _checks(part, run, len(used))]
    broken = next((run.broken for run in runs.values() if run.broken), "")
    return Step(
        "state",
        tuple(checks),
        why=broken,
        seconds=sum(run.seconds for run in runs.values()),
        peak_memory=max(run.peak_memory for run in runs.values()),
        broken=bool(broken),
    )


def _checks(part: str, run: Measured, length: int) -> list[Check]:
    prefix, model = ("", "the target") if part == "target" else ("mtp-", "the MTP head")
    if run.broken:
        return []
    if run.inapplicable:
        return [Check(f"{prefix}state", NOT_APPLICABLE, f"called {model}", why=run.inapplicable)]
    found = run.value
    if not found["states"]:
        why = f"{model} keeps no state" + (
            "; export it with `--task text-generation-with-past`" if part == "target" else ""
        )
        return [Check(f"{prefix}state", NOT_APPLICABLE, f"called {model}", why=why)]
    return [
        _continued(prefix, f"{model}{run.remark}", found, length, dict(run.properties)),
        _causal(prefix, model, found, length),
        _reset(prefix, model, found),
        _growth(prefix, model, found, length),
        _reordered(prefix, model, found["reordered"]),
    ]


def _continued(prefix: str, model: str, found: Mapping[str, Any], length: int, properties: Mapping[str, str]) -> Check:
    did = f"called {model} with {length - 1} tokens and then 1, and with {length} at once"
    difference, effect = found["continued"], found["forgotten"]
    worst = max(found["states"], key=lambda entry: float("inf") if entry[4] is None else entry[4])
    figures: dict[str, Any] = {"properties": properties, "difference": difference, "without_state": effect}
    figures |= {"state_difference": worst[4], "worst_state": worst[0]}
    saw = f"{moved('the last output', difference)} and {moved('the states', worst[4])}; "
    saw += f"without its state, {moved('the last output', effect)}"
    name = f"{prefix}continuation"
    if _above(difference, _OTHERWISE) or _above(worst[4], _OTHERWISE):
        why = "what a call leaves behind is not what the next one needs: a state is not written, or not read"
        if _above(worst[4], _OTHERWISE):
            why += f"; the state {worst[0]!r} differs most"
        return Check(name, FAILED, did, saw, why, figures)
    if not _above(effect, _NOTHING):
        return Check(name, WARNING, did, saw, "its state does not matter to the output, so this says nothing", figures)
    if _above(difference, _SAME) or _above(worst[4], _SAME):
        why = (
            "more than rounding: several tokens and a single one go through different weights, such as compressed ones"
        )
        return Check(name, WARNING, did, saw, why, figures)
    return Check(name, PASSED, did, saw, "", figures)


def _causal(prefix: str, model: str, found: Mapping[str, Any], length: int) -> Check:
    """What comes later must not show in what was said before."""
    name, difference = f"{prefix}causality", found["earlier"]
    did = f"compared the first {length - 1} outputs of {model} with those that it gives when no token follows them"
    if difference == -1:
        return Check(name, NOT_APPLICABLE, did, why=f"{model} gives out the last position only")
    saw, figures = moved("they", difference), {"difference": difference}
    if _above(difference, _OTHERWISE):
        why = (
            "a later token changes what was said before it: the causal mask is missing. The paged path of the runtime "
            "makes its own mask and hides it"
        )
        return Check(name, FAILED, did, saw, why, figures)
    return Check(name, PASSED, did, saw, figures=figures)


def _reset(prefix: str, model: str, found: Mapping[str, Any]) -> Check:
    difference = found["reset"]
    did, saw = f"reset the state of {model} and called it again", moved("the output", difference)
    if _above(difference, _SHARED):
        return Check(f"{prefix}reset", FAILED, did, saw, "something outlives a reset", {"difference": difference})
    if not _above(found["forgotten"], _NOTHING):
        why = "its state does not matter to the output, so this says nothing"
        return Check(f"{prefix}reset", WARNING, did, saw, why, {"difference": difference})
    return Check(f"{prefix}reset", PASSED, did, saw, "", {"difference": difference})


def _growth(prefix: str, model: str, found: Mapping[str, Any], length: int) -> Check:
    """Keys and values grow by the number of tokens, other states keep their size."""
    growing, faults = 0, []
    for name, declared, first, second, _ in found["states"]:
        dynamic = [index for index, size in enumerate(declared or ()) if size < 0]
        grown = [index for index, (old, new) in enumerate(zip(first, second, strict=True)) if old != new]
        grows = len(dynamic) > 1 if declared is not None else bool(grown)
        growing += grows
        if not grows and grown:
            faults.append(f"the state {name!r} has no length and went from {first} to {second}")
        elif grows and ([(first[index], second[index]) for index in grown] != [(length - 1, length)]):
            faults.append(f"the state {name!r} is {first} after {length - 1} tokens and {second} after {length}")
    fixed = len(found["states"]) - growing
    saw = f"{growing} states hold {length - 1} tokens and then {length}, {fixed} keep their size"
    figures = {"growing": growing, "fixed": fixed}
    did = f"looked at the states of {model} after {length - 1} tokens and after {length}"
    if faults:
        return Check(f"{prefix}growth", FAILED, did, f"{len(faults)} states do otherwise", listed(faults, 1), figures)
    return Check(f"{prefix}growth", PASSED, did, saw, "", figures)


def _reordered(prefix: str, model: str, found: Mapping[str, Any]) -> Check:
    did = f"ran two sequences through {model} and let them change places by `beam_idx`"
    name = f"{prefix}reorder"
    if "inapplicable" in found:
        return Check(name, NOT_APPLICABLE, did, why=found["inapplicable"])
    difference, unswapped = found["difference"], found["unswapped"]
    figures = {"difference": difference, "unswapped": unswapped}
    saw = f"compared with how the other had gone on, {moved('each', difference)}; "
    saw += f"compared with how it had gone on itself, {moved('each', unswapped)}"
    if _above(difference, _SAME):
        why = "a state does not follow `beam_idx`, so beam search mixes up its sequences"
        return Check(name, FAILED, did, saw, why, figures)
    if not _above(unswapped, _NOTHING):
        return Check(name, WARNING, did, saw, "both sequences go on alike, so this says nothing", figures)
    return Check(name, PASSED, did, saw, "", figures)


def _above(difference: float | None, limit: float) -> bool:
    """Whether a difference is larger, or no number at all."""
    return difference is None or difference > limit
