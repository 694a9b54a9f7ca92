"""Files that are no graphs, and the interface of the releases."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from graphs import graph

from irtools.serving.fields import ENUMS, MESSAGES, OPTIONS
from irtools.serving.graph_file import read_graph
from irtools.serving.graph_text import graph_text
from irtools.serving.schema import schema

RELEASES = ("2025.4", "2026.0", "2026.1", "2026.2", "2026.2.1", "2026.3", "2026.4")
ANY = "graph_options { [type.googleapis.com/mediapipe.CalculatorGraphConfig] { "


def problem(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    (found,) = read_graph(path, "2026.4").problems
    return found.message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe" + "node".encode("utf-16-le"), "not text in UTF-8"),
        (b"\0" * 1000, "Expected identifier"),
        (b"node {" * 40_000, "no field named"),
        (ANY.encode() * 3000, "nested too deeply"),
        (b"#" * 300_000, "reads at most 256 KiB of a graph of Model Server"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Message type"),
    ],
    ids=["utf-16", "zeros", "nodes", "nested", "large", "lfs"],
)
def test_what_is_no_graph_is_a_problem_at_once(content: bytes, message: str, tmp_path: Path) -> None:
    began = time.monotonic()
    assert message in problem(tmp_path / "graph.pbtxt", content)
    assert time.monotonic() - began < 5


def test_the_largest_graph_is_read_in_seconds(tmp_path: Path) -> None:
    path = tmp_path / "graph.pbtxt"
    path.write_text(graph() + 'input_stream:"a" ' * 14_000, encoding="utf-8")
    began = time.monotonic()
    assert len(read_graph(path, "2026.4").nodes) == 1
    assert time.monotonic() - began < 10


def test_a_pipe_and_a_directory_are_refused(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "missing"):
        (found,) = read_graph(path, "2026.4").problems
        assert "cannot be read" in found.message


def test_changed_bytes_never_raise(tmp_path: Path) -> None:
    path, rng = tmp_path / "graph.pbtxt", random.Random(7)
    text = graph('draft_models_path: "."', "cache_eviction_config: { start_size: 1 }").encode()
    for _ in range(150):
        content = bytearray(text)
        for _ in range(rng.choice((1, 3, 9))):
            at = rng.randrange(len(content))
            content[at : at + rng.choice((0, 1, 5))] = rng.randbytes(rng.choice((0, 1, 4)))
        path.write_bytes(content)
        for node in read_graph(path, "2026.3").nodes:
            assert node.value("cache_size") >= 0


def test_a_packed_message_that_is_damaged_is_a_problem(tmp_path: Path) -> None:
    packed = 'type_url: "type.googleapis.com/mediapipe.LLMCalculatorOptions" value: "\\xff\\xff"'
    content = f'node {{ name: "a" calculator: "HttpLLMCalculator" node_options {{ {packed} }} }}'
    assert "not those of a language model" in problem(tmp_path / "graph.pbtxt", content.encode())


@pytest.mark.parametrize("release", RELEASES)
def test_a_graph_is_what_was_asked_for(release: str, tmp_path: Path) -> None:
    options = {"models_path": "modèle 日本", "cache_size": 3, "enable_prefix_caching": True, "pipeline_type": "LM"}
    path = tmp_path / "graph.pbtxt"
    path.write_text(graph_text(options, release, ["two\nlines", "node { }"]), encoding="utf-8")

    read = read_graph(path, release)

    assert read.problems == ()
    (node,) = read.nodes
    assert {name: node.value(name) for name in options} == options
    assert path.read_text(encoding="utf-8").startswith("# two lines\n# node { }\nnode {\n")


def test_every_release_has_what_the_ones_before_have() -> None:
    counts = [len(schema(release).new(OPTIONS).DESCRIPTOR.fields) for release in RELEASES]
    # numbers of fields in llm_calculator.proto at the tags v2025.4 to v2026.3 and the branch main-2026.4
    assert counts == [23, 24, 24, 24, 25, 26, 26]
    assert [schema(release).known for release in ("2025.3", *RELEASES, "2026.4.1", "2026.5")] == [
        False,
        *[True] * 8,
        False,
    ]


def test_the_numbers_of_values_are_those_of_the_release() -> None:
    """`pipeline_type: 4` is AUTO up to 2026.2.1, and OMNI since 2026.3."""
    for release, number in (("2026.2.1", 4), ("2026.3", 5)):
        assert schema(release).new(OPTIONS).DESCRIPTOR.fields_by_name["pipeline_type"].default_value == number
    assert set(ENUMS) <= {spec.split()[0] for fields in MESSAGES.values() for spec in fields.values()}
