"""The intervals and decisions, in a runtime with known times whose passes vary as recorded ones did."""

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from irtools.bench.decision import decide, row_decision
from irtools.bench.figures import Row, acceptance, break_even, by_position, row_figures, speed_ups
from irtools.bench.intervals import Estimate, figure, quantile
from irtools.bench.intervals import ratios as ratios_of
from irtools.bench.samples import Attempt, PromptRun
from irtools.bench.workload import Prompt
from tests.bench.examples import Machine, contenders, recorded

PROMPTS = tuple(Prompt("code", str(number)) for number in range(9))


def draw(noise, chance, speed_up, numbers=(1,), repeat=5, rate=0.7):
    """Rows in a machine where each number of assistant tokens has this speed-up."""
    machine = Machine(draft=0, verify=0, acceptance={"code": rate}, processes=noise, rounds=3, chance=chance)
    rows = []
    for one in contenders(Path("export"), numbers):
        drafts = one.assistant_tokens
        machine.plain = 0.001 * (machine.tokens("code", drafts) / speed_up if drafts else 1)
        rows.append(Row(one, tuple(machine.attempt(one, number, PROMPTS) for number in range(repeat))))
    return rows


def test_the_quantiles_are_those_of_the_tables():
    known = {(0.975, 1): 12.706, (0.975, 2): 4.303, (0.95, 3): 2.353, (0.995, 4): 4.604, (0.975, 30): 2.042}
    assert {key: round(quantile(*key), 3) for key in known} == known


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["quiet", "busy"])
@pytest.mark.parametrize(("speed_up", "expected"), [(1.3, "on"), (0.8, "off")])
@pytest.mark.parametrize("numbers", [(1,), (1, 2, 3)], ids=["one row", "three rows"])
def test_a_clear_speed_up_is_decided_and_its_interval_covers_it(noise, speed_up, expected, numbers):
    processes, chance = recorded(noise), random.Random(7)
    decided, covered = [], 0
    for _ in range(100):
        rows = draw(processes, chance, speed_up, numbers)
        ratios = speed_ups(rows, rows[0])
        figure = ratios["mtp 1"].figure()
        covered += figure.low <= speed_up <= figure.high
        decided.append(decide(ratios).decision)
    assert covered >= 90
    assert decided.count(expected) >= 95
    assert set(decided) <= {expected, "undecided"}


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["quiet", "busy"])
def test_no_row_is_chosen_and_none_looks_faster_where_all_are_as_fast_as_plain_decoding(noise):
    processes, chance = recorded(noise), random.Random(8)
    results = []
    for _ in range(60):
        rows = draw(processes, chance, 1.0, (1, 2, 3, 4, 5))
        results.append(decide(speed_ups(rows, rows[0])))
    assert sum(one.decision != "undecided" for one in results) <= 3
    center = sum(math.log(one.speed_up.median) for one in results) / len(results)
    assert abs(center) < 0.03


def test_the_figures_are_those_of_the_simulated_runtime():
    machine = Machine(acceptance={"code": 0.8}, processes=[[[1.0]]], chance=random.Random(3))
    prompts = [Prompt("code", str(number)) for number in range(40)]
    rows = [
        Row(one, tuple(machine.attempt(one, number, prompts) for number in range(5)))
        for one in contenders(Path("export"), (2,))
    ]
    plain, drafted = rows
    assert row_figures(plain)["tokens_per_second"].median == pytest.approx(1 / 0.020)
    assert row_figures(plain)["time_per_token"].median == pytest.approx(0.020)
    figures = row_figures(drafted)
    tokens = 1 + 0.8 + 0.8**2
    assert figures["tokens_per_pass"].median == pytest.approx(tokens, rel=0.05)
    assert figures["time_per_token"].median == pytest.approx(0.026 / tokens, rel=0.05)
    assert figures["acceptance"].low <= (0.8 + 0.64) / 2 <= figures["acceptance"].high
    # A pass that is 1.3 times as long, with two drafts, breaks even at 15 % of them.
    assert break_even(drafted, plain) == pytest.approx(0.15, abs=0.01)
    first, second = by_position(drafted)
    assert first.low <= 0.8 <= first.high
    assert second.low <= 0.64 <= second.high
    assert figures["draft_share"].median == pytest.approx(2 * 0.002 / 0.026, rel=0.05)
    assert figures["cpu"].median == pytest.approx(1.8)
    assert acceptance(plain) is None


