"""Bytes that a pass reads, against counts of the graph as OpenVINO reads it."""

from __future__ import annotations

from pathlib import Path

import openvino as ov
import pytest

from irtools.advise.advice import sizes
from irtools.advise.traffic import traffic
from irtools.errors import EditError
from irtools.export import open_export

_SMALL = 64


def weights_of_products(path: Path) -> dict[tuple[int, ...], int]:
    """Bytes of the constants above the weights of each MatMul, by shape of the weights."""
    sizes: dict[tuple[int, ...], int] = {}
    counted: set[str] = set()
    for op in ov.Core().read_model(path).get_ops():
        if op.get_type_name() != "MatMul":
            continue
        for value in op.input_values():
            above = constants_of(value.get_node())
            shape = tuple(value.get_partial_shape().to_shape()) if above else ()
            for node in above:
                if node.get_friendly_name() not in counted:
                    counted.add(node.get_friendly_name())
                    sizes[shape] = sizes.get(shape, 0) + node.get_byte_size()
    return sizes


def constants_of(node: ov.Node) -> list[ov.Node]:
    """Constants that a weight is computed from; none for an activation."""
    if node.get_type_name() == "Constant":
        return [node]
    if node.get_type_name() not in ("Convert", "Multiply", "Subtract", "Reshape", "Transpose"):
        return []
    found: list[ov.Node] = []
    for value in node.input_values():
        inner = constants_of(value.get_node())
        if not inner:
            return []
        found += inner
    return found


def test_a_dense_pass_reads_the_weights_of_all_products(fixtures: Path) -> None:
    export = open_export(fixtures / "qwen3_5_vl_int4")
    products = weights_of_products(export.target.path)
    read = traffic(export)
    vocabulary = read.head.vocabulary
    head = next(size for shape, size in products.items() if shape[0] == vocabulary)
    assert abs(read.head.of(vocabulary) - head) <= _SMALL  # the shape operand of a Reshape is no weight
    assert read.target.experts == read.draft.experts == 0
    dense = sum(products.values()) - head
    assert dense * 0.95 <= read.target.dense <= dense * 1.25  # also norms, convolutions, parameters of the recurrence
    assert read.per_pass == read.target.dense + read.head.of(vocabulary)


def test_a_token_reads_the_experts_that_it_is_routed_to(fixtures: Path) -> None:
    export = open_export(fixtures / "qwen3_5_moe_vl")
    products = weights_of_products(export.target.path)
    experts = sum(size for shape, size in products.items() if len(shape) == 3)
    read = traffic(export)
    assert experts > 0
    assert read.target.experts == experts
    assert read.target.active == experts // 2  # two of four experts
    assert read.draft.active == read.draft.experts // 2 > 0


@pytest.mark.parametrize("name", ["qwen3_5_vl_int4", "qwen3_5_vl_trained"])
def test_a_row_reads_what_the_draft_head_reads(fixtures: Path, name: str) -> None:
    export = open_export(fixtures / name)
    read = traffic(export)
    for rows in (1, 100, 128):
        assert read.head.of(rows) == open_export(fixtures / name).graft(rows).graft_bytes
        assert read.per_draft(rows) - read.per_draft(1) == read.head.of(rows) - read.head.of(1)
    assert read.saved(read.head.vocabulary) == 0
    assert read.saved(128) == read.head.of(read.head.vocabulary) - read.head.of(128)


def test_a_grafted_target_reads_no_more(fixtures: Path, tmp_path: Path) -> None:
    export = open_export(fixtures / "qwen3_5_vl_trained")
    before = traffic(export)
    export.graft(128)
    export.save(tmp_path / "grafted", check=False)
    after = traffic(open_export(tmp_path / "grafted"))
    assert after.present == 128
    assert (after.per_pass, after.draft) == (before.per_pass, before.draft)


def test_without_an_mtp_head_there_is_no_advice(fixtures: Path) -> None:
    with pytest.raises(EditError, match="openvino_mtp_model"):
        open_export(fixtures / "falcon").advise()


def test_sizes_start_at_8k() -> None:
    assert sizes(248320) == (8192, 16384, 32768, 65536, 131072, 248320)
    assert sizes(32000) == (8192, 16384, 32000)
    assert sizes(8192) == (2048, 4096, 8192)
    assert sizes(512) == (128, 256, 512)
