"""Record of a proof: its settings and all figures. Values that vary between runs are under ``timing``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irtools._version import __version__
from irtools.errors import ExportError, InvalidIRError
from irtools.model.directory import ModelDirectory
from irtools.model.graft import draft_head_text
from irtools.model.provenance import versions
from irtools.prove.steps import Step
from irtools.runtime.exact import EXACT

if TYPE_CHECKING:
    from irtools.prove.settings import Prompt, ProveSettings
    from irtools.prove.speculate import DraftSetup
    from irtools.runtime.probe import RuntimeFacts

__all__ = ["RECORD_VERSION", "model_files", "record", "schema", "settled"]

RECORD_VERSION = 1
"""Increased if a key of the record is removed or changes its meaning."""
TIMING = "timing"
"""Key of values that vary between runs: seconds, bytes of memory, and values derived from them."""
_HASHED = (".xml", ".json", ".jinja")


def schema() -> dict[str, Any]:
    """JSON schema of a record, as shipped with the package."""
    content: dict[str, Any] = json.loads(files("irtools.prove").joinpath("proof.schema.json").read_bytes())
    return content


def record(
    export: ModelDirectory,
    setup: DraftSetup,
    prompts: Sequence[Prompt],
    settings: ProveSettings,
    seen: RuntimeFacts,
    steps: Sequence[Step],
) -> dict[str, Any]:
    """Record of a proof, valid against :func:`schema`."""
    draft = setup.draft if setup.draft is not None and setup.draft != export.directory else None
    return {
        "record_version": RECORD_VERSION,
        "versions": {"irtools": __version__, **seen.versions},
        "device": {"name": settings.device, "properties": dict(seen.properties)},
        "model": _model(export),
        "draft": _model(ModelDirectory.open(draft)) if draft is not None else None,
        "drafting": setup.name if setup.draft is not None else None,
        "settings": _settings(settings),
        "tokenizer_fault": seen.fault,
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
                TIMING: {"seconds": step.seconds, "peak_memory": step.peak_memory},
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


def _model(export: ModelDirectory) -> dict[str, Any]:
    identity, revision = _origin(export)
    return {
        "path": str(export.path),
        "id": identity,
        "revision": revision,
        "made_with": _made_with(export),
        "draft_head": _draft_head(export),
        "files": model_files(export),
    }


def model_files(export: ModelDirectory) -> dict[str, dict[str, Any]]:
    """Size and hash of each file of a model directory, by its name; no hash for weights."""
    return {file.name: _file(file) for file in _files(export.directory)}


def _made_with(export: ModelDirectory) -> dict[str, str]:
    try:
        return dict(versions(export.target))
    except (InvalidIRError, ExportError):
        return {}


def _draft_head(export: ModelDirectory) -> str | None:
    """Phrase about the draft head; None without one."""
    try:
        return draft_head_text(export.target.graph, export.mtp.graph if export.mtp is not None else None) or None
    except (InvalidIRError, ExportError):
        return None


def _origin(export: ModelDirectory) -> tuple[str | None, str | None]:
    """Name and revision from the path in a Hugging Face cache; otherwise the name from ``config.json``."""
    for path in (export.directory.absolute(), export.directory.resolve()):
        for place, part in enumerate(path.parts):
            if part.startswith("models--") and path.parts[place + 1 : place + 2] == ("snapshots",):
                revision = path.parts[place + 2] if len(path.parts) > place + 2 else None
                return part.removeprefix("models--").replace("--", "/"), revision
    try:
        name = export.config.get("_name_or_path")
    except ExportError:
        name = None
    return (name if isinstance(name, str) and name else None), None


def _files(directory: Path) -> Iterator[Path]:
    try:
        yield from sorted(path for path in directory.iterdir() if path.is_file())
    except OSError:  # a directory without read permission
        return


def _file(path: Path) -> dict[str, Any]:
    """Size of a file, and the hash unless it holds weights."""
    hashed = None
    if path.suffix in _HASHED:
        with suppress(OSError), path.open("rb") as file:
            hashed = hashlib.file_digest(file, "sha256").hexdigest()
    return {"size": path.stat().st_size, "sha256": hashed}


def settled(value: Any) -> Any:
    """A record, or a part of one, without the values that vary between runs."""
    if isinstance(value, Mapping):
        return {key: settled(item) for key, item in value.items() if key != TIMING}
    return [settled(item) for item in value] if isinstance(value, list | tuple) else value
