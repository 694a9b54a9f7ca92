"""Conditions for draft heads in an export, and lists of tokens for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from irtools.errors import EditError, OptionError, about, unreadable
from irtools.ir.reading import parse_json, read_file
from irtools.model.directory import MTP_FILE, ModelDirectory
from irtools.model.document import Document
from irtools.model.graft import find_graft
from irtools.surgery.graft.writer import lm_head

__all__ = ["chosen_tokens", "require_graftable", "require_mtp", "require_ungrafted", "token_file"]

_LOGITS = "logits"
_HIDDEN = "last_hidden_state"


def require_mtp(export: ModelDirectory) -> Document:
    """Return the MTP part of an export; raise an EditError without one."""
    if export.mtp is None:
        raise EditError(
            f"there is no {MTP_FILE}, so no draft would use a draft head; `irtools attach` adds the MTP part of "
            "another export, and --draft gives a DFlash draft a head of its own",
            path=export.directory,
        )
    return export.mtp


def require_graftable(mtp: Document) -> None:
    """Raise an EditError for an MTP part with which the runtime would ignore a draft head in the target."""
    with about(mtp.path):
        if mtp.graph.result_named(_HIDDEN) is None:
            raise EditError(f"this MTP part has no output {_HIDDEN!r}, so the runtime does not draft with it")
        if mtp.graph.result_named(_LOGITS) is not None:
            raise EditError(
                "this MTP part has its own output 'logits', so the runtime would ignore a draft head in the "
                "target; `irtools graft --own-head --remove` removes it if irtools added it"
            )


def require_ungrafted(target: Document) -> None:
    """Raise an EditError for a target with a draft head, which the runtime ignores if the MTP part has its own."""
    with about(target.path):
        if find_graft(target.graph) is not None:
            raise EditError(
                "this target already has a draft head, which the runtime would ignore; remove it with "
                "`irtools graft --remove`, or keep it instead of a head of its own"
            )


def chosen_tokens(
    target: Document, vocabulary: int | None, tokens: Sequence[int] | None, *, separate: bool
) -> Sequence[int]:
    """Token ids that a draft head covers: the first ones or the given ones; a head of its own covers all by default.

    Parameters
    ----------
    separate : bool
        True for a head of its own.

    Raises
    ------
    OptionError
        The arguments contradict each other, or are not whole numbers.
    """
    given = [option for option in (vocabulary, tokens) if option is not None]
    if len(given) > 1 or not (given or separate):
        raise OptionError("give either vocabulary or tokens")
    if tokens is not None and not separate:
        raise OptionError("tokens need own_head=True; a draft head in the target covers the first tokens")
    if not _whole(given if tokens is None else tokens):
        raise OptionError("vocabulary and tokens are whole numbers")
    if tokens is not None:
        return tuple(tokens)
    with about(target.path):
        return range(lm_head(target.graph)[0].vocabulary if vocabulary is None else vocabulary)


def _whole(numbers: Iterable[object]) -> bool:
    return all(isinstance(number, int) and not isinstance(number, bool) for number in numbers)


def token_file(path: Path) -> tuple[int, ...]:
    """Read token ids from a file: one on each line, or a JSON array.

    Raises
    ------
    EditError
        The file cannot be read, or does not contain token ids.
    """
    fault = EditError("this file has no token ids; write one id on each line, or a JSON array", path=path)
    try:
        text = read_file(path, "ids").decode("utf-8-sig")
        ids = parse_json(text) if text.lstrip().startswith("[") else [_number(word) for word in text.split()]
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError:
        raise fault from None
    if not _whole(ids):
        raise fault
    return tuple(ids)


def _number(word: str) -> int:
    if not (word.isascii() and word.isdecimal()):
        raise ValueError
    return int(word)
