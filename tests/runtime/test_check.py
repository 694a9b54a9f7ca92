"""The rehearsal of loading an annotated target."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openvino as ov
import pytest

from irtools.errors import CheckError
from irtools.ir.rt_info import ANNOTATION_KEY, set_entry
from irtools.model.document import Document
from irtools.runtime.check import Remark, check_file, checker, warm_up
from irtools.runtime.child import Child
from irtools.surgery.patch import Expected, Patch
from tests.marks import mostly_slow

NAMES = ("falcon", "gpt2", "granite", "llama", "llava", "mixtral", "opt", "qwen3", "qwen3_5_vl", "qwen3_5_moe_vl")


@pytest.fixture
def annotated(
    export_copy: Callable[[str], Path], truth: Callable[[str], dict[str, Any]]
) -> Callable[..., tuple[Path, Path, str]]:
    """A copy of an export with the given or the true annotation: XML, weights, annotation."""

    def make(name: str, annotation: str | None = None) -> tuple[Path, Path, str]:
        directory = export_copy(name)
        files = [directory / "openvino_model.xml", directory / "openvino_language_model.xml"]
        path = next(path for path in files if path.is_file())
        layers = {
            key: {"producer": places[0][0], "output_index": places[0][1]}
            for key, places in truth(name)["layers"].items()
        }
        value = annotation if annotation is not None else json.dumps({"layers": layers}, separators=(",", ":"))
        path.write_bytes(set_entry(Document(path).scan, ANNOTATION_KEY, value))
        return path, path.with_suffix(".bin"), value

    return make


def locators(**layers: tuple[str, int]) -> str:
    return json.dumps(
        {"layers": {key[1:]: {"producer": name, "output_index": at} for key, (name, at) in layers.items()}}
    )


def problems(remarks: tuple[Remark, ...]) -> list[str]:
    return [remark.message for remark in remarks if remark.problem]


@pytest.mark.parametrize("name", mostly_slow(NAMES))
def test_a_true_annotation_has_no_problem(name: str, annotated: Callable[..., tuple[Path, Path, str]]) -> None:
    messages = [(remark.problem, remark.message) for remark in check_file(*annotated(name))]
    if name == "gpt2":  # GenAI does refuse it: "could not find the target token-embedding Gather"
        assert [(problem, "no Gather reads a table" in message) for problem, message in messages] == [(False, True)]
    else:
        assert messages == []


FALCON = "__module.transformer.h.{}/aten::add/Add"


@pytest.mark.parametrize(
    ("annotation", "message"),
    mostly_slow(
        [
            ("{", "the annotation is malformed"),
            (locators(l0=("nowhere", 0)), "no op has this name"),
            (locators(l0=("attention_mask", 0)), "the value has the shape [?,?]; the runtime needs rank 3"),
            (locators(l0=(FALCON.format(0), 1)), "the op has 1 output and no index 1"),
            (locators(l0=(FALCON.format(0), 0), l1=(FALCON.format(0), 0)), "layers 0 and 1 share"),
            (locators(l0=("logits", 0)), "no op has this name"),
        ],
        names=2,
    ),
)
def test_what_the_runtime_refuses_is_a_problem(
    annotation: str, message: str, annotated: Callable[..., tuple[Path, Path, str]]
) -> None:
    messages = problems(check_file(*annotated("falcon", annotation)))
    assert messages
    assert message in messages[0]


def test_a_name_that_two_ops_have_is_a_problem(annotated: Callable[..., tuple[Path, Path, str]]) -> None:
    path, weights, annotation = annotated("falcon")
    name = FALCON.format(1).encode()
    twin = b'name="__module.transformer.h.2/aten::add/Add"'
    assert path.read_bytes().count(twin) == 1
    path.write_bytes(path.read_bytes().replace(twin, b'name="' + name + b'"'))
    messages = problems(check_file(path, weights, annotation))
    assert any("2 ops have this name" in message for message in messages)


def test_another_annotation_than_meant_is_a_problem(annotated: Callable[..., tuple[Path, Path, str]]) -> None:
    path, weights, annotation = annotated("falcon")
    assert problems(check_file(path, weights, annotation.replace("h.0", "h.1"))) == [
        "OpenVINO reads another annotation from the file"
    ]


def test_a_file_that_openvino_cannot_read_is_a_problem(annotated: Callable[..., tuple[Path, Path, str]]) -> None:
    path, weights, annotation = annotated("falcon")
    path.write_bytes(
        path.read_bytes().replace(b'type="Softmax"', b'type="Softmux"').replace(b'type="MatMul"', b'type="MatMull"')
    )
    (message,) = problems(check_file(path, weights, annotation))
    assert message.startswith("OpenVINO cannot read it: ")
    assert "\n" not in message


def test_a_conversion_that_cannot_be_made_is_a_note(annotated: Callable[..., tuple[Path, Path, str]]) -> None:
    """An eager export has no ScaledDotProductAttention op; here they are removed from the graph."""
    path, _, annotation = annotated("llama")
    model = ov.Core().read_model(path)
    for op in model.get_ops():
        if op.get_type_name() == "ScaledDotProductAttention":
            op.output(0).replace(op.input_value(2))
    ov.save_model(model, path.with_name("eager.xml"), compress_to_fp16=False)
    remarks = check_file(path.with_name("eager.xml"), path.with_name("eager.bin"), annotation)
    assert remarks == (
        Remark(
            False,
            "the conversion to paged attention could not be rehearsed: it has no ScaledDotProductAttention op",
        ),
    )


def test_a_model_without_state_is_not_converted(annotated: Callable[..., tuple[Path, Path, str]]) -> None:
    path, _, annotation = annotated("llama")
    model = ov.Core().read_model(path)
    for op in model.get_ops():
        if op.get_type_name() == "ReadValue":
            op.output(0).replace(op.input_value(0))
    for sink in model.get_sinks():
        model.remove_sink(sink)
    ov.save_model(model, path.with_name("stateless.xml"), compress_to_fp16=False)
    (remark,) = check_file(path.with_name("stateless.xml"), path.with_name("stateless.bin"), annotation)
    assert not remark.problem
    assert "it keeps no state" in remark.message


def test_a_head_that_the_runtime_does_not_find_is_a_note(annotated: Callable[..., tuple[Path, Path, str]]) -> None:
    """Cohere, for example, scales its logits."""
    path, _, annotation = annotated("llama")
    model = ov.Core().read_model(path)
    result = model.output("logits").get_node()
    scaled = ov.opset13.multiply(result.input_value(0), ov.opset13.constant([[[2.0]]], dtype=ov.Type.f32))
    scaled.output(0).set_names({"logits"})
    result.input(0).replace_source_output(scaled.output(0))
    ov.save_model(model, path.with_name("scaled.xml"), compress_to_fp16=False)
    (remark,) = check_file(path.with_name("scaled.xml"), path.with_name("scaled.bin"), annotation)
    assert not remark.problem
    assert "`logits`" in remark.message


def test_a_last_layer_that_the_head_does_not_read_is_a_note(
    annotated: Callable[..., tuple[Path, Path, str]],
) -> None:
    """A legal annotation with the hidden state before the final norm for the last layer."""
    names = [FALCON.format(layer) for layer in range(4)]
    places = {f"l{layer}": (name, 0) for layer, name in enumerate(names)}
    path, weights, annotation = annotated("falcon", locators(**places))
    (remark,) = check_file(path, weights, annotation)
    assert not remark.problem
    head = ov.Core().read_model(path).output("logits").get_node().input_value(0).get_node()
    reads = head.input_value(0).get_node().get_friendly_name()
    assert remark.message == f"after the conversion the head reads {reads!r}, not {names[3]!r} of layer 3"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "the weights are missing"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "a Git-LFS pointer"),
        (b"", "has 0 bytes, and the IR needs"),
        (b"\0" * 1000, "has 1000 bytes, and the IR needs"),
    ],
)
def test_missing_or_short_weights_are_a_clear_error(
    content: bytes | None, message: str, annotated: Callable[..., tuple[Path, Path, str]]
) -> None:
    path, weights, annotation = annotated("falcon")
    weights.unlink()
    if content is not None:
        weights.write_bytes(content)
    with pytest.raises(CheckError) as caught:
        check_file(path, weights, annotation)
    assert message in str(caught.value)
    assert str(weights) in str(caught.value)
    assert "--no-check" in str(caught.value)


def test_huge_sparse_weights_are_not_read(annotated: Callable[..., tuple[Path, Path, str]]) -> None:
    path, weights, annotation = annotated("falcon")
    before = weights.stat()
    with weights.open("r+b") as file:
        file.truncate(40 << 30)
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert check_file(path, weights, annotation) == ()
    after = weights.stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_blocks) == (before.st_ino, before.st_mtime_ns, before.st_blocks)


def test_the_file_may_have_any_name(annotated: Callable[..., tuple[Path, Path, str]]) -> None:
    path, weights, annotation = annotated("falcon")
    other = path.rename(path.with_name(".模型 ü.irtools-tmp"))
    assert check_file(other, weights.rename(weights.with_name("w ä.bin")), annotation) == ()


SCRIPT = """
import sys
from pathlib import Path
from irtools.runtime.check import check_file, warm_up
if sys.argv[4] == "warm":
    warm_up(Path(sys.argv[1]))
