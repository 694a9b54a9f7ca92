"""Many exports at URLs: in several processes the same as in one, and a transfer that fails is never a finding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import irtools
from tests.remote.conftest import Look, forget, told
from tests.remote.http_server import fail, wire
from tests.remote.hub_server import Hub, environment


@pytest.fixture
def organisation(served: Hub, fixtures: Path) -> Hub:
    """``org`` with an export, one in a folder, a gated one and a repository without any."""
    served.add("org/nested", {f"int4/{path.name}": path for path in (fixtures / "qwen3_dflash").iterdir()})
    served.add("org/gated", {"openvino_model.xml": b"<net/>"}, access="gated")
    served.add("org/text", {"README.md": b"nothing here"})
    return served


@pytest.mark.slow
def test_processes(organisation: Hub, process: Callable[..., Any], tmp_path: Path) -> None:
    def run(*arguments: str, cache: str) -> Any:
        organisation.api.requests.clear()
        organisation.cdn.requests.clear()
        variables = environment(organisation, tmp_path / "home", XDG_CACHE_HOME=str(tmp_path / cache))
        done = process(*arguments, cwd=tmp_path, **variables)
        assert told(done)[1] == len(organisation.requests)
        return done

    one = run("verify", "hf://org", cache="one")
    several = run("verify", "--jobs", "2", "hf://org", cache="several")
    assert (one.code, several.code) == (2, 2)
    assert "2 exports verified" in one.out
    assert several.out == one.out
    assert several.err.splitlines()[:-1] == one.err.splitlines()[:-1]
    assert "is gated" in one.err
    exports = ("hf://org/falcon", "hf://org/nested/int4")
    offline = run("--offline", "verify", "--jobs", "2", *exports, cache="several")
    assert not organisation.requests
    assert offline.out == one.out
    chart = run("atlas", "hf://org", "-o", "atlas.csv", cache="one")
    assert chart.code == 2
    rows = (tmp_path / "atlas.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows[1:]] == ["hf://org/falcon", "hf://org/gated", "hf://org/nested/int4"]


@pytest.mark.slow
def test_a_process_that_is_ended(served: Hub, process: Callable[..., Any], tmp_path: Path) -> None:
    variables = environment(served, tmp_path / "home", XDG_CACHE_HOME=str(tmp_path / "cache"))
    served.api.fault("", wire(delay=30.0))
    done = process("verify", "--timeout", "0.5", "hf://org/falcon", **variables)
    assert done.code == 2
    assert "hf://org/falcon: took longer" in done.err
    assert done.err.splitlines()[-1].startswith("irtools: at least ")


def test_an_organisation_in_python(organisation: Hub, look: Look) -> None:
    forget()
    charted = list(irtools.atlas("hf://org"))
    assert [row.path for row in charted] == ["hf://org/falcon", "hf://org/gated", "hf://org/nested/int4"]
    assert [row.error is None for row in charted] == [True, False, True]


def test_transfers_that_fail(served: Hub, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that the server does not give are no fault of the export; later it is tried again."""
    monkeypatch.setattr("irtools.remote.http.time.sleep", lambda seconds: None)
    forget()
    served.cdn.fault("", fail(503))
    for _ in range(2):
        (verified,) = irtools.verify_many("hf://org/falcon")
        assert verified.verification is None
        assert "503" in str(verified.error)
        (row,) = irtools.atlas("hf://org/falcon")
        assert "503" in str(row.error)
    asked = len(served.requests)
    served.clear()
    monkeypatch.setattr("irtools.remote.copies._AGAIN_AFTER", 0.0)
    (verified,) = irtools.verify_many("hf://org/falcon")
    assert verified.verification is not None
    assert asked < 50
