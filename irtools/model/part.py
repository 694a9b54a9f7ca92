"""One part of an export as the rules see it: ports, states, attention, live ops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from irtools.graph.closure import closure
from irtools.graph.view import GraphView, Source
from irtools.ir.op import DYNAMIC
from irtools.ir.rt_info import Entry, RtInfo, entries, read_rt_info
from irtools.model.document import Document

__all__ = ["Input", "Output", "Part", "State"]


@dataclass(frozen=True, slots=True)
class Input:
    """A model input.

    Attributes
    ----------
    op : int
        Layer id of the Parameter.
    friendly : str
        Its friendly name; the runtime looks up some inputs by this, others by tensor name.
    names : tuple of str
        Tensor names.
    element_type : str
    shape : tuple of int
    line : int
    """

    op: int
    friendly: str
    names: tuple[str, ...]
    element_type: str
    shape: tuple[int, ...]
    line: int

    @property
    def label(self) -> str:
        """A name to call it by."""
        return self.names[0] if self.names else self.friendly


@dataclass(frozen=True, slots=True)
class Output:
    """A model output.

    Attributes
    ----------
    op : int
        Layer id of the Result.
    friendly : str
    names : tuple of str
        Tensor names.
    source : Source
        The value it gives out.
    element_type : str
    shape : tuple of int
    line : int
    """

    op: int
    friendly: str
    names: tuple[str, ...]
    source: Source
    element_type: str
    shape: tuple[int, ...]
    line: int

    @property
    def label(self) -> str:
        """A name to call it by."""
        return self.names[0] if self.names else self.friendly


@dataclass(frozen=True, slots=True)
class State:
    """A variable of a stateful model.

    Attributes
    ----------
    variable : str
        Its ``variable_id``.
    element_type : str
    shape : tuple of int
        -1 for dynamic dimensions.
    reads, writes : tuple of int
        Layer ids of its ReadValue and Assign ops.
    """

    variable: str
    element_type: str
    shape: tuple[int, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]

    @property
    def grows(self) -> bool:
        """Whether it has the form of a cache of keys or values: rank 4, with a dynamic length."""
        return len(self.shape) == 4 and DYNAMIC in self.shape[1:3]


def _dims(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return tuple(int(part) if part.isdecimal() else DYNAMIC for part in parts)


class Part:
    """Facts about one IR; each is worked out once.

    Parameters
    ----------
    document : Document
        Its graph can be built and has no cycle.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.graph: GraphView = document.graph
        self._entries: dict[str, tuple[Entry, ...]] = {}

    # -- ports -------------------------------------------------------------------------

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        """Model inputs in order."""
        return tuple(self._input(key) for key in self.graph.parameters)

    def _input(self, key: int) -> Input:
        op = self.graph.op(key)
        names, element_type, shape = (
            (op.outputs[0].names, op.outputs[0].element_type, op.outputs[0].shape) if (op.outputs) else ((), "", ())
        )
        # The <data> of a Parameter is what OpenVINO builds it from; its port only repeats it.
        if "shape" in op.attributes:
            shape = _dims(op.attributes["shape"])
        element_type = op.attributes.get("element_type", element_type)
        return Input(key, op.name, names, element_type, shape, self.graph.line(key))

    @cached_property
    def outputs(self) -> tuple[Output, ...]:
        """Model outputs in order; those that read nothing are left out."""
        return tuple(self._output(key) for key in self.graph.results if self.graph.inputs(key))

    def _output(self, key: int) -> Output:
        graph = self.graph
        source = graph.inputs(key)[0]
        port = graph.port(source)
        element_type, shape = (port.element_type, port.shape) if port else ("", ())
        names = graph.result_names(key)
        return Output(key, graph.op_name(key), names, source, element_type, shape, graph.line(key))

    def input(self, name: str) -> Input | None:
        """The input with a tensor name."""
        return next((port for port in self.inputs if name in port.names), None)

    def input_called(self, name: str) -> Input | None:
        """The input with a friendly name."""
        return next((port for port in self.inputs if port.friendly == name), None)

    def output(self, name: str) -> Output | None:
        """The output with a tensor name."""
        return next((port for port in self.outputs if name in port.names), None)

    @cached_property
    def _names(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for key, name in zip(self.graph.scan.ids, self.graph.scan.names, strict=True):
            found.setdefault(name, []).append(key)
        return found

    def named(self, name: str) -> tuple[int, ...]:
        """Layer ids of the top-level ops with a friendly name, dead ones included."""
        return tuple(self._names.get(name, ()))

    # -- what runs ---------------------------------------------------------------------

    @cached_property
    def live(self) -> frozenset[int]:
        """Layer ids of what OpenVINO keeps: all that a Result or Assign depends on, and the inputs."""
        types = self.graph.by_type
        sinks = [*types.get("Result", ()), *types.get("Assign", ())]
        return frozenset(self.ancestors(sinks)) | set(self.graph.parameters)

    def ancestors(self, ops: Iterable[int], *, through_shapes: bool = True) -> set[int]:
        """Everything that ``ops`` depend on, themselves included.

        Parameters
        ----------
        ops : iterable of int
        through_shapes : bool
            False: a value whose shape alone is used is no ancestor.
        """
        graph = self.graph
        if through_shapes:
            return closure(ops, graph.producers)
        return closure(ops, lambda key: () if graph.op_type(key) == "ShapeOf" else graph.producers(key))

    def live_ops(self, *types: str) -> Iterator[int]:
        """Live ops of some types, in file order of each type."""
        for kind in types:
            for key in self.graph.by_type.get(kind, ()):
                if key in self.live:
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
        for kind, found in (("ReadValue", reads), ("Assign", writes)):
            for key in graph.by_type.get(kind, ()):
                found.setdefault(graph.data(key).get("variable_id", ""), []).append(key)
        states = []
        for variable in dict.fromkeys([*reads, *writes]):
            data = graph.data(reads[variable][0]) if variable in reads else {}
            states.append(
                State(
                    variable,
                    data.get("variable_type", ""),
                    _dims(data.get("variable_shape", "")),
                    tuple(reads.get(variable, ())),
                    tuple(writes.get(variable, ())),
                )
            )
        return tuple(states)

    # -- rt_info -----------------------------------------------------------------------

    @cached_property
    def rt_info(self) -> RtInfo:
        """Model-level rt_info as OpenVINO understands it."""
        return read_rt_info(self.document.scan)

    def entries(self, key: str) -> tuple[Entry, ...]:
        """All model-level entries with a key, the one that counts last."""
        if key not in self._entries:
            self._entries[key] = entries(self.document.scan, key)
        return self._entries[key]

    def entry(self, key: str) -> Entry | None:
        """The model-level entry of a key that counts, or None."""
        return next(reversed(self.entries(key)), None)
