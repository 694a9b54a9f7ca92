"""Graphs of OpenVINO Model Server that are sound, and graphs that are none of irtools' business."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import eagle3
import pytest
from graphs import graph

import irtools
from irtools.authoring import Finding
from irtools.lint import serving

G = "graph.pbtxt"


def findings(directory: Path, **options: str) -> list[Finding]:
    return list(irtools.open_export(directory).verify(select=["SRV"], **options).findings)


@pytest.mark.parametrize(
    "lines",
    [
        (),
        ('device: "GPU",', "cache_size: 8,", "enable_prefix_caching: true,", "max_num_seqs: 64"),
        ("pipeline_type: LM",),
        ('plugin_config: \'{"KV_CACHE_PRECISION": "u8"}\'', "max_num_batched_tokens: 2"),
        ("cache_eviction_config: { start_size: 32, recent_size: 128, max_cache_size: 672 }",),
        (
            'draft_models_path: "../draft"',
            "draft_device: 'CPU'",
            "draft_max_num_seqs: 4",
            "enable_prefix_caching: true",
        ),
    ],
)
def test_a_sound_graph_has_no_findings(lines: tuple[str, ...], export_copy: Callable[..., Path]) -> None:
    directory = export_copy("llama")
    export_copy("llama", to="draft")
    (directory / G).write_text(graph(*lines), encoding="utf-8")
    assert findings(directory) == []


def test_sound_graphs_with_drafts(export_copy: Callable[..., Path]) -> None:
    mtp, dflash, eagle = export_copy("qwen3_5_vl_trained"), export_copy("qwen3"), export_copy("llama")
    export_copy("qwen3_dflash")
    eagle3.write(export_copy("llama", to="eagle"))
    (mtp / G).write_text(graph('draft_models_path: "."'), encoding="utf-8")
    (dflash / G).write_text(graph('draft_models_path: "../qwen3_dflash"'), encoding="utf-8")
    (eagle / G).write_text(graph('draft_models_path: "../eagle"', "draft_eagle3_mode: true"), encoding="utf-8")
    assert [findings(directory) for directory in (mtp, dflash, eagle)] == [[], [], []]


def test_a_graph_beside_the_directory_counts_if_it_serves_it(export_copy: Callable[..., Path]) -> None:
    directory, other = export_copy("llama"), export_copy("falcon")
    beside = directory.parent / G
    beside.write_text(graph('draft_models_path: "nowhere"', models="llama"), encoding="utf-8")

    (found,) = findings(directory)

    assert (found.code, found.file, found.line) == ("SRV004", beside, 17)
    assert findings(other) == []
    assert findings(directory / "openvino_model.xml") == []


def test_a_relative_directory_has_a_parent_too(
    export_copy: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = export_copy("llama")
    (directory.parent / G).write_text(graph("cache_sise: 1", models="llama"), encoding="utf-8")
    monkeypatch.chdir(directory)
    assert [found.code for found in findings(Path())] == ["SRV002"]


@pytest.mark.parametrize(
    "text",
    [
        graph(kind="EmbeddingsCalculatorOVOptions").replace("HttpLLMCalculator", "EmbeddingsCalculatorOV"),
        'input_stream: "a"\nnode { calculator: "PassThroughCalculator" input_stream: "a" }\n',
        'node { calculator: "PassThroughCalculator" options { [a.b.Options.ext] { x: 1 } } }',
        '# HttpLLMCalculator\nnode { calculator: "B" node_options { [type.googleapis.com/a.b] { x: { y: 1 } } } }',
        "",
    ],
)
def test_graphs_of_other_models_are_not_judged(text: str, export_copy: Callable[..., Path]) -> None:
    directory = export_copy("llama")
    (directory / G).write_text(text, encoding="utf-8")
    assert findings(directory) == []


def test_options_of_other_calculators_do_not_hide_the_language_model(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("llama")
    other = 'node { calculator: "EmbeddingsCalculatorOV" node_options { [type.googleapis.com/mediapipe.%s] { a: 1 } } }'
    for kind in ("EmbeddingsCalculatorOVOptions", "Node.Options"):
        (directory / G).write_text(other % kind + "\n" + graph('draft_models_path: "nowhere"'), encoding="utf-8")
        assert [(found.code, found.line) for found in findings(directory)] == [("SRV004", 18)], kind


def test_a_misspelt_type_of_options_is_refused(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("llama")
    (directory / G).write_text(graph(kind="LLMCalculatorOption"), encoding="utf-8")
    (found,) = findings(directory)
    assert found.code == "SRV001"
    assert "mediapipe.LLMCalculatorOption not found" in found.text


def test_the_line_is_that_of_the_node(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("llama")
    export_copy("llama", to="draft")
    text = graph('draft_models_path: "../draft"')
    (directory / G).write_text(text + graph('draft_models_path: "nowhere"', name="b"), encoding="utf-8")
    (found,) = findings(directory)
    assert (found.code, found.line) == ("SRV004", text.count("\n") + 17)


def test_an_empty_models_path_is_the_directory_of_the_graph(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("llama")
    (directory / G).write_text(graph('draft_models_path: "nowhere"', models=""), encoding="utf-8")
    assert [found.code for found in findings(directory)] == ["SRV004"]


def test_long_names_are_shortened(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("llama")
    for line in (f'draft_models_path: "{"a" * 50_000}"', f"{'a' * 50_000}: 1"):
        (directory / G).write_text(graph(line), encoding="utf-8")
        (found,) = findings(directory)
        assert len(found.text) < 1000


def test_a_graph_that_serves_another_directory_is_not_judged_here(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("llama")
    shutil.copytree(directory, directory.parent / "other")
    (directory / G).write_text(graph('draft_models_path: "."', models="../other"), encoding="utf-8")
    assert findings(directory) == []


def test_without_protobuf_a_note_says_so(export_copy: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    directory = export_copy("llama")
    monkeypatch.setattr(serving, "available", lambda: False)
    monkeypatch.setattr("irtools.serving.schema.find_spec", lambda name: None)
    assert findings(directory) == []
    (directory / G).write_text(graph("nonsense: 1"), encoding="utf-8")
    (found,) = findings(directory)
    assert (str(found.severity), found.code) == ("note", "SRV001")
    assert "ov-irtools[serve]" in found.text


def test_a_newer_release_than_known_is_judged_by_the_newest(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("llama")
    (directory / G).write_text(graph("chat_template_mode: JINJA"), encoding="utf-8")
    assert findings(directory, target_runtime="2027.1") == []
    assert [one.code for one in findings(directory, target_runtime="2025.2")] == ["SRV002"]
