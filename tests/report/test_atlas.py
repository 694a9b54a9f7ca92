"""Rows of an atlas: facts from truth files, from the files themselves, and from ``inspect`` and ``verify``."""

from __future__ import annotations

import csv
import io
import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from lxml import etree

from irtools.export import open_export
from irtools.lint.finding import Severity
from irtools.report import atlas_records
from irtools.report.atlas import atlas_row, failed_row
from irtools.report.atlas_files import atlas_csv, atlas_json, atlas_markdown, atlas_text
from irtools.report.atlas_html import atlas_html
from irtools.report.atlas_row import AtlasFinding, AtlasPart, AtlasRow
from irtools.report.json import ModelResult, envelope, schema, to_json
from irtools.report.terminal import Style
from tests.bench.examples import example_record
from tests.marks import mostly_slow
from tests.report.records import COUNTS, proof_record

Copy = Callable[..., Path]
TARGETS = ("falcon", "qwen3_5_vl_int4", "qwen3_5_vl_trained", "gemma4_vl", "mixtral", "opt", "qwen3", "llama")


@pytest.fixture(scope="module")
def trained(fixtures: Path) -> AtlasRow:
    return atlas_row(fixtures / "qwen3_5_vl_trained")


# -- facts -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", mostly_slow(TARGETS))
def test_a_row_says_what_the_files_say(fixtures: Path, truth: Callable[[str], dict[str, Any]], name: str) -> None:
    row = atlas_row(fixtures / name)
    config = json.loads((fixtures / name / "config.json").read_text())
    text = config.get("text_config", config)
    assert (row.status, row.role, row.family) == (row.status, "target", config["model_type"])
    assert row.error is None
    assert row.layers == len(truth(name)["layers"])
    assert row.hidden_size == text.get("hidden_size", text.get("n_embd"))
    files = {path.name: path.stat().st_size for path in (fixtures / name).iterdir() if path.suffix in (".xml", ".bin")}
    assert row.size == sum(files.values())
    assert {part.file for part in row.parts} == {file for file in files if file.endswith(".xml")}
    assert row.mtp.present == ("openvino_mtp_model.xml" in files)
    assert row.mtp.declared == text.get("mtp_num_hidden_layers")
    target = next(
        path for path in (fixtures / name).glob("*.xml") if path.stem in ("openvino_model", "openvino_language_model")
    )
    annotated = etree.parse(str(target)).find("rt_info/hidden_states_decoder_layers") is not None
    assert (row.annotation != "absent") == annotated


@pytest.mark.parametrize("name", mostly_slow(("qwen3_5_vl_trained", "qwen3_dflash", "bert", *TARGETS), fast=2))
def test_a_row_agrees_with_inspect_and_verify(fixtures: Path, name: str) -> None:
    row = atlas_row(fixtures / name, target_runtime="2026.3", context=128)
    export = open_export(fixtures / name)
    verified, details = export.verify(target_runtime="2026.3"), export.inspect(context=128).details()
    assert [(one.name, one.available, one.text) for one in row.strategies] == [
        (one.name, one.available, one.text) for one in verified.strategies
    ]
    assert row.counts == {
        code: sum(finding.code == code for finding in verified.findings)
        for code in sorted({finding.code for finding in verified.findings})
    }
    assert sorted((one.code, one.message) for one in row.findings) == sorted(
        (one.code, one.message) for one in verified.findings
    )
    shown: Any = details
    assert row.layers == (shown["stack"].get("layers") if shown["stack"] else None)
    assert row.parameters == sum(part["parameters"] for part in shown["parts"] if "tokenizer" not in part["name"])
    asked = next((one for one in shown["footprint"]["precisions"] if one["asked"]), None)
    key = asked or next(one for one in shown["footprint"]["precisions"] if one["key"] == "u8")
    assert row.memory is not None
    assert row.memory.plain == key["totals"][0]["bytes"]
    assert row.memory.drafting == (key["totals"][1]["bytes"] if len(key["totals"]) > 1 else None)
    assert (row.memory.context, row.graft) == (128, shown["mtp"]["draft_head"] or "")
    if row.role == "target":
        assert [row.annotation, row.annotation_text] == [shown["annotation"][key] for key in ("status", "text")]


