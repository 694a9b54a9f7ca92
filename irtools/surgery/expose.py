"""Add model outputs for hidden states, and remove such outputs again.

Runtimes that read the annotation do not need these outputs. They serve other runtimes and inspection of
the values.

An added output is recognized by the friendly name of its Result, ``irtools.expose/<layers>/<name>``
(``<layers>=`` if the value had this tensor name before). OpenVINO 2026.4 ignores unknown attributes and rt_info
of a layer and drops them when it saves a model, but keeps friendly names. The name of the output is written
twice. The ``output_names`` of the Result apply to this output alone, and OpenVINO reads them since 2025.0. Older
releases read the tensor names of the value. The name is not added there if another output takes its names from
this value.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from irtools.decoder.stack import DecoderStack
from irtools.errors import EditError
from irtools.graph.view import GraphView, Source
from irtools.ir.op import Port, layer_attributes, split_names
from irtools.model.annotation import Locator, read_annotation
from irtools.model.document import Document
from irtools.surgery.annotate import SameValue
from irtools.surgery.choice import RESERVED, distinct_layers, names_of, parse_layer_list, require_names
from irtools.surgery.edits import AddOp, Edit, NewPort, OpOutput, RemoveOp, SetTensorNames
from irtools.text import short_repr

__all__ = ["DEFAULT_NAME", "Exposed", "ExposedValue", "Exposure", "concealing", "exposed", "exposing"]

DEFAULT_NAME = "hidden_states.{layer}"
"""Default name of the output for a layer."""

_MARK = re.compile(r"irtools\.expose/([0-9]{1,9}(?:,[0-9]{1,9})*)(=?)/(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Exposed:
    """An output that exposes hidden states.

    Attributes
    ----------
    concat : bool
        True for the concatenation of the layers along the last axis.
    result : int
        Layer id of the Result.
    source : Source
        The value that the Result reads.
    named : bool
        True if the value had this tensor name before.
    """

    name: str
    layers: tuple[int, ...]
    concat: bool
    result: int
    source: Source
    named: bool


@dataclass(frozen=True, slots=True)
class ExposedValue:
    """Description of an exposed output; ``locator`` is the value that it reads."""

    name: str
    layers: tuple[int, ...]
    locator: Locator
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Exposure:
    """Result of exposing hidden states, or of removing exposed outputs.

    Attributes
    ----------
    edits : tuple of Edit
        Empty if there is nothing to do.
    outputs : tuple of ExposedValue
        The requested outputs, or the removed ones.
    """

    edits: tuple[Edit, ...]
    outputs: tuple[ExposedValue, ...]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return short_repr(self, *(output.name for output in self.outputs))


def exposed(graph: GraphView) -> tuple[Exposed, ...]:
    """Return the outputs that :func:`exposing` has added to a model, in the model's order."""
    outputs = []
    for key in graph.results:
        mark = _MARK.fullmatch(graph.op_name(key))
        sources = graph.inputs(key)
        if mark is None or len(sources) != 1:
            continue
        own = graph.result_names(key)
        name = mark[3] if mark[3] in own or not own else own[0]
        layers = tuple(map(int, mark[1].split(",")))
        own_concat = len(layers) > 1 or graph.op_name(sources[0].op) == f"{graph.op_name(key)}/Concat"
        concat = own_concat and graph.op_type(sources[0].op) == "Concat"
        outputs.append(Exposed(name, layers, concat, key, sources[0], bool(mark[2])))
    return tuple(outputs)


# -- exposing --------------------------------------------------------------------------