def test_the_interval_of_a_share_is_the_published_one():
    """Wilson's interval of 81 of 263: Newcombe 1998, "Interval estimation for the single proportion", table I."""
    tokens = (*(1,) * 182, *(2,) * 81)
    run = PromptRun(0, 9, 0.1, 0.5, 0.1, 0.1, 0.5, (0.01,) * 263, tokens, 81, 263)
    row = Row(contenders(Path("export"), (1,))[1], (Attempt(0, "ran", runs=(run,)),))
    (first,) = by_position(row)
    assert (round(first.low, 4), round(first.high, 4)) == (0.2553, 0.3662)


def test_the_interval_of_the_acceptance_covers_it_in_95_of_100_cases():
    chance, covered = random.Random(11), 0
    machine = Machine(acceptance={"code": 0.7}, processes=[[[1.0]]], chance=chance)
    one = contenders(Path("export"), (2,))[1]
    for _ in range(200):
        found = acceptance(Row(one, (machine.attempt(one, 0, PROMPTS),)))
        covered += found.low <= (0.7 + 0.7**2) / 2 <= found.high
    assert 180 <= covered < 200


def test_one_repetition_decides_nothing():
    rows = draw([[[1.0]]], random.Random(1), 5.0, repeat=1)
    assert decide(speed_ups(rows, rows[0])).decision == "undecided"


def test_two_repetitions_of_a_row_decide_nothing_about_it():
    rows = draw([[[1.0]]], random.Random(1), 1.5, (1, 2))
    short = [*rows[:2], replace(rows[2], attempts=rows[2].attempts[:2])]
    ratios = speed_ups(short, rows[0])
    assert row_decision(ratios["mtp 2"]) == "undecided"
    assert row_decision(ratios["mtp 1"]) == "on"
    assert decide(ratios).row == "mtp 1"
    assert decide({"mtp 2": ratios["mtp 2"]}).decision == "undecided"


def test_rows_share_the_error_of_a_repetition():
    """Two rows of which one happened to vary less: both get the mean of the variances, with all degrees of freedom."""
    before, after = Estimate(0.0, 0.0004, 4), Estimate(math.log(0.5), 0.0012, 4)
    ratio = ratios_of(before, {"a row": after})["a row"]
    assert ratio.estimate.variance == pytest.approx(2 * 0.0008)
    assert ratio.estimate.freedom == 8
    assert ratio.figure().median == pytest.approx(2)


def test_one_repetition_gives_no_interval():
    assert figure([3.0], "s").to_json() == {"median": 3.0, "low": 0.0, "high": None, "unit": "s"}


def test_the_interval_of_a_median_is_that_of_the_t_test():
    """Logarithms -1, 0, 1 have the standard error 1/sqrt(3), and t is 4.303 at 2 degrees of freedom."""
    found = figure([1 / math.e, 1.0, math.e], "s")
    ends = [math.log(found.low), math.log(found.median), math.log(found.high)]
    assert ends == pytest.approx([-4.303 / math.sqrt(3), 0, 4.303 / math.sqrt(3)], abs=1e-3)


def test_the_shorter_passes_at_the_end_do_not_make_drafting_look_slower():
    """Of eight tokens, three a pass, the last pass drafts only one."""
    run = PromptRun(0, 9, 0.1, 0.5, 0.1, 0.1, 0.5, (0.03, 0.03, 0.02), (3, 3, 2))
    assert run.steady_passes(2) == (0.03,)
    assert run.steady_tokens(2) == (2, 6)


def test_without_a_comparison_nothing_is_decided():
    assert decide({}).decision == "undecided"
