"""Work out what draft heads of several sizes cover, read and save, and which one is the fastest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from irtools.advise.calibration import Calibration, from_record, measure
from irtools.advise.coverage import Coverage, generated, measured, shipped
from irtools.advise.traffic import Traffic, traffic
from irtools.bench.decision import WORTH_IT
from irtools.display import Tabular
from irtools.errors import OptionError
from irtools.model.directory import ModelDirectory
from irtools.prove.record_changes import read_record
from irtools.runtime.child import Progress
from irtools.surgery.graft.directory import require_graftable, require_mtp
from irtools.text import short_repr

__all__ = ["MOST_DRAFTS", "Advice", "Choice", "Row", "advise", "expected_tokens", "sizes"]

MOST_DRAFTS = 8
"""Largest number of drafted tokens per pass in the table."""
_SMALLEST = 8192
_MOST_GENERATED = 1_000_000


@dataclass(frozen=True, slots=True)
class Row:
    """A draft head over the first ``tokens`` tokens.

    Attributes
    ----------
    coverage : mapping of str to float
        Share of each text whose token ids are below ``tokens``, by the name of the text.
    covered : float
        The same share of all texts together.
    frequent : float
        Share that as many of the most frequent tokens cover, in text other than that in which they were counted.
    draft_bytes : int
        Bytes of weights that one drafted token reads.
    memory_saved : int
        Bytes that the copy of lm_head in the draft is smaller than with all tokens.
    tokens_per_pass : tuple of float
        Expected tokens per pass of the target with 1, 2, ... drafted tokens.
    draft_seconds : float or None
        Predicted time of one drafted token; None if not calibrated.
    speeds : tuple of float or None
        Predicted tokens per second with 1, 2, ... drafted tokens; None if not calibrated.
    """

    tokens: int
    coverage: Mapping[str, float]
    covered: float
    frequent: float
    draft_bytes: int
    memory_saved: int
    tokens_per_pass: tuple[float, ...]
    draft_seconds: float | None = None
    speeds: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """The fastest row.

    Attributes
    ----------
    tokens : int
        Tokens that the draft head covers.
    drafts : int
        Tokens to draft per pass; 0: plain decoding is faster than every row.
    tokens_per_second : float
        Predicted speed.
    gain : float
        Ratio to the best predicted speed without a smaller draft head, plain decoding included.
    """

    tokens: int
    drafts: int
    tokens_per_second: float
    gain: float


@dataclass(frozen=True)
class Advice(Tabular):
    """Advice on the size of a draft head.

    Attributes
    ----------
    acceptance : float
        Probability that the target accepts a drafted token if it accepted all before it, with the whole vocabulary.
    rows : tuple of Row
        By number of tokens; the last row has the whole vocabulary.
    calibration : Calibration or None
        Measured times; None if speeds cannot be predicted.
    best : Choice or None
        None if not calibrated.
    """

    export: ModelDirectory
    acceptance: float
    coverage: Coverage
    traffic: Traffic
    rows: tuple[Row, ...]
    calibration: Calibration | None = None
    best: Choice | None = None

    def __repr__(self) -> str:
        best = f"best: {self.best.tokens} tokens, {self.best.drafts} drafts" if self.best else "not calibrated"
        return short_repr(self, str(self.export.path), f"{len(self.rows)} sizes", best)

    def most_frequent(self, tokens: int) -> tuple[int, ...]:
        """Ids of the most frequent tokens of the texts, for a head of its own."""
        return self.coverage.most_frequent(tokens)


def expected_tokens(acceptance: float, drafts: int) -> float:
    """Expected tokens per pass of the target: the accepted run of ``drafts`` tokens, and one of the target itself.

    ``1 + p + p**2 + ... + p**drafts`` for the probability ``p`` that a drafted token is accepted if all before it were
    (Leviathan et al., 2023, "Fast Inference from Transformers via Speculative Decoding", equation 1). A draft head
    that covers a share ``c`` of the text proposes the target's token with probability ``p = acceptance * c``.

    Examples
    --------
    >>> expected_tokens(0.5, 2), expected_tokens(1.0, 3), expected_tokens(0.0, 8)
    (1.75, 4.0, 1.0)
    """
    return sum(acceptance**power for power in range(drafts + 1))


def sizes(vocabulary: int) -> tuple[int, ...]:
    """Numbers of tokens in the table: 8k, 16k, ... and the vocabulary; smaller ones for a small vocabulary.

    Examples
    --------
    >>> sizes(50257), sizes(300)
    ((8192, 16384, 32768, 50257), (64, 128, 256, 300))
    """
    size = _SMALLEST
    while size > 1 and size * 4 > max(vocabulary, 4 * _SMALLEST if vocabulary > _SMALLEST else 0):
        size //= 2
    numbers = []
    while size < vocabulary:
        numbers.append(size)
        size *= 2
    return (*numbers, vocabulary)


def advise(
    export: ModelDirectory,
    corpus: Sequence[str | Path] = (),
    *,
    generate: int = 0,
    acceptance: float = 0.8,
    record: str | Path | Mapping[str, Any] | None = None,
    calibrate: bool = False,
    device: str = "CPU",
    timeout: float = 1800.0,
    progress: Progress | None = None,
) -> Advice:
    """Work out advice on the draft head of an export with an MTP head; nothing is written.

    Parameters
    ----------
    corpus : sequence of path-like
        Text files in UTF-8, as the model will write them. Without them and ``generate``, the shipped texts.
    generate : int
        Number of tokens that the target writes from the shipped prompts to be counted instead.
    acceptance : float
        Probability that a drafted token is accepted if all before it were, with the whole vocabulary.
    record : path-like or mapping, optional
        Record of `irtools bench` for this export, for the times.
    calibrate : bool
        Time target and draft in OpenVINO GenAI instead.
    timeout : float
        Seconds without progress after which a run of the runtime is ended.

    Raises
    ------
    EditError
        There is no MTP head, or a head whose rows cannot be chosen.
    LocateRefusedError
        There are no logits that one MatMul with constant weights computes.
    OptionError
        An argument is out of range, or the record is about other files.
    UsageError
        openvino-genai is not installed, or it cannot tokenize or run the export.
    """
    _require(corpus, generate, acceptance, record, calibrate)
    require_graftable(require_mtp(export))
    read = traffic(export)
    vocabulary = read.head.vocabulary
    calibration = None
    if record is not None:
        content = record if isinstance(record, Mapping) else read_record(Path(record), "bench")
        calibration = from_record(export, read, content)
    if generate:
        coverage = generated(export, vocabulary, generate, device=device, timeout=timeout, progress=progress)
    elif corpus:
        coverage = measured(export, vocabulary, [Path(path) for path in corpus], progress)
    else:
        coverage = shipped(export, vocabulary, progress)
    if calibrate:
        calibration = measure(export, read, device=device, timeout=timeout, progress=progress)
    rows = tuple(_row(tokens, coverage, read, acceptance, calibration) for tokens in sizes(vocabulary))
    best = _best(rows, calibration) if calibration is not None else None
    return Advice(export, acceptance, coverage, read, rows, calibration, best)


def _require(corpus: Sequence[object], generate: int, acceptance: float, record: object, calibrate: bool) -> None:
    faults = {
        f"the acceptance {acceptance} is not between 0 and 1": not 0 <= acceptance <= 1,
        "the number of tokens to generate must not be negative": generate < 0,
        f"{generate} tokens to generate are more than {_MOST_GENERATED}": generate > _MOST_GENERATED,
        "give either texts or a number of tokens to generate, not both": bool(corpus) and generate > 0,
        "give either a record or calibrate, not both": record is not None and calibrate,
    }
    for fault, present in faults.items():
        if present:
            raise OptionError(fault)


def _row(tokens: int, coverage: Coverage, read: Traffic, acceptance: float, calibration: Calibration | None) -> Row:
    covered = coverage.first(tokens)
    per_draft = read.per_draft(tokens)
    per_pass = tuple(expected_tokens(acceptance * covered, drafts) for drafts in range(1, MOST_DRAFTS + 1))
    draft = calibration.draft(per_draft) if calibration is not None else None
    speeds = None
    if calibration is not None:
        speeds = tuple(
            calibration.tokens_per_second(number, drafts, per_draft) for drafts, number in enumerate(per_pass, 1)
        )
    frequent = coverage.frequent(tokens)
    saved = read.saved(tokens)
    return Row(tokens, coverage.by_source(tokens), covered, frequent, per_draft, saved, per_pass, draft, speeds)


def _best(rows: Sequence[Row], calibration: Calibration) -> Choice:
    """The fastest row and number of drafts; the whole vocabulary or plain decoding unless another is clearly faster."""
    plain = 1 / calibration.plain

    def fastest(row: Row) -> tuple[float, int]:
        speeds = row.speeds or ()
        speed = max(speeds)
        return speed, speeds.index(speed) + 1

    whole, drafts = fastest(rows[-1])
    known = max(plain, whole)
    best = max(rows, key=lambda row: fastest(row)[0])
    speed, number = fastest(best)
    if speed < known * WORTH_IT:
        best, speed, number = rows[-1], known, drafts if whole >= plain * WORTH_IT else 0
        speed = whole if number else plain
    return Choice(best.tokens, number, speed, speed / known)
