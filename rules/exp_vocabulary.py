"""EXP020 to EXP023: sizes of tokenizer, embedding and language model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.ir.reading import read_json
from irtools.lint.json_files import json_line
from irtools.model.document import Document
from irtools.text import whole_number


def _vocabulary(context: Context, part: str) -> tuple[int, Document, int] | None:
    """Number of tokens, document and layer id of the vocabulary op of a tokenizer IR.

    The op reads the vocabulary as one string and two i32 lists of positions, one entry per token.
    """
    document = context.readable(context.documents.get(part))
    if document is None:
        return None
    graph = document.graph
    best: tuple[int, Document, int] | None = None
    for kind, keys in graph.by_type.items():
        if "Tokenizer" not in kind and "Vocab" not in kind:
            continue
        for key in keys:
            sizes = [
                size
                for source in graph.producers(key)
                if graph.op_type(source) in ("Const", "Constant")
                and graph.data(source).get("element_type") == "i32"
                and (size := whole_number(graph.data(source).get("shape", ""))) is not None
            ]
            if sizes and (best is None or max(sizes) > best[0]):
                best = (max(sizes), document, key)
    return best


def _rows(context: Context) -> int | None:
    """Number of rows of the embedding table, in the target or the text embeddings part."""
    if context.stack is None or context.target is None:
        return None
    document, key = context.target, context.stack.embedding
    if document.graph.op_type(key) != "Gather":
        if context.text_embeddings is None:
            return None
        document = context.text_embeddings
        gathers = [op for op in document.graph.by_type.get("Gather", ()) if _table_rows(document, op)]
        if len(gathers) != 1:
            return None
        key = gathers[0]
    return _table_rows(document, key)


def _table_rows(document: Document, gather: int) -> int | None:
    """Rows of the constant table that a Gather reads; None if it reads something else."""
    graph = document.graph
    table = graph.input(gather)
    port = graph.port(table)
    if port is None or len(port.shape) != 2 or not graph.constant(table.op):
        return None
    return port.shape[0] if port.shape[0] > 0 else None


@rule(
    "EXP020", "tokenizer-exceeds-embedding", Severity.ERROR, "The tokenizer has more tokens than the embedding has rows"
)
def tokenizer_exceeds_embedding(context: Context) -> Iterator[Finding]:
    """The tokenizer has more tokens than the embedding has rows.

    What it checks
    --------------
    The vocabulary size in ``openvino_tokenizer.xml`` against the number of rows of the embedding table,
    in the target or in the text embeddings part.

    Why it matters
    --------------
    A prompt with such a token reads past the end of the table. The result is garbage or a crash.

    How to fix it
    -------------
    Convert the tokenizer of the exported checkpoint, or export again after ``resize_token_embeddings``.

    Source
    ------
    OpenVINO tokenizers 2026.4: the inputs of the tokenizer ops.
    """
    vocabulary, rows = _vocabulary(context, "tokenizer"), _rows(context)
    if vocabulary is None or rows is None or vocabulary[0] <= rows:
        return
    size, document, key = vocabulary
    message = f"the tokenizer has {size:,} tokens, but the embedding table has {rows:,} rows"
    yield finding_at(document, key, message, "Convert the tokenizer of the exported checkpoint")


@rule("EXP021", "tokenizer-json-differs", Severity.WARNING, "tokenizer.json and the tokenizer IR differ in size")
def tokenizer_json_differs(context: Context) -> Iterator[Finding]:
    """tokenizer.json and the tokenizer IR differ in size.

    What it checks
    --------------
    The highest token id in tokenizer.json, added tokens included, against the vocabulary size in
    ``openvino_tokenizer.xml`` and the number of rows of the embedding table.

    Why it matters
    --------------
    The runtime uses the IR and other tools use tokenizer.json, so they tokenize the same prompt
    differently. A token id past the end of the embedding table gives garbage or a crash.

    How to fix it
    -------------
    Convert the tokenizer again from the tokenizer.json of the exported checkpoint.

    Source
    ------
    OpenVINO tokenizers 2026.4.
    """
    path = context.export.directory / "tokenizer.json"
    last = _highest_id(path)
    if last is None:
        return
    highest, token = last
    vocabulary, rows = _vocabulary(context, "tokenizer"), _rows(context)
    if vocabulary is not None and highest >= vocabulary[0]:
        message = f"the token {token!r} has id {highest}, but openvino_tokenizer.xml has {vocabulary[0]:,} tokens"
    elif rows is not None and highest >= rows:
        message = f"the token {token!r} has id {highest}, but the embedding table has {rows:,} rows"
    else:
        return
    hint = "Convert the tokenizer of the exported checkpoint"
    yield Finding(message, hint, path, json_line(path, token, highest) or json_line(path, "id", highest))


def _highest_id(path: Path) -> tuple[int, str] | None:
    """Highest token id in a tokenizer.json and its token; None if it lists none."""
    try:
        content = read_json(path)
    except (OSError, ValueError):
        return None
    if not isinstance(content, Mapping):
        return None
    ids = dict(_ids(content))
    return max(((number, token) for token, number in ids.items()), default=None)


def _ids(content: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    model = content.get("model")
    vocabulary = model.get("vocab") if isinstance(model, Mapping) else None
    if isinstance(vocabulary, Mapping):
        yield from ((token, number) for token, number in vocabulary.items() if isinstance(number, int))
    elif isinstance(vocabulary, list) and vocabulary:
        last = vocabulary[-1]
        yield str(last[0]) if isinstance(last, list) and last else "", len(vocabulary) - 1
    added = content.get("added_tokens")
    for token in added if isinstance(added, list) else ():
        if isinstance(token, Mapping) and isinstance(token.get("id"), int):
            yield str(token.get("content")), token["id"]


@rule("EXP022", "tokenizer-detokenizer-differ", Severity.WARNING, "Tokenizer and detokenizer differ in size")
def tokenizer_detokenizer_differ(context: Context) -> Iterator[Finding]:
    """Tokenizer and detokenizer differ in size.

    What it checks
    --------------
    The vocabulary sizes in ``openvino_tokenizer.xml`` and ``openvino_detokenizer.xml``.

    Why it matters
    --------------
    The two files come from different tokenizers, so the model's output is decoded to the wrong text.

    How to fix it
    -------------
    Convert both in one run: ``convert_tokenizer MODEL_DIR --with-detokenizer -o MODEL_DIR``.

    Source
    ------
    OpenVINO tokenizers 2026.4: the inputs of the tokenizer ops.
    """
    tokenizer, detokenizer = _vocabulary(context, "tokenizer"), _vocabulary(context, "detokenizer")
    if tokenizer is None or detokenizer is None or tokenizer[0] == detokenizer[0]:
        return
    size, document, key = detokenizer
    message = f"the detokenizer has {size:,} tokens, but the tokenizer has {tokenizer[0]:,}"
    yield finding_at(document, key, message, "Convert both in one run, from the exported checkpoint")


@rule("EXP023", "embedding-width", Severity.ERROR, "Text embeddings and language model have different widths")
def embedding_width(context: Context) -> Iterator[Finding]:
    """Text embeddings and language model have different widths.

    What it checks
    --------------
    The output width of ``openvino_text_embeddings_model.xml`` against the width of the language model's
    ``inputs_embeds``.

    Why it matters
    --------------
    The two files come from different models. The first prompt fails.

    How to fix it
    -------------
    Restore both files from the same export.

    Source
    ------
    The graphs themselves.
    """
    if context.target is None or context.text_embeddings is None:
        return
    embeds = context.facts(context.target).input("inputs_embeds")
    outputs = context.facts(context.text_embeddings).outputs
    if embeds is None or len(outputs) != 1 or not embeds.shape or not outputs[0].shape:
        return
    wanted, width = embeds.shape[-1], outputs[0].shape[-1]
    if wanted > 0 and width > 0 and wanted != width:
        message = (
            f"the text embeddings have width {width}, but inputs_embeds of {context.target.path.name} has {wanted}"
        )
        yield Finding(message, "Restore both files from the same export", context.text_embeddings.path, outputs[0].line)