def exposing(
    document: Document,
    stack: DecoderStack,
    layers: Sequence[int] | int | str,
    *,
    names: str | Sequence[str] | None = None,
    concat: str | None = None,
) -> Exposure:
    """Work out the edits that add model outputs for hidden states after the existing outputs.

    Parameters
    ----------
    stack : DecoderStack
        Located in this document.
    layers : sequence of int, int or str
        Layers to expose; text as :func:`parse_layer_list` takes it.
    names : str or sequence of str, optional
        One name per layer, or a template with ``{layer}`` in it. Default: ``hidden_states.{layer}``, or no
        single outputs if ``concat`` is given.
    concat : str, optional
        Name of one output with all layers, concatenated along the last axis in the given order.

    Returns
    -------
    Exposure
        Without edits if all outputs exist already.

    Raises
    ------
    EditError
        A layer does not exist, a name is taken or reserved, or the values cannot be concatenated.
    """
    count = len(stack.layers)
    wanted = _wanted(layers, count)
    requested: list[tuple[str, tuple[int, ...], bool]] = []
    if names is not None or concat is None:
        single = names_of(DEFAULT_NAME if names is None else names, wanted)
        requested += [(name, (layer,), False) for name, layer in zip(single, wanted, strict=True)]
    if concat is not None:
        requested.append((concat, wanted, True))
    require_names(requested, count)
    present = {output.name: output for output in exposed(document.graph)}
    work = _Exposing(document, stack)
    for name, members, joined in requested:
        output = present.get(name)
        if output is None:
            work.add(name, members, joined)
        elif (output.layers, output.concat) == (members, joined):
            work.require_same(output)
        else:
            listed = ", ".join(map(str, output.layers))
            raise EditError(
                f"the exposed output {name!r} already exists, with the hidden states of layers {listed}; "
                "remove it with --remove first"
            )
    values = tuple(work.value(name, members, joined) for name, members, joined in requested)
    notes = list(_notes(document, stack, wanted))
    if any(name == RESERVED for name, _, _ in requested):
        notes.append(
            f"GenAI 2026.4 mistakes the output {RESERVED!r} for its own and fails to generate with a DFlash draft"
        )
    return Exposure(tuple(work.edits()), values, tuple(notes))


class _Exposing:
    """Collector of the ops to add and the tensor names to set."""

    def __init__(self, document: Document, stack: DecoderStack) -> None:
        self._graph = document.graph
        self._stack = stack
        self._taken = set(_taken(document.graph))
        self._named_by_value = set(_named_by_value(document.graph))
        self._ops: list[Edit] = []
        self._tensors: dict[Source, list[str]] = {}

    def _port(self, source: Source) -> Port:
        port = self._graph.port(source)
        assert port is not None, "the stack was located in this graph"
        return port

    def _output(self, source: Source) -> OpOutput:
        return OpOutput(source.op, self._graph.output_index(source))

    def require_same(self, output: Exposed) -> None:
        """Raise an EditError if an exposed output reads other values than the stack has."""
        sources = self._graph.inputs(output.source.op) if output.concat else (output.source,)
        for layer, source in zip(output.layers, sources, strict=False):
            if source != self._stack.layers[layer].source:
                raise EditError(
                    f"the exposed output {output.name!r} does not read the hidden state of layer {layer}; "
                    "remove it with --remove first"
                )

    def add(self, name: str, layers: Sequence[int], concat: bool) -> None:
        """Add one output."""
        if name in self._taken:
            raise EditError(
                f"an input or output of the model is already named {name!r}; choose another name for the new output"
            )
        source = self._stack.layers[layers[0]].source
        named = not concat and name in self._port(source).names
        mark = _mark(name, layers, named=named)
        if not concat:
            if not named and source not in self._named_by_value:
                self._tensors.setdefault(source, []).append(name)
            read = self._output(source)
        else:
            read = self._add_concat(f"{mark}/Concat", name, layers)
        self._ops.append(AddOp("Result", mark, (read,), output_names=(name,)))

    def value(self, name: str, layers: tuple[int, ...], concat: bool) -> ExposedValue:
        """Describe one output."""
        if not concat:
            layer = self._stack.layers[layers[0]]
            return ExposedValue(name, layers, layer.locator, layer.shape)
        return ExposedValue(name, layers, Locator(f"{_mark(name, layers)}/Concat"), self._concat_shape(layers))

    def _concat_shape(self, layers: Sequence[int]) -> tuple[int, ...]:
        shapes = [self._port(self._stack.layers[layer].source).shape for layer in layers]
        return (*shapes[0][:-1], sum(shape[-1] for shape in shapes))

    def _add_concat(self, mark: str, name: str, layers: Sequence[int]) -> OpOutput:
        sources = [self._stack.layers[layer].source for layer in layers]
        types = [self._port(source).element_type for source in sources]
        if len(set(types)) > 1:
            listed = ", ".join(f"{layer}: {kind}" for layer, kind in zip(layers, types, strict=True))
            raise EditError(f"the hidden states have different types ({listed}) and cannot be concatenated")
        port = NewPort(types[0], self._concat_shape(layers), (name,))
        self._ops.append(AddOp("Concat", mark, tuple(map(self._output, sources)), (port,), {"axis": "-1"}))
        return OpOutput(mark)

    def edits(self) -> Iterator[Edit]:
        """Yield all edits."""
        yield from self._ops
        for source, names in self._tensors.items():
            yield SetTensorNames(self._output(source), (*self._port(source).names, *names))


def _mark(name: str, layers: Sequence[int], *, named: bool = False) -> str:
    return f"irtools.expose/{','.join(map(str, layers))}{'=' if named else ''}/{name}"


