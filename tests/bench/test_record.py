import json
from dataclasses import replace

import jsonschema
import pytest

from irtools.bench.figures import Row, row_figures
from irtools.bench.record import measured, schema
from irtools.bench.run import gates
from irtools.bench.samples import CRASHED, Attempt, Contender
from irtools.report.bench import bench_text
from irtools.report.terminal import Style
from tests.bench.examples import PROMPTS, Machine, contenders, example_record, rows


@pytest.fixture(scope="module")
def record(fixtures):
    return example_record(fixtures / "qwen3_5_vl_trained")


def test_a_record_is_valid_and_survives_json(record):
    again = json.loads(json.dumps(record, allow_nan=False))
    jsonschema.validate(again, schema(), format_checker=jsonschema.FormatChecker())
    jsonschema.Draft202012Validator.check_schema(schema())


def test_the_figures_of_a_row_follow_from_its_samples(record):
    for row in record["rows"]:
        contender = Contender(row["name"], row["strategy"], row["model"], row["draft"], row["assistant_tokens"])
        again = row_figures(Row(contender, tuple(map(Attempt.from_json, row["samples"]))))
        for name, figure in again.items():
            assert row["figures"][name] == (figure.to_json() if figure else None)


def test_the_policy_follows_the_acceptance_of_each_class(fixtures):
    machine = Machine(draft=0.006, acceptance={"code": 0.95, "prose": 0.9, "chat": 0.05})
    policy = example_record(fixtures / "qwen3_5_vl_trained", machine)["policy"]["classes"]
    assert policy["code"]["decision"] == "on"
    assert policy["code"]["assistant_tokens"] == 3
    assert policy["chat"]["decision"] == "off"
    assert policy["chat"]["assistant_tokens"] == 0


@pytest.mark.parametrize(("speed", "rate", "number"), [(1.2, 0.2, 0), (3.0, 0.2, 1), (3.0, 0.99, 2), (None, None, 0)])
def test_gates(record, speed, rate, number):
    settings = {**record["settings"], "min_speedup": speed, "min_acceptance": rate}
    assert len(gates({**record, "settings": settings})) == number


@pytest.mark.parametrize("width", [60, 80, None])
def test_the_text_begins_with_the_verdict_and_fits(record, width):
    lines = bench_text(record, (), Style(width=width)).splitlines()
    assert lines[0].startswith("on: draft 3 at a time")
    assert any(line.startswith("mtp 8: crashed: the process ended") for line in lines)
    if width is not None:
        assert max(map(len, lines)) <= width


def test_a_temporary_copy_is_recorded_by_its_recipe(fixtures, tmp_path):
    recipe = "graft 128 of MODEL"
    plain = Contender("plain", "plain", fixtures / "qwen3_5_vl_trained")
    copies = [
        Contender("graft 128 plain", "plain", tmp_path, copy="a draft head", recipe=recipe),
        Contender("graft 128 mtp 1", "mtp", tmp_path, tmp_path, 1, copy="a draft head", recipe=recipe),
    ]
    machine = Machine()
    rows = [Row(one, tuple(machine.attempt(one, n, PROMPTS) for n in range(5))) for one in (plain, *copies)]
    made = measured(rows, PROMPTS)
    assert str(tmp_path) not in json.dumps(made)
    assert made["rows"][2]["draft"] == made["recommendation"]["draft"] == recipe


def test_a_row_that_failed_is_not_recommended(fixtures):
    machine = Machine()
    model = fixtures / "qwen3_5_vl_trained"
    plain, slow, fast = (
        Row(one, tuple(machine.attempt(one, n, PROMPTS) for n in range(5))) for one in contenders(model, (1, 3))
    )
    failing = replace(fast, attempts=(*fast.attempts[:4], Attempt(4, CRASHED, "SIGSEGV")))
    assert measured([plain, slow, fast], PROMPTS)["recommendation"]["row"] == "mtp 3"
    assert measured([plain, slow, failing], PROMPTS)["recommendation"]["row"] == "mtp 1"


def test_a_speed_up_above_the_tokens_per_pass_is_an_error_of_measurement(record, fixtures):
    """A pass that drafts and verifies also computes what a plain pass computes."""
    model = fixtures / "qwen3_5_vl_trained"
    disturbed, calm = Machine(plain=0.2), Machine()
    rows = [
        Row(one, tuple((calm if one.draft else disturbed).attempt(one, n, PROMPTS) for n in range(5)))
        for one in contenders(model, (2,))
    ]
    made = {**record, **measured(rows, PROMPTS)}
    found = made["rows"][1]
    assert found["figures"]["speed_up"]["low"] > 3 > found["figures"]["tokens_per_pass"]["high"]
    decisions = (found["decision"], made["recommendation"]["decision"], made["policy"]["default"]["measured"])
    assert set(decisions) == {"undecided"}
    assert "tokens per pass allow, so other work disturbed the runs" in bench_text(made, (), Style())
    other = Row(replace(rows[1].contender, model=fixtures / "falcon"), rows[1].attempts)
    assert measured([rows[0], other], PROMPTS)["recommendation"]["decision"] == "on", "another target may be faster"


@pytest.mark.parametrize("repeat", [1, 2])
def test_rows_with_too_few_repetitions_say_so(record, fixtures, repeat):
    few = {**record, **measured(rows(Machine(), fixtures / "qwen3_5_vl_trained", repeat=repeat), PROMPTS)}
    text = bench_text(few, (), Style())
    assert "undecided: the fastest row" in text
    assert f"plain, mtp 1, mtp 2, mtp 3: {repeat} repetition" in text
    assert "too few to decide; give --repeat 5" in text
    assert {row["repetitions"] for row in few["rows"]} == {repeat}
