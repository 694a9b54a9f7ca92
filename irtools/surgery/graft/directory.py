"""Draft heads for the parts of an export."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from irtools.errors import EditError, about
from irtools.model.directory import MTP_FILE, ModelDirectory
from irtools.model.document import Document
from irtools.model.graft import find_graft
from irtools.surgery.graft.own import Compress, OwnHead, own_head, without_own_head
from irtools.surgery.patch import Patch
from irtools.text import short_repr

__all__ = [
    "DraftHead",
    "draft_with_own_head",
    "mtp_with_own_head",
    "mtp_without_own_head",
    "require_graftable",
    "token_file",
]

_LOGITS = "logits"


@dataclass(frozen=True, slots=True)
class DraftHead:
    """A draft head that was added or removed.

    Attributes
    ----------
    patch : Patch
        The change. For a head of its own, it includes the change of the weights.
    rows : int
        Tokens that the draft head covers; for a removal, those of lm_head.
    vocabulary : int
        Tokens that lm_head covers.
    head_bytes, graft_bytes : int
        Bytes of weights that the draft reads for each token with lm_head and with the draft head.
    """

    patch: Patch
    rows: int
    vocabulary: int
    head_bytes: int
    graft_bytes: int

    def __repr__(self) -> str:
        return short_repr(self, f"{self.rows} of {self.vocabulary} tokens", self.patch.status)

    @classmethod
    def of(cls, own: OwnHead) -> DraftHead:
        """Draft head of a draft."""
        return cls(own.patch, own.rows, own.vocabulary, own.head_bytes, own.graft_bytes)


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
        if any(_LOGITS in mtp.graph.result_names(key) for key in mtp.graph.results):
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
        return DraftHead.of(own_head(export.target, mtp, tokens, force=force, compress=compress))


def mtp_without_own_head(export: ModelDirectory) -> DraftHead:
    """Remove the head of its own from the MTP head of an export; see :func:`without_own_head`."""
    mtp = _mtp(export)
    with about(mtp.path):
        return DraftHead.of(without_own_head(export.target, mtp))


def draft_with_own_head(
    export: ModelDirectory, draft: ModelDirectory, tokens: Sequence[int], *, compress: Compress | None = None
) -> DraftHead:
    """Give a DFlash draft a head of its own, in place of its output ``last_hidden_state``; see :func:`own_head`."""
    with about(draft.target.path):
        own = own_head(export.target, draft.target, tokens, replaces_hidden=True, compress=compress)
        return DraftHead.of(own)


def token_file(path: Path) -> tuple[int, ...]:
    """Read token ids from a file: one on each line, or a JSON array.

    Raises
    ------
    EditError
        The file cannot be read, or does not contain token ids.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EditError(f"the token ids cannot be read: {error}", path=path) from error
    try:
        ids = json.loads(text) if text.lstrip().startswith("[") else [int(line) for line in text.split()]
    except ValueError as error:
        raise EditError("this file has no token ids; write one id on each line, or a JSON array", path=path) from error
    if not all(isinstance(token, int) and not isinstance(token, bool) for token in ids):
        raise EditError("this file has no token ids; write one id on each line, or a JSON array", path=path)
    return tuple(ids)
