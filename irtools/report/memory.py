"""The memory footprint as rows and columns, for the text, the HTML page and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from irtools.model.footprint import KV_PRECISIONS, Footprint, Term
from irtools.text import plural, size_text

__all__ = ["MemoryColumn", "MemoryTotal", "context_text", "memory_columns", "memory_notes", "memory_rows"]

_DEFAULT = "u8"


@dataclass(frozen=True, slots=True)
class MemoryTotal:
    """Sum of the terms for one way to decode.

    Attributes
    ----------
    name : str
        ``plain``, ``with MTP`` or ``with the draft``.
    largest_context, left : int or None
        Tokens that fit into the budget, and the bytes that they leave; None without a budget.
    """

    name: str
    bytes: int
    largest_context: int | None = None
    left: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryColumn:
    """Precisions of keys and values, with the sums for them; ``asked`` if the IR asks for them."""

    key: str
    value: str
    totals: tuple[MemoryTotal, ...]
    asked: bool = False

    @property
    def name(self) -> str:
        """``u8``, or ``u8/u4`` if keys and values differ."""
        return self.key if self.key == self.value else f"{self.key}/{self.value}"

    @property
    def title(self) -> str:
        """The name, with the star that the note explains."""
        return f"{self.name}{'*' if self.asked else ''}"


def context_text(memory: Footprint) -> str:
    """For how many tokens and sequences a footprint is computed."""
    return f"a context of {plural(memory.context, 'token', grouped=True)}, batch {memory.batch}"


def memory_columns(
    memory: Footprint, only: tuple[str, str] | None = None, budget: int | None = None
) -> tuple[MemoryColumn, ...]:
    """A column for each usual precision and for that of the IR, or for one pair only."""
    pairs = [only] if only is not None else [(name, name) for name in KV_PRECISIONS]
    if only is None and memory.asked is not None and memory.asked not in pairs:
        pairs.append(memory.asked)
    return tuple(
        MemoryColumn(key, value, tuple(_totals(memory, key, value, budget)), (key, value) == memory.asked)
        for key, value in pairs
    )


def _totals(memory: Footprint, key: str, value: str, budget: int | None) -> Iterator[MemoryTotal]:
    for drafting in (False, True) if memory.draft else (False,):
        name = "plain" if not drafting else f"with {'MTP' if memory.draft == 'MTP' else 'the draft'}"
        size = memory.total(key, value, drafting=drafting)
        if budget is None:
            yield MemoryTotal(name, size)
            continue
        largest = memory.largest_context(budget, key, value, drafting=drafting)
        used = memory.total(key, value, drafting=drafting, context=largest)
        yield MemoryTotal(name, size, largest, budget - used)


def memory_rows(memory: Footprint, columns: Sequence[MemoryColumn]) -> Iterator[tuple[str, ...]]:
    """Rows of text: a term, its sizes, its formula; then the sums, and what fits into the budget."""
    for drafting in (False, True):
        terms = [term for term in memory.terms if term.drafting is drafting]
        others = [term for term in terms if _is_other(term)]
        for term in terms:
            if term not in others:
                yield term.name, *(size_text(term.size(one.key, one.value)) for one in columns), term.formula
        if others:
            size = size_text(sum(term.bytes for term in others))
            names = ", ".join(dict.fromkeys(term.part for term in others))
            yield "other parts, weights", *(size for _ in columns), names
        yield from _sums(columns, int(drafting))
    for at in range(2):
        yield from _fitting(columns, at)


def _is_other(term: Term) -> bool:
    """True for the weights of a part beside the target and its draft; all of them share one row."""
    return term.kind in ("weights", "embeddings") and not term.name.startswith(("target", "draft", "MTP"))


def _sums(columns: Sequence[MemoryColumn], at: int) -> Iterator[tuple[str, ...]]:
    totals = [column.totals[at] for column in columns if len(column.totals) > at]
    if totals:
        yield f"{totals[0].name}, about", *(size_text(total.bytes) for total in totals), ""


def _fitting(columns: Sequence[MemoryColumn], at: int) -> Iterator[tuple[str, ...]]:
    totals = [column.totals[at] for column in columns if len(column.totals) > at]
    if not totals or totals[0].largest_context is None:
        return
    yield (
        f"largest context, {totals[0].name}",
        *(f"{total.largest_context:,}" if total.largest_context else "none" for total in totals),
        "tokens",
    )
    left = [total.left or 0 for total in totals]
    yield (
        "  left",
        *(size_text(size) if size >= 0 else f"-{size_text(-size)}" for size in left),
        "of the budget; below 0: missing",
    )


def memory_notes(memory: Footprint, columns: Sequence[MemoryColumn], budget: int | None = None) -> Iterator[str]:
    """Sentences for the reader of the table."""
    if memory.asked is not None:
        key, value = memory.asked
        name = key if key == value else f"{key} for keys and {value} for values"
        star = "* " if any(one.asked for one in columns) else ""
        yield f"{star}the IR asks for {name} in its rt_info (runtime_options)"
    elif any("keys and values" in term.kind for term in memory.terms):
        yield f"the IR asks for no precision; OpenVINO takes {_DEFAULT} on a CPU unless another one is set"
    if budget is not None:
        limit = f", at most {memory.limit:,} (max_position_embeddings)" if memory.limit else ""
        yield f"budget {size_text(budget)}: the context is that of each sequence, batch {memory.batch}{limit}"
    for note in memory.notes:
        yield f"warning: {note}"
    if memory.unread:
        yield f"not included: parts that cannot be read ({', '.join(memory.unread)})"
