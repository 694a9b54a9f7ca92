"""Valid wiring has no faults in any spelling of the XML."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from irtools.ir.constants import iter_graphs
from irtools.ir.integrity import FaultKind, find_faults
from irtools.model.document import Document

SPELLINGS: dict[str, Callable[[bytes], bytes]] = {
    "comments in layers": lambda data: re.sub(
        rb"(<layer [^>]*[^/]>)", rb'\1<!-- <input><port id="9"/></input> --><?pi <port id="8"/>?>', data
    ),
    "spaces in end tags": lambda data: re.sub(rb"</(\w+)>", rb"</\1 >", data),
    "single quotes": lambda data: data.replace(b'"', b"'"),
    "other attributes first": lambda data: re.sub(rb"<(port|layer|edge) ", rb'<\1 a="id=1" ', data),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", ["falcon/openvino_model.xml", "qwen3_5_vl/openvino_language_model.xml"])
def test_spelling_is_no_fault(name: str, spelling: str, fixtures: Path) -> None:
    document = Document(fixtures / name)
    respelled = Document(document.path, SPELLINGS[spelling](document.data))
    assert find_faults(iter_graphs(respelled.scan)) == ()
    cut = Document(document.path, re.sub(rb"<edge[^>]*>\s*</edges\s*>", b"</edges>", respelled.data))
    assert FaultKind.UNCONNECTED_INPUT in {fault.kind for fault in find_faults(iter_graphs(cut.scan))}
