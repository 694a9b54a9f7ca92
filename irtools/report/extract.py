"""The piece that ``irtools extract`` cuts out, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from irtools.report.terminal import Column, Style, table
from irtools.surgery.extraction.piece import PiecePort, Plan
from irtools.text import plural, shape_text, size_text, visible

__all__ = ["piece_details", "piece_text"]

_STATES_SHOWN = 6
_KINDS = {
    "model": "input of the whole model",
    "value": "value of {}",
    "shape": "shape of a value outside the piece, from {}",
    "state": "state of the whole model, read by {}",
}
_NEW_STATE = "new value of a state, from {}"


def piece_text(path: Path, plan: Plan, style: Style) -> str:
    """Summary of a piece: its size, inputs, outputs and states; ``path`` is the file that it is cut out of."""
    size = f"{size_text(plan.xml_bytes)} of XML and {size_text(plan.weights_bytes)} of weights"
    head = f"{visible(str(path))}: {plural(plan.ops, 'op')} and {plural(plan.constants, 'constant')}, {size}"
    inputs = [_row(port, _KINDS[port.kind]) for port in plan.inputs]
    outputs = [_row(port, _NEW_STATE if port.kind == "state" else _KINDS["value"]) for port in plan.outputs]
    lines = [style.paint(head, "bold"), table(_columns("input"), inputs, style, indent=2)]
    lines += [table(_columns("output"), outputs, style, indent=2)]
    if plan.states:
        more = ", ..." if len(plan.states) > _STATES_SHOWN else ""
        shown = ", ".join(map(visible, plan.states[:_STATES_SHOWN]))
        lines.append(f"  {plural(len(plan.states), 'state')}: {shown}{more}")
    return "\n".join(line for line in lines if line)


def _columns(title: str) -> tuple[Column, ...]:
    return Column(title, fold="anywhere"), Column("type"), Column("shape"), Column("", fold="words")


def _row(port: PiecePort, meaning: str) -> Sequence[str]:
    index = f" output {port.output_index}" if port.output_index else ""
    where = "this op" if port.producer == port.name else f"{port.producer}{index}"
    return port.name, port.element_type, shape_text(port.shape), meaning.format(where)


def piece_details(path: Path, plan: Plan) -> Mapping[str, object]:
    """JSON form of a piece."""
    return {
        "file": str(path),
        "inputs": [asdict(port) for port in plan.inputs],
        "outputs": [asdict(port) for port in plan.outputs],
        "states": list(plan.states),
        "ops": plan.ops,
        "constants": plan.constants,
        "xml_bytes": plan.xml_bytes,
        "weight_bytes": plan.weights_bytes,
        "notes": list(plan.notes),
    }
