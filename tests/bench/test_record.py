import json

import jsonschema
import pytest
from examples import Machine, example_record

from irtools.bench.figures import Row, row_figures
from irtools.bench.record import schema
from irtools.bench.run import gates
from irtools.bench.samples import Attempt, Contender
from irtools.report.bench import bench_text
from irtools.report.terminal import Style


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
