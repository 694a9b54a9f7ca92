"""Seeded defects of the IR files: XML, weights, values, graph and names."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from defects import Defect, both, remove, rewrite, sub

X, B = "openvino_model.xml", "openvino_model.bin"
LANGUAGE, MTP, TOKENIZER = "openvino_language_model.xml", "openvino_mtp_model.xml", "openvino_tokenizer.xml"
POINTER = (
    b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32\nsize 12345\n"
)
NOTE, WARNING = {"severity": "note"}, {"severity": "warning"}
EDGE = b'<edge from-layer="%s" from-port="%s" to-layer="%s" to-port="%s" />'
LAYER = r'<layer id="\d+" name="[^"]*" type="%s"[^>]*>'


def last_line(file: str) -> Callable[[Path], int]:
    """The last line, where a parser reports a truncated file."""
    return lambda directory: (directory / file).read_bytes().count(b"\n") + 1


def wiring(data: bytes) -> tuple[dict[bytes, bytes], list[tuple[bytes, ...]]]:
    """Op types by layer id, and all edges."""
    numbers = EDGE.replace(b"%s", rb"(\d+)")
    return dict(re.findall(rb'<layer id="(\d+)" name="[^"]*" type="(\w+)"', data)), re.findall(numbers, data)


def cycle(data: bytes) -> bytes:
    """Form a cycle: let the first residual sum that feeds another one read the output of that one."""
    kinds, edges = wiring(data)
    first, second = next((a, c) for a, _, c, _ in edges if kinds[a] == kinds[c] == b"Add")
    port = next(b for a, b, _, _ in edges if a == second)
    wire = next(edge for edge in edges if edge[2] == first)
    return data.replace(EDGE % wire, EDGE % (second, port, first, wire[3]))


def from_input(data: bytes) -> bytes:
    """Form a cycle: let the first Add read the last Add."""
    kinds, edges = wiring(data)
    last = [(a, b) for a, b, _, _ in edges if kinds[a] == b"Add"][-1]
    wire = next(edge for edge in edges if kinds[edge[2]] == b"Add")
    return data.replace(EDGE % wire, EDGE % (*last, *wire[2:]))


def first_sum(directory: Path) -> int:
    """Line of the first Add that reads an op that comes later in the file."""
    data = (directory / X).read_bytes()
    at = {key: number for number, key in enumerate(re.findall(rb'<layer id="(\d+)"', data))}
    edges = re.findall(rb'<edge from-layer="(\d+)" from-port="\d+" to-layer="(\d+)"', data)
    back = next(target for source, target in edges if at[source] > at[target])
    return data.count(b"\n", 0, data.index(b'<layer id="%s"' % back)) + 1


def same_name(kind: bytes, index: int) -> Callable[[bytes], bytes]:
    """Rename an op to the name of the previous op of the same type."""

    def change(data: bytes) -> bytes:
        names = re.findall(rb'<layer id="\d+" name="([^"]*)" type="%s"' % kind, data)
        old, new = names[index], names[index - 1]
        return data.replace(b'name="%s" type="%s"' % (old, kind), b'name="%s" type="%s"' % (new, kind))

    return change


def named_twice(file: str) -> Callable[[Path], int]:
    """Line of the first op with the name of an earlier op."""

    def line(directory: Path) -> int:
        data = (directory / file).read_bytes()
        seen: set[bytes] = set()
        for match in re.finditer(rb'<layer id="\d+" name="([^"]*)"', data[: data.index(b"</layers>")]):
            if match[1] in seen:
                return data.count(b"\n", 0, match.start()) + 1
            seen.add(match[1])
        raise AssertionError("all names are unique")

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
        first, second = list(re.finditer(rb'type="%s".*?variable_id="([^"]*)"' % kind, data, re.DOTALL))[:2]
        return data[: second.start(1)] + first[1] + data[second.end(1) :]

    return change


def bare_edge(data: bytes) -> bytes:
    """Add an edge from a missing op to an input that already has an edge."""
    return data.replace(b"<edges>", b'<edges>\n\t\t<edge from-layer="777777" from-port="0" to-layer="5" to-port="0" />')


def twice(data: bytes) -> bytes:
    """Repeat the first edge into a MatMul."""
    target = re.search(rb'<layer id="(\d+)" name="[^"]*" type="MatMul"', data)
    assert target is not None
    return re.sub(rb'(<edge [^>]*to-layer="%s"[^>]*/>)' % target[1], rb"\1\n\t\t\1", data, count=1)


def cut_edge(kind: bytes, index: int = 0) -> Callable[[bytes], bytes]:
    """Remove the first edge into an op of the given type."""

    def change(data: bytes) -> bytes:
        targets = re.findall(rb'<layer id="(\d+)" name="[^"]*" type="%s"' % kind, data)
        return re.sub(rb'<edge [^>]*to-layer="%s"[^>]*/>\s*' % targets[index], b"", data, count=1)

    return change


def body_edge(data: bytes) -> bytes:
    """Let an edge in the first Loop body start at a missing port."""
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
    """Line of the first byte that is not UTF-8."""
    return (directory / X).read_bytes().split(b"\xff")[0].count(b"\n") + 1


def seed(
    name: str, change: Callable[[Path], object], code: str, at: str | Callable[[Path], int], **more: Any
) -> Defect:
    """A defect of falcon's model, reported in its XML."""
    return Defect(name, "falcon", change, code, X, at, **more)


