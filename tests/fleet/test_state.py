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
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from irtools.errors import IrtoolsError, SaveError, UsageError
from irtools.fleet import pool
from irtools.fleet.key import keys
from irtools.fleet.state import State, resumed

ROWS = [("a", "1", {"findings": [1, None, "\udc80 ü"]}), ("b", "2", [0.1, True]), ("c", "3", "x" * 100)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state.jsonl"


@pytest.fixture
def filled(file: Path) -> Path:
    with State(file) as state:
        for path, key, row in ROWS:
            state.remember(path, key, row)
    return file


def rows(file: Path) -> list[object]:
    with State(file) as state:
        return [state.known(path, key) for path, key, _ in ROWS]


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
        assert rows(filled) == [row for *_, row in ROWS]

    def test_only_the_last_row_of_a_path_with_its_key_counts(self, filled: Path) -> None:
        with State(filled) as state:
            state.remember("a", "new", 5)
            assert (state.known("a", "1"), state.known("a", "new")) == (None, 5)
        with State(filled) as state:
            assert (state.known("a", "1"), state.known("a", "new"), state.known("a", "")) == (None, 5, None)

    def test_every_line_is_json(self, filled: Path) -> None:
        head, *lines = map(json.loads, filled.read_text().splitlines())
        assert head["irtools_state"] == 1
        assert [line["row"] for line in lines] == [row for *_, row in ROWS]

    def test_a_kill_at_any_byte_costs_the_last_row_at_most(self, filled: Path) -> None:
        whole = filled.read_bytes()
        last = len(whole.splitlines(keepends=True)[-1])
        for size in range(len(whole) - last, len(whole)):
            filled.write_bytes(whole[:size])
            assert rows(filled) == [ROWS[0][2], ROWS[1][2], None]
            with State(filled) as state:
                state.remember(*ROWS[2])
            assert filled.read_bytes() == whole

    def test_a_killed_process_leaves_every_row_that_it_remembered(self, file: Path) -> None:
        code = """
            import os, signal, sys
            from pathlib import Path
            from irtools.fleet.state import State
            state = State(Path(sys.argv[1]))
            for path, key in ("a1", "b2", "c3"):
                state.remember(path, key, key)
            os.kill(os.getpid(), signal.SIGKILL)
        """
        process = subprocess.run([sys.executable, "-c", textwrap.dedent(code), file], check=False)
        assert process.returncode == -signal.SIGKILL
        assert rows(file) == ["1", "2", "3"]

    def test_no_damaged_byte_gives_a_wrong_row(self, filled: Path) -> None:
        whole = filled.read_bytes()
        for at in range(len(whole.splitlines(keepends=True)[0]), len(whole)):
            filled.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            try:
                assert all(found in (row, None) for found, (*_, row) in zip(rows(filled), ROWS, strict=True))
            except UsageError as error:
                assert "the state is damaged" in str(error)  # noqa: PT017

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
        with State(filled) as state, pytest.raises(UsageError, match="the row of b cannot be read"):
            state.known("b", "2", lambda row: row["path"])

    def test_special_files_are_refused_without_waiting(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        for path in (tmp_path / "pipe", tmp_path, Path("/dev/null"), tmp_path / "no" / "such"):
            with pytest.raises(IrtoolsError):
                State(path)

    def test_an_empty_file_becomes_a_state(self, file: Path) -> None:
        file.touch()
        with State(file) as state:
            state.remember("a", "1", 1)
        assert rows(file) == [1, None, None]

    def test_two_runs_at_the_same_time_are_refused(self, filled: Path) -> None:
        with State(filled), pytest.raises(SaveError, match="another irtools is at work on it"):
            State(filled)
        assert rows(filled) == [row for *_, row in ROWS]

    def test_a_full_disk_leaves_the_file_as_it_was(self, filled: Path) -> None:
        before = filled.read_bytes()
        with State(filled) as state, file_size_limit(len(before) + 50):
            with pytest.raises(SaveError, match="the state cannot be written"):
                state.remember("d", "4", "y" * 1000)
            assert filled.read_bytes() == before
            assert state.known("d", "4") is None
        assert rows(filled) == [row for *_, row in ROWS]

    def test_outdated_rows_do_not_pile_up(self, filled: Path) -> None:
        with State(filled) as state:
            for number in range(1100):
                state.remember("a", str(number), number)
        assert len(filled.read_bytes().splitlines()) > 1100
        with State(filled) as state:
            assert (state.known("a", "1099"), state.known("b", "2")) == (1099, ROWS[1][2])
            state.remember("d", "4", 4)
        assert len(filled.read_bytes().splitlines()) == 5
        with State(filled) as state:
            assert (state.known("c", "3"), state.known("d", "4")) == (ROWS[2][2], 4)


@dataclass(frozen=True)
class Options:
    select: tuple[str, ...] = ()
    draft: Path | None = None
    levels: dict[str, int] = field(default_factory=dict)
    _cache: object = None


class TestKeys:
    @pytest.fixture
    def export(self, export_copy: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
        monkeypatch.chdir(tmp_path)
        return export_copy("llama")

    def test_reading_changes_nothing(self, export: Path) -> None:
        before = keys(Options())(str(export))
        (export / "openvino_model.xml").read_bytes()
        assert before
        assert keys(Options(_cache=object()))(str(export)) == before

    @pytest.mark.parametrize(
        "change",
        [
            lambda export: (export / "config.json").write_text("{}"),
            lambda export: os.utime(export / "openvino_model.bin", ns=(5, 5)),
            lambda export: (export / "more").write_text(""),
            lambda export: (export / "config.json").unlink(),
            lambda export: shutil.move(export / "config.json", export / "konfig.json"),
            lambda export: (export.parent / "irtools.toml").write_text("ignore = ['IR']"),
        ],
        ids=["content", "time", "new", "deleted", "renamed", "configuration"],
    )
    def test_a_change_counts(self, export: Path, change: Callable[[Path], object]) -> None:
        before = keys()(str(export))
        change(export)
        assert keys()(str(export)) not in (before, "")

    def test_the_content_of_an_xml_counts_where_size_and_time_stay(self, export: Path) -> None:
        xml = export / "openvino_model.xml"
        before, status = keys()(str(export)), xml.stat()
        xml.write_bytes(xml.read_bytes().replace(b"Model", b"model", 1))
        os.utime(xml, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert (xml.stat().st_size, xml.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
        assert keys()(str(export)) != before

    def test_options_count_and_the_files_that_they_name(self, export: Path, tmp_path: Path) -> None:
        draft, config = tmp_path / "draft", tmp_path / "other.toml"
        draft.mkdir()
        (draft / "config.json").write_text("{}")
        (tmp_path / "known").write_text("1")
        config.write_text("baseline = 'known'")
        values = [Options(), Options(("IR",)), Options(draft=draft), Options(draft=config), Options(levels={"IR": 1})]

        def told() -> list[str]:
            return [keys(one)(str(export)) for one in values]

        before = told()
        assert len(set(before)) == len(values)
        (draft / "config.json").write_text("{ }")
        (tmp_path / "known").write_text("10")
        after = told()
        assert [old == new for old, new in zip(before, after, strict=True)] == [True, True, False, False, True]

    def test_another_version_of_irtools_counts(self, export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        before = keys()(str(export))
        monkeypatch.setattr("irtools.fleet.key.installed", lambda: {"irtools": "9.9"})
        assert keys()(str(export)) != before

    def test_the_spelling_counts_because_it_is_in_the_row(self, export: Path) -> None:
        assert keys()(str(export)) != keys()(f"{export.name}/")

    def test_an_export_in_a_folder_of_another_does_not_count_there(self, export: Path) -> None:
        (export / "notes").mkdir()
        before = keys()(str(export))
        (export / "notes" / "inner").mkdir()
        shutil.copy(export / "openvino_model.xml", export / "notes" / "inner")
        assert keys()(str(export)) == before
        (export / "notes" / "text").touch()
        assert keys()(str(export)) != before

    def test_the_state_itself_does_not_count(self, export: Path) -> None:
        key = keys(without=export / "state")
        before = key(str(export))
        (export / "state").write_text("1")
        assert key(str(export)) == before != keys()(str(export))

    def test_what_cannot_be_told_has_no_key(self, export: Path, tmp_path: Path) -> None:
        assert keys()("https://host/model") == ""
        assert keys()(str(tmp_path / "none")) == ""
        (export / "loop").symlink_to("loop")
        assert keys()(str(export)) == ""
        (export / "loop").unlink()
        (export / "dangling").symlink_to("nowhere")
        assert keys()(str(export))


class TestResumed:
    def test_only_what_changed_is_computed_and_all_rows_come_back(self, filled: Path, tmp_path: Path) -> None:
        exports = [tmp_path / name for name in "abcdef"]
        for export in exports:
            export.mkdir()
            (export / "openvino_model.xml").write_text(export.name)
        calls: list[str] = []

        def unit(path: str) -> dict[str, str]:
            calls.append(Path(path).name)
            if path.endswith("d"):
                raise OSError(28, "No space left on device")
            return {"text": (Path(path) / "openvino_model.xml").read_text()}

        def run() -> list[tuple[int, str, object, bool]]:
            calls.clear()
            with State(filled) as state:
                outcomes = resumed(
                    state,
                    partial(pool.run, unit),
                    map(str, exports),
                    keys(),
                    check=lambda row: row["text"],
                    failed=pytest.fail,
                )
                found = [(one.number, one.path[-1], one.row, one.failure is None) for one in outcomes]
            return sorted(found)

        first = run()
        assert calls == list("abcdef")
        assert run() == first
        assert calls == ["d"]
        (exports[1] / "openvino_model.xml").write_text("new")
        second = run()
        assert calls == ["b", "d"]
        assert second[1] == (1, "b", {"text": "new"}, True)
        assert [*second[:1], *second[2:]] == [*first[:1], *first[2:]]

    def test_a_unit_that_writes_is_not_repeated(self, file: Path, tmp_path: Path) -> None:
        (tmp_path / "export").mkdir()
        calls = []

        def unit(path: str) -> str:
            calls.append(path)
            (Path(path) / "openvino_model.xml").write_text("annotated")
            return "written"

        for _ in range(2):
            with State(file) as state:
                done = resumed(
                    state,
                    partial(pool.run, unit),
                    [str(tmp_path / "export")],
                    keys(),
                    check=str,
                    writes=True,
                    failed=pytest.fail,
                )
                assert [one.row for one in done] == ["written"]
        assert len(calls) == 1

    def test_a_full_disk_costs_the_state_and_no_result(self, file: Path, tmp_path: Path) -> None:
        for name in "abc":
            (tmp_path / name).mkdir()
        errors: list[SaveError] = []
        with State(file) as state, file_size_limit(file.stat().st_size + 200):
            paths = [str(tmp_path / name) for name in "abc"]
            done = resumed(state, partial(pool.run, lambda _: "x" * 90), paths, keys(), check=len, failed=errors.append)
            assert [one.row for one in done] == ["x" * 90] * 3
        assert len(errors) == 1
        assert "the state cannot be written" in str(errors[0])
