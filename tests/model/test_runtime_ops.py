"""The table of ops, compared with what the installed OpenVINO and its tokenizers read."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import openvino
import openvino_tokenizers
import pytest

import irtools
from irtools.model.runtime_ops import runtime_ops

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
sys.path.insert(0, str(FIXTURES))

import runtime_ops as recorder  # noqa: E402  (a script, not a package)

SITE = Path(openvino.__file__).parents[1]
RELEASE = ".".join(openvino.__version__.split(".")[:2])
TOKENIZERS = str(openvino_tokenizers._ext_path)
TABLE = json.loads((FIXTURES.parent / "irtools" / "model" / "runtime_ops.json").read_text())
TYPES = sorted({kind for added in TABLE.values() for kinds in added.values() for kind in kinds})
Pairs = set[tuple[str, str]]


def read(pairs: Iterable[tuple[str, str]], extension: str = "") -> Pairs:
    """The pairs of type and opset that OpenVINO reads, in a process of its own."""
    code = "import json, sys, runtime_ops; json.dump(runtime_ops.readable(*json.load(sys.stdin)), sys.stdout)"
    asked = json.dumps((sorted(pairs), extension))
    done = subprocess.run([sys.executable, "-c", code], input=asked, cwd=FIXTURES, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return {(kind, opset) for kind, opset in json.loads(done.stdout)}


def test_ops_are_read_as_by_openvino() -> None:
    ops = runtime_ops(RELEASE)
    kinds = ("Const", "const", "Constant", "ReLU", "RELU", "PReLU", "SoftMax", "swish", "MVN", "ReorgYolo", "NoSuchOp")
    kinds += ("GRUCell", "grucell", "RNNCell", "ExperimentalDetectronTopKROIs", "StringTensorUnpack", "UTF8Validate")
    opsets = ("opset1", "opset2", "opset17", "opset18", "OPSET1", "opset01", "extension", "experimental", "acme")
    pairs = {(kind, opset) for kind in kinds for opset in opsets}
    for kind in TYPES[::4]:
        first = int((ops.opsets_of(kind) or ("opset16",))[0].removeprefix("opset"))
        pairs |= {(kind, f"opset{first}"), (kind, f"opset{first - 1}")}

    assert {pair for pair in pairs if ops.reads(*pair)} == read(pairs)


def test_tokenizer_ops_are_read_as_by_openvino_tokenizers() -> None:
    ops = runtime_ops(RELEASE)
    pairs = {(kind, "extension") for kind in (*ops.tokenizer_ops, "TruncateNew", "utf8validate", "Swish", "GRUCell")}

    assert {pair for pair in pairs if ops.reads(*pair, tokenizer=True)} == read(pairs, TOKENIZERS)


@pytest.mark.slow
def test_the_table_has_every_op_of_the_installed_packages() -> None:
    table = {name: added for name, added in TABLE.items() if name <= RELEASE}
    command = [sys.executable, recorder.__file__, "--probe", str(SITE)]
    known = json.dumps(recorder.known_types(table))
    done = subprocess.run(command, input=known, capture_output=True, text=True, check=True)

    found = {kind: set(opsets) for kind, opsets in json.loads(done.stdout).items()}

    assert found == recorder.spelled_out(table)


@pytest.mark.parametrize(
    ("asked", "used"),
    [("2024.6", "2025.0"), ("2025.4.1", "2025.4"), ("2026", "2026.0"), ("2026.5.0.0", "2026.4"), ("2031.1", "2026.4")],
)
def test_an_unknown_release_is_judged_by_the_newest_older_one(asked: str, used: str) -> None:
    assert runtime_ops(asked).release == used


@pytest.mark.parametrize(
    ("release", "kind", "opset", "since"),
    [
        ("2025.4", "Convert", "opset17", "2026.2"),
        ("2025.4", "Abs", "opset16", "2026.0"),
        ("2026.2", "GroupedMatMul", "opset17", "2026.3"),
        ("2026.4", "Abs", "opset17", ""),
    ],
)
def test_a_later_release_is_named(release: str, kind: str, opset: str, since: str) -> None:
    assert not runtime_ops(release).reads(kind, opset)
    assert runtime_ops(release).since(kind, opset) == since


def in_body(data: bytes) -> bytes:
    """Give an op in the body of the first Loop a type that does not exist."""
    start = data.index(b"<body>")
    end = data.index(b"</body>", start)
    changed, count = re.subn(
        rb'type="(Multiply|Add)" version="opset1"', b'type="Fused" version="opset1"', data[start:end], count=1
    )
    assert count
    return data[:start] + changed + data[end:]


def dead(data: bytes) -> bytes:
    """Add an op of an unknown type on which nothing depends."""
    op = b'<layer id="987654" name="dead" type="Fused" version="acme"><output><port id="0" precision="FP32"/></output>'
    return data.replace(b"</layers>", op + b"</layer></layers>", 1)


@pytest.mark.parametrize(
    ("name", "file", "change", "codes"),
    [
        ("qwen3_5_vl", "openvino_language_model.xml", in_body, {"IR022"}),
        ("falcon", "openvino_model.xml", dead, set()),
    ],
)
def test_only_ops_that_openvino_creates_are_reported(
    name: str, file: str, change: Callable[[bytes], bytes], codes: set[str], export_copy: Callable[..., Path]
) -> None:
    path = export_copy(name) / file
    before = path.read_bytes()
    path.write_bytes(change(before))
    assert path.read_bytes() != before

    verification = irtools.open_export(path.parent).verify(select=["IR019", "IR022", "IR023"])

    assert {finding.code for finding in verification.findings} == codes
    assert verification.strategies[0].available == (not codes)
    if codes:
        with pytest.raises(RuntimeError, match="doesn't contain the operation with type: Fused"):
            openvino.Core().read_model(path)
    else:
        openvino.Core().read_model(path)


def test_an_unusual_spelling_of_the_file_is_read(export_copy: Callable[..., Path]) -> None:
    path = export_copy("falcon") / "openvino_model.xml"
    data = path.read_bytes()
    path.write_bytes(data.replace(b'type="Gelu" version="opset7"', b"version='opset1' type='Gelu'"))

    (finding, *others) = irtools.open_export(path.parent).verify(select=["IR023"]).findings

    assert not others
    assert finding.message.startswith("opset1 has no 'Gelu': OpenVINO 2026.4 has it in opset2 to opset16")
