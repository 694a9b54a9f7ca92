"""Commands with what Windows lacks taken away: the same bytes, or one sentence and the old file."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from irtools.errors import IrtoolsError, SaveError
from irtools.export import Export, open_export
from irtools.ir import files, save
from irtools.ir.listing import link_file
from irtools.ir.mistaken import file_instead, missing_instead

LACKING = (
    *("O_DIRECTORY", "O_NOFOLLOW", "fchown", "fchmod", "geteuid", "getegid", "pread"),
    *("listxattr", "getxattr", "setxattr"),
)


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Take away what Windows lacks; symbolic links need a privilege there."""
    monkeypatch.setattr(save, "fcntl", None)
    monkeypatch.setattr(shutil, "_copyxattr", lambda *_, **__: None)
    for name in LACKING:
        monkeypatch.delattr(os, name, raising=False)

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EINVAL, "A required privilege is not held by the client")

    monkeypatch.setattr(os, "symlink", refused)
    return monkeypatch


def mapped(patch: pytest.MonkeyPatch, path: Path) -> None:
    """Another process has mapped the file: it can be read, but neither replaced nor removed."""

    def guard(real: Callable[..., Any], at: int) -> Callable[..., Any]:
        def call(*names: Any, **options: Any) -> Any:
            if Path(names[at]) == path:
                error = PermissionError(errno.EACCES, "The process cannot access the file because it is being used")
                error.winerror = 32  # type: ignore[attr-defined]
                raise error
            return real(*names, **options)

        return call

    for name, at in (("replace", 1), ("rename", 1), ("unlink", 0), ("remove", 0)):
        patch.setattr(os, name, guard(getattr(os, name), at))


def edits(path: Path) -> list[Callable[[], object]]:
    def saved(edit: Callable[[Export], object]) -> None:
        export = open_export(path)
        edit(export)
        export.save(check=False)

    return [partial(saved, Export.annotate), partial(saved, lambda export: export.expose("last"))]


def test_annotate_and_strip_restore_the_bytes(export_copy: Callable[..., Path], windows: pytest.MonkeyPatch) -> None:
    path = export_copy("falcon")
    xml = path / "openvino_model.xml"
    old = xml.read_bytes()
    export = open_export(path)
    export.annotate()
    export.save(check=False)
    assert xml.read_bytes() != old
    export = open_export(path)
    export.strip()
    export.save(check=False)
    assert xml.read_bytes() == old
    assert sorted(file.name for file in path.iterdir() if file.name.startswith(".")) == []


def test_without_locks_a_temporary_file_may_belong_to_a_running_command(
    export_copy: Callable[..., Path], windows: pytest.MonkeyPatch
) -> None:
    path = export_copy("falcon") / "openvino_model.xml"
    left = files.beside(path)
    left.touch()
    with save.lock(path) as locked:
        assert not locked
    for edit in edits(path.parent):
        edit()
    assert left.exists()
    windows.undo()
    with save.lock(path) as locked:
        assert locked
    stripped = open_export(path.parent)
    stripped.strip()
    stripped.save(check=False)
    assert not left.exists()


def test_a_mapped_xml_stays_and_the_error_says_so(
    export_copy: Callable[..., Path], windows: pytest.MonkeyPatch
) -> None:
    path = export_copy("falcon")
    xml = path / "openvino_model.xml"
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    mapped(windows, xml)
    for edit in edits(path):
        with pytest.raises(SaveError, match=r"being used.*; close the programs that have it open"):
            edit()
        assert {file.name: file.read_bytes() for file in path.iterdir()} == before


def test_a_mapped_bin_does_not_matter_to_edits_of_the_xml(
    export_copy: Callable[..., Path], windows: pytest.MonkeyPatch
) -> None:
    path = export_copy("falcon")
    mapped(windows, path / "openvino_model.bin")
    for edit in edits(path):
        edit()


