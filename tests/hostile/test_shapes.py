"""Every command ends with a result or one sentence on hostile IRs, in time that grows with the file only."""

from __future__ import annotations

import time
from pathlib import Path

import openvino as ov
import pytest
from click.testing import CliRunner

import irtools
from irtools.cli import cli
from irtools.errors import InvalidIRError, IrtoolsError
from irtools.model.document import Document
from tests.hostile.shapes import ALL, circle, ported, spliced, write

COMMANDS = (
    ("locate",),
    ("inspect",),
    ("annotate", "--no-check", "--dry-run"),
    ("strip", "--no-check", "--dry-run"),
    ("expose", "--no-check", "--dry-run", "--layers", "all"),
    ("render", "-o", "x.dot"),
    ("report", "-o", "x.html"),
    ("verify", "--format", "html"),
)


def ended(*arguments: str | Path) -> str:
    """Output of a command, which ends with a documented exit code and no traceback."""
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if not isinstance(done.exception, IrtoolsError):  # the entry point prints these
        assert done.exception is None or isinstance(done.exception, SystemExit), arguments
        assert done.exit_code in (0, 1, 2), done.output
    assert " failed: " not in done.output
    return done.output


@pytest.mark.parametrize("shape", ALL)
def test_a_hostile_graph_is_verified(shape: str, tmp_path: Path) -> None:
    output = ended("verify", write(ALL[shape](70), tmp_path / "model"))
    assert len(output) < 20_000


@pytest.mark.slow
@pytest.mark.parametrize("shape", ALL)
def test_a_hostile_graph_ends_every_command(shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    directory = write(ALL[shape](70), tmp_path / "model")
    for command in COMMANDS:
        ended(*command, directory)
    ended("diff", directory, directory)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ALL)
def test_time_grows_with_the_file(shape: str, tmp_path: Path) -> None:
    """Four times the size takes four times the time; quadratic work would take sixteen times."""
    times = []
    for size in (1000, 4000):
        directory = write(ALL[shape](size), tmp_path / str(size))
        started = time.process_time()
        ended("verify", "-q", directory)
        ended("locate", directory)
        times.append(time.process_time() - started)
    assert times[1] < 8 * max(times[0], 0.3)


@pytest.mark.parametrize("kind", ["MatMul", "Add", "Reshape", "Gather", "Parameter", "Result", "MVN", "ReadValue"])
@pytest.mark.parametrize("side", ["input", "output"])
def test_ops_without_ports_are_refused_by_name(kind: str, side: str, tmp_path: Path) -> None:
    xml = ported(kind, side, 9)
    directory = write(xml, tmp_path / "model")
    output = ended("locate", directory)
    needless = {("Parameter", "input"), ("ReadValue", "input"), ("Result", "output")}
    if (kind, side) not in needless:
        assert "`irtools verify` lists the faults" in output
        with pytest.raises(RuntimeError):
            ov.Core().read_model(directory / "openvino_model.xml")
    ended("verify", directory)


@pytest.mark.parametrize("kind", ["Convert", "Relu"])
def test_a_circle_is_refused_before_it_is_walked(kind: str) -> None:
    with pytest.raises(InvalidIRError, match="is in a cycle: it depends on its own output"):
        _ = Document("x.xml", circle(3, kind).encode()).graph


def test_reversed_constants_are_found() -> None:
    graph = Document("x.xml", ALL["reversed-constants"](500).encode()).graph
    assert len(graph.constants) == 501
    assert graph.topological[:3] == (0, 501, 500)


def test_nested_sums_do_not_recurse(tmp_path: Path) -> None:
    directory = write(spliced(3000, "Add", "MatMul-last", second="Gather"), tmp_path / "model")
    assert len(irtools.open_export(directory).locate().layers) == 4  # as without the sums before the lm_head


def test_the_text_caps_findings_and_the_json_does_not(tmp_path: Path) -> None:
    directory = write(ALL["dangling"](300), tmp_path / "model")
    assert "and 590 more" in ended("verify", directory)
    assert ended("verify", "--format", "json", directory).count('"IR012"') >= 600
