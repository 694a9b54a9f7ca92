"""Harness over whole commands, in this process: real exports with mutated files."""

from __future__ import annotations

import contextlib
import hashlib
import io
import random
import re
import shutil
import sys
import tempfile
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from xml.parsers import expat

from irtools.cli import main
from tests.fuzz.case import ROOT, Case
from tests.fuzz.guard import Broken, Watch, bounded
from tests.fuzz.mutate import NUMBERS, TEXTS, mutate
from tests.fuzz.reading import Reader
from tests.in_process import collected_later

sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # it would connect to a network

NAME = "command"
BASES = (
    *("fixtures/falcon", "fixtures/gpt2", "fixtures/qwen3_dflash", "fixtures/qwen3_5_vl_trained", "fixtures/llama"),
    *("fixtures/zoo/hand_mlp3att", "fixtures/zoo/hand_post", "fixtures/zoo/llama_onelayer"),
    *("fixtures/zoo/falcon_mamba", "fixtures/qwen3_5_vl_int4", "fixtures/mixtral", "fixtures/zoo/gpt2_eager"),
    *("fixtures/zoo/whisper", "tests/fuzz/corpus/tiny"),
)
_OTHERS = ("fixtures/falcon", "fixtures/qwen3_5_vl_trained", "fixtures/qwen3_dflash", "fixtures/zoo/hand_post")
_LAYERS = ("0", "all", "last", "0,1", "1-3", "7", "-1", "", "0-", "9" * 40, "a", "0,0", "1-0")
_OPS = ("logits", "input_ids", "__module.transformer/aten::add/Add", "0", "5", "9" * 500, "", "a\nb", "\u202e")
_PARTS = ("target", "mtp", "tokenizer", "text_embeddings", "", "../x", "nothing")
_COMMANDS = (
    *("verify", "verify", "inspect", "locate", "annotate", "annotate", "strip", "expose", "extract", "diff", "render"),
    *("report", "graft", "attach", "roundtrip", "roundtrip"),
)
_WRITES = {"annotate", "strip", "expose", "attach", "graft"}
"""Commands that may change files of the export."""
_LARGEST = 256 << 20
_DEFECT = re.compile(
    r"this is a defect of irtools|not enough memory|the rule \S+ .{1,99} failed:|Traceback \(most recent"
)


def _options(rng: random.Random, command: str) -> list[str]:
    """Options of one command; with ``--no-check``, because the check starts a process."""
    pick = rng.choice
    some = {
        "locate": [["--explain"], ["--part", pick(_PARTS)], []],
        "inspect": [
            *(["--draft", f"{{root}}/{pick(_OTHERS)}"], ["--snippet"], ["--context", "100000"]),
            *(["--part", pick(_PARTS)], []),
        ],
        "annotate": [["--dry-run"], ["--diff"], ["--force"], ["-o", "{out}"], ["--part", pick(_PARTS)], []],
        "strip": [["--dry-run"], ["--diff"], ["-o", "{out}"], []],
        "expose": [["--dry-run"], ["--diff"], ["--remove"], ["--concat", pick(TEXTS)], ["-o", "{out}"], []],
        "extract": [["--stateless"], ["--dry-run"], ["--from", pick(_OPS), "--to", pick(_OPS)], []],
        "graft": [["--vocabulary", pick(("32", "auto", *NUMBERS))], ["--own-head"], ["--remove"], ["--advise"]],
        "attach": [
            *(["--mtp-from", "{root}/fixtures/qwen3_5_vl_trained"], ["--remove"]),
            ["--dry-run", "--mtp-from", "{model}"],
        ],
        "diff": [["--ignore", "names"], ["--part", pick(_PARTS)], ["-o", "{out}.html"], []],
        "render": [
            *(["--layer", pick(("0", "1", "99"))], ["--around", pick(_OPS)], ["--between", pick(_OPS), pick(_OPS)]),
            *(["--full"], ["--pair"], []),
        ],
        "report": [["--draft", f"{{root}}/{pick(_OTHERS)}"], ["--expect-mtp"], ["--part", pick(_PARTS)], []],
        "verify": [
            *(["--fix"], ["--unsafe-fixes", "--diff"], ["--expect-mtp"], ["--draft", f"{{root}}/{pick(_OTHERS)}"]),
            *(["--exit-zero"], ["--expect-compression", "int4_asym"], ["--target-runtime", "2026.1"]),
            *(["--baseline", "{model}/config.json"], [], ["--write-baseline", "{out}.json"]),
            *(["--config", "{model}/irtools.toml"], ["--trust-model-config"], ["-v"]),
        ],
    }[command]
    options = list(pick(some))
    if command in ("expose", "extract") and "--remove" not in options and "--from" not in options:
        options += ["--layers", pick(_LAYERS[:6]) if rng.random() < 0.8 else pick(_LAYERS)]
    if command == "extract":
        options += ["-o", "{out}"]
    elif command == "report":
        options += ["-o", "{out}.html"]
    elif command == "render":
        options += ["-o", "{out}" + pick((".dot", ".dot", ".html", ".svg"))]
    if command in ("annotate", "expose", "extract", "graft", "attach"):
        options += ["--no-check"]
    formats = {"verify": ("text", "json", "sarif", "junit", "github"), "diff": ("text", "json")}
    if "--snippet" not in options and "{out}.html" not in options:
        options += ["--format", pick(formats.get(command, ("text", "text", "json")))]
    return options


