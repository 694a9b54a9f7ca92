"""``irtools serve-config``: what is written, what is refused, and that OpenVINO GenAI runs it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import eagle3
import jsonschema
import pytest
from defects_mtp import gemma_assistant, gemma_outputs
from defects_run import unfused
from google.protobuf import text_format
from ir_edit import edit

import irtools
from irtools.report.json import schema as envelope_schema
from irtools.serving.schema import schema

G, C = "graph.pbtxt", "ovms_config.json"


def options(path: Path, release: str) -> Any:
    """Options of the language model, read as a release of the server reads them."""
    known = schema(release)
    graph = known.new("CalculatorGraphConfig")
    text_format.Parse(path.read_text(encoding="utf-8"), graph, descriptor_pool=known.pool)
    return known.options(graph.node[0].node_options[0])


def test_an_mtp_head_from_another_directory(fixtures: Path, tmp_path: Path, cli: Any) -> None:
    target, out = fixtures / "qwen3_5_vl_trained", tmp_path / "new" / "served"

    done = cli("serve-config", target, "-o", out)

    assert done.code == 0, done.err
    read = options(out / G, "2026.4")
    assert (read.models_path, read.draft_models_path) == (str(target), str(target))
    assert not read.enable_prefix_caching
    assert '"temperature": 0, "num_assistant_tokens": 1' in done.out
    assert "mtp, for OpenVINO Model Server 2026.4 or newer" in done.out
    assert "no server was started" in done.err
    served = json.loads((out / C).read_text())["model_config_list"]
    assert served == [{"config": {"name": target.name, "base_path": "./"}}]


def test_in_the_model_directory_paths_are_relative(export_copy: Callable[..., Path], cli: Any) -> None:
    directory = export_copy("qwen3_5_vl_trained")
    before = sorted(path.name for path in directory.iterdir())
    assert cli("serve-config", directory, "-o", directory).code == 0
    read = options(directory / G, "2026.4")
    assert (read.models_path, read.draft_models_path) == ("./", ".")
    assert sorted(path.name for path in directory.iterdir()) == sorted([*before, G, C])
    assert [f.code for f in irtools.open_export(directory).verify(select=["SRV"]).findings] == []


def test_from_a_directory_above_paths_are_relative(export_copy: Callable[..., Path], cli: Any) -> None:
    target, draft = export_copy("qwen3"), export_copy("qwen3_dflash", to="dräft")
    done = cli("serve-config", target, "--draft", draft, "-o", target.parent, "--name", "mine", "--format", "json")
    read = options(target.parent / G, "2026.4")
    assert (read.models_path, read.draft_models_path, read.max_num_seqs) == ("qwen3", "dräft", 1)
    assert done.code == 0
    envelope = json.loads(done.out)
    jsonschema.validate(envelope, envelope_schema())
    (entry,) = envelope["models"]
    assert (entry["strategy"], entry["release"], entry["status"]) == ("dflash", "2026.4", "written")
    assert entry["request"] == {"temperature": 0, "num_assistant_tokens": 3}  # block_size 4, one of them is text
    assert entry["command"].endswith("--rest_workers 2")
    assert [f.code for f in irtools.open_export(target).verify(select=["SRV"]).findings] == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), {"enable_prefix_caching": True, "max_num_seqs": 256, "cache_size": 0, "device": "CPU"}),
        (
            ("--no-prefix-caching", "--cache-size", 8, "--device", "GPU", "--max-num-seqs", 3),
            {"enable_prefix_caching": False, "cache_size": 8, "device": "GPU", "max_num_seqs": 3},
        ),
        (("--max-batched-tokens", 1), {"max_num_batched_tokens": 1}),
    ],
)
def test_plain_decoding_fits_the_oldest_release(
    arguments: tuple[object, ...], expected: dict[str, object], fixtures: Path, tmp_path: Path, cli: Any
) -> None:
    done = cli("serve-config", fixtures / "llama", "-o", tmp_path, *arguments)
    assert "plain, for OpenVINO Model Server 2025.4 or newer" in done.out
    read = options(tmp_path / G, "2025.4")
    assert {name: getattr(read, name) for name in expected} == expected
    assert not read.HasField("draft_models_path")


def test_eagle3_is_greedy(fixtures: Path, export_copy: Callable[..., Path], tmp_path: Path, cli: Any) -> None:
    draft = export_copy("llama", to="draft")
    eagle3.write(draft)
    done = cli("serve-config", fixtures / "llama", "--draft", draft, "-o", tmp_path / "out")
    assert "eagle3, for OpenVINO Model Server 2026.0 or newer" in done.out
    read = options(tmp_path / "out" / G, "2026.0")
    assert (read.draft_eagle3_mode, read.enable_prefix_caching, read.max_num_seqs) == (True, False, 1)


def test_a_target_without_paged_attention_gets_another_pipeline(
    export_copy: Callable[..., Path], tmp_path: Path, cli: Any
) -> None:
    directory = export_copy("llama")
    edit(directory / "openvino_model.xml", unfused())
    done = cli("serve-config", directory, "-o", tmp_path / "out")
    assert done.code == 0, done.err
    read = options(tmp_path / "out" / G, "2025.4")
    assert read.pipeline_type == 0  # LM
    assert not read.HasField("max_num_seqs")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["llama", "--strategy", "mtp"], "mtp is not available: there is no openvino_mtp_model.xml"),
        (["qwen3", "--strategy", "dflash"], "dflash needs a draft. Give its directory with --draft DIR"),
        (["bert"], "plain is not available"),
        (["qwen3_dflash"], "this is a draft"),
        (["qwen3", "--draft", "qwen3_dflash", "--strategy", "eagle3"], "the draft is for dflash, not for eagle3"),
        (["qwen3", "--draft", "qwen3_dflash", "--prefix-caching"], "dflash needs it off"),
        (["qwen3", "--draft", "qwen3_dflash", "--max-num-seqs", "2"], "one request at a time"),
        (["qwen3_5_vl_trained", "--max-batched-tokens", "5"], "mtp needs at least 6"),
        (["qwen3_5_vl_trained", "--target-runtime", "2026.3"], "OpenVINO GenAI has it from 2026.4 on"),
        (["qwen3_5_vl_trained", "--target-runtime", "new"], "is not a runtime version"),
        (["llama", "--for", "genai", "--cache-size", "2"], "--cache-size is only for --for ovms"),
        (["llama", "--device", " "], "the device is empty"),
        (["llama", "--draft", "nowhere"], "no such file or directory"),
        (["nowhere"], "no such file or directory"),
    ],
)
def test_what_cannot_be_served_is_refused(
    arguments: list[str], reason: str, fixtures: Path, tmp_path: Path, cli: Any
) -> None:
    words = [fixtures / word if (fixtures / word).exists() else word for word in arguments]
    done = cli("serve-config", *words, "-o", tmp_path / "out")
    assert (done.code, done.out) == (2, "")
    assert reason in " ".join(done.err.split())
    assert not (tmp_path / "out").exists()


def test_a_head_that_verify_refuses_is_not_replaced_by_plain_decoding(
    export_copy: Callable[..., Path], tmp_path: Path, cli: Any
) -> None:
    directory = export_copy("qwen3_5_vl_trained")
    head = directory / "openvino_mtp_model.xml"
    head.write_text(head.read_text().replace('"last_hidden_state"', '"something"'), encoding="utf-8")
    done = cli("serve-config", directory, "-o", tmp_path / "out")
    assert done.code == 2
    assert "mtp is not available" in done.err
    assert cli("serve-config", directory, "-o", tmp_path / "out", "--strategy", "plain").code == 0


def test_a_pair_that_the_server_cannot_draft_with(export_copy: Callable[..., Path], cli: Any) -> None:
    """A Gemma 4 pair needs the SDPA backend, with which the server decodes without continuous batching."""
    target, draft = export_copy("qwen3_5_vl_trained", to="target"), export_copy("qwen3_5_vl_trained", to="draft")
    for suffix in (".xml", ".bin"):
        for part in ("language", "text_embeddings"):
            (draft / f"openvino_{part}_model{suffix}").unlink()
        (draft / f"openvino_mtp_model{suffix}").rename(draft / f"openvino_model{suffix}")
        (target / f"openvino_mtp_model{suffix}").unlink()
    edit(draft / "openvino_model.xml", gemma_assistant)
    edit(target / "openvino_language_model.xml", lambda ir: gemma_outputs(ir, missing=0))
    call = ("serve-config", target, "--draft", draft, "-o", target.parent / "out")

    refused = cli(*call)

    assert (refused.code, refused.out) == (2, "")
    assert "the pair needs ATTENTION_BACKEND = SDPA. `--for genai` writes Python for it" in " ".join(
        refused.err.split()
    )
    assert 'ATTENTION_BACKEND="SDPA"' in cli(*call, "--for", "genai", "--dry-run").out


def test_on_npu_the_server_does_not_draft(fixtures: Path, tmp_path: Path, cli: Any) -> None:
    done = cli("serve-config", fixtures / "qwen3_5_vl_trained", "--device", "NPU", "-o", tmp_path / "out")
    assert done.code == 2
    assert "--device NPU" in done.err
    done = cli("serve-config", fixtures / "llama", "--device", "NPU", "-o", tmp_path / "out")
    assert [field.name for field, _ in options(tmp_path / "out" / G, "2025.4").ListFields()] == [
        "models_path",
        "device",
    ]


def test_nothing_is_overwritten_without_force(fixtures: Path, tmp_path: Path, cli: Any) -> None:
    out, mine = tmp_path / "out", b"# by hand\nnode { } # mine\n"
    out.mkdir()
    (out / G).write_bytes(mine)
    call = ("serve-config", fixtures / "llama", "-o", out)

    refused = cli(*call)

    assert (refused.code, refused.out) == (2, "")
    assert "give --force to replace it and keep the old file" in " ".join(refused.err.split())
    assert [(path.name, path.read_bytes()) for path in out.iterdir()] == [(G, mine)]

    shown = cli(*call, "--force", "--dry-run")
    assert shown.code == 1
    assert 'models_path: "' in shown.out
    assert [path.name for path in out.iterdir()] == [G]

    assert cli(*call, "--force").code == 0
    assert (out / f"{G}.old").read_bytes() == mine
    again = cli(*call)
    assert (again.code, "already had this content" in again.out) == (0, True)
    assert cli(*call, "--cache-size", "1", "--force").code == 0
    assert sorted(path.name for path in out.iterdir()) == [G, f"{G}.old", f"{G}.old1", C]


def test_a_link_out_of_an_export_is_not_followed(export_copy: Callable[..., Path], tmp_path: Path, cli: Any) -> None:
    directory, elsewhere = export_copy("llama"), tmp_path / "precious"
    elsewhere.write_text("precious")
    (directory / G).symlink_to(elsewhere)
    assert cli("serve-config", directory, "-o", directory, "--force").code == 2
    assert elsewhere.read_text() == "precious"


READ = {
    "models_path", "draft_models_path", "draft_device", "device", "cache_size", "enable_prefix_caching",
    "max_num_batched_tokens", "max_num_seqs", "pipeline_type",
}  # fmt: skip
"""Options that `servable_initializer.cpp` and `continuous_batching/servable_initializer.cpp` read at v2025.4, among
others; at v2026.0 `draft_eagle3_mode` too. The pipelines without continuous batching read the first, `device` and
`plugin_config`."""


@pytest.mark.slow
def test_only_options_are_written_that_the_server_reads(fixtures: Path, tmp_path: Path, cli: Any) -> None:
    for number, (strategy, (target, draft)) in enumerate(pairs(fixtures, tmp_path).items()):
        out = tmp_path / str(number)
        words = ("--draft", draft) if draft is not None else ()
        (entry,) = json.loads(cli("serve-config", target, *words, "-o", out, "--format", "json").out)["models"]
        written = {field.name for field, _ in options(out / G, entry["release"]).ListFields()}
        assert written == set(entry["options"])
        assert written <= (READ | {"draft_eagle3_mode"} if strategy == "eagle3" else READ)


# -- with OpenVINO GenAI ------------------------------------------------------------------


def pairs(fixtures: Path, folder: Path) -> dict[str, tuple[Path, Path | None]]:
    """A target and a draft for each decoding strategy."""
    eagle3.write(shutil.copytree(fixtures / "llama", folder / "eagle3"))
    return {
        "plain": (fixtures / "llama", None),
        "mtp": (fixtures / "qwen3_5_vl_trained", None),
        "dflash": (fixtures / "qwen3", fixtures / "qwen3_dflash"),
        "eagle3": (fixtures / "llama", folder / "eagle3"),
        "draft": (fixtures / "llama", fixtures / "llama"),
    }


def run(script: Path, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, script, *map(str, arguments)], capture_output=True, check=False, timeout=200, cwd=script.parent
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["plain", "mtp", "dflash", "eagle3", "draft"])
def test_genai_runs_the_python(strategy: str, fixtures: Path, tmp_path: Path, cli: Any) -> None:
    target, draft = pairs(fixtures, tmp_path)[strategy]
    arguments = ("--draft", draft) if draft is not None else ()
    done = cli("serve-config", target, *arguments, "--for", "genai", "-o", tmp_path / "out", "--format", "json")
    (entry,) = json.loads(done.out)["models"]
    assert (entry["strategy"], entry["for"]) == (strategy, "genai")
    printed = run(tmp_path / "out" / "generate.py")
    assert bool(re.search(r"accepted \d+ of [1-9]\d* drafted", printed)) == (strategy != "plain")


_SERVER = '''
"""What `continuous_batching/servable_initializer.cpp` and `base_generation_config_builder.cpp` do with the options."""
import json, sys
import openvino_genai as genai
graph, request = sys.argv[1], json.loads(sys.argv[3])

def scheduler(options):
    config = genai.SchedulerConfig()
    config.enable_prefix_caching = options["enable_prefix_caching"]
    for name in ("max_num_batched_tokens", "cache_size", "dynamic_split_fuse", "max_num_seqs"):
        setattr(config, name, options[name])
    return config

def joined(path):  # as std::filesystem::path does it: "." and "./" stay
    return path if path.startswith("/") else f"{graph}/{path}"

def decode(options):
    drafting, models, properties = options["draft_models_path"], joined(options["models_path"]), {}
    if drafting:
        draft, device = joined(drafting), options["draft_device"]
        properties["draft_model"] = genai.draft_model(draft, device, scheduler_config=scheduler(options))
    pipeline = genai.ContinuousBatchingPipeline(models, scheduler(options), options["device"], properties)
    config = genai.GenerationConfig(f"{models}/generation_config.json")
    config.apply_chat_template = False
    config.max_new_tokens = 16
    config.num_beams = 1
    config.temperature = request.get("temperature", config.temperature)
    config.do_sample = config.temperature > 0
    if drafting:
        config.num_assistant_tokens = request.get("num_assistant_tokens", config.num_assistant_tokens) or 5
        config.do_sample &= not options["draft_eagle3_mode"]
    handles = [pipeline.add_request(number, "zqab zqab", config) for number in range(int(sys.argv[4]))]
    while pipeline.has_non_finished_requests():
        pipeline.step()
    return [handle.read_all()[0].generated_ids for handle in handles]

drafted = decode(json.loads(sys.argv[2]))
request["temperature"] = 0
print(json.dumps([drafted, decode({**json.loads(sys.argv[2]), "draft_models_path": ""})]))
'''
_NAMES = [
    "models_path",
    "draft_models_path",
    "draft_device",
    "device",
    "cache_size",
    "enable_prefix_caching",
    "max_num_batched_tokens",
    "max_num_seqs",
    "dynamic_split_fuse",
    "draft_eagle3_mode",
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "inside"),
    [("mtp", True), ("mtp", False), ("dflash", False), ("eagle3", False), ("draft", True), ("plain", True)],
)
def test_the_options_work_as_the_server_passes_them(
    strategy: str, inside: bool, fixtures: Path, tmp_path: Path, cli: Any
) -> None:
    """No server is on the package registries; its sources say what it does with each option."""
    target, draft = pairs(fixtures, tmp_path)[strategy]
    target = shutil.copytree(target, tmp_path / "target")
    out = target if inside else tmp_path / "out"
    arguments = ("--draft", draft) if draft is not None else ()
    done = cli("serve-config", target, *arguments, "-o", out, "--format", "json")
    (entry,) = json.loads(done.out)["models"]
    read = options(out / G, entry["release"])
    given = json.dumps({name: getattr(read, name, False) for name in _NAMES})
    script = tmp_path / "server.py"
    script.write_text(_SERVER, encoding="utf-8")
    # An ordinary draft may sample, and so may plain decoding; for the comparison they do not.
    request = entry["request"] if strategy in ("mtp", "dflash", "eagle3") else {"temperature": 0}
    at_once = 1 if strategy in ("dflash", "eagle3") else 2

    drafted, plain = json.loads(run(script, out, given, json.dumps(request), at_once))

    assert drafted == plain
    assert [len(ids) for ids in plain] == [16] * at_once
