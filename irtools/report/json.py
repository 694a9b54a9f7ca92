"""The one JSON envelope that every command prints with ``--format json``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from irtools._version import __version__

__all__ = ["SCHEMA_VERSION", "Entry", "envelope", "schema", "to_json"]

SCHEMA_VERSION = 1
"""Grows when something in the envelope is taken away or changes its meaning."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a command found or did for one model.

    Attributes
    ----------
    path : str
        As the user gave it.
    status : str
        ``ok`` for a command that only reads; for one that writes ``written``, ``unchanged``,
        ``would-write``, ``differs``; for both ``refused`` and ``failed``.
    exit_code : int
        What it means for the process.
    error : str or None
        One sentence when the command could not do its work.
    details : mapping
        The command's own keys.
    text : str
        The same for people.
    exact : bool
        The text is for a program: it is written in UTF-8 whatever the locale says.
    """

    path: str
    status: str
    exit_code: int = 0
    error: str | None = None
    details: Mapping[str, object] = field(default_factory=dict)
    text: str = ""
    exact: bool = False


def envelope(command: str, entries: Iterable[Entry], summary: Mapping[str, object] | None = None) -> dict[str, object]:
    """Build the envelope.

    Parameters
    ----------
    command : str
    entries : iterable of Entry
    summary : mapping, optional
        Keys of the command beside ``models`` (their number), ``statuses`` (how many of each)
        and ``exit_code``.

    Returns
    -------
    dict
        Valid against ``schema()``.
    """
    entries = tuple(entries)
    statuses: dict[str, int] = {}
    for entry in entries:
        statuses[entry.status] = statuses.get(entry.status, 0) + 1
    return {
        "schema_version": SCHEMA_VERSION,
        "irtools": __version__,
        "command": command,
        "models": [
            {"path": entry.path, "status": entry.status, "error": entry.error, **entry.details} for entry in entries
        ],
        "summary": {
            "models": len(entries),
            "statuses": statuses,
            "exit_code": max((entry.exit_code for entry in entries), default=0),
            **(summary or {}),
        },
    }


def to_json(value: object) -> str:
    """JSON text in ASCII, which every terminal and pipe can take, with a final newline."""
    return json.dumps(value, indent=2) + "\n"


def schema() -> dict[str, Any]:
    """The JSON schema of the envelope, as shipped with the package."""
    found: dict[str, Any] = json.loads(files("irtools.report").joinpath("envelope.schema.json").read_bytes())
    return found
