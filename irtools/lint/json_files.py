"""Keys in JSON files of a model directory: their lines, and findings at them."""

from __future__ import annotations

import json
import re
from pathlib import Path

from irtools.ir.reading import read_file
from irtools.lint.context import Context
from irtools.lint.finding import Finding, Severity

__all__ = ["finding_in_config", "json_line"]


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
