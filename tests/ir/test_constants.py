"""Constants that irtools reads, compared with those that OpenVINO reads."""

from __future__ import annotations

from pathlib import Path

import openvino
import pytest

from irtools.ir.constants import ELEMENT_BITS, byte_size, iter_graphs, read_constants
from irtools.model.document import Document


@pytest.mark.parametrize("element_type", sorted(ELEMENT_BITS))
def test_sizes_are_those_of_openvino(element_type: str) -> None:
    kind = getattr(openvino.Type, element_type)

    for elements in (0, 1, 2, 3, 5, 7, 8, 9, 15, 17, 64):
        assert byte_size(element_type, elements) == openvino.Tensor(kind, openvino.Shape([elements])).byte_size


def test_size_of_strings_is_not_known() -> None:
    assert byte_size("string", 3) is None


@pytest.mark.parametrize(
    "part",
    [
        "qwen3_5_vl/openvino_language_model.xml",
        "qwen3_5_vl_int4/openvino_mtp_model.xml",
        "falcon/openvino_tokenizer.xml",
        "gemma4_vl/openvino_vision_embeddings_model.xml",
    ],
)
def test_constants_of_real_files_fill_the_weights(fixtures: Path, part: str) -> None:
    document = Document(fixtures / part)
    constants = read_constants(iter_graphs(document.scan))

    assert max(constant.end for constant in constants) == document.weights_path.stat().st_size
    assert all(byte_size(c.element_type, c.elements) == c.size and not c.faults for c in constants)


def test_constants_are_those_that_openvino_reads(fixtures: Path) -> None:
    path = fixtures / "qwen3_5_vl_int4" / "openvino_language_model.xml"
    mine = {
        c.name: (c.element_type, c.shape) for c in read_constants(iter_graphs(Document(path).scan)) if not c.in_body
    }

    theirs = {
        op.friendly_name: (op.get_element_type().get_type_name(), tuple(op.shape))
        for op in openvino.Core().read_model(path).get_ops()
        if op.get_type_name() == "Constant"
    }
    assert mine == theirs


def test_constants_in_bodies_are_listed(fixtures: Path) -> None:
    document = Document(fixtures / "qwen3_5_vl" / "openvino_language_model.xml")
    graphs = tuple(iter_graphs(document.scan))

    assert len(graphs) == 1 + document.scan.types.count("Loop") > 1
    assert sum(c.in_body for c in read_constants(graphs)) == document.data.count(b'type="Const"') - sum(
        kind == "Const" for kind in document.scan.types
    )


def test_an_attribute_that_is_not_a_number_is_a_fault(fixtures: Path) -> None:
    data = (fixtures / "falcon" / "openvino_model.xml").read_bytes()
    data = data.replace(b'shape="512, 32" offset="', b'shape="512, x" offset="-', 1)
    document = Document("x.xml", data)

    (faulty,) = [c for c in read_constants(iter_graphs(document.scan)) if c.faults]
    assert (faulty.faults, faulty.shape, faulty.offset) == (("offset", "shape"), (), 0)
