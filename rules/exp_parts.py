"""EXP001 to EXP007: what a model directory consists of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from irtools.errors import ExportError
from irtools.lint import Context, Finding, Severity, rule
from irtools.lint.directory import (
    KNOWN_PARTS,
    RUNTIME_FAMILIES,
    is_draft,
    json_line,
    needs_embeddings,
    parts_by_config,
    reads_tokens,
)

_LEFTOVERS = (".irtools-tmp", ".tmp", ".part", ".partial", ".incomplete", ".crdownload", ".lock", "~")


@rule("EXP001", "missing-target", Severity.ERROR, "There is no target in the directory")
def missing_target(context: Context) -> Iterator[Finding]:
    """There is no target in the directory.

    What it checks
    --------------
    That one file could be the model with the decoder stack: ``openvino_model.xml``,
    ``openvino_language_model.xml``, or the only IR that is no side part.

    Why it matters
    --------------
    The runtime looks for these two names and fails without them.

    How to fix it
    -------------
    Restore the file, or give the directory that holds it. Encoder-decoder exports have no
    decoder-only stack and are no subject of this check.

    Source
    ------
    OpenVINO GenAI 2026.4, ``utils::read_model``.
    """
    if context.export.target_candidates:
        return
    try:
        _ = context.export.target
    except ExportError as error:
        message, hint = str(error.args[0]).split("; ")[0], "Give the directory of an export"
        if {"encoder", "decoder"} <= context.export.parts.keys():
            message = "this is an encoder-decoder export, and none of its parts is a decoder-only target"
            hint = "It runs in a pipeline of its own, without MTP, DFlash or EAGLE-3; irtools checks its files only"
        yield Finding(message, hint, file=context.export.directory)


@rule("EXP002", "two-targets", Severity.ERROR, "Two files could be the target")
def two_targets(context: Context) -> Iterator[Finding]:
    """Two files could be the target.

    What it checks
    --------------
    That not both ``openvino_model.xml`` and ``openvino_language_model.xml`` are there.

    Why it matters
    --------------
    The runtime takes ``openvino_model.xml`` without a word, also when the other one is the model
    that the embeddings, vision parts and MTP head belong to.

    How to fix it
    -------------
    Give each export a directory of its own. To verify one of the two, give the path of its ``.xml``.

    Source
    ------
    OpenVINO GenAI 2026.4, ``utils::read_model``; reproduced.
    """
    candidates = context.export.target_candidates
    if len(candidates) > 1:
        names = " and ".join(document.path.name for document in candidates)
        wrapper = context.export.find_part("text_embeddings") is not None
        odd = [document for document in candidates if (document.part == "language") != wrapper]
        yield Finding(
            f"{names} could both be the target",
            "Give each export a directory of its own, or the path of the .xml you mean",
            file=(odd or list(candidates))[0].path,
        )


@rule("EXP003", "missing-tokenizer", Severity.ERROR, "The tokenizer or detokenizer is missing")
def missing_tokenizer(context: Context) -> Iterator[Finding]:
    """The tokenizer or detokenizer is missing.

    What it checks
    --------------
    That a language model has ``openvino_tokenizer.xml`` and ``openvino_detokenizer.xml`` beside it.
    A DFlash draft needs none: it gets tokens from its target.

    Why it matters
    --------------
    Without the tokenizer a pipeline fails at load or with the first prompt ("Tokenizer::encode is
    not available"), without the detokenizer when it writes its first text.

    How to fix it
    -------------
    ``convert_tokenizer MODEL_DIR --with-detokenizer -o MODEL_DIR`` of openvino-tokenizers, or export
    with openvino-tokenizers installed: without it the exporter only warns.

    Source
    ------
    Reproduced with OpenVINO GenAI 2026.4.1.
    """
    if not context.export.target_candidates or not reads_tokens(context) or is_draft(context):
        return
    for name in ("openvino_tokenizer.xml", "openvino_detokenizer.xml"):
        path = context.export.directory / name
        if not path.exists():
            yield Finding(
                f"{name} is missing",
                "`convert_tokenizer MODEL_DIR --with-detokenizer -o MODEL_DIR` of openvino-tokenizers makes it",
                file=path,
            )


@rule("EXP004", "missing-text-embeddings", Severity.ERROR, "The text embeddings part is missing")
def missing_text_embeddings(context: Context) -> Iterator[Finding]:
    """The text embeddings part is missing.

    What it checks
    --------------
    That ``openvino_text_embeddings_model.xml`` is beside a language model that takes
    ``inputs_embeds`` instead of ``input_ids``.

    Why it matters
    --------------
    The runtime takes such a directory for a plain text model and then has nothing to feed it with;
    MTP is refused ("requires a decomposed model with a text embeddings model").

    How to fix it
    -------------
    Restore the file, or export again with the task image-text-to-text.

    Source
    ------
    Reproduced with OpenVINO GenAI 2026.4.1.
    """
    path = context.export.directory / "openvino_text_embeddings_model.xml"
    if needs_embeddings(context) and not path.exists():
        yield Finding(
            "openvino_text_embeddings_model.xml is missing, and the language model takes embeddings",
            "Restore it, or export again with the task image-text-to-text",
            file=path,
        )


@rule("EXP005", "missing-part", Severity.ERROR, "A vision or embedding part that the family needs is missing")
def missing_part(context: Context) -> Iterator[Finding]:
    """A vision or embedding part that the family needs is missing.

    What it checks
    --------------
    The ``model_type`` of config.json says which parts a vision-language export consists of beside
    its language model and text embeddings: ``vision_embeddings`` always; a merger, position
    embeddings, resampler, projection or per-layer embeddings for some families.

    Why it matters
    --------------
    A missing part is a failure at load. A missing Qwen merger is noticed with the first image only.

    How to fix it
    -------------
    Restore the file, or export again with the task image-text-to-text.

    Source
    ------
    Optimum Intel 2.2, ``modeling_visual_language.py``; reproduced with OpenVINO GenAI 2026.4.1 for
    Qwen3.5.
    """
    if not needs_embeddings(context):
        return
    for part in parts_by_config(context.config):
        path = context.export.directory / f"openvino_{part}_model.xml"
        if part != "text_embeddings" and not path.exists():
            yield Finding(
                f"{path.name} is missing, which a {context.config.get('model_type')} export consists of",
                "Restore it, or export again with the task image-text-to-text",
                file=path,
            )


@rule("EXP006", "unsupported-family", Severity.ERROR, "The runtime does not know this vision-language family",
      runtimes="==2026.4")  # fmt: skip
def unsupported_family(context: Context) -> Iterator[Finding]:
    """The runtime does not know this vision-language family.

    What it checks
    --------------
    The ``model_type`` of config.json against the list of the runtime, for an export whose language
    model takes embeddings.

    Why it matters
    --------------
    The pipeline refuses the model at load ("Unsupported '...' VLM model type").

    How to fix it
    -------------
    Run it with Optimum Intel, or correct config.json if it belongs to another model.

    Source
    ------
    OpenVINO GenAI 2026.4, ``vlm_config.cpp``; reproduced with 2026.4.1.
    """
    family = context.config.get("model_type")
    if not needs_embeddings(context) or not context.config or context.export.find_part("text_embeddings") is None:
        return
    if not isinstance(family, str) or family not in RUNTIME_FAMILIES:
        path = context.export.directory / "config.json"
        yield Finding(
            f"OpenVINO GenAI {context.target_runtime} knows no vision-language family {family!r}",
            "Run it with Optimum Intel, or correct config.json",
            file=path,
            line=json_line(path, "model_type", family),
        )


@rule("EXP007", "stray-file", Severity.WARNING, "A file that nothing in the export uses")
def stray_file(context: Context) -> Iterator[Finding]:
    """A file that nothing in the export uses.

    What it checks
    --------------
    A ``.bin`` without its ``.xml``, temporary files of an interrupted download or save, and IRs
    under a name that no exporter writes and no runtime reads. Weights of another framework
    (``pytorch_model.bin``, ``*.safetensors``) and XML that is no IR get a note.

    Why it matters
    --------------
    They are uploaded with the model: gigabytes that nobody needs, or the sign that the right file is
    missing.

    How to fix it
    -------------
    Remove them, or give them the right name.

    Source
    ------
    The names that Optimum Intel 2.2 writes.
    """
    target = {document.path for document in context.export.target_candidates}
    for path in sorted(context.export.directory.iterdir()):
        found = None if path in target or path.is_dir() else _stray(context, path)
        if found is not None:
            message, severity = found
            yield Finding(message, "Remove it, or give it the right name", file=path, severity=severity)


def _stray(context: Context, path: Path) -> tuple[str, Severity | None] | None:
    """What is wrong with a file that does not belong, and how much."""
    name = path.name
    ours = name.startswith("openvino_")
    if name.endswith(_LEFTOVERS):
        return ("this is left over from an interrupted save or download", None)
    if path.suffix == ".bin" and not path.with_suffix(".xml").exists():
        if ours:
            return (f"there is no {path.with_suffix('.xml').name} for these weights", None)
        return ("these are no weights of an IR", Severity.NOTE)
    if path.suffix in (".safetensors", ".pt", ".pth", ".gguf"):
        return ("these are weights of another framework", Severity.NOTE)
    if path.suffix == ".xml":
        part = path.stem.removeprefix("openvino_").removesuffix("_model") or path.stem
        if not ours:
            kind = "IR" if part in context.documents else "XML"
            return (f"this {kind} has a name that no runtime reads", Severity.NOTE)
        if part not in KNOWN_PARTS and path.stem != "openvino_model":
            return ("this IR has a name that no exporter writes and no runtime reads", None)
    return None
