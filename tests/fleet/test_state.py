"""Rows of earlier runs: which of them count, and that no kill, fault or stranger spoils the file."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from irtools.errors import IrtoolsError, SaveError, UsageError
from irtools.fleet.state import State

ROWS = {"a": {"findings": [1, None, "\udc80 ü"]}, "b": [0.1, True], "c": "x" * 100}
LAST = "c"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state that does not exist yet, beside the exports of ``ROWS``."""
    monkeypatch.chdir(tmp_path)
    for name in ROWS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "openvino_model.xml").write_text(name)
    return tmp_path / "state.jsonl"


@pytest.fixture
def filled(file: Path) -> Path:
    with State(file) as state:
        for path, row in ROWS.items():
            keep(state, path, row)
    return file


def keep(state: State, path: str, row: object, options: str = "") -> None:
    state.known(path, options)
    state.remember(path, options, row)


def rows(file: Path) -> dict[str, object]:
    with State(file) as state:
        return {path: row for path in ROWS if (row := state.known(path, "")) is not None}


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """As on a full disk: the kernel refuses to write beyond a size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)


class TestFile:
    def test_rows_come_back_as_they_were(self, filled: Path) -> None:
        assert rows(filled) == ROWS

    def test_only_the_last_row_counts(self, filled: Path) -> None:
        with State(filled) as state:
            keep(state, "a", 5)
            assert state.known("a", "") == 5
        assert rows(filled) == {**ROWS, "a": 5}

    def test_other_options_are_other_work(self, filled: Path) -> None:
        with State(filled) as state:
            assert state.known("a", "--select IR") is None
            state.remember("a", "--select IR", 7)
        with State(filled) as state:
            assert (state.known("a", ""), state.known("a", "--select IR")) == (ROWS["a"], 7)

    def test_every_line_is_json(self, filled: Path) -> None:
        head, *lines = map(json.loads, filled.read_text().splitlines())
        assert head["irtools_state"] == 1
        assert {line["path"]: line["row"] for line in lines} == ROWS

    def test_a_kill_at_any_byte_costs_the_last_row_at_most(self, filled: Path) -> None:
        whole = filled.read_bytes()
        last = len(whole.splitlines(keepends=True)[-1])
        for size in range(len(whole) - last, len(whole)):
            filled.write_bytes(whole[:size])
            assert rows(filled) == {path: row for path, row in ROWS.items() if path != LAST}
        with State(filled) as state:
            keep(state, LAST, ROWS[LAST])
        assert filled.read_bytes() == whole

    def test_a_killed_process_leaves_every_row_that_it_remembered(self, file: Path) -> None:
        code = """
            import os, signal, sys
            from pathlib import Path
            from irtools.fleet.state import State
            state = State(Path(sys.argv[1]))
            for path in "abc":
                assert state.known(path, "") is None
                state.remember(path, "", path)
            os.kill(os.getpid(), signal.SIGKILL)
        """
        process = subprocess.run([sys.executable, "-c", textwrap.dedent(code), file], check=False)
        assert process.returncode == -signal.SIGKILL
        assert rows(file) == {path: path for path in "abc"}

    def test_no_damaged_byte_gives_a_wrong_row(self, filled: Path) -> None:
        whole = filled.read_bytes()
        for at in range(len(whole.splitlines(keepends=True)[0]), len(whole), 3):
            filled.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            try:
                found = rows(filled)
            except UsageError as error:
                assert "the state is damaged" in str(error)  # noqa: PT017
            else:
                assert found.items() <= ROWS.items()

    @pytest.mark.parametrize("content", [b"\0" * 5000, b"{}\n", b'{"schema_version": 1}\n', b"<net/>\n", b"[" * 10**6])
    def test_a_foreign_file_is_refused_and_kept(self, file: Path, content: bytes) -> None:
        file.write_bytes(content)
        with pytest.raises(UsageError, match="is not a state of irtools"):
            State(file)
        assert file.read_bytes() == content

    def test_a_newer_state_is_refused_and_kept(self, filled: Path) -> None:
        content = filled.read_bytes().replace(b'"irtools_state": 1', b'"irtools_state": 2')
        filled.write_bytes(content)
        with pytest.raises(UsageError, match="version 2, and this irtools reads version 1"):
            State(filled)
        assert filled.read_bytes() == content

    def test_a_row_of_a_wrong_form_is_damage(self, filled: Path) -> None:
        with State(filled, lambda row: row["path"]) as state, pytest.raises(UsageError, match="the row of b"):
            state.known("b", "")

    def test_special_files_are_refused_without_waiting(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        for path in (tmp_path / "pipe", tmp_path, Path("/dev/null"), tmp_path / "no" / "such"):
            with pytest.raises(IrtoolsError):
                State(path)

    def test_an_empty_file_becomes_a_state(self, file: Path) -> None:
        file.touch()
        with State(file) as state:
            keep(state, "a", 1)
        assert rows(file) == {"a": 1}

    def test_two_runs_at_the_same_time_are_refused(self, filled: Path) -> None:
        with State(filled), pytest.raises(SaveError, match="another irtools process is working on it"):
            State(filled)
        assert rows(filled) == ROWS

    def test_a_full_disk_ends_the_remembering_and_nothing_else(self, filled: Path) -> None:
        before = filled.read_bytes()
        with State(filled) as state, file_size_limit(len(before) + 50):
            keep(state, "a", "y" * 1000)
            assert "the state cannot be written: file too large" in str(state.failure)
            assert filled.read_bytes() == before
            keep(state, "b", 0)
        assert rows(filled) == ROWS

    def test_outdated_rows_do_not_pile_up(self, filled: Path) -> None:
        with State(filled) as state:
            for number in range(1100):
                keep(state, "a", number)
        assert len(filled.read_bytes().splitlines()) > 1100
        with State(filled) as state:
            keep(state, "b", 4)
        assert len(filled.read_bytes().splitlines()) == 5
        assert rows(filled) == {**ROWS, "a": 1099, "b": 4}


class TestChanges:
    @pytest.fixture
    def export(self, export_copy: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
        monkeypatch.chdir(tmp_path)
        return export_copy("llama")

    @pytest.fixture
    def kept(self, export: Path, tmp_path: Path) -> Iterator[Callable[[], object]]:
        """Asks for the row of an export, which was remembered as 1."""
        with State(tmp_path / "state") as state:
            keep(state, str(export), 1)
            yield lambda: state.known(str(export), "")

    def test_reading_changes_nothing(self, export: Path, kept: Callable[[], object]) -> None:
        (export / "openvino_model.xml").read_bytes()
        assert kept() == 1

    @pytest.mark.parametrize(
        "change",
        [
            lambda export: (export / "config.json").write_text("{}"),
            lambda export: os.utime(export / "openvino_model.bin", ns=(5, 5)),
            lambda export: (export / "more").write_text(""),
            lambda export: (export / "config.json").unlink(),
            lambda export: shutil.move(export / "config.json", export / "konfig.json"),
            lambda export: (export / "folder").mkdir() or (export / "folder" / "file").touch(),
            shutil.rmtree,
        ],
        ids=["content", "time", "new", "deleted", "renamed", "folder", "all"],
    )
    def test_a_change_counts(self, export: Path, kept: Callable[[], object], change: Callable[[Path], Any]) -> None:
        change(export)
        assert kept() is None

    def test_the_content_of_an_xml_counts_where_size_and_time_stay(
        self, export: Path, kept: Callable[[], object]
    ) -> None:
        xml = export / "openvino_model.xml"
        status = xml.stat()
        xml.write_bytes(xml.read_bytes().replace(b"Model", b"model", 1))
        os.utime(xml, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert (xml.stat().st_size, xml.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
        assert kept() is None

    def test_another_version_counts(self, kept: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("irtools.fleet.state.installed", lambda: {"irtools": "9.9"})
        assert kept() is None

    def test_the_spelling_counts_because_it_is_in_the_row(self, export: Path, tmp_path: Path) -> None:
        with State(tmp_path / "state") as state:
            keep(state, str(export), 1)
            assert (state.known(export.name, ""), state.known(str(export), "")) == (None, 1)

    def test_an_export_in_a_folder_of_another_does_not_count_there(
        self, export: Path, kept: Callable[[], object]
    ) -> None:
        inner = export / "inner"
        inner.mkdir()
        shutil.copy(export / "openvino_model.xml", inner)
        assert kept() == 1

    def test_a_change_during_the_work_counts(self, export: Path, tmp_path: Path) -> None:
        with State(tmp_path / "state") as state:
            state.known(str(export), "")
            (export / "config.json").write_text("{}")
            state.remember(str(export), "", 1)
            assert state.known(str(export), "") is None
            (export / "config.json").write_text("{ }")
            state.remember(str(export), "", 2, written=True)
            assert state.known(str(export), "") == 2

    def test_the_state_itself_does_not_count(self, export: Path) -> None:
        with State(export / "state") as state:
            keep(state, str(export), 1)
            keep(state, "elsewhere", 2)
            assert state.known(str(export), "") == 1

    @pytest.mark.parametrize("path", ["https://host/model", "missing", "loop"])
    def test_what_cannot_be_told_is_not_kept(self, file: Path, path: str) -> None:
        Path("loop").mkdir()
        Path("loop/file").symlink_to("file")
        with State(file) as state:
            keep(state, path, 1)
            assert state.known(path, "") is None
