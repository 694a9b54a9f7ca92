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
