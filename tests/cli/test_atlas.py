"""``irtools atlas``, and the page of ``irtools verify`` about several exports."""

from __future__ import annotations

import csv
import json
import re
import shutil
import zlib
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import irtools
from irtools.report.json import schema
from tests.cli.conftest import Done

Cli = Callable[..., Done]


def packed(page: Path) -> Any:
    """Data of the table on the page."""
    found = re.search(r'id="rows">([^<]*)<', page.read_text("utf-8"))
    assert found is not None
    return json.loads(zlib.decompress(b64decode(found[1]), -zlib.MAX_WBITS))


@pytest.fixture(scope="module")
def folder(fixtures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four exports at several depths, of which one is damaged, beside what is no export."""
    root = tmp_path_factory.mktemp("exports")
    shutil.copytree(fixtures / "qwen3_dflash", root / "drafts" / "dflash")
    shutil.copytree(fixtures / "bert", root / "bert")
    shutil.copytree(fixtures / "falcon", root / "falcon")
    shutil.copytree(fixtures / "bert", root / "broken")
    (root / "broken" / "openvino_model.xml").write_bytes(b"<net")
    (root / "notes").mkdir()
    (root / "notes" / "report.xml").write_text("<testsuites/>")
    return root


def test_every_directory_with_an_ir_is_a_row_in_each_format(cli: Cli, folder: Path, tmp_path: Path) -> None:
    files = [tmp_path / f"atlas{suffix}" for suffix in (".html", ".csv", ".json", ".md")]
    done = cli("atlas", folder, "-q", *(word for file in files for word in ("-o", file)))
    assert (done.code, done.out, done.err) == (0, "", "")
    expected = [str(folder / name) for name in ("bert", "broken", "drafts/dflash", "falcon")]
    content = json.loads(files[2].read_text())
    jsonschema.validate(content, schema())
    assert [one["path"] for one in content["models"]] == expected
    assert [one["layers"] for one in content["models"]] == [None, None, 2, 4]
    with files[1].open(newline="") as lines:
        assert [line["path"] for line in csv.DictReader(lines)] == expected
    assert [row["c"][0] for row in packed(files[0])["rows"]] == expected
    markdown = files[3].read_text().replace("\\", "")
    assert all(f"| {path} |" in markdown for path in expected)


def test_the_text_has_totals_and_the_rows(cli: Cli, folder: Path) -> None:
    done = cli("atlas", folder / "falcon", folder / "drafts")
    assert done.code == 0
    assert re.search(r"falcon +2 notes +falcon +4 ", done.out)
    assert re.search(r"exports +2: 1 target, 1 DFlash draft", done.out)


def test_a_row_of_an_export_that_cannot_be_read_has_exit_code_2(cli: Cli, folder: Path, tmp_path: Path) -> None:
    export = shutil.copytree(folder / "bert", tmp_path / "exports" / "bert")
    (export.parent / "gone").symlink_to("nowhere")
    listed = cli("atlas", export, export.parent / "openvino_model.xml", "--format", "json")
    assert listed.code == 2
    assert "no such" in listed.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", "x.pdf"], "suffixes .json, .csv, .md, .html"),
        (["-o", "nowhere/x.html"], "there is no directory"),
        (["--target-runtime", "new"], "is not a runtime version"),
        (["--context", "0"], "is not a number of tokens"),
    ],
)
def test_wrong_options_are_refused_at_once(cli: Cli, folder: Path, words: list[str], said: str) -> None:
    done = cli("atlas", folder, *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_folder_without_exports_is_refused(cli: Cli, tmp_path: Path) -> None:
    done = cli("atlas", tmp_path)
    assert done.code == 2
    assert "no export" in done.err


@pytest.mark.slow
def test_the_files_do_not_depend_on_the_number_of_jobs(cli: Cli, folder: Path, tmp_path: Path) -> None:
    for jobs in (1, 2):
        arguments = [word for suffix in ("html", "csv", "json", "md") for word in ("-o", tmp_path / f"{jobs}.{suffix}")]
        assert cli("atlas", folder, "--jobs", jobs, *arguments).code == 0
    for suffix in ("html", "csv", "json", "md"):
        assert (tmp_path / f"1.{suffix}").read_bytes() == (tmp_path / f"2.{suffix}").read_bytes()


@pytest.mark.slow
def test_python_gives_the_same_rows(cli: Cli, folder: Path) -> None:
    done = cli("atlas", folder, "--context", "64", "--format", "json")
    rows = irtools.atlas(folder, context=64, jobs=2)
    details = [{"path": row.path, "status": row.status, "error": row.error, **row.details()} for row in rows]
    assert json.loads(json.dumps(details)) == json.loads(done.out)["models"]


@pytest.mark.slow
def test_resume_sees_a_record_that_is_newer_than_the_export(cli: Cli, fixtures: Path, tmp_path: Path) -> None:
    from irtools.report.record_files import record_json
    from tests.report.records import results

    export = shutil.copytree(fixtures / "qwen3_5_vl_trained", tmp_path / "exports" / "one")
    arguments = ("atlas", export.parent, "--resume", tmp_path / "state", "--format", "json")
    assert json.loads(cli(*arguments).out)["models"][0]["acceptance"] is None
    entry = results(export)["bench"]
    (export.parent / "bench.json").write_text(record_json(entry, command="bench"))
    assert json.loads(cli(*arguments).out)["models"][0]["acceptance"] is not None


def test_verify_writes_an_index_of_several_exports(cli: Cli, folder: Path, tmp_path: Path) -> None:
    page, data = tmp_path / "x.html", tmp_path / "x.json"
    done = cli("verify", folder / "bert", folder / "broken", "-q", "--output", page, "--output", data)
    assert done.code == 1
    content = json.loads(data.read_text())
    rows = packed(page)["rows"]
    assert [row["c"][0] for row in rows] == [one["path"] for one in content["models"]]
    for row, model in zip(rows, content["models"], strict=True):
        assert sorted(one[1] for one in row["m"]["findings"]) == sorted(one["code"] for one in model["findings"])
    assert "Verification of 2 exports" in page.read_text()
    assert page.stat().st_size < 200_000


def test_verify_writes_the_report_of_one_export(cli: Cli, folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "x.html"
    cli("verify", folder / "bert", "-q", "--output", page)
    assert 'id="picture"' in page.read_text()


def test_a_file_that_cannot_be_written_costs_no_other(cli: Cli, folder: Path, tmp_path: Path) -> None:
    """A link into nowhere is refused when the file is written, after the work."""
    bad, good = tmp_path / "bad.json", tmp_path / "good.json"
    bad.symlink_to(tmp_path / "none" / "x.json")
    for command in ("atlas", "verify"):
        done = cli(command, *([folder] if command == "atlas" else ["--recursive", folder]), "-o", bad, "-o", good)
        assert done.code == 2
        assert str(bad) in done.err
        assert json.loads(good.read_text())["models"]
        good.unlink()
    assert cli("verify", folder, "-o", tmp_path).code == 2
    assert "is a directory" in cli("verify", "nowhere", "-o", tmp_path).err, "before the work"