class Commands:
    """The target ``command``; the command ``roundtrip`` is to annotate, read with OpenVINO, and strip."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.watch = Watch()
        self.reader = Reader()
        self._number = 0

    def case(self, rng: random.Random) -> Case:
        """A new input."""
        base = rng.choice(BASES)
        command = rng.choice(_COMMANDS)
        case = Case(NAME, base, (), ("roundtrip",))
        if command != "roundtrip":
            arguments = [command, "{model}", *_options(rng, command)]
            if command == "diff":
                arguments.insert(rng.randrange(1, 3), "{root}/" + rng.choice((base, base, *_OTHERS)))
            case = replace(case, arguments=tuple(arguments))
        return self.mutated(rng, case)

    def mutated(self, rng: random.Random, case: Case) -> Case:
        """An input with more edits."""
        files, weights = _files(case.base)
        file = rng.choices(files, weights)[0]
        return replace(case, edits=(*case.edits, *mutate(rng, case.base, file, whole=True)))

    def run(self, case: Case) -> None:
        """Check one input."""
        self._number += 1
        directory = self.scratch / str(self._number)
        directory.mkdir()
        try:
            case.build(directory / "model")
            (directory / "tmp").mkdir()
            tempfile.tempdir = str(directory / "tmp")
            with self.watch.over(directory):
                self._roundtrip(case, directory) if case.arguments == ("roundtrip",) else self._command(case, directory)
            if left := sorted(path.name for path in (directory / "tmp").iterdir()):
                raise Broken(f"it leaves {left[0]} among the temporary files")
        finally:
            tempfile.tempdir = None
            shutil.rmtree(directory, ignore_errors=True)

    def _command(self, case: Case, directory: Path) -> None:
        before = tree(directory / "model")
        places = {"{model}": directory / "model", "{out}": directory / "out", "{root}": ROOT}
        arguments = list(case.arguments)
        for name, place in places.items():  # other braces are part of a mutated value
            arguments = [argument.replace(name, str(place)) for argument in arguments]
        call(arguments, before)
        after = tree(directory / "model")
        written = case.arguments[0] in _WRITES or "--fix" in case.arguments
        for name in sorted(before.keys() | after.keys()):
            if before.get(name) == after.get(name):
                continue
            if not written or "--dry-run" in case.arguments or "--diff" in case.arguments or "-o" in case.arguments:
                raise Broken(f"{case.arguments[0]} changed {name}")
            if name.endswith(".xml") and name in after:
                _still_xml(directory / "model" / name, before, name)
            elif not name.startswith(("openvino_mtp_model", "config.json")):
                raise Broken(f"{case.arguments[0]} changed {name}")

    def _roundtrip(self, case: Case, directory: Path) -> None:
        model = directory / "model"
        targets = [model / name for name in ("openvino_language_model.xml", "openvino_model.xml")]
        target = next((path for path in targets if path.is_file()), None)
        before = tree(model)
        if target is not None and target.stat().st_size > _LARGEST:
            target = None  # no command reads it
        old = target.read_bytes() if target is not None else b""
        code, _ = call(["annotate", "--no-check", "-q", str(model)], before)
        if code != 0 or target is None:
            if tree(model) != before:
                raise Broken("annotate failed and changed a file")
            return
        new = target.read_bytes()
        if new == old or b"hidden_states_decoder_layers" in old:
            return
        if self._number % 4 == 0:
            self.watch.scratch = None  # the reader is a process of ours
            after = self.reader.reads(target)
            target.write_bytes(old)
            first = self.reader.reads(target)
            target.write_bytes(new)
            self.watch.scratch = str(directory)
            if after != first:
                raise Broken(f"OpenVINO read the file before annotate: {first}, after: {after}")
        code, _ = call(["strip", "-q", str(model)], before)
        if code != 0 or tree(model) != before:
            raise Broken("strip after annotate does not restore the file")


def _still_xml(path: Path, before: dict[str, str], name: str) -> None:
    try:
        expat.ParserCreate().Parse(path.read_bytes(), True)
    except expat.ExpatError as error:
        raise Broken(f"{name} is no XML after the command: {error}") from None
    if name not in before:
        raise Broken(f"the command left {name}") if "openvino_mtp" not in name else None


def call(arguments: list[str], before: dict[str, str]) -> tuple[int, str]:
    """Run one command with all guards; returns its exit code and output."""
    out, err = io.StringIO(), io.StringIO()
    size = sum(int(entry.split()[1]) for entry in before.values() if entry.startswith("file "))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), bounded(min(size, 4 << 20)):
        try:
            with collected_later():
                main(arguments)
            code: object = 0
        except SystemExit as ended:
            code = ended.code
    text = out.getvalue() + err.getvalue()
    if code not in (0, 1, 2):
        raise Broken(f"exit code {code}")
    text = " ".join(text.split()) if "defect" in text or "failed" in text or "memory" in text else text
    failed = _DEFECT.search(text)
    if failed:
        raise Broken(text[failed.start() : failed.start() + 300])
    if code == 2 and not err.getvalue().strip():
        raise Broken("exit code 2 without a message")
    return int(str(code)), text


def tree(directory: Path) -> dict[str, str]:
    """Kind, size and hash of every file."""
    return {str(path.relative_to(directory)): _entry(path) for path in sorted(directory.rglob("*"))}


def _entry(path: Path) -> str:
    if path.is_symlink():
        return f"link {path.readlink()}"
    if not path.is_file():
        return "other"
    size = path.stat().st_size
    return f"file {min(size, 1 << 30)} {hashlib.sha256(path.read_bytes()).hexdigest() if size < 1 << 24 else size}"


@lru_cache
def _files(base: str) -> tuple[list[str], list[int]]:
    """Files of an export and how often each is mutated: most often the target."""
    names = sorted(path.name for path in (ROOT / base).iterdir() if path.is_file() and path.name != "truth.json")
    targets = dict.fromkeys(("openvino_model.xml", "openvino_language_model.xml"), 60)
    weight = {**targets, "openvino_mtp_model.xml": 30, "config.json": 20}
    return names, [weight.get(name, 8 if name.endswith((".xml", ".json")) else 2) for name in names]
