"""What names ops: states by their variables, hidden states by the annotation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from irtools.compare.model import AnnotationChange, Change
from irtools.compare.ops import port_text
from irtools.compare.sides import Pair, Side
from irtools.graph.view import GraphView
from irtools.model.annotation import Locator, MalformedAnnotationError, parse_annotation

__all__ = ["compare_annotations", "compare_states", "read_states"]


def compare_states(pair: Pair) -> tuple[tuple[Change, ...], tuple[Change, ...]]:
    """States that differ, and states that are only named otherwise.

    A state is known by its variable; one that the other side does not have, by the op that reads it.
    """
    a, b = read_states(pair.a.view), read_states(pair.b.view)
    owners = {op: name for name, (op, _) in b.items()}
    found: list[Change] = []
    renamed: list[Change] = []
    for name, (op, text) in a.items():
        other = name if name in b else owners.get(pair.alignment.to_b.get(op, -1))
        if other is None or (other != name and other in a):
            found.append(Change(name, text, None))
            continue
        _, now = b.pop(other)
        if other != name:
            renamed.append(Change(f"state {name}", name, other))
        if text != now:
            found.append(Change(name, text, now))
    found += [Change(name, None, text) for name, (_, text) in b.items()]
    return tuple(found), tuple(renamed)


def read_states(view: GraphView) -> dict[str, tuple[int, str]]:
    """Reading op, type and shape of each state, by variable."""
    found: dict[str, tuple[int, str]] = {}
    for key in view.by_type.get("ReadValue", ()):
        op = view.op(key)
        declared = op.attributes.get("variable_type", ""), op.attributes.get("variable_shape", "")
        shape = f"[{declared[1].replace(' ', '')}]" if declared[1] else ""
        text = f"{declared[0]} {shape}" if all(declared) else port_text(op.outputs[0]) if op.outputs else ""
        found.setdefault(op.attributes.get("variable_id", ""), (key, text))
    return found


def compare_annotations(pair: Pair) -> tuple[tuple[AnnotationChange, ...], bool]:
    """Layers whose hidden states are not the same values.

    Returns
    -------
    tuple of AnnotationChange
    bool
        Whether the annotations name the same values in other words.
    """
    said = [side.document.annotation for side in (pair.a, pair.b)]
    if said[0] == said[1]:
        return _moved(pair), False
    sides = [_read(side) for side in (pair.a, pair.b)]
    first, second = sides
    found = []
    for layer in sorted(first.keys() | second.keys(), key=lambda layer: (len(layer), layer)):
        one, other = first.get(layer), second.get(layer)
        if one is None or other is None or not _same_value(pair, one, other):
            found.append(AnnotationChange(layer, _text(one), _text(other)))
    if not found and None in said:
        found.append(AnnotationChange("", said[0], said[1]))
    return tuple(found), not found


def _moved(pair: Pair) -> tuple[AnnotationChange, ...]:
    """The same text can name other values: where names were exchanged."""
    if pair.same or pair.a.document.annotation is None:
        return ()
    locators = _read(pair.a)
    return tuple(
        AnnotationChange(layer, _text(locator), f"{_text(locator)}, another op")
        for layer, locator in locators.items()
        if isinstance(locator, Locator) and _known(pair, locator, locator) is False
    )


def _read(side: Side) -> Mapping[str, Locator | str]:
    """What an annotation says by layer; the text itself, if it cannot be understood."""
    text = side.document.annotation
    if text is None:
        return {}
    try:
        return dict(parse_annotation(text).layers)
    except MalformedAnnotationError as error:
        return {"": f"{text} ({error})"}


def _same_value(pair: Pair, one: Locator | str, other: Locator | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    known = _known(pair, one, other)
    return one == other if known is None else known


def _known(pair: Pair, one: Locator, other: Locator) -> bool | None:
    """Whether two locators name ops that are a pair; None when a name does not say which op it means."""
    first, second = _op(pair.a, one), _op(pair.b, other)
    if first is None or second is None or first not in pair.alignment.to_b or second not in pair.alignment.to_a:
        return None
    return pair.alignment.corresponds(first, second) and one.output_index == other.output_index


def _op(side: Side, locator: Locator) -> int | None:
    names = side.view.scan.names
    if Counter(names)[locator.producer] != 1:
        return None
    return side.view.scan.ids[names.index(locator.producer)]


def _text(locator: Locator | str | None) -> str | None:
    if isinstance(locator, Locator):
        return f"{locator.producer}, output {locator.output_index}"
    return locator
