"""Saving files: preserved metadata, refusals, and complete exports in a new directory."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from irtools.errors import CheckError, SaveError
from irtools.ir.save import FileChange, save_export, save_files

OLD, NEW = b"<net>old</net>\n", b"<net>new and longer</net>\n"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model" / "openvino_model.xml"
    path.parent.mkdir()
    path.write_bytes(OLD)
    path.with_suffix(".bin").write_bytes(b"weights" * 100)
    return path


def state(directory: Path) -> dict[str, tuple[int, ...]]:
    """Inode, mode, size and time of all files."""
    files = {str(path.relative_to(directory)): path.lstat() for path in directory.rglob("*") if not path.is_dir()}
    return {name: (s.st_ino, s.st_mode, s.st_size, s.st_mtime_ns) for name, s in sorted(files.items())}


# -- in place --------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o640, 0o444, 0o755, 0o4711])
def test_the_mode_is_kept(model: Path, mode: int) -> None:
    model.chmod(mode)
    save_files([FileChange(model, NEW, OLD)])
    assert stat.S_IMODE(model.stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_is_kept(model: Path) -> None:
    os.chown(model, 1234, 4321)
    save_files([FileChange(model, NEW, OLD)])
    assert (model.stat().st_uid, model.stat().st_gid) == (1234, 4321)


def test_extended_attributes_are_kept(model: Path) -> None:
    try:
        os.setxattr(model, "user.origin", b"hub")
    except OSError:
        pytest.skip("the file system has no extended attributes")
    save_files([FileChange(model, NEW, OLD)])
    assert os.getxattr(model, "user.origin") == b"hub"


def test_an_attribute_that_may_not_be_set_does_not_stop_the_others(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a labelled file system, only root may set ``security.selinux``."""
    there = {"security.selinux": b"label", "user.gone": b"", "user.origin": b"hub"}
    written: dict[str, bytes] = {}

    def get_attribute(_: Path, name: str) -> bytes:
        if name == "user.gone":
            raise OSError(errno.ENODATA, os.strerror(errno.ENODATA))
        return there[name]

    def set_attribute(_: int, name: str, value: bytes) -> None:
        if name.startswith("security."):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        written[name] = value

    monkeypatch.setattr(os, "listxattr", lambda _: list(there))
    monkeypatch.setattr(os, "getxattr", get_attribute)
    monkeypatch.setattr(os, "setxattr", set_attribute)
    save_files([FileChange(model, NEW, OLD)])
    assert written == {"user.origin": b"hub"}


@pytest.mark.parametrize("name", ["n" * 235 + ".xml", "n" * 251 + ".xml", "模" * 83 + ".xml"])
def test_the_longest_names_can_be_written(model: Path, name: str) -> None:
    model = model.rename(model.with_name(name))
    save_files([FileChange(model, NEW, OLD)])
    assert model.read_bytes() == NEW
    out = model.parent.parent / "out"
    save_export(model.parent, [FileChange(model, OLD, NEW)], out)
    assert (out / name).read_bytes() == OLD
    assert len(list(out.iterdir())) == len(list(model.parent.iterdir())) == 2


def test_nothing_else_in_the_directory_is_touched(model: Path) -> None:
    before = state(model.parent)
    (saved,) = save_files([FileChange(model, NEW, OLD)])
    after = state(model.parent)
    assert model.read_bytes() == NEW
    assert saved.replaced_link is None
    assert before.keys() == after.keys()
    assert before["openvino_model.bin"] == after["openvino_model.bin"]


