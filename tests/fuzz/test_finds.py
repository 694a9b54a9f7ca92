"""Every input that once broke something; and the fuzzer notices what it is there to notice."""

from __future__ import annotations

import json
import random
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz import guard
from tests.fuzz.__main__ import FINDS, judge
from tests.fuzz.case import WHOLE, Case, Edit, edited
from tests.fuzz.commands import Commands
from tests.fuzz.guard import Broken, Watch
from tests.fuzz.mutate import mutate
from tests.fuzz.targets import TARGETS, Target

TINY = "tests/fuzz/corpus/tiny"
PLAIN = "tests/fuzz/corpus/plain.xml"


def finds() -> list[object]:
    cases = []
    for path in sorted(FINDS.glob("*.json")):
        still = json.loads(path.read_text()).get("open")
        marks = [pytest.mark.xfail(reason=still, run=False)] if still else []
        cases.append(pytest.param(path, id=path.stem, marks=marks))
    return cases


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Commands:
    return Commands(tmp_path_factory.mktemp("inputs"))


@pytest.mark.parametrize("path", finds())
def test_it_breaks_nothing_any_more(path: Path, commands: Commands) -> None:
    case = Case.of_json(path.read_text())
    target = TARGETS.get(case.target, commands)
    assert judge(target, case) == ""


def endless(_: bytes) -> None:
    while True:
        pass


def greedy(_: bytes) -> None:
    bytearray(400 << 20)


def crash(_: bytes) -> None:
    raise IndexError


@pytest.mark.slow
def test_a_crash_a_hang_and_greed_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "SECONDS", 1.5)
    signatures = [judge(Target("x", check, (PLAIN,)), Case("x", PLAIN)) for check in (crash, endless, greedy)]
    assert [signature.split(" ")[0] for signature in signatures] == ["IndexError", "Hang", "broken:"]
    assert "MB for" in signatures[2]
    assert judge(Target("x", lambda _: None, (PLAIN,)), Case("x", PLAIN)) == ""


def outside(directory: Path) -> None:
    (directory.parent / "outside").write_text("x")


def connects(_: Path) -> None:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(("127.0.0.1", 9))


def runs(directory: Path) -> None:
    exec(compile("1", str(directory / "x.py"), "exec"))


def inside(directory: Path) -> None:
    (directory / "inside").write_text("x")


@pytest.mark.parametrize(
    ("action", "broken"),
    [(outside, "writes"), (connects, "connects"), (runs, "runs code"), (inside, "")],
)
def test_files_outside_connections_and_code_are_noticed(
    action: Callable[[Path], None], broken: str, tmp_path: Path
) -> None:
    directory = tmp_path / "scratch"
    directory.mkdir()
    said = ""
    try:
        with Watch().over(directory):
            action(directory)
    except Broken as error:
        said = str(error)
    assert bool(said) == bool(broken)
    assert broken in said


def test_a_command_that_changes_the_export_is_noticed(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(arguments: list[str]) -> None:
        Path(arguments[1], "config.json").write_text("{}")
        raise SystemExit(0)

    case = Case("command", TINY, (), ("verify", "{model}"))
    assert judge(commands, case) == ""
    monkeypatch.setattr("tests.fuzz.commands.main", spoil)
    assert judge(commands, case) == "broken: verify changed config.json"


@pytest.mark.parametrize(
    "said",
    [
        "irtools: error: x: this is a defect of irtools 1.0 (KeyError: 'a' at rules/x.py:3); report it",
        "irtools: error: x: the rule IR001 (some-name) of irtools failed: KeyError: 'a'",
        "irtools: error: x: there is not enough memory; free some",
    ],
)
def test_a_defect_that_a_command_reports_is_noticed(
    said: str, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    def report(_: list[str]) -> None:
        print(said, file=sys.stderr)
        raise SystemExit(2)

    monkeypatch.setattr("tests.fuzz.commands.main", report)
    assert judge(commands, Case("command", TINY, (), ("verify", "{model}"))).startswith("broken: ")


def test_an_input_is_the_same_when_it_is_read_again() -> None:
    case = Case("scan", PLAIN, (Edit("", 3, 5, b"\xff\0"), Edit("", WHOLE, WHOLE, b"crlf")), ("verify", "{model}"))
    assert Case.of_json(case.to_json()) == case
    deep = Case("op", PLAIN, (Edit("", 3, 5, b"<a>" * 3000 + b"x<y>" + b"</a>" * 3000 + b"9" * 5000),))
    assert Case.of_json(deep.to_json()) == deep
    assert len(deep.to_json()) < 400
    assert edited(b"0123456789", [Edit("", 4, 6, b"x"), Edit("", 1, 2, b""), Edit("", 5, 9, b"y")]) == b"023x6789"


@pytest.mark.parametrize("base", [PLAIN, "tests/fuzz/corpus/all.toml", f"{TINY}/config.json"])
def test_a_seed_gives_the_same_inputs(base: str) -> None:
    inputs = [[mutate(random.Random(seed), base, "") for seed in range(40)] for _ in "12"]
    assert inputs[0] == inputs[1]
    assert sum(bool(edits) for edits in inputs[0]) > 30
