"""EXP020 to EXP023: tokenizer, embedding and language model fit together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from irtools.lint import Context, Finding, Severity, rule
from irtools.lint.directory import json_line, read_json
from irtools.model.document import Document


def _vocabulary(context: Context, part: str) -> tuple[int, Document, int] | None:
    """Number of tokens, document and layer id of the op of a tokenizer IR that holds the vocabulary.

    The op reads it as two lists of positions in one string, both as long as the vocabulary.
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
                int(shape)
                for source in graph.producers(key)
                if graph.op_type(source) in ("Const", "Constant")
                and graph.data(source).get("element_type") == "i32"
                and (shape := graph.data(source).get("shape", "")).isdecimal()
            ]
            if sizes and (best is None or max(sizes) > best[0]):
                best = (max(sizes), document, key)
    return best


def _rows(context: Context) -> int | None:
    """Rows of the embedding table of the target or of the text embeddings part."""
    if context.stack is None or context.target is None:
        return None
    graph, key = context.target.graph, context.stack.embedding
    if graph.op_type(key) != "Gather":
        document = context.text_embeddings
        gathers = (
            [op for op in document.graph.by_type.get("Gather", ()) if _has_table(document, op)] if document else []
        )
        if document is None or len(gathers) != 1:
            return None
        graph, key = document.graph, gathers[0]
    sources = graph.inputs(key)
    port = graph.port(sources[0]) if sources else None
    return port.shape[0] if port is not None and len(port.shape) == 2 and port.shape[0] > 0 else None


def _has_table(document: Document, key: int) -> bool:
    sources = document.graph.inputs(key)
    port = document.graph.port(sources[0]) if sources else None
    return port is not None and len(port.shape) == 2 and document.graph.constant(sources[0].op)


@rule("EXP020", "tokenizer-exceeds-embedding", Severity.ERROR, "The tokenizer knows tokens that the embedding lacks")
def tokenizer_exceeds_embedding(context: Context) -> Iterator[Finding]:
    """The tokenizer knows tokens that the embedding lacks.

    What it checks
    --------------
    The size of the vocabulary inside ``openvino_tokenizer.xml`` against the rows of the embedding
    table, in the target or in the text embeddings part.

    Why it matters
    --------------
    A prompt with such a token reads behind the end of the table: nonsense or a crash.

    How to fix it
    -------------
    Convert the tokenizer of the checkpoint that was exported, or export again after
    ``resize_token_embeddings``.

    Source
    ------
    OpenVINO tokenizers 2026.4, inputs of the tokenizer ops.
    """
    vocabulary, rows = _vocabulary(context, "tokenizer"), _rows(context)
    if vocabulary is None or rows is None or vocabulary[0] <= rows:
        return
    size, document, key = vocabulary
    yield Finding(
        f"the tokenizer has {size:,} tokens, and the embedding table {rows:,} rows",
        "Convert the tokenizer of the checkpoint that was exported",
        file=document.path,
        line=document.graph.line(key),
        op=document.graph.op_name(key),
    )


@rule("EXP021", "tokenizer-json-differs", Severity.WARNING, "tokenizer.json and the tokenizer IR differ in size")
def tokenizer_json_differs(context: Context) -> Iterator[Finding]:
    """tokenizer.json and the tokenizer IR differ in size.

    What it checks
    --------------
    The highest token id of tokenizer.json, added tokens included, against the size of the vocabulary
    inside ``openvino_tokenizer.xml`` and against the rows of the embedding table.

    Why it matters
    --------------
    The runtime uses the IR, other tools use tokenizer.json: they split the same prompt differently.
    A token id behind the embedding table is nonsense or a crash.

    How to fix it
    -------------
    Convert the tokenizer again, from the tokenizer.json of the checkpoint that was exported.

    Source
    ------
    OpenVINO tokenizers 2026.4.
    """
    path = context.export.directory / "tokenizer.json"
    found = _highest_id(path)
    if found is None:
        return
    highest, token = found
    vocabulary, rows = _vocabulary(context, "tokenizer"), _rows(context)
    if vocabulary is not None and highest >= vocabulary[0]:
        message = f"the token {token!r} has the id {highest}, and openvino_tokenizer.xml has {vocabulary[0]:,} tokens"
    elif rows is not None and highest >= rows:
        message = f"the token {token!r} has the id {highest}, and the embedding table {rows:,} rows"
    else:
        return
    yield Finding(
        message,
        "Convert the tokenizer of the checkpoint that was exported",
        file=path,
        line=json_line(path, token, highest) or json_line(path, "id", highest),
    )


def _highest_id(path: Path) -> tuple[int, str] | None:
    """The highest token id of a tokenizer.json and its token; None when it does not say."""
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
    The sizes of the vocabularies inside ``openvino_tokenizer.xml`` and ``openvino_detokenizer.xml``.

    Why it matters
    --------------
    They come from different tokenizers: what the model writes is spelt with the wrong tokens.

    How to fix it
    -------------
    Convert both at once: ``convert_tokenizer MODEL_DIR --with-detokenizer -o MODEL_DIR``.

    Source
    ------
    OpenVINO tokenizers 2026.4, inputs of the tokenizer ops.
    """
    tokenizer, detokenizer = _vocabulary(context, "tokenizer"), _vocabulary(context, "detokenizer")
    if tokenizer is None or detokenizer is None or tokenizer[0] == detokenizer[0]:
        return
    size, document, key = detokenizer
    yield Finding(
        f"the detokenizer has {size:,} tokens, and the tokenizer {tokenizer[0]:,}",
        "Convert both at once, from the checkpoint that was exported",
        file=document.path,
        line=document.graph.line(key),
        op=document.graph.op_name(key),
    )


@rule(
    "EXP023", "embedding-width", Severity.ERROR, "The text embeddings are not as wide as the language model takes them"
)
def embedding_width(context: Context) -> Iterator[Finding]:
    """The text embeddings are not as wide as the language model takes them.

    What it checks
    --------------
    The width of the output of ``openvino_text_embeddings_model.xml`` against that of ``inputs_embeds``
    of the language model.

    Why it matters
    --------------
    The two files come from different models; the first prompt fails.

    How to fix it
    -------------
    Restore both from the same export.

    Source
    ------
    The graphs themselves.
    """
    if context.target is None or context.text_embeddings is None:
        return
    taken = context.part(context.target).input("inputs_embeds")
    given = context.part(context.text_embeddings).outputs
    if taken is None or len(given) != 1 or not taken.shape or not given[0].shape:
        return
    wanted, got = taken.shape[-1], given[0].shape[-1]
    if wanted > 0 and got > 0 and wanted != got:
        yield Finding(
            f"the text embeddings are {got} wide, and inputs_embeds of {context.target.path.name} is {wanted}",
            "Restore both from the same export",
            file=context.text_embeddings.path,
            line=given[0].line,
        )
