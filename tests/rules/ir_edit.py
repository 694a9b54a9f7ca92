"""Edits of an IR through lxml, for seeded defects only; irtools itself edits bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from lxml import etree

PRECISIONS = {"f32": "FP32", "f16": "FP16", "bf16": "BF16", "i64": "I64", "i32": "I32", "i8": "I8"}


class IR:
    """An IR file to change and write back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = etree.parse(str(path), etree.XMLParser(huge_tree=True))
        self.net = self.tree.getroot()
        self.layers, self.edges = self.net.find("layers"), self.net.find("edges")

    def save(self) -> None:
        self.tree.write(str(self.path), encoding="utf-8", xml_declaration=True)

    # -- finding -----------------------------------------------------------------------

    def layer(self, name: str) -> Any:
        """The layer with the friendly name ``name``, or the first whose name ends with it."""
        exact = [layer for layer in self.layers if layer.get("name") == name]
        return (exact or [layer for layer in self.layers if layer.get("name").endswith(name)])[0]

    def typed(self, kind: str) -> list[Any]:
        return [layer for layer in self.layers if layer.get("type") == kind]

    def parameter(self, name: str) -> Any:
        return next(layer for layer in self.typed("Parameter") if name in _names(layer.find("output/port")))

    def result(self, name: str) -> Any:
        return next(
            layer
            for layer in self.typed("Result")
            if name in layer.get("output_names", "").split(",") or name in _names(self.port_of(self.source(layer, 0)))
        )

    def by_id(self, key: str) -> Any:
        return next(layer for layer in self.layers if layer.get("id") == key)

    def source(self, layer: Any, index: int) -> tuple[str, str]:
        """Layer id and port id of the value that an input reads."""
        port = layer.findall("input/port")[index].get("id")
        edge = next(e for e in self.edges if e.get("to-layer") == layer.get("id") and e.get("to-port") == port)
        return edge.get("from-layer"), edge.get("from-port")

    def producer(self, layer: Any, index: int) -> Any:
        return self.by_id(self.source(layer, index)[0])

    def output(self, layer: Any, index: int = 0) -> tuple[str, str]:
        return layer.get("id"), layer.findall("output/port")[index].get("id")

    def port_of(self, source: tuple[str, str]) -> Any:
        return next(p for p in self.by_id(source[0]).findall("output/port") if p.get("id") == source[1])

    def consumers(self, source: tuple[str, str]) -> list[Any]:
        """Edges that read a value."""
        return [e for e in self.edges if (e.get("from-layer"), e.get("from-port")) == source]

    # -- changing ----------------------------------------------------------------------

    def rewire(self, layer: Any, index: int, source: tuple[str, str]) -> None:
        port = layer.findall("input/port")[index].get("id")
        wires = [e for e in self.edges if (e.get("to-layer"), e.get("to-port")) == (layer.get("id"), port)]
        self.feed(wires, source)

    def feed(self, edges: Iterable[Any], source: tuple[str, str]) -> None:
        """Let edges start at another value."""
        for edge in edges:
            edge.set("from-layer", source[0])
            edge.set("from-port", source[1])

    def swap(self, layer: Any, first: int, second: int) -> None:
        one, other = self.source(layer, first), self.source(layer, second)
        self.rewire(layer, first, other)
        self.rewire(layer, second, one)

    def rename_tensor(self, old: str, new: str) -> None:
        """Rename the tensor of an input or output."""
        for layer in self.typed("Parameter"):
            port = layer.find("output/port")
            if old in _names(port):
                port.set("names", ",".join(new if name == old else name for name in _names(port)))
        for layer in self.typed("Result"):
            port = self.port_of(self.source(layer, 0))
            own = layer.get("output_names", "").split(",")
            if old in own or (own == [""] and old in _names(port)):
                layer.set("output_names", new)
                port.set("names", ",".join(new if name == old else name for name in _names(port)))

    def rename_friendly(self, old: str, new: str) -> None:
        self.layer(old).set("name", new)

    def set_input(self, name: str, *, shape: str | None = None, element_type: str | None = None) -> None:
        layer = self.parameter(name)
        data, port = layer.find("data"), layer.find("output/port")
        if element_type is not None:
            data.set("element_type", element_type)
            port.set("precision", PRECISIONS[element_type])
        if shape is not None:
            data.set("shape", shape)
            for dim in port.findall("dim"):
                port.remove(dim)
            for text in shape.split(","):
                etree.SubElement(port, "dim").text = "-1" if text == "?" else text

    def remove(self, layer: Any) -> None:
        """Remove an op and its edges."""
        key = layer.get("id")
        self.layers.remove(layer)
        for edge in list(self.edges):
            if key in (edge.get("from-layer"), edge.get("to-layer")):
                self.edges.remove(edge)

    def add(
        self,
        kind: str,
        inputs: Iterable[tuple[str, str]],
        *,
        name: str,
        opset: str = "opset1",
        data: dict[str, str] | None = None,
        outputs: Iterable[tuple[str, Iterable[int]]] = (),
        before: Any = None,
    ) -> Any:
        """Add an op; ``outputs`` are element type and shape of each output port."""
        key = str(max(int(layer.get("id")) for layer in self.layers) + 1)
        layer = etree.Element("layer", id=key, name=name, type=kind, version=opset)
        if data:
            etree.SubElement(layer, "data", **data)
        inputs = list(inputs)
        if inputs:
            ports = etree.SubElement(layer, "input")
            for index, source in enumerate(inputs):
                feeding = self.port_of(source)
                port = etree.SubElement(ports, "port", id=str(index), precision=feeding.get("precision"))
                port.extend([_dim(dim.text) for dim in feeding.findall("dim")])
                edge = {"from-layer": source[0], "from-port": source[1], "to-layer": key, "to-port": str(index)}
                etree.SubElement(self.edges, "edge", **edge)
        outputs = list(outputs)
        if outputs:
            ports = etree.SubElement(layer, "output")
            for index, (element_type, shape) in enumerate(outputs, len(inputs)):
                port = etree.SubElement(ports, "port", id=str(index), precision=PRECISIONS[element_type])
                port.extend([_dim(str(size)) for size in shape])
        position = list(self.layers).index(before) if before is not None else len(self.layers)
        self.layers.insert(position, layer)
        return layer

    def between(self, layer: Any, index: int, make: Callable[[tuple[str, str]], Any]) -> Any:
        """Insert the op that ``make`` adds before an input of ``layer``."""
        made = make(self.source(layer, index))
        self.rewire(layer, index, self.output(made))
        return made

    # -- rt_info -----------------------------------------------------------------------

    @property
    def rt_info(self) -> Any:
        return self.net.find("rt_info")

    def set_rt(self, value: str | None, *path: str) -> None:
        """Set an entry of the model-level rt_info; None removes it."""
        parent = self.rt_info
        for key in path[:-1]:
            child = parent.find(key)
            parent = child if child is not None else etree.SubElement(parent, key)
        entry = parent.find(path[-1])
        if value is None:
            parent.remove(entry)
        elif entry is None:
            etree.SubElement(parent, path[-1], value=value)
        else:
            entry.set("value", value)


def _names(port: Any) -> list[str]:
    return re.split(r"(?<!\\),", port.get("names", "")) if port is not None else []


def _dim(text: str) -> Any:
    dim = etree.Element("dim")
    dim.text = text
    return dim


def edit(path: Path, change: Callable[[IR], object]) -> None:
    """Change one file in place."""
    ir = IR(path)
    change(ir)
    ir.save()
