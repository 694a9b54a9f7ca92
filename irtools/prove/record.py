"""Record of a proof: its settings and all figures. Values that vary between runs are under ``timing``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from irtools.prove.evidence import TIMING, Evidence
from irtools.prove.steps import Step
from irtools.runtime.exact import EXACT

if TYPE_CHECKING:
    from irtools.prove.settings import Prompt, ProveSettings
    from irtools.prove.speculate import DraftSetup

__all__ = ["RECORD_VERSIONS", "record", "schema", "settled"]

RECORD_VERSIONS = {"proof": 2, "bench": 1}
"""Version by kind of record. Increased if a key of the record is removed or changes its meaning."""
_DATE = "date"


def schema() -> dict[str, Any]:
    """JSON schema of a record, as shipped with the package."""
    content: dict[str, Any] = json.loads(files("irtools.prove").joinpath("proof.schema.json").read_bytes())
    return content


def record(
    setup: DraftSetup,
    prompts: Sequence[Prompt],
    settings: ProveSettings,
    evidence: Evidence,
    steps: Sequence[Step],
) -> dict[str, Any]:
    """Record of a proof, valid against :func:`schema`."""
    return {
        "record_version": RECORD_VERSIONS["proof"],
        "draft": None,
        **evidence.keys(),
        "drafting": setup.name if setup.draft is not None else None,
        "settings": _settings(settings),
        "tokenizer_fault": evidence.seen.fault,
        "prompts": [
            {"text": prompt.text, "token_ids": list(prompt.token_ids), "length": len(prompt.token_ids)}
            for prompt in prompts
        ],
        "steps": [
            {
                "name": step.name,
                "status": step.status,
                "why": step.why,
                "broken": step.broken,
                "checks": [asdict(check) | {"figures": dict(check.figures)} for check in step.checks],
                TIMING: {"seconds": step.seconds},
            }
            for step in steps
        ],
    }


def _settings(settings: ProveSettings) -> dict[str, Any]:
    """All settings but the prompts, which have a key of their own. Decoding is greedy and ignores the end of text."""
    return {
        "draft": str(settings.draft) if settings.draft is not None else None,
        "max_new_tokens": settings.max_new_tokens,
        "assistant_tokens": sorted(set(settings.assistant_tokens)),
        "min_acceptance": settings.min_acceptance,
        "chat_template": settings.chat_template,
        "steps": list(settings.steps),
        "seed": settings.seed,
        "repeat": settings.repeat,
        "do_sample": False,
        "ignore_eos": True,
        "enable_prefix_caching": False,
        "hints_where_text_differs": dict(EXACT),
    }


def settled(value: Any) -> Any:
    """A record, or a part of one, without the values that vary between runs."""
    if isinstance(value, Mapping):
        return {key: settled(item) for key, item in value.items() if key not in (TIMING, _DATE)}
    return [settled(item) for item in value] if isinstance(value, list | tuple) else value
