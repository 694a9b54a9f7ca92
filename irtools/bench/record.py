"""Record of a benchmark: everything that reproduces it, every single time, and the figures derived from these."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from irtools.bench.decision import OFF, ON, WORTH_IT, Decision, decide, row_decision
from irtools.bench.figures import Row, break_even, by_position, row_figures, speed_ups
from irtools.bench.intervals import CONFIDENCE, Ratio
from irtools.bench.samples import RAN
from irtools.prove.record import RECORD_VERSIONS

if TYPE_CHECKING:
    from irtools.bench.settings import BenchSettings
    from irtools.bench.workload import Prompt
    from irtools.prove.evidence import Evidence

__all__ = ["ALL", "measured", "record", "schema"]

ALL = "all"
"""Workload class of figures over all prompts."""


def schema() -> dict[str, Any]:
    """JSON schema of a record, as shipped with the package."""
    content: dict[str, Any] = json.loads(files("irtools.bench").joinpath("bench.schema.json").read_bytes())
    return content


def record(
    rows: Sequence[Row],
    prompts: Sequence[Prompt],
    settings: BenchSettings,
    evidence: Evidence,
    *,
    interrupted: bool = False,
) -> dict[str, Any]:
    """Record of a benchmark, valid against :func:`schema`."""
    taken = evidence.keys()
    drafts = [taken.pop(key) for key in evidence.models if key != "model"]
    return {
        "kind": "bench",
        "record_version": RECORD_VERSIONS["bench"],
        **taken,
        "drafts": drafts,
        "settings": _settings(settings),
        "interrupted": interrupted,
        **measured(rows, prompts),
    }


def _settings(settings: BenchSettings) -> dict[str, Any]:
    """All settings. Decoding is greedy and ignores the end of text."""
    return {
        "drafts": list(map(str, settings.drafts)),
        "against": list(map(str, settings.against)),
        "graft": list(settings.graft),
        "assistant_tokens": list(settings.assistant_tokens),
        "repeat": settings.repeat,
        "properties": dict(settings.properties),
        "prompts": str(settings.prompts) if settings.prompts is not None else None,
        "context": settings.context,
        "max_new_tokens": settings.max_new_tokens,
        "keep_loaded": settings.keep_loaded,
        "min_speedup": settings.min_speedup,
        "min_acceptance": settings.min_acceptance,
        "confidence": CONFIDENCE,
        "worth_it": WORTH_IT,
        "do_sample": False,
        "ignore_eos": True,
        "enable_prefix_caching": False,
    }


def measured(rows: Sequence[Row], prompts: Sequence[Prompt]) -> dict[str, Any]:
    """The part of a record that follows from the attempts: prompts, rows, classes, policy, recommendation."""
    plain = next((row for row in rows if row.contender.strategy == "plain" and not row.contender.copy), None)
    whole = speed_ups(rows, plain)
    lengths = {run.prompt: run.prompt_tokens for row in rows for one in row.attempts for run in one.runs}
    chosen: dict[str, list[int]] = {}
    for number, prompt in enumerate(prompts):
        chosen.setdefault(prompt.kind, []).append(number)
    classes = [_class(kind, rows, plain, numbers) for kind, numbers in chosen.items()]
    recommended = _recommendation(rows, _decided(rows, whole))
    return {
        "prompts": [prompt.to_json(lengths.get(number, 0)) for number, prompt in enumerate(prompts)],
        "rows": [_row(row, plain, whole.get(row.contender.name)) for row in rows],
        "classes": classes,
        "policy": {
            "default": _short(recommended),
            "classes": {one["class"]: _short(one["recommendation"]) for one in classes},
        },
        "recommendation": recommended,
    }


def _decided(rows: Sequence[Row], ratios: Mapping[str, Ratio]) -> Decision:
    """Decision among the rows that draft and did not fail; ``off`` if none drafts."""
    drafting = [row for row in rows if row.contender.assistant_tokens]
    names = {row.contender.name for row in drafting if row.status == RAN}
    return decide({name: ratio for name, ratio in ratios.items() if name in names}) if drafting else Decision(OFF)


def _row(row: Row, plain: Row | None, ratio: Ratio | None) -> dict[str, Any]:
    contender = row.contender
    return {
        "name": contender.name,
        "strategy": contender.strategy,
        "model": contender.shown_model,
        "draft": contender.shown_draft,
        "assistant_tokens": contender.assistant_tokens,
        "copy": contender.copy,
        "stateful": contender.stateful,
        "repetitions": len(row.runs()),
        "class": ALL,
        "status": row.status,
        "message": row.message,
        **_figures(row, plain, ratio, None),
        "acceptance_by_position": [one.to_json() for one in by_position(row)],
        "samples": [attempt.to_json() for attempt in row.attempts],
    }


def _figures(row: Row, plain: Row | None, ratio: Ratio | None, prompts: Sequence[int] | None) -> dict[str, Any]:
    drafting = row.contender.assistant_tokens > 0
    figures = {"speed_up": ratio.figure() if ratio else None, **row_figures(row, prompts)}
    return {
        "figures": {name: one.to_json() if one else None for name, one in figures.items()},
        "break_even": break_even(row, plain, prompts) if plain is not None and drafting else None,
        "decision": row_decision(ratio) if ratio else None,
    }


def _class(kind: str, rows: Sequence[Row], plain: Row | None, prompts: Sequence[int]) -> dict[str, Any]:
    ratios = speed_ups(rows, plain, prompts)
    entries = [
        {
            "name": row.contender.name,
            "assistant_tokens": row.contender.assistant_tokens,
            **_figures(row, plain, ratios.get(row.contender.name), prompts),
        }
        for row in rows
    ]
    recommended = _recommendation(rows, _decided(rows, ratios))
    best = next((one for one in entries if one["name"] == recommended["row"]), None)
    return {
        "class": kind,
        "prompts": list(prompts),
        "acceptance": best["figures"]["acceptance"] if best else None,
        "speed_up": recommended["speed_up"],
        "break_even": best["break_even"] if best else None,
        "decision": recommended["decision"],
        "rows": entries,
        "recommendation": recommended,
    }


def _recommendation(rows: Sequence[Row], decision: Decision) -> dict[str, Any]:
    best = next((row.contender for row in rows if row.contender.name == decision.row), None)
    switched_on = best is not None and decision.decision == ON
    return {
        "decision": decision.decision,
        "assistant_tokens": best.assistant_tokens if best is not None and switched_on else 0,
        "strategy": best.strategy if best is not None else None,
        "draft": best.shown_draft if best is not None else None,
        "row": decision.row,
        "speed_up": decision.speed_up.to_json() if decision.speed_up else None,
    }


def _short(recommendation: Mapping[str, Any]) -> dict[str, Any]:
    """Entry of a policy: an undecided class is left off."""
    on = recommendation["decision"] == ON
    return {
        "decision": recommendation["decision"] if on else OFF,
        "assistant_tokens": recommendation["assistant_tokens"],
        "draft": recommendation["draft"] if on else None,
        "measured": recommendation["decision"],
    }
