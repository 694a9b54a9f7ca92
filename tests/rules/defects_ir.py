"""Seeded defects of the files themselves."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from defects import Defect, both, remove, rewrite, sub

X, B = "openvino_model.xml", "openvino_model.bin"
LANGUAGE, MTP, TOKENIZER = "openvino_language_model.xml", "openvino_mtp_model.xml", "openvino_tokenizer.xml"
POINTER = (
    b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32\nsize 12345\n"
)
LAYER = r'<layer id="\d+" name="[^"]*" type="%s"[^>]*>'


def last_line(file: str) -> Callable[[Path], int]:
    """Where a parser finds that a file ends too early."""
    return lambda directory: (directory / file).read_bytes().count(b"\n") + 1


def cycle(data: bytes) -> bytes:
    """Let the first residual sum that feeds another read that other's output."""
    kinds = dict(re.findall(rb'<layer id="(\d+)" name="[^"]*" type="(\w+)"', data))
    edges = re.findall(rb'<edge from-layer="(\d+)" from-port="(\d+)" to-layer="(\d+)" to-port="(\d+)" />', data)
    first, second = next((a, c) for a, _, c, _ in edges if kinds[a] == kinds[c] == b"Add")
    port = next(b for a, b, _, _ in edges if a == second)
    old = b'<edge from-layer="%s" from-port="%s" to-layer="%s" to-port="%s" />'
    wire = next(edge for edge in edges if edge[2] == first)
    return data.replace(old % wire, old % (second, port, first, wire[3]))


def from_input(data: bytes) -> bytes:
    """Let an op near the input read the last sum before the output."""
    kinds = dict(re.findall(rb'<layer id="(\d+)" name="[^"]*" type="(\w+)"', data))
    edges = re.findall(rb'<edge from-layer="(\d+)" from-port="(\d+)" to-layer="(\d+)" to-port="(\d+)" />', data)
    last = [(a, b) for a, b, _, _ in edges if kinds[a] == b"Add"][-1]
    wire = next(edge for edge in edges if kinds[edge[2]] == b"Add")
    old = b'<edge from-layer="%s" from-port="%s" to-layer="%s" to-port="%s" />'
    return data.replace(old % wire, old % (*last, *wire[2:]))


def first_sum(directory: Path) -> int:
    """Line of the first Add that reads an op that comes later in the file."""
    data = (directory / X).read_bytes()
    at = {key: number for number, key in enumerate(re.findall(rb'<layer id="(\d+)"', data))}
    edges = re.findall(rb'<edge from-layer="(\d+)" from-port="\d+" to-layer="(\d+)"', data)
    back = next(target for source, target in edges if at[source] > at[target])
    return data.count(b"\n", 0, data.index(b'<layer id="%s"' % back)) + 1


def same_name(kind: bytes, index: int) -> Callable[[bytes], bytes]:
    """Give one op the name of the one before it of the same type."""

    def change(data: bytes) -> bytes:
        names = re.findall(rb'<layer id="\d+" name="([^"]*)" type="%s"' % kind, data)
        old, new = names[index], names[index - 1]
        return data.replace(b'name="%s" type="%s"' % (old, kind), b'name="%s" type="%s"' % (new, kind))

    return change


def named_twice(file: str) -> Callable[[Path], int]:
    """Line of the first op whose name an earlier one has."""

    def line(directory: Path) -> int:
        data = (directory / file).read_bytes()
        seen: set[bytes] = set()
        for match in re.finditer(rb'<layer id="\d+" name="([^"]*)"', data[: data.index(b"</layers>")]):
            if match[1] in seen:
                return data.count(b"\n", 0, match.start()) + 1
            seen.add(match[1])
        raise AssertionError("no name is there twice")

    return line


def second_of(pattern: str, file: str) -> Callable[[Path], int]:
    """Line of the second match."""

    def line(directory: Path) -> int:
        data = (directory / file).read_bytes()
        match = list(re.finditer(pattern.encode(), data))[1]
        return data.count(b"\n", 0, match.start()) + 1

    return line


