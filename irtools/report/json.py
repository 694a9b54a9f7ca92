"""JSON envelope that every command prints with ``--format json``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, cast

from irtools._version import __version__

__all__ = ["SCHEMA_VERSION", "ModelResult", "envelope", "schema", "to_json"]

SCHEMA_VERSION = 1
"""Incremented when a key of the envelope is removed or changes its meaning."""


@dataclass(frozen=True, slots=True)
class ModelResult:
    """Outcome of a command for one model.

    Attributes
    ----------
    path : str
        As the user gave it.
    status : str
        ``ok`` for a command that only reads; ``written``, ``unchanged``, ``would-write`` or ``differs``
        for a command that writes; ``refused`` or ``failed`` for both.
    exit_code : int
        Exit code of the process if there were no other model.
    error : str or None
        Reason for the failure, in one sentence.
    details : mapping
        Keys that only this command has.
    text : str
        The outcome as text.
    exact : bool
        True if the text is for a program: it is encoded in UTF-8 in every locale.
    next_step : str
        Line about the next command, which is shown after the text of a single model.
    """

    path: str
    status: str
    exit_code: int = 0
    error: str | None = None
    details: Mapping[str, object] = field(default_factory=dict)
    text: str = ""
    exact: bool = False
    next_step: str = ""


def envelope(
    command: str, entries: Iterable[ModelResult], summary: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Build the envelope, which is valid against ``schema()``.

    ``summary`` has further keys beside ``models`` (number of models), ``statuses`` (counts by status) and
    ``exit_code``.
    """
    entries = tuple(entries)
    return {
        "schema_version": SCHEMA_VERSION,
        "irtools": __version__,
        "command": command,
        "models": [
            {"path": entry.path, "status": entry.status, "error": entry.error, **entry.details} for entry in entries
        ],
        "summary": {
            "models": len(entries),
            "statuses": dict(Counter(entry.status for entry in entries)),
            "exit_code": max((entry.exit_code for entry in entries), default=0),
            **(summary or {}),
        },
    }


def to_json(value: object) -> str:
    """Encode a value as JSON with a final newline, in ASCII so that every terminal and pipe accepts it."""
    return json.dumps(value, indent=2) + "\n"


def schema() -> dict[str, Any]:
    """JSON schema of the envelope, shipped with the package."""
    return cast("dict[str, Any]", json.loads(files("irtools.report").joinpath("envelope.schema.json").read_bytes()))
