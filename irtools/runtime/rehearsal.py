"""The process in which OpenVINO reads an edited file and rehearses loading an annotated target.

:mod:`irtools.runtime.check` sends it two requests: the file to read ahead (or null), and later the rehearsal,
which is answered with a list of ``[is a problem, message]``. The checks are those of OpenVINO GenAI 2026.4 on a
DFlash target, before and after it converts the model to paged attention.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeAlias

from irtools.runtime.child import Progress, serve
from irtools.runtime.messages import short_message
from irtools.text import plural

__all__ = ["rehearse", "to_paged"]

_REFUSED = "OpenVINO GenAI 2026.4 refuses this model as a DFlash target"
_NAMED_EMBEDDING = ("embed_tokens", "embedding")
_EMBEDDING_ROWS = 1000
_EXTENSION = "unsupported opset: extension"
_SAME_NUMBERS = ("Reshape", "Squeeze", "Unsqueeze", "Convert")

Remarks: TypeAlias = Iterator[tuple[bool, str]]
Layers: TypeAlias = Mapping[str, tuple[str, int]]
"""Producer and output index by layer id."""


def rehearse(request: Mapping[str, Any], ahead: Any = None) -> Remarks:
    """Read the model and compare it; check the annotation, convert to paged attention, check again.

    ``ahead`` is a model of the same graph. It is converted while the file is read: the conversion is the longer half.
    """
    try:
        with ThreadPoolExecutor(1) as executor:
            reading = executor.submit(_read, request["xml"], request["bin"])
            converted = ahead if ahead is not None and not to_paged(ahead) else None
        model = reading.result()
    except RuntimeError as error:
        advice = "; install openvino-tokenizers, which has this op" if _EXTENSION in str(error) else ""
        yield True, f"OpenVINO cannot read it: {short_message(error)}{advice}{_edited(request['expected'])}"
        return
    if request["expected"] is not None:
        yield from _compared(model, *request["expected"])
    if request["compile"]:
        yield from _compiled(model)
    key = request["key"]
    if request["annotation"] is None:
        return
    if not model.has_rt_info(key) or model.get_rt_info(key).value != request["annotation"]:
        yield True, "OpenVINO reads another annotation from the file"
        return
    layers = {layer: (producer, index) for layer, producer, index in request["layers"]}
    yield from _shared(layers)
    widths = yield from _resolved(model.get_ops(), layers, "")
    if len(widths) < len(layers):
        return
    if converted is None:
        fault = to_paged(model)
        if fault:
            yield False, f"the conversion to paged attention could not be rehearsed: {fault}"
            return
        converted = model
    ops = converted.get_ordered_ops()
    after = yield from _resolved(ops, layers, " after the conversion to paged attention")
    for layer, width in after.items():  # the runtime compares them
        if width != widths[layer]:
            yield True, f"layer {layer} has width {widths[layer]}, but {width} after the conversion to paged attention"
    yield from _model_remarks(converted, ops, layers)


def _read(xml: str, weights: str) -> Any:
    import openvino as ov

    try:
        return ov.Core().read_model(xml, weights)
    except RuntimeError as error:
        if _EXTENSION not in str(error):
            raise
    with suppress(ImportError):
        import openvino_tokenizers  # noqa: F401  # adds its ops, which a tokenizer needs, to every Core
    return ov.Core().read_model(xml, weights)


def _compiled(model: Any) -> Remarks:
    import openvino as ov

    try:
        ov.Core().compile_model(model, "CPU")
    except RuntimeError as error:
        single = "; for a batch of 1 it can: Model.reshape sets this size" if _compiles_single(model) else ""
        why = short_message(error).rstrip(".")
        yield False, f"OpenVINO reads the piece but cannot compile it for the CPU: {why}{single}"


def _compiles_single(model: Any) -> bool:
    """True if the model compiles for one sequence.

    OpenVINO 2026.4 relates dynamic sizes to each other, and can make a loop of that: observed with a state-space layer
    after attention.
    """
    import openvino as ov

    shapes = {}
    for port in model.inputs:
        shape = port.get_partial_shape()
        if shape.rank.is_static and len(shape) and shape[0].is_dynamic:
            shape[0] = 1
            shapes[port] = shape
    try:
        model.reshape(shapes)
        ov.Core().compile_model(model, "CPU")
    except RuntimeError:
        return False
    return bool(shapes)


def to_paged(model: Any) -> str:
    """Convert a model to paged attention in place, as GenAI does; return the reason if OpenVINO cannot."""
    from openvino._offline_transformations import paged_attention_transformation

    missing = _missing(model)
    try:
        paged_attention_transformation(model)
    except RuntimeError as error:
        return missing or short_message(error)
    return ""


def _edited(expected: Sequence[Any] | None) -> str:
    """The edited ops, in parentheses: OpenVINO's own message does not use friendly names."""
    names = [name for name, _ in expected[2]] if expected else []
    return f" (edited: {', '.join(map(repr, names[:3]))}{', ...' if names[3:] else ''})" if names else ""


