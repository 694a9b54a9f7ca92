"""Find the op that a user names."""

from __future__ import annotations

from difflib import get_close_matches

from irtools.errors import UsageError
from irtools.graph.view import GraphView

__all__ = ["find_op"]

_SHOWN = 4


def find_op(view: GraphView, wanted: str) -> int:
    """The op that a user means.

    By friendly name, by layer id, by the tensor name of an input or output of the model, or by a part of its
    friendly name that fits no other.

    Raises
    ------
    UsageError
        There is none, or several.
    """
    names: dict[str, list[int]] = {}
    for key, name in zip(view.scan.ids, view.scan.names, strict=True):
        names.setdefault(name, []).append(key)
    if wanted in names:
        found = names[wanted]
    elif wanted.isdecimal() and int(wanted) in view.index:
        found = [int(wanted)]
    elif not (found := _ports(view, wanted)):
        found = [key for name, keys in names.items() if wanted and wanted in name for key in keys]
        computed = [key for key in found if not view.constant(key)]
        found = computed if len(computed) == 1 else found
    if len(found) == 1:
        return found[0]
    if not found:
        close = get_close_matches(wanted, names, 3, 0.5)
        hint = (
            f"Close: {', '.join(map(repr, close))}."
            if close
            else "`irtools locate` and `irtools inspect` print some names."
        )
        raise UsageError(f"no op is called {wanted!r}.", hint=hint)
    some = ", ".join(f"{view.op_name(key)!r} (id {key})" for key in found[:_SHOWN])
    more = ", ..." if len(found) > _SHOWN else ""
    raise UsageError(f"{wanted!r} could be {len(found)} ops: {some}{more}; give the whole name or the id")


def _ports(view: GraphView, wanted: str) -> list[int]:
    """The inputs of the model with a tensor name, or else the outputs."""
    inputs = [key for key in view.parameters if any(wanted in port.names for port in view.op(key).outputs)]
    return inputs or [key for key in view.results if wanted in view.result_names(key)]
