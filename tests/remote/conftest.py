"""The servers that the tests of this folder share, and irtools as a user of them with an empty cache."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Done, cli, process  # noqa: F401
from tests.hostile.conftest import TRACE
from tests.remote.hub_server import STRANGER, TOKEN, Hub
from tests.remote.s3_server import SECRET

SECRETS = (TOKEN, STRANGER, SECRET, "Signature=", "X-Amz-Signature")


@pytest.fixture(scope="session")
def _hub() -> Iterator[Hub]:
    with Hub() as hub:
        yield hub


@pytest.fixture
def hub(_hub: Hub) -> Hub:
    """A hub and its CDN without repositories."""
    _hub.clear()
    _hub.repositories.clear()
    return _hub


@pytest.fixture
def served(hub: Hub, fixtures: Path) -> Hub:
    """The hub with the export ``falcon`` as ``org/falcon``."""
    hub.add("org/falcon", fixtures / "falcon")
    return hub


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)


@dataclass
class Look:
    """``irtools`` in this process. No output may have a traceback, a token or a signed address."""

    cli: Callable[..., Done]
    cache: Path

    def __call__(self, *arguments: object, codes: tuple[int, ...] = (0, 1)) -> Done:
        forget()
        done = self.cli(*arguments)
        assert done.code in codes, (arguments, done)
        assert not TRACE.search(done.out + done.err), (arguments, done)
        assert not any(secret in done.out + done.err for secret in SECRETS), (arguments, done)
        return done

    def error(self, *arguments: object) -> str:
        """The one sentence of a command that could not do its work."""
        done = self(*arguments, codes=(2,))
        lines = [line for line in done.err.splitlines() if "error:" in line]
        assert len(lines) == 1, done
        return lines[0]

    def model(self, *arguments: object, codes: tuple[int, ...] = (0, 1)) -> Any:
        """What JSON says of the one model, without its path."""
        text = self(*arguments, "--format", "json", codes=codes).out
        [model] = json.loads(text)["models"]
        return json.loads(json.dumps(model).replace(json.dumps(model["path"])[1:-1], "EXPORT"))


def forget() -> None:
    """Open each URL again, as a new process does."""
    from irtools.errors import failed_transfers
    from irtools.remote import snapshot
    from irtools.remote.meter import METER

    for known in (snapshot._opened, snapshot._roots, snapshot._folders, failed_transfers):
        known.clear()
    METER.__init__()


@pytest.fixture
def look(
    cli: Callable[..., Done],  # noqa: F811
    hub: Hub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Look]:
    """A user of the hub without a token, with an empty cache."""
    from huggingface_hub import constants

    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "ENDPOINT", hub.api.url)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    yield Look(cli, tmp_path / "cache")
    forget()  # another test has named no URL


def told(done: Done) -> tuple[int, int]:
    """Bytes and requests of the last line of standard error."""
    last = done.err.strip().splitlines()[-1]
    found = re.search(r"([\d.,]+) (B|KiB|MiB|GiB)\b.*?([\d,]+) requests?", last)
    assert found, done
    unit = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[found[2]]
    return round(float(found[1].replace(",", "")) * unit), int(found[3].replace(",", ""))
