"""Coverage against an independent count, and the expected tokens against a simulation."""

from __future__ import annotations

import random
from pathlib import Path

import openvino as ov
import openvino_tokenizers  # noqa: F401 - adds its ops to OpenVINO
import pytest

from irtools.advise.advice import Advice, expected_tokens
from irtools.advise.coverage import Coverage, TextSource
from irtools.bench.shipped import KINDS, prompts, text_file
from irtools.errors import OptionError, UsageError
from irtools.export import open_export
from irtools.runtime import token_counts
from irtools.runtime.token_counts import TokenCounts


def ids_of(directory: Path, text: str) -> list[int]:
    """Token ids of a whole text, by the tokenizer IR in OpenVINO without GenAI."""
    model = ov.Core().compile_model(directory / "openvino_tokenizer.xml", "CPU")
    return [int(token) for token in model([text])["input_ids"][0]]


@pytest.fixture(scope="module")
def advice(fixtures: Path) -> Advice:
    return open_export(fixtures / "qwen3_5_vl_trained").advise()


def test_shares_are_those_of_an_independent_count(fixtures: Path, advice: Advice) -> None:
    everything: list[int] = []
    for kind in KINDS:
        ids = ids_of(fixtures / "qwen3_5_vl_trained", text_file(kind).read_text(encoding="utf-8"))
        everything += ids
        for row in advice.rows:
            expected = sum(token < row.tokens for token in ids) / len(ids)
            assert row.coverage[kind] == pytest.approx(expected, abs=1e-3)
    for row in advice.rows:
        assert row.covered == pytest.approx(sum(token < row.tokens for token in everything) / len(everything), abs=1e-3)
    assert advice.rows[-1].covered == advice.rows[-1].frequent == 1.0
    assert [source.name for source in advice.coverage.sources] == list(KINDS)


def test_a_device_is_not_read(fixtures: Path) -> None:
    with pytest.raises(OSError, match="not a regular file"):
        next(token_counts._pieces(Path("/dev/zero")))


def test_files_are_counted_one_by_one(fixtures: Path, tmp_path: Path) -> None:
    (tmp_path / "low.txt").write_text("a b c d\n" * 2000)
    (tmp_path / "other.txt").write_text("日本語の文章\n" * 500, encoding="utf-8")
    found = open_export(fixtures / "qwen3_5_vl_trained").advise([tmp_path / "low.txt", tmp_path / "other.txt"])
    row = found.rows[0]
    for path in (tmp_path / "low.txt", tmp_path / "other.txt"):
        ids = ids_of(fixtures / "qwen3_5_vl_trained", path.read_text(encoding="utf-8"))
        expected = sum(token < row.tokens for token in ids) / len(ids)
        assert row.coverage[str(path)] == pytest.approx(expected, abs=1e-3)
    frequent = found.most_frequent(4)
    assert len(set(frequent)) == 4
    assert all(0 <= token < 512 for token in found.most_frequent(512))


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no such file"), (b"\xff\xfe\x00a", "UTF-8"), (b"", "no text")],
)
def test_a_file_without_text_is_refused(fixtures: Path, tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        open_export(fixtures / "qwen3_5_vl_trained").advise([path])


def test_without_the_runtime_one_sentence_says_what_to_install(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_counts, "available", lambda: False)
    with pytest.raises(UsageError, match="install the extra `runtime`"):
        open_export(fixtures / "qwen3_5_vl_trained").advise()


def test_pieces_are_the_whole_text_and_cut_no_line(tmp_path: Path) -> None:
    path = tmp_path / "text"
    for text in (text_file("code").read_text(), "x" * 300_000, "\n" * 5000, "a\r\nb\r\n" * 3000, ""):
        path.write_text(text, newline="")
        pieces = list(token_counts._pieces(path))
        assert "".join(pieces) == text
        assert all(pieces)
        assert max(map(len, pieces), default=0) < 40_000 + 65_536
    path.write_text("line of text\n" * 5000)
    assert all(piece.endswith("\n") for piece in token_counts._pieces(path))


def test_frequent_tokens_are_measured_on_other_text() -> None:
    even, odd = {7: 60, 9: 40}, {7: 50, 8: 50}
    coverage = Coverage(10, (TextSource("x", "file", TokenCounts(even, odd)),))
    assert coverage.frequent(1) == pytest.approx((60 + 50) / 200)  # 7 both times
    assert coverage.frequent(2) == pytest.approx((50 + 60) / 200)  # 7 and 9 of the other half, 7 and 8 of the first
    assert coverage.most_frequent(4) == (7, 8, 9, 0)
    assert coverage.first(8) == pytest.approx(0.55)


@pytest.mark.parametrize(("acceptance", "drafts"), [(0.8, 1), (0.8, 4), (0.3, 8), (1.0, 5), (0.0, 3)])
def test_expected_tokens_are_those_of_a_simulation(acceptance: float, drafts: int) -> None:
    chance, passes, tokens = random.Random(1), 40_000, 0
    for _ in range(passes):
        run = next((n for n in range(drafts) if chance.random() >= acceptance), drafts)
        tokens += run + 1
    assert expected_tokens(acceptance, drafts) == pytest.approx(tokens / passes, rel=0.02)


def test_rows_use_acceptance_times_coverage(advice: Advice) -> None:
    for row in advice.rows:
        for drafts, number in enumerate(row.tokens_per_pass, 1):
            assert number == pytest.approx(sum((0.8 * row.covered) ** power for power in range(drafts + 1)))


def test_without_times_no_row_is_the_best(advice: Advice) -> None:
    assert advice.best is None
    assert all(row.speeds is None and row.draft_seconds is None for row in advice.rows)


@pytest.mark.parametrize(
    "wrong",
    [{"acceptance": 1.5}, {"acceptance": float("nan")}, {"generate": -1}, {"generate": 5, "corpus": ["x"]}],
)
def test_arguments_out_of_range_are_refused(fixtures: Path, wrong: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        open_export(fixtures / "qwen3_5_vl_trained").advise(**wrong)  # type: ignore[arg-type]


def test_shipped_prompts_begin_with_every_kind() -> None:
    chosen = prompts()
    assert [prompt.kind for prompt in chosen[:3]] == list(KINDS)
    assert all(10 < len(prompt.text) < 400 for prompt in chosen)


@pytest.mark.slow
def test_the_target_writes_the_text_itself(fixtures: Path) -> None:
    found = open_export(fixtures / "qwen3_5_vl_trained").advise(generate=200)
    assert {source.kind for source in found.coverage.sources} == {"generated"}
    assert 0 < found.coverage.tokens <= 250
