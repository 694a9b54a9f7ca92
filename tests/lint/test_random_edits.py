"""Random damage to real files is reported, refused or harmless, but never a traceback."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import irtools
from irtools.lint.apply_fixes import plan_fixes

FILES = (
    *("openvino_language_model.xml", "openvino_mtp_model.xml", "openvino_text_embeddings_model.xml"),
    *("openvino_tokenizer.xml", "config.json", "tokenizer.json", "openvino_config.json", "generation_config.json"),
)
WORDS = (
    *(b"", b"x", b"-1", b"0", b"?", b"99999999999999999999", b"\xff", b"\0", b"&", b"<", b">", b'"', b"\n", b"null"),
    *(b"<rt_info/>", b"<layers>", b"</layers>", b"</net>", b"[]", b"{}", b"true", b"1e999", b'"a"', b"opset99"),
    *(b"&#1;", b"&lt;", b"f32", b"u4", b"MatMul", b"Result", b"Parameter", b"Loop", b"..", "\u0663".encode()),
)
EDITS = st.lists(
    st.tuples(st.sampled_from(FILES), st.floats(0, 1), st.sampled_from((0, 1, 2, 5, 40, 4000)), st.sampled_from(WORDS)),
    min_size=1,
    max_size=6,
)
# Contents of attributes and JSON values. Edits there usually leave the file well-formed.
VALUES = st.lists(st.tuples(st.sampled_from(FILES), st.floats(0, 1), st.sampled_from(WORDS)), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def base(fixtures: Path) -> Path:
    return fixtures / "qwen3_5_vl_int4"


def damaged(base: Path, scratch: Path, edits: list[tuple[str, int, int, bytes]]) -> Path:
    """A copy with edits: file, start, end, new bytes; unchanged files are links."""
    for path in base.iterdir():
        if path.name in FILES:
            shutil.copy(path, scratch)
        else:
            (scratch / path.name).symlink_to(path.resolve())
    for file, start, end, new in edits:
        path = scratch / file
        data = path.read_bytes()
        path.write_bytes(data[:start] + new + data[end:])
    return scratch


def verify(directory: Path) -> None:
    for expect_mtp in (True, None):
        verification = irtools.open_export(directory).verify(expect_mtp=expect_mtp)
        plan_fixes(verification, unsafe=True)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EDITS)
def test_bytes(base: Path, edits: list[tuple[str, float, int, bytes]]) -> None:
    sizes = {file: (base / file).stat().st_size for file in FILES}
    placed = [(file, int(at * sizes[file]), int(at * sizes[file]) + length, new) for file, at, length, new in edits]
    with tempfile.TemporaryDirectory() as scratch:
        verify(damaged(base, Path(scratch), placed))


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(VALUES)
def test_values(base: Path, edits: list[tuple[str, float, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        placed = []
        for file, at, new in edits:
            data = (base / file).read_bytes()
            mark = b'="' if file.endswith(".xml") else b": "
            start = data.find(mark, int(at * len(data)))
            if start >= 0:
                start += len(mark)
                stop = data.find(b'"', start) if file.endswith(".xml") else data.find(b"\n", start)
                placed.append((file, start, stop, new))
        # From the end, so that earlier offsets stay valid.
        verify(damaged(base, Path(scratch), sorted(placed, key=lambda edit: -edit[1])))
