"""DFL: the tokenizers of a target and its ordinary draft, as GenAI compares them."""

from __future__ import annotations

import filecmp
from collections.abc import Iterator
from pathlib import Path

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.errors import IrtoolsError
from irtools.ir.hashes import require_same_hash
from irtools.ir.scan import same_graph
from irtools.lint.json_files import json_line
from irtools.model.directory import ModelDirectory
from irtools.model.document import Document
from irtools.model.special_tokens import UNSET, SpecialToken, UnreadableTokensError, special_tokens
from irtools.remote import is_remote, note_unmade
from irtools.runtime.probe import Tokenized, tokenize

from .dfl_ordinary import two_models
from .dfl_pair import other_tokenizer

_ONLY = ("draft",)
_IR = "openvino_tokenizer.xml"
_TEXT = "Could you please tell me something about OpenVINO.GenAI?"
"""The text whose number of tokens GenAI compares."""
_ANOTHER = "use a draft with the tokenizer of the target"


@rule("DFL041", "draft-without-tokenizer", Severity.ERROR, "The ordinary draft has no tokenizer", rules_out=_ONLY)
def draft_without_tokenizer(context: Context) -> Iterator[Finding]:
    """The directory of the ordinary draft has no `openvino_tokenizer.xml`.

    What it checks
    --------------
    That the file is beside the draft's model. A detokenizer is not needed there.

    Why it matters
    --------------
    The draft gets token ids from the target, but the runtime tokenizes a text with both tokenizers to compare
    them. Loading fails: "Tokenizer::encode is not available".

    How to fix it
    -------------
    Copy the files `openvino_tokenizer.*` of the target if both models have the same tokenizer, or run
    `convert_tokenizer DRAFT_DIR -o DRAFT_DIR` of openvino-tokenizers.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    pair = two_models(context)
    if pair is not None and not (pair.directory.directory / _IR).exists():
        message = f"the draft has no {_IR}, which the runtime compares with the target's"
        hint = "copy openvino_tokenizer.xml and .bin of the target if the draft was made for it"
        yield Finding(message, hint, pair.directory.directory / _IR)


@rule(
    "DFL042", "other-special-tokens", Severity.ERROR, "Target and draft have different special tokens", rules_out=_ONLY
)
def other_special_tokens(context: Context) -> Iterator[Finding]:
    """The ids of the begin, end or padding token of target and ordinary draft differ.

    What it checks
    --------------
    The three ids as the runtime reads them: first `config.json`, where a list of ids is ignored; then
    `added_tokens_decoder` of `tokenizer_config.json` for those that are still missing; then the rt_info of
    `openvino_tokenizer.xml`, which replaces the others. A value that the runtime cannot read is reported
    too.

    Why it matters
    --------------
    The runtime rejects the pair at load time: "Tokenizers for draft and main models are different!". Both
    models may have the same tokenizer and still differ, for example if only one config.json has a
    `bos_token_id`.

    How to fix it
    -------------
    If the models have the same vocabulary, copy the id into the draft's `config.json`, or its entry in the
    rt_info of `openvino_tokenizer.xml`. Otherwise use another draft.

    Source
    ------
    OpenVINO GenAI, `are_tokenizers_equal` and `tokenizer_impl.cpp`; reproduced with 2026.4.
    """
    pair = two_models(context)
    if pair is None:
        return
    read: list[tuple[SpecialToken, ...]] = []
    for export, owner in ((context.export, "target"), (pair.directory, "draft")):
        try:
            read.append(special_tokens(export))
        except UnreadableTokensError as error:
            file, key, clause = error.args
            message = f"the runtime cannot load the tokenizer of the {owner}: `{key}` {clause}"
            yield _at(export, file, key, message, "restore the file from the checkpoint")
        except IrtoolsError:
            pass  # another rule reports the file
    if len(read) < 2 or not (pair.directory.directory / _IR).exists():
        return
    for theirs, ours in zip(*read, strict=True):
        if ours.id != theirs.id:
            message = f"the draft's {ours.name} token is {_shown(ours)}, but the target's is {_shown(theirs)}"
            hint = "give both the same id, if the draft was made for this target"
            yield _at(pair.directory, ours.file or _IR, f"{ours.name}_token_id", message, hint)


def _shown(token: SpecialToken) -> str:
    return f"{token.id} ({token.file})" if token.file and token.id != UNSET else "not defined"


def _at(export: ModelDirectory, file: str, key: str, message: str, hint: str) -> Finding:
    """Finding at a key of a JSON file or of the tokenizer IR."""
    document = export.find_part("tokenizer")
    if file == _IR and document is not None:
        return finding_at(document, key, message, hint)
    path = export.directory / file
    return Finding(message, hint, path, json_line(path, key, None))


@rule("DFL043", "other-token-count", Severity.ERROR, "Target and draft tokenize a text differently", rules_out=_ONLY)
def other_token_count(context: Context) -> Iterator[Finding]:
    """The tokenizers of target and ordinary draft turn a text into different tokens.

    What it checks
    --------------
    The token ids of the text that the runtime uses for this, computed by both tokenizers in a separate
    process. Identical tokenizer IRs are not run. A different number of tokens is an error. The same number of
    different ids is a warning, unless DFL014 finds the vocabularies different. If OpenVINO GenAI is not
    installed, different IRs are a warning.

    Why it matters
    --------------
    With another number of tokens, the runtime rejects the pair at load time: "Tokenizers for draft and main
    models are different!". It does not compare the ids. With other ids, the draft reads and proposes
    tokens that mean something else, and nearly none is accepted.

    How to fix it
    -------------
    Use a draft that was made for the target. If it was, convert both tokenizers with the same release of
    openvino-tokenizers.

    Source
    ------
    OpenVINO GenAI, `are_tokenizers_equal`; reproduced with 2026.4.
    """
    pair = two_models(context)
    if pair is None:
        return
    documents = [export.find_part("tokenizer") for export in (context.export, pair.directory)]
    theirs, ours = documents
    if theirs is None or ours is None or _same(theirs, ours):
        return
    if is_remote(theirs.path) or is_remote(ours.path):
        for document in (theirs, ours):
            note_unmade(document.path, "the tokenizers are not the same files, and were not run to compare them")
        return
    target, draft = tokenize([document.path.parent for document in (theirs, ours)], _TEXT)
    finding = _compared(target, draft)
    if finding is not None and (finding[1] or not any(other_tokenizer.check(context))):
        message, severity = finding
        yield finding_at(ours, None, message, _ANOTHER, severity or Severity.WARNING)


def _compared(target: Tokenized, draft: Tokenized) -> tuple[str, Severity | None] | None:
    """Message and severity; no severity if the runtime accepts the pair all the same."""
    fault = target.fault or draft.fault
    if fault:
        owner = "target" if target.fault else "draft"
        return f"the tokenizers are not the same, and that of the {owner} could not be run: {fault}", None
    if len(target.ids) != len(draft.ids):
        counts = f"{len(draft.ids)} tokens with the draft's tokenizer, but {len(target.ids)} with the target's"
        return f"{_TEXT!r} has {counts}", Severity.ERROR
    if target.ids != draft.ids:
        at = next(at for at, (one, other) in enumerate(zip(target.ids, draft.ids, strict=True)) if one != other)
        ids = f"{draft.ids[at]} with the draft's tokenizer, but {target.ids[at]} with the target's"
        return f"token {at} of {_TEXT!r} is {ids}; the runtime does not compare the ids", None
    return None


def _same(one: Document, other: Document) -> bool:
    """True if two IRs have the same graph and the same constants."""
    try:
        return same_graph(one.scan, other.scan) and _same_bytes(one.weights_path, other.weights_path)
    except IrtoolsError:
        return True  # an IR rule reports the file


def _same_bytes(one: Path, other: Path) -> bool:
    try:
        if is_remote(one) or is_remote(other):
            return require_same_hash(one, other)
        return filecmp.cmp(one, other, shallow=False)
    except OSError:
        return True  # an IR rule reports the file
