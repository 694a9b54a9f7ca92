"""Seeded defects of the files themselves."""

from __future__ import annotations

from pathlib import Path

from defects import Defect, rewrite, sub

X = "openvino_model.xml"

DEFECTS = (
    Defect("truncated-xml", "falcon", rewrite(X, lambda data: data[:100_000]), "IR001", X, lambda d: lines(d / X)),
    Defect("net-version-9", "falcon", sub(X, 'version="11"', 'version="9"'), "IR003", X, "<net "),
)


def lines(path: Path) -> int:
    """Number of the last line, where a parser finds that a file ends too early."""
    return path.read_bytes().count(b"\n") + 1
