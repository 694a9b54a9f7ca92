"""Find an op by the name that a user gives."""

from __future__ import annotations

from irtools.errors import UsageError
from irtools.graph.view import GraphView
from irtools.text import clipped, did_you_mean, whole_number

__all__ = ["find_op"]

_SHOWN = 4


def find_op(view: GraphView, wanted: str) -> int:
    """Layer id of the op with a name.

    The name is a friendly name, a layer id, the tensor name of a model input or output, or a part of exactly
    one friendly name.

    Raises
    ------
    UsageError
        No op or more than one op matches.
    """
    ops = list(view.named.get(wanted, ()))
    number = whole_number(wanted)
    if not ops and number is not None and number in view.index:
        ops = [number]
    elif not ops and not (ops := _ports(view, wanted)):
        ops = [key for name, keys in view.named.items() if wanted and wanted in name for key in keys]
        computed = [key for key in ops if not view.constant(key)]
        ops = computed if len(computed) == 1 else ops
    if len(ops) == 1:
        return ops[0]
    if not ops:
        hint = did_you_mean(wanted, view.named, most=3) or "`irtools locate` and `irtools inspect` print some names."
        raise UsageError(f"no op is called {clipped(wanted)!r}.", hint=hint)
    some = ", ".join(f"{view.op_name(key)!r} (id {key})" for key in ops[:_SHOWN])
    more = ", ..." if len(ops) > _SHOWN else ""
    raise UsageError(f"{clipped(wanted)!r} could be {len(ops)} ops: {some}{more}; give the whole name or the id")


def _ports(view: GraphView, wanted: str) -> list[int]:
    """Model inputs with a tensor name; if there are none, model outputs."""
    inputs = [key for key in view.parameters if any(wanted in port.names for port in view.op(key).outputs)]
    return inputs or [key for key in view.results if wanted in view.result_names(key)]
