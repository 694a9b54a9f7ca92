"""Compress rows of a target's lm_head with NNCF, in a separate process.

The rows are compressed piece by piece, so the memory does not grow with the vocabulary: a row gets the same values
alone and together with others. Rows that are compressed already are computed in f32 first.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from math import gcd
from pathlib import Path
from typing import Any

from irtools.errors import EditError, OptionError
from irtools.ir.constants import ELEMENT_BITS
from irtools.ir.files import scratch
from irtools.ir.op import PRECISIONS as SPELLED
from irtools.model.document import Document
from irtools.runtime.child import Child, Progress, serve
from irtools.runtime.messages import short_message
from irtools.surgery.graft.own import Compress, CompressedRows, own_head
from irtools.surgery.graft.writer import head_constants, lm_head

__all__ = ["PRECISIONS", "compressor"]

PRECISIONS = ("int4", "int8")
"""Symmetric, which the CPU computes fastest; 4 bits in groups of at most 128 values."""

_NOT_INSTALLED = "nncf is not installed; install the extra `compress` (in a checkout: pip install '.[compress]')"
_ELEMENTS = 32 << 20  # of one piece: 128 MB as f32, of which NNCF makes several copies
_GROUP = 128
_TIMEOUT = 900.0
_SEED = """<?xml version="1.0"?>
<net name="head" version="11">
	<layers>
		<layer id="0" name="hidden" type="Parameter" version="opset1">
			<data shape="?,?,{width}" element_type="{kind}" />
			<output>
				<port id="0" precision="{precision}" names="last_hidden_state">
					<dim>-1</dim>
					<dim>-1</dim>
					<dim>{width}</dim>
				</port>
			</output>
		</layer>
		<layer id="1" name="last_hidden_state" type="Result" version="opset1" output_names="last_hidden_state">
			<input>
				<port id="0" precision="{precision}">
					<dim>-1</dim>
					<dim>-1</dim>
					<dim>{width}</dim>
				</port>
			</input>
		</layer>
	</layers>
	<edges>
		<edge from-layer="0" from-port="0" to-layer="1" to-port="0" />
	</edges>
</net>
"""


def compressor(precision: str) -> Compress:
    """Return a function that compresses rows of lm_head to one of :data:`PRECISIONS`.

    Raises
    ------
    OptionError
        The precision is unknown, or nncf is not installed. The function raises ``EditError`` if lm_head has no more
        bits, or NNCF fails.
    """
    if precision not in PRECISIONS:
        raise OptionError(f"weights {precision!r} are unknown; give {' or '.join(PRECISIONS)}")
    if find_spec("nncf") is None:
        raise OptionError(_NOT_INSTALLED)
    return partial(_compressed, precision)


def _compressed(precision: str, target: Document, tokens: Sequence[int]) -> CompressedRows:
    head, _ = lm_head(target.graph)
    stored = max(head_constants(target.graph, head).values(), key=lambda constant: constant.elements)
    if ELEMENT_BITS[stored.element_type] <= int(precision.removeprefix("int")):
        raise EditError(
            f"lm_head stores its weights as {stored.element_type}, so {precision} would not make them smaller; leave "
            "the precision out to copy them as they are"
        )
    if precision == "int4" and head.width % 2:
        raise EditError(
            f"lm_head reads {head.width} values, an odd number, and OpenVINO misreads such rows of 4 bits; use int8"
        )
    with ExitStack() as stack:
        directory = stack.enter_context(scratch("head"))
        # Pieces of equal size, of an even number of rows so that values of 4 bits fill whole bytes.
        step = -(-len(tokens) // -(-len(tokens) * head.width // _ELEMENTS) // 2) * 2
        heads = []
        with Child("irtools.runtime.compression") as child:
            for start in range(0, len(tokens), step):
                source = _piece(target, head.width, tokens[start : start + step], directory)
                path = directory / f"{start}.xml"
                request = {"from": str(source), "to": str(path), "precision": precision, "width": head.width}
                reply = child.ask(request, timeout=_TIMEOUT)
                fault = reply.ended or reply.value["fault"]
                if fault:
                    raise EditError(f"NNCF could not compress lm_head: {fault}; leave the precision out to copy it")
                heads.append(Document(path))
        rows = CompressedRows(tuple(heads))
        weakref.finalize(rows, stack.pop_all().close)
    return rows


def _piece(target: Document, width: int, tokens: Sequence[int], directory: Path) -> Path:
    """Write a model with a MatMul over some rows of lm_head."""
    path = directory / "piece.xml"
    port = target.graph.port(lm_head(target.graph)[0].hidden)
    kind = port.element_type if port is not None else "f32"
    spelled = next((spelled for spelled, name in SPELLED.items() if name == kind), kind.upper())
    seed = _SEED.format(width=width, kind=kind, precision=spelled)
    path.with_suffix(".bin").write_bytes(b"")
    patch = own_head(target, Document(path, seed.encode()), tokens, replaces_hidden=True).patch
    assert patch.weights is not None, "a head has weights"
    path.write_bytes(patch.data)
    with path.with_suffix(".bin").open("wb") as file:
        file.writelines(patch.weights.added())
    return path


def _compress(request: Mapping[str, Any], progress: Progress) -> dict[str, str]:
    try:
        import nncf
        import openvino as ov
        from openvino import opset13 as ops
    except (ImportError, RuntimeError) as error:
        return {"fault": f"it cannot be imported ({short_message(error)})"}
    precision, width = request["precision"], request["width"]
    try:
        core = ov.Core()
        model = core.read_model(request["from"])
        matmul = next(op for op in model.get_ops() if op.get_type_name() == "MatMul")
        matrix = ops.convert(matmul.input_value(1), "f32")
        if not matmul.get_attributes()["transpose_b"]:
            matrix = ops.transpose(matrix, [1, 0])
        values = core.compile_model(ov.Model([ops.result(matrix)], [], "rows"), "CPU")({})[0]
        hidden = ops.parameter([-1, -1, width], ov.Type.f32, name="hidden")
        result = ops.result(ops.matmul(hidden, ops.constant(values, shared_memory=True), False, True), name="logits")
        result.output(0).get_tensor().set_names({"logits"})
        options: dict[str, object] = {}
        if precision == "int4":
            # The largest power of two that divides the width; one scale per row if that is too small to be worth it.
            group = gcd(width, _GROUP)
            options = {"group_size": group if group >= 16 else -1, "ratio": 1.0, "all_layers": True}
        mode = nncf.CompressWeightsMode(f"{precision}_sym")
        model = nncf.compress_weights(ov.Model([result], [hidden], "head"), mode=mode, **options)
        ov.save_model(model, request["to"], compress_to_fp16=False)
    except Exception as error:  # NNCF has its own exceptions, and its dependencies have theirs
        return {"fault": short_message(error)}
    return {"fault": ""}


if __name__ == "__main__":
    serve(_compress)
