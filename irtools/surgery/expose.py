"""Make hidden states outputs of the model, and take such outputs away again.

The runtimes that read the annotation need no such outputs. They are for those that know none, and
for looking at the values.

An output that was added is known by the friendly name of its Result, ``irtools.expose/<layers>/<name>``
(``<layers>=`` where the value had this tensor name before). OpenVINO 2026.4 ignores attributes and rt_info
of a layer that it does not know and drops them when it saves a model, but keeps friendly names. The name
of the output is written twice: as ``output_names`` of the Result, which OpenVINO reads since 2025.0 and
which concerns this output alone, and among the tensor names of the value, from which older releases take
it; the latter not if another output takes its names from there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from irtools.decoder.stack import DecoderStack
from irtools.errors import EditError
from irtools.graph.view import GraphView, Source
from irtools.ir.op import Port, layer_attributes, split_names
from irtools.ir.rt_info import ANNOTATION_KEY, entries
from irtools.model.annotation import Locator, MalformedAnnotationError, parse_annotation
from irtools.model.document import Document
from irtools.surgery.annotate import SameValue
from irtools.surgery.choice import RESERVED, distinct_layers, names_of, parse_layer_list, require_names
from irtools.surgery.edits import AddOp, Edit, NewPort, Output, RemoveOp, SetTensorNames

__all__ = ["DEFAULT_NAME", "Exposed", "ExposedValue", "Exposure", "concealing", "exposed", "exposing"]

DEFAULT_NAME = "hidden_states.{layer}"
"""What the output of a layer is called."""

_MARK = re.compile(r"irtools\.expose/(\d+(?:,\d+)*)(=?)/(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Exposed:
    """An output that exposes hidden states.

    Attributes
    ----------
    name : str
    layers : tuple of int
        More than one, or ``concat``: their concatenation along the last axis.
    concat : bool
    result : int
        Layer id of the Result.
    source : Source
        What it reads.
    named : bool
        Whether the value had this tensor name before.
    """

    name: str
    layers: tuple[int, ...]
    concat: bool
    result: int
    source: Source
    named: bool


@dataclass(frozen=True, slots=True)
class ExposedValue:
    """What an output gives, for people and programs.

    Attributes
    ----------
    name : str
    layers : tuple of int
    locator : Locator
        The op and the index that it reads.
    shape : tuple of int
    """

    name: str
    layers: tuple[int, ...]
    locator: Locator
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Exposure:
    """What exposing, or taking it back, comes to.

    Attributes
    ----------
    edits : tuple of Edit
        None when there is nothing to do.
    outputs : tuple of ExposedValue
        What was asked for, or is taken away.
    notes : tuple of str
    """

    edits: tuple[Edit, ...]
    outputs: tuple[ExposedValue, ...]
    notes: tuple[str, ...] = ()


def exposed(graph: GraphView) -> tuple[Exposed, ...]:
    """The outputs of a model that :func:`exposing` has added, in their order."""
    return tuple(_exposed(graph))


def _exposed(graph: GraphView) -> Iterator[Exposed]:
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
        yield Exposed(name, layers, concat, key, sources[0], bool(mark[2]))


# -- exposing --------------------------------------------------------------------------


def exposing(
    document: Document,
    stack: DecoderStack,
    layers: Sequence[int] | int | str,
    *,
    names: str | Sequence[str] | None = None,
    concat: str | None = None,
) -> Exposure:
    """Work out the edits that make hidden states outputs of the model, behind those it has.

    Parameters
    ----------
    document : Document
    stack : DecoderStack
        Where the hidden states are.
    layers : sequence of int, int or str
        Which; text as :func:`parse_layer_list` takes it.
    names : str or sequence of str, optional
        One name per layer, or a template with ``{layer}`` in it. By default ``hidden_states.{layer}``; with
        ``concat`` there are single outputs only if this is given.
    concat : str, optional
        Name of one output with all of them, concatenated along the last axis in the order given.

    Returns
    -------
    Exposure
        Without edits when all of it is there already.

    Raises
    ------
    EditError
        There is no such layer, a name is taken or reserved, or the values cannot be concatenated.
    """
    count = len(stack.layers)
    wanted = _wanted(layers, count)
    single = (
        names_of(names if names is not None else DEFAULT_NAME, wanted) if names is not None or concat is None else ()
    )
    outputs = [(name, (layer,)) for name, layer in zip(single, wanted if single else (), strict=True)]
    asked = [*((*output, False) for output in outputs), *([(concat, wanted, True)] if concat is not None else [])]
    require_names(asked, count)
    known = {output.name: output for output in exposed(document.graph)}
    work = _Work(document, stack)
    for name, which, joined in asked:
        there = known.get(name)
        if there is not None and (there.layers, there.concat) == (which, joined):
            work.require_same(there)
        elif there is not None:
            what = f"the hidden states of layers {', '.join(map(str, there.layers))}"
            raise EditError(f"there is an exposed output {name!r} already, of {what}; take it away with --remove first")
        else:
            work.add(name, which, joined)
    values = tuple(work.value(name, which, joined) for name, which, joined in asked)
    notes = [*_notes(document, stack, wanted)]
    if RESERVED in (name for name, _, _ in asked):
        notes.append(
            f"GenAI 2026.4 takes the output {RESERVED!r} for its own and fails to generate with a DFlash draft"
        )
    return Exposure(tuple(work.edits()), values, tuple(notes))


class _Work:
    """The ops to add and the tensor names to set."""

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

    def require_same(self, there: Exposed) -> None:
        """Refuse that an output of this name exposes something else than the stack says."""
        read = self._graph.inputs(there.source.op) if there.concat else (there.source,)
        for layer, source in zip(there.layers, read, strict=False):
            if source != self._stack.layers[layer].source:
                raise EditError(
                    f"the exposed output {there.name!r} does not read the hidden state of layer {layer}; "
                    "take it away with --remove first"
                )

    def add(self, name: str, layers: Sequence[int], concat: bool) -> None:
        """Add one output."""
        if name in self._taken:
            raise EditError(f"an input or output of the model is named {name!r} already; give the new one another name")
        sources = [self._stack.layers[layer].source for layer in layers]
        mark = _mark(name, layers, named=not concat and name in self._port(sources[0]).names)
        if not concat:
            if name not in self._port(sources[0]).names and sources[0] not in self._named_by_value:
                self._tensors.setdefault(sources[0], []).append(name)
            read = Output(sources[0].op, self._graph.output_index(sources[0]))
        else:
            read = self._add_concat(f"{mark}/Concat", name, layers, sources)
        self._ops.append(AddOp("Result", mark, (read,), output_names=(name,)))

    def value(self, name: str, layers: tuple[int, ...], concat: bool) -> ExposedValue:
        """What an output gives."""
        if not concat:
            layer = self._stack.layers[layers[0]]
            return ExposedValue(name, layers, layer.locator, layer.shape)
        ports = [self._port(self._stack.layers[layer].source) for layer in layers]
        shape = (*ports[0].shape[:-1], sum(port.shape[-1] for port in ports))
        return ExposedValue(name, layers, Locator(f"{_mark(name, layers)}/Concat"), shape)

    def _add_concat(self, mark: str, name: str, layers: Sequence[int], sources: Sequence[Source]) -> Output:
        ports = [self._port(source) for source in sources]
        types = {port.element_type for port in ports}
        if len(types) > 1:
            listed = ", ".join(f"{layer}: {port.element_type}" for layer, port in zip(layers, ports, strict=True))
            raise EditError(f"the hidden states are of different types ({listed}), so they cannot be concatenated")
        shape = (*ports[0].shape[:-1], sum(port.shape[-1] for port in ports))
        read = tuple(Output(source.op, self._graph.output_index(source)) for source in sources)
        self._ops.append(AddOp("Concat", mark, read, (NewPort(types.pop(), shape, (name,)),), {"axis": "-1"}))
        return Output(mark)

    def edits(self) -> Iterator[Edit]:
        """All edits."""
        yield from self._ops
        for source, names in self._tensors.items():
            output = Output(source.op, self._graph.output_index(source))
            yield SetTensorNames(output, (*self._port(source).names, *names))


def _mark(name: str, layers: Sequence[int], *, named: bool = False) -> str:
    return f"irtools.expose/{','.join(map(str, layers))}{'=' if named else ''}/{name}"


def _taken(graph: GraphView) -> Iterator[str]:
    """Names of the model's inputs and outputs.

    Those of other tensors are free: exporters call some ``hidden_states.1``, and nobody asks OpenVINO for them.
    """
    for key in graph.parameters:
        yield from (name for port in graph.op(key).outputs for name in port.names)
    for key in graph.results:
        yield from graph.result_names(key)


def _named_by_value(graph: GraphView) -> Iterator[Source]:
    """Values whose tensor names are those of an output of the model."""
    for key in graph.results:
        if not layer_attributes(graph.scan.data, graph.span(key)).get("output_names"):
            yield from graph.inputs(key)


def _notes(document: Document, stack: DecoderStack, layers: Iterable[int]) -> tuple[str, ...]:
    """Where the file's own annotation names other values than those located."""
    found = entries(document.scan, ANNOTATION_KEY)
    if not found:
        return ()
    try:
        named = parse_annotation(found[-1].value).layers
    except MalformedAnnotationError:
        return (f"the annotation of the file cannot be read; exposed is what was located ({document.path.name})",)
    same = SameValue(document.graph, stack)
    return tuple(
        f"the annotation of the file names {there.producer!r} for layer {layer}; "
        f"exposed is {stack.layers[layer].locator.producer!r}, which was located"
        for layer in layers
        if (there := named.get(str(layer))) is not None
        and there != stack.layers[layer].locator
        and not same(layer, there)
    )