def test_a_symbolic_link_is_replaced_and_what_it_pointed_to_stays(tmp_path: Path) -> None:
    """A Hugging Face cache has this layout: snapshots link to blobs."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "0123abcd"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    for blob, name, content in (("aa", "openvino_model.xml", OLD), ("bb", "openvino_model.bin", b"weights")):
        (blobs / blob).write_bytes(content)
        (blobs / blob).chmod(0o640)
        (snapshot / name).symlink_to(f"../../blobs/{blob}")
    before = state(blobs)
    (saved,) = save_files([FileChange(snapshot / "openvino_model.xml", NEW, OLD)])
    assert saved.replaced_link == blobs / "aa"
    assert state(blobs) == before
    assert (blobs / "aa").read_bytes() == OLD
    assert not (snapshot / "openvino_model.xml").is_symlink()
    assert (snapshot / "openvino_model.xml").read_bytes() == NEW
    assert stat.S_IMODE((snapshot / "openvino_model.xml").stat().st_mode) == 0o640
    assert (snapshot / "openvino_model.bin").is_symlink()


def test_a_hard_linked_file_is_not_written_through(model: Path, tmp_path: Path) -> None:
    (tmp_path / "other.xml").hardlink_to(model)
    save_files([FileChange(model, NEW, OLD)])
    assert (tmp_path / "other.xml").read_bytes() == OLD


def test_the_check_sees_the_whole_new_file_under_another_name(model: Path) -> None:
    seen = []

    def check(path: Path, _weights: Path | None = None) -> tuple[str, ...]:
        seen.append((path.read_bytes(), path.parent, path.suffix, model.read_bytes()))
        return ("a note",)

    assert save_files([FileChange(model, NEW, OLD, check)])[0].notes == ("a note",)
    assert seen == [(NEW, model.parent, ".irtools-tmp", OLD)]


@pytest.mark.parametrize("error", [CheckError("no"), KeyboardInterrupt(), RuntimeError("a fault")])
def test_a_failing_check_leaves_everything_as_it_was(model: Path, error: BaseException) -> None:
    def check(path: Path, _weights: Path | None = None) -> tuple[str, ...]:
        raise error

    before = state(model.parent)
    with pytest.raises(type(error)):
        save_files([FileChange(model, NEW, OLD, check)])
    assert state(model.parent) == before


def test_a_file_that_changed_since_it_was_read_is_refused(model: Path) -> None:
    model.write_bytes(OLD.replace(b"old", b"odd"))  # same size
    before = state(model.parent)
    with pytest.raises(SaveError, match="changed while"):
        save_files([FileChange(model, NEW, OLD)])
    assert state(model.parent) == before


@pytest.mark.parametrize("how", ["written", "replaced", "removed"])
def test_a_file_that_changes_during_the_check_is_refused(model: Path, how: str) -> None:
    def check(path: Path, _weights: Path | None = None) -> tuple[str, ...]:
        if how == "written":
            model.write_bytes(b"<net>other</net>")
        elif how == "replaced":
            (model.parent / "x").write_bytes(OLD)
            (model.parent / "x").rename(model)
        else:
            model.unlink()
        return ()

    with pytest.raises(SaveError):
        save_files([FileChange(model, NEW, OLD, check)])
    assert not list(model.parent.glob(".*"))
    assert not model.exists() or model.read_bytes() != NEW


def test_a_vanished_file_is_a_changed_file(model: Path) -> None:
    model.unlink()
    with pytest.raises(SaveError, match="changed while"):
        save_files([FileChange(model, NEW, OLD)])
    assert not model.exists()


def test_a_new_modification_time_is_not_a_change(model: Path) -> None:
    os.utime(model, (1, 1))
    save_files([FileChange(model, NEW, OLD)])
    assert model.read_bytes() == NEW


HOLDER = """
import sys, time
from pathlib import Path
from irtools.ir.save import FileChange, save_files
path = Path(sys.argv[1])
def check(temporary, weights=None):
    print("checking", flush=True)
    time.sleep(60)
    return ()