def _compared(model: Any, inputs: int, outputs: Sequence[Sequence[str]], ops: Sequence[tuple[str, Any]]) -> Remarks:
    """Differences between the expected graph and the one that OpenVINO reads."""
    if len(model.inputs) != inputs:
        yield True, f"OpenVINO reads {plural(len(model.inputs), 'input')} from the file, which has {inputs}"
    read = [port.get_names() for port in model.outputs]
    if len(read) != len(outputs) or any(not set(names) <= got for names, got in zip(outputs, read, strict=True)):
        listed = ", ".join("/".join(sorted(names)) for names in read)
        yield True, f"OpenVINO reads other outputs from the file: {listed}"
    by_name = _by_name(model, {name for name, _ in ops})
    for name, ports in ops:
        if name not in by_name:
            yield False, f"no output of the model depends on {name!r}, so OpenVINO leaves it out"
            continue
        for number, (kind, dims) in enumerate(ports):
            port = by_name[name].output(number)
            shape, wanted = port.get_partial_shape(), _shape(dims)
            element_type = port.get_element_type().get_type_name()
            if element_type != kind or not shape.compatible(wanted):
                got = f"output {number} of {name!r} as {element_type} {shape}"
                yield False, f"OpenVINO reads {got}, but the file says {kind} {wanted}"


def _by_name(model: Any, wanted: set[str]) -> dict[str, Any]:
    results = model.get_results()
    near = [*results, *(op.input_value(0).get_node() for op in results)]
    ops = {name: op for op in near if (name := op.get_friendly_name()) in wanted}
    if len(ops) < len(wanted):  # `get_ops` takes 0.8 s for 265,000 ops
        ops = {name: op for op in model.get_ops() if (name := op.get_friendly_name()) in wanted}
    return ops


def _shape(dims: Sequence[int]) -> Any:
    """A shape of the file, which writes a scalar and an unknown rank alike: without dimensions."""
    import openvino as ov

    return ov.PartialShape(list(dims)) if dims else ov.PartialShape.dynamic()


def _missing(model: Any) -> str:
    """The op type that the conversion needs and the model lacks; clearer than OpenVINO's message."""
    types = {op.get_type_name() for op in model.get_ops()}
    if "ScaledDotProductAttention" not in types:
        return "it has no ScaledDotProductAttention op"
    return "" if "ReadValue" in types else "it keeps no state; export it with `--task text-generation-with-past`"


def _shared(layers: Layers) -> Remarks:
    """Problems with values that stand for two layers."""
    for (producer, index), count in Counter(layers.values()).items():
        if count > 1:
            names = [layer for layer, other in layers.items() if other == (producer, index)]
            yield True, f"layers {' and '.join(names)} share {producer!r} output {index}"


