"""The order of the rows, and what is kept when one fails."""

import itertools
from pathlib import Path

import pytest

from irtools.bench.samples import CRASHED, HUNG, REFUSED, Attempt
from irtools.bench.schedule import Watcher, schedule
from tests.bench.examples import PROMPTS, Machine, contenders

ROWS = contenders(Path("export"))


def test_rows_are_interleaved_and_follow_different_ones():
    ran = []
    schedule(ROWS, lambda one, number: ran.append((number, one.name)) or Attempt(number, "ran"), repeat=4)
    by_repetition = [[name for _, name in group] for _, group in itertools.groupby(ran, lambda one: one[0])]
    assert [sorted(names) for names in by_repetition] == [sorted(one.name for one in ROWS)] * 4
    assert len({tuple(names) for names in by_repetition}) == 4


@pytest.mark.parametrize("status", [REFUSED, CRASHED, HUNG])
def test_a_failed_row_is_kept_apart(status):
    machine, ran = Machine(), []

    def run(contender, repetition):
        ran.append(contender.name)
        if contender.name == "mtp 2":
            return Attempt(repetition, status, "a reason")
        return machine.attempt(contender, repetition, PROMPTS)

    rows = schedule(ROWS, run, repeat=3).rows
    assert [row.status for row in rows] == ["ran", "ran", status, "ran"]
    assert rows[2].message == "a reason"
    assert ran.count("mtp 2") == 1
    assert [len(row.attempts) for row in rows] == [3, 3, 1, 3]


def test_a_row_that_ran_is_run_again_after_a_crash_but_not_after_a_hang():
    for status, times in ((CRASHED, 4), (HUNG, 2)):
        counts = dict.fromkeys((one.name for one in ROWS), 0)

        def run(contender, repetition, status=status, counts=counts):
            counts[contender.name] += 1
            fails = contender.name == "mtp 1" and repetition == 1
            return Attempt(repetition, status if fails else "ran")

        schedule(ROWS, run, repeat=4)
        assert counts["mtp 1"] == times


def test_an_interrupt_keeps_what_was_measured():
    machine, done = Machine(), []

    def run(contender, repetition):
        if repetition == 1 and contender.name == "mtp 1":
            raise KeyboardInterrupt
        return machine.attempt(contender, repetition, PROMPTS)

    measured = schedule(ROWS, run, repeat=5, watcher=Watcher(done=lambda row, plain: done.append(row)))
    assert measured.interrupted
    assert [len(row.attempts) for row in measured.rows] == [1, 1, 2, 2]


def test_the_watcher_learns_the_row_the_repetition_and_each_finished_row():
    steps, done = [], []
    watcher = Watcher(steps.append, lambda row, plain: done.append(row.contender.name))
    refused = {"mtp 3": Attempt(0, REFUSED, "too many")}
    rows = schedule(ROWS, lambda one, number: Attempt(number, "ran"), repeat=2, refused=refused, watcher=watcher).rows
    assert [(step.row, step.repetition) for step in steps] == [
        ("plain", 1),
        ("mtp 1", 1),
        ("mtp 2", 1),
        ("mtp 2", 2),
        ("mtp 1", 2),
        ("plain", 2),
    ]
    assert steps[0].left is None
    assert steps[1].left is not None
    assert done == ["mtp 2", "mtp 1", "plain"]
    assert rows[3].message == "too many"
