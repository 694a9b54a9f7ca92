"""DFL: compatibility of draft and target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.ir.op import DYNAMIC
from irtools.ir.reading import parse_json, read_file
from irtools.lint.pair import DraftPair, pair
from irtools.model.guess import guess
from irtools.model.part import PartFacts
from irtools.model.target import find_embedding_gather, find_runtime_lm_head, head_width
from irtools.text import plural, shape_text

_OTHER_TARGET = "use the target that the draft was trained for"


def _dflash(context: Context) -> tuple[DraftPair, PartFacts] | None:
    """The DFlash draft and its target; None without a target."""
    paired = pair(context)
    return (paired, paired.target) if paired and paired.target and paired.draft.kind == "dflash" else None


@rule("DFL005", "layer-id-out-of-range", Severity.ERROR, "The draft reads a layer that the target does not have")
def layer_id_range(context: Context) -> Iterator[Finding]:
    """An id in `dflash/target_layer_ids` or `hidden_layers_list` is not below the number of the target's layers.

    What it checks
    --------------
    The ids against the number of located layers, or config.json if none could be located. Without a
    target: that no id is negative.

    Why it matters
    --------------
    The runtime rejects the target at load time because it has no such layer. An annotation cannot fix
    this.

    How to fix it
    -------------
    Use the draft with the target it was trained for.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    paired = pair(context)
    if paired is None or paired.draft.kind not in ("dflash", "eagle3"):
        return
    kind, place = paired.draft.kind, "dflash" if paired.draft.kind == "dflash" else "hidden_layers_list"
    count = context.layer_count if paired.target is not None else None
    for layer in sorted(set(paired.draft.layers or ())):
        if layer < 0 or (count is not None and layer >= count):
            limit = f", but the target has {plural(count, 'layer')} (0 to {count - 1})" if count is not None else ""
            message = f"the draft reads layer {layer}{limit}"
            yield finding_at(paired.draft.part, place, message, _OTHER_TARGET, rules_out=(kind,))


@rule("DFL009", "draft-width-mismatch", Severity.ERROR, "Draft and target have different widths")
def draft_width(context: Context) -> Iterator[Finding]:
    """The width of the draft's embeddings or output differs from the target's.

    What it checks
    --------------
    `inputs_embeds` and `last_hidden_state` of the draft against the input of the target's output
    projection. If the draft has `logits`: that they cover no more tokens than the target's. Fewer are a
    note, DFL030.

    Why it matters
    --------------
    The runtime grafts the target's embedding and output projection onto the draft. With other widths,
    loading fails in a MatMul, with a message that does not mention DFlash. A draft with more tokens can
    propose one that the target cannot embed.

    How to fix it
    -------------
    Use the draft with the target it was trained for.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    checked = _dflash(context)
    if checked is None:
        return
    paired, target = checked
    width = head_width(target)
    draft = paired.draft.part
    for port in (draft.input("inputs_embeds"), draft.output("last_hidden_state")):
        if width is not None and port is not None and port.shape and port.shape[-1] not in (DYNAMIC, width):
            message = f"{port.label!r} has width {port.shape[-1]}, but the target has {width}"
            yield finding_at(draft, port, message, _OTHER_TARGET)
    ours, theirs = draft.output("logits"), target.output("logits")
    if ours is None or theirs is None or not ours.shape or not theirs.shape:
        return
    size, most = ours.shape[-1], theirs.shape[-1]
    if DYNAMIC not in (size, most) and size > most:
        message = f"the draft's logits are {shape_text(ours.shape)}, but the target's are {shape_text(theirs.shape)}"
        yield finding_at(draft, ours, message, _OTHER_TARGET)


@rule("DFL010", "ungraftable-head", Severity.ERROR, "The target's output projection cannot be grafted onto the draft")
def ungraftable_head(context: Context) -> Iterator[Finding]:
    """The draft has no output projection, and the runtime does not find the target's.

    What it checks
    --------------
    That the target's `logits` have one of the forms that the runtime recognises; see RUN010.

    Why it matters
    --------------
    The runtime rejects the pair at load time: "could not locate the target lm_head MatMul". The logits
    of Cohere and of scaled Granite models have other forms.

    How to fix it
    -------------
    Export the draft with its own `logits`.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    checked = _dflash(context)
    if checked is None or checked[0].draft.part.output("last_hidden_state") is None:
        return
    head = find_runtime_lm_head(checked[1])
    if head.matmul is None:
        tail = f" behind {' <- '.join(head.tail)}" if head.tail else ": it has no output 'logits'"
        message = f"the runtime does not find the target's output projection{tail}"
        found = finding_at(checked[1], head.output, message, "use a draft that has its own logits")
        yield replace(found, op=None)


