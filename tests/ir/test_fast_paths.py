"""What is read fast in the spelling of OpenVINO is what an XML parser reads, in this spelling and in any near it."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from xml.parsers import expat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from irtools.errors import InvalidIRError, IrtoolsError
from irtools.ir.constants import iter_graphs
from irtools.ir.op import Op, Port, bare_ports, output_ports, parse_op, port_shapes
from irtools.ir.scan import Scan, Span, scan_ir
from irtools.text import whole_number

SAVED = b"""<?xml version="1.0"?>
<net name="m" version="11">
\t<layers>
\t\t<layer id="0" name="a" type="Parameter" version="opset1">
\t\t\t<data shape="?,2" element_type="f32" />
\t\t\t<output>
\t\t\t\t<port id="0" precision="FP32" names="a,b\\,c">
\t\t\t\t\t<dim>-1</dim>
\t\t\t\t\t<dim>2</dim>
\t\t\t\t</port>
\t\t\t</output>
\t\t</layer>
\t\t<layer id="2" name="c&amp;d" type="Add" version="opset1">
\t\t\t<data auto_broadcast="numpy" />
\t\t\t<rt_info>
\t\t\t\t<attribute name="fused_names" version="0" value="x, y" />
\t\t\t\t<attribute name="p" version="0" />
\t\t\t</rt_info>
\t\t\t<input>
\t\t\t\t<port id="0" precision="FP32">
\t\t\t\t\t<dim>-1</dim>
\t\t\t\t</port>
\t\t\t\t<port id="1" precision="I64" />
\t\t\t</input>
\t\t\t<output>
\t\t\t\t<port id="2" precision="FP32" />
\t\t\t</output>
\t\t</layer>
\t</layers>
\t<edges>
\t\t<edge from-layer="0" from-port="0" to-layer="2" to-port="0" />
\t\t<edge from-layer="0" from-port="0" to-layer="2" to-port="1" />
\t</edges>
\t<rt_info>
\t\t<Runtime_version value="x" />
\t</rt_info>
</net>
"""
"""Two ops as OpenVINO saves them."""
PIECES = [
    *" \n\t\r/<>=-0\"'x\xe9\xa0\x85\u2028\u0663",
    *("00", "9" * 18, "9" * 19, "&amp;", "&#10;", "&#x41;", "<!-- x -->", "<![CDATA[1]]>", "<?pi x?>"),
    *('<!-- <layer id="9" name="n" type="T"> -->', "<layers></layers>", "<layers/>", "<layer/>", "<layerx/>"),
    *('<layer id="7" name="z" type="Z"></layer>', "<edges></edges>", "<edge/>", "</layer >", "</layers >", "</edges >"),
    *(f'<edge from-layer="{key}" from-port="0" to-layer="2" to-port="1" />' for key in ("", "0", "01", "-1")),
    *("<rt_info/>", "<rt_info></rt_info>", "<rt_info><layer></layer></rt_info>", "<input></input>"),
    *("<output></output>", '<port id="5" precision="i4"/>', "<port/>", "<dim/>", "<dim>3</dim>", "<dim> 3</dim>"),
    *("<data/>", '<data x="1"/>', '<data x="1"></data>', '<attribute name="q" value="a\tb\r\nc"/>', "<attribute/>"),
    *('<attribute value="&lt;"></attribute>', "<then_body ></then_body>", ' id="4"', ' names="x"', ' z=">"', " z='\"'"),
    *('<body ><layers ><layer id="0" name="i" type="I"/></layers ></body >', ' a:b="c"', ' precision="X"'),
]
RESPELLED = {
    "</layer>": "</layer >",
    "</layers>": "</layers >",
    "</edges>": "</edges >",
    "</port>": "</port\n>",
    "</dim>": "</dim >",
    '"': "'",
    " />": "/>",
    "\n\t\t": "\n",
    "edge ": "edge\n",
}
_PLACE = re.compile(r"[<>\"]|(?<=>)|\b")


@st.composite
def near(draw: st.DrawFn) -> bytes:
    """The two ops with one to three edits: a piece put in, in place of others or of none, or another spelling."""
    text = SAVED.decode()
    for _ in range(draw(st.integers(1, 3))):
        places = [match.start() for match in _PLACE.finditer(text)]
        place = draw(st.sampled_from(places))
        match draw(st.integers(0, 3)):
            case 0:
                old = draw(st.sampled_from(sorted(RESPELLED)))
                text = text.replace(old, RESPELLED[old], draw(st.sampled_from([1, -1])))
            case 1:
                tag = draw(st.sampled_from(re.findall("<[^<>]*>", text) or [""]))
                text = text[:place] + tag + text[place:]
            case _:
                gone = draw(st.sampled_from([0, 0, 0, 1, 2, 5]))
                text = text[:place] + draw(st.sampled_from(["", *PIECES])) + text[place + gone :]
    return text.encode()


def children(root: etree._Element, section: str, name: str) -> list[etree._Element]:
    """The elements of the first such section, which is the one that OpenVINO reads."""
    return root.findall(f"{section}[1]/{name}")


def require_read(data: bytes, scan: Scan) -> None:
    """The scan and its ops have what lxml finds in the file."""
    root = etree.fromstring(data, etree.XMLParser(huge_tree=True))
    layers, edges = children(root, "layers", "layer"), children(root, "edges", "edge")
    assert scan.ids == [int(layer.get("id", "")) for layer in layers]
    assert scan.names == [layer.get("name", "") for layer in layers]
    assert scan.types == [layer.get("type", "") for layer in layers]
    assert scan.opsets in ([], [layer.get("version", "") for layer in layers])
    require_contents(data, scan)
    keys = ("from-layer", "from-port", "to-layer", "to-port")
    assert scan.edges == [tuple(int(edge.get(key, "")) for key in keys) for edge in edges]
    known: set[bytes] = set()
    for layer, span in zip(layers, scan.spans, strict=True):
        spelling = data[data.find(b">", span.start) : span.end]
        if spelling not in known:
            known.add(spelling)
            require_op(data, span, layer)


def require_contents(data: bytes, scan: Scan) -> None:
    """The ports that are read from what many layers have in common are those of each layer, without names."""
    for content, span in zip(scan.contents, scan.spans if scan.contents else (), strict=True):
        if (bare := bare_ports(content)) is not None:
            op = parse_op(data, span)
            ports = [Port(port.id, port.element_type, port.shape) for port in (*op.inputs, *op.outputs)]
            assert (len(bare.inputs), len(bare.outputs)) == (len(op.inputs), len(op.outputs))
            assert [Port(port.id, port.element_type, port.shape) for port in (*bare.inputs, *bare.outputs)] == ports
            assert list(bare.shapes) == [port.shape for port in ports]
            assert bare.named or not any(port.names for port in op.outputs)


def require_op(data: bytes, span: Span, layer: etree._Element) -> None:
    numbers = [dim.text for dim in layer.iterfind("*/port/dim") if dim.text]
    numbers += [port.get("id", "0") for port in layer.iterfind("*/port")] + [layer.get("id", "")]
    if any(whole_number(number) is None for number in numbers):
        with pytest.raises(IrtoolsError):
            parse_op(data, span)
        return
    op = parse_op(data, span)
    assert (op.id, op.name, op.type) == (int(layer.get("id", "")), layer.get("name", ""), layer.get("type", ""))
    assert op.opset == layer.get("version", "")
    assert list(op.attributes.items()) == list(attributes_of(layer.find("data")))
    entries = [entry for entry in layer.iterfind("rt_info[1]/*") if isinstance(entry.tag, str)]
    assert dict(op.rt_info) == {entry.get("name", entry.tag): entry.get("value", "") for entry in entries}
    require_ports(op, layer)
    assert output_ports(data, span) == op.outputs
    assert port_shapes(data, span) == [port.shape for port in (*op.inputs, *op.outputs)]


def attributes_of(element: etree._Element | None) -> list[tuple[str, str]]:
    return [] if element is None else [(str(key), str(value)) for key, value in element.attrib.items()]


def require_ports(op: Op, layer: etree._Element) -> None:
    for ports, section in ((op.inputs, "input"), (op.outputs, "output")):
        elements = layer.findall(f"{section}/port")
        assert [port.id for port in ports] == [int(port.get("id", "0")) for port in elements]
        assert [list(port.shape) for port in ports] == [
            [int(dim.text) if dim.text else -1 for dim in port.iterfind("dim")] for port in elements
        ]
        names = ["\0".join(port.names).replace(",", "\\,").replace("\0", ",") for port in ports]
        assert names == [port.get("names", "") for port in elements]


@settings(max_examples=400, deadline=None)
@given(near())
def test_a_spelling_near_that_of_openvino(data: bytes) -> None:
    try:
        root = etree.fromstring(data)
    except etree.XMLSyntaxError:
        return
    try:
        expat.ParserCreate().Parse(data, True)
    except expat.ExpatError:  # which is stricter about the names of processing instructions
        with pytest.raises(InvalidIRError, match="not well-formed"):
            scan_ir(data)
        return
    if root.xpath("boolean(layers[1]/*[not(self::layer)] | edges[1]//*[not(self::edge)] | edges[1]/edge/edge)"):
        return  # no IR: the scan takes layers and edges in other elements too
    numbers = [layer.get("id", "") for layer in children(root, "layers", "layer")]
    for edge in children(root, "edges", "edge"):
        numbers += [edge.get(key, "") for key in ("from-layer", "from-port", "to-layer", "to-port")]
    like = scan_ir(SAVED)
    if any(whole_number(number) is None for number in numbers):
        for other in (None, like):
            with pytest.raises(IrtoolsError, match=r"is not a number|has no"):
                scan_ir(data, like=other)
        return
    scan = scan_ir(data)
    require_read(data, scan)
    require_same(scan_ir(data, like=like), scan)


def require_same(shared: Scan, scan: Scan) -> None:
    """A scan that took over layers and edges of another file is that of the file alone."""
    assert (shared.ids, shared.names, shared.spans, shared.edges) == (scan.ids, scan.names, scan.spans, scan.edges)
    assert (shared.layers, shared.edges_section, shared.rt_infos) == (scan.layers, scan.edges_section, scan.rt_infos)
    assert (shared.types, shared.opsets, shared.contents) == (scan.types, scan.opsets, scan.contents)


@pytest.fixture(scope="module")
def exported(fixtures: Path) -> tuple[bytes, Scan]:
    data = (fixtures / "falcon" / "openvino_model.xml").read_bytes()
    return data, scan_ir(data)


@pytest.mark.parametrize("places", [[0], [5, 6, 300], [-1], range(0, 400, 7)])
def test_an_edited_file_is_scanned_like_the_old_one(exported: tuple[bytes, Scan], places: Sequence[int]) -> None:
    data, old = exported
    spans = sorted(old.spans[place] for place in places)
    added = b'<layer id="9%06d" name="new" type="Result" version="opset1">\n</layer>\n'
    for number, span in reversed(list(enumerate(spans))):
        layer = data[slice(*span)]
        changed = layer.replace(b' precision="FP32">', b' precision="FP32" names="x,y">')
        data = data[: span.start] + [changed, added % number + layer, b""][number % 3] + data[span.end :]
    edge = b'\n\t\t<edge from-layer="0" from-port="0" to-layer="9000001" to-port="0" />'
    for edited in (
        data,
        data.replace(b"\n\t</edges>", edge + b"\n\t</edges>"),
        data.replace(b"<edges>", b"<edges>" + edge),
    ):
        scan = scan_ir(edited)
        require_read(edited, scan)
        require_same(scan_ir(edited, like=old), scan)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"</layer>", b"</layers>"),
        (b"</layer>", b"</layer><a>"),
        (b"</layer>", b"</layer></a>"),
        (b"</layer>", b"</layer>\x00"),
        (b"<edge ", b"<e>\n\t\t<edge "),
        (b"<edges>", b"<a b='<edges>"),
        (b" />\n\t\t<edge ", b" /></edges>\n\t\t<edge "),
        (b"</edges>", b"</edge>"),
    ],
)
def test_what_is_shared_with_another_file_hides_no_fault(
    exported: tuple[bytes, Scan], before: bytes, after: bytes
) -> None:
    data, old = exported
    for broken in (data.replace(before, after, 1), after.join(data.rsplit(before, 1))):
        messages = []
        for like in (None, old):
            with pytest.raises(IrtoolsError) as raised:
                scan_ir(broken, like=like)
            messages.append(str(raised.value))
        with pytest.raises(etree.XMLSyntaxError) as error:
            etree.fromstring(broken)
        assert messages[0] == messages[1]
        assert f"line {error.value.lineno}" in messages[0] or b"\0" in broken


def test_digits_between_edges_belong_to_none() -> None:
    scan = scan_ir(SAVED.replace(b'to-port="1" />', b'to-port="1" />5'))
    assert scan.edges == [(0, 0, 2, 0), (0, 0, 2, 1)]


def require_all(files: list[Path]) -> None:
    assert files
    for file in files:
        data = file.read_bytes()
        require_read(data, scan_ir(data))


def test_exports(fixtures: Path) -> None:
    require_all([fixtures / "falcon" / "openvino_model.xml", fixtures / "bert" / "openvino_model.xml"])


@pytest.mark.slow
def test_every_export(fixtures: Path) -> None:
    require_all(sorted(file for file in fixtures.rglob("*.xml") if file.stat().st_size < 1_000_000))


def test_many_bodies_take_linear_time() -> None:
    """Each body was once searched to the end of the file: 2.8 s for these."""
    count = 1000
    body = b'<then_body ><layers ><layer id="0" name="x" type="Y" version="opset1"></layer ></layers ></then_body >'
    layers = b"".join(b'<layer id="%d" name="i" type="If">%b</layer >' % (key, body) for key in range(count))
    rest = b"<rt_info><a>" + b"x" * 2_000_000 + b"</a></rt_info>"
    scan = scan_ir(b'<net name="n" version="11"><layers>' + layers + b"</layers>" + rest + b"</net>")
    started = time.process_time()
    assert len(list(iter_graphs(scan))) == count + 1
    assert time.process_time() - started < 1
