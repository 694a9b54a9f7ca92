"""EXP010 to EXP015: the JSON files, and config.json against the graph."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from irtools.authoring import Context, Finding, Severity, rule
from irtools.errors import os_reason
from irtools.graph.view import GraphView
from irtools.ir.reading import read_json
from irtools.lint.json_files import finding_in_config
from irtools.lint.mtp import expected
from irtools.model.config import LAYER_COUNT_KEYS, WIDTH_KEYS, integers
from irtools.text import plural

_READ_BY_RUNTIME = {
    *("config.json", "generation_config.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("processor_config.json", "preprocessor_config.json", "video_preprocessor_config.json", "chat_template.json"),
}


@rule("EXP010", "unreadable-json", Severity.ERROR, "A JSON file of the export cannot be read")
def unreadable_json(context: Context) -> Iterator[Finding]:
    """A JSON file of the export cannot be read.

    What it checks
    --------------
    That every ``.json`` file of the directory is valid JSON in UTF-8, and that config.json is an
    object. A file that the runtime does not read gets a warning.

    Why it matters
    --------------
    The runtime reads config.json, generation_config.json and the configuration of tokenizer and
    processor at load time. It fails with a parser error that does not name the file.

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
            message = "the file is not a JSON object"
        except json.JSONDecodeError as error:
            message, line = f"the file is not valid JSON: {error.msg} in column {error.colno}", error.lineno
        except UnicodeDecodeError:
            message = "the file is not UTF-8"
        except ValueError as error:
            message = f"the file is not valid JSON: {error}"
        except OSError as error:
            message = f"the file cannot be read: {os_reason(error)}"
        severity = None if path.name in _READ_BY_RUNTIME else Severity.WARNING
        # The runtime reads the configuration of the target, not that of a draft.
        rules_out = () if context.is_draft else None
        yield Finding(
            message,
            "Restore it from the checkpoint",
            file=path,
            line=line,
            severity=severity,
            rules_out=rules_out,
        )


@rule("EXP011", "missing-config", Severity.WARNING, "A configuration file is missing")
def missing_config(context: Context) -> Iterator[Finding]:
    """A configuration file is missing.

    What it checks
    --------------
    That config.json is beside every language model. Its absence is an error for a vision-language
    export, which needs it to select the pipeline, and a warning otherwise. A missing
    generation_config.json, tokenizer_config.json, tokenizer.json or, for a vision-language export,
    preprocessor_config.json gets a note.

    Why it matters
    --------------
    Without config.json, the runtime treats any vision-language model as MiniCPM and fails at load time.
    For the other files it uses defaults: no stop token, no chat template, wrong image scaling.

    How to fix it
    -------------
    Copy the files from the checkpoint.

    Source
    ------
    Reproduced with OpenVINO GenAI 2026.4.1.
    """
    directory = context.export.directory
    if not context.export.target_candidates or not context.is_language_model:
        return
    wrapper = context.needs_embeddings
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
    """True if the directory has the vocabulary of a slow tokenizer instead of tokenizer.json."""
    others = ("tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tiktoken.model")
    return name == "tokenizer.json" and any((directory / other).exists() for other in others)


@rule(
    "EXP012",
    "config-layers",
    Severity.WARNING,
    "config.json and the graph have different numbers of layers",
    rules_out=(),
)
def config_layers(context: Context) -> Iterator[Finding]:
    """config.json and the graph have different numbers of layers.

    What it checks
    --------------
    ``num_hidden_layers`` and its synonyms (under ``text_config`` in wrappers) and the length of
    ``layer_types``, against the number of decoder layers located in the target. An error with
    ``--expect-mtp``.

    Why it matters
    --------------
    One of the two files belongs to another model. Tools that read the number of layers from config.json
    then use the wrong layers. EAGLE-3 and DFlash drafts choose their layers by this number.

    How to fix it
    -------------
    Restore config.json from the checkpoint that was exported.

    Source
    ------
    The graph itself.
    """
    if context.stack is None:
        return
    count = len(context.stack.layers)
    located = plural(count, "decoder layer")
    configured = integers(context.text_config, LAYER_COUNT_KEYS)
    if configured and count not in configured.values():
        key, value = next(iter(configured.items()))
        yield _contradiction(context, key, value, f"{key} is {value}, but the target has {located}")
    types = context.text_config.get("layer_types")
    if isinstance(types, list) and len(types) != count and count in (configured.values() or [count]):
        message = f"layer_types lists {plural(len(types), 'layer')}, but the target has {located}"
        yield _contradiction(context, "layer_types", types, message)


