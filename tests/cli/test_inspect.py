"""``irtools inspect`` from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def details(cli: Any, path: Path) -> dict[str, Any]:
    done = cli("inspect", path, "--format", "json")
    assert done.code == 0
    return json.loads(done.out)["models"][0]


def test_the_annotation_is_compared_with_the_location(export_copy: Callable[..., Path], cli: Any) -> None:
    assert details(cli, export_copy("qwen3_5_vl"))["annotation"]["status"] == "present"
    path = export_copy("falcon")
    assert details(cli, path)["annotation"]["status"] == "absent"
    assert cli("annotate", path, "--no-check").code == 0
    assert details(cli, path)["annotation"]["status"] == "present"
    xml = path / "openvino_model.xml"
    moved = xml.read_bytes().replace(b"transformer.h.0/aten::add/Add&quot;", b"transformer.h.1/aten::add/Add&quot;", 1)
    assert moved != xml.read_bytes()
    xml.write_bytes(moved)
    assert details(cli, path)["annotation"]["status"] == "differs"


def test_part(fixtures: Path, cli: Any) -> None:
    done = cli("inspect", fixtures / "qwen3_5_vl", "--part", "mtp", "--format", "json")
    entry = json.loads(done.out)["models"][0]
    assert [port["name"] for port in entry["outputs"]] == ["last_hidden_state"]
    assert [kind["text"] for kind in entry["stack"]["kinds"]] == ["full attention + dense MLP"]
    assert cli("inspect", fixtures / "qwen3_5_vl", "--part", "nonsense").code == 2


def test_a_broken_part_does_not_hide_the_others(export_copy: Callable[..., Path], cli: Any) -> None:
    path = export_copy("qwen3_5_vl")
    (path / "openvino_vision_embeddings_model.xml").write_text("<net")
    done = cli("inspect", path)
    assert done.code == 0
    assert "not well-formed" in done.out
    (path / "openvino_language_model.xml").write_text("<net")
    assert cli("inspect", path).code == 2


def test_memory_in_a_budget(fixtures: Path, cli: Any) -> None:
    path = fixtures / "qwen3_5_vl_trained"
    done = cli("inspect", path, "--context", "1k", "--budget", "170MiB", "--kv-precision", "u8,u4")
    assert "context 1024, batch 1" in done.out
    assert "kv u8/u4" in done.out
    assert "largest context, with MTP" in done.out
    assert done.err == "irtools: note: the context 1024 is beyond max_position_embeddings 512 of config.json\n"
    options = ("--budget", "170MiB", "--assistant-tokens", "2", "--format", "json")
    memory = json.loads(cli("inspect", path, *options).out)["models"][0]["footprint"]
    assert (memory["context"], memory["context_limit"], memory["budget"]) == (512, 512, 170 * 2**20)
    asked = [column for column in memory["precisions"] if column["asked"]]
    assert [(column["key"], column["value"]) for column in asked] == [("f16", "f16")]
    plain, drafted = asked[0]["totals"]
    assert plain["bytes"] + plain["left"] == 170 * 2**20
    assert drafted["bytes"] > plain["bytes"] == memory["plain"]["f16"]


def test_sizes_that_are_none(fixtures: Path, cli: Any) -> None:
    for option, value, says in (
        ("--context", "0", "is not a number of tokens such as 32768 or 32k"),
        ("--budget", "8 apples", "is not a size such as 8GiB or 800MiB"),
        ("--kv-precision", "u9", "is no precision of the KV cache"),
        ("--kv-precision", "u8,u8,u8", "is too long"),
    ):
        done = cli("inspect", fixtures / "falcon", option, value)
        assert done.code == 2
        assert says in done.err


def test_parameters_are_those_of_the_weights(fixtures: Path, cli: Any) -> None:
    part = next(part for part in details(cli, fixtures / "gpt2")["parts"] if part["file"] == "openvino_model.xml")
    assert part["parameters"] * 4 == sum(group["bytes"] for group in part["weights"] if group["precision"] == "f32")
