"""The piece that ``irtools extract`` cuts out, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from irtools._version import __version__
from irtools.report.json import to_json
from irtools.report.terminal import Column, Style, table
from irtools.surgery.extraction.piece import PiecePort, Plan
from irtools.surgery.extraction.stages import Origin, Stage, stage_name
from irtools.text import plural, shape_text, size_text, visible

__all__ = ["manifest", "piece_details", "piece_text", "stages_details", "stages_text"]

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


# -- stages --------------------------------------------------------------------------------


def stages_text(path: Path, stages: Sequence[Stage], style: Style) -> str:
    """A row per stage: layers, sizes, what it takes and what it gives."""
    title = style.paint(f"{visible(str(path))}: {plural(len(stages), 'stage')}", "bold")
    columns = (
        Column("stage", right=True),
        Column("layers"),
        Column("weights", right=True),
        Column("takes", fold="words"),
        Column("gives", fold="words"),
    )
    rows = []
    for number, stage in enumerate(stages):
        takes = [
            port.name if origin.stage is None else f"{port.name} (stage {origin.stage})"
            for port, origin in zip(stage.plan.inputs, stage.origins, strict=True)
        ]
        layers = str(stage.first) if stage.first == stage.last else f"{stage.first}-{stage.last}"
        ports = (_short(takes), _short([port.name for port in stage.plan.outputs]))
        rows.append((number, layers, size_text(stage.plan.weights_bytes), *ports))
    return f"{title}\n{table(columns, rows, style, indent=2)}"


def _short(names: Sequence[str]) -> str:
    """Names of ports; values that bypass layers have long names and are only counted."""
    short = [name for name in names if "/" not in name]
    return ", ".join([*short, *([plural(len(names) - len(short), "other value")] if len(short) < len(names) else [])])


def stages_details(path: Path, stages: Sequence[Stage]) -> dict[str, object]:
    """JSON form of stages."""
    return {"file": str(path), "stages": [_stage(number, stage) for number, stage in enumerate(stages)]}


def _stage(number: int, stage: Stage) -> dict[str, object]:
    details = dict(piece_details(Path(), stage.plan))
    del details["file"]
    inputs = [
        {**asdict(port), "from": _origin(origin)} for port, origin in zip(stage.plan.inputs, stage.origins, strict=True)
    ]
    model = f"{stage_name(number)}/openvino_model.xml"
    return {"stage": number, "model": model, "layers": [stage.first, stage.last], **details, "inputs": inputs}


def _origin(origin: Origin) -> dict[str, object]:
    if origin.stage is None:
        return {"input": origin.name}
    call = "previous" if origin.previous_call else "same"
    return {"stage": origin.stage, "output": origin.name, "call": call}


def manifest(path: Path, stages: Sequence[Stage]) -> bytes:
    """Content of ``stages.json``: for each stage its model, layers, ports, and the origin of each input.

    An input comes from an ``input`` of the whole model, or from an ``output`` of a ``stage``, for a state of the
    previous call.
    """
    return to_json({"manifest_version": 1, "irtools": __version__, **stages_details(path, stages)}).encode()
