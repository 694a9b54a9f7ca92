"""EXP010 to EXP016: the JSON files, and config.json against the graph."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from irtools.graph.view import GraphView
from irtools.lint import Context, Finding, Severity, rule
from irtools.lint.directory import json_line, needs_embeddings, read_json, reads_tokens

_READ_BY_RUNTIME = {
    *("config.json", "generation_config.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("processor_config.json", "preprocessor_config.json", "video_preprocessor_config.json", "chat_template.json"),
}
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers", "decoder_layers")
_WIDTH = ("hidden_size", "n_embd", "d_model", "dim", "model_dim", "word_embed_proj_dim")


def _expected(context: Context) -> Severity | None:
    """With ``--expect-mtp`` a config that disagrees with the graph is an error."""
    return Severity.ERROR if context.expect_mtp else None


@rule("EXP010", "unreadable-json", Severity.ERROR, "A JSON file of the export cannot be read")
def unreadable_json(context: Context) -> Iterator[Finding]:
    """A JSON file of the export cannot be read.

    What it checks
    --------------
    That every ``.json`` of the directory is valid JSON in UTF-8, and config.json an object. A file
    that the runtime does not read gets a warning.

    Why it matters
    --------------
    The runtime reads config.json, generation_config.json, the tokenizer's and the processor's
    configuration while loading, and fails with a parser's message that names no file.

    How to fix it
    -------------
    Restore the file from the checkpoint.

    Source
    ------
    Reproduced with OpenVINO GenAI 2026.4.1 for each of the files.
    """
    for path in sorted(context.export.directory.glob("*.json")):
        line = None
        try:
            content = read_json(path)
            if path.name != "config.json" or isinstance(content, dict):
                continue
            message = "the file holds no JSON object"
        except json.JSONDecodeError as error:
            message, line = f"the file is not valid JSON: {error.msg} in column {error.colno}", error.lineno
        except UnicodeDecodeError:
            message = "the file is not UTF-8"
        except ValueError as error:
            message = f"the file is not valid JSON: {error}"
        except OSError as error:
            message = f"the file cannot be read: {error.strerror}"
        severity = None if path.name in _READ_BY_RUNTIME else Severity.WARNING
        yield Finding(message, "Restore it from the checkpoint", file=path, line=line, severity=severity)


@rule("EXP011", "missing-config", Severity.WARNING, "A configuration file is missing")
def missing_config(context: Context) -> Iterator[Finding]:
    """A configuration file is missing.

    What it checks
    --------------
    config.json beside every language model: an error for a vision-language export, whose pipeline
    is chosen by it, a warning otherwise. generation_config.json, tokenizer_config.json and
    tokenizer.json, and the processor's configuration of a vision-language export: a note.

    Why it matters
    --------------
    Without config.json the runtime takes any vision-language model for a MiniCPM and fails at load.
    The other files have defaults: no stop token, no chat template, images scaled the wrong way.

    How to fix it
    -------------
    Copy them from the checkpoint.

    Source
    ------
    Reproduced with OpenVINO GenAI 2026.4.1.
    """
    directory = context.export.directory
    if not context.export.target_candidates or not reads_tokens(context):
        return
    wrapper = needs_embeddings(context)
    expected = {
        "config.json": Severity.ERROR if wrapper else Severity.WARNING,
        "tokenizer_config.json": Severity.NOTE,
        "tokenizer.json": Severity.NOTE,
    }
    if context.stack is not None:
        expected["generation_config.json"] = Severity.NOTE
    if wrapper:
        expected["preprocessor_config.json"] = Severity.NOTE
    for name, severity in expected.items():
        if not (directory / name).exists() and not _replaced(directory, name):
            yield Finding(f"{name} is missing", "Copy it from the checkpoint", file=directory / name, severity=severity)


def _replaced(directory: Path, name: str) -> bool:
    """Whether another file says the same: tokenizers without a fast form have their own."""
    others = {"tokenizer.json": ("tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tiktoken.model")}
    return any((directory / other).exists() for other in others.get(name, ()))


@rule("EXP012", "config-layers", Severity.WARNING, "config.json and the graph have different numbers of layers")
def config_layers(context: Context) -> Iterator[Finding]:
    """config.json and the graph have different numbers of layers.

    What it checks
    --------------
    ``num_hidden_layers`` and its synonyms, under ``text_config`` in wrappers, and the length of
    ``layer_types``, against the decoder layers found in the target. An error with ``--expect-mtp``.

    Why it matters
    --------------
    One of the two files belongs to another model. Tools that read the number of layers from
    config.json (EAGLE-3 and DFlash drafts choose their layers by it) choose the wrong ones.

    How to fix it
    -------------
    Restore config.json from the checkpoint that was exported.

    Source
    ------
    The graph itself.
    """
    if context.stack is None:
        return
    found = len(context.stack.layers)
    said = _numbers(context.text_config, _LAYERS)
    if said and found not in said.values():
        key, value = next(iter(said.items()))
        yield _contradiction(context, key, value, f"the target has {found} decoder layers")
    types = context.text_config.get("layer_types")
    if isinstance(types, list) and len(types) != found and found in (said.values() or [found]):
        path = context.export.directory / "config.json"
        yield Finding(
            f"layer_types lists {len(types)} layers, and the target has {found} decoder layers",
            "Restore config.json from the checkpoint that was exported",
            file=path,
            line=json_line(path, "layer_types", types),
            severity=_expected(context),
        )


@rule("EXP013", "config-width", Severity.WARNING, "config.json and the graph have different hidden sizes")
def config_width(context: Context) -> Iterator[Finding]:
    """config.json and the graph have different hidden sizes.

    What it checks
    --------------
    ``hidden_size`` and its synonyms, under ``text_config`` in wrappers, against the width of the
    residual stream in the target. An error with ``--expect-mtp``.

    Why it matters
    --------------
    One of the two files belongs to another model.

    How to fix it
    -------------
    Restore config.json from the checkpoint that was exported.

    Source
    ------
    The graph itself.
    """
    said = _numbers(context.text_config, _WIDTH)
    if context.stack is None or not said or context.stack.hidden_size in said.values():
        return
    key, value = next(iter(said.items()))
    yield _contradiction(context, key, value, f"the residual stream of the target is {context.stack.hidden_size} wide")


@rule("EXP014", "config-vocabulary", Severity.WARNING, "config.json and the graph have different vocabularies")
def config_vocabulary(context: Context) -> Iterator[Finding]:
    """config.json and the graph have different vocabularies.

    What it checks
    --------------
    ``vocab_size``, under ``text_config`` in wrappers, against the width of ``logits``. An error with
    ``--expect-mtp``.

    Why it matters
    --------------
    One of the two files belongs to another model, or the vocabulary was resized after config.json
    was written.

    How to fix it
    -------------
    Restore config.json from the checkpoint that was exported.

    Source
    ------
    The graph itself.
    """
    said = _numbers(context.text_config, ("vocab_size",))
    if context.stack is None or context.target is None or not said:
        return
    graph = context.target.graph
    port = graph.port(graph.inputs(context.stack.logits)[0])
    width = port.shape[-1] if port is not None and port.shape else -1
    if width > 0 and width != said["vocab_size"]:
        yield _contradiction(context, "vocab_size", said["vocab_size"], f"the logits are {width} wide")


@rule("EXP015", "config-tied-embeddings", Severity.NOTE, "config.json and the graph disagree about tied embeddings")
def config_tied_embeddings(context: Context) -> Iterator[Finding]:
    """config.json and the graph disagree about tied embeddings.

    What it checks
    --------------
    ``tie_word_embeddings``, where config.json says it, against whether embedding and head of the
    target read the same bytes of the ``.bin``. Nothing can be said about a decomposed export.

    Why it matters
    --------------
    The runtime does not care. But a model with tied embeddings and two tables was resized, compressed
    or fine-tuned in a way that its config.json does not know of, and is larger than it need be.

    How to fix it
    -------------
    Export again, or correct config.json.

    Source
    ------
    Seen the same in 200 exports of 60 families, compressed ones included.
    """
    if context.stack is None or context.target is None:
        return
    graph, config = context.target.graph, context.text_config
    said = config.get("tie_word_embeddings", context.config.get("tie_word_embeddings"))
    embedding = _tables(graph, context.stack.embedding)
    head = _tables(graph, context.stack.head)
    if not isinstance(said, bool) or not embedding or not head or said == bool(embedding & head):
        return
    path = context.export.directory / "config.json"
    yield Finding(
        f"tie_word_embeddings is {str(said).lower()}, and embedding and head have "
        + ("different weights" if said else "the same weights"),
        "Correct config.json, or export again",
        file=path,
        line=json_line(path, "tie_word_embeddings", said),
    )


def _tables(graph: GraphView, key: int) -> set[tuple[str, str]]:
    """Offset and shape of the constants of rank 2 and more that an op computes with."""
    found: set[tuple[str, str]] = set()
    pending = [source for source in graph.producers(key) if graph.constant(source)]
    while pending:
        source = pending.pop()
        if graph.op_type(source) in ("Const", "Constant"):
            data = graph.data(source)
            if "," in data.get("shape", ""):
                found.add((data.get("offset", ""), data.get("shape", "")))
        else:
            pending += [producer for producer in graph.producers(source) if graph.constant(producer)]
    return found


def _numbers(config: Mapping[str, object], keys: tuple[str, ...]) -> dict[str, int]:
    """What a config says under several keys."""
    values = ((key, config.get(key)) for key in keys)
    return {key: value for key, value in values if isinstance(value, int) and not isinstance(value, bool)}


def _contradiction(context: Context, key: str, value: int, what: str) -> Finding:
    path = context.export.directory / "config.json"
    return Finding(
        f"{key} is {value}, and {what}",
        "Restore config.json from the checkpoint that was exported",
        file=path,
        line=json_line(path, key, value),
        severity=_expected(context),
    )
