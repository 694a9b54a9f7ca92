"""Measurements of the step ``taps``. Runs in the worker process.

There are two compiled models besides lm_head: one that exposes every tap, and one that is cut at all taps at
once. The second one shows that a tap is a layer boundary: the tap and later taps get their values for some tokens,
all earlier cuts get the values for other tokens, and later outputs must not change. This takes one run per tap
and only one compilation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irtools.model.annotation import Locator
from irtools.prove.cutting import cut, expose, find, origin, part_of
from irtools.prove.drive import Session, difference
from irtools.text import plural

__all__ = ["measure"]

_LOGITS = "logits"


@dataclass(frozen=True)
class _Points:
    """Measured values of the model.

    Attributes
    ----------
    taps, sources : list of Locator
        For each layer, the annotated value, and the same value before any reshape.
    bypasses : mapping of Locator to frozenset of int
        Values that bypass taps, and positions of the taps with which they are kept.
    """

    taps: list[Locator]
    sources: list[Locator]
    bypasses: Mapping[Locator, frozenset[int]]

    @property
    def cuts(self) -> list[Locator]:
        """Sources and bypasses without duplicates."""
        return list(dict.fromkeys([*self.sources, *self.bypasses]))


def measure(session: Session, request: Mapping[str, Any]) -> dict[str, Any]:
    """Expose every tap, run lm_head on the last tap, and cut at each tap.

    Parameters
    ----------
    request : mapping
        ``tokens`` and ``other`` (lists of ids of one length), ``taps`` (``[producer, index]`` by layer), ``head``
        (``[name, input index]`` of lm_head) or null, and ``bypasses`` (``[producer,
        index, positions of the taps with which it is kept]``).

    Returns
    -------
    dict
        ``taps`` (shape, finiteness, largest magnitude), ``logits`` (shape), ``effect`` of the
        other tokens on the logits, ``head`` (difference of the logits), ``agree`` and ``moved`` (see
        :func:`_cut_test`). Differences are relative to the largest magnitude.
    """
    model = session.model("target")
    taps = [Locator(*tap) for tap in request["taps"]]
    bypasses = {Locator(name, index): frozenset(kept) for name, index, kept in request["bypasses"]}
    ports = find(model, [*taps, *bypasses])
    sources = [_value(origin(ports[tap])) for tap in taps]
    points = _Points(taps, sources, bypasses)
    session.say(f"running {len(request['tokens'])} tokens with {plural(len(taps), 'exposed tap')}")
    seen, other = _record(session, points, request["tokens"], request["other"])
    measured: dict[str, Any] = {
        "taps": [_description(seen[tap]) for tap in taps],
        "logits": list(seen[_LOGITS].shape),
        "effect": difference(other[_LOGITS], seen[_LOGITS]),
        "head": None,
    }
    if request["head"] is not None:
        session.say("running lm_head on the last tap")
        states = [values[taps[-1]] for values in (seen, other)]
        measured["head"] = _through_head(session, request["head"], states, seen[_LOGITS])
    session.say(f"cutting at {plural(len(taps), 'tap')}")
    return measured | _cut_test(session, points, (request["tokens"], seen), (request["other"], other))


def _value(port: Any) -> Locator:
    return Locator(port.get_node().get_friendly_name(), port.get_index())


def _record(session: Session, points: _Points, *texts: Sequence[int]) -> list[dict[Any, Any]]:
    """Values of taps, sources, bypasses and logits for each list of tokens."""
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
    finite = bool(np.isfinite(value).all())
    return {"shape": list(value.shape), "finite": finite, "largest": float(np.abs(value).max()) if finite else None}


def _through_head(session: Session, head: tuple[str, int], taps: Sequence[Any], logits: Any) -> dict[str, Any]:
    """Logits computed from two values of the last tap, compared with the model's logits for the first."""
    model = session.copy("target")
    name = "irtools_hidden_state"
    node = next(op for op in model.get_ops() if op.get_friendly_name() == head[0])
    cut(model, [(name, node.input_value(head[1]))])
    part = part_of(model, name, _LOGITS)
    runner = session.runner(part, given={name})
    rank = len(part.input(name).get_partial_shape())
    made = []
    for tap in taps:
        shape = tap.shape if rank == tap.ndim else (*(1,) * (rank - 2), -1, tap.shape[-1])
        made.append(runner.run([[0]], given={name: tap.reshape(shape)})[0])
    own, changed = (difference(value.reshape(-1), logits.reshape(-1)) for value in made)
    return {"shape": list(made[0].shape), "elements": made[0].size, "difference": own, "effect": changed}


def _cut_test(
    session: Session, points: _Points, kept: tuple[Sequence[int], Any], changed: tuple[Sequence[int], Any]
) -> dict[str, Any]:
    """Cut at every tap; for each tap, change all values before it and measure the change after it.

    Returns
    -------
    dict
        ``agree``: differences between the cut model with its own values and the original model. ``moved``: for each
        kept tap, ``[position, difference]`` of the later taps and the logits.
    """
    model = session.copy("target")
    places = points.cuts
    ports = find(model, places)
    shown = expose(model, [ports[source] for source in points.sources])
    names = {place: f"irtools_cut_{number}" for number, place in enumerate(places)}
    cut(model, [(names[place], ports[place]) for place in places])
    runner = session.runner(model, given=names.values())
    watched = [*shown, runner.output(_LOGITS)]
    last = {source: position for position, source in enumerate(points.sources)}

    def run(tokens: Sequence[int], values: Mapping[Locator, Any]) -> list[Any]:
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