def test_the_precision_is_that_of_the_stored_types(fixtures: Path) -> None:
    row = atlas_row(fixtures / "qwen3_5_vl_int4")
    types = {}
    for part in ("language", "mtp"):
        layers = etree.parse(str(fixtures / "qwen3_5_vl_int4" / f"openvino_{part}_model.xml")).findall("layers/layer")
        constants = [one.find("data") for one in layers if one.get("type") == "Const"]
        types[part] = {
            one.get("element_type") for one in constants if one is not None and int(one.get("size", 0)) > 500
        }
    assert row.precision.startswith("int4")
    assert {"u4", "i4"} & types["language"]
    assert row.lm_head_precision.startswith("int8")
    assert row.mtp_precision.startswith("int4") == bool({"u4", "i4"} & types["mtp"])
    assert atlas_row(fixtures / "falcon").precision == "f32"


def test_a_draft_has_its_kind_and_its_own_layers(fixtures: Path) -> None:
    row = atlas_row(fixtures / "qwen3_dflash")
    config = json.loads((fixtures / "qwen3_dflash" / "config.json").read_text())
    assert (row.role, row.layers, row.hidden_size) == ("dflash", config["num_hidden_layers"], config["hidden_size"])
    assert (row.annotation, row.decoding) == ("", ("dflash",))


def test_what_is_no_language_model_has_the_reason(fixtures: Path) -> None:
    row = atlas_row(fixtures / "bert")
    assert (row.role, row.layers, row.decoding) == ("other", None, ())
    assert "logits" in row.refusal


def test_ways_of_decoding_are_those_of_the_release(trained: AtlasRow, fixtures: Path) -> None:
    assert {"plain", "mtp", "dflash"} <= set(trained.decoding)
    older = atlas_row(fixtures / "qwen3_5_vl_trained", target_runtime="2026.3")
    assert "plain" in older.decoding
    assert "mtp" not in older.decoding
    assert "from 2026.4 on" in next(one.reason for one in older.strategies if one.name == "mtp")
    assert older.mtp.valid is True  # the head is sound, whatever an older release does with it