save_files([FileChange(path, b"theirs", path.read_bytes(), check)])
"""


def test_another_irtools_at_work_is_noticed_and_a_killed_one_does_not_block(model: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(model)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"checking\n"
        before = state(model.parent)
        with pytest.raises(SaveError, match="another irtools process is working on it"):
            save_files([FileChange(model, NEW, OLD)])
        assert state(model.parent) == before
        assert len(before) == 3, "the temporary file of the other process is still there"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert model.read_bytes() == OLD
    assert not [name for name in state(model.parent) if name.endswith((".xml", ".bin")) and name.startswith(".")]
    save_files([FileChange(model, NEW, OLD)])
    assert model.read_bytes() == NEW
    assert sorted(state(model.parent)) == ["openvino_model.bin", "openvino_model.xml"], "the stale file is gone"


def test_stale_files_of_others_stay(model: Path) -> None:
    (model.parent / ".other.xml.0.irtools-tmp").write_bytes(b"")
    (model.parent / "openvino_model.xml.irtools-tmp").write_bytes(b"")
    save_files([FileChange(model, NEW, OLD)])
    assert {".other.xml.0.irtools-tmp", "openvino_model.xml.irtools-tmp"} < state(model.parent).keys()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_directory_is_a_clear_error(model: Path) -> None:
    model.parent.chmod(0o555)
    try:
        with pytest.raises(SaveError, match=r"permission denied.*old file is unchanged.*--output-dir"):
            save_files([FileChange(model, NEW, OLD)])
    finally:
        model.parent.chmod(0o755)
    assert model.read_bytes() == OLD


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_a_read_only_directory_is_a_clear_error_for_another_user(model: Path) -> None:
    model.parent.chmod(0o555)
    code = (
        "import os, sys; from pathlib import Path; from irtools.ir.save import FileChange, save_files\n"
        "from irtools.errors import SaveError\n"
        "import irtools.ir.listing\n"
        "os.setegid(65534); os.seteuid(65534); path = Path(sys.argv[1])\n"
        "try: save_files([FileChange(path, b'x', path.read_bytes())])\n"
        "except SaveError as error: print(error)"
    )
    for parent in model.parents:
        if parent != model.parent and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o555)
    run = subprocess.run([sys.executable, "-c", code, str(model)], capture_output=True, text=True, check=True)
    assert "permission denied (the old file is unchanged)" in run.stdout
    assert "--output-dir" in run.stdout
    assert model.read_bytes() == OLD
    assert len(state(model.parent)) == 2


def test_a_full_disk_is_a_clear_error(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = state(model.parent)
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(SaveError, match=r"no space left on device \(the old file is unchanged\); free some space"):
        save_files([FileChange(model, NEW, OLD)])
    assert state(model.parent) == before


def test_a_file_in_the_working_directory(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(model.parent)
    save_files([FileChange(Path(model.name), NEW, OLD)])
    assert model.read_bytes() == NEW


def test_names_outside_ascii(tmp_path: Path) -> None:
    path = tmp_path / "模型 ü[*]" / "openvino_model.xml"
    path.parent.mkdir()
    path.write_bytes(OLD)
    save_files([FileChange(path, NEW, OLD)])
    assert path.read_bytes() == NEW
    assert len(list(path.parent.iterdir())) == 1


# -- into another directory ------------------------------------------------------------


@pytest.fixture
def export(model: Path) -> Path:
    directory = model.parent
    (directory / "config.json").write_text("{}")
    (directory / "config.json").chmod(0o600)
    (directory / "sub" / "deep").mkdir(parents=True)
    (directory / "sub" / "deep" / "note.txt").write_text("n")
    (directory / "empty").mkdir()
    (directory / "openvino_tokenizer.xml").write_bytes(b"<net/>")
    (directory / ".openvino_model.xml.0.irtools-tmp").write_bytes(b"stale")
    return directory


def content(directory: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(directory)): None if path.is_dir() else path.read_bytes()
        for path in directory.rglob("*")
        if not path.name.endswith(".irtools-tmp")
    }


@pytest.mark.parametrize("there", [True, False])
def test_a_new_directory_gets_a_complete_export(export: Path, tmp_path: Path, there: bool) -> None:
    output = tmp_path / "a" / "b"
    if there:
        output.mkdir(parents=True)
    before = state(export)
    model = export / "openvino_model.xml"
    saved = save_export(export, [FileChange(model, NEW, OLD)], output)
    assert [file.path for file in saved] == [output / "openvino_model.xml"]
    assert content(output) == content(export) | {"openvino_model.xml": NEW}
    assert not list(output.rglob("*.irtools-tmp"))
    assert stat.S_IMODE((output / "config.json").stat().st_mode) == 0o600
    assert (output / "config.json").stat().st_ino != (export / "config.json").stat().st_ino, "may be edited"
    assert state(export) == before


def test_without_a_change_the_copy_is_complete_too(export: Path, tmp_path: Path) -> None:
    assert save_export(export, [], tmp_path / "out") == ()
    assert content(tmp_path / "out") == content(export)


def test_weights_are_cloned_or_hard_linked(export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irtools.ir.save._clone", lambda *_: False)
    save_export(export, [], tmp_path / "out")
    assert (tmp_path / "out" / "openvino_model.bin").samefile(export / "openvino_model.bin")
    before = state(export)
    save_files([FileChange(tmp_path / "out" / "openvino_model.xml", NEW, OLD)])
    assert state(export) == before


def test_weights_behind_links_are_linked_as_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irtools.ir.save._clone", lambda *_: False)
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "bb").write_bytes(b"weights")
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "openvino_model.bin").symlink_to("../blobs/bb")
    save_export(tmp_path / "snapshot", [], tmp_path / "elsewhere" / "out")
    copy = tmp_path / "elsewhere" / "out" / "openvino_model.bin"
    assert not copy.is_symlink()
    assert copy.samefile(tmp_path / "blobs" / "bb")


def test_weights_are_copied_with_progress_where_nothing_else_works(
    export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, "other file system")

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr("irtools.ir.save._clone", lambda *_: False)
    monkeypatch.setattr("irtools.ir.reading._CHUNK", 300)
    calls: list[tuple[Path, int, int]] = []
    save_export(export, [], tmp_path / "out", progress=lambda *call: calls.append(call))
    copy = tmp_path / "out" / "openvino_model.bin"
    assert copy.read_bytes() == (export / "openvino_model.bin").read_bytes()
    assert not copy.samefile(export / "openvino_model.bin")
    assert [call[1:] for call in calls if call[0].name == "openvino_model.bin"] == [(300, 700), (600, 700), (700, 700)]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (".", "is the export itself"),
        ("sub/new", "lies inside the export"),
        ("../occupied", "the directory is not empty"),
        ("../file", "is a file"),
        ("../file/below", "lies below one"),
    ],
)
def test_a_bad_output_directory_is_refused(export: Path, tmp_path: Path, where: str, message: str) -> None:
    (tmp_path / "occupied").mkdir()
    (tmp_path / "occupied" / "x").write_text("")
    (tmp_path / "file").write_text("")
    before = state(tmp_path)
    with pytest.raises(SaveError, match=message):
        save_export(export, [FileChange(export / "openvino_model.xml", NEW, OLD)], export / where)
    assert state(tmp_path) == before


def test_links_that_lead_nowhere_or_in_a_circle_are_refused(export: Path, tmp_path: Path) -> None:
    (export / "openvino_vision.bin").symlink_to("../blobs/absent")
    with pytest.raises(SaveError, match=r"openvino_vision\.bin: is a link to nothing"):
        save_export(export, [], tmp_path / "out")
    (export / "openvino_vision.bin").unlink()
    (export / "sub" / "up").symlink_to("..")
    with pytest.raises(SaveError, match="is a link to a directory that contains it"):
        save_export(export, [], tmp_path / "out")
    (export / "sub" / "up").unlink()
    (export / "self").symlink_to("self")
    with pytest.raises(SaveError, match=r"cannot be read|link to nothing"):
        save_export(export, [], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_failure_removes_what_was_created(export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, _weights: Path | None = None) -> tuple[str, ...]:
        raise CheckError("no")

    before = state(tmp_path)
    with pytest.raises(CheckError):
        save_export(export, [FileChange(export / "openvino_model.xml", NEW, OLD, refuse)], tmp_path / "a" / "out")
    assert state(tmp_path) == before
    assert not (tmp_path / "a").exists()
    with pytest.raises(SaveError, match="changed while"):
        save_export(export, [FileChange(export / "openvino_model.xml", NEW, b"other")], tmp_path / "a" / "out")
    assert not (tmp_path / "a").exists()


def test_an_output_directory_that_was_there_stays_when_it_fails(export: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(SaveError):
        save_export(export, [FileChange(export / "openvino_model.xml", NEW, b"other")], tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_huge_sparse_weights_cost_no_time(export: Path, tmp_path: Path) -> None:
    with (export / "openvino_model.bin").open("r+b") as file:
        file.truncate(40 << 30)
    start = time.monotonic()
    save_export(export, [FileChange(export / "openvino_model.xml", NEW, OLD)], tmp_path / "out")
    assert time.monotonic() - start < 5
    assert (tmp_path / "out" / "openvino_model.bin").stat().st_size == 40 << 30