DEFECTS = (
    # -- reading -----------------------------------------------------------------------
    seed("xml-truncated", rewrite(X, lambda d: d[:100_000]), "IR001", last_line(X)),
    seed("xml-empty", rewrite(X, lambda _: b""), "IR001", lambda _: 1),
    seed("xml-doctype", sub(X, "<net ", "<!DOCTYPE net>\n<net "), "IR001", "<!DOCTYPE"),
    seed("xml-control-character", sub(X, 'type="Gelu"', 'type="Ge&#1;lu"'), "IR001", "&#1;"),
    seed("xml-other-root", sub(X, "(</?)net", r"\1nett", 2), "IR001", lambda _: 1),
    seed("xml-garbage-behind", rewrite(X, lambda d: d + b"\nnonsense"), "IR001", last_line(X)),
    seed("xml-bad-utf8", rewrite(X, lambda d: d.replace(b'"Gelu"', b'"Ge\xff\xfe"', 1)), "IR001", first_ff),
    Defect(
        "tokenizer-truncated",
        "falcon",
        rewrite(TOKENIZER, lambda d: d[:5000]),
        "IR001",
        TOKENIZER,
        last_line(TOKENIZER),
    ),
    seed("xml-lfs-pointer", rewrite(X, lambda _: POINTER), "IR002", lambda _: 1),
    Defect("bin-lfs-pointer", "falcon", rewrite(B, lambda _: POINTER), "IR002", B, lambda _: 1),
    seed("net-version-9", sub(X, 'version="11"', 'version="9"'), "IR003", "<net "),
    seed("net-version-missing", sub(X, ' version="11"', ""), "IR003", "<net "),
    seed("xml-utf16", rewrite(X, lambda d: d.decode().encode("utf-16")), "IR004", lambda _: 1),
    seed("xml-latin1", sub(X, r'version="1.0"', 'version="1.0" encoding="latin1"'), "IR004", lambda _: 1),
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
    seed(
        "constant-past-end",
        sub(X, r'(element_type="i64" shape="" offset=")\d+', r"\g<1>99999999"),
        "IR007",
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
    Defect("bin-longer", "falcon", rewrite(B, lambda d: d + b"\0"), "IR008", B, **WARNING),
    Defect("bin-of-another-model", "falcon", rewrite(B, lambda d: d * 2), "IR008", B, **WARNING),
    seed(
        "constant-too-small",
        sub(X, r'(shape="512, 32" offset="\d+" size=")65536', r"\g<1>65532"),
        "IR009",
        AT_DATA % 'size="65532"',
    ),
    seed(
        "constant-larger",
        sub(X, r'(shape="512, 32" offset="\d+" size=")65536', r"\g<1>65540"),
        "IR009",
        AT_DATA % 'size="65540"',
        **WARNING,
    ),
    Defect(
        "constant-packed-too-small",
        "qwen3_5_vl_int4",
        sub(MTP, r'(element_type="u4" shape="[^"]*" offset="\d+" size=")\d+', r"\g<1>7"),
        "IR009",
        MTP,
        AT_DATA % 'size="7"',
    ),
    seed(
        "constant-of-wider-type",
        sub(X, r'element_type="f32" shape="512, 32"', 'element_type="f64" shape="512, 32"'),
        "IR009",
        AT_DATA % 'element_type="f64"',
    ),
    # -- values ------------------------------------------------------------------------
    seed("dimension-no-number", sub(X, "<dim>32<", "<dim>abc<"), "IR010", "<dim>abc"),
    seed("dimension-empty", sub(X, "<dim>32<", "<dim><"), "IR010", "<dim></dim>"),
    seed("dimension-minus-two", sub(X, "<dim>-1<", "<dim>-2<"), "IR010", "<dim>-2"),
    seed("offset-no-number", sub(X, r'offset="\d+"', 'offset="x"'), "IR010", AT_DATA % 'offset="x"'),
    seed("size-negative", sub(X, r' size="\d+"', ' size="-4"'), "IR010", AT_DATA % 'size="-4"'),
    seed(
        "shape-of-constant-no-number",
        sub(X, 'shape="512, 32"', 'shape="512, ?"'),
        "IR010",
        AT_DATA % r'shape="512, \?"',
    ),
    seed(
        "element-type-unknown",
        sub(X, 'element_type="f32" shape="512, 32"', 'element_type="f99" shape="512, 32"'),
        "IR010",
        AT_DATA % 'element_type="f99"',
    ),
    seed("input-type-unknown", sub(X, 'element_type="i64"', 'element_type="int64"'), "IR010", LAYER % "Parameter"),
    seed("input-shape-malformed", sub(X, r'shape="\?,\?"', 'shape="?,x"'), "IR010", LAYER % "Parameter"),
    seed("precision-unknown", sub(X, 'precision="FP32"', 'precision="FP99"'), "IR010", 'precision="FP99"'),
    seed("layer-id-no-number", sub(X, '<layer id="7"', '<layer id="x7"'), "IR010", 'id="x7"'),
    seed("layer-id-enormous", sub(X, '<layer id="7"', f'<layer id="{"9" * 5000}"'), "IR010", 'id="999'),
    seed(
        "edge-without-port",
        sub(X, r'(<edge from-layer="\d+") from-port="\d+"', r"\1"),
        "IR010",
        r'<edge from-layer="\d+" to-layer',
    ),
    seed(
        "port-id-no-number",
        sub(X, '(type="Gelu".*?)<port id="0"', r'\1<port id="zero"'),
        "IR010",
        LAYER % "Gelu",
        causes=("IR012",),
    ),
    seed("layer-without-type", sub(X, ' type="Gelu"', ""), "IR010", r'<layer id="\d+" name="[^"]*" version'),
    # -- wiring ------------------------------------------------------------------------
    seed("layer-id-twice", sub(X, '<layer id="5"', '<layer id="6"'), "IR011", second_of('<layer id="6"', X)),
    Defect(
        "layer-id-twice-in-mtp",
        "qwen3_5_vl",
        sub(MTP, '<layer id="9"', '<layer id="10"'),
        "IR011",
        MTP,
        second_of('<layer id="10"', MTP),
    ),
    seed(
        "edge-from-nowhere",
        sub(X, '<edge from-layer="5"', '<edge from-layer="99999"'),
        "IR012",
        'from-layer="99999"',
        causes=("IR013",),
    ),
    seed(
        "edge-to-nowhere",
        sub(X, r'(<edge from-layer="5" from-port="\d+" to-layer=)"\d+"', r'\1"99999"'),
        "IR012",
        'to-layer="99999"',
        causes=("IR013",),
    ),
    seed(
        "edge-from-port-that-is-none",
        sub(X, r'(<edge from-layer="5" from-port=)"\d+"', r'\1"77"'),
        "IR012",
        '<edge [^>]*from-port="77"',
    ),
    seed(
        "edge-to-port-that-is-none",
        sub(X, r'(<edge from-layer="5" [^>]*to-port=)"\d+"', r'\1"77"'),
        "IR012",
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
    seed("edge-missing", rewrite(X, cut_edge(b"Gelu")), "IR013", LAYER % "Gelu"),
    seed("edge-of-product-missing", rewrite(X, cut_edge(b"MatMul")), "IR013", LAYER % "MatMul"),
    seed("edge-twice", rewrite(X, twice), "IR014", LAYER % "MatMul"),
    seed("edge-added", rewrite(X, bare_edge), "IR014", r'<layer id="5" ', causes=("IR012",)),
    seed("cycle-of-two", rewrite(X, cycle), "IR015", first_sum),
    seed("cycle-from-end-to-start", rewrite(X, from_input), "IR015", first_sum),
    # -- names, states, opsets, rt_info ---------------------------------------------------
    seed("sums-with-one-name", rewrite(X, same_name(b"Add", 1)), "IR016", named_twice(X), **WARNING),
    Defect(
        "products-with-one-name-in-mtp",
        "qwen3_5_vl",
        rewrite(MTP, same_name(b"MatMul", 3)),
        "IR016",
        MTP,
        named_twice(MTP),
        **WARNING,
    ),
    seed("output-called-like-op", sub(X, r'name="Result_\d+"', 'name="input_ids"'), "IR016", LAYER % "Result", **NOTE),
    seed(
        "assign-of-unknown-state",
        sub(X, '(type="Assign".*?variable_id=")[^"]*', r"\1elsewhere"),
        "IR017",
        LAYER % "Assign",
    ),
    seed(
        "read-of-unknown-state",
        sub(X, '(type="ReadValue".*?variable_id=")[^"]*', r"\1elsewhere"),
        "IR017",
        LAYER % "ReadValue",
    ),
    seed(
        "read-shares-state",
        rewrite(X, share_state(b"ReadValue")),
        "IR018",
        second_of(LAYER % "ReadValue", X),
        causes=("IR017",),
    ),
    seed(
        "assign-shares-state",
        rewrite(X, share_state(b"Assign")),
        "IR018",
        second_of(LAYER % "Assign", X),
        causes=("IR017",),
    ),
    seed(
        "op-of-a-library",
        sub(X, 'type="Gelu" version="opset7"', 'type="FastGelu" version="extension"'),
        "IR022",
        LAYER % "FastGelu",
    ),
    seed("op-without-opset", sub(X, 'type="Gelu" version="opset7"', 'type="Gelu" version=""'), "IR019", LAYER % "Gelu"),
    seed("op-without-type", sub(X, 'type="Gelu" version="opset7"', 'type="" version="opset7"'), "IR022", LAYER % ""),
    seed(
        "op-of-the-future",
        sub(X, 'type="Gelu" version="opset7"', 'type="Gelu2" version="opset7"'),
        "IR022",
        LAYER % "Gelu2",
    ),
    seed(
        "op-before-its-opset",
        sub(X, 'type="Gelu" version="opset7"', 'type="Gelu" version="opset1"'),
        "IR023",
        LAYER % "Gelu",
    ),
    seed(
        "attention-before-its-opset",
        sub(X, '(type="ScaledDotProductAttention" version=)"opset13"', r'\1"opset12"', 9),
        "IR023",
        LAYER % "ScaledDotProductAttention",
    ),
    seed(
        "opset-of-the-future",
        sub(X, 'type="Gelu" version="opset7"', 'type="Gelu" version="opset99"'),
        "IR019",
        LAYER % "Gelu",
    ),
    seed(
        "opset-of-a-vendor",
        sub(X, 'type="Gelu" version="opset7"', 'type="Gelu" version="acme"'),
        "IR019",
        LAYER % "Gelu",
    ),
    seed(
        "rt-info-twice",
        sub(X, "</net>", '<rt_info><a value="1"/></rt_info>\n</net>'),
        "IR020",
        "<rt_info><a",
        **WARNING,
    ),
    seed(
        "rt-info-before",
        sub(X, "(\t<rt_info>)(?!.*<rt_info>)", r"\t<rt_info/>\n\1"),
        "IR020",
        r"<rt_info>(?!.*<rt_info>)",
        **WARNING,
    ),
    seed(
        "meta-data-beside-rt-info",
        sub(X, "</net>", '<meta_data><a value="1"/></meta_data>\n</net>'),
        "IR020",
        "<meta_data>",
        **WARNING,
    ),
    seed(
        "rt-info-key-twice",
        sub(X, "(\t</rt_info>\\s*</net>)", r'\t<Runtime_version value="2020.1"/>\n\1'),
        "IR021",
        '<Runtime_version value="2020.1"',
        **WARNING,
    ),
    seed(
        "rt-info-key-in-two-spellings",
        sub(X, "(\t</rt_info>\\s*</net>)", r'\t<info name="optimum" value="x"/>\n\1'),
        "IR021",
        '<info name="optimum"',
        **WARNING,
    ),
)
