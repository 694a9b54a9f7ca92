"""Share of the tokens of texts that a draft head over some tokens covers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from irtools.bench.shipped import KINDS, ShippedPrompt, prompts, text_file
from irtools.errors import UsageError
from irtools.model.config import text_section
from irtools.model.directory import ModelDirectory
from irtools.runtime.child import Progress
from irtools.runtime.genai import iterate
from irtools.runtime.jobs import GenerationJob
from irtools.runtime.token_counts import TokenCounts, count_tokens
from irtools.text import plural

__all__ = ["Coverage", "TextSource", "generated", "measured", "shipped"]

_SHORTEST = 24
"""Minimum number of tokens to generate for a prompt: the first ones repeat the style of the prompt."""


@dataclass(frozen=True, slots=True)
class TextSource:
    """A text whose tokens were counted.

    Attributes
    ----------
    name : str
        Kind of a shipped text or prompt, or path of a file.
    kind : str
        ``shipped``, ``file`` or ``generated``.
    """

    name: str
    kind: str
    counts: TokenCounts = field(repr=False)

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return self.counts.all.total()


@dataclass(frozen=True)
class Coverage:
    """Coverage of one or more texts.

    Attributes
    ----------
    vocabulary : int
        Tokens of the target.
    """

    vocabulary: int
    sources: tuple[TextSource, ...]

    @cached_property
    def _all(self) -> TokenCounts:
        even: Counter[int] = Counter()
        odd: Counter[int] = Counter()
        for source in self.sources:
            even.update(source.counts.even)
            odd.update(source.counts.odd)
        return TokenCounts(even, odd)

    @property
    def tokens(self) -> int:
        """Number of tokens of all texts."""
        return sum(source.tokens for source in self.sources)

    def by_source(self, tokens: int) -> Mapping[str, float]:
        """Share of each text with ids below ``tokens``, by its name."""
        return {source.name: _first(source.counts.all, tokens) for source in self.sources}

    def first(self, tokens: int) -> float:
        """Share of all texts with ids below ``tokens``."""
        return _first(self._all.all, tokens)

    def frequent(self, tokens: int) -> float:
        """Share that the ``tokens`` most frequent tokens cover.

        They are counted in every second piece of the texts, and the share is that of the other pieces; both ways are
        averaged. Counted and measured on the same short text, any set that is large enough would cover everything.
        """
        counts = self._all
        known, total = 0, 0
        for one, other in ((counts.even, counts.odd), (counts.odd, counts.even)):
            chosen = set(_ranked(one, tokens, self.vocabulary))
            known += sum(count for token, count in other.items() if token in chosen)
            total += sum(other.values())
        return known / total if total else 0.0

    def most_frequent(self, tokens: int) -> tuple[int, ...]:
        """Ids of the ``tokens`` most frequent tokens of all texts; ids that do not occur follow in their order."""
        return tuple(_ranked(self._all.all, tokens, self.vocabulary))


def _first(counts: Mapping[int, int], tokens: int) -> float:
    total = sum(counts.values())
    return sum(count for token, count in counts.items() if token < tokens) / total if total else 0.0


def _ranked(counts: Mapping[int, int], tokens: int, vocabulary: int) -> list[int]:
    """The most frequent ids, filled up with the lowest others: these are frequent in most tokenizers."""
    known = sorted((id for id in counts if id < vocabulary), key=lambda id: (-counts[id], id))[:tokens]
    taken = set(known)
    for token in range(min(vocabulary, tokens + len(taken))):
        if len(known) >= tokens:
            break
        if token not in taken:
            known.append(token)
    return known


def shipped(export: ModelDirectory, vocabulary: int, progress: Progress | None = None) -> Coverage:
    """Count the tokens of the shipped texts."""
    counts = count_tokens(export.directory, [text_file(kind) for kind in KINDS], progress)
    return _coverage(vocabulary, (TextSource(kind, "shipped", one) for kind, one in zip(KINDS, counts, strict=True)))


def measured(
    export: ModelDirectory, vocabulary: int, paths: Sequence[Path], progress: Progress | None = None
) -> Coverage:
    """Count the tokens of text files."""
    paths = list(dict.fromkeys(paths))
    counts = count_tokens(export.directory, paths, progress)
    empty = next((path for path, one in zip(paths, counts, strict=True) if not one.all), None)
    if empty is not None:
        raise UsageError(f"{empty}: contains no text; give files with text as the model will write it")
    named = (TextSource(str(path), "file", one) for path, one in zip(paths, counts, strict=True))
    return _coverage(vocabulary, named)


def _coverage(vocabulary: int, sources: Iterable[TextSource]) -> Coverage:
    coverage = Coverage(vocabulary, tuple(sources))
    largest = max((max(source.counts.all, default=0) for source in coverage.sources), default=0)
    if largest >= vocabulary:
        raise UsageError(
            f"the tokenizer produces the token id {largest}, but the target has {vocabulary} tokens: it is the "
            "tokenizer of another model"
        )
    return coverage


def generated(
    export: ModelDirectory,
    vocabulary: int,
    tokens: int,
    *,
    device: str = "CPU",
    timeout: float = 1800.0,
    progress: Progress | None = None,
) -> Coverage:
    """Have the target continue the shipped prompts, and count the tokens that it writes.

    What the target writes is what a draft must propose. VocabTrim (2025) finds that counts of such text choose better
    tokens than counts of a corpus. Decoding is greedy; what follows the end-of-text token is not counted.

    Parameters
    ----------
    tokens : int
        Number of tokens to write, over all prompts.

    Raises
    ------
    UsageError
        openvino-genai is not installed, or the runtime cannot decode the export.
    """
    chosen = prompts()[: max(1, tokens // _SHORTEST)]
    each = -(-tokens // len(chosen))
    jobs = (_job(export, prompt, min(each, tokens), device) for prompt in chosen)
    ends = _end_tokens(export)
    written: dict[str, list[tuple[int, ...]]] = {}
    with closing(iterate(jobs, timeout=timeout)) as outcomes:
        for number, (prompt, outcome) in enumerate(zip(chosen, outcomes, strict=False)):
            if progress is not None:
                progress(f"the target has continued {number} of {plural(len(chosen), 'prompt')}")
            if outcome.stage != "ran":
                raise UsageError(
                    f"the runtime cannot decode this export ({outcome.message}); `irtools prove` looks for the cause"
                )
            written.setdefault(prompt.kind, []).append(_before_end(outcome.tokens, ends))
    sources = (TextSource(kind, "generated", TokenCounts.of(texts)) for kind, texts in written.items())
    return _coverage(vocabulary, sources)


def _job(export: ModelDirectory, prompt: ShippedPrompt, tokens: int, device: str) -> GenerationJob:
    return GenerationJob(
        str(export.directory),
        prompt=prompt.text,
        max_new_tokens=max(tokens, 2),
        device=device,
        chat_template=prompt.kind == "chat",
        reuse=True,
    )


def _before_end(tokens: Sequence[int], ends: frozenset[int]) -> tuple[int, ...]:
    """Tokens up to and including the first end of text."""
    end = next((number for number, token in enumerate(tokens) if token in ends), len(tokens))
    return tuple(tokens[: end + 1])


def _end_tokens(export: ModelDirectory) -> frozenset[int]:
    """Ids of end-of-text tokens, from generation_config.json, else from config.json; empty if they are unknown."""
    for content in (export.generation_config, text_section(export.config), export.config):
        ends = content.get("eos_token_id")
        ids = [token for token in (ends if isinstance(ends, list) else [ends]) if isinstance(token, int)]
        if ids:
            return frozenset(ids)
    return frozenset()
