"""Facts about a model directory: the kind of the target, and its JSON files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from irtools.ir.reading import read_file
from irtools.lint.model import Context, Finding, Severity

__all__ = [
    "finding_in_config",
    "is_draft",
    "json_line",
    "needs_embeddings",
    "read_json",
    "reads_tokens",
]


def _input_names(context: Context) -> set[str]:
    if context.target is None:
        return set()
    return {name for port in context.facts(context.target).inputs for name in (*port.names, port.friendly)}


def reads_tokens(context: Context) -> bool:
    """True if the target is a language model of any kind, or cannot be read."""
    names = _input_names(context)
    return context.target is None or not names.isdisjoint({"input_ids", "inputs_embeds", "decoder_input_ids"})


def is_draft(context: Context) -> bool:
    """True if the model is a draft that reads hidden states of a target in another directory."""
    return "hidden_states" in _input_names(context)


def needs_embeddings(context: Context) -> bool:
    """True if the target takes embeddings instead of tokens, because the text embeddings are a separate part."""
    names = _input_names(context)
    if "hidden_states" in names:
        return False
    if context.target is None:
        return [document.part for document in context.export.target_candidates] == ["language"]
    return "inputs_embeds" in names and "input_ids" not in names


def read_json(path: Path) -> Any:
    """Content of a JSON file; None if the file does not exist.

    Raises
    ------
    ValueError
        The file is not valid JSON in UTF-8.
    OSError
        The file cannot be read.
    """
    try:
        return json.loads(read_file(path))
    except FileNotFoundError:
        return None
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def json_line(path: Path, key: str, value: object) -> int | None:
    """Line of a key in a JSON file; an occurrence with the given value comes first."""
    try:
        text = read_file(path).decode("utf-8-sig")
    except (OSError, ValueError):
        return None
    exact = re.search(rf'"{re.escape(key)}"\s*:\s*{re.escape(json.dumps(value))}(?![\w.])', text)
    match = exact or re.search(rf'"{re.escape(key)}"\s*:', text)
    return text.count("\n", 0, match.start()) + 1 if match else None


def finding_in_config(
    context: Context, key: str, value: object, message: str, hint: str, severity: Severity | None = None
) -> Finding:
    """Finding at a key of config.json with the given value."""
    path = context.export.directory / "config.json"
    return Finding(message, hint, path, json_line(path, key, value), severity=severity)
