"""Any legal edits keep the file valid and can be undone."""

from __future__ import annotations

import tempfile
from pathlib import Path

import openvino as ov
from hypothesis import given, settings
from hypothesis import strategies as st

import irtools
from irtools.ir.markup import Splice, spliced
from irtools.model.document import Document
from irtools.surgery.splices import compose, difference
from irtools.surgery.transaction import apply
from tests.surgery.edited import SPELLINGS

TEXT = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\ufffe\uffff"), min_size=1, max_size=8
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("rename", "insert", "take out", "expose", "attribute", "rt_info", "names", "annotate")),
        st.integers(0, 10**6),
        TEXT,
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=8, deadline=None)
@given(steps=STEPS, spelling=st.sampled_from(sorted(SPELLINGS)))
def test_any_legal_edits_keep_the_file_valid(
    steps: list[tuple[str, int, str]], spelling: str, falcon: Document
) -> None:
    original = Document(falcon.path, SPELLINGS[spelling](falcon.data))
    export = irtools.open_export(falcon.path.parent)
    export.target.__dict__["data"] = original.data
    inserted: list[tuple[str, int, int, int]] = []
    with export.edit() as editor:
        for number, (step, choice, text) in enumerate(steps):
            graph = editor.document.graph
            values = [
                (key, index, source)
                for key in graph.scan.ids
                if graph.op_type(key) in ("MatMul", "Multiply", "Softmax", "MVN")
                for index, source in enumerate(graph.inputs(key))
                if not graph.constant(source.op) and graph.op(key).inputs[index].element_type == "f32"
            ]
            key, index, source = values[choice % len(values)]
            name = f"{text}-{number}"  # not a number: falcon has ops with such names
            if step == "rename":
                editor.rename(graph.scan.ids[choice % len(graph.scan.ids)], name)
            elif step == "insert":
                port = graph.port(source)
                assert port is not None
                editor.add_op("Relu", name, [(source.op, graph.output_index(source))], [("f32", port.shape)])
                editor.rewire(key, index, name)
                inserted.append((name, key, index, source.op))
            elif step == "take out" and inserted:
                name, key, index, producer = inserted.pop()
                if (
                    name in graph.scan.names
                    and graph.inputs(key)[index].op == graph.scan.ids[graph.scan.names.index(name)]
                ):
                    read = graph.scan.ids[graph.scan.names.index(name)]
                    for reader in graph.consumers(read):
                        editor.rewire(reader.op, reader.input, producer, graph.output_index(graph.inputs(read)[0]))
                    editor.remove_op(read)
            elif step == "expose":
                editor.expose([choice % 4], names=[name.replace("\\", "/")])
            elif step == "attribute":
                editor.set_attribute(key, "irtools_test", text)
            elif step == "rt_info":
                editor.set_rt_info(f"key{choice % 3}", text if choice % 2 else None)
            elif step == "names":
                editor.set_tensor_names(
                    source.op, graph.output_index(source), [name.replace("\\", "/"), "b,c"][: choice % 3]
                )
            else:
                editor.annotate(force=True)
    patch = editor.patch
    assert patch is not None
    document = Document(falcon.path, patch.data)
    assert len(set(document.scan.ids)) == len(document.scan.ids)
    assert len(set(document.scan.names)) == len(document.scan.names)
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "m.xml").write_bytes(patch.data)
        model = ov.Core().read_model(Path(scratch, "m.xml"), falcon.weights_path)
    assert {op.get_friendly_name() for op in model.get_ops()} <= set(document.scan.names)
    assert len(model.outputs) == document.scan.types.count("Result")
    assert apply(document, patch.undo).data == original.data


@given(st.binary(max_size=20), st.lists(st.integers(0, 30), max_size=6), st.lists(st.integers(0, 30), max_size=6))
def test_two_sets_of_splices_are_one(data: bytes, first: list[int], second: list[int]) -> None:
    def make(at: list[int], length: int) -> list[Splice]:
        ends = sorted(min(value, length) for value in at[: len(at) // 2 * 2])
        return [Splice(start, end, b"x" * (start % 3)) for start, end in zip(ends[::2], ends[1::2], strict=True)]

    one = make(first, len(data))
    between = spliced(data, one)
    other = make(second, len(between))
    after = spliced(between, other)
    assert spliced(data, compose(one, other)) == after
    assert spliced(data, difference(data, after)) == after
