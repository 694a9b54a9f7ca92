"""``irtools diff``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from irtools.report.json import schema
from tests.cli.conftest import Done
from tests.compare.scramble import scramble

Cli = Callable[..., Done]
Copy = Callable[..., Path]


def read(text: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text)
    jsonschema.Draft202012Validator(schema()).validate(document)
    assert document["command"] == "diff"
    (model,) = document["models"]
    return dict(model)


def test_equal_exports_are_one_word_and_exit_with_0(fixtures: Path, export_copy: Copy, cli: Cli) -> None:
    done = cli("diff", fixtures / "falcon", export_copy("falcon"))
    assert done.code == 0
    first, *sides = done.out.splitlines()
    assert first == "equal"
    assert [side[:3] for side in sides] == ["a  ", "b  "]


def test_precisions_of_one_checkpoint_fit_a_screen(fixtures: Path, terminal: Cli) -> None:
    done = terminal("diff", fixtures / "zoo/llama_int8", fixtures / "zoo/llama_int4", "--part", "target", width=80)
    assert done.code == 1
    lines = done.out.splitlines()
    assert len(lines) <= 24
    assert all(len(re.sub(r"\x1b\[[\d;]*m", "", line)) <= 80 for line in lines)
    assert re.sub(r"\x1b\[[\d;]*m", "", lines[0]) == (
        "weights: u8 asymmetric -> u4 asymmetric (28); everything else is equal"
    )


def test_stripped_says_annotation_and_nothing_else(fixtures: Path, export_copy: Copy, cli: Cli) -> None:
    copy = export_copy("qwen3")
    assert cli("strip", copy, "-q").code == 0
    done = cli("diff", fixtures / "qwen3", copy)
    assert done.code == 1
    assert done.out.splitlines()[0] == "only a is annotated (4 layers); everything else is equal"
    assert "__module.model.layers.2/aten::add/Add_1, output 0" in done.out
    assert cli("diff", fixtures / "qwen3", copy, "--ignore", "annotation").code == 0


def test_renamed_says_so_in_one_line(fixtures: Path, export_copy: Copy, cli: Cli) -> None:
    copy = export_copy("llama")
    scramble(copy / "openvino_model.xml")
    done = cli("diff", fixtures / "llama", copy)
    assert done.code == 1
    assert done.out.splitlines()[0] == "only names differ (329); the graphs are equal"
    assert done.out.count("different names") == 1
    assert cli("diff", fixtures / "llama", copy, "--ignore", "names").code == 0
    assert cli("diff", fixtures / "llama", copy, "--ignore", "weights, names").code == 0


def test_json_lists_every_op(fixtures: Path, cli: Cli) -> None:
    done = cli("diff", fixtures / "qwen3", fixtures / "zoo/qwen3_stateless", "--part", "target", "--format", "json")
    model = read(done.out)
    assert (done.code, model["status"], model["equal"]) == (1, "differs", False)
    (part,) = model["parts"]
    assert part["layers"] == {"a": 4, "b": 4}
    removed = [op["name"] for region in part["regions"] for op in region["removed"] if op["type"] == "ReadValue"]
    text = (fixtures / "qwen3" / "openvino_model.xml").read_text()
    assert sorted(removed) == sorted(re.findall(r'name="([^"]*)" type="ReadValue"', text))
    assert sum(model["differences"].values()) == sum(sum(part["differences"].values()) for part in model["parts"])


class Text(HTMLParser):
    """Visible text, tags and external references."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.tags: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loaded += [value or "" for key, value in attrs if key in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_html_is_one_file_and_escapes_names(fixtures: Path, export_copy: Copy, cli: Cli, tmp_path: Path) -> None:
    copy = export_copy("qwen3")
    path = copy / "openvino_model.xml"
    hostile = "&lt;img src=x onerror=alert(1)&gt;"
    path.write_text(path.read_text().replace("<rt_info>\n\t\t<", f'<rt_info>\n\t\t<evil value="{hostile}"/><', 1))
    done = cli("diff", fixtures / "qwen3", copy, "--output", tmp_path / "out.html")
    assert (done.code, done.out) == (1, "")
    page = Text()
    page.feed((tmp_path / "out.html").read_text("utf-8"))
    assert "img" not in page.tags
    assert page.loaded == ["data:,"]
    assert "<img src=x onerror=alert(1)>" in "".join(page.text)


def test_the_suffix_says_the_format_unless_one_is_given(fixtures: Path, cli: Cli, tmp_path: Path) -> None:
    pair = ("diff", fixtures / "falcon", fixtures / "falcon")
    cli(*pair, "--output", tmp_path / "x.json")
    assert read((tmp_path / "x.json").read_text())["equal"] is True
    cli(*pair, "--output", tmp_path / "y.json", "--format", "text")
    assert (tmp_path / "y.json").read_text().startswith("equal\n")
    assert cli(*pair, "--format", "html").out.startswith("<!doctype html>")


def test_two_files_are_taken(fixtures: Path, export_copy: Copy, cli: Cli) -> None:
    copy = export_copy("falcon")
    other = (copy / "openvino_model.xml").rename(copy / "other.xml")
    (copy / "openvino_model.bin").rename(copy / "other.bin")
    assert cli("diff", fixtures / "falcon" / "openvino_model.xml", other).code == 0
    assert cli("diff", fixtures / "falcon", other).code == 0


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_cannot_be_compared_exits_with_2(form: str, fixtures: Path, export_copy: Copy, cli: Cli) -> None:
    copy = export_copy("qwen3_5_vl")
    (copy / "openvino_mtp_model.xml").write_text("<net")
    broken = cli("diff", fixtures / "qwen3_5_vl", copy, "--format", form)
    assert broken.code == 2
    assert "openvino_mtp_model.xml" in broken.err
    missing = cli("diff", fixtures / "falcon", copy / "nothing", "--format", form)
    assert missing.code == 2
    assert "no such file or directory" in missing.err
    unknown = cli("diff", fixtures / "falcon", copy, "--ignore", "weigths", "--format", form)
    assert unknown.code == 2
    assert "'weights'" in unknown.err
    for done in (broken, missing, unknown):
        assert "Traceback" not in done.err
        if form == "json":
            assert read(done.out)["status"] == "failed"


def test_output_that_cannot_be_written_exits_with_2(fixtures: Path, cli: Cli, tmp_path: Path) -> None:
    done = cli("diff", fixtures / "falcon", fixtures / "falcon", "--output", tmp_path / "no" / "x.txt")
    assert done.code == 2
    reason = "cannot be written: no such file or directory; create its directory first"
    assert done.err == f"irtools: error: {tmp_path / 'no' / 'x.txt'}: {reason}\n"


def test_quiet_prints_nothing_but_the_exit_code(fixtures: Path, cli: Cli) -> None:
    done = cli("diff", fixtures / "llama", fixtures / "gpt2", "-q")
    assert (done.code, done.out, done.err) == (1, "", "")