remarks = check_file(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], original=Path(sys.argv[1]))
print(remarks, "openvino" in sys.modules)
"""


@pytest.mark.parametrize("how", ["warm", "cold"])
def test_nothing_is_printed_and_openvino_is_not_loaded_here(
    how: str, annotated: Callable[..., tuple[Path, Path, str]], tmp_path: Path
) -> None:
    arguments = [str(argument) for argument in annotated("falcon")]
    trap = tmp_path / "here"
    trap.mkdir()
    for module in ("openvino", "json", "irtools"):  # modules in the working directory must not be imported
        (trap / f"{module}.py").write_text("raise SystemExit('imported from the working directory')")
    run = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT, *arguments, how],
        cwd=trap,
        env={**os.environ, "OPENVINO_LOG_LEVEL": "4", "OV_ENABLE_PROFILE_PASS": "true"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "() False\n"
    assert run.stderr == ""


def test_a_process_that_was_warmed_up_in_vain_ends_with_its_parent() -> None:
    code = (
        "from pathlib import Path; from irtools.runtime.check import _waiting, warm_up; here = Path('m.xml'); "
        "warm_up(here); warm_up(here); print(*[child._process.pid for child in _waiting])"
    )
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    (pid,) = run.stdout.split()
    assert run.stderr == ""
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_a_rehearsal_that_dies_is_a_clear_error(
    annotated: Callable[..., tuple[Path, Path, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from irtools.runtime import check

    monkeypatch.setattr(check, "_waiting", [])
    path, weights, annotation = annotated("falcon")
    warm_up(path)
    check._waiting[0]._process.kill()
    with pytest.raises(CheckError, match="ended with code -9"):
        check_file(path, weights, annotation)


def test_a_rehearsal_that_hangs_is_a_clear_error(
    annotated: Callable[..., tuple[Path, Path, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Even if the request is longer than the pipe's buffer."""
    from irtools.runtime import check

    (tmp_path / "irtools_test_rehearsal.py").write_text("import time; time.sleep(60)")
    monkeypatch.syspath_prepend(tmp_path)
    child = Child("irtools_test_rehearsal")
    monkeypatch.setattr(check, "_waiting", [child])
    monkeypatch.setattr(check, "_TIMEOUT", 0.5)
    path, weights, annotation = annotated("falcon")
    expected = Expected(1, (), {key: (f"op {key}" * 50, ()) for key in range(1000)}, graph=True)
    with pytest.raises(
        CheckError, match=r"did not respond for 0.5 s and was stopped; give --no-check to write without"
    ):
        check_file(path, weights, annotation, expected=expected)
    assert not child.alive


