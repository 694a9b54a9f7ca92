"""A fault at any system call leaves the first steps done and the others not; the same call completes them."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
from pathlib import Path

import pytest

from irtools.errors import SaveError
from irtools.ir.place import Drop, Put, Step, place_files, same_content
from tests.ir.test_save_faults import failing, killed, runs
from tests.marks import mostly_slow

OLD = {"model.xml": b"<net/>", "head.xml": b"<old/>", "head.bin": b"old weights", "config.json": b"{}"}
NEW = {"model.xml": b"<net/>", "record": b"attached", "head.bin": b"new weights" * 9, "config.json": b'{"n": 1}'}
NEW["head.xml"] = b"<new/>" * 9
ORDER = ("record", "drop", "head.bin", "config.json", "head.xml")


def after(count: int) -> dict[str, bytes]:
    """The files after a number of steps."""
    files = dict(OLD)
    for name in ORDER[:count]:
        files |= {name: NEW[name]} if name != "drop" else {}
        if name == "drop":
            del files["head.xml"]
    return files


STATES = [after(count) for count in range(len(ORDER) + 1)]


def fill(directory: Path, files: dict[str, bytes] = OLD) -> Path:
    for path in directory.iterdir() if directory.exists() else ():
        path.unlink()
    directory.mkdir(exist_ok=True)
    source = directory.with_name("source")
    source.mkdir(exist_ok=True)
    for name, data in files.items():
        (directory / name).write_bytes(data)
    for name in ("head.bin", "head.xml"):
        (source / name).write_bytes(NEW[name])
    return directory


def steps(directory: Path) -> list[Step]:
    source = directory.with_name("source")
    return [
        Put(directory / "record", NEW["record"]),
        Drop(directory / "head.xml"),
        Put(directory / "head.bin", source / "head.bin", (source / "head.bin").stat()),
        Put(directory / "config.json", NEW["config.json"], original=OLD["config.json"]),
        Put(directory / "head.xml", source / "head.xml", (source / "head.xml").stat()),
    ]


def place(directory: Path) -> None:
    place_files(steps(directory), locked=directory / "model.xml")


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if not path.name.endswith(".irtools-tmp")}


def test_all_steps_are_taken(tmp_path: Path) -> None:
    directory = fill(tmp_path / "model")
    (directory / "config.json").chmod(0o640)
    saved = place_files(steps(directory), locked=directory / "model.xml")
    assert contents(directory) == NEW
    assert [one.path.name for one in saved] == ["record", "head.bin", "config.json", "head.xml"]
    assert (directory / "config.json").stat().st_mode & 0o777 == 0o640
    assert {path.name for path in directory.iterdir()} == set(NEW)


@pytest.mark.parametrize("code", mostly_slow([errno.ENOSPC, errno.EIO, errno.EACCES], fast=1))
def test_an_error_at_each_call(tmp_path: Path, code: int) -> None:
    directory = fill(tmp_path / "model")
    hit, reached, planned = set(), set(), [steps(directory)]
    for faults, error in runs(lambda: place_files(planned.pop(), locked=directory / "model.xml"), failing(code)):
        hit.add(faults.hit)
        where = f"{faults.hit}, call {faults.at}: {error}"
        state = STATES.index(contents(directory))
        reached.add(state)
        if error is None:
            assert contents(directory) == NEW, where
        else:
            assert isinstance(error, SaveError), where
            untouched = any(said in str(error) for said in ("files are unchanged", "what had been created was removed"))
            assert untouched == (state == 0) or "is there" in str(error), where
        assert contents(directory.with_name("source")) == {name: NEW[name] for name in ("head.bin", "head.xml")}, where
        fill(directory)
        planned.append(steps(directory))
    assert {"open", "write", "fsync", "replace", "unlink", "flock"} <= hit
    assert reached == set(range(len(STATES)))


KILLED = """
from tests.ir.test_place import place
def action():
    place(path)
"""


@pytest.mark.slow
def test_a_kill_at_each_call(tmp_path: Path) -> None:
    directory = fill(tmp_path / "model")
    seen = set()
    for _ in killed(KILLED, directory, "before"):
        seen.add(STATES.index(contents(directory)))
        fill(directory)
    assert seen == set(range(len(STATES)))


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    directory = fill(tmp_path / "model")
    for name in ("record", "head.bin", "config.json"):
        (directory / f".{name}.0a1b2c3d.irtools-tmp").write_bytes(b"left")
        (directory / f"..{name}.0a1b2c3d.irtools-tmp.4e5f6a7b.irtools-tmp").write_bytes(b"left")
    place(directory)
    assert {path.name for path in directory.iterdir()} == set(NEW)


@pytest.mark.parametrize("name", ["config.json", "source"])
def test_a_file_that_changed_is_refused(tmp_path: Path, name: str) -> None:
    directory = fill(tmp_path / "model")
    planned = steps(directory)
    changed = directory / name if name != "source" else tmp_path / "source" / "head.bin"
    changed.write_bytes(b"something else")
    before = contents(directory)
    with pytest.raises(SaveError, match="changed while irtools was working"):
        place_files(planned, locked=directory / "model.xml")
    assert contents(directory) == before


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    directory = fill(tmp_path / "model")
    handle = os.open(directory / "model.xml", os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(SaveError, match="another irtools process is working on it"):
            place(directory)
    finally:
        os.close(handle)
    assert contents(directory) == OLD


def test_a_link_is_replaced_and_its_target_stays(tmp_path: Path) -> None:
    directory = fill(tmp_path / "model")
    for name in ("head.bin", "config.json", "head.xml"):
        (directory / name).rename(tmp_path / name)
        (directory / name).symlink_to(f"../{name}")
    (directory / "record").symlink_to("../nothing")
    saved = place_files(steps(directory), locked=directory / "model.xml")
    assert contents(directory) == NEW
    assert not any(path.is_symlink() for path in directory.iterdir())
    assert {
        name: (tmp_path / name).read_bytes() for name in ("head.bin", "config.json", "head.xml")
    }.items() <= OLD.items()
    assert {one.path.name for one in saved if one.link_note} == {"record", "head.bin", "config.json"}
    assert not (tmp_path / "nothing").exists()


def test_equal_content(tmp_path: Path) -> None:
    sizes = (0, 1, (8 << 20) - 1, (8 << 20) + 1)
    for number, size in itertools.product((0, 1), sizes):
        (tmp_path / f"{number}{size}").write_bytes(bytes(size))
    for a, b in itertools.product(sizes, sizes):
        assert same_content(tmp_path / f"0{a}", tmp_path / f"1{b}") == (a == b)
    with (tmp_path / f"1{sizes[-1]}").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"x")
    assert not same_content(tmp_path / f"0{sizes[-1]}", tmp_path / f"1{sizes[-1]}")
