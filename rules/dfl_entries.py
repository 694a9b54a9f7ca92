"""DFL: entries of a draft that bound its use, and entries that the runtime does not read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.errors import IrtoolsError
from irtools.lint.json_files import json_line
from irtools.lint.pair import dflash_draft, pair
from irtools.model.config import integers
from irtools.model.draft import block_size, most_assistant_tokens

_READ = {
    "dflash_mode": None,
    "dflash": ("mask_token_id", "target_layer_ids"),
    "eagle3_mode": None,
    "hidden_layers_list": None,
}
"""Entries that the runtime reads, with the entries below them."""
_SELECTOR = "openvino_selector_model.xml"


@rule("DFL031", "draft-block-size", Severity.WARNING, "The draft's block size is invalid or exceeded", rules_out=())
def draft_block_size(context: Context) -> Iterator[Finding]:
    """`block_size` of a DFlash draft is invalid, or the target asks for more tokens than a block has.

    What it checks
    --------------
    `block_size` in the draft's config.json and, if it is there, `dflash/block_size` in its rt_info: numbers
    above 1 that agree. `num_assistant_tokens` in the target's generation_config.json must be below it,
    because a block begins with the last token of the text.

    Why it matters
    --------------
    A DFlash draft fills a block of this size at once. The runtime does not read the number. It drafts as
    many tokens as it is asked for, and those beyond the block are hardly ever accepted.

    How to fix it
    -------------
    Set `num_assistant_tokens` to at most `block_size` - 1.

    Source
    ------
    Optimum Intel, `Qwen3DFlashForCausalLM`: the output drops the first position of the block. OpenVINO
    GenAI 2026.4.1 decodes with 256 assistant tokens for a block of 4, without a message.
    """
    draft = dflash_draft(context)
    if draft is None:
        return
    export = context.draft or context.export
    try:
        config = export.config
    except IrtoolsError:
        return  # EXP010 reports it
    path, nested = export.directory / "config.json", draft.part.rt_info.get("dflash")
    given = config.get("block_size")
    stored = nested.get("block_size") if isinstance(nested, Mapping) else None
    if stored is not None and given is not None and str(stored) != str(given):
        message = f"`dflash/block_size` is {stored!r}, but block_size in config.json is {given!r}"
        yield finding_at(draft.part, "dflash", message, "keep the one that the draft was trained with")
    elif block_size(draft, config) is None and (stored is not None or given is not None):
        message = f"block_size is {stored if stored is not None else given!r}, which is not a number above 1"
        hint = "copy it from the checkpoint"
        if stored is not None:
            yield finding_at(draft.part, "dflash", message, hint)
        else:
            yield Finding(message, hint, path, json_line(path, "block_size", given))
    most = most_assistant_tokens(draft, export)
    path = context.export.directory / "generation_config.json"
    wanted = _assistant_tokens(context)
    if most is not None and wanted is not None and wanted > most and context.draft is not None:
        message = f"num_assistant_tokens is {wanted}, but the draft has block_size {most + 1}"
        yield Finding(message, f"set it to at most {most}", path, json_line(path, "num_assistant_tokens", wanted))


def _assistant_tokens(context: Context) -> int | None:
    """``num_assistant_tokens`` in the target's generation_config.json, or None."""
    key = "num_assistant_tokens"
    return integers(context.export.generation_config, (key,)).get(key)


@rule(
    "DFL032",
    "unread-draft-entry",
    Severity.NOTE,
    "The draft has entries that the runtime does not read",
    runtimes="<2026.5",
    rules_out=(),
)
def unread_draft_entry(context: Context) -> Iterator[Finding]:
    """The draft says something that this runtime ignores.

    What it checks
    --------------
    Model-level rt_info entries of a draft that begin with `dflash` or `eagle3` and are not among those
    that the runtime reads: `dflash_mode`, `dflash/mask_token_id`, `dflash/target_layer_ids` and
    `eagle3_mode`. Also `openvino_selector_model.xml`, the second part of a DFlash 2 draft.

    Why it matters
    --------------
    Exporters write entries before a runtime reads them, such as `dflash/block_size`. A draft that depends
    on one runs, but not as it was trained, and a later runtime may behave differently.

    How to fix it
    -------------
    Nothing to fix if the acceptance rate is as expected; `irtools prove` measures it. Otherwise use a
    runtime that reads the entry.

    Source
    ------
    OpenVINO GenAI 2026.4.1, `apply_dflash_rt_info` and `apply_eagle3_rt_info`. An earlier
    `apply_dflash_rt_info` required `dflash/block_size`. Optimum Intel pull request 1984 (DFlash 2).
    """
    paired = pair(context)
    if paired is None or paired.draft.kind == "plain":
        return
    part, hint = paired.draft.part, "`irtools prove` shows whether the draft is accepted without it"
    for key, value in part.rt_info.items():
        if not key.startswith(("dflash", "eagle3")):
            continue
        below = _READ.get(key, ()) or ()
        names = [f"{key}/{name}" for name in value if name not in below] if isinstance(value, Mapping) else [key]
        if key in _READ and not isinstance(value, Mapping):
            continue
        for name in names:
            yield finding_at(part, key, f"OpenVINO GenAI 2026.4 does not read the entry `{name}` of the draft", hint)
    selector = part.document.path.with_name(_SELECTOR)
    if selector.is_file():
        message = f"OpenVINO GenAI 2026.4 does not load {_SELECTOR}, so it uses this draft without its selector"
        yield Finding(message, hint, selector)
