"""Output formats of commands: a new format needs a line here and its own module.

The module of a format is imported when the format is used. Its function gets what the command computed, and by
keyword what some formats need (``style``, ``exit_code``, ``brief``); it returns text with a final newline, or ``""``.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

__all__ = ["ATLAS", "DIFF", "RECORD", "VERIFY", "Format", "format_of", "render", "suffixes_text"]


class Format(NamedTuple):
    """Renderer of a format, the suffixes of files that have it by default, and the ``form`` of ``text.printable``."""

    module: str
    function: str
    suffixes: tuple[str, ...] = ()
    escapes: str = "text"


VERIFY = {
    "text": Format("irtools.report.verification", "verification_text"),
    "json": Format("irtools.report.verification", "verification_json", (".json",), "json"),
    "sarif": Format("irtools.report.sarif", "sarif", (".sarif",), "json"),
    "junit": Format("irtools.report.junit", "junit", (".xml",), "xml"),
    "github": Format("irtools.report.github", "github", (), "github"),
    "html": Format("irtools.report.html", "verification_html", (".html", ".htm"), "html"),
}
DIFF = {
    "text": Format("irtools.report.compare", "comparison_text"),
    "json": Format("irtools.report.compare", "comparison_json", (".json",), "json"),
    "html": Format("irtools.report.compare_html", "comparison_html", (".html", ".htm"), "html"),
}

ATLAS = {
    "text": Format("irtools.report.atlas_files", "atlas_text"),
    "json": Format("irtools.report.atlas_files", "atlas_json", (".json",), "json"),
    "csv": Format("irtools.report.atlas_files", "atlas_csv", (".csv",)),
    "markdown": Format("irtools.report.atlas_files", "atlas_markdown", (".md",)),
    "html": Format("irtools.report.atlas_html", "atlas_html", (".html", ".htm"), "html"),
}

RECORD = {
    "json": Format("irtools.report.record_files", "record_json", (".json",)),
    "markdown": Format("irtools.report.record_files", "record_markdown", (".md",)),
    "html": Format("irtools.report.record_files", "record_html", (".html", ".htm")),
    "junit": Format("irtools.report.record_junit", "record_junit", (".xml",)),
}
"""Formats of the files that ``irtools prove`` and ``irtools bench`` write."""


def format_of(formats: Mapping[str, Format], file: Path) -> str:
    """Name of the format that the suffix of a file stands for; ``text`` for any other suffix."""
    return next((name for name, form in formats.items() if file.suffix.lower() in form.suffixes), "text")


def suffixes_text(formats: Mapping[str, Format]) -> str:
    """Format the suffixes and their formats for a help text.

    Examples
    --------
    >>> suffixes_text(DIFF)
    '.json for json, .html or .htm for html, else text'
    """
    named = (f"{' or '.join(form.suffixes)} for {name}" for name, form in formats.items() if form.suffixes)
    return ", ".join([*named, "else text"])


def render(form: Format, shown: object, **options: object) -> str:
    """Render in a format."""
    text: str = getattr(import_module(form.module), form.function)(shown, **options)
    return text
