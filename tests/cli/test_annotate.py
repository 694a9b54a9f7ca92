"""``irtools annotate`` and ``irtools strip``: output, files and exit codes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import openvino
import pytest

from irtools.ir.rt_info import set_entry
from irtools.model.document import Document
from irtools.report.json import schema
from tests.cli.conftest import Done

VALIDATOR = jsonschema.Draft202012Validator(schema())
KEY = "hidden_states_decoder_layers"


def read(done: Done) -> dict[str, Any]:
    envelope: dict[str, Any] = json.loads(done.out)
    VALIDATOR.validate(envelope)
    assert envelope["summary"]["exit_code"] == done.code
    return envelope


def model(done: Done) -> dict[str, Any]:
    (entry,) = read(done)["models"]
    assert isinstance(entry, dict)
    return entry


def annotation(xml: Path) -> dict[str, Any]:
    """The annotation as OpenVINO reads it."""
    value = openvino.Core().read_model(xml).get_rt_info([KEY]).astype(str)
    layers: dict[str, Any] = json.loads(value)["layers"]
    return layers


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


@pytest.fixture
def llama(export_copy: Callable[..., Path]) -> Path:
    return export_copy("llama")


@pytest.fixture
def differing(export_copy: Callable[..., Path]) -> Path:
    """An export whose annotation names a value inside layer 0."""
    directory = export_copy("qwen3")
    xml = directory / "openvino_model.xml"
    right, wrong = (f"layers.0/aten::add/{name}&quot;".encode() for name in ("Add_1", "Add"))
    assert xml.read_bytes().count(right) == 1
    xml.write_bytes(xml.read_bytes().replace(right, wrong))
    return directory


def test_the_table_says_what_was_written(
    llama: Path, cli: Callable[..., Done], truth: Callable[[str], dict[str, Any]]
) -> None:
    done = cli("annotate", llama)
    assert (done.code, done.err.count("\n")) == (0, 1)  # the next command
    summary, titles, *rows, outcome = done.out.splitlines()
    assert summary == f"{llama / 'openvino_model.xml'}: 4 decoder layers, hidden size 32"
    assert titles.split() == ["layer", "producer", "output", "shape", "witnesses"]
    assert outcome == f"wrote {llama / 'openvino_model.xml'}"
    written = annotation(llama / "openvino_model.xml")
    for index, row in enumerate(rows):
        layer, producer, output, shape, *witnesses = row.split()
        assert int(layer) == index
        assert [producer, int(output)] in truth("llama")["layers"][layer]
        assert written[layer] == {"producer": producer, "output_index": int(output)}
        assert shape == "[?,?,32]"
        assert set(witnesses) == {"walk", "dominators", "names", "state", "config"}
    assert len(rows) == len(written)


def test_json_says_the_same(llama: Path, cli: Callable[..., Done]) -> None:
    entry = model(cli("annotate", llama, "--format", "json"))
    assert entry["status"] == "written"
    assert entry["previous"] is None
    assert entry["written"] == [str(llama / "openvino_model.xml")]
    assert json.loads(entry["annotation"])["layers"] == annotation(llama / "openvino_model.xml")
    again = model(cli("annotate", llama, "--format", "json"))
    assert (again["status"], again["written"]) == ("unchanged", [])
    assert again["previous"] == again["annotation"] == entry["annotation"]


def test_an_equal_annotation_is_said_and_nothing_written(llama: Path, cli: Callable[..., Done]) -> None:
    cli("annotate", llama)
    before = (llama / "openvino_model.xml").stat()
    done = cli("annotate", llama)
    assert done.code == 0
    assert done.out.endswith(f"{llama / 'openvino_model.xml'} already has this annotation; nothing written\n")
    after = (llama / "openvino_model.xml").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_strip_gives_the_file_back(llama: Path, fixtures: Path, cli: Callable[..., Done]) -> None:
    cli("annotate", llama)
    done = cli("strip", llama, "--format", "json")
    assert (done.code, model(done)["status"], model(done)["annotation"]) == (0, "written", None)
    assert content(llama) == content(fixtures / "llama")
    done = cli("strip", llama)
    assert (done.code, done.out) == (
        0,
        f"{llama / 'openvino_model.xml'} has no annotation; nothing written\n",
    )


def test_a_differing_annotation_is_shown_and_kept(differing: Path, cli: Callable[..., Done]) -> None:
    before = content(differing)
    done = cli("annotate", differing)
    assert done.code == 1
    assert "in the file  __module.model.layers.0/aten::add/Add " in done.out
    assert "located      __module.model.layers.0/aten::add/Add_1 " in done.out
    assert done.err.startswith(f"irtools: error: {differing / 'openvino_model.xml'}: line ")
    assert done.err.count("\n") == 1
    assert content(differing) == before
    entry = model(cli("annotate", differing, "--format", "json"))
    assert entry["status"] == "differs"
    layers = [json.loads(entry[which])["layers"]["0"]["producer"] for which in ("previous", "annotation")]
    assert layers == ["__module.model.layers.0/aten::add/Add", "__module.model.layers.0/aten::add/Add_1"]


def test_force_replaces_a_differing_annotation(differing: Path, fixtures: Path, cli: Callable[..., Done]) -> None:
    done = cli("annotate", "--force", differing)
    assert done.code == 0
    assert done.err.startswith("irtools: note: ")
    assert content(differing) == content(fixtures / "qwen3")


def test_a_broken_annotation_is_shown_as_it_is(export_copy: Callable[..., Path], cli: Callable[..., Done]) -> None:
    directory = export_copy("falcon")
    xml = directory / "openvino_model.xml"
    xml.write_bytes(
        xml.read_bytes().replace(b"\t\t<optimum>", b'\t\t<%s value="{oops" />\n\t\t<optimum>' % KEY.encode())
    )
    done = cli("annotate", directory)
    assert done.code == 1
    assert "{oops" in done.out
    assert '{"layers":{"0":' in done.out


@pytest.mark.parametrize("command", ["annotate", "strip"])
def test_a_dry_run_writes_nothing(
    command: str, export_copy: Callable[..., Path], cli: Callable[..., Done], tmp_path: Path
) -> None:
    directory = export_copy("llama" if command == "annotate" else "qwen3")
    before = content(directory)
    done = cli(command, "--dry-run", directory)
    assert done.code == 1
    assert done.out.endswith(f"would write {directory / 'openvino_model.xml'}\n")
    entry = model(cli(command, "--dry-run", directory, "--format", "json"))
    assert (entry["status"], entry["written"]) == ("would-write", [])
    assert cli(command, "--dry-run", directory, "--output-dir", tmp_path / "out").code == 1
    assert content(directory) == before
    assert not (tmp_path / "out").exists()
    cli(command, directory)
    assert cli(command, "--dry-run", directory).code == 0


def test_the_diff_is_one_that_patch_applies(llama: Path, cli: Callable[..., Done], tmp_path: Path) -> None:
    before = content(llama)
    done = cli("annotate", "--diff", llama)
    assert done.code == 1
    assert content(llama) == before
    assert done.out.startswith("--- ")
    added = [line for line in done.out.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert len(added) == 1
    assert KEY in added[0]
    entry = model(cli("annotate", "--diff", llama, "--format", "json"))
    assert entry["diff"].rstrip("\n") == done.out.rstrip("\n")
    if not shutil.which("patch"):
        pytest.skip("there is no patch to apply it with")
    patched = tmp_path / "patched.xml"
    shutil.copy(llama / "openvino_model.xml", patched)
    subprocess.run(["patch", "-s", patched], input=done.out.encode(), check=True)
    cli("annotate", llama)
    assert patched.read_bytes() == (llama / "openvino_model.xml").read_bytes()


@pytest.mark.parametrize(
    ("entry", "row"),
    [
        ('{"producer":"a"}', "a -"),
        ('{"output_index":0}', "- 0"),
        ('{"producer":null,"output_index":-0}', "null -0"),
        ('{"producer":"a","output_index":"0"}', 'a "0"'),
        ('"a"', "a -"),
        ("null", "null -"),
    ],
)
def test_an_entry_that_lacks_something_is_shown_as_it_is_written(
    entry: str, row: str, llama: Path, cli: Callable[..., Done]
) -> None:
    xml = llama / "openvino_model.xml"
    other = '{"producer":"b","output_index":0}'
    xml.write_bytes(set_entry(Document(xml).scan, KEY, f'{{"layers":{{"0":{entry},"1":{other}}}}}'))
    done = cli("annotate", llama)
    assert done.code == 1
    line = next(line for line in done.out.splitlines() if "in the file" in line)
    assert line.split("in the file")[1].split() == row.split()


def test_output_dir_gets_a_complete_export(
    llama: Path, tmp_path: Path, fixtures: Path, cli: Callable[..., Done]
) -> None:
    out = tmp_path / "out"
    assert cli("annotate", llama, "--output-dir", out).code == 0
    assert content(llama) == content(fixtures / "llama")
    changed = {name for name, data in content(out).items() if data != content(llama).get(name)}
    assert changed == {"openvino_model.xml"}
    assert content(out).keys() == content(llama).keys()
    assert len(annotation(out / "openvino_model.xml")) == 4
    again = cli("annotate", llama, "--output-dir", out)
    assert again.code == 2
    assert str(out) in again.err


def test_output_dir_is_complete_also_when_nothing_changes(
    export_copy: Callable[..., Path], tmp_path: Path, cli: Callable[..., Done]
) -> None:
    directory = export_copy("qwen3")
    call = ("annotate", directory, "--output-dir", tmp_path / "out")
    dry = cli(*call, "--dry-run", "--format", "json")
    assert (dry.code, model(dry)["status"], model(dry)["written"]) == (1, "would-write", [])
    already = f"{directory / 'openvino_model.xml'} already has this annotation; "
    assert cli(*call, "--dry-run").out.endswith(f"{already}would write {tmp_path / 'out'}\n")
    assert not (tmp_path / "out").exists()
    assert f"{already}wrote {tmp_path / 'out'}; weights " in cli(*call).out
    assert content(tmp_path / "out") == content(directory)
    done = cli("annotate", directory, "--output-dir", tmp_path / "json", "--format", "json")
    assert (done.code, model(done)["status"]) == (0, "written")
    assert content(tmp_path / "json") == content(directory)


@pytest.mark.parametrize("name", ["annotate", "strip"])
def test_a_dry_run_refuses_the_directory_that_would_be_refused(
    name: str, llama: Path, tmp_path: Path, cli: Callable[..., Done]
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").touch()
    for options in ((), ("--dry-run",), ("--diff",)):
        done = cli(name, llama, "--output-dir", tmp_path / "out", *options)
        assert done.code == 2
        assert done.err == (
            f"irtools: error: {tmp_path / 'out'}: the directory is not empty (it contains file); "
            "give an empty or new one\n"
        )


def test_strip_says_that_there_was_no_annotation(llama: Path, tmp_path: Path, cli: Callable[..., Done]) -> None:
    without = f"{llama / 'openvino_model.xml'} has no annotation; "
    assert cli("strip", llama) == Done(0, f"{without}nothing written\n")
    assert cli("strip", llama, "--dry-run") == Done(0, f"{without}nothing written\n")
    out = tmp_path / "out"
    assert cli("strip", llama, "--output-dir", out, "--dry-run") == Done(1, f"{without}would write {out}\n")
    assert f"{without}wrote {out}; weights " in cli("strip", llama, "--output-dir", out).out


def test_several_exports_get_a_subfolder_each(
    export_copy: Callable[..., Path], tmp_path: Path, cli: Callable[..., Done]
) -> None:
    models = [export_copy("llama"), export_copy("llava")]
    done = cli("annotate", *models, "--output-dir", tmp_path / "out")
    assert done.code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["llama", "llava"]
    assert annotation(tmp_path / "out" / "llava" / "openvino_language_model.xml")


def test_exports_of_one_name_clash_before_anything_is_written(
    export_copy: Callable[..., Path], tmp_path: Path, cli: Callable[..., Done]
) -> None:
    models = [export_copy("llama", "a/model"), export_copy("gpt2", "b/model")]
    done = cli("annotate", *models, "--output-dir", tmp_path / "out")
    assert done.code == 2
    assert all(str(path) in done.err for path in models)
    assert not (tmp_path / "out").exists()


def test_the_highest_exit_code_wins_and_all_are_tried(
    llama: Path, differing: Path, fixtures: Path, cli: Callable[..., Done]
) -> None:
    assert cli("annotate", differing, llama).code == 1
    assert annotation(llama / "openvino_model.xml")
    cli("strip", llama)
    done = cli("annotate", fixtures / "bert", differing, llama, "--format", "json")
    assert done.code == 2
    assert [entry["status"] for entry in read(done)["models"]] == ["refused", "differs", "written"]
    assert annotation(llama / "openvino_model.xml")


def test_what_has_no_decoder_stack_is_refused_and_untouched(
    export_copy: Callable[..., Path], cli: Callable[..., Done]
) -> None:
    for name, part in (("bert", "target"), ("qwen3_5_vl", "mtp"), ("qwen3_5_vl", "text_embeddings")):
        directory = export_copy(name, f"{name}-{part}")
        before = content(directory)
        for option in ((), ("--force",)):
            done = cli("annotate", directory, "--part", part, *option)
            assert done.code == 2
            assert done.out == ""
            assert done.err.startswith("irtools: error: ")
            assert done.err.count("\n") == 1
        assert content(directory) == before


def test_without_the_check_openvino_is_not_imported(llama: Path) -> None:
    code = (
        "import sys\nfrom irtools.cli import main\n"
        f"try:\n    main(['annotate', '--no-check', {str(llama)!r}])\n"
        "except SystemExit as end:\n    print(end.code, 'openvino' in sys.modules, 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 False False"
    assert annotation(llama / "openvino_model.xml")


def test_the_check_refuses_what_the_runtime_would(llama: Path, fixtures: Path, cli: Callable[..., Done]) -> None:
    (llama / "openvino_model.bin").write_bytes(b"short")
    before = content(llama)
    done = cli("annotate", llama)
    assert done.code == 2
    assert done.err.startswith("irtools: error: ")
    assert done.err.count("\n") == 1
    assert content(llama) == before
    assert cli("annotate", llama, "--no-check").code == 0


def test_a_replaced_symbolic_link_is_told(llama: Path, tmp_path: Path, cli: Callable[..., Done]) -> None:
    blob = tmp_path / "blob"
    (llama / "openvino_model.xml").rename(blob)
    (llama / "openvino_model.xml").symlink_to(blob)
    before = blob.read_bytes()
    done = cli("annotate", llama)
    assert done.code == 0
    assert "symbolic link" in done.err
    assert blob.read_bytes() == before
    assert not (llama / "openvino_model.xml").is_symlink()


@pytest.mark.parametrize("options", [(), ("--force",), ("--dry-run",)])
def test_a_draft_is_refused(
    cli: Callable[..., Done], export_copy: Callable[..., Path], options: tuple[str, ...]
) -> None:
    directory = export_copy("qwen3_dflash")
    before = content(directory)

    done = cli("annotate", directory, *options)

    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "this is a draft, which reads the hidden states of a target; annotate the target" in done.err
    assert content(directory) == before
