"""Pages about records in headless Chromium."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from irtools.export import open_export
from irtools.report.record_files import record_html
from tests.browser.conftest import Page
from tests.report.records import results

pytestmark = pytest.mark.slow

_POINTS = """
    return [...document.querySelectorAll('svg.plot')].map(svg => [
        svg.getAttribute('aria-label'),
        Object.fromEntries([...svg.querySelectorAll('.point')].map(e =>
            [`${e.dataset.series} ${e.dataset.place}`, Number(e.dataset.value)]))])
"""
_RECORD = "return JSON.parse(document.getElementById('record-bench').textContent)"
_CELLS = """
    const table = [...document.querySelectorAll('section.table')].find(e => e.querySelector('h3').innerText == 'Rows');
    const titles = [...table.querySelectorAll('thead th')].map(e => e.innerText);
    return [...table.querySelectorAll('tbody tr')].map(row => Object.fromEntries([...row.cells].map((cell, place) =>
        [titles[place], cell.querySelector('data') ? Number(cell.querySelector('data').value) : cell.innerText])))
"""


@pytest.mark.parametrize("whole", [False, True], ids=["benchmark", "report"])
def test_the_numbers_on_the_page_are_those_of_the_record(
    page: Page, fixtures: Path, tmp_path: Path, requests: Callable[[], list[str]], whole: bool
) -> None:
    """On the page of the benchmark alone, and in the report."""
    made = results(fixtures / "qwen3_5_vl_trained")
    records = {kind: record for entry in made.values() for kind, record in entry.details.items()}
    file = tmp_path / "page.html"
    if whole:
        file.write_text(open_export(fixtures / "qwen3_5_vl_trained").report(**records), encoding="utf-8")  # type: ignore[arg-type]
    else:
        file.write_text(record_html(made["bench"]), encoding="utf-8")
    requests()
    page.driver.get(file.as_uri())

    assert [url for url in requests() if url != "about:blank"] == [file.as_uri()]
    record = page.run(_RECORD)
    assert record == records["bench"]
    rows = {row["name"]: row for row in record["rows"]}
    points = dict(page.run(_POINTS))
    drafting = [row for row in rows.values() if row["assistant_tokens"] and row["status"] == "ran"]
    for title, key in (("Speed-up over plain decoding", "speed_up"), ("Speed", "tokens_per_second")):
        expected = {f"mtp {row['assistant_tokens']}": row["figures"][key]["median"] for row in drafting}
        assert points[title] == expected
    accepted = rows["mtp 3"]["acceptance_by_position"]
    expected = {f"mtp, 3 at a time {place}": figure["median"] for place, figure in enumerate(accepted, 1)}
    assert points["Acceptance by position"] == expected
    ran = [row for row in rows.values() if row["status"] == "ran"]
    assert points["Memory"] == {f"{row['name']} 0": row["figures"]["peak_memory"]["median"] for row in ran}
    cells = {line["row"]: line for line in page.run(_CELLS)}
    assert cells["mtp 8"]["result"] == "crashed"
    for name, row in rows.items():
        if row["figures"]["speed_up"]:
            assert cells[name]["speed-up"] == row["figures"]["speed_up"]["median"]
            assert cells[name]["time to first token"] == row["figures"]["first_token"]["median"]
    drawn = "return [...document.querySelectorAll('svg.plot')].every(e => e.getBoundingClientRect().height > 80)"
    assert page.run(drawn)


def test_a_bar_is_as_high_as_its_interval(page: Page, fixtures: Path, tmp_path: Path) -> None:
    """The places of points on the screen follow the medians."""
    entry = results(fixtures / "qwen3_5_vl_trained")["bench"]
    file = tmp_path / "page.html"
    file.write_text(record_html(entry), encoding="utf-8")
    page.driver.get(file.as_uri())

    places = page.run(
        "return [...document.querySelector('svg.plot').querySelectorAll('.point')].map(e => {"
        "const box = e.getBoundingClientRect(); return [Number(e.dataset.value), box.top + box.height / 2]})"
    )

    (low, bottom), (middle, at), (high, top) = sorted(places)
    assert (bottom - at) / (bottom - top) == pytest.approx((middle - low) / (high - low), abs=0.02)
