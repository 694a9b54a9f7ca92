"""The process in which OpenVINO reads an edited file, and rehearses loading an annotated target.

Run by :mod:`irtools.runtime.check`, which sends two requests: the file that is being annotated (or null),
and later what to rehearse; that is answered with a list of ``[is a problem, message]``. What is checked is
what OpenVINO GenAI 2026.4 requires of a DFlash target before and after it converts the model to paged
attention.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from irtools.runtime.bindings import load_bindings, load_package, to_paged_attention
from irtools.runtime.lines import Progress, serve

__all__ = ["Ahead", "reason", "rehearse", "to_paged"]

_REFUSED = "OpenVINO GenAI 2026.4 will not take this model as a DFlash target"
_NAMED_EMBEDDING = ("embed_tokens", "embedding")
_EMBEDDING_ROWS = 1000
_EXTENSION = "unsupported opset: extension"
_SAME_NUMBERS = ("Reshape", "Squeeze", "Unsqueeze", "Convert")

Remarks: TypeAlias = Iterator[tuple[bool, str]]
Layers: TypeAlias = Mapping[str, tuple[str, int]]
"""Producer and output index by layer id."""


class Ahead(threading.Thread):
    """Converts the file as it is to paged attention, while its decoder stack is being located.

    The annotated file has the same graph: only its rt_info differs, and a file that changes
    meanwhile is not replaced. The conversion is the longer half of a rehearsal.

    Attributes
    ----------
    files : list of str
        The ``.xml`` and the ``.bin``.
    model : openvino.Model or None
        After ``join``: the converted model; None when it could not be read or converted.
    """

    def __init__(self, files: Sequence[str]) -> None:
        super().__init__(daemon=True)
        self.files = list(files)
        self.model: Any = None
        self._reading = threading.Event()

    def let_convert(self) -> None:
        """Say that the new file is about to be read.

        The conversion keeps Python's lock to itself: begun before, it would keep the reading waiting for it.
        """
        self._reading.set()

    def run(self) -> None:
        """Read and convert; what goes wrong will go wrong again in the rehearsal itself, and be said there."""
        import openvino as ov

        with suppress(RuntimeError):
            model = ov.Core().read_model(*self.files)
            self._reading.wait()
            to_paged_attention(model)
            self.model = model


def rehearse(request: Mapping[str, Any], ahead: Ahead | None = None) -> Remarks:
    """Read the model and compare it; check the annotation, convert to paged attention, check again."""
    if request["compile"] or request["expected"] is not None:
        load_package()
    if ahead is not None:
        ahead.let_convert()
    try:
        model = _read(request["xml"], request["bin"])
    except RuntimeError as error:
        advice = "; openvino-tokenizers has such ops: install it" if _EXTENSION in str(error) else ""
        yield True, f"OpenVINO cannot read it: {reason(error)}{advice}{_edited(request['expected'])}"
        return
    if request["expected"] is not None:
        yield from _compared(model, *request["expected"])
    if request["compile"]:
        yield from _compiled(model)
    key = request["key"]
    if request["annotation"] is None:
        return
    if not model.has_rt_info(key) or model.get_rt_info(key).value != request["annotation"]:
        yield True, "OpenVINO reads another annotation from it"
        return
    layers = {layer: (producer, index) for layer, producer, index in request["layers"]}
    yield from _shared(layers)
    widths = yield from _resolved(model.get_ops(), layers, "")
    if len(widths) < len(layers):
        return
    converted, fault = to_paged(model, ahead if ahead and ahead.files == request["original"] else None)
    if fault:
        yield False, f"the conversion to paged attention could not be rehearsed: {fault}"
        return
    ops = converted.get_ordered_ops()
    after = yield from _resolved(ops, layers, " after the conversion to paged attention")
    for layer, width in after.items():  # the runtime compares them
        if width != widths[layer]:
            yield True, f"layer {layer} is {widths[layer]} wide, and {width} after the conversion to paged attention"
    yield from _model_remarks(converted, ops, layers)


def _read(xml: str, weights: str) -> Any:
    """The model; a tokenizer needs ops that OpenVINO itself has not got."""
    import openvino as ov

    try:
        return ov.Core().read_model(xml, weights)
    except RuntimeError as error:
        if _EXTENSION not in str(error):
            raise
    load_package()
    import openvino as ov

    with suppress(ImportError):
        import openvino_tokenizers  # noqa: F401  # teaches its ops to every Core
    return ov.Core().read_model(xml, weights)


def _compiled(model: Any) -> Remarks:
    import openvino as ov

    try:
        ov.Core().compile_model(model, "CPU")
    except RuntimeError as error:
        yield False, f"OpenVINO reads the piece, and cannot compile it for the CPU: {reason(error).rstrip('.')}"


def to_paged(model: Any, ahead: Ahead | None) -> tuple[Any, str]:
    """The model converted to paged attention, or why not."""
    if ahead is not None:
        ahead.join()
        if ahead.model is not None:
            return ahead.model, ""
    missing = _missing(model)
    try:
        to_paged_attention(model)
    except RuntimeError as error:
        return model, missing or reason(error)
    return model, ""


def reason(error: Exception) -> str:
    """The last line of an OpenVINO message: the ones above say where in its source."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _edited(expected: Sequence[Any] | None) -> str:
    """The ops that were edited: OpenVINO gives those that it is about to read names of its own."""
    names = [name for name, _ in expected[2]] if expected else []
    return f" (edited: {', '.join(map(repr, names[:3]))}{', ...' if names[3:] else ''})" if names else ""


