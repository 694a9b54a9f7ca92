"""``irtools attach`` from the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Done

BASE = "qwen3_5_vl_trained"
XML = "openvino_mtp_model.xml"

Cli = Callable[..., Done]


@pytest.fixture
def tuned(export_copy: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of an export without its head, in the working directory."""
    directory = export_copy(BASE, to="tuned")
    for path in directory.glob("openvino_mtp_model.*"):
        path.unlink()
    config = directory / "config.json"
    config.write_bytes(re.sub(rb' *"mtp_num_hidden_layers": 1,\n', b"", config.read_bytes()))
    monkeypatch.chdir(directory.parent)
    return Path("tuned")


def test_attach_and_remove(tuned: Path, fixtures: Path, cli: Cli) -> None:
    before = sorted(tuned.iterdir())
    dry = cli("attach", tuned, "--mtp-from", fixtures / BASE, "--dry-run")
    assert (dry.code, dry.err, sorted(tuned.iterdir())) == (1, "", before)
    assert re.search(r"embeddings +512 x 64 f32 +512 x 64 f32 +same\n", dry.out)
    assert dry.out.endswith("\nwould write tuned\n")

    done = cli("attach", tuned, "--mtp-from", fixtures / BASE)
    assert done.code == 0
    assert (
        done.err == "irtools: next: `irtools prove tuned --steps head` measures how often the head's drafts are right\n"
    )
    assert "tuned/openvino_mtp_model.bin, tuned/config.json and tuned/openvino_mtp_model.xml" in done.out

    again = cli("attach", tuned, "--mtp-from", fixtures / BASE)
    assert (again.code, again.out.splitlines()[-1]) == (0, "tuned already has this MTP head; nothing written")
    assert cli("attach", tuned, "--remove", "--dry-run") == Done(1, "would write tuned\n")
    removed = cli("attach", tuned, "--remove")
    assert (removed.code, removed.out) == (
        0,
        "wrote tuned/config.json; removed tuned/openvino_mtp_model.xml, tuned/openvino_mtp_model.bin and "
        "tuned/openvino_mtp_model.attached.json\n",
    )
    assert cli("attach", tuned, "--remove") == Done(0, "tuned has no MTP head; nothing written\n")


def test_json(tuned: Path, fixtures: Path, cli: Cli) -> None:
    def answer(*options: object) -> tuple[int, dict[str, object]]:
        done = cli("attach", tuned, *options, "--no-check", "--format", "json")
        return done.code, json.loads(done.out)["models"][0]

    here = "--mtp-from", fixtures / BASE
    code, model = answer(*here, "--dry-run")
    assert (code, model["status"], model["written"]) == (1, "would-write", [])
    code, model = answer(*here, "--output-dir", "whole")
    assert (code, model["status"]) == (0, "written")
    assert set(model["written"]) == {  # type: ignore[call-overload]
        f"whole/{name}" for name in ("config.json", XML, "openvino_mtp_model.bin", "openvino_mtp_model.attached.json")
    }
    assert not (tuned / XML).exists()
    code, model = answer(*here)
    assert (code, model["status"], model["declared"]) == (0, "written", "text_config.mtp_num_hidden_layers")
    assert (model["file"], model["from"]) == (f"tuned/{XML}", str(fixtures / BASE / XML))
    code, model = answer(*here)
    assert (code, model["status"], model["written"]) == (0, "unchanged", [])
    code, model = answer("--mtp-from", fixtures / "llama")
    assert (code, model["status"]) == (2, "refused")
    assert str(model["error"]).startswith(f"{fixtures / 'llama'}: has no MTP head")
    code, model = answer("--mtp-from", "nowhere")
    assert (code, model["status"], model["error"]) == (2, "failed", "nowhere: no such file or directory")
    code, model = answer("--remove")
    assert (code, model["status"], model["from"]) == (0, "written", None)


@pytest.mark.parametrize("options", [(), ("--mtp-from", ".", "--remove")])
def test_one_of_two_options_is_needed(options: tuple[str, ...], cli: Cli) -> None:
    done = cli("attach", *options)
    assert done.code == 2
    assert "give either --mtp-from OTHER, an export that has an MTP head, or --remove" in done.err


def test_what_the_rules_find_is_refused(tuned: Path, fixtures: Path, cli: Cli) -> None:
    path = tuned / "openvino_language_model.xml"
    path.write_text(re.sub('((?:output_)?names)="logits"', r'\1="scores"', path.read_text()))
    done = cli("attach", tuned, "--mtp-from", fixtures / BASE, "--dry-run")
    assert (done.code, done.out) == (2, "")
    assert re.fullmatch(
        r"irtools: error: tuned: with this head, MTP\d+ is an error: .*; nothing was written; .*\n", done.err
    )
    assert cli("attach", tuned, "--mtp-from", fixtures / BASE, "--no-check", "-q") == Done(0, "")
