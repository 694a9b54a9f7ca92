"""Headless Chromium, and pages opened in it from files."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from irtools.export import open_export
from irtools.report.html import render_report

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1400,1000",
)


@dataclass
class Page:
    """A page in the browser."""

    driver: Any

    def open(self, file: Path, fragment: str = "") -> Page:
        self.driver.get("about:blank")
        self.driver.get(f"{file.as_uri()}{fragment}")
        self.wait("document.documentElement.dataset.ready")
        return self

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition: str, *arguments: object, seconds: float = 20) -> Any:
        """Wait until an expression is true, and return its value."""
        end = time.monotonic() + seconds
        while not (value := self.run(f"return {condition}", *arguments)):
            assert time.monotonic() < end, f"never true: {condition}; console: {self.console()}"
            time.sleep(0.02)
        return value

    def console(self) -> list[str]:
        """Messages of the console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def details(self) -> str:
        return str(self.run("return document.getElementById('details').innerText"))

    def labels(self) -> list[str]:
        """Accessible names of the drawn boxes."""
        script = "return [...document.querySelectorAll('#world [data-node]')].map(e => e.getAttribute('aria-label'))"
        return list(self.run(script))

    def current(self) -> str:
        script = "return document.querySelector('#world .current')?.getAttribute('aria-label') ?? ''"
        return str(self.run(script))

    def click(self, label: str) -> None:
        """Click the first box whose accessible name begins with a label, with the real pointer."""
        from selenium.webdriver.common.action_chains import ActionChains

        script = """
            const box = [...document.querySelectorAll('#world [data-node]')]
                .find(e => e.getAttribute('aria-label').startsWith(arguments[0]));
            document.getElementById('picture').scrollIntoView();
            return box && (box.querySelector(':scope > .card') || box.querySelector(':scope > .head'));
        """
        ActionChains(self.driver, duration=20).move_to_element(self.run(script, label)).click().perform()

    def press(self, *keys: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver, duration=0).send_keys(*keys).perform()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Chromium for all tests of a process; the tests are skipped without Chromium."""
    pytest.importorskip("selenium", reason="selenium is not installed: pip install -e '.[dev]'")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("no chromium and chromedriver: run tests/browser/install.sh as root on Debian")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*_FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(chromedriver))
    try:
        yield Page(driver)
    finally:
        driver.quit()


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    """The browser; after each test the console must be empty, and what a page has stored is forgotten."""
    browser.console()
    yield browser
    browser.run("try { localStorage.clear() } catch (error) { /* a page without an origin */ }")
    assert browser.console() == []


@pytest.fixture(scope="session")
def requests(browser: Page) -> Callable[[], list[str]]:
    """URLs requested since the last call, except data URLs."""

    def seen() -> list[str]:
        events = [json.loads(entry["message"])["message"] for entry in browser.driver.get_log("performance")]
        urls = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in urls if not url.startswith("data:")]

    return seen


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory, fixtures: Path) -> Callable[[str], Path]:
    """Report of a fixture, written once."""
    folder = tmp_path_factory.mktemp("reports")

    def write(name: str) -> Path:
        file = folder / f"{name}.html"
        if not file.exists():
            file.write_text(render_report(open_export(fixtures / name)), encoding="utf-8")
        return file

    return write
