"""Consecutive pieces of a decoder stack that are equal to the whole model if one runs after the other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from irtools.decoder.stack import DecoderStack
from irtools.errors import UsageError
from irtools.graph.view import GraphView, Source
from irtools.surgery.extraction.carve import carve
from irtools.surgery.extraction.piece import PiecePort, Plan
from irtools.surgery.extraction.region import PieceRegion, find_region
from irtools.surgery.extraction.request import End, PieceRequest, model_outputs, of_layers, parse_layers

__all__ = ["Origin", "Stage", "parse_stages", "plan_stages", "stage_name"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the value of a stage's input comes from.

    Attributes
    ----------
    stage : int or None
        Stage whose output it is; None for an input of the whole model.
    name : str
        Name of this output, or of the input of the whole model.
    previous_call : bool
        True for a state: the output of the previous call. In the first call it has the value with which the state
        starts, in most models no tokens.
    """

    stage: int | None
    name: str
    previous_call: bool = False


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: its layers, its piece, and the origin of each input of the piece, in their order."""

    first: int
    last: int
    plan: Plan
    origins: tuple[Origin, ...]


def stage_name(number: int) -> str:
    """Name of the directory of a stage."""
    return f"stage-{number}"


def parse_stages(text: str, count: int) -> list[tuple[int, int]]:
    """Parse the layers of all stages.

    Raises
    ------
    EditError
        The text is not a list of ranges of layers.
    UsageError
        The stages do not follow each other from layer 0 to the last one.

    Examples
    --------
    >>> parse_stages("0-1,2-5,6-", 8)
    [(0, 1), (2, 5), (6, 7)]
    """
    stages = [parse_layers(item, count) for item in re.split(r"\s*,\s*", text.strip())]
    expected = 0
    for first, last in stages:
        if first != expected:
            before = f"after layer {expected - 1}" if expected else "at the beginning"
            raise UsageError(f"--stages {text}: layer {expected} is expected {before}, not layer {first}")
        expected = last + 1
    if expected != count:
        left = f"layer {expected} is" if expected == count - 1 else f"layers {expected} to {count - 1} are"
        raise UsageError(f"--stages {text}: {left} in no stage; end with {expected}-")
    return stages


def plan_stages(
    view: GraphView, stack: DecoderStack, layers: Sequence[tuple[int, int]], *, stateless: bool
) -> list[Stage]:
    """Work out the stages, the first with the embeddings and the last with the outputs of the model.

    A value that a stage takes from an earlier one, beside the hidden state, becomes an output of that stage.

    Raises
    ------
    UsageError
        A stage needs a value that no earlier stage computes.
    """
    requests = [
        of_layers(view, stack, first, last, stateless=stateless, whole=not number)
        for number, (first, last) in enumerate(layers)
    ]
    requests[-1] = replace(requests[-1], ends=())
    regions = [find_region(view, request) for request in requests]
    for end in model_outputs(view):
        number = next((at for at, region in enumerate(regions[:-1]) if end.source.op in region.ops), len(layers) - 1)
        requests[number] = replace(requests[number], ends=(*requests[number].ends, replace(end, inner=True)))
    while True:
        regions = [find_region(view, request) for request in requests]
        missing = _missing(view, requests, regions)
        if not missing:
            break
        for number, end in missing:
            requests[number] = replace(requests[number], ends=(*requests[number].ends, end))
    plans = [carve(view, region, fed=True) for region in regions]
    return [
        Stage(first, last, plan, tuple(_origin(plans, number, port) for port in plan.inputs))
        for number, ((first, last), plan) in enumerate(zip(layers, plans, strict=True))
    ]


def _missing(
    view: GraphView, requests: Sequence[PieceRequest], regions: Sequence[PieceRegion]
) -> list[tuple[int, End]]:
    """Values that a stage takes and no earlier one gives, each with the stage that will give it."""
    missing: dict[Source, tuple[int, End]] = {}
    for number, region in enumerate(regions):
        for cut in region.cuts:
            given = any(end.source == cut.source for request in requests[:number] for end in request.ends)
            if cut.kind == "state" or given:
                continue
            source = cut.source
            # The ShapeOf of a later stage can be computed where its input is.
            wanted = view.inputs(source.op)[0].op if cut.kind == "shape" else source.op
            maker = next((at for at, one in enumerate(regions[:number]) if wanted in one.ops), None)
            if maker is None and number:
                maker = 0  # computed from the tokens, beside the layers
            if maker is None:
                raise UsageError(
                    f"stage 0 needs the value of {view.op_name(source.op)!r}, which is not computed from the inputs of "
                    "the model; extract the layers one by one"
                )
            name = f"{view.op_name(source.op)}:{view.output_index(source)}"
            name = name if view.output_index(source) else view.op_name(source.op)
            missing.setdefault(source, (maker, End(source, name, inner=True)))
    return list(missing.values())


def _origin(plans: Sequence[Plan], number: int, port: PiecePort) -> Origin:
    if port.kind == "model":
        return Origin(None, port.name)
    where = (port.producer, port.output_index)
    if port.kind == "state":
        own = [(number, plans[number]), *((at, plan) for at, plan in enumerate(plans) if at != number)]
        for at, plan in own:
            for output in plan.outputs:
                if output.kind == "state" and output.variable == port.variable:
                    return Origin(at, output.name, previous_call=True)
    for at, plan in enumerate(plans[:number]):
        for output in plan.outputs:
            if (output.producer, output.output_index) == where:
                return Origin(at, output.name)
    raise UsageError(f"no stage computes {port.name!r}, which stage {number} reads; give --layers and --from/--to")
