"""The byte scan gives the same result as an XML parser for any IR-like file."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from irtools.errors import InvalidIRError, UnsupportedEncodingError
from irtools.ir.constants import iter_graphs
from irtools.ir.op import parse_op
from irtools.ir.scan import bodies, scan_ir

NAMES = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"), min_size=1, max_size=12
)
SPACE = st.sampled_from([" ", "\n", "\t", "\r\n", "\n\t\t", "  "])
NOISE = st.sampled_from(
    ["", "", "", "<!-- <layer id='9' name='no' type='No'/> -->", "<!-- </layers> -->", "<?pi <layers> ?>"]
)


def quoted(value: str, quote: str) -> str:
    value = value.replace("&", "&amp;").replace("<", "&lt;").replace("\n", "&#10;").replace("\t", "&#x9;")
    return quote + value.replace(quote, "&quot;" if quote == '"' else "&apos;") + quote


@st.composite
def layers(draw, depth=0):
    """``<layers>`` with ids and attributes in any order, both kinds of quotes, and nested bodies."""
    count = draw(st.integers(0, 4))
    out = []
    for number in draw(st.permutations(range(count))):
        quote = draw(st.sampled_from("\"'"))
        space = draw(SPACE)
        attributes = [f"id={quoted(str(number), quote)}", f"name={quoted(draw(NAMES), quote)}", 'type="Add"']
        attributes = draw(st.permutations([*attributes, 'version = "opset1"', 'note="a>b"']))
        body = ""
        if depth < 2 and draw(st.booleans()):
            inner = draw(layers(depth + 1))
            body = f"<body>{inner}<edges><edge from-layer='1' from-port='2' to-layer='3' to-port='4'/></edges>"
            body += draw(st.sampled_from(["<rt_info/>", "<rt_info><layers/><edge/></rt_info>", ""])) + "</body>"
        start = f"<layer{space}{space.join(attributes)}"
        if body or draw(st.booleans()):
            rt_info = draw(st.sampled_from(["", "<rt_info><layer id='7'/><layer>x</layer></rt_info>"]))
            out.append(f"{start}{draw(SPACE)}>{draw(NOISE)}<data k='v'/>{rt_info}{body}{draw(SPACE)}</layer >")
        else:
            out.append(f"{start} />")
        out.append(draw(SPACE) + draw(NOISE))
    return f"<layers>{''.join(out)}</layers>"


@st.composite
def edges(draw):
    numbers = st.integers(0, 99)
    rows = draw(st.lists(st.tuples(numbers, numbers, numbers, numbers), max_size=4))
    keys = ("from-layer", "from-port", "to-layer", "to-port")
    out = []
    for row in rows:
        pairs = [f'{key}="{value}"' for key, value in zip(keys, row, strict=True)]
        shuffled = draw(st.permutations(pairs)) if draw(st.booleans()) else pairs
        out.append(f"<edge {draw(SPACE).join(shuffled)}{draw(st.sampled_from(['/>', ' />', '></edge>']))}{draw(NOISE)}")
    return f"<edges>{draw(SPACE).join(out)}</edges>"


RT_INFO = st.sampled_from(
    [
        "",
        "<rt_info/>",
        "<rt_info><a value='1'/><layers value='2'/></rt_info>",
        "<rt_info><rt_info><b/></rt_info></rt_info>",
    ]
)


@st.composite
def irs(draw):
    parts = [draw(layers()), draw(edges()), draw(RT_INFO), draw(RT_INFO), draw(st.sampled_from(["", "<meta_data/>"]))]
    gap = draw(SPACE) + draw(NOISE)
    head = draw(st.sampled_from(["", '<?xml version="1.0"?>\n', "<?xml version='1.0' encoding='utf-8'?>"]))
    bom = b"\xef\xbb\xbf" if draw(st.booleans()) else b""
    return bom + f"{head}<net name='n' version='11'>{gap.join(draw(st.permutations(parts)))}</net>\n".encode()


@settings(max_examples=150, deadline=None)
@given(irs())
def test_a_scan_finds_what_lxml_finds(data):
    scan = scan_ir(data)
    net = etree.fromstring(data)
    theirs = net.findall("layers/layer")
    assert scan.ids == [int(layer.get("id")) for layer in theirs]
    assert scan.names == [layer.get("name") for layer in theirs]
    assert scan.types == [layer.get("type") for layer in theirs]
    keys = ("from-layer", "from-port", "to-layer", "to-port")
    assert scan.edges == [tuple(int(edge.get(key)) for key in keys) for edge in net.findall("edges/edge")]
    full = [entry for entry in net.findall("rt_info") if len(entry)]
    assert len([span for span in scan.rt_infos if b"/>" not in data[span.start : span.end][:10]]) == len(full)
    for span, layer in zip(scan.spans, theirs, strict=True):
        again = etree.fromstring(data[span.start : span.end])
        assert etree.tostring(again, method="c14n") == etree.tostring(layer, method="c14n", with_tail=False)
        assert parse_op(data, span).name == layer.get("name")


@settings(max_examples=60, deadline=None)
@given(irs())
def test_bodies_are_scanned_like_files(data):
    scan = scan_ir(data)
    for span, layer in zip(scan.spans, etree.fromstring(data).findall("layers/layer"), strict=True):
        inner = [body for name, body in bodies(scan, span) if name == "body"]
        assert [body.names for body in inner] == [
            [one.get("name") for one in body.findall("layers/layer")] for body in layer.findall("body")
        ]
        assert [len(body.edges) for body in inner] == [
            len(body.findall("edges/edge")) for body in layer.findall("body")
        ]


def nested(levels):
    """Nested Ifs; the innermost graph is empty."""
    inner = "<layers></layers>"
    for level in range(levels):
        inner = (
            f"<layers><layer id='0' name='i{level}' type='If'><then_body>{inner}</then_body></layer></layers><edges/>"
        )
    return f"<net name='n' version='11'>{inner}</net>".encode()


def test_nested_graphs_are_read():
    assert [graph.names for graph in iter_graphs(scan_ir(nested(64)))] == [[f"i{i}"] for i in range(63, -1, -1)] + [[]]


@pytest.mark.parametrize("levels", [65, 5000])
def test_absurdly_nested_graphs_are_refused_at_once(levels):
    with pytest.raises(
        InvalidIRError, match=f"line 1: {levels} graphs are nested in each other, but irtools reads at most 64"
    ):
        tuple(iter_graphs(scan_ir(nested(levels))))


GOOD = b"<net name='n' version='11'><layers><layer id='0' name='a' type='Add'/></layers></net>"


def test_an_element_that_lxml_rejects_is_one_sentence():
    data = GOOD.replace(b"'Add'/>", b"'Add'>" + b"<a>" * 3000 + b"</a>" * 3000 + b"</layer>")
    with pytest.raises(InvalidIRError, match="line 1: an element that cannot be read, Excessive depth"):
        parse_op(data, scan_ir(data).spans[0])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git-LFS pointer"),
        (GOOD[:40], "truncated"),
        (GOOD + b"junk", "not well-formed XML, text after the end of the document; export"),
        (GOOD + GOOD, "not well-formed XML, text after the end of the document; export"),
        (GOOD.replace(b"'a'", b"'a&#1;'"), "not well-formed"),
        (GOOD.replace(b"'a'", b"'a\xff'"), "not well-formed"),
        (GOOD.replace(b"'a'", b"'a<b'"), "not well-formed"),
        (GOOD.replace(b"'0'", b"'zero'"), "'zero', which is not a number"),
        (GOOD.replace(b"id='0' ", b""), "has no id"),
        (GOOD.replace(b"net", b"model"), "root element is <model>"),
        (b"<!DOCTYPE net [<!ENTITY a 'b'>]>" + GOOD, "document type declaration"),
        (b"\0" * 64, "UTF-16 or UTF-32"),
    ],
)
def test_a_file_that_is_not_an_ir_is_refused_in_one_sentence(data, message):
    with pytest.raises(InvalidIRError, match=message) as caught:
        scan_ir(data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "latin-1"])
def test_other_encodings_are_refused_by_name(encoding):
    text = f"<?xml version='1.0' encoding='{encoding}'?>{GOOD.decode()}"
    with pytest.raises(UnsupportedEncodingError, match="UTF-8"):
        scan_ir(text.encode(encoding))


def test_entities_are_not_expanded():
    bomb = b"<!DOCTYPE net [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;'>]><net name='&b;'/>"
    with pytest.raises(InvalidIRError, match="document type"):
        scan_ir(bomb)


def test_one_attribute_of_many_megabytes_is_read():
    long = b"x" * (32 << 20)
    scan = scan_ir(GOOD.replace(b"'a'", b"'" + long + b"'"))
    assert len(scan.names[0]) == len(long)
    assert parse_op(scan.data, scan.spans[0]).name == scan.names[0]
