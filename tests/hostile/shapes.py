"""Hostile IRs of any size: each function returns the XML of a graph that no exporter writes.

``python -m tests.hostile.shapes SHAPE SIZE DIRECTORY`` writes one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
PORT = '<port id="%d" precision="FP32"><dim>1</dim></port>'


class Net:
    """Layers and edges, written as they are."""

    def __init__(self) -> None:
        self.layers: list[str] = []
        self.edges: list[str] = []
        self.rt_info = ""
        self.outputs: dict[int, int] = {}
        self.add("Parameter", data='shape="1" element_type="f32"', name="input_ids", names="input_ids")

    def add(
        self,
        kind: str,
        *sources: int,
        data: str = "",
        name: str | None = None,
        names: str = "",
        outputs: int = 1,
        inside: str = "",
        attributes: str = "",
        key: int | None = None,
    ) -> int:
        """Add an op that reads output 0 of its sources; returns its id."""
        key = len(self.layers) if key is None else key
        count = len(sources)
        ports = "".join(PORT % i for i in range(count))
        made = "".join(PORT % (count + i) for i in range(outputs))
        made = made.replace('">', f'" names="{names}">', 1) if names else made
        tag = f'<layer id="{key}" name="{name or f"n{key}"}" type="{kind}" version="opset1" {attributes}>'
        parts = [tag, f"<data {data}/>" if data else "", f"<input>{ports}</input>" if ports else ""]
        parts += [f"<output>{made}</output>" if made else "", inside, "</layer>"]
        self.layers.append("".join(parts))
        self.outputs[key] = count
        for number, source in enumerate(sources):
            self.edge(source, self.outputs.get(source, 0), key, number)
        return key

    def edge(self, source: int, source_port: int, target: int, target_port: int) -> None:
        self.edges.append(
            f'<edge from-layer="{source}" from-port="{source_port}" to-layer="{target}" to-port="{target_port}"/>'
        )

    def constant(self, offset: int = 0, shape: str = "1", size: int = 4) -> int:
        return self.add("Const", data=f'element_type="f32" shape="{shape}" offset="{offset}" size="{size}"')

    def result(self, source: int) -> int:
        return self.add("Result", source, outputs=0, name=f"r{source}", attributes='output_names="logits"')

    def xml(self) -> str:
        body = "\n".join(("<layers>", *self.layers, "</layers>", "<edges>", *self.edges, "</edges>"))
        return f'<?xml version="1.0"?>\n<net name="m" version="11">\n{body}\n{self.rt_info}</net>\n'


def simple(n: int, step: Callable[[Net, int], int]) -> Net:
    net, value = Net(), 0
    for _ in range(n):
        value = step(net, value)
    net.result(value)
    return net


def with_edges(edges: Iterable[tuple[int, int, int, int]], kind: str = "Relu") -> str:
    net = simple(1, lambda net, value: net.add(kind, value))
    for edge in edges:
        net.edge(*edge)
    return net.xml()


def circle(n: int, kind: str, *, constant: bool = False) -> str:
    """Ops in a circle, through their last input."""
    net = Net()
    extra = [net.constant()] if constant else []
    first = len(net.layers)
    for number in range(n):
        before = first + (number - 1) % n
        net.outputs[before] = len(extra) + 1
        net.add(kind, *extra, before)
    net.result(first)
    return net.xml()


def reversed_chain(n: int, kind: str, start: str) -> str:
    """A chain whose ops stand in the file after those that read them."""
    net = Net()
    for number in range(n):
        following = number + 2
        net.outputs[following] = 1 if number < n - 1 else 0
        net.add(kind, following)
    if start == "Const":
        net.constant()
    else:
        net.add("Parameter", data='shape="1" element_type="f32"')
    net.result(1)
    return net.xml()


def nested(n: int, kind: str, body: str) -> str:
    opening = f'<layer id="1" name="d" type="{kind}" version="opset1"><{body}><layers>'
    inner = opening * n + f"</layers><edges/></{body}></layer>" * n
    return Net().xml().replace("</layers>", inner + "</layers>", 1)


def filled(n: int, kind: str, inside: str, sources: int = 1) -> str:
    """A chain of ops, each with something inside."""
    return simple(n, lambda net, value: net.add(kind, *[value] * sources, inside=inside)).xml()


def rt_info(text: str) -> str:
    net = simple(1, lambda net, value: net.add("Relu", value))
    net.rt_info = f"<rt_info>{text}</rt_info>"
    return net.xml()


def replaced(xml: str, *pairs: str) -> str:
    for old, new in zip(pairs[::2], pairs[1::2], strict=True):
        changed = re.sub(old, lambda _, new=new: new, xml)
        assert changed != xml, old
        xml = changed
    return xml


def constants(n: int) -> str:
    """Constants that are combined one by one: each leads to all later ops."""
    net = Net()
    value = net.constant()
    for number in range(n):
        value = net.add("Multiply", value, net.constant(4 * number))
    net.result(net.add("MatMul", 0, value))
    return net.xml()


def hub(n: int) -> str:
    """Constants that meet in one op, which many ops read."""
    net = Net()
    middle = net.add("Concat", *[net.constant(4 * number) for number in range(n)])
    for _ in range(n):
        net.result(net.add("Multiply", 0, middle))
    return net.xml()


def states(n: int, same: bool) -> str:
    net = Net()
    for number in range(n):
        variable = f'variable_id="v{0 if same else number}" variable_type="f32" variable_shape="?,1"'
        read = net.add("ReadValue", 0, data=variable)
        net.add("Assign", read, data=variable, outputs=0)
    net.result(0)
    return net.xml()


def annotated(text: str) -> str:
    return rt_info(f"<hidden_states_decoder_layers value='{text.replace(chr(34), '&quot;')}'/>")


NINES = "9" * 5000
SHAPES: dict[str, Callable[[int], str]] = {
    # cycles
    "reshape-circle": lambda n: circle(n, "Reshape", constant=False),
    "convert-circle": lambda n: circle(n, "Convert"),
    "second-input-circle": lambda n: circle(n, "Multiply", constant=True),
    "first-of-one": lambda n: circle(1, "Convert") if n else "",
    "self-loops": lambda n: filled(n, "Relu", "").replace("</edges>", "".join(
        f'<edge from-layer="{i}" from-port="1" to-layer="{i}" to-port="0"/>' for i in range(1, n + 1)) + "</edges>"),
    # edges
    "dangling": lambda n: with_edges((900_000 + i, 0, 800_000 + i, 0) for i in range(n)),
    "dangling-ports": lambda n: with_edges((0, 5 + i, 1, 7 + i) for i in range(n)),
    "doubled": lambda n: with_edges((0, 0, 1, 0) for _ in range(n)),
    "into-parameter": lambda n: with_edges((1, 1, 0, i) for i in range(n)),
    "wide": lambda n: simple(1, lambda net, value: net.add("Concat", *[value] * n)).xml(),
    "wide-outputs": lambda n: simple(1, lambda net, value: net.add("Split", value, value, outputs=n)).xml(),
    "wide-odd-ports": lambda n: re.sub(r'<port id="(\d+)"', lambda m: f'<port id="{3 * int(m[1])}"',
        simple(1, lambda net, value: net.add("Concat", *[value] * n, outputs=n)).xml()),
    "wide-unconnected": lambda n: re.sub(r"<edge [^>]*>\n?", "",
        simple(1, lambda net, value: net.add("Concat", *[value] * n)).xml()),
    # chains
    "chain": lambda n: simple(n, lambda net, value: net.add("Relu", value)).xml(),
    "ladder": lambda n: simple(n, lambda net, value: net.add("Add", value, value)).xml(),
    "reshape-chain": lambda n: simple(n, lambda net, value: net.add("Reshape", value, 0)).xml(),
    "reversed": lambda n: reversed_chain(n, "Relu", "Parameter"),
    "reversed-constants": lambda n: reversed_chain(n, "Relu", "Const"),
    "constant-chain": constants,
    "constant-hub": hub,
    # bad values
    "bad-ports": lambda n: filled(n, "Relu", "").replace('<port id="1"', '<port id="x"'),
    "equal-ports": lambda n: filled(n, "Add", "", 2).replace('<port id="1"', '<port id="0"'),
    "bad-dims": lambda n: filled(n, "Relu", "").replace("<dim>1</dim>", "<dim>x</dim>"),
    "bad-precisions": lambda n: filled(n, "Relu", "").replace("FP32", "FP99"),
    "unknown-types": lambda n: filled(n, "Nothing", ""),
    "bad-constants": lambda n: simple(n, lambda net, _: net.constant(0, "1,", 4)).xml(),
    "overlapping": lambda n: simple(n, lambda net, _: net.constant(len(net.layers), "4", 16)).xml(),
    "equal-ids": lambda n: re.sub(r'layer id="[1-9]\d*"', 'layer id="7"', filled(n, "Relu", "")),
    "equal-names": lambda n: re.sub(r'name="n\d+"', 'name="same"', filled(n, "Relu", "")),
    "no-attributes": lambda n: re.sub(r' (name|type|version|precision)="[^"]*"', "", filled(n, "Relu", "")),
    "empty-attributes": lambda n: re.sub(r'(name|type|version|precision)="[^"]*"', r'\1=""', filled(n, "Relu", "")),
    # much of one thing
    "dims": lambda n: filled(1, "Relu", "").replace("<dim>1</dim>", "<dim>1</dim>" * n),
    "names": lambda n: filled(1, "Relu", "").replace(
        '<port id="1"', '<port names="' + ",".join(f"t{i}" for i in range(n)) + '" id="1"'),
    "parameters": lambda n: simple(n, lambda net, _: net.add(
        "Parameter", data='shape="1" element_type="f32"', names=f"p{len(net.layers)}")).xml(),
    "results": lambda n: simple(n, lambda net, _: net.result(0) * 0).xml(),
    "states": lambda n: states(n, same=False),
    "equal-states": lambda n: states(n, same=True),
    "comments": lambda n: filled(n, "Relu", "<!-- <port id='9'/> -->"),
    "comments-in-ifs": lambda n: filled(n, "If", "<!-- x --><then_body><layers/></then_body>"),
    "loops": lambda n: filled(n, "Loop", '<body><layers><layer id="0" name="p" type="Parameter"/></layers><edges/>'
        "</body>", 2),
    # nesting
    "nested-elements": lambda n: filled(1, "Relu", "<a>" * n + "</a>" * n),
    "nested-layers": lambda n: filled(1, "Relu", '<layer id="1" name="d" type="Relu">' * n + "</layer>" * n),
    "nested-loops": lambda n: nested(n, "Loop", "body"),
    "nested-ifs": lambda n: nested(n, "If", "then_body"),
    "nested-iterators": lambda n: nested(n, "TensorIterator", "body"),
    "nested-rt-info": lambda n: rt_info("<a>" * n + "</a>" * n),
    "nested-named-rt-info": lambda n: rt_info('<info name="nncf"><b value="1"/>' * n + "</info>" * n),
    "nested-op-rt-info": lambda n: filled(1, "Relu", "<rt_info>" + "<a>" * n + "</a>" * n + "</rt_info>"),
    "many-rt-info": lambda n: rt_info("".join(f'<a{i} value="x"/>' for i in range(n))),
    "equal-rt-info": lambda n: rt_info('<hidden_states_decoder_layers value="x"/>' * n),
    "prefixed-rt-info": lambda n: rt_info("<a>" + "<ab/>" * n + "</a>"),
    # annotation
    "annotated-layers": lambda n: annotated(
        '{"layers":{' + ",".join(f'"{i}":{{"producer":"n1","output_index":0}}' for i in range(n)) + "}}"),
    "annotated-deep": lambda n: annotated('{"layers":' + "[" * n + "]" * n + "}"),
    "annotated-numbers": lambda n: annotated('{"layers":{"0":{"producer":"n1","output_index":%s}}}' % ("9" * n)),
}  # fmt: skip


def falcon() -> str:
    return (FIXTURES / "falcon" / "openvino_model.xml").read_text()


def spliced(n: int, kind: str, target: str, *, second: str = "", same: bool = False, xml: str = "") -> str:
    """Falcon with a chain of ops before the first input of the first or last op of a type.

    ``second`` is the type of the op that every op of the chain reads at its second input; with ``same`` both inputs
    read the op before it.
    """
    xml = xml or falcon()
    layer, where = re.fullmatch(r"(\w+)(-last)?", target), -1 if target.endswith("-last") else 0
    assert layer is not None
    key = re.findall(rf'<layer id="(\d+)" name="[^"]*" type="{layer[1]}"', xml)[where]
    edge = re.search(rf'<edge from-layer="(\d+)" from-port="(\d+)" to-layer="{key}" to-port="0" />', xml)
    assert edge is not None
    other = None
    if second:
        other = re.findall(rf'<layer id="(\d+)" name="[^"]*" type="{second}"', xml)[0]
        port = re.search(rf'<edge from-layer="{other}" from-port="(\d+)"', xml)
        assert port is not None
    dims = '<port id="%d" precision="FP32"><dim>-1</dim><dim>-1</dim><dim>32</dim></port>'
    count = 2 if second or same else 1
    layers, edges, source, source_port = [], [], edge[1], edge[2]
    for number in range(1_000_000, 1_000_000 + n):
        data = '<data destination_type="f32"/>' if kind == "Convert" else ""
        layers.append(
            f'<layer id="{number}" name="h{number}" type="{kind}" version="opset1">{data}<input>'
            + "".join(dims % i for i in range(count)) + "</input><output>" + dims % count + "</output></layer>"
        )  # fmt: skip
        edges.append(f'<edge from-layer="{source}" from-port="{source_port}" to-layer="{number}" to-port="0" />')
        if same:
            edges.append(f'<edge from-layer="{source}" from-port="{source_port}" to-layer="{number}" to-port="1" />')
        elif second:
            edges.append(f'<edge from-layer="{other}" from-port="{port[1]}" to-layer="{number}" to-port="1" />')
        source, source_port = str(number), str(count)
    edges.append(f'<edge from-layer="{source}" from-port="{source_port}" to-layer="{key}" to-port="0" />')
    cut = xml.index("</layers>") if "<body>" not in xml else xml.rindex("</layers>")
    xml = xml[:cut] + "\n".join(layers) + xml[cut:]
    return xml.replace(edge[0], "\n".join(edges), 1)


def ported(kind: str, side: str, fewer: int) -> str:
    """Falcon whose ops of one type lack their last inputs or outputs, with the edges."""
    xml = falcon()
    for key in re.findall(rf'<layer id="(\d+)" name="[^"]*" type="{kind}"', xml):
        layer = re.search(rf'<layer id="{key}" .*?</layer>', xml, re.DOTALL)
        assert layer is not None
        section = re.search(rf"<{side}>(.*?)</{side}>", layer[0], re.DOTALL)
        if section is None:
            continue
        ports = re.findall(r"<port .*?</port>|<port [^>]*/>", section[1], re.DOTALL)
        kept = "".join(ports[: max(len(ports) - fewer, 0)])
        new = layer[0].replace(section[0], f"<{side}>{kept}</{side}>" if kept else "")
        xml = xml.replace(layer[0], new, 1)
        end = "to" if side == "input" else "from"
        for port in ports[max(len(ports) - fewer, 0) :]:
            number = re.search(r'id="(\d+)"', port)
            assert number is not None
            xml = re.sub(rf'<edge [^>]*{end}-layer="{key}" {end}-port="{number[1]}"[^>]*>', "", xml)
    return xml


SPLICED: dict[str, Callable[[int], str]] = {
    "relus-before-head": lambda n: spliced(n, "Relu", "Result"),
    "converts-before-head": lambda n: spliced(n, "Convert", "Result"),
    "reshapes-before-head": lambda n: spliced(n, "Reshape", "MatMul-last", second="Const"),
    "scales-before-head": lambda n: spliced(n, "Multiply", "MatMul-last", second="Const"),
    "biases-before-head": lambda n: spliced(n, "Add", "MatMul-last", second="Const"),
    "mixed-in-embeddings": lambda n: spliced(n, "Add", "MatMul-last", second="Gather"),
    "doubled-sums": lambda n: spliced(n, "Add", "MatMul-last", same=True),
    "doubled-products": lambda n: spliced(n, "Multiply", "MatMul-last", same=True),
    "mixed-products": lambda n: spliced(n, "Multiply", "MatMul-last", second="Gather"),
    "first-norm": lambda n: spliced(n, "Relu", "MVN"),
    "first-norm-sums": lambda n: spliced(n, "Add", "MVN", second="Gather"),
    "mask": lambda n: spliced(n, "Relu", "ScaledDotProductAttention"),
    "state": lambda n: spliced(n, "Relu", "Assign"),
    "indices": lambda n: spliced(n, "Relu", "Gather"),
}
ALL = {**SHAPES, **{f"falcon-{name}": shape for name, shape in SPLICED.items()}}


def write(xml: str, directory: Path, like: str = "falcon") -> Path:
    """A model directory with this XML as its target and the other files of an export."""
    directory.mkdir(parents=True)
    for path in (FIXTURES / like).iterdir():
        if path.name != "openvino_model.xml":
            (directory / path.name).symlink_to(path)
    (directory / "openvino_model.xml").write_text(xml)
    return directory


def main(arguments: Sequence[str]) -> None:
    shape, size, directory = arguments
    write(ALL[shape](int(size)), Path(directory))


if __name__ == "__main__":
    main(sys.argv[1:])
