"""What to give instead of a path that is no export: a folder in it, an export of the checkpoint, a download."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

__all__ = ["file_instead", "meant_instead", "missing_instead"]

_SHOWN = 3
"""Number of folders that a suggestion names."""
_CHECKPOINTS = {
    ".gguf": "a GGUF file, which has no IR",
    ".safetensors": "a part of a checkpoint",
    ".pt": "a PyTorch checkpoint",
    ".pth": "a PyTorch checkpoint",
    ".onnx": "an ONNX model",
}
_URL = re.compile(r"(https?|hf|file|s3):/+(?P<rest>.*)", re.IGNORECASE)
_HUB = re.compile(r"(?:www\.)?(?:huggingface\.co|hf\.co)/(?P<id>[\w.-]+/[\w.-]+)")
_RULE = re.compile(r"[A-Z]{2,8}[0-9]{3}")
_MODEL_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]*[A-Za-z0-9]")


def meant_instead(directory: Path, targets: Collection[str]) -> str:
    """Advice for a directory without an IR: name the sub-directories with one of the targets, or ask for an export."""
    # Not `Path.is_file`, which raises in a directory without search permission.
    revisions = directory / "snapshots"  # of a repository in a Hugging Face cache
    readable = os.path.isdir(revisions) and os.access(revisions, os.R_OK)  # noqa: PTH112
    folders = [*directory.iterdir(), *(revisions.iterdir() if readable else ())]
    exports = sorted(path for path in folders if any(os.path.isfile(path / name) for name in targets))  # noqa: PTH113
    if not exports:
        for path in sorted(directory.iterdir()):
            if kind := _kind(path.name):
                return f"it holds {path.name}, {kind}; {_export_line('CHECKPOINT' if 'GGUF' in kind else directory)}"
        return "give an OpenVINO export"
    more = ", ..." if len(exports) > _SHOWN else ""
    return f"did you mean {', '.join(map(str, exports[:_SHOWN]))}{more}?"


def missing_instead(path: Path) -> str:
    """Advice for a path that does not exist: for a URL, a model of the Hugging Face Hub or a rule; else nothing."""
    text = path.as_posix()
    if _RULE.fullmatch(text):
        return f"if you mean a rule: separate rules by commas, such as --select OTHER,{text}"
    url = _URL.fullmatch(text)
    hub = _HUB.match(url["rest"]) if url else None
    if url and not hub:
        return "irtools reads local files; download the model directory first"
    if not hub and not (_MODEL_ID.fullmatch(text) and path.suffix != ".xml" and not path.parent.exists()):
        return ""
    name = hub["id"] if hub else text
    start = "" if hub else "if you mean a model of the Hugging Face Hub: "
    return (
        f"{start}give hf://{name}, or download it with `hf download {name} --local-dir my-model`; if it is a "
        f"checkpoint, {_export_line(name)}"
    )


def file_instead(path: Path) -> str:
    """What a file is that is no IR, and what to give instead."""
    xml = path.with_suffix(".xml")
    if path.suffix == ".bin" and xml.is_file():
        return f"holds the weights of an IR; give {xml} or {path.parent}"
    kind = _kind(path.name)
    if kind.startswith("an ONNX"):
        return f"this is {kind}; convert it with `ovc {path.name}`, and give the .xml"
    if kind:
        return f"this is {kind}; {_export_line('CHECKPOINT' if 'GGUF' in kind else path.parent)}"
    return "give a model directory or an .xml file"


def _kind(name: str) -> str:
    """What a file is that people take for an export; ``""`` for other files."""
    if name.startswith("pytorch_model") and name.endswith(".bin"):
        return _CHECKPOINTS[".pt"]
    return _CHECKPOINTS.get(Path(name).suffix.lower(), "")


def _export_line(model: Path | str) -> str:
    return f"make an export with `optimum-cli export openvino --model {model} my-model`, and give my-model"
