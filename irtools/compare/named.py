"""Compare states by variable, and hidden states by annotation."""

from __future__ import annotations

from collections.abc import Mapping

from irtools.compare.differences import AnnotationChange, Difference
from irtools.compare.ops import port_text
from irtools.compare.sides import PartPair, Side
from irtools.graph.view import GraphView
from irtools.model.annotation import Locator, parse_annotation, resolve_or_none

__all__ = ["compare_annotations", "compare_states", "read_states"]


def compare_states(pair: PartPair) -> tuple[tuple[Difference, ...], tuple[Difference, ...]]:
    """Changed states, and renamed states.

    States are matched by variable; if the other side lacks the variable, by the paired ReadValue.
    """
    a, b = read_states(pair.a.view), read_states(pair.b.view)
    owners = {op: name for name, (op, _) in b.items()}
    changed: list[Difference] = []
    renamed: list[Difference] = []
    for name, (op, text) in a.items():
        other = name if name in b else owners.get(pair.alignment.to_b.get(op, -1))
        if other is None or (other != name and other in a):
            changed.append(Difference(name, text, None))
            continue
        _, now = b.pop(other)
        if other != name:
            renamed.append(Difference(f"state {name}", name, other))
        if text != now:
            changed.append(Difference(name, text, now))
    changed += [Difference(name, None, text) for name, (_, text) in b.items()]
    return tuple(changed), tuple(renamed)


def read_states(view: GraphView) -> dict[str, tuple[int, str]]:
    """ReadValue op, and type and shape, of each state by variable."""
    states: dict[str, tuple[int, str]] = {}
    for key in view.by_type.get("ReadValue", ()):
        op = view.op(key)
        kind, shape = op.attributes.get("variable_type"), op.attributes.get("variable_shape", "").replace(" ", "")
        text = f"{kind} [{shape}]" if kind and shape else port_text(op.outputs[0]) if op.outputs else ""
        states.setdefault(op.attributes.get("variable_id", ""), (key, text))
    return states


def compare_annotations(pair: PartPair) -> tuple[tuple[AnnotationChange, ...], bool]:
    """Layers whose hidden states are different values.

    Returns
    -------
    changes : tuple of AnnotationChange
    respelled : bool
        True if the annotations differ but name the same values.
    """
    text_a, text_b = pair.a.document.annotation, pair.b.document.annotation
    if text_a == text_b:
        return _moved(pair), False
    first, second = _read(pair.a), _read(pair.b)
    changes = []
    for layer in sorted(first.keys() | second.keys(), key=lambda layer: (len(layer), layer)):
        one, other = first.get(layer), second.get(layer)
        if one is None or other is None or not _same_value(pair, one, other):
            changes.append(AnnotationChange(layer, _text(one), _text(other)))
    if not changes and None in (text_a, text_b):
        changes.append(AnnotationChange("", text_a, text_b))
    return tuple(changes), not changes


def _moved(pair: PartPair) -> tuple[AnnotationChange, ...]:
    """Layers whose locator is equal on both sides but names another op, because names were exchanged."""
    if pair.same:
        return ()
    return tuple(
        AnnotationChange(layer, _text(locator), f"{_text(locator)}, another op")
        for layer, locator in _read(pair.a).items()
        if isinstance(locator, Locator) and _paired(pair, locator, locator) is False
    )


def _read(side: Side) -> Mapping[str, Locator | str]:
    """Locators of an annotation by layer; the text itself if it is malformed."""
    text = side.document.annotation
    if text is None:
        return {}
    annotation = parse_annotation(text)
    return {"": f"{text} ({annotation.fault})"} if annotation.fault else dict(annotation.locators)


def _same_value(pair: PartPair, one: Locator | str, other: Locator | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    paired = _paired(pair, one, other)
    return one == other if paired is None else paired


def _paired(pair: PartPair, one: Locator, other: Locator) -> bool | None:
    """True if two locators name the same output of paired ops; None if an op is ambiguous, missing or unpaired."""
    first, second = resolve_or_none(pair.a.view, one), resolve_or_none(pair.b.view, other)
    if first is None or second is None or first.op not in pair.alignment.to_b or second.op not in pair.alignment.to_a:
        return None
    return pair.alignment.corresponds(first.op, second.op) and one.output_index == other.output_index


def _text(locator: Locator | str | None) -> str | None:
    if isinstance(locator, Locator):
        return f"{locator.producer}, output {locator.output_index}"
    return locator
