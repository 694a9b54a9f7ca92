"""SRV: a graph of OpenVINO Model Server that serves the export: what the server cannot read or start."""

from __future__ import annotations

import json
from collections.abc import Iterator

from irtools.authoring import Context, Finding, Severity, rule
from irtools.ir.reading import parse_json
from irtools.lint.serving import finding_in_graph, is_directory, judged, served
from irtools.serving.graph_file import GRAPH_FILE, reads_images, resolve
from irtools.serving.schema import INSTALL, available, releases_with, schema
from irtools.text import shortened


@rule("SRV001", "unreadable-server-graph", Severity.ERROR, "The server refuses the graph")
def unreadable_server_graph(context: Context) -> Iterator[Finding]:
    """A `graph.pbtxt` in or beside the model directory is not a graph that OpenVINO Model Server starts.

    What it checks
    --------------
    That the file is text in UTF-8 of at most 256 KiB, that protobuf reads it as a graph of the server, and that each
    node of a language model has a name and the options of a language model. A graph of other calculators is not
    checked. Without protobuf, which `ov-irtools[serve]` installs, no graph is read.

    Why it matters
    --------------
    The server does not start the model: "Trying to parse mediapipe graph definition ... failed".

    How to fix it
    -------------
    Correct the line, or write the graph with `irtools serve-config`.

    Source
    ------
    OpenVINO Model Server, `mediapipegraphdefinition.cpp` and `llm_node_initializer.cpp`, v2025.4 to v2026.3.
    """
    path = context.export.directory / GRAPH_FILE
    if not available() and path.exists():
        yield Finding(
            "the graph is not checked, because protobuf is not installed", INSTALL, path, severity=Severity.NOTE
        )
    for graph in judged(context):
        for problem in graph.problems:
            if not problem.unknown:
                hint = "correct it, or write the graph with `irtools serve-config`"
                yield Finding(f"the server refuses the graph: {problem.message}", hint, graph.path, problem.line)


@rule("SRV002", "unknown-server-option", Severity.ERROR, "The server does not know a name in the graph")
def unknown_server_option(context: Context) -> Iterator[Finding]:
    """A `graph.pbtxt` has a field or a value that the release of OpenVINO Model Server does not know.

    What it checks
    --------------
    Every name in the graph, against the interface of the release of `--target-runtime`. The server stops at the first
    unknown name, and so does this rule.

    Why it matters
    --------------
    The server does not start the model: protobuf refuses the whole file, not only the option.

    How to fix it
    -------------
    Correct the name, remove the option, or use a release that has it.

    Source
    ------
    `llm_calculator.proto` of OpenVINO Model Server, v2025.4 to v2026.3: `draft_eagle3_mode` since 2026.0,
    `cache_interval_multiplier` since 2026.2.1, `chat_template_mode` and `OMNI` since 2026.3.
    """
    release = context.target_runtime
    for graph in judged(context):
        for problem in graph.problems:
            if problem.unknown:
                since = releases_with(problem.unknown)
                newer = since and not schema(release).knows(since)
                hint = f"it needs OpenVINO Model Server {since}" if newer else "correct the name, or remove it"
                message = f"OpenVINO Model Server {release} does not know {problem.unknown!r}: {problem.message}"
                yield Finding(message, hint, graph.path, problem.line)


@rule("SRV003", "missing-served-model", Severity.ERROR, "The graph serves a directory that does not exist")
def missing_served_model(context: Context) -> Iterator[Finding]:
    """`models_path` does not lead to a directory.

    What it checks
    --------------
    The path, which starts at the directory of the graph if it is relative. An absolute path that does not exist here
    gets a warning: it can exist where the server runs, such as in a container.

    Why it matters
    --------------
    The server does not start the model: "LLM node models_path ... does not exist".

    How to fix it
    -------------
    Give the path from the graph to the model, which is `./` for a graph in the model directory.

    Source
    ------
    OpenVINO Model Server, `servable_initializer.cpp`, `parseModelsPath`.
    """
    for one in served(context):
        path = resolve(one.node, "models_path")
        if path is not None and not is_directory(path) and path.suffix.lower() != ".gguf":
            given = shortened(one.node.value("models_path"))
            severity = Severity.WARNING if given.startswith("/") else None
            hint = "give the path from the graph to the model" if severity is None else _ELSEWHERE
            message = f"models_path {given!r} is not a directory"
            yield finding_in_graph(one.node, "models_path", message, hint, severity)