def _resolved(ops: Sequence[Any], layers: Layers, when: str) -> Any:
    """Check that each producer is one op with a value of rank 3 and static width; return the widths by layer."""
    wanted = {producer for producer, _ in layers.values()}
    named: dict[str, list[Any]] = {}
    for op in ops:
        name = op.get_friendly_name()
        if name in wanted:
            named.setdefault(name, []).append(op)
    widths = {}
    for layer, (producer, index) in layers.items():
        producers = named.get(producer, [])
        fault = _fault(producers, index)
        if fault:
            yield True, f"layer {layer}, {producer!r}: {fault}{when}"
        else:
            widths[layer] = producers[0].output(index).get_partial_shape()[2].get_length()
    return widths


def _fault(ops: list[Any], index: int) -> str:
    if len(ops) != 1:
        return f"{len(ops)} ops have this name" if ops else "no op has this name"
    count = ops[0].get_output_size()
    if index >= count:
        return f"the op has {plural(count, 'output')} and no index {index}"
    shape = ops[0].output(index).get_partial_shape()
    if shape.rank.is_dynamic or shape.rank.get_length() != 3 or shape[2].is_dynamic:
        return f"the value has the shape {shape}; the runtime needs rank 3 and a static last dimension"
    return ""


def _model_remarks(model: Any, ops: Sequence[Any], layers: Layers) -> Remarks:
    """Check what the runtime requires of the model: no state, a head that reads the last layer, an embedding."""
    states = [op.get_friendly_name() for op in ops if op.get_type_name() in ("ReadValue", "Assign")]
    if states:
        yield False, f"{_REFUSED}: {len(states)} state ops are left after the conversion, such as {states[0]!r}"
    head = _head(model)
    if head is None:
        yield False, f"{_REFUSED}: `logits` is not produced by a MatMul, alone or under an Add, Transpose or soft-cap"
    elif layers:
        last = max(layers, key=lambda layer: (len(layer), layer))
        read = list(_read_by(head))
        if layers[last] not in read:
            name = layers[last][0]
            yield False, f"after the conversion the head reads {read[0][0]!r}, not {name!r} of layer {last}"
    names = {name for port in model.inputs for name in port.get_names()}
    if "input_ids" in names and not any(_embeds(op) for op in ops if op.get_type_name() == "Gather"):
        yield (
            False,
            f"{_REFUSED} if the draft has no embedding itself: no Gather reads a table "
            f"that has more than {_EMBEDDING_ROWS} rows or the name of an embedding",
        )


def _operand(op: Any) -> Any:
    return op.input_value(0).get_node()


def _head(model: Any) -> Any:
    """The MatMul that the runtime takes as lm_head; it looks only at the first operands."""
    outputs = [port for port in model.outputs if "logits" in port.get_names()]
    if not outputs:
        return None
    op = _operand(outputs[0].get_node())
    for chain in ((), ("Add",), ("Transpose",), ("Multiply", "Tanh", "Divide")):
        head = op
        for kind in chain:
            head = _operand(head) if head is not None and head.get_type_name() == kind else None
        if head is not None and head.get_type_name() == "MatMul":
            return head
    return None


def _read_by(head: Any) -> Iterator[tuple[str, int]]:
    """Name and output index of the lm_head input, then of the same value before each reshape."""
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


class _RehearsalServer:
    """Reads one file ahead, then rehearses.

    The annotated file has the same graph as the file before: only the rt_info differs, and a file that changes
    meanwhile is not replaced.
    """

    def __init__(self) -> None:
        self._files: list[str] | None = None
        self._model: Any = None

    def __call__(self, request: Mapping[str, Any], _: Progress) -> list[tuple[bool, str]] | None:
        if "ahead" not in request:
            return list(rehearse(request, self._model if request["original"] == self._files else None))
        import openvino as ov

        if request["ahead"] and self._files is None:
            self._files = request["ahead"]
            with suppress(RuntimeError):  # it fails again in the rehearsal, which reports it
                self._model = ov.Core().read_model(*request["ahead"])
        return None


if __name__ == "__main__":
    serve(_RehearsalServer())