@rule("EXP013", "config-width", Severity.WARNING, "config.json and the graph have different hidden sizes", rules_out=())
def config_width(context: Context) -> Iterator[Finding]:
    """config.json and the graph have different hidden sizes.

    What it checks
    --------------
    ``hidden_size`` and its synonyms (under ``text_config`` in wrappers) against the width of the
    target's residual stream. An error with ``--expect-mtp``.

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
    configured = integers(context.text_config, WIDTH_KEYS)
    if context.stack is None or not configured or context.stack.hidden_size in configured.values():
        return
    key, value = next(iter(configured.items()))
    message = f"{key} is {value}, but the target's residual stream has width {context.stack.hidden_size}"
    yield _contradiction(context, key, value, message)


@rule(
    "EXP014",
    "config-vocabulary",
    Severity.WARNING,
    "config.json and the graph have different vocabularies",
    rules_out=(),
)
def config_vocabulary(context: Context) -> Iterator[Finding]:
    """config.json and the graph have different vocabularies.

    What it checks
    --------------
    ``vocab_size`` (under ``text_config`` in wrappers) against the width of ``logits``. An error with
    ``--expect-mtp``.

    Why it matters
    --------------
    One of the two files belongs to another model, or the vocabulary was resized after config.json was
    written.

    How to fix it
    -------------
    Restore config.json from the checkpoint that was exported.

    Source
    ------
    The graph itself.
    """
    size = integers(context.text_config, ("vocab_size",)).get("vocab_size")
    if context.stack is None or context.target is None or size is None:
        return
    graph = context.target.graph
    port = graph.port(graph.inputs(context.stack.logits)[0])
    width = port.shape[-1] if port is not None and port.shape else -1
    if width > 0 and width != size:
        message = f"vocab_size is {size}, but the logits have width {width}"
        yield _contradiction(context, "vocab_size", size, message)


@rule(
    "EXP015",
    "config-tied-embeddings",
    Severity.NOTE,
    "config.json and the graph disagree about tied embeddings",
    rules_out=(),
)
def config_tied_embeddings(context: Context) -> Iterator[Finding]:
    """config.json and the graph disagree about tied embeddings.

    What it checks
    --------------
    ``tie_word_embeddings`` of config.json against the weights: it is true if the target's embedding and
    lm_head read the same bytes of the ``.bin``. A decomposed export is not checked.

    Why it matters
    --------------
    The runtime ignores this key. But if a model with tied embeddings has two tables, it was resized,
    compressed or fine-tuned after config.json was written, and is larger than necessary.

    How to fix it
    -------------
    Export the model again, or correct config.json.

    Source
    ------
    The key agrees with the weights in 200 exports of 60 families, compressed exports included.
    """
    if context.stack is None or context.target is None:
        return
    graph, config = context.target.graph, context.text_config
    tied = config.get("tie_word_embeddings", context.config.get("tie_word_embeddings"))
    embedding = _tables(graph, context.stack.embedding)
    head = _tables(graph, context.stack.head)
    if not isinstance(tied, bool) or not embedding or not head or tied == bool(embedding & head):
        return
    weights = "different weights" if tied else "the same weights"
    message = f"tie_word_embeddings is {str(tied).lower()}, but embedding and lm_head have {weights}"
    yield finding_in_config(context, "tie_word_embeddings", tied, message, "Correct config.json, or export again")


def _tables(graph: GraphView, key: int) -> set[tuple[str, str]]:
    """Offset and shape of the constants of rank 2 or more above an op."""
    tables: set[tuple[str, str]] = set()
    pending = [source for source in graph.producers(key) if graph.constant(source)]
    while pending:
        source = pending.pop()
        if graph.op_type(source) in ("Const", "Constant"):
            data = graph.data(source)
            if "," in data.get("shape", ""):
                tables.add((data.get("offset", ""), data.get("shape", "")))
        else:
            pending += [producer for producer in graph.producers(source) if graph.constant(producer)]
    return tables


def _contradiction(context: Context, key: str, value: object, message: str) -> Finding:
    hint = "Restore config.json from the checkpoint that was exported"
    return finding_in_config(context, key, value, message, hint, expected(context))
