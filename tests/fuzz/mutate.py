"""Mutations that know XML, IR, JSON and TOML, so that most inputs get past the parser."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from tests.fuzz.case import ROOT, WHOLE, Edit

NUMBERS = (
    *("0", "1", "-1", "2", "7", "-2", "", " ", "?", "1.5", "1e9", "00", "+1", "0x10", "nan", "1,", ",", "1,,2", "1;2"),
    "{}",
    *("-9223372036854775808", "9223372036854775807", "18446744073709551616", "4294967295", "9" * 30, "9" * 5000),
    *("\N{ARABIC-INDIC DIGIT THREE}", "\N{SUPERSCRIPT TWO}", "1_000", "1 ", "\u00a01", "?,?,64", "1," * 500 + "1"),
)
TEXTS = (
    *("", " ", "a", "logits", "input_ids", "inputs_embeds", "hidden_states", "beam_idx", "true", "null", "-0", "[]"),
    *("{}", "&lt;script&gt;alert(1)&lt;/script&gt;", "&#1;", "&#x202e;", "&#27;[31m", "::error::x", "##[error]x"),
    *("../../etc/passwd", "a,b", "a\\,b", "%s%n{0}", "a" * 3000, "\u00e9\u4e2d", "&amp;", "&#10;", "'", "/"),
    "__module.model.layers.0/aten::add/Add_1",
)
TYPES = (
    *("Parameter", "Result", "Const", "Add", "MatMul", "Multiply", "Gather", "Reshape", "Convert", "ReadValue"),
    *("Assign", "Loop", "If", "TensorIterator", "Concat", "ScaledDotProductAttention", "Softmax", "Transpose"),
    *("Unsqueeze", "ShapeOf", "Split", "VariadicSplit", "MVN", "ReduceMean", "Power", "Divide", "RMS", "Slice"),
    *("StridedSlice", "Select", "Squeeze", "Subtract", "Identity", "Tanh", "Swish", "TopK", "Exotic"),
)
_ATTRIBUTE = re.compile(rb"""\s([\w:.-]+)="([^"]*)\"""")
_ELEMENTS = {
    "layer": re.compile(rb"<layer [^>]*?(?:/>|>.*?</layer>)\s*", re.DOTALL),
    "edge": re.compile(rb"<edge [^>]*?/>\s*"),
    "port": re.compile(rb"<port [^>]*?(?:/>|>.*?</port>)\s*", re.DOTALL),
    "dim": re.compile(rb"<dim>[^<]*</dim>\s*"),
    "data": re.compile(rb"<data [^>]*?/>\s*"),
    "input": re.compile(rb"<(input|output)>.*?</\1>\s*", re.DOTALL),
    "entry": re.compile(rb"""<[\w.-]+ (?:name="[^"]*" )?value="[^"]*"[^>]*?/>\s*"""),
    "rt_info": re.compile(rb"<rt_info\s*/>|<rt_info>.*?</rt_info>\s*", re.DOTALL),
    "section": re.compile(rb"<(layers|edges|meta_data|back_edges|port_map|body)\b[^>]*>.*?</\1>\s*", re.DOTALL),
}
_DIMENSIONS = re.compile(rb"(?:<dim>[^<]*</dim>\s*)+")
_JSON = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null')
_MARKUP = (
    *(b"<!-- x -->", b"<!-- <layer id='1'> -->", b"<![CDATA[ <edge/> ]]>", b"<?pi x?>", b"<x/>", b"</layer>", b"</x>"),
    *(b"<layer/>", b"<edge/>", b"<rt_info/>", b"<layers/>", b"&x;", b"<a:b c:d='e'/>", b"text", b"\0", b"\xff\xfe"),
    *(b"]]>", b'<hidden_states_decoder_layers value="{&quot;layers&quot;:{}}" />', b'<info name="a b" value="1"/>'),
    b"<layer id='0' name='x' type='Const' version='opset1'/>",
    b'<edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>',
)
_FILES = ("absent", "directory", "empty", "lfs", "bom", "crlf", "utf-16", "utf-32", "latin-1", "ascii")
_LINKS = ("link nothing", "link .", "link /dev/null", "link /etc/hostname", "sparse 1099511627776", "fifo")


@lru_cache(maxsize=64)
def content(path: str) -> bytes:
    """Bytes of a file of the checkout."""
    return (ROOT / path).read_bytes()


@lru_cache(maxsize=64)
def attributes(data: bytes) -> dict[bytes, list[tuple[int, int]]]:
    """Ranges of the values of all attributes, by name."""
    found: dict[bytes, list[tuple[int, int]]] = {}
    for match in _ATTRIBUTE.finditer(data):
        found.setdefault(match[1], []).append(match.span(2))
    return found


@lru_cache(maxsize=64)
def elements(data: bytes) -> dict[str, list[tuple[int, int]]]:
    """Ranges of the elements, by kind."""
    found = {kind: [match.span() for match in regex.finditer(data)] for kind, regex in _ELEMENTS.items()}
    return {kind: spans for kind, spans in found.items() if spans}


@lru_cache(maxsize=64)
def json_values(data: bytes) -> list[tuple[int, int]]:
    """Ranges of strings, numbers and words of a JSON text."""
    return [match.span() for match in _JSON.finditer(data)]


Change = Callable[[random.Random, str, bytes], list[Edit]]
Name = TypeVar("Name", bytes, str)


def _one(rng: random.Random, found: dict[Name, list[tuple[int, int]]]) -> tuple[Name, int, int]:
    """Name and range of an attribute or element; rare names are drawn as often as frequent ones."""
    name = rng.choice(sorted(found))
    return name, *rng.choice(found[name])


def _value(rng: random.Random, file: str, data: bytes) -> list[Edit]:
    found = attributes(data)
    if not found:
        return _noise(rng, file, data)
    name, start, end = _one(rng, found)
    old = data[start:end]
    other = data[slice(*rng.choice(found[name]))]
    way = rng.randrange(6)
    if name == b"type" and way < 4:
        new = rng.choice(TYPES).encode()
    elif way < 2:
        new = other
    elif way == 2 or re.fullmatch(rb"[-\d,.?]*", old):
        new = rng.choice(NUMBERS).encode()
    elif way == 3:
        new = rng.choice(TEXTS).encode()
    elif way == 4:
        new = old + rng.choice((b",", b"1", b" ", b"x", b"&#9;", b"\xcc\x81"))
    else:
        new = old[: rng.randrange(len(old) + 1)].rpartition(b"&")[0]
    return [Edit(file, start, end, new)]


def _no_attribute(rng: random.Random, file: str, data: bytes) -> list[Edit]:
    found = attributes(data)
    if not found:
        return []
    name, start, end = _one(rng, found)
    return [Edit(file, start - len(name) - 3, end + 1, b"")]


def _element(rng: random.Random, file: str, data: bytes) -> list[Edit]:
    found = elements(data)
    if not found:
        return _noise(rng, file, data)
    kind, start, end = _one(rng, found)
    old = data[start:end]
    way = rng.randrange(6)
    if way < 2:
        return [Edit(file, start, end, b"")]
    if way == 2:
        return [Edit(file, end, end, old * rng.choice((1, 1, 1, 3, 200)))]
    other = data[slice(*rng.choice(found[kind]))]
    if way == 3:
        return [Edit(file, start, end, other)]
    if way == 4:
        depth = rng.choice((1, 2, 70, 3000))
        tag = rng.choice((b"x", b"rt_info", b"layer", b"body"))
        return [Edit(file, start, end, b"<%s>" % tag * depth + old + b"</%s>" % tag * depth)]
    return [Edit(file, start, start, rng.choice(_MARKUP))]


def _shape(rng: random.Random, file: str, data: bytes) -> list[Edit]:
    """Give a port or a constant another rank or other dimensions."""
    if rng.random() < 0.4 and b"shape" in attributes(data):
        start, end = rng.choice(attributes(data)[b"shape"])
        shape = [dim.strip() for dim in data[start:end].split(b",")]
        return [Edit(file, start, end, b",".join(_other_shape(rng, shape)))]
    ports = list(_DIMENSIONS.finditer(data))
    if not ports:
        return []
    port = rng.choice(ports)
    shape = re.findall(rb"<dim>([^<]*)</dim>", port[0])
    return [Edit(file, *port.span(), b"".join(b"<dim>%b</dim>" % dim for dim in _other_shape(rng, shape)))]


def _other_shape(rng: random.Random, shape: list[bytes]) -> list[bytes]:
    fewer, more = shape[:-1], [*shape, b"1"]
    same = rng.choice((b"0", b"1", b"-1", b"9"))
    return rng.choice(([], fewer, shape[1:], more, shape[::-1], [same] * len(shape)))


def _edge(rng: random.Random, file: str, data: bytes) -> list[Edit]:
    """Lead an edge somewhere else, possibly in a circle, to a missing port or to a layer that has none."""
    found = attributes(data)
    names = [name for name in (b"from-layer", b"to-layer", b"from-port", b"to-port") if name in found]
    if not names:
        return []
    edits = []
    at = rng.randrange(len(found[names[0]]))
    for name in rng.sample(names, rng.choice((1, 1, 2))):
        if at < len(found[name]):
            near = min(max(at + rng.randint(-12, 12), 0), len(found[name]) - 1)
            edits.append(Edit(file, *found[name][at], data[slice(*found[name][rng.choice((near, at - 1))])]))
    return edits


def _json(rng: random.Random, file: str, data: bytes) -> list[Edit]:
    found = json_values(data)
    if not found:
        return _noise(rng, file, data)
    start, end = rng.choice(found)
    way = rng.randrange(7)
    if way == 0:
        new = rng.choice(NUMBERS).encode() or b"1"
    elif way == 1:
        new = b'"' + rng.choice((*TEXTS, *NUMBERS)).replace("\\", "").encode() + b'"'
    elif way == 2:
        new = data[slice(*rng.choice(found))]
    elif way == 3:
        new = rng.choice((b"null", b"true", b"[]", b"{}", b"[1]", b'{"a": 1}', b"NaN", b"-Infinity", b"1e999", b"[[]]"))
    elif way == 4:
        depth = rng.choice((3, 900, 40000))
        new = b"[" * depth + data[start:end] + b"]" * depth
    elif way == 5:
        new = b'"\\ud800"' if rng.random() < 0.5 else b'"\xff"'
    else:
        line = data.find(b"\n", end)
        return [Edit(file, start, line if line > 0 else end, b"")]
    return [Edit(file, start, end, new)]


def _toml(rng: random.Random, file: str, data: bytes) -> list[Edit]:
    lines = [match.span() for match in re.finditer(rb"[^\n]+", data)]
    if not lines:
        return _noise(rng, file, data)
    start, end = rng.choice(lines)
    value = rng.choice(
        (*(text.encode() for text in NUMBERS), b"true", b'"x"', b"[]", b"{}", b"[" * 2000, b"1979-05-27", b"'''")
    )
    key = data[start:end].partition(b"=")[0]
    new = rng.choice(
        (
            key + b"= " + value,
            b"[" + key.strip() + b"]",
            b'"a" = 1',
            b"a." * 3000 + b"a = 1",
            data[slice(*rng.choice(lines))],
        )
    )
    return [Edit(file, start, end, new)]


def _noise(rng: random.Random, file: str, data: bytes) -> list[Edit]:
    start = rng.randrange(len(data) + 1)
    way = rng.randrange(5)
    if way == 0:
        return [Edit(file, start, len(data), b"")]
    if way == 1:
        return [Edit(file, start, min(len(data), start + rng.choice((1, 3, 50, 5000))), b"")]
    if way == 2:
        return [Edit(file, start, start, rng.randbytes(rng.choice((1, 2, 8))))]
    if way == 3:
        return [Edit(file, start, start, rng.choice(_MARKUP))]
    return [Edit(file, start, min(len(data), start + 1), rng.randbytes(1))]


def _whole(rng: random.Random, file: str, _data: bytes) -> list[Edit]:
    return [Edit(file, WHOLE, WHOLE, rng.choice((*_FILES, *_FILES, *_LINKS)).encode())]


XML: tuple[Change, ...] = (*[_value] * 7, _no_attribute, *[_element] * 5, *[_shape] * 3, *[_edge] * 4, _noise)
BY_SUFFIX: dict[str, tuple[Change, ...]] = {
    ".xml": XML,
    ".json": (*[_json] * 8, _noise),
    ".toml": (*[_toml] * 6, _noise),
    ".txt": (*[_json] * 5, _noise),
}


def mutate(rng: random.Random, base: str, file: str, *, whole: bool = False) -> list[Edit]:
    """One to a few edits of one file.

    Parameters
    ----------
    whole : bool
        Also replace the whole file by another kind of file, such as a directory.
    """
    path = f"{base}/{file}" if file else base
    if whole and rng.random() < 0.04:
        return _whole(rng, file, b"")
    data = content(path)
    changes = BY_SUFFIX.get(path[path.rfind(".") :], (_noise,))
    edits: list[Edit] = []
    for _ in range(min(int(rng.expovariate(0.6)) + 1, 6)):
        edits += rng.choice(changes)(rng, file, data)
    return edits