@pytest.mark.parametrize("ahead", ["the file", "another file", "no file"])
def test_what_was_converted_ahead_does_not_change_the_verdict(
    ahead: str, annotated: Callable[..., tuple[Path, Path, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from irtools.runtime import check

    monkeypatch.setattr(check, "_waiting", [])
    path, weights, annotation = annotated("falcon")
    swapped = annotation.replace("h.0/aten::add/Add", "h.0/aten::no_such_op/Add")
    path.write_bytes(path.read_bytes().replace(b"h.0/aten::add/Add&quot;", b"h.0/aten::no_such_op/Add&quot;"))
    warm_up({"the file": path, "another file": annotated("llama")[0], "no file": tmp_path / "none.xml"}[ahead])
    (remark,) = check_file(path, weights, swapped, original=path)
    assert remark.problem
    assert "no op has this name" in remark.message


def test_the_check_for_saving_names_the_file_and_all_problems(
    annotated: Callable[..., tuple[Path, Path, str]],
) -> None:
    path, _, annotation = annotated("falcon", locators(l0=("nowhere", 0), l1=("neither", 0)))
    check = checker(Patch(path, None, annotation, b"", path.read_bytes()))
    assert check is not None
    with pytest.raises(CheckError) as caught:
        check(path)
    assert str(caught.value).startswith(f"{path}: the runtime would refuse")
    assert "'nowhere'" in str(caught.value)
    assert "'neither'" in str(caught.value)
    assert "nothing was changed" in str(caught.value)
