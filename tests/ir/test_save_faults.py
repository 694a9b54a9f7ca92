"""A fault at any system call leaves the complete old or the complete new file."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import irtools
from irtools.errors import SaveError
from irtools.ir import reading
from irtools.ir.save import FileChange, save_export, save_files
from tests.marks import mostly_slow

fcntl = pytest.importorskip("fcntl")

OLD, NEW = b"<net>old</net>\n" * 300, b"<net>new</net>\n" * 400
CALLS = (
    *((os, name) for name in ("open", "close", "write", "fsync", "replace", "rename", "link", "unlink", "mkdir")),
    *(
        (os, name)
        for name in ("rmdir", "stat", "lstat", "fstat", "fchmod", "fchown", "listxattr", "scandir", "listdir")
    ),
    *((fcntl, "flock"), (fcntl, "ioctl"), (reading, "read_into")),
)


class Faults:
    """Wrap the system calls; the n-th one calls ``fault`` instead."""

    def __init__(self, at: int, fault: Callable[[str, Callable[..., Any], tuple[Any, ...]], Any]) -> None:
        self.at, self.fault, self.count, self.hit = at, fault, 0, ""

    def install(self, patch: Callable[[Any, str, Any], None]) -> Faults:
        for module, name in CALLS:
            patch(module, name, self._wrap(name, getattr(module, name)))
        return self

    def _wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            if self.count != self.at:
                return real(*args, **kwargs)
            self.hit = name
            return self.fault(name, real, args)

        return call


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model" / "openvino_model.xml"
    path.parent.mkdir()
    path.write_bytes(OLD)
    path.with_suffix(".bin").write_bytes(b"weights")
    return path


def failing(code: int) -> Callable[..., Any]:
    def fault(name: str, real: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if name == "close":
            real(*args)  # close releases the handle even if it fails
        raise OSError(code, os.strerror(code))

    return fault


def runs(action: Callable[[], Any], fault: Callable[..., Any]) -> Iterator[tuple[Faults, BaseException | None]]:
    """Run the action with a fault at the first call, at the second, and so on until no call is left."""
    for at in itertools.count(1):
        with pytest.MonkeyPatch.context() as patch:
            faults = Faults(at, fault).install(patch.setattr)
            error = None
            try:
                action()
            except Exception as caught:
                error = caught
        yield faults, error
        if not faults.hit:
            return


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES])
def test_an_error_at_each_call(model: Path, code: int) -> None:
    hit = set()
    for faults, error in runs(lambda: save_files([FileChange(model, NEW, OLD)]), failing(code)):
        hit.add(faults.hit)
        content, where = model.read_bytes(), f"{faults.hit}, call {faults.at}: {error}"
        assert content in (OLD, NEW), where
        assert model.with_suffix(".bin").read_bytes() == b"weights"
        if error is None:
            assert content == NEW, where
        else:
            assert isinstance(error, SaveError), where
            assert str(model) in str(error)
            assert ("the old file is unchanged" in str(error)) == (content == OLD), where
        strays = [path for path in model.parent.iterdir() if path.name.startswith(".")]
        assert not strays or faults.hit == "unlink", where
        for stray in strays:
            stray.unlink()
        model.write_bytes(OLD)
    assert {"open", "write", "fsync", "replace", "fchmod", "flock", "stat"} <= hit


@pytest.mark.parametrize("code", mostly_slow([errno.EIO, errno.ENOSPC], fast=1))
def test_an_error_at_each_call_while_an_exposed_export_is_saved(export_copy: Callable[..., Path], code: int) -> None:
    path = export_copy("falcon") / "openvino_model.xml"
    old, weights = path.read_bytes(), path.with_suffix(".bin").read_bytes()
    ready = [irtools.open_export(path.parent)]
    with ready[0].edit() as editor:
        editor.expose("all", concat="taps", names="h{layer}")
    new, edits = ready[0].pending[0].data, editor.edits
    hit = set()
    for faults, error in runs(lambda: ready.pop().save(check=False), failing(code)):
        hit.add(faults.hit)
        where = f"{faults.hit}, call {faults.at}: {error}"
        assert path.read_bytes() == new if error is None else path.read_bytes() in (old, new), where
        assert error is None or isinstance(error, SaveError), where
        assert path.with_suffix(".bin").read_bytes() == weights
        for stray in path.parent.glob(".*"):
            stray.unlink()
        path.write_bytes(old)
        ready.append(irtools.open_export(path.parent))
        with ready[0].edit() as editor:
            editor.make(*edits)
    assert {"open", "write", "fsync", "replace", "fchmod", "flock", "stat"} <= hit


def test_a_rename_that_fails_removes_the_temporary_file(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "replace", lambda *_: failing(errno.EBUSY)("replace", os.replace, ()))
    with pytest.raises(SaveError, match="device or resource busy"):
        save_files([FileChange(model, NEW, OLD)])
    assert sorted(path.name for path in model.parent.iterdir()) == ["openvino_model.bin", "openvino_model.xml"]
    assert model.read_bytes() == OLD


@pytest.mark.parametrize("most", [1, 7, 4096])
def test_short_writes_are_completed(model: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[:most]))
    save_files([FileChange(model, NEW, OLD)])
    assert model.read_bytes() == NEW


def test_a_write_that_makes_no_progress_is_an_error(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", lambda handle, data: 0)
    with pytest.raises(SaveError, match="input/output error"):
        save_files([FileChange(model, NEW, OLD)])
    assert model.read_bytes() == OLD


FORKS = """
import itertools, os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
path, after = Path(sys.argv[2]), sys.argv[3] == "after"
from tests.ir.test_save_faults import NEW, OLD, Faults
exec(sys.argv[4])

