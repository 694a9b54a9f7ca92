"""Letters of dimensions, against the shapes that OpenVINO computes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

from irtools.anatomy.alike import alike
from irtools.export import open_export
from irtools.graph.view import Source
from irtools.render.part import DrawnPart
from irtools.report.html_graph import columns

BATCH = 2
CALLS = (5, 3)
"""Tokens of two calls; the second finds those of the first in the state."""
LETTERS = {"B": BATCH, "S": CALLS[1], "P": CALLS[0], "T": sum(CALLS)}


def number(dim: str) -> int:
    return int(np.prod([LETTERS.get(factor) or int(factor) for factor in dim.split("\N{MIDDLE DOT}")]))


def inputs(model: ov.Model, tokens: int, past: int) -> dict[str, np.ndarray]:
    """Values for all model inputs, by the meaning of their names."""
    found = {}
    for port in model.inputs:
        name, shape = port.get_any_name(), port.partial_shape
        lead = [dim.get_length() if dim.is_static else 0 for dim in shape]
        if name == "attention_mask":
            found[name] = np.ones((BATCH, past + tokens), np.int64)
        elif name == "beam_idx":
            found[name] = np.arange(BATCH, dtype=np.int32)
        elif name == "position_ids":
            positions = np.broadcast_to(np.arange(past, past + tokens), (BATCH, tokens))
            found[name] = np.broadcast_to(positions, (*lead[:-2], BATCH, tokens)).copy()
        elif name == "input_ids":
            found[name] = np.ones((BATCH, tokens), np.int64)
        else:
            found[name] = np.zeros((BATCH, tokens, *(size for size in lead[2:])), np.float32)
    return found


def lettered(part: DrawnPart) -> dict[tuple[str, int], tuple[str, ...]]:
    """Values with letters whose dimensions are all known, by the name of their op and output index."""
    view, found = part.view, {}
    for op in view:
        if view.constant(op) or view.op_type(op) in ("Result", "Parameter", "Assign"):
            continue
        for index, port in enumerate(view.op(op).outputs):
            dims = part.dims.of(Source(op, port.id))
            if "?" not in dims and not all(dim.isdigit() for dim in dims):
                found[view.op_name(op), index] = dims
    return found


def fits(dims: tuple[str, ...], shape: tuple[int, ...]) -> bool:
    """False if another op computed a value: the runtime fuses ops, and names the result after one of them."""
    pairs = zip(dims, shape, strict=False)
    return len(dims) == len(shape) and all(int(dim) == size for dim, size in pairs if dim.isdigit())


@pytest.mark.parametrize(
    ("name", "part", "least"),
    [
        ("llama", "target", 60),
        ("qwen3_5_vl", "mtp", 60),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("opt", "target", 60),
                ("mixtral", "target", 60),
                ("qwen3_5_vl", "target", 60),
                ("qwen3", "target", 60),
                ("zoo/gpt2_eager", "target", 60),
                ("zoo/gpt_oss", "target", 60),
                ("zoo/granitemoehybrid", "target", 60),
                ("zoo/lfm2_moe", "target", 60),
            )
        ),
    ],
)
def test_letters_are_the_sizes_that_the_runtime_computes(fixtures: Path, name: str, part: str, least: int) -> None:
    export = open_export(fixtures / name)
    document = export.part(part)
    drawn = DrawnPart(document, export.locate() if part == "target" else None)
    expected = lettered(drawn)
    assert len(expected) >= least
    model = ov.Core().read_model(document.path)
    by_name = {op.get_friendly_name(): op for op in model.get_ops()}
    ports = [(key, by_name[key[0]].output(key[1])) for key in expected if key[0] in by_name]
    assert len(ports) >= 0.9 * len(expected)
    results = [(key, model.add_outputs([port])[0]) for key, port in ports]
    request = ov.Core().compile_model(model, "CPU").create_infer_request()
    for tokens, past in ((CALLS[0], 0), (CALLS[1], CALLS[0])):
        request.infer(inputs(model, tokens, past))
    shapes = {key: tuple(request.get_tensor(result).shape) for key, result in results}
    compared = {key: (expected[key], shape) for key, shape in shapes.items() if fits(expected[key], shape)}
    assert len(compared) >= 0.9 * len(shapes)
    wrong = {key: pair for key, pair in compared.items() if tuple(map(number, pair[0])) != pair[1]}
    assert wrong == {}


def test_equal_ops_share_their_letters_only_if_the_values_that_shape_them_are_equal(tmp_path: Path) -> None:
    value = ops.parameter([-1, -1, 8], np.float32, name="embeds")
    value.output(0).set_names({"inputs_embeds"})
    orders = {"kept": [0, 1, 2], "swapped": [1, 0, 2], "swapped again": [1, 0, 2]}
    results = [ops.transpose(value, ops.constant(order, np.int64), name=name) for name, order in orders.items()]
    results += [
        ops.transpose(value, ops.convert(ops.constant(order, np.int32), "i64"), name=f"{name}, converted")
        for name, order in orders.items()
    ]
    ov.save_model(ov.Model(results, [value], "tiny"), tmp_path / "openvino_model.xml", compress_to_fp16=False)
    document = open_export(tmp_path).parts["model"]
    view, found = document.graph, columns(document)
    first = alike(DrawnPart(document).dims, found.forms, found.offsets)
    letters = {view.op_name(op): DrawnPart(document).dims.of(Source(first[op], 2)) for op in view.by_type["Transpose"]}
    kept, swapped = ("B", "S", "8"), ("S", "B", "8")
    assert letters == {
        name: kept if name.startswith("kept") else swapped
        for name in (*orders, *(f"{name}, converted" for name in orders))
    }
    plain = {first[op] for op in view.by_type["Transpose"] if "converted" not in view.op_name(op)}
    assert len(plain) == 2


def test_values_of_unknown_rank_have_no_letters(export_copy: Callable[..., Path]) -> None:
    file = export_copy("qwen3_5_vl") / "openvino_language_model.xml"
    file.write_text(re.sub(r"<dim>-?\d+</dim>", "", file.read_text(encoding="utf-8")), encoding="utf-8")
    part = DrawnPart(open_export(file.parent).part("language"))
    assert part.view.by_type["GroupConvolution"]
    found = columns(part.document)
    assert alike(part.dims, found.forms, found.offsets).keys() == set(part.view)
    assert lettered(part) == {}
