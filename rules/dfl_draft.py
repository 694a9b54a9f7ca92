"""DFL: does the draft's rt_info say what the runtime reads from it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from irtools.errors import IrtoolsError
from irtools.lint.draft import Draft, pair, truthy
from irtools.lint.model import Context, Finding, Severity, rule
from irtools.model.directory import MTP_FILE

_NUMBER = re.compile(r"[ \t\n\r\v\f]*([+-]?[0-9]+)(.*)", re.DOTALL)


def _dflash(context: Context) -> Draft | None:
    judged = pair(context)
    return judged.draft if judged is not None and judged.draft.kind == "dflash" else None


def _at(found: Draft, key: str, message: str, hint: str, severity: Severity | None = None) -> Finding:
    document = found.part.document
    entry = found.part.entry(key)
    line = entry.line if entry is not None else document.line(document.scan.net_tag)
    return Finding(message, hint, document.path, line, severity=severity)


@rule("DFL001", "dflash-mode-off", Severity.ERROR, "The draft does not say that it is a DFlash draft")
def dflash_mode_off(context: Context) -> Iterator[Finding]:
    """The draft reads hidden states, but its rt_info has no `dflash_mode` that is true.

    What it checks
    --------------
    The model-level rt_info key `dflash_mode` of a draft that has the DFlash form: an input
    `hidden_states` and an output `last_hidden_state`, or a `dflash` entry.

    Why it matters
    --------------
    The runtime goes by this key. Without it the draft is taken for a language model of its own and
    refused at load, with a message about undeclared parameters; a value that is no boolean is
    refused as such.

    How to fix it
    -------------
    Export the draft with Optimum Intel 2.2 or later, or add `<dflash_mode value="True" />`.

    Source
    ------
    OpenVINO GenAI, `apply_dflash_rt_info`.
    """
    found = _dflash(context)
    if found is None or truthy(found.mode):
        return
    said = "is missing" if found.mode is None else f"is {found.mode!r}"
    if found.mode is not None and truthy(found.mode) is None:
        said += ", which is no boolean"
    yield _at(found, "dflash_mode", f"`dflash_mode` {said}", 'add `<dflash_mode value="True" />` to the rt_info')


@rule("DFL002", "unusable-mask-token", Severity.ERROR, "The draft's mask token id is no number")
def unusable_mask_token(context: Context) -> Iterator[Finding]:
    """`dflash/mask_token_id` is missing, or does not start with a number.

    What it checks
    --------------
    The value as the runtime reads it: an integer, perhaps after spaces. What follows the digits is
    dropped without a word, which is a warning.

    Why it matters
    --------------
    The draft is refused at load.

    How to fix it
    -------------
    Write the id of the mask token from the draft's config.json (`dflash_config.mask_token_id`).

    Source
    ------
    OpenVINO GenAI: "DFlash draft model is missing dflash_mask_token_id RT info".
    """
    found = _dflash(context)
    if found is None:
        return
    hint = "take it from `dflash_config.mask_token_id` of the draft's config.json"
    number = _NUMBER.match(found.mask_token_id or "")
    if found.mask_token_id is None:
        yield _at(found, "dflash", "`dflash/mask_token_id` is missing", hint)
    elif number is None:
        yield _at(found, "dflash", f"`dflash/mask_token_id` is {found.mask_token_id!r}, which is no number", hint)
    elif number[2].strip():
        message = f"`dflash/mask_token_id` is {found.mask_token_id!r}, and is read as {number[1]}"
        yield _at(found, "dflash", message, hint, Severity.WARNING)


@rule("DFL003", "mask-token-out-of-range", Severity.ERROR, "The draft's mask token is not in the vocabulary")
def mask_token_range(context: Context) -> Iterator[Finding]:
    """`dflash/mask_token_id` is negative, or not below the size of the vocabulary.

    What it checks
    --------------
    The number against the width of the target's logits, else against the draft's own logits or
    `vocab_size` of its config.json.

    Why it matters
    --------------
    The runtime embeds this token for every position that the draft is to fill. An id outside of the
    table gives whatever the device makes of it: nothing fails, and nothing is said.

    How to fix it
    -------------
    Write the id from the draft's config.json.

    Source
    ------
    Reproduced with GenAI 2026.4: silent.
    """
    judged = pair(context)
    number = _NUMBER.match(judged.draft.mask_token_id or "") if judged is not None else None
    if judged is None or judged.draft.kind != "dflash" or number is None:
        return
    vocabulary = _vocabulary(context)
    value = int(number[1][:20])
    if value < 0 or (vocabulary is not None and value >= vocabulary):
        size = f" of {vocabulary}" if vocabulary is not None else ""
        yield _at(
            judged.draft,
            "dflash",
            f"`dflash/mask_token_id` {value} is not in the vocabulary{size}",
            "take it from `dflash_config.mask_token_id` of the draft's config.json",
        )


def _vocabulary(context: Context) -> int | None:
    judged = pair(context)
    if judged is None:
        return None
    for part in (judged.target, judged.draft.part):
        logits = part.output("logits") if part is not None else None
        if logits is not None and logits.shape and logits.shape[-1] > 0:
            return logits.shape[-1]
    try:
        size = (context.draft or context.export).config.get("vocab_size")
    except IrtoolsError:
        return None  # an EXP rule reports it
    return size if isinstance(size, int) and not isinstance(size, bool) else None


@rule("DFL004", "malformed-layer-ids", Severity.ERROR, "The draft's target_layer_ids cannot be read")
def malformed_layer_ids(context: Context) -> Iterator[Finding]:
    """`dflash/target_layer_ids` is missing, empty, malformed or names a layer twice.

    What it checks
    --------------
    The list as the runtime reads it: integers between commas, with spaces around them. Brackets, or
    spaces instead of commas, are refused.

    Why it matters
    --------------
    The draft is refused at load.

    How to fix it
    -------------
    Write it like `0,1,2`, from `dflash_config.target_layer_ids` of the draft's config.json.

    Source
    ------
    OpenVINO GenAI, `parse_layer_ids`.
    """
    found = _dflash(context)
    if found is None:
        return
    hint = "write it like 0,1,2"
    text, layers = found.target_layer_ids, found.layers
    if text is None:
        yield _at(found, "dflash", "`dflash/target_layer_ids` is missing", hint)
    elif layers is None:
        yield _at(found, "dflash", f"`dflash/target_layer_ids` is {text!r}, no list of numbers", hint)
    elif not layers:
        yield _at(found, "dflash", f"`dflash/target_layer_ids` is {text!r}: it names no layer", hint)
    else:
        for layer in sorted({layer for layer in layers if layers.count(layer) > 1}):
            yield _at(found, "dflash", f"`dflash/target_layer_ids` names layer {layer} twice", hint)


@rule("DFL016", "mtp-in-draft", Severity.ERROR, "The draft's directory has an MTP head")
def mtp_in_draft(context: Context) -> Iterator[Finding]:
    """There is an `openvino_mtp_model.xml` in the directory given with `--draft`.

    What it checks
    --------------
    Whether the file is there beside the draft's own model.

    Why it matters
    --------------
    The runtime prefers it: a directory with an MTP head is an MTP draft, whatever else is in it, and
    is refused because it is not decomposed.

    How to fix it
    -------------
    Remove openvino_mtp_model.xml and .bin from the draft's directory.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    if context.draft is not None and context.draft.mtp is not None:
        same = context.draft.directory.resolve() == context.export.directory.resolve()
        if not same:
            yield Finding(
                f"the draft's directory has an {MTP_FILE}, which the runtime prefers",
                "remove the file and its .bin",
                file=context.draft.mtp.path,
            )
