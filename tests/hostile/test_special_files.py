"""Special and enormous files in an export: a sentence or a finding, in time and in memory."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from irtools.errors import EditError, ExportError
from irtools.ir.reading import KINDS, kind_of, read_file, read_json, read_limit, set_read_limit
from irtools.surgery.graft.directory import token_file
from tests.cli.conftest import Done
from tests.hostile.conftest import FILES, replace

Run = Callable[..., Done]
TEXTS = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


@pytest.mark.parametrize("kind", FILES)
def test_texts(run: Run, export_copy: Callable[..., Path], kind: str) -> None:
    export = export_copy("falcon")
    for name in TEXTS:
        replace(export / name, kind)
    assert "config.json" in run("verify", export).out
    run("inspect", export)


@pytest.mark.parametrize("kind", FILES)
def test_parts(run: Run, export_copy: Callable[..., Path], kind: str) -> None:
    export = export_copy("falcon")
    replace(export / "openvino_model.xml", kind)
    replace(export / "openvino_tokenizer.bin", kind)
    assert "openvino_model.xml" in run("verify", export, codes=(1, 2)).out
    assert "openvino_model.xml" in run("inspect", export, codes=(2,)).err
    assert "openvino_model.xml" in run("annotate", export, codes=(2,)).err


@pytest.mark.parametrize("kind", FILES)
def test_files_of_options(run: Run, export_copy: Callable[..., Path], tmp_path: Path, kind: str) -> None:
    export, special = export_copy("falcon"), tmp_path / "special"
    FILES[kind](special)
    if kind != "empty":
        with pytest.raises((EditError, ExportError), match="special"):
            token_file(special)
    calls = [("prove", export, "--compare", special)]
    if kind not in ("zeros", "number"):  # these are lines of text, so they are prompts
        calls.append(("prove", export, "--prompts", special))
    for arguments in calls:
        done = run(*arguments, codes=(2,))
        assert "special" in done.err
        assert done.err.count("\n") == 1, done.err


def test_a_file_is_not_read_before_its_size_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, kind in (("a.xml", "xml"), ("config.json", "json"), ("tokenizer.json", "tokenizer"), ("a.toml", "toml")):
        path = tmp_path / name
        path.touch()
        os.truncate(path, KINDS[kind].size + 1)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert kind_of(path) == kind
        with pytest.raises(OSError, match=r"and irtools reads at most .*--read-limit"):
            read_file(path)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


def test_small_values_count_too(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("[" + "[]," * 1_100_000 + "[]]")
    with pytest.raises(OSError, match="too many elements"):
        read_json(path)


def test_the_option_raises_the_ceilings(run: Run, export_copy: Callable[..., Path]) -> None:
    export = export_copy("falcon")
    config = (export / "config.json").read_text()
    (export / "config.json").write_text(" " * (17 << 20) + config)
    assert "irtools reads at most 16.0 MiB of a JSON file" in run("inspect", export, codes=(2,)).err
    run("--read-limit", "20MiB", "inspect", export, codes=(0,))
    assert "16.0 MiB" in run("inspect", export, codes=(2,)).err  # only for that run
    set_read_limit(1 << 30)
    assert read_limit("xml").size == 1 << 30
    assert read_limit("xml").elements == 2 * KINDS["xml"].elements


def test_files_of_proc_have_no_size_but_a_content() -> None:
    assert b"Name:" in read_file(Path("/proc/self/status"))
