"""Memory that GenAI needs for an export on a CPU, estimated from its files alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from irtools.display import Tabular
from irtools.errors import ExportError, UsageError
from irtools.model.config import context_limit
from irtools.model.directory import ModelDirectory
from irtools.model.footprint_terms import Sizes, StateGroup, Term, drafting_terms, export_terms, states
from irtools.model.kv_cache import asked_precision
from irtools.text import short_repr, size_text

__all__ = [
    "ASSISTANT_TOKENS",
    "DEFAULT_CONTEXT",
    "KV_PRECISIONS",
    "UNKNOWN",
    "Footprint",
    "StateGroup",
    "Term",
    "footprint",
    "states",
]

KV_PRECISIONS = ("f32", "f16", "u8", "u4")
"""Precisions of keys and values for which the tables have a column."""
DEFAULT_CONTEXT = 4096
"""Tokens of context, if none are given and the model takes as many."""
ASSISTANT_TOKENS = 3
"""Drafted tokens per pass, if none are given."""
UNKNOWN = (
    "images and audio, long chunks (max_num_batched_tokens), prefix caching, beams",
    "what a GPU or NPU needs besides: their copies of the weights, their alignment of the cache",
)
"""Memory that is not estimated."""


@dataclass(frozen=True, slots=True)
class Footprint(Tabular):
    """Estimated memory of an export at the end of a context, with GenAI on a CPU.

    On an export of 0.6 GB it was within 5 % of the measured peak, plain and with an MTP head.

    Attributes
    ----------
    unread : tuple of str
        Parts whose XML cannot be read; they are not counted.
    draft : str
        ``MTP``, ``draft`` or ``""``: what the terms with ``drafting`` are for.
    asked : tuple of two str, or None
        Precisions of keys and values that the target asks for in its rt_info.
    limit : int or None
        Largest context according to config.json.
    """

    context: int
    batch: int
    terms: tuple[Term, ...]
    unread: tuple[str, ...] = ()
    draft: str = ""
    asked: tuple[str, str] | None = None
    limit: int | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        about = f"about {size_text(self.total('u8', drafting=False))} with keys and values in u8"
        return short_repr(self, f"context {self.context}", f"batch {self.batch}", about)

    @property
    def stored(self) -> int:
        """Bytes of weights in the files."""
        return sum(term.most or term.bytes for term in self.terms if term.kind in ("weights", "embeddings"))

    def total(self, key: str, value: str = "", *, drafting: bool = True, context: int | None = None) -> int:
        """Sum of all terms if keys and values are stored in the given precisions.

        Parameters
        ----------
        value : str
            Precision of the values; by default that of the keys.
        drafting : bool
            Count also what only drafting needs.
        context : int, optional
            Another context than that of the footprint.
        """
        return sum(term.size(key, value, context=context) for term in self.terms if drafting or not term.drafting)

    def largest_context(self, budget: int, key: str, value: str = "", *, drafting: bool = True) -> int:
        """Most tokens of context that fit into a number of bytes, at most ``limit``; 0 if none fit."""

        def fits(context: int) -> bool:
            return self.total(key, value, drafting=drafting, context=context) <= budget

        low, high = 0, self.limit or 2**30
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(middle) else (low, middle - 1)
        return low


def footprint(
    export: ModelDirectory,
    *,
    context: int | None = None,
    batch: int = 1,
    draft: ModelDirectory | None = None,
    assistant_tokens: int = ASSISTANT_TOKENS,
) -> Footprint:
    """Estimate the memory of an export from its files, as :meth:`irtools.Export.footprint` documents it."""
    limit = _limit(export)
    context = min(DEFAULT_CONTEXT, limit or DEFAULT_CONTEXT) if context is None else context
    if context < 1 or batch < 1 or assistant_tokens < 1:
        raise UsageError(
            f"context {context}, batch {batch} and {assistant_tokens} assistant tokens: each must be at least 1"
        )
    sizes = Sizes(context, batch, assistant_tokens)
    unread: list[str] = []
    own_head = export.mtp if draft is None else None
    target = export.target_candidates[0] if len(export.target_candidates) == 1 else None
    terms = list(export_terms(export, "target", sizes, unread, mtp=own_head))
    kind = "MTP" if own_head is not None else ""
    if draft is not None and draft.directory.resolve() != export.directory.resolve():
        kind = "draft"
        terms += export_terms(draft, "draft", sizes, unread)
    if kind and target is not None:
        terms += drafting_terms(target, own_head, draft, sizes)
    asked = asked_precision(target) if target is not None and target.part not in unread else None
    return Footprint(context, batch, tuple(terms), tuple(unread), kind, asked, limit, tuple(_notes(context, limit)))


def _limit(export: ModelDirectory) -> int | None:
    try:
        return context_limit(export.config)
    except ExportError:
        return None


def _notes(context: int, limit: int | None) -> Iterator[str]:
    if limit is not None and context > limit:
        yield f"the context {context} is beyond max_position_embeddings {limit} of config.json"
