"""Facts about one part of an export: ports, states, attention and live ops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from irtools.graph.closure import closure
from irtools.graph.view import GraphView, Source
from irtools.ir.op import DYNAMIC, parse_shape
from irtools.ir.rt_info import RtInfo, RtInfoEntry, entries
from irtools.model.annotation import Annotation, Locator, read_annotation, resolve_or_none
from irtools.model.document import Document
from irtools.model.graft import Graft, find_graft
from irtools.model.weights import Weight, weights

__all__ = ["ModelInput", "ModelOutput", "PartFacts", "State"]


@dataclass(frozen=True, slots=True)
class _Port:
    """A model input or output.

    Attributes
    ----------
    op : int
        Layer id of the Parameter or Result.
    friendly : str
        Friendly name; the runtime looks up some inputs by this, others by tensor name.
    names : tuple of str
        Tensor names.
    """

    op: int
    friendly: str
    names: tuple[str, ...]
    element_type: str
    shape: tuple[int, ...]
    graph: GraphView = field(repr=False, compare=False)

    @property
    def line(self) -> int:
        """Line in the file; few ports are ever shown with it, and it takes a pass over the file."""
        return self.graph.line(self.op)

    @property
    def label(self) -> str:
        """Name for messages: the first tensor name, else the friendly name."""
        return self.names[0] if self.names else self.friendly


@dataclass(frozen=True, slots=True)
class ModelInput(_Port):
    """A model input."""


@dataclass(frozen=True, slots=True)
class ModelOutput(_Port):
    """A model output; ``source`` is the value that the Result reads."""

    source: Source


@dataclass(frozen=True, slots=True)
class State:
    """A variable (KV cache or other state) of a stateful model.

    Attributes
    ----------
    variable : str
        ``variable_id`` in the file.
    shape : tuple of int
        -1 for dynamic dimensions.
    reads, writes : tuple of int
        Layer ids of the ReadValue and Assign ops.
    """

    variable: str
    element_type: str
    shape: tuple[int, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]

    @property
    def grows(self) -> bool:
        """True if the state has the form of a KV cache: rank 4 with a dynamic length."""
        return len(self.shape) == 4 and DYNAMIC in self.shape[1:3]


class PartFacts:
    """Facts about one IR, whose graph can be built and has no cycle; each is computed once."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.graph: GraphView = document.graph
        self._entries: dict[str, tuple[RtInfoEntry, ...]] = {}

    # -- ports -------------------------------------------------------------------------

    @cached_property
    def inputs(self) -> tuple[ModelInput, ...]:
        """Model inputs, in the order of the model."""
        return tuple(self._input(key) for key in self.graph.parameters)

    def _input(self, key: int) -> ModelInput:
        op = self.graph.op(key)
        port = op.outputs[0]
        # OpenVINO builds a Parameter from its <data> and ignores the port.
        shape = parse_shape(op.attributes["shape"]) if "shape" in op.attributes else port.shape
        element_type = op.attributes.get("element_type", port.element_type)
        return ModelInput(key, op.name, port.names, element_type, shape, self.graph)

    @cached_property
    def outputs(self) -> tuple[ModelOutput, ...]:
        """Model outputs, in the order of the model."""
        return tuple(self._output(key) for key in self.graph.results)

    def _output(self, key: int) -> ModelOutput:
        graph = self.graph
        source = graph.inputs(key)[0]
        port = graph.port(source)
        element_type, shape = (port.element_type, port.shape) if port else ("", ())
        names = graph.result_names(key)
        return ModelOutput(key, graph.op_name(key), names, element_type, shape, graph, source)

    def input(self, name: str) -> ModelInput | None:
        """The input with a tensor name."""
        return next((port for port in self.inputs if name in port.names), None)

    def input_called(self, name: str) -> ModelInput | None:
        """The input with a friendly name."""
        return next((port for port in self.inputs if port.friendly == name), None)

    def output(self, name: str) -> ModelOutput | None:
        """The output with a tensor name."""
        return next((port for port in self.outputs if name in port.names), None)

    @cached_property
    def weights(self) -> tuple[Weight, ...]:
        """Constants with their scales and zero points."""
        return weights(self.graph)

    @cached_property
    def graft(self) -> Graft | None:
        """Draft head of a target, or None."""
        return find_graft(self.graph)

    # -- live ops ---------------------------------------------------------------------

    def ancestors(self, ops: Iterable[int], *, through_shapes: bool = True) -> set[int]:
        """``ops`` and all ops above them; without ``through_shapes`` only ops whose values are used, not shapes."""
        graph = self.graph
        if through_shapes:
            return closure(ops, graph.producers)
        return closure(ops, lambda key: () if graph.op_type(key) == "ShapeOf" else graph.producers(key))

    def live_ops(self, *types: str) -> Iterator[int]:
        """Live ops of the given types, in file order within each type."""
        for kind in types:
            for key in self.graph.by_type.get(kind, ()):
                if key in self.graph.live:
                    yield key

    @cached_property
    def attentions(self) -> tuple[int, ...]:
        """Live ScaledDotProductAttention ops."""
        return tuple(self.live_ops("ScaledDotProductAttention"))

    @cached_property
    def states(self) -> tuple[State, ...]:
        """Variables, in file order."""
        graph = self.graph
        reads: dict[str, list[int]] = {}
        writes: dict[str, list[int]] = {}
        for kind, ops in (("ReadValue", reads), ("Assign", writes)):
            for key in graph.by_type.get(kind, ()):
                ops.setdefault(graph.data(key).get("variable_id", ""), []).append(key)
        states = []
        for variable in dict.fromkeys([*reads, *writes]):
            data = graph.data(reads[variable][0]) if variable in reads else {}
            states.append(
                State(
                    variable,
                    data.get("variable_type", ""),
                    parse_shape(data.get("variable_shape", "")),
                    tuple(reads.get(variable, ())),
                    tuple(writes.get(variable, ())),
                )
            )
        return tuple(states)

    # -- annotation ---------------------------------------------------------------------

    @cached_property
    def annotation(self) -> Annotation | None:
        """The effective hidden-state annotation; None if the runtime finds no such key."""
        return read_annotation(self.document.scan)

    def resolve(self, locator: Locator) -> Source | None:
        """The value that a locator names; None unless the runtime finds exactly one."""
        return resolve_or_none(self.graph, locator)

    # -- rt_info -----------------------------------------------------------------------

    @cached_property
    def rt_info(self) -> RtInfo:
        """Model-level rt_info as OpenVINO reads it."""
        return self.document.rt_info

    def entries(self, key: str) -> tuple[RtInfoEntry, ...]:
        """All model-level entries with a key; the effective one is the last."""
        if key not in self._entries:
            self._entries[key] = entries(self.document.scan, key)
        return self._entries[key]

    def entry(self, key: str) -> RtInfoEntry | None:
        """The effective model-level entry with a key, or None."""
        return next(reversed(self.entries(key)), None)
