"""Files of other projects: each is listed with its version, its licence and its hash."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENTRIES: list[dict[str, Any]] = json.loads((ROOT / "release" / "vendored.json").read_text())
FILES = {name: file for entry in ENTRIES for name, file in entry["files"].items()}
FOLDERS = ("irtools/report/vendor", "irtools/render/fonts")
OWN = {"irtools/render/fonts/README.md", "irtools/render/fonts/.uuid"}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_the_one_that_was_published(name: str) -> None:
    assert hashlib.sha256((ROOT / name).read_bytes()).hexdigest() == FILES[name]["sha256"]


def test_every_vendored_file_is_listed() -> None:
    there = {str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).iterdir()}
    assert there - OWN == set(FILES)
    scripts = {str(path.relative_to(ROOT)) for path in (ROOT / "irtools").rglob("*.min.js")}
    assert scripts == {name for name in FILES if name.endswith(".js")}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["name"])
def test_each_has_a_version_and_the_text_of_its_licence(entry: dict[str, Any]) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", entry["version"])
    assert entry["purl"].endswith(f"@{entry['version']}")
    (licence,) = [name for name in entry["files"] if "LICENSE" in name]
    words = {"MIT": "Permission is hereby granted, free of charge", "OFL-1.1": "SIL OPEN FONT LICENSE"}
    assert words[entry["licence"]] in (ROOT / licence).read_text()


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".js")])
def test_a_script_says_the_version_that_is_listed(name: str) -> None:
    (version,) = [entry["version"] for entry in ENTRIES if name in entry["files"]]
    assert re.search(rf"[\"' ]{re.escape(version)}[\"' ]", (ROOT / name).read_text())
