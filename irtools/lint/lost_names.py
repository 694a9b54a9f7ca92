"""Fixes for ports that have lost their tensor name or friendly name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from irtools.lint.finding import Fix
from irtools.lint.fix_makers import make_edits
from irtools.model.part import ModelInput, ModelOutput, PartFacts
from irtools.model.ports import PORTS, TOKEN_INPUTS, PortForm, is_past, is_present
from irtools.surgery.edits import Edit, OpOutput, Rename, SetTensorNames

__all__ = ["lost_input", "lost_output", "name_input", "name_output"]

_MODEL = {name: PORTS[name] for name in (*TOKEN_INPUTS, "attention_mask", "position_ids", "beam_idx")}


def lost_input(part: PartFacts, name: str, forms: Mapping[str, PortForm] = _MODEL) -> ModelInput | None:
    """The only input that can be the one of a tensor name that no input has; None if several or none can.

    An input with the friendly name is the one. Otherwise it is an input without any known name, whose form only the
    missing name has; of several, the only one whose names contain the missing one.

    Parameters
    ----------
    forms : mapping of str to PortForm
        Forms of the inputs that the model must have, by tensor name; by default those of every language model.
    """
    if part.input(name) is not None or name not in forms:
        return None
    free = [port for port in part.inputs if _unknown(port, forms) and not is_past(port.label)]
    called = [port for port in free if port.friendly == name]
    if called:
        return called[0] if len(called) == 1 else None
    fitting = [port for port in free if port.friendly not in forms and _fits(port, forms[name])]
    tokens = part.input("input_ids") or part.input("inputs_embeds")
    missing = [
        other for other in forms if part.input(other) is None and not (other in TOKEN_INPUTS and tokens is not None)
    ]
    if len(fitting) == 1 and not any(_fits(fitting[0], forms[other]) for other in missing if other != name):
        return fitting[0]
    similar = [port for port in fitting if any(name in spelled for spelled in (*port.names, port.friendly))]
    return similar[0] if len(similar) == 1 else None


def lost_output(part: PartFacts, form: PortForm) -> ModelOutput | None:
    """The only output of a form that has no known name; None if there are several or none."""
    free = [port for port in part.outputs if _unknown(port) and not is_present(port.label) and _fits(port, form)]
    return free[0] if len(free) == 1 else None


def _fits(port: ModelInput | ModelOutput, form: PortForm) -> bool:
    return form.fits(port.element_type, port.shape)


def _unknown(port: ModelInput | ModelOutput, forms: Iterable[str] = ()) -> bool:
    """True if the runtime knows none of the tensor names of a port."""
    return {*PORTS, *forms}.isdisjoint(port.names)


def name_input(part: PartFacts, port: ModelInput | None, name: str) -> Fix | None:
    """Unsafe fix that gives an input its tensor name, and its op the same friendly name; None without a port."""
    if port is None or not part.graph.op(port.op).outputs:
        return None
    edits: list[Edit] = []
    if name not in port.names:
        edits.append(SetTensorNames(OpOutput(port.op), (name,)))
    if port.friendly != name and not part.graph.named.get(name):
        edits.append(Rename(port.op, name))
    return make_edits(f"Restore the name of the input {name!r}", edits) if edits else None


def name_output(part: PartFacts, port: ModelOutput | None, name: str) -> Fix | None:
    """Unsafe fix that gives a model output its tensor name; None without a port."""
    if port is None:
        return None
    graph, source = part.graph, port.source
    value = graph.port(source)
    edits: list[Edit] = []
    if value is not None and name not in value.names:
        # Names of the value that are not those of the output belong to the exporter, and stay.
        lost = set(port.names)
        kept = [name if old in lost else old for old in value.names] if lost.intersection(value.names) else [name]
        names = tuple(dict.fromkeys(kept if name in kept else [*value.names, name]))
        edits.append(SetTensorNames(OpOutput(source.op, graph.output_index(source)), names))
    if graph.own_result_names(port.op):
        edits.append(SetTensorNames(OpOutput(port.op), (name,)))
    return make_edits(f"Restore the name of the output {name!r}", edits)
