"""Draft heads for the parts of an export."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from irtools.errors import EditError, about, unreadable
from irtools.ir.reading import read_file
from irtools.model.directory import MTP_FILE, ModelDirectory
from irtools.model.document import Document
from irtools.model.graft import find_graft
from irtools.surgery.graft.own import Compress, DraftHead, own_head, without_own_head

__all__ = [
    "draft_with_own_head",
    "mtp_with_own_head",
    "mtp_without_own_head",
    "require_graftable",
    "token_file",
]

_LOGITS = "logits"
_HIDDEN = "last_hidden_state"


def _mtp(export: ModelDirectory) -> Document:
    if export.mtp is None:
        raise EditError(
            f"there is no {MTP_FILE}, so no draft would use a draft head; `irtools attach` adds the MTP part of "
            "another export, and --draft gives a DFlash draft a head of its own",
            path=export.directory,
        )
    return export.mtp


def require_graftable(export: ModelDirectory) -> None:
    """Require an MTP head without a head of its own.

    Raises
    ------
    EditError
        There is none, or the runtime would ignore a draft head of the target.
    """
    mtp = _mtp(export)
    with about(mtp.path):
        if mtp.graph.result_named(_HIDDEN) is None:
            raise EditError(f"this MTP part has no output {_HIDDEN!r}, so the runtime does not draft with it")
        if mtp.graph.result_named(_LOGITS) is not None:
            raise EditError(
                "this MTP part has an output 'logits' of its own, so the runtime would ignore a draft head in the "
                "target; `irtools graft --own-head --remove` removes it if irtools added it"
            )


def mtp_with_own_head(
    export: ModelDirectory, tokens: Sequence[int], *, force: bool = False, compress: Compress | None = None
) -> DraftHead:
    """Give the MTP head of an export a head of its own; see :func:`own_head`."""
    mtp = _mtp(export)
    with about(export.target.path):
        grafted = find_graft(export.target.graph) is not None
    with about(mtp.path):
        if grafted:
            raise EditError(
                "the target has a draft head already, which the runtime would ignore; remove it with "
                "`irtools graft --remove`, or keep it instead of a head of its own"
            )
        return own_head(export.target, mtp, tokens, force=force, compress=compress)


def mtp_without_own_head(export: ModelDirectory) -> DraftHead:
    """Remove the head of its own from the MTP head of an export; see :func:`without_own_head`."""
    mtp = _mtp(export)
    with about(mtp.path):
        return without_own_head(export.target, mtp)


def draft_with_own_head(
    export: ModelDirectory, draft: ModelDirectory, tokens: Sequence[int], *, compress: Compress | None = None
) -> DraftHead:
    """Give a DFlash draft a head of its own, in place of its output ``last_hidden_state``; see :func:`own_head`."""
    with about(draft.target.path):
        return own_head(export.target, draft.target, tokens, replaces_hidden=True, compress=compress)


def token_file(path: Path) -> tuple[int, ...]:
    """Read token ids from a file: one on each line, or a JSON array.

    Raises
    ------
    EditError
        The file cannot be read, or does not contain token ids.
    """
    fault = EditError("this file has no token ids; write one id on each line, or a JSON array", path=path)
    try:
        text = read_file(path).decode("utf-8-sig")
        ids = json.loads(text) if text.lstrip().startswith("[") else [_number(word) for word in text.split()]
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, RecursionError):
        raise fault from None
    if not all(isinstance(token, int) and not isinstance(token, bool) for token in ids):
        raise fault
    return tuple(ids)


def _number(word: str) -> int:
    if not (word.isascii() and word.isdecimal()):
        raise ValueError
    return int(word)