def share_state(kind: bytes) -> Callable[[bytes], bytes]:
    """Let the second op of a kind use the state of the first."""

    def change(data: bytes) -> bytes:
        found = list(re.finditer(rb'type="%s".*?variable_id="([^"]*)"' % kind, data, re.DOTALL))
        start, end = found[1].span(1)
        return data[:start] + found[0][1] + data[end:]

    return change


def bare_edge(data: bytes) -> bytes:
    """Add an edge from an op that does not exist to an input that has one already."""
    return data.replace(b"<edges>", b'<edges>\n\t\t<edge from-layer="777777" from-port="0" to-layer="5" to-port="0" />')


def twice(data: bytes) -> bytes:
    """Write the first edge into a MatMul a second time."""
    target = re.search(rb'<layer id="(\d+)" name="[^"]*" type="MatMul"', data)
    assert target is not None
    return re.sub(rb'(<edge [^>]*to-layer="%s"[^>]*/>)' % target[1], rb"\1\n\t\t\1", data, count=1)


def cut_edge(kind: bytes, index: int = 0) -> Callable[[bytes], bytes]:
    """Remove an edge into an op of a type."""

    def change(data: bytes) -> bytes:
        targets = re.findall(rb'<layer id="(\d+)" name="[^"]*" type="%s"' % kind, data)
        return re.sub(rb'<edge [^>]*to-layer="%s"[^>]*/>\s*' % targets[index], b"", data, count=1)

    return change


def body_edge(data: bytes) -> bytes:
    """Let an edge inside the first Loop body start at a port that its op does not have."""
    loop = data.index(b'type="Loop"')
    start = data.index(b"<edges>", loop)
    changed = re.sub(rb'from-port="\d+"', b'from-port="88"', data[start:], count=1)
    return data[:start] + changed


DETOKENIZER, POSITIONS = "openvino_detokenizer.xml", "openvino_vision_embeddings_pos_model.xml"
AT_DATA = r"<layer [^>]*>\s*<data [^>]*%s"


def in_first_body(pattern: bytes, replacement: bytes) -> Callable[[bytes], bytes]:
    """Change the first match inside the first Loop body."""

    def change(data: bytes) -> bytes:
        start = data.index(b"<body>")
        return data[:start] + re.sub(pattern, replacement, data[start:], count=1)

    return change


def first_ff(directory: Path) -> int:
    """Line of the first byte that is no UTF-8."""
    return (directory / X).read_bytes().split(b"\xff")[0].count(b"\n") + 1