def test_each_xml_is_read_once(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import irtools.model.document as documents

    read: list[Path] = []
    original = documents.read_file

    def counted(path: Path, kind: str = "") -> bytes:
        read.append(path)
        return original(path, kind)

    monkeypatch.setattr(documents, "read_file", counted)
    atlas_row(fixtures / "qwen3_5_vl_trained")
    assert sorted(read) == sorted((fixtures / "qwen3_5_vl_trained").glob("*.xml"))


# -- faults ----------------------------------------------------------------------------


def test_a_faulty_head_is_present_and_not_valid(export_copy: Copy) -> None:
    directory = export_copy("qwen3_5_vl_trained")
    head = directory / "openvino_mtp_model.xml"
    head.write_bytes(head.read_bytes().replace(b"last_hidden_state", b"some_other_name__"))
    row = atlas_row(directory)
    assert (row.mtp.declared, row.mtp.present, row.mtp.valid) == (1, True, False)
    assert row.mtp.faults
    assert "mtp" not in row.decoding
    head.unlink()
    row = atlas_row(directory)
    assert (row.mtp.declared, row.mtp.present, row.mtp.valid) == (1, False, None)
    assert row.mtp.text == "declared, missing"


def test_a_wrong_annotation_is_not_as_located_and_no_fault_of_the_head(export_copy: Copy) -> None:
    directory = export_copy("qwen3_5_vl_trained")
    target = directory / "openvino_language_model.xml"
    text = target.read_text()
    start = text.index("hidden_states_decoder_layers")
    end = text.index("\n", start)
    target.write_text(text[:start] + text[start:end].replace("layers.0", "layers.9") + text[end:])
    row = atlas_row(directory)
    assert row.annotation == "differs"
    assert row.mtp.valid is True


@pytest.mark.parametrize("damage", ["cut", "empty", "pointer", "no weights", "config"])
def test_a_damaged_export_is_a_row_with_findings(export_copy: Copy, damage: str) -> None:
    directory = export_copy("falcon")
    target = directory / "openvino_model.xml"
    if damage == "cut":
        target.write_bytes(target.read_bytes()[:5000])
    elif damage == "empty":
        target.write_bytes(b"")
    elif damage == "pointer":
        target.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n")
    elif damage == "no weights":
        target.with_suffix(".bin").unlink()
    else:
        (directory / "config.json").write_text("{")
    row = atlas_row(directory)
    assert (row.status, row.error) == ("findings", None)
    assert row.severities[Severity.ERROR] > 0
    readable = damage in ("no weights", "config")
    assert (row.layers, row.role) == ((4, "target") if readable else (None, ""))
    assert bool(next(part for part in row.parts if part.name == "model").error) is not readable


def test_what_cannot_be_looked_at_is_a_row_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").touch()
    for name in ("missing", "empty", "file.txt"):
        row = atlas_row(tmp_path / name)
        assert row.status == "failed"
        assert row.error is not None
        assert name in row.error
        assert (row.path, row.layers, row.findings) == (str(tmp_path / name), None, ())


def test_of_a_rule_the_first_findings_are_listed_and_all_are_counted(export_copy: Copy) -> None:
    directory = export_copy("falcon")
    target = directory / "openvino_model.xml"
    target.write_bytes(target.read_bytes().replace(b'version="opset1"', b'version="opset99"'))
    row = atlas_row(directory)
    code, count = max(row.counts.items(), key=lambda item: item[1])
    assert count > 10
    assert sum(one.code == code for one in row.findings) == 10
    assert row.details()["findings_left_out"] == sum(row.counts.values()) - len(row.findings)


# -- measurements ----------------------------------------------------------------------


def stored(path: Path, kind: str, record: dict[str, Any]) -> None:
    """A record as ``-o FILE.json`` writes it."""
    command = {"proof": "prove", "bench": "bench"}[kind]
    path.write_text(to_json(envelope(command, [ModelResult(str(path.parent), "ok", details={kind: record})])))


@pytest.fixture(scope="module")
def records(fixtures: Path) -> dict[str, dict[str, Any]]:
    directory = fixtures / "qwen3_5_vl_trained"
    bench, proof = example_record(directory), proof_record(directory)
    bench["date"], proof["date"] = "2026-11-01T10:00:00Z", "2026-11-02T10:00:00Z"
    return json.loads(json.dumps({"bench": bench, "proof": proof}))  # type: ignore[no-any-return]


def test_without_a_record_nothing_is_measured(trained: AtlasRow) -> None:
    assert (trained.measured, trained.acceptance, trained.speed_up) == ((), None, None)
    line = next(csv.DictReader(io.StringIO(atlas_csv([trained]))))
    assert (line["acceptance"], line["speed_up"]) == ("not measured", "not measured")
    assert (trained.details()["acceptance"], trained.details()["speed_up"]) == (None, None)


def test_records_beside_and_inside_are_found(export_copy: Copy, records: dict[str, Any]) -> None:
    directory = export_copy("qwen3_5_vl_trained", "models/one")
    stored(directory.parent / "results.json", "bench", records["bench"])
    stored(directory / "proof.json", "proof", records["proof"])
    (directory / "other.json").write_text('{"kind": "something else"}')
    row = atlas_row(directory)
    bench = records["bench"]
    best = next(one for one in bench["rows"] if one["name"] == bench["recommendation"]["row"])
    assert [(one.kind, one.file, one.date[:10], one.device) for one in row.measured] == [
        ("proof", "proof.json", "2026-11-02", "CPU"),
        ("bench", "../results.json", "2026-11-01", "CPU"),
    ]
    assert row.speed_up is not None
    assert row.acceptance is not None
    assert row.speed_up.speed_up == bench["recommendation"]["speed_up"]["median"]
    assert row.speed_up.row == best["name"]
    assert row.measured[1].acceptance == best["figures"]["acceptance"]["median"]
    assert row.acceptance.acceptance == COUNTS["acceptance"]  # of the proof, which is newer
    assert row.unmatched == ()


def test_a_record_about_other_bytes_measures_nothing(export_copy: Copy, records: dict[str, Any]) -> None:
    directory = export_copy("qwen3_5_vl_trained")
    stored(directory / "bench.json", "bench", records["bench"])
    weights = directory / "openvino_mtp_model.bin"
    data = bytearray(weights.read_bytes())
    data[1000] ^= 1  # the size stays
    weights.write_bytes(data)
    row = atlas_row(directory)
    assert row.measured == ()
    assert row.unmatched == ("bench.json: openvino_mtp_model.bin has changed since",)
    assert row.unmatched[0] in atlas_html([row]) or "has changed since" in str(row.details())


def test_a_record_of_a_neighbour_is_not_taken(export_copy: Copy, records: dict[str, Any]) -> None:
    directory = export_copy("falcon", "models/falcon")
    stored(directory.parent / "bench.json", "bench", records["bench"])
    row = atlas_row(directory)
    assert (row.measured, row.unmatched) == ((), ())


def test_figures_of_a_temporary_copy_are_not_those_of_the_files(export_copy: Copy, records: dict[str, Any]) -> None:
    record = json.loads(json.dumps(records["bench"]))
    best = next(one for one in record["rows"] if one["name"] == record["recommendation"]["row"])
    best["copy"] = "graft 100"
    directory = export_copy("qwen3_5_vl_trained")
    stored(directory / "bench.json", "bench", record)
    row = atlas_row(directory)
    assert row.speed_up is not None
    assert row.speed_up.row != best["name"]
    rest = [
        one["figures"]["speed_up"]["median"] for one in record["rows"] if one["figures"]["speed_up"] and not one["copy"]
    ]
    assert row.speed_up.speed_up == max(rest)
    for one in record["rows"]:
        one["copy"] = "graft 100"
    stored(directory / "bench.json", "bench", record)
    os.utime(directory)  # an overwritten file leaves the time of its directory
    assert atlas_row(directory).measured == ()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda record: record.update(rows="no rows"), "damaged"),
        (lambda record: record["model"].update(files=[1]), "damaged"),
        (lambda record: record.update(record_version=99), "version 99"),
        (lambda record: record["recommendation"].update(speed_up={"median": "fast"}), ""),
        (lambda record: record.update(date="<script>"), ""),
    ],
)
def test_a_damaged_record_costs_nothing_but_its_figures(
    export_copy: Copy, records: dict[str, Any], damage: Callable[[dict[str, Any]], None], said: str
) -> None:
    record = json.loads(json.dumps(records["bench"]))
    damage(record)
    directory = export_copy("qwen3_5_vl_trained")
    stored(directory / "bench.json", "bench", record)
    row = atlas_row(directory)
    assert row.layers == 4
    assert all(one.speed_up is None or one.speed_up > 0 for one in row.measured)
    assert all(one.date in ("", records["bench"]["date"]) for one in row.measured)
    assert said in " ".join(row.unmatched)
    assert bool(row.unmatched) == bool(said)


