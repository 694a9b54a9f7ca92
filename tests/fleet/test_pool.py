"""Units of work in processes: results, deaths, timeouts, interrupts."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from irtools.errors import OptionError
from irtools.fleet import Outcome, run
from irtools.fleet.order import InOrder
from tests.fleet.units import sizes, worker_of
from tests.in_process import collected_later

Paths = Callable[..., list[str]]


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """Make directories with a file, whose names say what the unit does."""

    def make(*names: str) -> list[str]:
        made = []
        for number, name in enumerate(names):
            directory = tmp_path / f"{number}_{name}"
            directory.mkdir()
            (directory / "file").write_bytes(b"x" * number)
            made.append(str(directory))
        return made

    return make


def by_path(outcomes: list[Outcome]) -> dict[str, Outcome]:
    assert sorted(outcome.number for outcome in outcomes) == list(range(len(outcomes)))
    return {Path(outcome.path).name: outcome for outcome in outcomes}


def test_here_an_exception_costs_only_its_path(paths: Paths) -> None:
    outcomes = list(run(sizes, paths("ok", "raise", "ok")))

    assert [outcome.number for outcome in outcomes] == [0, 1, 2]
    assert [outcome.failure for outcome in outcomes] == [None, "ValueError: it does not work", None]
    assert outcomes[2].row["files"] == [["file", 2]]


def test_a_process_that_dies_costs_only_its_path(paths: Paths) -> None:
    done = by_path(list(run(sizes, paths("ok", "kill-once", "raise", "ok", "hang"), jobs=2, timeout=1)))

    assert done["0_ok"].row["here"] == os.getcwd()  # noqa: PTH109
    assert done["3_ok"].row["files"] == [["file", 3]]
    assert done["1_kill-once"].row is not None, "it was tried once more"
    assert done["2_raise"].failure == "ValueError: it does not work"
    assert done["4_hang"].failure == "took longer than 1 s and was stopped"


@pytest.mark.slow
def test_what_kills_its_process_twice_is_reported_once(paths: Paths) -> None:
    done = by_path(list(run(sizes, paths("ok", "die", "slow", "die", "ok"), jobs=2)))

    killed = "its process was killed (SIGKILL), perhaps for lack of memory, and again when it was tried alone"
    assert [done[name].failure for name in done if name.endswith("die")] == [killed, killed]
    assert all(done[name].row for name in done if not name.endswith("die"))


@pytest.mark.slow
def test_work_that_holds_the_interpreter_is_ended(paths: Paths) -> None:
    done = by_path(list(run(sizes, paths("hold", "ok"), jobs=1, timeout=1)))

    assert done["0_hold"].failure == "took longer than 1 s and was stopped"
    assert done["1_ok"].row is not None


@pytest.mark.slow
def test_an_idle_process_that_is_killed_costs_nothing(paths: Paths) -> None:
    outcomes = run(worker_of, paths("a", "b", "c", "d", "e"), jobs=1, timeout=60)
    first = next(outcomes)
    os.kill(first.row, signal.SIGKILL)

    rest = list(outcomes)

    assert [outcome.failure for outcome in rest] == [None] * 4
    assert {outcome.row for outcome in rest}.isdisjoint({first.row})


def test_no_process_stays_when_the_iterator_is_closed(paths: Paths) -> None:
    outcomes = run(worker_of, paths("a", "b", "c"), jobs=2)
    worker = next(outcomes).row
    outcomes.close()
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


@pytest.mark.slow
def test_files_in_the_working_directory_do_not_run(tmp_path: Path) -> None:
    for name in ("multiprocessing", "pebble", "signal", "pickle", "json"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w')")
    code = """
import sys
from irtools.fleet import run
if __name__ == "__main__":
    print([outcome.row for outcome in run(len, ["a", "bb"], jobs=2, timeout=60)])
"""
    script = tmp_path / "elsewhere" / "script.py"
    script.parent.mkdir()
    script.write_text(code)
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert sorted(eval(done.stdout)) == [1, 2]
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_a_script_without_a_guard_gets_an_error_that_says_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import irtools\nprint(list(irtools.verify_many(['a', 'b'], jobs=2)))\n")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "if __name__ == '__main__':" in done.stderr.splitlines()[-1]


def test_paths_are_read_as_the_work_goes_on(paths: Paths) -> None:
    taken: list[str] = []

    def endless() -> object:
        for path in paths(*["ok"] * 20):
            taken.append(path)
            yield path

    outcomes = run(worker_of, endless(), jobs=2)  # type: ignore[arg-type]
    next(outcomes)
    assert len(taken) < 10
    outcomes.close()


def test_cycles_of_a_unit_are_freed_where_collection_is_off(paths: Paths) -> None:
    gc.collect()
    with collected_later():
        gc.disable()
        outcomes = list(run(_cycle, paths("a", "b", "c")))
    assert [outcome.row for outcome in outcomes] == [0, 0, 0]


class _Ring:
    alive = 0

    def __init__(self) -> None:
        self.me = self
        _Ring.alive += 1

    def __del__(self) -> None:
        _Ring.alive -= 1


def _cycle(_path: str) -> int:
    alive = _Ring.alive
    _Ring()
    return alive


def test_rows_of_an_earlier_run_are_taken(paths: Paths) -> None:
    made = paths("ok", "raise", "ok")
    outcomes = list(run(sizes, made, known=lambda path: "kept" if path == made[0] else None))

    assert [(one.number, one.known) for one in sorted(outcomes, key=lambda one: one.number)] == [
        (0, True),
        (1, False),
        (2, False),
    ]


def test_outcomes_come_in_order_as_soon_as_earlier_ones_are_there() -> None:
    order = InOrder()

    def add(number: int) -> list[int]:
        return [one.number for one in order.add(Outcome(number, "", None, None, 0.0))]

    assert [add(1), add(0), add(4), add(2)] == [[], [0, 1], [], [2]]
    assert [one.number for one in order.rest()] == [4]


@pytest.mark.parametrize("name", ["verify_many", "atlas"])
def test_numbers_with_which_nothing_would_be_done_are_refused(fixtures: Path, name: str) -> None:
    import irtools

    for wrong, message in (({"jobs": 0}, "jobs is 0"), ({"timeout": 0}, "timeout is 0"), ({"timeout": -1}, "is -1")):
        with pytest.raises(OptionError, match=message):
            getattr(irtools, name)([fixtures / "bert"], **wrong)
