"""Whatever is printed or drawn is harmless: names, tensor names, rt_info, config values, paths and messages."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from irtools.text import printable, shortened, visible
from tests.cli.conftest import Done

Run = Callable[..., Done]
C1, BIDI = "\u009b31m\u0085", "\u202e\u2066\u200f"
HOSTILE = ("::error::pwned", "##[error]pwned", "##vso[task.setvariable]x", "\n::set-env name=a::b", C1, BIDI)
LONG = "n" * 20_000
COMMAND = re.compile(r"^\s*::|##(?:\[|vso\[)", re.MULTILINE)
LONGEST_WORD = 450


def referenced(text: str) -> str:
    """A text as the value of an XML attribute."""
    return "".join(c if c.isalnum() else f"&#{ord(c)};" for c in text)


@pytest.fixture(scope="module")
def hostile(fixtures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export with hostile strings wherever its files have strings; also in its path."""
    directory = tmp_path_factory.mktemp("sinks") / f"ov\x1b[31m{C1}{BIDI}::error::"
    shutil.copytree(fixtures / "falcon", directory)
    text = referenced("".join(HOSTILE))
    for path in directory.glob("*.xml"):
        content = path.read_text()
        names = iter(range(10**6))

        def rename(match: re.Match[str], names=names) -> str:  # type: ignore[no-untyped-def]
            number = next(names)
            head = referenced(HOSTILE[number % len(HOSTILE)])
            return f'{match[1]}"{head}{number if number % 50 else LONG}{match[2]}"'

        content = re.sub(r'(<layer id="\d+" name=)"([^"]*)"', rename, content)
        content = re.sub(r'(precision="FP32" names=)"([^"]*)"', rf'\1"\2,{text}"', content)
        end = content.rindex("</rt_info>")
        content = f'{content[:end]}<hostile value="{text}" /><long value="{LONG}" />{content[end:]}'
        path.write_text(content)
    config = json.loads((directory / "config.json").read_text())
    config |= {
        "transformers_version": "\x1b]0;title\x07" + "".join(HOSTILE),
        "model_type": "\x1b[2J" + "".join(HOSTILE),
    }
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def require_harmless(done: Done, *, own_commands: bool = False) -> None:
    for text in (done.out, done.err):
        strange = {c for c in text if not c.isprintable() and c not in "\n\t"}
        assert not strange, (strange, text[:2000])
        assert not COMMAND.search(text) or own_commands, COMMAND.search(text)


TEXT = (
    ("inspect",),
    ("inspect", "-v"),
    ("inspect", "--part", "tokenizer"),
    ("locate",),
    ("verify", "-v"),
    ("verify", "-q"),
    ("annotate", "--no-check", "--diff"),
    ("extract", "--from", "::error", "--to", "logits", "--dry-run", "-o", "out"),
    ("render", "--layer", "99", "-o", "x.svg"),
    ("expose", "--op", "::error::pwned", "--dry-run"),
)


