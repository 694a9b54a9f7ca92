"""Evidence in a record: files, precisions, machine, and properties as the compiled model has them."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable
from pathlib import Path

import openvino as ov
import pytest

from irtools.export import open_export
from irtools.prove import evidence
from irtools.prove.evidence import Evidence, file_marks, model_record, other_file
from irtools.runtime.effective import effective
from irtools.runtime.probe import RuntimeFacts

HEAD = "openvino_mtp_model.bin"


def flipped(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_the_cache_has_the_precision_of_the_hint_in_the_rt_info(fixtures: Path) -> None:
    """OpenVINO's own answer for the same file; the hints differ between the target and its MTP head."""
    core = ov.Core()
    files = [fixtures / "qwen3_5_vl_trained" / f"openvino_{part}_model.xml" for part in ("language", "mtp")]
    expected = [core.compile_model(file, "CPU").get_property("KV_CACHE_PRECISION").get_type_name() for file in files]
    assert core.read_model(files[0]).get_rt_info(["runtime_options", "KV_CACHE_PRECISION"]).value == "f16"

    read = effective(files, "CPU", timeout=60)

    assert [one.properties["KV_CACHE_PRECISION"] for one in read] == expected
    assert expected[0] == "f16"
    assert all(one.paged and {"key_cache", "value_cache"} <= one.state.keys() for one in read)
    (chosen,) = effective(files[:1], "CPU", {"KV_CACHE_PRECISION": "u8"}, timeout=60)
    assert (chosen.properties["KV_CACHE_PRECISION"], chosen.state["key_cache"]) == ("u8", "u8")


def test_a_model_that_cannot_be_compiled_says_why(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<net/>")
    (read,) = effective([tmp_path / "a.xml"], "CPU", timeout=60)
    assert (read.properties, bool(read.fault)) == ({}, True)


def test_the_record_says_when_where_and_how_busy(fixtures: Path) -> None:
    seen = RuntimeFacts(("NPU",), {"FULL_DEVICE_NAME": "A Device", "NPU_DRIVER_VERSION": "7"}, {"python": "3.11"})
    before = datetime.datetime.now(datetime.UTC)

    taken = Evidence.take("NPU", seen, {"model": open_export(fixtures / "qwen3_5_vl_int4")}).keys()

    assert abs((datetime.datetime.fromisoformat(taken["date"]) - before).total_seconds()) < 60
    assert (taken["device"]["full_name"], taken["device"]["driver"]) == ("A Device", "7")
    assert taken["machine"]["cpu"]
    assert len(taken["machine"]["timing"]["load_start"]) == len(taken["machine"]["timing"]["load_end"]) == 3
    precisions = {part: rows[0]["precision"] for part, rows in taken["model"]["weights"].items() if rows}
    assert precisions["language"].startswith("u4 asymmetric")
    assert precisions["vision_embeddings"].startswith("i8")


@pytest.mark.parametrize("place", [0, 70_001, -1])
def test_one_changed_byte_in_the_head_is_another_head(export_copy: Callable[..., Path], place: int) -> None:
    copy = export_copy("qwen3_5_vl_trained")
    export = open_export(copy)
    record = model_record(export)
    assert other_file(export, record) == ""

    flipped(copy / HEAD, place)

    assert other_file(export, record) == f"{HEAD} has changed since"


def test_large_weights_are_sampled_unless_the_whole_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "WHOLE", 1 << 20)
    monkeypatch.setattr(evidence, "_BLOCK", 1 << 10)
    large = bytes(range(256)) * (3 << 12)
    for name in ("openvino_language_model.bin", HEAD):
        (tmp_path / name).write_bytes(large)
    marks = file_marks(tmp_path)
    language = marks["openvino_language_model.bin"]

    assert language["sha256"] is None
    assert marks[HEAD]["sha256"] == hashlib.sha256(large).hexdigest()
    whole = file_marks(tmp_path, whole=True)["openvino_language_model.bin"]
    assert whole == language | {"sha256": hashlib.sha256(large).hexdigest()}
    for place in (0, 1023, -1):  # inside of a sample
        flipped(tmp_path / "openvino_language_model.bin", place)
        assert file_marks(tmp_path)["openvino_language_model.bin"]["sha256_of_samples"] != language["sha256_of_samples"]
        flipped(tmp_path / "openvino_language_model.bin", place)


def test_the_commit_of_a_clone_or_a_download_is_the_revision(export_copy: Callable[..., Path]) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    copy = export_copy("falcon")
    git = copy / ".git"
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "packed-refs").write_text(f"# pack-refs\n{commit} refs/heads/main\n")
    assert model_record(open_export(copy))["revision"] == commit
    (git / "HEAD").write_text("ref: ../../outside\n")
    assert model_record(open_export(copy))["revision"] is None
    metadata = copy / ".cache" / "huggingface" / "download"
    metadata.mkdir(parents=True)
    (metadata / "config.json.metadata").write_text(f"{commit[::-1]}\netag\n1.0\n")
    assert model_record(open_export(copy))["revision"] == commit[::-1]
