"""Seeded defects of draft heads in the target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from defects import Defect

import irtools

INT4 = "qwen3_5_vl_int4"
BASE, FILE, ROWS = "qwen3_5_vl_trained", "openvino_language_model.xml", 128
Change = Callable[[irtools.Editor, irtools.Export], object]
LOGITS = '<layer id="[0-9]+" name="logits" type="Result"'
HIDDEN = f'<layer id="[0-9]+" name="irtools.graft/{ROWS}/last_hidden_state'
MATMUL = f'<layer id="[0-9]+" name="irtools.graft/{ROWS}/MatMul"'


def grafted(change: Change) -> Callable[[Path], object]:
    """Graft a draft head, then edit the target."""

    def edit(directory: Path) -> None:
        export = irtools.open_export(directory)
        export.graft(ROWS)
        export.save(check=False)
        export = irtools.open_export(directory)
        with export.edit() as editor:
            change(editor, export)
        export.save(check=False)

    return edit


def output(export: irtools.Export, name: str) -> int:
    """Layer id of the Result with a name."""
    graph = export.target.graph
    return next(key for key in graph.results if graph.result_names(key) == (name,))


def swap_results(editor: irtools.Editor, export: irtools.Export) -> None:
    graph, own = export.target.graph, output(export, "logits")
    editor.remove_op(own)
    editor.add_op("Result", "own", [graph.inputs(own)[0].op], output_names=["logits"], before="logits")


def read_rows(editor: irtools.Editor, export: irtools.Export) -> None:
    graph = export.target.graph
    hidden = graph.inputs(output(export, "last_hidden_state"))[0]
    editor.rewire(f"irtools.graft/{ROWS}/MatMul", 0, hidden.op)


def without_hidden(editor: irtools.Editor, export: irtools.Export) -> None:
    editor.remove_op(output(export, "last_hidden_state"))


def shift_rows(editor: irtools.Editor, export: irtools.Export) -> None:
    name = f"irtools.graft/{ROWS}/weights/0"
    key = export.target.graph.named[name][0]
    editor.set_attribute(name, "offset", int(export.target.graph.data(key)["offset"]) + 3 * 64 * 4)


def more_bits(editor: irtools.Editor, export: irtools.Export) -> None:
    """Give lm_head f16 weights and a Convert, as if it had been changed after the draft head was added."""
    graph = export.target.graph
    matmul = graph.inputs(output(export, "logits"))[0].op
    constant = graph.producers(matmul)[1]
    offset, shape = graph.data(constant)["offset"], graph.output_shape(constant)
    size = 2 * shape[0] * shape[1]
    data = {"element_type": "f16", "shape": ", ".join(map(str, shape)), "offset": offset, "size": size}
    editor.add_op("Const", "half", outputs=[("f16", shape)], attributes=data)
    editor.add_op("Convert", "whole", ["half"], [("f32", shape)], attributes={"destination_type": "f32"})
    editor.rewire(matmul, 1, "whole")


def seed(name: str, change: Change, code: str, at: str, base: str = BASE, **more: object) -> Defect:
    return Defect(f"graft-{name}", base, grafted(change), code, FILE, at, **more)  # type: ignore[arg-type]


DEFECTS = (
    seed("after-the-logits", swap_results, "MTP060", LOGITS, severity="warning"),
    seed(
        "renamed",
        lambda editor, _: editor.rename("logits", "taken"),
        "MTP060",
        HIDDEN,
        severity="warning",
    ),
    seed("with-rows", read_rows, "MTP061", MATMUL, severity="warning"),
    seed("with-rows-before-2026-4", read_rows, "MTP061", MATMUL, options={"target_runtime": "2026.3"}),
    seed("without-hidden-state", without_hidden, "MTP062", LOGITS),
    seed("shifted", shift_rows, "MTP063", MATMUL),
    seed("unproven", lambda *_: None, "MTP064", LOGITS, severity="note", options={"target_runtime": "2026.5"}),
    seed("present", lambda *_: None, "MTP065", LOGITS, severity="note"),
    seed("without-hidden-state-int4", without_hidden, "MTP062", LOGITS, base=INT4),
    seed("of-other-precision", more_bits, "MTP063", MATMUL, causes=("IR027",)),
    seed("unproven-old", lambda *_: None, "MTP064", LOGITS, severity="note", options={"target_runtime": "2026.2"}),
    seed(
        "present-draft",
        lambda *_: None,
        "MTP065",
        LOGITS,
        severity="note",
        options={"draft": BASE},
        causes=("DFL016",),
    ),
    seed("present-int4", lambda *_: None, "MTP065", LOGITS, base=INT4, severity="note"),
)
