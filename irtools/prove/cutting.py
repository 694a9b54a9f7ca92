"""Expose values of an ``openvino.Model`` and cut it at values, in place. Runs in the worker process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import openvino as ov
import openvino.opset13 as ops

from irtools.ir.op import RESHAPES
from irtools.model.annotation import Locator
from irtools.prove.inputs import UndrivableError

__all__ = ["cut", "expose", "find", "find_op", "origin", "part_of"]


def find(model: Any, values: Iterable[Locator]) -> dict[Locator, Any]:
    """Output ports of values.

    Raises
    ------
    UndrivableError
        No op or several ops have the name, or the op has no such output.
    """
    wanted = set(values)
    by_name: dict[str, list[Any]] = {value.producer: [] for value in wanted}
    for op in model.get_ops():
        if op.get_friendly_name() in by_name:
            by_name[op.get_friendly_name()].append(op)
    ports = {}
    for value in wanted:
        named = by_name[value.producer]
        if len(named) != 1:
            raise UndrivableError(f"{len(named) or 'no'} ops are named {value.producer!r}")
        if value.output_index >= named[0].get_output_size():
            raise UndrivableError(f"{value.producer!r} has no output {value.output_index}")
        ports[value] = named[0].output(value.output_index)
    return ports


def find_op(model: Any, name: str) -> Any:
    """The only op with a friendly name; raises ``UndrivableError`` like :func:`find`."""
    (port,) = find(model, [Locator(name)]).values()
    return port.get_node()


def origin(port: Any) -> Any:
    """Port of a value before any reshape."""
    while port.get_node().get_type_name() in RESHAPES:
        port = port.get_node().input_value(0)
    return port


def expose(model: Any, ports: Iterable[Any]) -> list[int]:
    """Add values to the outputs of the model; returns their positions among the outputs."""
    ports = list(ports)
    model.add_outputs(ports)
    sources = [result.get_node().input_value(0) for result in model.outputs]
    return [sources.index(port) for port in ports]


def cut(model: Any, ports: Iterable[tuple[str, Any]]) -> None:
    """Replace each value by a new named input for all readers except results, which keep the original value."""
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
    """Separate model that computes an output from the input ``name`` of a cut model."""
    results = [result.get_node() for result in model.outputs if output in result.get_names()]
    parameters = [port.get_node() for port in model.inputs if name in port.get_names()]
    if not results:
        raise UndrivableError(f"no output is named {output!r}")
    return ov.Model(results[:1], parameters, name)
