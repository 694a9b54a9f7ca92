"""Seeded defects of a graph of OpenVINO Model Server in the model directory."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import eagle3
from defects import Defect, add, both, in_json
from graphs import graph

G = "graph.pbtxt"
TEXT, IMAGES = "qwen3", "qwen3_5_vl_trained"
NOTE, WARNING = {"severity": "note"}, {"severity": "warning"}
BESIDE = {"draft": "qwen3_dflash"}


def seed(name: str, code: str, at: str | None, *lines: str, base: str = TEXT, **more: Any) -> Defect:
    """A graph with lines among its options, the finding at one of them."""
    return Defect(name, base, add(G, graph(*lines).encode()), code, G, at, **more)


def with_eagle3(*lines: str) -> Callable[[Path], object]:
    def edit(directory: Path) -> None:
        draft = directory.parent / "draft"
        shutil.copytree(eagle3.FIXTURES / "llama", draft)
        eagle3.write(draft)
        (directory / G).write_text(graph(*lines), encoding="utf-8")

    return edit


DRAFT, SELF, CACHED = 'draft_models_path: "../draft"', 'draft_models_path: "."', "enable_prefix_caching: true,"
PATH, MODEL = r"(?<=\n      )draft_models_path", r"(?<=\n      )models_path"
"""Not in the comment above them."""

DEFECTS = (
    seed("graph-with-an-open-quote", "SRV001", "tool_parser", 'tool_parser: "hermes3'),
    Defect("graph-not-in-utf-8", TEXT, add(G, graph('tool_parser: "é"').encode("latin-1")), "SRV001", G),
    Defect("graph-without-a-model", TEXT, add(G, graph(models=None).encode()), "SRV001", G),
    Defect("graph-with-another-type", TEXT, add(G, graph(kind="LLMOptions").encode()), "SRV001", G),
    seed("graph-with-two-caches", "SRV001", "cache_size: 2", "cache_size: 1", "cache_size: 2"),
    Defect("graph-whose-node-has-no-name", TEXT, add(G, graph(name="").encode()), "SRV001", G),
    seed("graph-with-a-misspelled-option", "SRV002", "max_num_sequences", "max_num_sequences: 4"),
    seed(
        "graph-with-an-option-of-a-later-release",
        "SRV002",
        "chat_template_mode",
        "cache_interval_multiplier: 2",
        "chat_template_mode: MINJA",
        options={"target_runtime": "2026.2.1"},
    ),
    seed(
        "graph-with-a-value-of-a-later-release",
        "SRV002",
        "pipeline_type",
        "pipeline_type: OMNI",
        options={"target_runtime": "2026.2"},
    ),
    Defect("graph-of-another-place", TEXT, add(G, graph(models="./model").encode()), "SRV003", G, MODEL),
    Defect("graph-of-a-container", TEXT, add(G, graph(models="/nowhere/m").encode()), "SRV003", G, MODEL, **WARNING),
    seed("draft-path-to-nothing", "SRV004", PATH, 'draft_models_path: "../nowhere"'),
    Defect(
        "draft-path-to-an-empty-directory",
        TEXT,
        both(add(G, graph('draft_models_path: "empty"').encode()), lambda directory: (directory / "empty").mkdir()),
        "SRV004",
        G,
        PATH,
    ),
    seed("draft-path-of-a-container", "SRV004", PATH, 'draft_models_path: "/nowhere/d"', **WARNING),
    seed("images-for-a-text-model", "SRV005", "pipeline_type", "pipeline_type: VLM_CB"),
    seed("text-for-a-model-of-images", "SRV005", "pipeline_type", "pipeline_type: LM_CB", base=IMAGES),
    seed("plugin-config-in-other-quotes", "SRV006", "plugin_config", "plugin_config: \"{'A': 1}\""),
    seed("plugin-config-that-is-a-list", "SRV006", "plugin_config", "plugin_config: '[1]'"),
    seed("own-directory-without-a-head", "SRV007", PATH, SELF),
    seed("own-directory-of-images-without-a-head", "SRV007", PATH, 'draft_models_path: "./"', base="llava"),
    seed("prefix-caching-with-an-mtp-head", "SRV008", "enable_prefix", SELF, CACHED, base=IMAGES),
    seed("prefix-caching-with-dflash", "SRV008", "enable_prefix", DRAFT, CACHED, options=BESIDE),
    seed("draft-device-without-a-draft", "SRV009", "draft_device", 'draft_device: "CPU"'),
    seed("eagle3-mode-without-a-draft", "SRV009", "draft_eagle3", "draft_eagle3_mode: true", **WARNING),
    seed("empty-draft-path", "SRV009", PATH, 'draft_models_path: ""', **WARNING),
    seed("block-size-of-a-draft", "SRV009", "draft_block", DRAFT, "draft_block_size: 16", options=BESIDE, **NOTE),
    seed("draft-without-batching", "SRV010", PATH, "pipeline_type: LM", DRAFT, options=BESIDE, **WARNING),
    seed("draft-on-npu", "SRV010", PATH, DRAFT, 'device: "NPU"', 'draft_device: "NPU"', options=BESIDE),
    Defect("eagle3-that-samples", "llama", with_eagle3(DRAFT), "SRV011", G, PATH, **WARNING),
    Defect(
        "eagle3-without-its-mode",
        "qwen3",
        with_eagle3(DRAFT, "draft_eagle3_mode: false"),
        "SRV011",
        G,
        PATH,
        **WARNING,
    ),
    seed("batch-smaller-than-a-draft", "SRV012", "max_num_b", SELF, "max_num_batched_tokens: 5", base=IMAGES),
    Defect(
        "batch-smaller-than-the-tokens-of-the-model",
        TEXT,
        both(
            add(G, graph(DRAFT, "max_num_batched_tokens: 7").encode()),
            in_json("generation_config.json", "num_assistant_tokens", value=7),
        ),
        "SRV012",
        G,
        "max_num_b",
        options=BESIDE,
    ),
    seed("mtp-head-for-an-old-server", "SRV013", PATH, SELF, base=IMAGES, options={"target_runtime": "2026.3"}),
    seed("dflash-for-an-old-server", "SRV013", PATH, DRAFT, options={**BESIDE, "target_runtime": "2026.2.1"}),
)