def _taken(graph: GraphView) -> Iterator[str]:
    """Yield the names of the model's inputs and outputs.

    Names of other tensors are free: exporters use ``hidden_states.1`` and OpenVINO is never asked for it.
    """
    for key in graph.parameters:
        yield from (name for port in graph.op(key).outputs for name in port.names)
    for key in graph.results:
        yield from graph.result_names(key)


def _named_by_value(graph: GraphView) -> Iterator[Source]:
    """Yield the values whose tensor names name a model output."""
    for key in graph.results:
        if not layer_attributes(graph.scan.data, graph.span(key)).get("output_names"):
            yield from graph.inputs(key)


def _notes(document: Document, stack: DecoderStack, layers: Iterable[int]) -> tuple[str, ...]:
    """List the layers for which the file's annotation names another value than was located."""
    annotation = read_annotation(document.scan)
    if annotation is None:
        return ()
    if annotation.fault:
        return (f"the annotation of the file is malformed, so the located values are exposed ({document.path.name})",)
    same = SameValue(document.graph, stack)
    return tuple(
        f"the annotation of the file names {annotated.producer!r} for layer {layer}; "
        f"the located value {stack.layers[layer].locator.producer!r} is exposed"
        for layer in layers
        if (annotated := annotation.locators.get(str(layer))) is not None
        and annotated != stack.layers[layer].locator
        and not same(layer, annotated)
    )


# -- removing exposed outputs ----------------------------------------------------------


def concealing(
    document: Document,
    layers: Sequence[int] | int | str | None = None,
    *,
    names: str | Sequence[str] | None = None,
    concat: str | None = None,
    count: int | None = None,
) -> Exposure:
    """Work out the edits that remove exposed outputs and nothing else.

    Without ``layers``, ``names`` and ``concat`` they remove every exposed output.

    Parameters
    ----------
    layers : sequence of int, int or str, optional
        Remove the outputs of these single layers, under any name; with ``concat``, only if ``names`` is given too.
    names : str or sequence of str, optional
        Remove outputs by name, or by a template with ``{layer}`` in it.
    concat : str, optional
        Remove the concatenation of this name.
    count : int, optional
        Number of layers of the decoder stack; required for ``last``.

    Returns
    -------
    Exposure
        Without edits if there is no such output.

    Raises
    ------
    EditError
        A name is that of an output that :func:`exposing` did not add.
    """
    graph = document.graph
    present = exposed(graph)
    every = isinstance(layers, str) and layers.strip().lower() == "all"
    wanted = None if layers is None else range(sys.maxsize) if every else _wanted(layers, count)
    spelled = [names, *split_names(names)] if isinstance(names, str) else names
    others = {name for key in graph.results for name in graph.result_names(key)} - {output.name for output in present}
    for name in (*(spelled or ()), *([concat] if concat is not None else [])):
        if name in others:
            raise EditError(
                f"the output {name!r} was not added by exposing a hidden state; name an exposed output, or none to "
                "remove them all"
            )
    chosen = [output for output in present if _chosen(output, wanted, spelled, concat)]
    edits: list[Edit] = []
    tensors: dict[Source, set[str]] = {}
    for output in chosen:
        edits.append(RemoveOp(output.result))
        if output.concat:
            edits.append(RemoveOp(output.source.op))
        elif not output.named:
            tensors.setdefault(output.source, set()).add(output.name)
    for source, removed in tensors.items():
        port = graph.port(source)
        kept = tuple(name for name in port.names if name not in removed) if port is not None else ()
        edits.append(SetTensorNames(OpOutput(source.op, graph.output_index(source)), kept))
    return Exposure(tuple(edits), tuple(_value(graph, output) for output in chosen))


def _value(graph: GraphView, output: Exposed) -> ExposedValue:
    locator = Locator(graph.op_name(output.source.op), graph.output_index(output.source))
    return ExposedValue(output.name, output.layers, locator, graph.shape(output.source))


def _wanted(layers: Sequence[int] | int | str, count: int | None) -> tuple[int, ...]:
    if isinstance(layers, str):
        return parse_layer_list(layers, count)
    return distinct_layers([layers] if isinstance(layers, int) else list(layers), count)


def _chosen(output: Exposed, layers: Collection[int] | None, names: Sequence[str] | None, concat: str | None) -> bool:
    if layers is None and names is None and concat is None:
        return True
    if output.concat:
        return output.name == concat
    if concat is not None and names is None:
        return False
    if layers is not None and output.layers[0] not in layers:
        return False
    return names is None or output.name in [name.replace("{layer}", str(output.layers[0])) for name in names]