@pytest.mark.parametrize("linked", [True, False])
def test_a_complete_export_with_and_without_hard_links(
    export_copy: Callable[..., Path], windows: pytest.MonkeyPatch, tmp_path: Path, linked: bool
) -> None:
    if not linked:

        def refused(*_: object, **__: object) -> None:
            raise OSError(errno.EPERM, "Incorrect function")

        windows.setattr(os, "link", refused)
    path, out = export_copy("falcon"), tmp_path / "out"
    export = open_export(path)
    export.annotate()
    export.save(out, check=False)
    assert {file.name for file in out.iterdir()} == {file.name for file in path.iterdir()}
    assert (out / "openvino_model.bin").read_bytes() == (path / "openvino_model.bin").read_bytes()
    assert (out / "openvino_model.bin").samefile(path / "openvino_model.bin") is linked


def test_pieces_and_draft_heads(export_copy: Callable[..., Path], windows: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = export_copy("qwen3_5_vl_trained")
    old = (path / "openvino_language_model.xml").read_bytes()
    open_export(path).extract(tmp_path / "piece", layers="1", check=False)
    assert (tmp_path / "piece" / "openvino_model.bin").stat().st_size > 0
    for change in ("graft", "ungraft"):
        export = open_export(path)
        getattr(export, change)(*((128,) if change == "graft" else ()))
        export.save(check=False)
    assert (path / "openvino_language_model.xml").read_bytes() == old


def test_crlf_files_keep_their_line_ends(export_copy: Callable[..., Path], windows: pytest.MonkeyPatch) -> None:
    path = export_copy("falcon")
    xml = path / "openvino_model.xml"
    crlf = xml.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    xml.write_bytes(crlf)
    for name in ("annotate", "strip"):
        export = open_export(path)
        getattr(export, name)()
        export.save(check=False)
        if name == "annotate":
            assert open_export(path).verify(select=["IR", "HID"]).findings == ()
    assert xml.read_bytes() == crlf


def test_a_reserved_name_is_refused_with_a_sentence(
    export_copy: Callable[..., Path], windows: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = os.mkdir

    def mkdir(path: Any, *rest: Any, **options: Any) -> None:
        if Path(path).name.upper() in ("CON", "NUL", "AUX"):
            raise NotADirectoryError(errno.ENOTDIR, "The directory name is invalid", str(path))
        real(path, *rest, **options)

    windows.setattr(os, "mkdir", mkdir)
    export = open_export(export_copy("falcon"))
    export.annotate()
    with pytest.raises(IrtoolsError, match="directory name is invalid"):
        export.save(tmp_path / "nul", check=False)


def test_links_become_hard_links_or_copies(windows: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"weights")
    link_file(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").samefile(tmp_path / "a")

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Incorrect function")

    windows.setattr(os, "link", refused)
    link_file(tmp_path / "a", tmp_path / "c")
    assert (tmp_path / "c").read_bytes() == b"weights"


@pytest.mark.parametrize("page", ["cp437", "cp1252"])
def test_consoles_with_a_code_page(export_copy: Callable[..., Path], page: str) -> None:
    path = export_copy("falcon")
    named = path.with_name("模型 é")
    path.rename(named)
    xml = named / "openvino_model.xml"
    xml.write_bytes(xml.read_bytes().replace(b"__module.transformer.ln_f/aten::layer_norm/MVN", "层 é".encode()))
    for arguments in (("locate",), ("verify",)):
        done = subprocess.run(
            [sys.executable, "-m", "irtools", *arguments, str(named)],
            env={**os.environ, "PYTHONIOENCODING": page, "PYTHONUTF8": "0"},
            capture_output=True,
        )
        assert done.returncode in (0, 1), done.stderr
        assert b"Traceback" not in done.stderr
        done.stdout.decode(page)


def test_drive_letters_and_backslashes_are_no_urls() -> None:
    for text in (r"C:\models\my-model", "C:/models/my-model", r"..\my-model", r"\\server\share\model"):
        assert missing_instead(Path(text)) == "", text
    assert "optimum-cli export openvino --model Qwen/Qwen3-0.6B" in missing_instead(
        Path("https://huggingface.co/Qwen/Qwen3-0.6B")
    )
    assert "GGUF" in file_instead(Path(r"C:\models\x.gguf"))