@pytest.mark.parametrize("arguments", TEXT, ids=lambda arguments: "-".join(arguments[:2]))
def test_text(
    run: Run, hostile: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    done = run(*arguments, hostile)
    require_harmless(done)
    if "--diff" not in arguments:
        assert max(map(len, re.findall(r"\S+", done.out + done.err)), default=0) <= LONGEST_WORD


def test_a_comparison(run: Run, hostile: Path, fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_BUILD", "True")
    for form in ("text", "json"):
        require_harmless(run("diff", fixtures / "falcon", hostile, "--format", form))


@pytest.mark.parametrize("form", ["text", "json", "sarif", "junit", "github"])
def test_formats_of_findings(
    run: Run, hostile: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, form: str
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    output = tmp_path / "findings"
    done = run("verify", hostile, "--format", form)
    run("verify", hostile, "--format", form, "--output", output)
    require_harmless(done, own_commands=form == "github")
    require_harmless(Done(0, output.read_text()), own_commands=True)
    if form in ("json", "sarif"):
        assert json.loads(done.out)["version" if form == "sarif" else "command"]
    elif form == "junit":
        assert ElementTree.fromstring(done.out).tag == "testsuites"
    elif form == "github":
        assert all(re.match(r"::(error|warning|notice) [^:]*::[^:\n]", line) for line in done.out.splitlines())


def test_pictures_and_pages(run: Run, hostile: Path, tmp_path: Path) -> None:
    pytest.importorskip("pygraphviz")
    for form in ("dot", "svg", "pdf"):
        output = tmp_path / f"picture.{form}"
        run("render", hostile, "--full", "-o", output, codes=(0,))
        assert output.stat().st_size > 1000
        if form != "pdf":
            text = output.read_text("utf-8")
            assert {c for c in text if not c.isprintable()} <= {"\n", "\t", "\u00a0"}
            assert max(map(len, re.findall("n+", text))) < 1000
        if form == "svg":
            width = float(ElementTree.fromstring(text).attrib["width"].removesuffix("pt"))
            assert width < 20_000
    for command in ("report", "render"):
        run(command, hostile, "-o", tmp_path / "page.html", codes=(0,))
        page = (tmp_path / "page.html").read_text("utf-8")
        body = page.partition("<body")[2].partition("<script")[0]
        assert not {c for c in body if not c.isprintable()} - {"\n", "\t"}
        assert max(map(len, re.findall("n+", body))) < 1000


@pytest.mark.parametrize("form", ["text", "json", "csv", "markdown"])
def test_an_atlas(run: Run, hostile: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    done = run("atlas", hostile, "--format", form)
    require_harmless(done)
    assert "falcon" not in done.out, "the hostile name of the family is there"
    assert max(map(len, re.findall("n+", done.out)), default=0) < 1000
    if form == "csv":
        cells = [cell for row in csv.reader(io.StringIO(done.out)) for cell in row]
        assert not [cell for cell in cells if cell[:1] in "=+@" and cell]
    elif form == "json":
        assert json.loads(done.out)["command"] == "atlas"


def test_the_page_of_an_atlas(run: Run, hostile: Path, tmp_path: Path) -> None:
    """Its rows are JSON in a script, which may not end it."""
    run("atlas", hostile, "-o", tmp_path / "page.html", codes=(0,))
    page = (tmp_path / "page.html").read_text("utf-8")
    body = page.partition("<body")[2]
    assert not {c for c in body if not c.isprintable()} - {"\n", "\t"}
    assert not COMMAND.search(body)
    assert max(map(len, re.findall("n+", body))) < 1000


def test_the_runner_is_only_told_what_it_would_obey() -> None:
    for text in (" \t::add-mask::x", "\u3000::x", "a ##[b", "##vso[c"):
        assert COMMAND.search(text)
        for form in ("text", "json", "html", "xml"):
            assert not COMMAND.search(printable(text, form, runner=True))
    assert printable("aten::add ## [x]", runner=True) == "aten::add ## [x]"
    assert printable("::error file=x::y\n", "github", runner=True) == "::error file=x::y\n"


def test_colours_stay_and_nothing_else() -> None:
    assert printable("\x1b[1;31merror\x1b[0m\x1b[2J", styled=True) == "\x1b[1;31merror\x1b[0m\\x1b[2J"
    assert printable("\x1b[31mx") == "\\x1b[31mx"
    assert printable("a\r\nb\rc\n") == "a\r\nb\\rc\n"
    assert visible(BIDI).isascii()
    assert json.loads(printable('"\x7f"', "json")) == "\x7f"


def test_long_words_are_cut_in_the_middle() -> None:
    assert len(shortened(LONG)) <= 400
    assert shortened(f"a {LONG} z").startswith("a nnn")
    assert len(shortened("a b " * 10_000)) <= 4000
    assert shortened("short name") == "short name"