def _compared(model: Any, inputs: int, outputs: Sequence[Sequence[str]], ops: Sequence[tuple[str, Any]]) -> Remarks:
    """What OpenVINO reads otherwise than the file was meant."""
    if len(model.inputs) != inputs:
        yield True, f"OpenVINO reads {len(model.inputs)} inputs from it, and it has {inputs}"
    read = [port.get_names() for port in model.outputs]
    if len(read) != len(outputs) or any(not set(names) <= there for names, there in zip(outputs, read, strict=True)):
        yield True, f"OpenVINO reads other outputs from it: {', '.join('/'.join(sorted(names)) for names in read)}"
    found = _found(model, {name for name, _ in ops})
    for name, ports in ops:
        if name not in found:
            yield False, f"no output of the model depends on {name!r}, so OpenVINO leaves it out"
            continue
        for number, (kind, shape) in enumerate(ports):
            port = found[name].output(number)
            there = port.get_partial_shape()
            if port.get_element_type().get_type_name() != kind or not there.compatible(_shape(shape)):
                what = f"output {number} of {name!r} is {port.get_element_type().get_type_name()} {there}"
                yield False, f"{what} to OpenVINO, and the file says {kind} {_shape(shape)}"


def _found(model: Any, wanted: set[str]) -> dict[str, Any]:
    """Ops by friendly name."""
    results = model.get_results()
    near = [*results, *(op.input_value(0).get_node() for op in results)]
    found = {name: op for op in near if (name := op.get_friendly_name()) in wanted}
    if len(found) < len(wanted):  # of 265,000 ops it takes 0.8 s to get all
        found = {name: op for op in model.get_ops() if (name := op.get_friendly_name()) in wanted}
    return found


def _shape(dims: Sequence[int]) -> Any:
    """A shape as the file says it; none is said for a scalar and for an unknown rank alike."""
    import openvino as ov

    return ov.PartialShape(list(dims)) if dims else ov.PartialShape.dynamic()


def _missing(model: Any) -> str:
    """What a model lacks that OpenVINO cannot convert; better words than its own."""
    types = {op.get_type_name() for op in model.get_ops()}
    if "ScaledDotProductAttention" not in types:
        return "it has no ScaledDotProductAttention op"
    return (
        "" if "ReadValue" in types else "it keeps no state, as an export with `--task text-generation-with-past` does"
    )


def _shared(layers: Layers) -> Remarks:
    """No value may stand for two layers."""
    for (producer, index), count in Counter(layers.values()).items():
        if count > 1:
            names = [layer for layer, other in layers.items() if other == (producer, index)]
            yield True, f"layers {' and '.join(names)} share {producer!r} output {index}"


