"""DFL: the entries of the draft's rt_info that the runtime reads."""

from __future__ import annotations

import re
from collections.abc import Iterator

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.errors import IrtoolsError
from irtools.lint.pair import dflash_draft, pair
from irtools.model.directory import MTP_FILE
from irtools.model.draft import truthy

_NUMBER = re.compile(r"[ \t\n\r\v\f]*([+-]?[0-9]+)(.*)", re.DOTALL)
_MASK_HINT = "copy it from `dflash_config.mask_token_id` in the draft's config.json"


@rule("DFL001", "dflash-mode-off", Severity.ERROR, "The draft is not marked as a DFlash draft")
def dflash_mode_off(context: Context) -> Iterator[Finding]:
    """The draft reads hidden states, but its rt_info has no true `dflash_mode`.

    What it checks
    --------------
    The model-level rt_info key `dflash_mode` of a draft in DFlash form: it has an input `hidden_states`
    and an output `last_hidden_state`, or a `dflash` entry.

    Why it matters
    --------------
    The runtime recognises a DFlash draft by this key. Without it, the draft is loaded as an ordinary
    language model, and loading fails with a message about undeclared parameters. A value that is not a
    boolean is also rejected.

    How to fix it
    -------------
    Export the draft with Optimum Intel 2.2 or later, or add `<dflash_mode value="True" />`.

    Source
    ------
    OpenVINO GenAI, `apply_dflash_rt_info`.
    """
    draft = dflash_draft(context)
    if draft is None or truthy(draft.mode):
        return
    state = "is missing" if draft.mode is None else f"is {draft.mode!r}"
    if draft.mode is not None and truthy(draft.mode) is None:
        state += ", which is not a boolean"
    message = f"`dflash_mode` {state}"
    yield finding_at(draft.part, "dflash_mode", message, 'add `<dflash_mode value="True" />` to the rt_info')


@rule("DFL002", "unusable-mask-token", Severity.ERROR, "The draft's mask token id is not a number")
def unusable_mask_token(context: Context) -> Iterator[Finding]:
    """`dflash/mask_token_id` is missing, or does not start with a number.

    What it checks
    --------------
    The value as the runtime parses it: an integer, optionally after spaces. The runtime silently drops
    anything after the digits; this rule then reports a warning.

    Why it matters
    --------------
    The runtime rejects the draft at load time.

    How to fix it
    -------------
    Copy the mask token id from the draft's config.json (`dflash_config.mask_token_id`).

    Source
    ------
    OpenVINO GenAI: "DFlash draft model is missing dflash_mask_token_id RT info".
    """
    draft = dflash_draft(context)
    if draft is None:
        return
    hint = _MASK_HINT
    number = _NUMBER.match(draft.mask_token_id or "")
    if draft.mask_token_id is None:
        yield finding_at(draft.part, "dflash", "`dflash/mask_token_id` is missing", hint)
    elif number is None:
        yield finding_at(
            draft.part, "dflash", f"`dflash/mask_token_id` is {draft.mask_token_id!r}, which is not a number", hint
        )
    elif number[2].strip():
        message = f"`dflash/mask_token_id` is {draft.mask_token_id!r}, which the runtime reads as {number[1]}"
        yield finding_at(draft.part, "dflash", message, hint, Severity.WARNING)


@rule("DFL003", "mask-token-out-of-range", Severity.ERROR, "The draft's mask token is outside the vocabulary")
def mask_token_range(context: Context) -> Iterator[Finding]:
    """`dflash/mask_token_id` is negative, or not below the vocabulary size.

    What it checks
    --------------
    The id against the width of the target's logits. Without a target: against the draft's own logits,
    or `vocab_size` in its config.json.

    Why it matters
    --------------
    The runtime embeds this token at every position that the draft has to fill. An id outside the table
    reads undefined data from the device, without an error message.

    How to fix it
    -------------
    Copy the id from the draft's config.json.

    Source
    ------
    Reproduced with GenAI 2026.4: no error message.
    """
    draft = dflash_draft(context)
    number = _NUMBER.match(draft.mask_token_id or "") if draft is not None else None
    if draft is None or number is None:
        return
    vocabulary = _vocabulary(context)
    value = int(number[1][:20])
    if value < 0 or (vocabulary is not None and value >= vocabulary):
        size = f" of {vocabulary}" if vocabulary is not None else ""
        message = f"`dflash/mask_token_id` {value} is outside the vocabulary{size}"
        yield finding_at(draft.part, "dflash", message, _MASK_HINT)


def _vocabulary(context: Context) -> int | None:
    paired = pair(context)
    if paired is None:
        return None
    for part in (paired.target, paired.draft.part):
        own = part is not None and (part is paired.target or part.output("last_hidden_state") is None)
        logits = part.output("logits") if part is not None and own else None
        if logits is not None and logits.shape and logits.shape[-1] > 0:
            return logits.shape[-1]
    try:
        size = (context.draft or context.export).config.get("vocab_size")
    except IrtoolsError:
        return None  # EXP010 reports it
    return size if isinstance(size, int) and not isinstance(size, bool) else None


@rule("DFL004", "malformed-layer-ids", Severity.ERROR, "The draft's target_layer_ids cannot be parsed")
def malformed_layer_ids(context: Context) -> Iterator[Finding]:
    """`dflash/target_layer_ids` is missing, empty or malformed, or names a layer twice.

    What it checks
    --------------
    The list as the runtime parses it: integers separated by commas, with optional spaces. Brackets, and
    spaces instead of commas, are rejected.

    Why it matters
    --------------
    The runtime rejects the draft at load time.

    How to fix it
    -------------
    Write the ids in the form `0,1,2`. They are in `dflash_config.target_layer_ids` of the draft's
    config.json.

    Source
    ------
    OpenVINO GenAI, `parse_layer_ids`.
    """
    draft = dflash_draft(context)
    if draft is None:
        return
    hint = "write the ids in the form 0,1,2"
    text, layers = draft.target_layer_ids, draft.layers
    if text is None:
        yield finding_at(draft.part, "dflash", "`dflash/target_layer_ids` is missing", hint)
    elif layers is None:
        message = f"`dflash/target_layer_ids` is {text!r}, which is not a list of numbers"
        yield finding_at(draft.part, "dflash", message, hint)
    elif not layers:
        yield finding_at(draft.part, "dflash", f"`dflash/target_layer_ids` is {text!r}, which names no layer", hint)
    else:
        for layer in sorted({layer for layer in layers if layers.count(layer) > 1}):
            yield finding_at(draft.part, "dflash", f"`dflash/target_layer_ids` names layer {layer} twice", hint)


@rule("DFL016", "mtp-in-draft", Severity.ERROR, "The draft's directory has an MTP head")
def mtp_in_draft(context: Context) -> Iterator[Finding]:
    """The directory given with `--draft` has an `openvino_mtp_model.xml`.

    What it checks
    --------------
    That there is no such file beside the draft's own model.

    Why it matters
    --------------
    The runtime prefers this file: it treats a directory with an MTP head as an MTP draft, whatever else
    the directory holds. It then rejects it because the text embeddings are not a separate part.

    How to fix it
    -------------
    Remove openvino_mtp_model.xml and openvino_mtp_model.bin from the draft's directory.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    draft = context.draft
    if draft is not None and draft.mtp is not None and not draft.directory.samefile(context.export.directory):
        message = f"the draft's directory has an {MTP_FILE}, which the runtime prefers"
        hint, out = "remove the file and its .bin", ("dflash", "eagle3", "draft")
        yield Finding(message, hint, file=draft.mtp.path, rules_out=out)