_ELSEWHERE = "ignore this if it exists where the server runs, such as in a container"


@rule("SRV004", "missing-served-draft", Severity.ERROR, "The draft path of the graph leads to no model")
def missing_served_draft(context: Context) -> Iterator[Finding]:
    """`draft_models_path` does not lead to a directory with a model.

    What it checks
    --------------
    The path, which starts at the directory of the graph if it is relative, and that there is an OpenVINO IR of a
    language model or an MTP head. An absolute path that does not exist here gets a warning: it can exist where the
    server runs, such as in a container.

    Why it matters
    --------------
    The server does not start the model: "Error during draft model initialization".

    How to fix it
    -------------
    Give the path from the graph to the draft, or remove the options of the draft.

    Source
    ------
    OpenVINO Model Server, `continuous_batching/servable_initializer.cpp`.
    """
    for one in served(context):
        if one.draft_path is None or one.draft is not None:
            continue
        given = shortened(one.node.value("draft_models_path"))
        if one.draft_path.suffix.lower() == ".gguf":
            continue
        there = is_directory(one.draft_path)
        severity = Severity.WARNING if given.startswith("/") and not there else None
        what = "has no model in it" if there else "is not a directory"
        hint = "give the path from the graph to the draft" if severity is None else _ELSEWHERE
        yield finding_in_graph(one.node, "draft_models_path", f"draft_models_path {given!r} {what}", hint, severity)


@rule("SRV005", "mismatched-pipeline-type", Severity.ERROR, "The pipeline type does not fit the files of the export")
def mismatched_pipeline_type(context: Context) -> Iterator[Finding]:
    """`pipeline_type` is one for text, and the export one for text and images, or the other way round.

    What it checks
    --------------
    An export with text embeddings and vision embeddings is one for text and images: `VLM`, `VLM_CB`. `AUTO`, the
    default, always fits.

    Why it matters
    --------------
    The server does not start the model: "Models directory content indicates VLM pipeline, but pipeline type is set to
    non-VLM type".

    How to fix it
    -------------
    Remove `pipeline_type`.

    Source
    ------
    OpenVINO Model Server, `servable_initializer.cpp`, `determinePipelineType`.
    """
    vlm = reads_images(context.export.directory)
    for one in served(context):
        kind = one.node.value("pipeline_type")
        if kind not in ("AUTO", "OMNI") and vlm != kind.startswith("VLM"):
            files = "an export for text and images" if vlm else "an export for text only"
            message = f"pipeline_type {kind} does not fit {files}"
            yield finding_in_graph(one.node, "pipeline_type", message, "remove pipeline_type")


@rule("SRV006", "malformed-plugin-config", Severity.ERROR, "The plugin configuration of the graph is not JSON")
def malformed_plugin_config(context: Context) -> Iterator[Finding]:
    """`plugin_config` is not a JSON object.

    What it checks
    --------------
    The text of the option, unless it is empty.

    Why it matters
    --------------
    The server does not start the model: "Error during llm node plugin_config option parsing to JSON".

    How to fix it
    -------------
    Write an object in single quotes, such as `plugin_config: '{"KV_CACHE_PRECISION": "u8"}'`.

    Source
    ------
    OpenVINO Model Server, `continuous_batching/servable_initializer.cpp` and `json_parser.cpp`.
    """
    for one in served(context):
        text = one.node.value("plugin_config")
        try:
            content = parse_json(text) if text else {}
        except ValueError as error:
            content, why = None, f" ({error})"
        else:
            why = ""
        if not isinstance(content, dict):
            shown = json.dumps(text[:60])
            yield finding_in_graph(
                one.node, "plugin_config", f"plugin_config {shown} is not a JSON object{why}", "correct the JSON"
            )
