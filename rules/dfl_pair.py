"""DFL: do draft and target fit together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from irtools.ir.op import DYNAMIC
from irtools.ir.reading import read_file
from irtools.lint.annotation import annotation, layer_count
from irtools.lint.draft import Pair, pair
from irtools.lint.model import Context, Finding, Severity, rule
from irtools.lint.mtp import head
from irtools.model.guess import guess
from irtools.model.part import Part
from irtools.model.target import find_embedding_gather, head_width, logits_head
from irtools.text import shape_text


def _dflash(context: Context) -> tuple[Pair, Part] | None:
    """A DFlash pair: the draft, and a target that is there."""
    judged = pair(context)
    if judged is None or judged.target is None or judged.draft.kind != "dflash":
        return None
    return judged, judged.target


def _at_draft(judged: Pair, message: str, hint: str, key: str = "dflash") -> Finding:
    document = judged.draft.part.document
    entry = judged.draft.part.entry(key)
    line = entry.line if entry is not None else document.line(document.scan.net_tag)
    return Finding(message, hint, document.path, line)


def _at_target(target: Part, line: int | None, message: str, hint: str, severity: Severity | None = None) -> Finding:
    document = target.document
    return Finding(message, hint, document.path, line or document.line(document.scan.net_tag), severity=severity)


@rule("DFL005", "layer-id-out-of-range", Severity.ERROR, "The draft reads a layer that the target does not have")
def layer_id_range(context: Context) -> Iterator[Finding]:
    """An id of `dflash/target_layer_ids` is not below the number of the target's layers.

    What it checks
    --------------
    The ids against the located layers, else against config.json. Without a target, only that none
    is negative.

    Why it matters
    --------------
    The target is refused at load: its annotation has no such layer.

    How to fix it
    -------------
    Use the draft with the target that it was trained for.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    judged = pair(context)
    if judged is None or judged.draft.kind != "dflash":
        return
    count = layer_count(context, context.stack) if judged.target is not None else None
    for layer in sorted(set(judged.draft.layers or ())):
        if layer < 0 or (count is not None and layer >= count):
            of = f", the target has {count}" if count is not None else ""
            yield _at_draft(judged, f"the draft reads layer {layer}{of}", "is this the target it was trained for?")


@rule("DFL009", "draft-width-mismatch", Severity.ERROR, "The draft is not as wide as its target")
def draft_width(context: Context) -> Iterator[Finding]:
    """The draft's embeddings or output have another width than the target's.

    What it checks
    --------------
    `inputs_embeds` and `last_hidden_state` of the draft against what the target's output projection
    reads; `logits` of a draft that has them against the target's.

    Why it matters
    --------------
    The target's embedding and output projection are put on the draft: other widths are refused at
    load, in a MatMul that says nothing about DFlash.

    How to fix it
    -------------
    Use the draft with the target that it was trained for.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    found = _dflash(context)
    if found is None:
        return
    judged, target = found
    width = head_width(target)
    draft = judged.draft.part
    for port in (draft.input("inputs_embeds"), draft.output("last_hidden_state")):
        if width is not None and port is not None and port.shape and port.shape[-1] not in (DYNAMIC, width):
            yield Finding(
                f"{port.label!r} is {port.shape[-1]} wide, the target {width}",
                "is this the target that the draft was trained for?",
                draft.document.path,
                port.line,
                port.friendly,
            )
    ours, theirs = draft.output("logits"), target.output("logits")
    if ours is not None and theirs is not None and ours.shape[-1:] != theirs.shape[-1:]:
        yield Finding(
            f"the draft's logits are {shape_text(ours.shape)}, the target's {shape_text(theirs.shape)}",
            "is this the target that the draft was trained for?",
            draft.document.path,
            ours.line,
            ours.friendly,
        )


@rule("DFL010", "ungraftable-head", Severity.ERROR, "The target's output projection cannot be put on the draft")
def ungraftable_head(context: Context) -> Iterator[Finding]:
    """The draft has no output projection, and the runtime does not find the target's.

    What it checks
    --------------
    That the target's `logits` have one of the forms that the runtime knows; see RUN010.

    Why it matters
    --------------
    The pair is refused at load: "could not locate the target lm_head MatMul". Cohere's and scaled
    Granite's logits are of other forms.

    How to fix it
    -------------
    Export the draft with `logits` of its own.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    found = _dflash(context)
    if found is None or found[0].draft.part.output("last_hidden_state") is None:
        return
    head = logits_head(found[1])
    if head.matmul is None:
        tail = f" behind {' <- '.join(head.tail)}" if head.tail else ": it has no output 'logits'"
        line = head.output.line if head.output is not None else None
        yield _at_target(
            found[1], line, f"the runtime does not find the target's output projection{tail}", "it cannot be used"
        )