def test_records_beside_are_read_once_for_all_exports_there(
    fixtures: Path, tmp_path: Path, records: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        shutil.copytree(fixtures / "bert", tmp_path / f"export{number}")
        stored(tmp_path / f"record{number}.json", "bench", records["bench"])
    read: list[Path] = []
    original = atlas_records.read_file
    monkeypatch.setattr(atlas_records, "read_file", lambda path, kind: read.append(path) or original(path, kind))
    for number in range(5):
        assert atlas_row(tmp_path / f"export{number}").measured == ()
    assert len(read) == 5


# -- forms -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows(trained: AtlasRow, fixtures: Path) -> list[AtlasRow]:
    names = (
        "=cmd|' /C calc'!A0",
        "+1",
        "-1",
        "@SUM(A1)",
        "  =1",
        "\t=1",
        "\uff1d1",
        "a\nb\x1b[2J\u202ec",
        "a|b*c",
        "<script>",
    )
    hostile = [
        AtlasRow(name, family=name, refusal=name, parts=(AtlasPart(name, name, name),), graft=name) for name in names
    ]
    finding = AtlasFinding("XYZ001", Severity.ERROR, names[-1], names[-3], names[-4], 3, names[0])
    bad = AtlasRow("bad", findings=(finding,), counts={"XYZ001": 1}, severities={Severity.ERROR: 1})
    return [trained, atlas_row(fixtures / "bert"), *hostile, bad, failed_row("gone", "no such file or directory")]


def test_rows_are_small_and_pass_through_pickle_and_json(rows: list[AtlasRow]) -> None:
    for row in rows:
        assert pickle.loads(pickle.dumps(row)) == row
        assert AtlasRow.restored(json.loads(json.dumps(row.plain()))) == row
        assert len(pickle.dumps(row)) < 20_000


def test_json_is_valid_and_complete(rows: list[AtlasRow]) -> None:
    content = json.loads(atlas_json(rows, exit_code=2))
    jsonschema.validate(content, schema())
    assert [one["path"] for one in content["models"]] == [row.path for row in rows]
    assert content["models"][-1]["error"] == "no such file or directory"
    assert content["summary"]["statuses"]["failed"] == 1
    assert content["summary"]["exit_code"] == 2
    assert content["summary"]["bytes"] == sum(row.size for row in rows)


def test_no_cell_of_the_csv_is_a_formula(rows: list[AtlasRow]) -> None:
    lines = list(csv.reader(io.StringIO(atlas_csv(rows))))
    assert len(lines) == len(rows) + 1
    for cell in (cell for line in lines for cell in line):
        assert not cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\uff1d"))
        assert cell.isprintable()
    assert lines[3][0] == "'=cmd|' /C calc'!A0"
    first = dict(zip(lines[0], lines[1], strict=True))
    assert (first["layers"], first["hidden_size"], first["mtp_valid"]) == ("4", "64", "true")
    assert first["bytes"] == str(rows[0].size)
    assert first["mtp"].startswith("available: with enable_prefix_caching=False")
    assert first["annotation_as_located"] == "true"


def test_a_csv_without_rows_has_its_columns() -> None:
    assert atlas_csv([]).count("\n") == 1
    assert atlas_csv([]).startswith("path,status,error,role,family,layers,")


def test_markdown_shows_names_as_they_are(rows: list[AtlasRow]) -> None:
    text = atlas_markdown(rows)
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.replace(r"\|", "").count("|") == tables[0].count("|") for line in tables[: len(rows) + 2])
    assert "<script>" not in text
    assert r"\<script\>" in text
    assert "| gone | no such file or directory |" in text


@pytest.mark.parametrize("width", [60, 80, None])
def test_the_text_fits_the_terminal(rows: list[AtlasRow], width: int | None) -> None:
    text = atlas_text(rows, style=Style(width=width))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "no such file or directory" in text
    if width is not None:
        assert max(map(len, text.splitlines())) <= width


def test_the_same_rows_make_the_same_page(rows: list[AtlasRow]) -> None:
    assert atlas_html(rows) == atlas_html([AtlasRow.restored(row.plain()) for row in rows])
