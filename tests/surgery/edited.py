"""Edits of falcon shared by the surgery tests, and other spellings of its file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import openvino as ov

import irtools
from irtools.model.document import Document
from irtools.surgery.edits import (
    AddOp,
    Edit,
    NewPort,
    OpOutput,
)
from irtools.surgery.transaction import apply

STATE = "__module.transformer.h.1/aten::add/Add"
NEXT = "__module.transformer.h.2/aten::add/Add"
HEAD = "__module.lm_head/aten::linear/MatMul"
RELU = AddOp("Relu", "extra", (OpOutput(STATE),), (NewPort("f32", (-1, -1, 32)),))
OTHER = AddOp("Relu", "other", (OpOutput(NEXT),), (NewPort("f32", (-1, -1, 32)),))
GIVEN_OUT = AddOp("Result", "out", (OpOutput("extra"),), output_names=("extra",))


def lines_joined(data: bytes) -> bytes:
    return re.sub(rb">\s+<", b"><", data)


SPELLINGS: dict[str, Callable[[bytes], bytes]] = {
    "as exported": lambda data: data,
    "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "BOM": lambda data: b"\xef\xbb\xbf" + data,
    "one line": lines_joined,
    "ASCII": lambda data: data.replace(b'<?xml version="1.0"?>', b'<?xml version="1.0" encoding="us-ascii"?>'),
    "single quotes": lambda data: re.sub(
        rb"(<(?:layer|edge|port|data) [^>]*>)", lambda m: m[1].replace(b'"', b"'"), data
    ),
    "comments": lambda data: data.replace(b"</layer>", b"</layer><!-- <layer> -->").replace(
        b"<edge ", b"<!-- <edge /> -->\n<edge "
    ),
    "comments in layers": lambda data: re.sub(
        rb"(<layer [^>]*[^/]>)", rb'\1<!-- <data a="1"/><port id="9"/> -->', data
    ),
    "empty tensor names": lambda data: data.replace(b' names="', b' names=",'),
    "spaces": lambda data: re.sub(rb'<edge from-layer="(\d+)"', rb'<edge  from-layer = "\1"', data),
}


def after(document: Document, edits: Sequence[Edit]) -> Document:
    return Document(document.path, apply(document, edits).data)


def edit(export: irtools.Export, *edits: Edit, after: Callable[[], object] = int) -> None:
    with export.edit() as editor:
        editor.make(*edits)
        after()


def op_named(model: ov.Model, name: str) -> ov.Node:
    (op,) = (op for op in model.get_ops() if op.get_friendly_name() == name)
    return op