def fault(name, real, args):
    if name == "write" and after:
        real(args[0], args[1][: len(args[1]) // 2])
    elif after:
        real(*args)
    os.kill(os.getpid(), signal.SIGKILL)

for number in itertools.count(1):
    child = os.fork()
    if not child:
        Faults(number, fault).install(setattr)
        action()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, flush=True)
    sys.stdin.readline()
    if not os.WIFSIGNALED(status):
        break
"""


def killed(code: str, path: Path, when: str) -> Iterator[None]:
    """Run ``action`` of the code in a child that is killed at its first system call, then its second, and so on.

    Yields after each child has ended. The process that forks them has only imported the modules. With ``when``
    as "after", the call is made first; a write is made by half.
    """
    command = [sys.executable, "-c", FORKS, str(Path(__file__).parents[2]), str(path), when, code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            assert int(line) in (0, signal.SIGKILL)
            yield
            process.stdin.write("\n")
            process.stdin.flush()
    assert process.returncode == 0


SAVE = """
from irtools.ir.save import FileChange, save_files
def action():
    save_files([FileChange(path, NEW, OLD)])
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_each_call(model: Path, when: str) -> None:
    seen = []
    for _ in killed(SAVE, model, when):
        seen.append(model.read_bytes())
        assert seen[-1] in (OLD, NEW)
        strays = {path.name for path in model.parent.iterdir()} - {"openvino_model.xml", "openvino_model.bin"}
        assert all(name.startswith(".") and name.endswith(".irtools-tmp") for name in strays)
        save_files([FileChange(model, NEW, seen[-1])])  # the next run works and cleans up
        assert len(list(model.parent.iterdir())) == 2
        model.write_bytes(OLD)
    assert len(seen) > 12
    assert {OLD, NEW} == set(seen)


# -- into another directory ------------------------------------------------------------


@pytest.mark.parametrize("code", mostly_slow([errno.ENOSPC, errno.EIO, errno.EROFS], fast=1))
def test_an_error_at_each_call_leaves_no_half_export(model: Path, tmp_path: Path, code: int) -> None:
    (model.parent / "config.json").write_text("{}")
    (model.parent / "sub").mkdir()
    output = tmp_path / "a" / "out"
    before = {path: path.stat().st_ino for path in model.parent.rglob("*")}
    hit = set()
    for faults, error in runs(lambda: save_export(model.parent, [FileChange(model, NEW, OLD)], output), failing(code)):
        hit.add(faults.hit)
        where = f"{faults.hit}, call {faults.at}: {error}"
        assert {path: path.stat().st_ino for path in model.parent.rglob("*")} == before
        assert model.read_bytes() == OLD
        assert model.with_suffix(".bin").read_bytes() == b"weights"
        if error is None:
            assert (output / "openvino_model.xml").read_bytes() == NEW, where
            assert (output / "openvino_model.bin").read_bytes() == b"weights", where
            assert (output / "config.json").read_text() == "{}", where
            assert (output / "sub").is_dir(), where
            for path in sorted(output.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            output.rmdir()
            output.parent.rmdir()
        else:
            assert isinstance(error, SaveError), where
            assert not output.parent.exists(), where
    assert {"open", "write", "fsync", "replace", "mkdir", "scandir"} <= hit
