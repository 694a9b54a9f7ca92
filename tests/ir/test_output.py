"""Output files are written completely or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from irtools.errors import SaveError
from irtools.ir.output import write_output


def test_a_new_file_has_the_usual_mode(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_output(tmp_path / "a.html", b"new")
    finally:
        os.umask(mask)
    assert (tmp_path / "a.html").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "a.html").stat().st_mode) == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


def test_an_old_file_keeps_its_mode_and_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real.html").write_bytes(b"old")
    (tmp_path / "real.html").chmod(0o604)
    (tmp_path / "link.html").symlink_to("real.html")
    write_output(tmp_path / "link.html", b"new")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "real.html").stat().st_mode) == 0o604


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("folder", "is a directory; name a file in it"),
        ("nowhere/a.html", "no such file or directory; create its directory first"),
        ("file/a.html", "not a directory; a file is where its directory should be"),
        ("loop", "too many levels of symbolic links"),
        ("n" * 300, "file name too long; give a shorter name"),
    ],
)
def test_a_file_that_cannot_be_written_gives_the_reason(tmp_path: Path, where: str, words: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "loop").symlink_to("loop")
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(SaveError, match=words):
        write_output(tmp_path / where, b"new")
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "a.html").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SaveError, match="no space left on device; free some space"):
        write_output(tmp_path / "a.html", b"new")
    assert (tmp_path / "a.html").read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["n" * 239, "n" * 255, "ü" * 127, "模" * 85])
def test_the_longest_names_can_be_written_twice(tmp_path: Path, name: str) -> None:
    for content in (b"first", b"second"):
        write_output(tmp_path / name, content)
        assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [(name, content)]


def test_a_link_to_a_new_file_makes_that_file(tmp_path: Path) -> None:
    (tmp_path / "link.html").symlink_to("real.html")
    write_output(tmp_path / "link.html", b"new")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").read_bytes() == b"new"


def test_a_read_only_file_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.html").write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everything
    with pytest.raises(SaveError, match="permission denied; get write permission for its directory, or give another"):
        write_output(tmp_path / "a.html", b"new")
    assert (tmp_path / "a.html").read_bytes() == b"old"


def test_a_device_is_written_to() -> None:
    write_output(Path(os.devnull), b"new")
    assert not Path(os.devnull).is_file()
