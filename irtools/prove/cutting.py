"""Expose values of an ``openvino.Model`` and cut it at values. Runs in the worker process; changes the model given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from irtools.ir.op import RESHAPES
from irtools.prove.inputs import UndrivableError

__all__ = ["Value", "cut", "expose", "find", "origin", "part_of"]


@dataclass(frozen=True, order=True)
class Value:
    """An output of an op.

    Attributes
    ----------
    producer : str
        Friendly name.
    index : int
    """

    producer: str
    index: int = 0


def find(model: Any, values: Iterable[Value]) -> dict[Value, Any]:
    """The ports of values.

    Raises
    ------
    UndrivableError
        No op has the name, several have it, or it has no such output.
    """
    wanted = set(values)
    names = {value.producer for value in wanted}
    ops: dict[str, list[Any]] = {}
    for op in model.get_ops():
        if op.get_friendly_name() in names:
            ops.setdefault(op.get_friendly_name(), []).append(op)
    found = {}
    for value in wanted:
        named = ops.get(value.producer, [])
        if len(named) != 1:
            raise UndrivableError(f"{len(named) or 'no'} ops are named {value.producer!r}")
        if value.index >= named[0].get_output_size():
            raise UndrivableError(f"{value.producer!r} has no output {value.index}")
        found[value] = named[0].output(value.index)
    return found


def origin(port: Any) -> Any:
    """Where a value comes from before it was reshaped."""
    while port.get_node().get_type_name() in RESHAPES:
        port = port.get_node().input_value(0)
    return port


def expose(model: Any, ports: Iterable[Any]) -> list[int]:
    """Make outputs of values; returns their positions among the outputs of the model."""
    ports = list(ports)
    model.add_outputs(ports)
    sources = [result.get_node().input_value(0) for result in model.outputs]
    return [sources.index(port) for port in ports]


def cut(model: Any, ports: Iterable[tuple[str, Any]]) -> None:
    """Let whoever reads a value read a new input of that name instead; results go on showing the value."""
    import openvino.opset13 as ops

    added = []
    for name, port in ports:
        readers = [reader for reader in port.get_target_inputs() if reader.get_node().get_type_name() != "Result"]
        parameter = ops.parameter(port.get_partial_shape(), port.get_element_type(), name=name)
        parameter.output(0).set_names({name})
        for reader in readers:
            reader.replace_source_output(parameter.output(0))
        added.append(parameter)
    model.add_parameters(added)
    model.validate_nodes_and_infer_types()


def part_of(model: Any, name: str, output: str) -> Any:
    """What computes an output from the input ``name`` that :func:`cut` made, as a model of its own."""
    import openvino as ov

    results = [result.get_node() for result in model.outputs if output in result.get_names()]
    parameters = [port.get_node() for port in model.inputs if name in port.get_names()]
    if not results:
        raise UndrivableError(f"no output is named {output!r}")
    return ov.Model(results[:1], parameters, name)
