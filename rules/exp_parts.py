"""EXP001 to EXP007: the files of a model directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from irtools.authoring import Context, Finding, Severity, rule
from irtools.errors import ExportError
from irtools.lint.json_files import finding_in_config

from .families import KNOWN_PARTS, family_of, parts_by_config

_LEFTOVERS = (".irtools-tmp", ".tmp", ".part", ".partial", ".incomplete", ".crdownload", ".lock", "~")


@rule("EXP001", "missing-target", Severity.ERROR, "The directory has no target")
def missing_target(context: Context) -> Iterator[Finding]:
    """The directory has no target.

    What it checks
    --------------
    That one file can be the model with the decoder stack: ``openvino_model.xml``,
    ``openvino_language_model.xml``, or the only IR that is not a known side part.

    Why it matters
    --------------
    The runtime looks for these two names and fails without them.

    How to fix it
    -------------
    Restore the file, or pass the directory that holds it. Encoder-decoder exports have no decoder-only
    stack, so this check does not apply to them.

    Source
    ------
    OpenVINO GenAI 2026.4, ``utils::read_model``.
    """
    if context.export.target_candidates:
        return
    try:
        _ = context.export.target
    except ExportError as error:
        message, hint = str(error.args[0]), "Pass the directory of an export"
        if {"encoder", "decoder"} <= context.export.parts.keys():
            message = "this is an encoder-decoder export without a decoder-only target"
            hint = "It needs an encoder-decoder pipeline, without MTP, DFlash or EAGLE-3; irtools checks only its files"
        yield Finding(message, hint, file=context.export.directory)


@rule("EXP002", "two-targets", Severity.ERROR, "Two files could be the target")
def two_targets(context: Context) -> Iterator[Finding]:
    """Two files could be the target.

    What it checks
    --------------
    That the directory does not hold both ``openvino_model.xml`` and ``openvino_language_model.xml``.

    Why it matters
    --------------
    The runtime silently takes ``openvino_model.xml``, even if embeddings, vision parts and MTP head
    belong to the other model.

    How to fix it
    -------------
    Put each export into its own directory. To verify one of the two models, pass the path of its
    ``.xml``.

    Source
    ------
    OpenVINO GenAI 2026.4, ``utils::read_model``; reproduced.
    """
    candidates = context.export.target_candidates
    if len(candidates) > 1:
        names = " and ".join(document.path.name for document in candidates)
        wrapper = context.export.find_part("text_embeddings") is not None
        odd = [document for document in candidates if (document.part == "language") != wrapper]
        hint = "Put each export into its own directory, or pass the path of one .xml"
        yield Finding(f"{names} could both be the target", hint, file=(odd or list(candidates))[0].path)


@rule("EXP003", "missing-tokenizer", Severity.ERROR, "The tokenizer or detokenizer is missing")
def missing_tokenizer(context: Context) -> Iterator[Finding]:
    """The tokenizer or detokenizer is missing.

    What it checks
    --------------
    That a language model has ``openvino_tokenizer.xml`` and ``openvino_detokenizer.xml`` beside it. A
    DFlash draft needs neither because it receives tokens from its target.

    Why it matters
    --------------
    Without the tokenizer, a pipeline fails at load time or at the first prompt ("Tokenizer::encode is
    not available"). Without the detokenizer, it fails when it writes the first text.

    How to fix it
    -------------
    Run ``convert_tokenizer MODEL_DIR --with-detokenizer -o MODEL_DIR`` of openvino-tokenizers, or
    export with openvino-tokenizers installed. Without that package, the exporter only prints a warning.

    Source
    ------
    Reproduced with OpenVINO GenAI 2026.4.1.
    """
    if not context.export.target_candidates or not context.is_language_model or context.is_draft:
        return
    for name in ("openvino_tokenizer.xml", "openvino_detokenizer.xml"):
        path = context.export.directory / name
        if not path.exists():
            hint = "Run `convert_tokenizer MODEL_DIR --with-detokenizer -o MODEL_DIR` of openvino-tokenizers"
            yield Finding(f"{name} is missing", hint, file=path)


@rule("EXP004", "missing-text-embeddings", Severity.ERROR, "The text embeddings part is missing")
def missing_text_embeddings(context: Context) -> Iterator[Finding]:
    """The text embeddings part is missing.

    What it checks
    --------------
    That ``openvino_text_embeddings_model.xml`` is beside a language model that takes ``inputs_embeds``
    instead of ``input_ids``.

    Why it matters
    --------------
    The runtime treats such a directory as a plain text model and cannot feed its inputs. MTP is
    rejected ("requires a decomposed model with a text embeddings model").

    How to fix it
    -------------
    Restore the file, or export again with the task image-text-to-text.

    Source
    ------
    Reproduced with OpenVINO GenAI 2026.4.1.
    """
    path = context.export.directory / "openvino_text_embeddings_model.xml"
    if context.needs_embeddings and not path.exists():
        message = "openvino_text_embeddings_model.xml is missing, but the language model takes embeddings"
        yield Finding(message, "Restore it, or export again with the task image-text-to-text", path)


@rule("EXP005", "missing-part", Severity.ERROR, "A vision or embedding part required by the family is missing")
def missing_part(context: Context) -> Iterator[Finding]:
    """A vision or embedding part required by the family is missing.

    What it checks
    --------------
    The parts that a vision-language export of this ``model_type`` has, beside its language model and
    text embeddings: always ``vision_embeddings``; for some families a merger, position embeddings, a
    resampler, a projection or per-layer embeddings.

    Why it matters
    --------------
    Loading fails. A missing Qwen merger only fails at the first image.

    How to fix it
    -------------
    Restore the file, or export again with the task image-text-to-text.

    Source
    ------
    Optimum Intel 2.2, ``modeling_visual_language.py``; reproduced with OpenVINO GenAI 2026.4.1 for
    Qwen3.5.
    """
    if not context.needs_embeddings:
        return
    for part in parts_by_config(context.config):
        path = context.export.directory / f"openvino_{part}_model.xml"
        if part != "text_embeddings" and not path.exists():
            message = f"{path.name} is missing, which a {context.config.get('model_type')} export needs"
            yield Finding(message, "Restore it, or export again with the task image-text-to-text", path)


@rule(
    "EXP006",
    "unsupported-family",
    Severity.ERROR,
    "The runtime does not support this vision-language family",
    runtimes="==2026.4",
)
def unsupported_family(context: Context) -> Iterator[Finding]:
    """The runtime does not support this vision-language family.

    What it checks
    --------------
    The ``model_type`` of config.json against the runtime's list, for an export whose language model
    takes embeddings.

    Why it matters
    --------------
    The pipeline rejects the model at load time ("Unsupported '...' VLM model type").

    How to fix it
    -------------
    Run the model with Optimum Intel. If config.json belongs to another model, correct it.

    Source
    ------
    OpenVINO GenAI 2026.4, ``vlm_config.cpp``; reproduced with 2026.4.1.
    """
    family = context.config.get("model_type")
    if not context.needs_embeddings or not context.config or context.export.find_part("text_embeddings") is None:
        return
    known = family_of(context.config)
    if known is None or not known.runs:
        message = f"OpenVINO GenAI {context.target_runtime} does not support the vision-language family {family!r}"
        hint = "Run it with Optimum Intel, or correct config.json"
        yield finding_in_config(context, "model_type", family, message, hint)


@rule("EXP007", "stray-file", Severity.WARNING, "A file is not part of the export", rules_out=())
def stray_file(context: Context) -> Iterator[Finding]:
    """A file is not part of the export.

    What it checks
    --------------
    A ``.bin`` without its ``.xml``, temporary files of an interrupted download or save, and IRs with a
    name that no exporter writes and no runtime reads. Weights of another framework
    (``pytorch_model.bin``, ``*.safetensors``) and XML that is not an IR get a note.

    Why it matters
    --------------
    Such files are uploaded with the model and can take gigabytes. They can also mean that the right
    file is missing.

    How to fix it
    -------------
    Remove the files, or rename them.

    Source
    ------
    The names that Optimum Intel 2.2 writes.
    """
    targets = {document.path for document in context.export.target_candidates}
    for path in sorted(context.export.directory.iterdir()):
        stray = None if path in targets or path.is_dir() else _stray(context, path)
        if stray is not None:
            yield Finding(stray[0], "Remove or rename the file", file=path, severity=stray[1])


def _stray(context: Context, path: Path) -> tuple[str, Severity | None] | None:
    """Message and severity for a file that the export does not use."""
    name = path.name
    ours = name.startswith("openvino_")
    if name.endswith(_LEFTOVERS):
        return ("the file is left over from an interrupted save or download", None)
    if path.suffix == ".bin" and not path.with_suffix(".xml").exists():
        if ours:
            return (f"the weights have no {path.with_suffix('.xml').name}", None)
        return ("the file is not the weights of an IR", Severity.NOTE)
    if path.suffix in (".safetensors", ".pt", ".pth", ".gguf"):
        return ("the file holds weights of another framework", Severity.NOTE)
    if path.suffix == ".xml":
        part = path.stem.removeprefix("openvino_").removesuffix("_model") or path.stem
        if not ours:
            kind = "IR" if part in context.documents else "XML"
            return (f"no runtime reads an {kind} of this name", Severity.NOTE)
        if part not in KNOWN_PARTS and path.stem != "openvino_model":
            return ("no exporter writes and no runtime reads an IR of this name", None)
    return None