DEFECTS = (
    # -- reading -----------------------------------------------------------------------
    Defect("xml-truncated", "falcon", rewrite(X, lambda d: d[:100_000]), "IR001", X, last_line(X)),
    Defect("xml-empty", "falcon", rewrite(X, lambda _: b""), "IR001", X, lambda _: 1),
    Defect("xml-doctype", "falcon", sub(X, "<net ", "<!DOCTYPE net>\n<net "), "IR001", X, "<!DOCTYPE"),
    Defect("xml-control-character", "falcon", sub(X, 'type="Gelu"', 'type="Ge&#1;lu"'), "IR001", X, "&#1;"),
    Defect("xml-other-root", "falcon", sub(X, "(</?)net", r"\1nett", 2), "IR001", X, lambda _: 1),
    Defect("xml-garbage-behind", "falcon", rewrite(X, lambda d: d + b"\nnonsense"), "IR001", X, last_line(X)),
    Defect(
        "xml-bad-utf8", "falcon", rewrite(X, lambda d: d.replace(b'"Gelu"', b'"Ge\xff\xfe"', 1)), "IR001", X, first_ff
    ),
    Defect(
        "tokenizer-truncated",
        "falcon",
        rewrite(TOKENIZER, lambda d: d[:5000]),
        "IR001",
        TOKENIZER,
        last_line(TOKENIZER),
    ),
    Defect("xml-lfs-pointer", "falcon", rewrite(X, lambda _: POINTER), "IR002", X, lambda _: 1),
    Defect("bin-lfs-pointer", "falcon", rewrite(B, lambda _: POINTER), "IR002", B, lambda _: 1),
    Defect("net-version-9", "falcon", sub(X, 'version="11"', 'version="9"'), "IR003", X, "<net "),
    Defect("net-version-missing", "falcon", sub(X, ' version="11"', ""), "IR003", X, "<net "),
    Defect("xml-utf16", "falcon", rewrite(X, lambda d: d.decode().encode("utf-16")), "IR004", X, lambda _: 1),
    Defect(
        "xml-latin1", "falcon", sub(X, r'version="1.0"', 'version="1.0" encoding="latin1"'), "IR004", X, lambda _: 1
    ),
    Defect(
        "layers-missing",
        "falcon",
        sub(DETOKENIZER, "<layers>.*</edges>", "<layers/><edges/>"),
        "IR005",
        DETOKENIZER,
        lambda _: 1,
    ),
    Defect(
        "result-missing",
        "qwen3_5_vl",
        both(
            sub(POSITIONS, r'<layer id="\d+" name="[^"]*" type="Result".*?</layer>\s*', ""),
            sub(POSITIONS, r"<edge [^>]*/>(?!.*<edge )", ""),
        ),
        "IR005",
        POSITIONS,
        lambda _: 1,
    ),
    # -- weights -----------------------------------------------------------------------
    Defect("bin-missing", "falcon", remove(B), "IR006", B),
    Defect("bin-of-mtp-missing", "qwen3_5_vl", remove("openvino_mtp_model.bin"), "IR006", "openvino_mtp_model.bin"),
    Defect("bin-link-to-nowhere", "falcon", both(remove(B), lambda d: (d / B).symlink_to("gone")), "IR006", B),
    Defect("bin-truncated", "falcon", rewrite(B, lambda d: d[:-7]), "IR007", B),
    Defect("bin-empty", "falcon", rewrite(B, lambda _: b""), "IR007", B),
    Defect(
        "bin-of-tokenizer-truncated",
        "falcon",
        rewrite("openvino_tokenizer.bin", lambda d: d[:100]),
        "IR007",
        "openvino_tokenizer.bin",
    ),
    Defect(
        "constant-past-end",
        "falcon",
        sub(X, r'(element_type="i64" shape="" offset=")\d+', r"\g<1>99999999"),
        "IR007",
        X,
        AT_DATA % 'offset="99999999"',
    ),
    Defect(
        "constant-in-body-past-end",
        "qwen3_5_vl",
        rewrite(LANGUAGE, in_first_body(rb'offset="\d+"', b'offset="88888888"')),
        "IR007",
        LANGUAGE,
        AT_DATA % 'offset="88888888"',
    ),
    Defect("bin-longer", "falcon", rewrite(B, lambda d: d + b"\0"), "IR008", B, severity="warning"),
    Defect("bin-of-another-model", "falcon", rewrite(B, lambda d: d * 2), "IR008", B, severity="warning"),
    Defect(
        "constant-too-small",
        "falcon",
        sub(X, r'(shape="512, 32" offset="\d+" size=")65536', r"\g<1>65532"),
        "IR009",
        X,
        AT_DATA % 'size="65532"',
    ),
    Defect(
        "constant-larger",
        "falcon",
        sub(X, r'(shape="512, 32" offset="\d+" size=")65536', r"\g<1>65540"),
        "IR009",
        X,
        AT_DATA % 'size="65540"',
        severity="warning",
    ),
    Defect(
        "constant-packed-too-small",
        "qwen3_5_vl_int4",
        sub(MTP, r'(element_type="u4" shape="[^"]*" offset="\d+" size=")\d+', r"\g<1>7"),
        "IR009",
        MTP,
        AT_DATA % 'size="7"',
    ),
    Defect(
        "constant-of-wider-type",
        "falcon",
        sub(X, r'element_type="f32" shape="512, 32"', 'element_type="f64" shape="512, 32"'),
        "IR009",
        X,
        AT_DATA % 'element_type="f64"',
    ),
    # -- values ------------------------------------------------------------------------
    Defect("dimension-no-number", "falcon", sub(X, "<dim>32<", "<dim>abc<"), "IR010", X, "<dim>abc"),
    Defect("dimension-empty", "falcon", sub(X, "<dim>32<", "<dim><"), "IR010", X, "<dim></dim>"),
    Defect("dimension-minus-two", "falcon", sub(X, "<dim>-1<", "<dim>-2<"), "IR010", X, "<dim>-2"),
    Defect("offset-no-number", "falcon", sub(X, r'offset="\d+"', 'offset="x"'), "IR010", X, AT_DATA % 'offset="x"'),
    Defect("size-negative", "falcon", sub(X, r' size="\d+"', ' size="-4"'), "IR010", X, AT_DATA % 'size="-4"'),
    Defect(
        "shape-of-constant-no-number",
        "falcon",
        sub(X, 'shape="512, 32"', 'shape="512, ?"'),
        "IR010",
        X,
        AT_DATA % r'shape="512, \?"',
    ),
    Defect(
        "element-type-unknown",
        "falcon",
        sub(X, 'element_type="f32" shape="512, 32"', 'element_type="f99" shape="512, 32"'),
        "IR010",
        X,
        AT_DATA % 'element_type="f99"',
    ),
    Defect(
        "input-type-unknown",
        "falcon",
        sub(X, 'element_type="i64"', 'element_type="int64"'),
        "IR010",
        X,
        LAYER % "Parameter",
    ),
    Defect("input-shape-malformed", "falcon", sub(X, r'shape="\?,\?"', 'shape="?,x"'), "IR010", X, LAYER % "Parameter"),
    Defect(
        "precision-unknown", "falcon", sub(X, 'precision="FP32"', 'precision="FP99"'), "IR010", X, 'precision="FP99"'
    ),
    Defect("layer-id-no-number", "falcon", sub(X, '<layer id="7"', '<layer id="x7"'), "IR010", X, 'id="x7"'),
    Defect("layer-id-enormous", "falcon", sub(X, '<layer id="7"', f'<layer id="{"9" * 5000}"'), "IR010", X, 'id="999'),
    Defect(
        "edge-without-port",
        "falcon",
        sub(X, r'(<edge from-layer="\d+") from-port="\d+"', r"\1"),
        "IR010",
        X,
        r'<edge from-layer="\d+" to-layer',
    ),
    Defect(
        "port-id-no-number",
        "falcon",
        sub(X, '(type="Gelu".*?)<port id="0"', r'\1<port id="zero"'),
        "IR010",
        X,
        LAYER % "Gelu",
        causes=("IR012",),
    ),
    Defect(
        "layer-without-type", "falcon", sub(X, ' type="Gelu"', ""), "IR010", X, r'<layer id="\d+" name="[^"]*" version'
    ),
    # -- wiring ------------------------------------------------------------------------
    Defect(
        "layer-id-twice", "falcon", sub(X, '<layer id="5"', '<layer id="6"'), "IR011", X, second_of('<layer id="6"', X)
    ),
    Defect(
        "layer-id-twice-in-mtp",
        "qwen3_5_vl",
        sub(MTP, '<layer id="9"', '<layer id="10"'),
        "IR011",
        MTP,
        second_of('<layer id="10"', MTP),
    ),
    Defect(
        "edge-from-nowhere",
        "falcon",
        sub(X, '<edge from-layer="5"', '<edge from-layer="99999"'),
        "IR012",
        X,
        'from-layer="99999"',
        causes=("IR013",),
    ),
    Defect(
        "edge-to-nowhere",
        "falcon",
        sub(X, r'(<edge from-layer="5" from-port="\d+" to-layer=)"\d+"', r'\1"99999"'),
        "IR012",
        X,
        'to-layer="99999"',
        causes=("IR013",),
    ),
    Defect(
        "edge-from-port-that-is-none",
        "falcon",
        sub(X, r'(<edge from-layer="5" from-port=)"\d+"', r'\1"77"'),
        "IR012",
        X,
        '<edge [^>]*from-port="77"',
    ),
    Defect(
        "edge-to-port-that-is-none",
        "falcon",
        sub(X, r'(<edge from-layer="5" [^>]*to-port=)"\d+"', r'\1"77"'),
        "IR012",
        X,
        '<edge [^>]*to-port="77"',
        causes=("IR013",),
    ),
    Defect(
        "edge-in-body-from-port-that-is-none",
        "qwen3_5_vl",
        rewrite(LANGUAGE, body_edge),
        "IR012",
        LANGUAGE,
        '<edge [^>]*from-port="88"',
    ),
    Defect("edge-missing", "falcon", rewrite(X, cut_edge(b"Gelu")), "IR013", X, LAYER % "Gelu"),
    Defect("edge-of-product-missing", "falcon", rewrite(X, cut_edge(b"MatMul")), "IR013", X, LAYER % "MatMul"),
    Defect("edge-twice", "falcon", rewrite(X, twice), "IR014", X, LAYER % "MatMul"),
    Defect("edge-added", "falcon", rewrite(X, bare_edge), "IR014", X, r'<layer id="5" ', causes=("IR012",)),
    Defect("cycle-of-two", "falcon", rewrite(X, cycle), "IR015", X, first_sum),
    Defect("cycle-from-end-to-start", "falcon", rewrite(X, from_input), "IR015", X, first_sum),
    # -- names, states, opsets, rt_info ---------------------------------------------------
    Defect(
        "sums-with-one-name", "falcon", rewrite(X, same_name(b"Add", 1)), "IR016", X, named_twice(X), severity="warning"
    ),
    Defect(
        "products-with-one-name-in-mtp",
        "qwen3_5_vl",
        rewrite(MTP, same_name(b"MatMul", 3)),
        "IR016",
        MTP,
        named_twice(MTP),
        severity="warning",
    ),
    Defect(
        "output-called-like-op",
        "falcon",
        sub(X, r'name="Result_\d+"', 'name="input_ids"'),
        "IR016",
        X,
        LAYER % "Result",
        severity="note",
    ),
    Defect(
        "assign-of-unknown-state",
        "falcon",
        sub(X, '(type="Assign".*?variable_id=")[^"]*', r"\1elsewhere"),
        "IR017",
        X,
        LAYER % "Assign",
    ),
    Defect(
        "read-of-unknown-state",
        "falcon",
        sub(X, '(type="ReadValue".*?variable_id=")[^"]*', r"\1elsewhere"),
        "IR017",
        X,
        LAYER % "ReadValue",
    ),
    Defect(
        "read-shares-state",
        "falcon",
        rewrite(X, share_state(b"ReadValue")),
        "IR018",
        X,
        second_of(LAYER % "ReadValue", X),
        causes=("IR017",),
    ),
    Defect(
        "assign-shares-state",
        "falcon",
        rewrite(X, share_state(b"Assign")),
        "IR018",
        X,
        second_of(LAYER % "Assign", X),
        causes=("IR017",),
    ),
    Defect(
        "opset-of-the-future",
        "falcon",
        sub(X, 'type="Gelu" version="opset7"', 'type="Gelu" version="opset99"'),
        "IR019",
        X,
        LAYER % "Gelu",
        severity="note",
    ),
    Defect(
        "opset-of-a-vendor",
        "falcon",
        sub(X, 'type="Gelu" version="opset7"', 'type="Gelu" version="acme"'),
        "IR019",
        X,
        LAYER % "Gelu",
        severity="note",
    ),
    Defect(
        "rt-info-twice",
        "falcon",
        sub(X, "</net>", '<rt_info><a value="1"/></rt_info>\n</net>'),
        "IR020",
        X,
        "<rt_info><a",
        severity="warning",
    ),
    Defect(
        "rt-info-before",
        "falcon",
        sub(X, "(\t<rt_info>)(?!.*<rt_info>)", r"\t<rt_info/>\n\1"),
        "IR020",
        X,
        r"<rt_info>(?!.*<rt_info>)",
        severity="warning",
    ),
    Defect(
        "meta-data-beside-rt-info",
        "falcon",
        sub(X, "</net>", '<meta_data><a value="1"/></meta_data>\n</net>'),
        "IR020",
        X,
        "<meta_data>",
        severity="warning",
    ),
    Defect(
        "rt-info-key-twice",
        "falcon",
        sub(X, "(\t</rt_info>\\s*</net>)", r'\t<Runtime_version value="2020.1"/>\n\1'),
        "IR021",
        X,
        '<Runtime_version value="2020.1"',
        severity="warning",
    ),
    Defect(
        "rt-info-key-in-two-spellings",
        "falcon",
        sub(X, "(\t</rt_info>\\s*</net>)", r'\t<info name="optimum" value="x"/>\n\1'),
        "IR021",
        X,
        '<info name="optimum"',
        severity="warning",
    ),
)
