"""Scripts of ``irtools inspect --snippet``, run as they are printed."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import eagle3
import pytest

import irtools
from irtools.report.inspection import Inspection


def printed(script: str, folder: Path) -> str:
    """What a script prints in a process of its own, in another working directory."""
    folder.mkdir(exist_ok=True)
    path = folder / "snippet.py"
    path.write_bytes(script.encode())
    done = subprocess.run([sys.executable, path], cwd=folder, capture_output=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def command(*arguments: object) -> subprocess.CompletedProcess[bytes]:
    words = [sys.executable, "-m", "irtools", "inspect", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, check=False, timeout=200)


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--prompt", "zqab"], ["--prompt", 'it\'s\n"é"']])
def test_the_mtp_head_of_the_trained_export_drafts(options: list[str], fixtures: Path, tmp_path: Path) -> None:
    path = shutil.copytree(fixtures / "qwen3_5_vl_trained", tmp_path / 'it\'s "ü" 日本')
    done = command(path, "--snippet", *options)
    assert done.returncode == 0, done.stderr
    (accepted,) = re.findall(r"accepted (\d+) of", printed(done.stdout.decode(), tmp_path / "other"))
    assert int(accepted) > 0


@pytest.mark.slow
def test_a_language_model_of_the_other_name_drafts(export_copy: Callable[..., Path], tmp_path: Path) -> None:
    path = export_copy("qwen3_5_vl_trained")
    for suffix in (".xml", ".bin"):
        (path / f"openvino_language_model{suffix}").rename(path / f"openvino_model{suffix}")
    script = irtools.open_export(path).inspect().snippet("mtp", prompt="zqab")
    assert "ContinuousBatchingPipeline" in script
    assert "accepted 19 of 19" in printed(script, tmp_path / "other")


@pytest.mark.slow
def test_plain_decoding(fixtures: Path, tmp_path: Path) -> None:
    for name in ("llama", "qwen3_5_vl_trained"):
        script = irtools.open_export(fixtures / name).inspect().snippet("plain")
        assert "draft" not in script
        assert printed(script, tmp_path / "other").strip()


@pytest.mark.slow
def test_drafts_in_a_directory_of_their_own(fixtures: Path, tmp_path: Path) -> None:
    eagle3.write(shutil.copytree(fixtures / "llama", tmp_path / "eagle3"))
    pairs = {"dflash": ("qwen3", fixtures / "qwen3_dflash"), "eagle3": ("llama", tmp_path / "eagle3")}
    pairs["draft"] = ("llama", fixtures / "llama")
    for strategy, (target, draft) in pairs.items():
        inspection = irtools.open_export(fixtures / target).inspect(draft=draft)
        script = inspection.snippet()
        assert script == inspection.snippet(strategy)
        accepted, drafted = re.findall(r"accepted (\d+) of (\d+)", printed(script, tmp_path / "other"))[0]
        assert int(drafted) >= int(accepted)
        assert int(drafted) > 0
        assert int(accepted) == 0 or strategy == "draft"  # untrained drafts, but a target drafts well for itself


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--snippet", "mtp", "llama"], "mtp is not available: there is no openvino_mtp_model.xml"),
        (["--snippet=dflash", "llama"], "dflash needs a draft. Give its directory with --draft DIR"),
        (["--snippet", "bert"], "plain is not available"),
        (["--snippet", "qwen3_dflash"], "this is a draft"),
        (["--snippet", "eagle3", "--draft", "qwen3_dflash", "qwen3"], "the draft is for dflash, not for eagle3"),
        (["--snippet", "mpt", "llama"], "'mpt' is not one of"),
        (["--prompt", "x", "llama"], "--prompt is only for --snippet"),
        (["--snippet", "--draft", "nowhere", "llama"], "no such file or directory"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: list[str], reason: str, fixtures: Path, cli: Any) -> None:
    done = cli("inspect", *(fixtures / word if (fixtures / word).exists() else word for word in arguments))
    assert (done.code, done.out) == (2, "")
    assert reason in done.err


def test_the_option_does_not_take_the_directory_for_its_value(fixtures: Path, cli: Any) -> None:
    path = fixtures / "llama"
    outputs = {
        cli("inspect", *words).out
        for words in (["--snippet", path], [path, "--snippet"], ["--snippet", "plain", path], ["--snippet=best", path])
    }
    (script,) = outputs
    assert f"model = {str(path)!r}" in script
    ast.parse(script)


def test_json_has_the_snippet_the_conditions_and_the_pipelines(fixtures: Path, cli: Any) -> None:
    done = cli("inspect", fixtures / "qwen3_5_vl_trained", "--snippet", "--format", "json")
    (model,) = json.loads(done.out)["models"]
    assert "num_assistant_tokens" in model["snippet"]
    (mtp,) = (one for one in model["strategies"] if one["name"] == "mtp")
    assert {"id": "greedy", "value": "False"}.items() <= mtp["conditions"][2].items()
    assert model["pipelines"][0] == {"name": "VLMPipeline", "fits": True, "reason": ""}


def test_no_scheduler_is_set_without_need(fixtures: Path) -> None:
    assert "scheduler" not in Inspection(irtools.open_export(fixtures / "llama")).snippet("plain")