@rule("DFL011", "ungraftable-embedding", Severity.ERROR, "The target's embedding cannot be put on the draft")
def ungraftable_embedding(context: Context) -> Iterator[Finding]:
    """The draft takes embeddings, and the runtime does not find the target's.

    What it checks
    --------------
    For a text target and a draft with `inputs_embeds`: that a Gather of the target is one that the
    runtime takes for the token embedding; see RUN011.

    Why it matters
    --------------
    The pair is refused at load: "could not find the target token-embedding Gather".

    How to fix it
    -------------
    Name the target's table `embed_tokens`; real vocabularies are found by their size.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    found = _dflash(context)
    if found is None or found[0].draft.part.input("inputs_embeds") is None or found[1].input("input_ids") is None:
        return
    if find_embedding_gather(found[1]) is None:
        yield _at_target(
            found[1],
            None,
            "the runtime does not find the target's token embedding, which the draft needs",
            "name its table embed_tokens",
        )


@rule("DFL012", "undecomposed-pair", Severity.ERROR, "Draft and vision-language target do not fit")
def undecomposed_pair(context: Context) -> Iterator[Finding]:
    """A target that takes embeddings needs a text embeddings part and a draft that takes them too.

    What it checks
    --------------
    For a target with `inputs_embeds`: that `openvino_text_embeddings_model.xml` is beside it, and
    that the draft has `inputs_embeds` and no `input_ids`.

    Why it matters
    --------------
    The pair is refused at load: "DFlash VLM draft model must be inputs_embeds-native".

    How to fix it
    -------------
    Export the draft without an embedding of its own.

    Source
    ------
    OpenVINO GenAI 2026.4.
    """
    found = _dflash(context)
    if found is None or found[1].input("inputs_embeds") is None:
        return
    if context.export.find_part("text_embeddings") is None:
        message = "the target takes embeddings, and there is no openvino_text_embeddings_model.xml beside it"
        yield _at_target(found[1], None, message, "export the target with --task image-text-to-text")
    if found[0].draft.part.input("inputs_embeds") is None:
        message = "the target takes embeddings, and the draft has no input 'inputs_embeds'"
        yield _at_draft(found[0], message, "export the draft without an embedding of its own")


@rule("DFL013", "guessed-taps", Severity.ERROR, "The target has no annotation, and the runtime's guess does not do")
def guessed_taps(context: Context) -> Iterator[Finding]:
    """The draft reads layers that the runtime would have to guess, and it guesses wrong.

    What it checks
    --------------
    For a target without annotation: what the runtime's guess finds for each layer that the draft
    reads, against the located hidden states. A warning when it finds a value, but another one.

    Why it matters
    --------------
    If a layer is not found, the target is refused at load: "Eagle3 fallback found 0 outputs". If
    another value is taken, fewer candidates are accepted, and nothing is said.

    How to fix it
    -------------
    `irtools annotate MODEL_DIR`.

    Source
    ------
    OpenVINO GenAI, `find_decoder_layer_hidden_state_outputs`.
    """
    found = _dflash(context)
    if found is None or annotation(found[1]) is not None or not found[0].draft.layers:
        return
    target, layers = found[1], sorted(set(found[0].draft.layers))
    taken = guess(target, layers)
    missing = [layer for layer in layers if layer not in taken]
    hint = "`irtools annotate` writes the annotation"
    if missing:
        listed = ", ".join(map(str, missing))
        yield _at_target(target, None, f"no annotation, and the runtime's guess finds nothing for layer {listed}", hint)
    for layer, op in taken.items():
        if context.stack is not None and layer < len(context.stack.layers):
            wanted = context.stack.layers[layer]
            if op != wanted.source.op:
                message = (
                    f"no annotation, and the runtime's guess for layer {layer} is {target.graph.op_name(op)!r}, "
                    f"not {wanted.locator.producer!r}"
                )
                yield _at_target(target, target.graph.line(op), message, hint, Severity.WARNING)


@rule("DFL014", "other-tokenizer", Severity.WARNING, "Draft and target have different tokenizers")
def other_tokenizer(context: Context) -> Iterator[Finding]:
    """The vocabularies of the two tokenizers differ.

    What it checks
    --------------
    The token ids in both tokenizer.json files, when both are there.

    Why it matters
    --------------
    The runtime passes token ids from one to the other. With other ids the draft guesses at random.

    How to fix it
    -------------
    Use the draft with the target that it was trained for.

    Source
    ------
    OpenVINO GenAI uses the target's tokenizer for both.
    """
    if context.draft is None or context.draft.directory.resolve() == context.export.directory.resolve():
        return
    ours, theirs = (directory / "tokenizer.json" for directory in (context.draft.directory, context.export.directory))
    vocabularies = [_vocabulary(path) for path in (ours, theirs)]
    if None not in vocabularies and vocabularies[0] != vocabularies[1]:
        yield Finding(
            "the draft's tokenizer has other token ids than the target's",
            "is this the target that the draft was trained for?",
            file=ours,
        )


def _vocabulary(path: Path) -> object:
    """Tokens and ids of a tokenizer.json; None when it cannot be read."""
    try:
        content = json.loads(read_file(path))
    except (OSError, ValueError, RecursionError):
        return None
    model = content.get("model") if isinstance(content, dict) else None
    if not isinstance(model, dict):
        return None
    added = content.get("added_tokens")
    extra = [(t.get("id"), t.get("content")) for t in added if isinstance(t, dict)] if isinstance(added, list) else []
    return model.get("vocab"), sorted(extra, key=repr)


@rule("DFL015", "plain-draft", Severity.NOTE, "The draft does not read the target's hidden states")
def plain_draft(context: Context) -> Iterator[Finding]:
    """The directory given with `--draft` holds an ordinary language model.

    What it checks
    --------------
    Whether the draft is one for DFlash, EAGLE-3 or MTP. An error for a target that takes embeddings.

    Why it matters
    --------------
    A small language model can draft for a text target. For a vision-language target it is refused at
    load: "Speculative decoding is not supported for models with embeddings".

    How to fix it
    -------------
    Give the directory of a DFlash draft.

    Source
    ------
    OpenVINO GenAI 2026.4.
    """
    judged = pair(context)
    if judged is None or judged.target is None or context.draft is None or context.draft.mtp is not None:
        return
    found = head(context)
    if judged.draft.kind != "plain" or (found is not None and found.part is judged.draft.part):
        return
    refused = judged.target.input("inputs_embeds") is not None
    document = judged.draft.part.document
    yield Finding(
        "the draft is an ordinary language model" + (", which no target with embeddings accepts" if refused else ""),
        "give the directory of a DFlash draft",
        document.path,
        document.line(document.scan.net_tag),
        severity=Severity.ERROR if refused else None,
    )