# -- taking it back --------------------------------------------------------------------


def concealing(
    document: Document,
    layers: Sequence[int] | int | str | None = None,
    *,
    names: str | Sequence[str] | None = None,
    concat: str | None = None,
    count: int | None = None,
) -> Exposure:
    """Work out the edits that take exposed outputs away, and nothing else.

    Parameters
    ----------
    document : Document
    layers : sequence of int, int or str, optional
        Outputs of single layers, whatever their names; with ``concat``, only if ``names`` is given too.
    names : str or sequence of str, optional
        Outputs by name, or by a template with ``{layer}`` in it.
    concat : str, optional
        A concatenation by its name. With none of the three: every exposed output.
    count : int, optional
        Number of layers of the decoder stack; needed for ``last``.

    Returns
    -------
    Exposure
        Without edits when there is no such output.

    Raises
    ------
    EditError
        A name is that of an output that was not added by exposing.
    """
    graph = document.graph
    there = exposed(graph)
    single = isinstance(layers, str) and layers.strip().lower() == "all"
    wanted = None if layers is None else range(sys.maxsize) if single else _wanted(layers, count)
    chosen = [output for output in there if _chosen(output, wanted, names, concat)]
    own = {output.name for output in there}
    others = {name for key in graph.results for name in graph.result_names(key)} - own
    literal = [names, *split_names(names)] if isinstance(names, str) else list(names or ())
    for name in (*literal, *([concat] if concat is not None else [])):
        if name in others:
            raise EditError(f"the output {name!r} was not added by exposing a hidden state, so it is not taken away")
    edits: list[Edit] = []
    tensors: dict[Source, set[str]] = {}
    for output in chosen:
        edits.append(RemoveOp(output.result))
        if output.concat:
            edits.append(RemoveOp(output.source.op))
        elif not output.named:
            tensors.setdefault(output.source, set()).add(output.name)
    for source, gone in tensors.items():
        port = graph.port(source)
        kept = tuple(name for name in port.names if name not in gone) if port is not None else ()
        edits.append(SetTensorNames(Output(source.op, graph.output_index(source)), kept))
    return Exposure(tuple(edits), tuple(_value(graph, output) for output in chosen))


def _value(graph: GraphView, output: Exposed) -> ExposedValue:
    port = graph.port(output.source)
    locator = Locator(graph.op_name(output.source.op), graph.output_index(output.source))
    return ExposedValue(output.name, output.layers, locator, port.shape if port is not None else ())


def _wanted(layers: Sequence[int] | int | str, count: int | None) -> tuple[int, ...]:
    if isinstance(layers, str):
        return parse_layer_list(layers, count)
    return distinct_layers([layers] if isinstance(layers, int) else list(layers), count)


def _chosen(
    output: Exposed, layers: Sequence[int] | None, names: str | Sequence[str] | None, concat: str | None
) -> bool:
    if layers is None and names is None and concat is None:
        return True
    if output.concat:
        return output.name == concat
    if concat is not None and names is None:
        return False
    if layers is not None and output.layers[0] not in layers:
        return False
    if names is None:
        return True
    spelled = [names, *split_names(names)] if isinstance(names, str) else list(names)
    return output.name in [name.replace("{layer}", str(output.layers[0])) for name in spelled]
