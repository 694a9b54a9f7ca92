"""Exposed hidden states as text and as JSON."""

from __future__ import annotations

from pathlib import Path

from irtools.report.terminal import Column, Style, table
from irtools.surgery.expose import Exposure
from irtools.text import plural, shape_text, visible

__all__ = ["exposure_rows", "exposure_text"]


def exposure_rows(exposure: Exposure) -> list[dict[str, object]]:
    """JSON form of each exposed output."""
    return [
        {
            "name": value.name,
            "layers": list(value.layers),
            "producer": value.locator.producer,
            "output_index": value.locator.output_index,
            "shape": list(value.shape),
        }
        for value in exposure.outputs
    ]


def exposure_text(path: Path, exposure: Exposure, style: Style, *, removed: bool = False) -> str:
    """Title with the file name, and a table of the outputs; empty if there are no outputs."""
    if not exposure.outputs:
        return ""
    columns = (
        Column("output", fold="anywhere"),
        Column("layers", fold="words"),
        Column("producer", fold="anywhere", effects=("cyan",)),
        Column("index", right=True),
        Column("shape"),
    )
    rows = [
        (
            value.name,
            " ".join(map(str, value.layers)),
            value.locator.producer,
            value.locator.output_index,
            shape_text(value.shape),
        )
        for value in exposure.outputs
    ]
    what = f"removed {plural(len(rows), 'output')}" if removed else plural(len(rows), "exposed output")
    title = f"{style.paint(visible(str(path)), 'bold')}: {what}"
    return f"{title}\n{table(columns, rows, style)}"