@rule("DFL011", "ungraftable-embedding", Severity.ERROR, "The target's embedding cannot be grafted onto the draft")
def ungraftable_embedding(context: Context) -> Iterator[Finding]:
    """The draft takes embeddings, and the runtime does not find the target's embedding table.

    What it checks
    --------------
    For a text target and a draft with `inputs_embeds`: that the runtime recognises a Gather of the
    target as the token embedding; see RUN011.

    Why it matters
    --------------
    The runtime rejects the pair at load time: "could not find the target token-embedding Gather".

    How to fix it
    -------------
    Name the target's table `embed_tokens`. Vocabularies of real models are recognised by their size.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    checked = _dflash(context)
    if checked is None or checked[0].draft.part.input("inputs_embeds") is None or checked[1].input("input_ids") is None:
        return
    if find_embedding_gather(checked[1]) is None:
        message = "the runtime does not find the target's token embedding, which the draft needs"
        yield finding_at(checked[1], None, message, "name its table embed_tokens")


@rule("DFL012", "undecomposed-pair", Severity.ERROR, "The draft does not fit a vision-language target")
def undecomposed_pair(context: Context) -> Iterator[Finding]:
    """A target that takes embeddings needs a text embeddings part and a draft that takes embeddings.

    What it checks
    --------------
    For a target with `inputs_embeds`: that `openvino_text_embeddings_model.xml` is beside it, and that
    the draft has `inputs_embeds` and no `input_ids`.

    Why it matters
    --------------
    The runtime rejects the pair at load time: "DFlash VLM draft model must be inputs_embeds-native".

    How to fix it
    -------------
    Export the draft without its own embedding.

    Source
    ------
    OpenVINO GenAI 2026.4.
    """
    checked = _dflash(context)
    if checked is None or checked[1].input("inputs_embeds") is None:
        return
    if context.export.find_part("text_embeddings") is None:
        message = "the target takes embeddings, but has no openvino_text_embeddings_model.xml beside it"
        yield finding_at(checked[1], None, message, "export the target with --task image-text-to-text")
    if checked[0].draft.part.input("inputs_embeds") is None:
        message = "the target takes embeddings, but the draft has no input 'inputs_embeds'"
        yield finding_at(checked[0].draft.part, "dflash", message, "export the draft without its own embedding")


@rule("DFL013", "guessed-taps", Severity.ERROR, "The target has no annotation, and the runtime's guess is wrong")
def guessed_taps(context: Context) -> Iterator[Finding]:
    """The target has no annotation, and the runtime's guess fails for a layer that the draft reads.

    What it checks
    --------------
    For a target without annotation: the runtime's guess for each layer that the draft reads and the
    target has, against the located hidden state. A guess that finds another value is a warning.

    Why it matters
    --------------
    If a layer is not found, loading fails: "Eagle3 fallback found 0 outputs". If another value is used,
    the acceptance rate drops without an error message.

    How to fix it
    -------------
    Run `irtools annotate MODEL_DIR`.

    Source
    ------
    OpenVINO GenAI, `find_decoder_layer_hidden_state_outputs`.
    """
    checked = _dflash(context)
    if checked is None or checked[1].annotation is not None or not checked[0].draft.layers:
        return
    target, count = checked[1], context.layer_count
    layers = [one for one in sorted(set(checked[0].draft.layers)) if one >= 0 and (count is None or one < count)]
    taken = guess(target, layers)
    missing = [layer for layer in layers if layer not in taken]
    hint = "run `irtools annotate` to write the annotation"
    if context.stack is None:
        hint = "use a target with an annotation: irtools cannot locate the layers of this one"
    if missing:
        message = f"no annotation, and the runtime's guess finds nothing for layer {', '.join(map(str, missing))}"
        yield finding_at(target, None, message, hint)
    located = context.stack.layers if context.stack is not None else ()
    for layer, op in taken.items():
        if layer < len(located) and op != located[layer].source.op:
            name, producer = target.graph.op_name(op), located[layer].locator.producer
            message = f"no annotation, and the runtime's guess for layer {layer} is {name!r}, not {producer!r}"
            yield replace(finding_at(target, op, message, hint, Severity.WARNING), op=None)


@rule("DFL014", "other-tokenizer", Severity.WARNING, "Draft and target have different tokenizers")
def other_tokenizer(context: Context) -> Iterator[Finding]:
    """The vocabularies of the two tokenizers differ.

    What it checks
    --------------
    The token ids in both tokenizer.json files, if both exist.

    Why it matters
    --------------
    The runtime passes token ids between the two models. With different ids, the draft's predictions are
    random.

    How to fix it
    -------------
    Use the draft with the target it was trained for.

    Source
    ------
    OpenVINO GenAI uses the target's tokenizer for both.
    """
    if context.draft is None or context.draft.directory.resolve() == context.export.directory.resolve():
        return
    ours, theirs = (directory / "tokenizer.json" for directory in (context.draft.directory, context.export.directory))
    vocabularies = [_vocabulary(path) for path in (ours, theirs)]
    if None not in vocabularies and vocabularies[0] != vocabularies[1]:
        yield Finding("the draft's tokenizer assigns other token ids than the target's", _OTHER_TARGET, ours)


def _vocabulary(path: Path) -> object:
    """Tokens and ids of a tokenizer.json; None if it cannot be read."""
    try:
        content = parse_json(read_file(path))
    except (OSError, ValueError):
        return None
    model = content.get("model") if isinstance(content, dict) else None
    if not isinstance(model, dict):
        return None
    added = content.get("added_tokens")
    extra = [(t.get("id"), t.get("content")) for t in added if isinstance(t, dict)] if isinstance(added, list) else []
    return model.get("vocab"), sorted(extra, key=repr)
