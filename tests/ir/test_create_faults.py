"""A fault at any system call leaves either no file or all files."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from irtools.errors import SaveError
from irtools.ir.create import create_files
from tests.ir.test_save_faults import failing, killed, runs

pytest.importorskip("fcntl")

CHUNKS = [b"abc" * 50, b"", b"d" * 70]
FILES = {"openvino_model.bin": CHUNKS, "openvino_model.xml": b"<net/>" * 60}
CONTENT = {"openvino_model.bin": b"".join(CHUNKS), "openvino_model.xml": b"<net/>" * 60}


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()} if directory.exists() else {}


def remove(directory: Path) -> None:
    for path in directory.iterdir() if directory.exists() else ():
        path.unlink()
    for empty in (directory, directory.parent):
        if empty.exists():
            empty.rmdir()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_an_error_at_each_call(tmp_path: Path, code: int) -> None:
    source, output = tmp_path / "model", tmp_path / "new" / "out"
    source.mkdir()
    hit = set()
    for faults, error in runs(lambda: create_files(output, FILES, directory=source), failing(code)):
        hit.add(faults.hit)
        there, where = contents(output), f"{faults.hit}, call {faults.at}: {error}"
        if error is None or "is there" in str(error):  # all that failed was to flush the directory
            strays = [name for name in there if name not in CONTENT]
            assert not strays or faults.hit == "unlink", where
            assert {name: there[name] for name in CONTENT} == CONTENT, where
        else:
            assert isinstance(error, SaveError), where
            assert not there or faults.hit == "unlink", where
            assert not output.parent.exists() or faults.hit in ("unlink", "rmdir"), where
        remove(output)
    assert {"open", "write", "fsync", "replace", "mkdir"} <= hit


CREATE = """
from irtools.ir.create import create_files
from tests.ir.test_create_faults import FILES
def action():
    create_files(path, FILES, directory=path.parent / "model")
"""


def test_a_kill_at_each_call(tmp_path: Path) -> None:
    """The .xml is there only if the .bin is there and complete."""
    (tmp_path / "model").mkdir()
    output = tmp_path / "new" / "out"
    seen: set[tuple[str, ...]] = set()
    for _ in killed(CREATE, output, "before"):
        there = {name: data for name, data in contents(output).items() if not name.endswith(".irtools-tmp")}
        assert all(CONTENT[name] == data for name, data in there.items())
        assert "openvino_model.xml" not in there or there == CONTENT
        seen.add(tuple(sorted(there)))
        remove(output)
    assert seen == {(), ("openvino_model.bin",), tuple(CONTENT)}


def test_a_check_that_refuses_leaves_nothing(tmp_path: Path) -> None:
    def check(files: object) -> tuple[str, ...]:
        raise SaveError("refused")

    with pytest.raises(SaveError, match="refused"):
        create_files(tmp_path / "out", FILES, directory=tmp_path / "model", check=check)
    assert not (tmp_path / "out").exists()


def test_a_directory_that_is_not_new(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert create_files(tmp_path / "out", FILES, directory=tmp_path / "model") == ()
    with pytest.raises(SaveError, match="the directory is not empty"):
        create_files(tmp_path / "out", FILES, directory=tmp_path / "model")
    with pytest.raises(SaveError, match="lies inside the export"):
        create_files(tmp_path / "new", FILES, directory=tmp_path)
    assert contents(tmp_path / "out") == CONTENT