def _resolved(ops: Sequence[Any], layers: Layers, when: str) -> Any:
    """There must be one op of that name, with that output, of rank 3 and known width. Returns the widths."""
    wanted = {producer for producer, _ in layers.values()}
    named: dict[str, list[Any]] = {}
    for op in ops:
        name = op.get_friendly_name()
        if name in wanted:
            named.setdefault(name, []).append(op)
    widths = {}
    for layer, (producer, index) in layers.items():
        found = named.get(producer, [])
        fault = _fault(found, index)
        if fault:
            yield True, f"layer {layer}, {producer!r}: {fault}{when}"
        else:
            widths[layer] = found[0].output(index).get_partial_shape()[2].get_length()
    return widths


def _fault(ops: list[Any], index: int) -> str:
    if len(ops) != 1:
        return f"{len(ops)} ops have this name" if ops else "no op has this name"
    count = ops[0].get_output_size()
    if index >= count:
        return f"the op has {count} outputs and no index {index}"
    shape = ops[0].output(index).get_partial_shape()
    if shape.rank.is_dynamic or shape.rank.get_length() != 3 or shape[2].is_dynamic:
        return f"the value has the shape {shape}, not three dimensions with the last one known"
    return ""


def _model_remarks(model: Any, ops: Sequence[Any], layers: Layers) -> Remarks:
    """What the runtime wants of the model itself: no state, a head, an embedding; and what the head reads."""
    states = [op.get_friendly_name() for op in ops if op.get_type_name() in ("ReadValue", "Assign")]
    if states:
        yield False, f"{_REFUSED}: {len(states)} state ops are left after the conversion, such as {states[0]!r}"
    head = _head(model)
    if head is None:
        yield False, f"{_REFUSED}: what produces `logits` is no MatMul, nor one under an Add, Transpose or soft-cap"
    elif layers:
        last = max(layers, key=lambda layer: (len(layer), layer))
        read = list(_read_by(head))
        if layers[last] not in read:
            name = layers[last][0]
            yield False, f"the head reads {read[0][0]!r} after the conversion, and not {name!r} of layer {last}"
    names = {name for port in model.inputs for name in port.get_names()}
    if "input_ids" in names and not any(_embeds(op) for op in ops if op.get_type_name() == "Gather"):
        yield (
            False,
            f"{_REFUSED} with a draft that has no embedding of its own: "
            f"no Gather reads a table of more than {_EMBEDDING_ROWS} rows or one named as embedding",
        )


def _operand(op: Any, index: int = 0) -> Any:
    return op.input_value(index).get_node()


def _head(model: Any) -> Any:
    """The MatMul that the runtime takes for the head, in the operand order that it expects."""
    outputs = [port for port in model.outputs if "logits" in port.get_names()]
    if not outputs:
        return None
    op = _operand(outputs[0].get_node())
    for chain in ((), ("Add",), ("Transpose",), ("Multiply", "Tanh", "Divide")):
        found = op
        for kind in chain:
            found = _operand(found) if found is not None and found.get_type_name() == kind else None
        if found is not None and found.get_type_name() == "MatMul":
            return found
    return None


def _read_by(head: Any) -> Iterator[tuple[str, int]]:
    """The value that the head reads, and what it was before it was reshaped or converted."""
    value = head.input_value(0)
    while True:
        op = value.get_node()
        yield op.get_friendly_name(), value.get_index()
        if op.get_type_name() not in _SAME_NUMBERS:
            return
        value = op.input_value(0)


def _embeds(gather: Any) -> bool:
    table = gather.input_value(0)
    shape = table.get_partial_shape()
    many = shape.rank.is_static and len(shape) and shape[0].is_static and shape[0].get_length() > _EMBEDDING_ROWS
    return bool(many) or any(word in table.get_node().get_friendly_name() for word in _NAMED_EMBEDDING)


class _Server:
    """Converts one file ahead, and then rehearses."""

    def __init__(self) -> None:
        self._ahead: Ahead | None = None

    def __call__(self, request: Mapping[str, Any], _: Progress) -> list[tuple[bool, str]] | None:
        if "ahead" not in request:
            return list(rehearse(request, self._ahead))
        load_bindings()  # while nobody waits for it yet
        if request["ahead"] and self._ahead is None:
            self._ahead = Ahead(request["ahead"])
            self._ahead.start()
        return None


def _main() -> None:
    gc.disable()  # nothing that a short process makes is worth collecting: 0.01 s of wrappers for ops
    serve(_Server())
    # OpenVINO takes 0.1 s to take itself down, for nobody.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    _main()
