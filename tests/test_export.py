"""Changing an export through the Python API."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import irtools
from irtools.errors import AnnotationDiffersError, CheckError, ExportError, SaveError
from irtools.ir.rt_info import ANNOTATION_KEY, set_entry
from irtools.model.document import Document

ExportCopy = Callable[..., Path]


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_annotate_save_strip_save_restores_every_byte(export_copy: ExportCopy) -> None:
    directory = export_copy("falcon")
    before = contents(directory)
    weights = (directory / "openvino_model.bin").stat()
    export = irtools.open_export(directory)
    assert export.target.annotation is None
    patch = export.annotate()
    assert contents(directory) == before, "nothing is written before save"
    (saved,) = export.save()
    assert saved.path == directory / "openvino_model.xml"
    assert export.target.annotation == patch.new
    assert {name for name, content in contents(directory).items() if content != before[name]} == {"openvino_model.xml"}
    assert export.save() == ()
    export.strip()
    export.save()
    assert export.target.annotation is None
    assert contents(directory) == before
    after = (directory / "openvino_model.bin").stat()
    assert (after.st_ino, after.st_mtime_ns) == (weights.st_ino, weights.st_mtime_ns)


def test_an_equal_annotation_is_not_written_again(export_copy: ExportCopy) -> None:
    directory = export_copy("qwen3_5_vl")
    path = directory / "openvino_language_model.xml"
    before = path.stat()
    export = irtools.open_export(directory)
    assert export.annotate().status == "unchanged"
    assert export.save() == ()
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_complete_export_elsewhere_leaves_this_one_alone(export_copy: ExportCopy, tmp_path: Path) -> None:
    directory = export_copy("qwen3")
    before = contents(directory)
    export = irtools.open_export(directory)
    export.strip()
    (saved,) = export.save(tmp_path / "out")
    assert contents(directory) == before
    assert contents(tmp_path / "out") == before | {saved.path.name: saved.path.read_bytes()}
    assert irtools.open_export(tmp_path / "out").target.annotation is None


def test_another_annotation_is_kept_unless_forced(export_copy: ExportCopy) -> None:
    directory = export_copy("qwen3")
    path = directory / "openvino_model.xml"
    path.write_bytes(set_entry(Document(path).scan, ANNOTATION_KEY, '{"layers":{}}'))
    export = irtools.open_export(directory)
    with pytest.raises(AnnotationDiffersError):
        export.annotate()
    assert export.save() == ()
    assert export.annotate(force=True).old == '{"layers":{}}'
    export.save()
    assert irtools.open_export(directory).annotate().status == "unchanged"


def test_a_file_that_the_runtime_rejects_is_not_written(export_copy: ExportCopy) -> None:
    directory = export_copy("falcon")
    (directory / "openvino_model.bin").write_bytes(b"short")
    before = contents(directory)
    export = irtools.open_export(directory)
    export.annotate()
    with pytest.raises(CheckError):
        export.save()
    assert contents(directory) == before
    (saved,) = export.save(check=False)
    assert Document(saved.path).annotation is not None


@pytest.fixture
def two_targets(export_copy: ExportCopy) -> Path:
    """An export with a second part that has a decoder stack and its own weights."""
    directory = export_copy("falcon")
    for suffix in (".xml", ".bin"):
        file = directory / f"openvino_model{suffix}"
        file.with_stem("openvino_other_model").write_bytes(file.read_bytes())
    return directory


def test_nothing_is_written_before_all_are_checked(two_targets: Path) -> None:
    export = irtools.open_export(two_targets)
    (two_targets / "openvino_other_model.bin").unlink()
    before = contents(two_targets)
    for part in ("target", "other"):
        export.annotate(part)
    for _ in range(2):
        with pytest.raises(CheckError, match=r"openvino_other_model\.bin: the weights are missing"):
            export.save()
        assert contents(two_targets) == before
    assert [saved.path.name for saved in export.save(check=False)] == ["openvino_model.xml", "openvino_other_model.xml"]


def test_after_a_failure_the_next_save_writes_what_is_left(two_targets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export = irtools.open_export(two_targets)
    wanted = [export.annotate(part).data for part in ("target", "other")]
    files = [two_targets / "openvino_model.xml", two_targets / "openvino_other_model.xml"]
    original = files[1].read_bytes()
    real = os.replace

    def failing(source: Path, target: Path) -> None:
        if Path(target) == files[1]:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failing)
        with pytest.raises(SaveError, match=r"openvino_other_model\.xml: .* \(the old file is unchanged\)"):
            export.save(check=False)
    assert [file.read_bytes() for file in files] == [wanted[0], original]
    assert export.target.data == wanted[0], "it is read again"
    assert [saved.path for saved in export.save(check=False)] == [files[1]]
    assert [file.read_bytes() for file in files] == wanted
    assert export.save() == ()


def test_a_file_whose_directory_could_not_be_flushed_counts_as_written(
    export_copy: ExportCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = irtools.open_export(export_copy("falcon"))
    patch = export.annotate()
    real = os.fsync

    def failing(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(handle)

    with monkeypatch.context() as faults:
        faults.setattr(os, "fsync", failing)
        with pytest.raises(SaveError, match=r"was written, but .* \(the new file is there\)"):
            export.save(check=False)
    assert patch.path.read_bytes() == patch.data
    assert export.save() == ()


def test_a_part_that_is_not_there_is_an_error(export_copy: ExportCopy) -> None:
    with pytest.raises(ExportError):
        irtools.open_export(export_copy("falcon")).annotate("mtp")


AUDIT = """
import sys
opened = []

def hook(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        opened.append((str(path), flags & 3))
    elif event in ("os.rename", "os.remove", "os.truncate", "os.chmod", "os.chown", "os.utime", "os.link"):
        opened.extend((str(argument), 1) for argument in arguments if not isinstance(argument, (int, float)))

import irtools
from irtools.ir import save, listing
from irtools.surgery.annotate import annotate
sys.addaudithook(hook)
export = irtools.open_export(sys.argv[1])
export.annotate()
export.save()
export.strip()
export.save()
print([path for path, access in opened if access and ".bin" in path])
print(any(access and ".xml" in path for path, access in opened))
"""


def test_weights_are_never_opened_for_writing(export_copy: ExportCopy) -> None:
    run = subprocess.run(
        [sys.executable, "-c", AUDIT, str(export_copy("falcon"))], capture_output=True, text=True, check=True
    )
    assert run.stdout == "[]\nTrue\n"
