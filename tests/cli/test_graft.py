"""``irtools graft``: options that contradict each other, and what is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import openvino as ov
import pytest

from tests.cli.conftest import Done
from tests.report.records import proof_record

TRAINED, PART = "qwen3_5_vl_trained", "openvino_language_model.xml"


@pytest.mark.parametrize("option", ["--bench", "--proof"])
def test_a_proof_has_no_times(cli: Callable[..., Done], fixtures: Path, tmp_path: Path, option: str) -> None:
    record = tmp_path / "proof.json"
    record.write_text(json.dumps({"models": [{"proof": proof_record(fixtures / TRAINED)}]}))

    done = cli("graft", fixtures / TRAINED, "--advise", option, record)

    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert (
        "holds a record of a proof, not of a benchmark; give a file that `irtools bench -o FILE.json` wrote" in done.err
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "--vocabulary is missing"),
        ("--remove --vocabulary 9", "--remove takes neither"),
        ("--vocabulary 9 --tokens ids", "--tokens needs --own-head"),
        ("--vocabulary 9 --weights int8", "--weights needs --own-head or --draft"),
        ("--vocabulary all", "--vocabulary all is for"),
        ("--own-head --vocabulary all --tokens corpus", "--vocabulary all is for"),
        ("--own-head --tokens corpus", "--vocabulary is missing"),
        ("--vocabulary 9 --generate 9", "--generate needs --advise"),
        ("--vocabulary 9 --acceptance 0", "--acceptance needs --advise"),
        ("--draft falcon --vocabulary 9", "--draft writes a copy"),
        ("--advise --force", "--advise writes nothing"),
        ("--advise --dry-run", "--advise writes nothing"),
        ("--vocabulary 9x", "is not a number of tokens"),
        ("--vocabulary \uff19", "is not a number of tokens"),
        ("--vocabulary 512", "from 1 to 511"),
    ],
)
def test_options_that_contradict_each_other(
    cli: Callable[..., Done], fixtures: Path, arguments: str, words: str
) -> None:
    done = cli("graft", str(fixtures / TRAINED), *arguments.split())
    assert done.code == 2
    assert words in done.err
    assert done.err.count("\n") == 1


def test_the_file_gets_a_head_and_its_bytes_back(cli: Callable[..., Done], export_copy: Callable[..., Path]) -> None:
    path = export_copy(TRAINED)
    before = (path / PART).read_bytes()
    dry = cli("graft", str(path), "--vocabulary", "128", "--dry-run")
    assert (dry.code, (path / PART).read_bytes()) == (1, before)
    done = cli("graft", str(path), "--vocabulary", "128", "--format", "json")
    head = json.loads(done.out)["models"][0]["draft_head"]
    assert (head["tokens"], head["vocabulary"], head["draft_head_bytes"]) == (128, 512, 128 * 64 * 4)
    assert head["xml_bytes"] == len((path / PART).read_bytes()) - len(before) < 10_000
    shapes = [str(output.partial_shape) for output in ov.Core().read_model(path / PART).outputs]
    assert shapes[0] == "[0,128]"
    assert "already has this draft head" in cli("graft", str(path), "--vocabulary", "128").out
    removed = cli("graft", str(path), "--remove", "--format", "json")
    assert json.loads(removed.out)["models"][0]["draft_head"]["tokens"] == 512
    assert (path / PART).read_bytes() == before
    assert "no draft head" in cli("graft", str(path), "--remove").out


def test_all_tokens_and_chosen_ones(cli: Callable[..., Done], export_copy: Callable[..., Path], tmp_path: Path) -> None:
    path = export_copy(TRAINED)
    for tokens, arguments in ((512, ()), (512, ("--vocabulary", "all")), (3, ("--tokens", str(tmp_path / "ids")))):
        (tmp_path / "ids").write_text("70\n5\n511\n")
        done = cli("graft", str(path), "--own-head", "--force", "--no-check", "--format", "json", *arguments)
        assert json.loads(done.out)["models"][0]["draft_head"]["tokens"] == tokens
    fewer = cli("graft", str(path), "--own-head", "--tokens", str(tmp_path / "ids"), "--vocabulary", "9")
    assert (fewer.code, "3 token ids, fewer than --vocabulary 9" in fewer.err) == (2, True)


def test_the_advice_writes_nothing(cli: Callable[..., Done], export_copy: Callable[..., Path], tmp_path: Path) -> None:
    path = export_copy(TRAINED)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    (tmp_path / "text").write_text("abc " * 50)
    done = cli("graft", str(path), "--advise", "--corpus", str(tmp_path / "text"), "--format", "json")
    assert done.code == 0
    assert json.loads(done.out)["models"][0]["status"] == "ok"
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


def test_new_weights_in_an_output_directory_are_told_from_linked_ones(
    cli: Callable[..., Done], fixtures: Path, tmp_path: Path
) -> None:
    done = cli(
        "graft", str(fixtures / "qwen3_5_vl_trained"), "--own-head", "--vocabulary", "9", "-o", str(tmp_path / "out")
    )
    size = (tmp_path / "out" / "openvino_mtp_model.bin").stat().st_size
    assert done.code == 0
    assert f"openvino_mtp_model.bin newly written, {size / 1024:.0f} KiB" in done.out.replace("\n", " ")
    assert ("weights linked, 0 bytes copied" in done.out) or ("weights cloned, 0 bytes copied" in done.out)
