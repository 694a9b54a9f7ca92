"""``-v``: every command tells its steps and their times."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from irtools.cli import cli as group
from irtools.timing import hearing, step, steps
from tests.cli.conftest import Done

LINE = re.compile(r"irtools: ( *)(\S.*): \d+\.\d\d s")
COMMANDS = {
    "annotate": "annotate --dry-run falcon",
    "atlas": "atlas falcon",
    "attach": "attach --dry-run qwen3_5_vl --mtp-from qwen3_5_vl_trained --force",
    "diff": "diff falcon falcon",
    "expose": "expose --dry-run falcon --layers 1",
    "extract": "extract falcon --layers 1 -o OUT",
    "graft": "graft --dry-run qwen3_5_vl --vocabulary 64",
    "inspect": "inspect falcon",
    "locate": "locate falcon",
    "render": "render falcon -o OUT.dot",
    "report": "report falcon -o OUT.html",
    "rt-info": "rt-info show falcon",
    "rules": "rules list",
    "serve-config": "serve-config qwen3_5_vl_trained -o OUT",
    "strip": "strip --dry-run falcon",
    "verify": "verify falcon",
}
LONG = {"bench", "prove", "cache", "completion"}
"""Two run models, and tell their steps in their own tests; `cache` reads no export, and the last has no -v."""


def test_no_command_is_forgotten() -> None:
    assert COMMANDS.keys() | LONG == set(group.list_commands(click.Context(group)))


@pytest.mark.parametrize("line", COMMANDS.values(), ids=COMMANDS)
def test_each_command_tells_its_steps(
    line: str, fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Callable[..., Done]
) -> None:
    monkeypatch.chdir(fixtures)
    words = line.replace("OUT", str(tmp_path / "out")).split()
    steps_told = [match for text in cli(*words, "-v").err.splitlines() if (match := LINE.fullmatch(text))]
    assert steps_told
    if words[1] == "falcon" or words[-1] == "falcon":
        assert any("Parsing falcon/openvino_model.xml" in match[2] for match in steps_told)
    assert not LINE.search(cli(*words).err)


def test_a_step_tells_its_time_after_the_steps_in_it() -> None:
    heard: list[tuple[str, float, int]] = []
    with hearing(lambda *told: heard.append(told)), step("whole"):
        with pytest.raises(click.ClickException), step("failed"):
            raise click.ClickException("x")
        with steps() as begin:
            begin("first")
            time.sleep(0.02)
            begin("first")
            begin("second")
            with step("in it"):
                pass
        with step("too short", least=10):
            pass
    assert [(name, depth) for name, _, depth in heard] == [
        ("failed", 1),
        ("first", 1),
        ("in it", 2),
        ("second", 1),
        ("whole", 0),
    ]
    assert heard[1][1] >= 0.02
    assert heard[-1][1] >= heard[1][1]
