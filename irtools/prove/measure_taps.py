"""The numeric half of the step ``taps``, in the worker process.

Two compiled models beside the head: one that shows every tap, and one that is cut at all of
them at once. In the latter a tap is proved a boundary by giving it, and those after it, what
they were for some tokens, and everything before it what it was for others: what comes after
must stay. That takes one run for each tap, and one compilation in all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from irtools.prove.cutting import Value, cut, expose, find, origin, part_of
from irtools.prove.drive import Session, difference

__all__ = ["measure"]

_LOGITS = "logits"


@dataclass(frozen=True)
class _Points:
    """Where the model is looked at.

    Attributes
    ----------
    taps, sources : list of Value
        By layer: the value that the annotation names, and what it is a reshaped form of.
    bypasses : mapping of Value to frozenset of int
        Values that pass taps by, and with which taps they are kept.
    """

    taps: list[Value]
    sources: list[Value]
    bypasses: Mapping[Value, frozenset[int]]

    @property
    def cuts(self) -> list[Value]:
        """Each place once."""
        return list(dict.fromkeys([*self.sources, *self.bypasses]))


def measure(session: Session, request: Mapping[str, Any]) -> dict[str, Any]:
    """Show every tap, multiply the last one with the head's weights, cut at each.

    Parameters
    ----------
    session : Session
    request : mapping
        ``tokens`` and ``other`` (ids, as many), ``taps`` (``[producer, index]`` by layer), ``head``
        (``[name, input index]`` of the head's MatMul) or null, and ``bypasses`` (``[producer,
        index, positions of the taps that it is kept with]``).

    Returns
    -------
    dict
        ``taps`` (shape, whether finite, largest magnitude), ``logits`` (shape), ``effect`` of the
        other tokens on the logits, ``head`` (difference of the logits) and ``cuts`` (what moved).
        Differences are relative to the largest magnitude.
    """
    model = session.model("target")
    taps = [Value(*tap) for tap in request["taps"]]
    bypasses = {Value(name, index): frozenset(kept) for name, index, kept in request["bypasses"]}
    ports = find(model, [*taps, *bypasses])
    sources = [_value(origin(ports[tap])) for tap in taps]
    points = _Points(taps, sources, bypasses)
    session.say(f"running {len(request['tokens'])} tokens with {len(taps)} taps exposed")
    seen, other = _record(session, points, request["tokens"], request["other"])
    found: dict[str, Any] = {
        "taps": [_description(seen[tap]) for tap in taps],
        "logits": list(seen[_LOGITS].shape),
        "effect": difference(other[_LOGITS], seen[_LOGITS]),
        "head": None,
    }
    if request["head"] is not None:
        session.say("multiplying the last tap with the head's weights")
        states = [values[taps[-1]] for values in (seen, other)]
        found["head"] = _through_head(session, Value(*request["head"]), states, seen[_LOGITS])
    session.say(f"cutting at {len(taps)} taps")
    return found | _cut_test(session, points, (request["tokens"], seen), (request["other"], other))


def _value(port: Any) -> Value:
    return Value(port.get_node().get_friendly_name(), port.get_index())


def _record(session: Session, points: _Points, *texts: Sequence[int]) -> list[dict[Any, Any]]:
    """Values of the taps, of what they are reshaped from, and of the bypasses, for each list of tokens."""
    model = session.copy("target")
    wanted = list(dict.fromkeys([*points.taps, *points.cuts]))
    ports = find(model, wanted)
    positions = expose(model, [ports[value] for value in wanted])
    runner = session.runner(model)
    recorded = []
    for tokens in texts:
        runner.reset()
        values = runner.run([tokens])
        recorded.append(
            {value: values[position] for value, position in zip(wanted, positions, strict=True)}
            | {_LOGITS: values[runner.output(_LOGITS)]}
        )
    return recorded


def _description(value: Any) -> dict[str, Any]:
    import numpy as np

    finite = bool(np.isfinite(value).all())
    return {"shape": list(value.shape), "finite": finite, "largest": float(np.abs(value).max()) if finite else None}


def _through_head(session: Session, head: Value, taps: Sequence[Any], logits: Any) -> dict[str, Any]:
    """What the head and what follows it make of two taps, against the logits of the first."""
    model = session.copy("target")
    name = "irtools_hidden_state"
    node = next(op for op in model.get_ops() if op.get_friendly_name() == head.producer)
    _detach(model, node.input(head.index), name)
    part = part_of(model, name, _LOGITS)
    runner = session.runner(part, given={name})
    rank = len(part.input(name).get_partial_shape())
    made = []
    for tap in taps:
        shape = tap.shape if rank == tap.ndim else (*(1,) * (rank - 2), -1, tap.shape[-1])
        made.append(runner.run([[0]], given={name: tap.reshape(shape)})[0])
    own, changed = (difference(value.reshape(-1), logits.reshape(-1)) for value in made)
    return {"shape": list(made[0].shape), "elements": made[0].size, "difference": own, "effect": changed}


def _detach(model: Any, reader: Any, name: str) -> None:
    """Let one op read a new input of the model."""
    import openvino.opset13 as ops

    source = reader.get_source_output()
    parameter = ops.parameter(source.get_partial_shape(), source.get_element_type(), name=name)
    parameter.output(0).set_names({name})
    reader.replace_source_output(parameter.output(0))
    model.add_parameters([parameter])


def _cut_test(
    session: Session, points: _Points, kept: tuple[Sequence[int], Any], changed: tuple[Sequence[int], Any]
) -> dict[str, Any]:
    """Cut at every tap; for each, change everything before it and see what moves after it."""
    model = session.copy("target")
    places = points.cuts
    ports = find(model, places)
    shown = expose(model, [ports[source] for source in points.sources])
    names = {place: f"irtools_cut_{number}" for number, place in enumerate(places)}
    cut(model, [(names[place], ports[place]) for place in places])
    runner = session.runner(model, given=names.values())
    watched = [*shown, runner.output(_LOGITS)]
    last = {source: position for position, source in enumerate(points.sources)}

    def run(tokens: Sequence[int], values: Mapping[Value, Any]) -> list[Any]:
        runner.reset()
        outputs = runner.run([tokens], given={names[place]: values[place] for place in places})
        return [outputs[position] for position in watched]

    (tokens, seen), (others, other) = kept, changed
    expected = run(tokens, seen)
    agree = [
        difference(value, seen[source]) for value, source in zip(expected, [*points.sources, _LOGITS], strict=True)
    ]
    moved: list[list[list[Any]]] = []
    for tap in range(len(points.taps)):
        fixed = {place for place in places if last.get(place, -1) >= tap or tap in points.bypasses.get(place, ())}
        values = run(others, {place: (seen if place in fixed else other)[place] for place in places})
        after = range(tap + 1, len(watched))
        moved.append([[layer, difference(values[layer], expected[layer])] for layer in after])
    return {"agree": agree, "moved": moved}
