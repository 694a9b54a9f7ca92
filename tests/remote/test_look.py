"""A look at an export on the hub: the findings of the disk, few bytes, the cache, the token, and the errors."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.remote.conftest import Look, told
from tests.remote.http_server import fail, first
from tests.remote.hub_server import STRANGER, TOKEN, Hub, environment

WEIGHTS = 500_000  # bytes of the weights of one export that may be read
PACKED = Path(__file__).parents[2] / "fixtures" / "packed"
LARGE = ("scale", "qwen3_5_vl_trained_wide", "qwen3_5_vl_trained")  # their kinds are among the others
EXPORTS = sorted(name for path in PACKED.glob("*.tar.xz") if (name := path.name.partition(".")[0]) not in LARGE)


def weights_sent(hub: Hub) -> int:
    return hub.cdn.sent()


def test_findings_are_those_on_the_disk(served: Hub, look: Look, fixtures: Path) -> None:
    local = look.model("verify", fixtures / "falcon")
    assert look.model("verify", "hf://org/falcon") == local
    assert local["findings"]


def test_last_line_is_what_the_servers_sent(served: Hub, look: Look) -> None:
    done = look("verify", "hf://org/falcon")
    sent, requests = told(done)
    assert requests == len(served.requests)
    assert abs(sent - served.sent()) <= max(0.06 * served.sent(), 50)
    assert 0 < weights_sent(served) <= WEIGHTS


def test_second_look_asks_only_for_the_revision(served: Hub, look: Look) -> None:
    first_look = look("verify", "hf://org/falcon")
    served.clear()
    again = look("verify", "hf://org/falcon")
    assert again.out == first_look.out
    assert not served.cdn.requests
    assert [asked.segments[:2] for asked in served.api.requests] == [["api", "models"]]
    served.clear()
    sha = served.repositories["org/falcon"].branches["main"]
    look("verify", f"hf://org/falcon@{sha}")
    assert not served.cdn.requests


@pytest.mark.slow
def test_new_revision_downloads_what_changed(served: Hub, look: Look, fixtures: Path) -> None:
    look("verify", "hf://org/falcon")
    files: dict[str, Any] = {path.name: path for path in (fixtures / "falcon").iterdir()}
    files["config.json"] = (
        (fixtures / "falcon" / "config.json").read_bytes().replace(b'"hidden_size": 32', b'"hidden_size": 48')
    )
    served.commit("org/falcon", files)
    served.clear()
    assert "48" in look("verify", "hf://org/falcon").out
    assert not served.cdn.requests
    assert [asked.segments[-1] for asked in served.api.asked("resolve-cache")] == ["config.json"]


@pytest.mark.slow
def test_offline(served: Hub, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    online = look("verify", "hf://org/falcon")
    served.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert look("verify", "hf://org/falcon").out == online.out
    assert "offline" in look.error("verify", "hf://org/another")
    assert not served.requests


def test_token_goes_to_the_hub_only(served: Hub, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    served.repositories["org/falcon"].access = "private"
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    look("verify", "-v", "hf://org/falcon")
    assert {asked.headers.get("authorization") for asked in served.api.requests} == {f"Bearer {TOKEN}"}
    assert served.cdn.requests
    assert not any("authorization" in asked.headers or TOKEN in asked.target for asked in served.cdn.requests)
    kept = b"".join(path.read_bytes() for path in look.cache.rglob("*.json"))
    assert TOKEN.encode() not in kept
    assert b"Signature" not in kept


@pytest.mark.parametrize(
    ("name", "token", "words"),
    [
        ("org/none", "", "not found"),
        ("org/gated", STRANGER, "gated"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("org/none", TOKEN, "not found"),
                ("org/private", "", "private"),
                ("org/private", STRANGER, "token"),
                ("org/gated", "", "gated"),
                ("org/gated", "hf_notatoken", "token"),
                ("org/disabled", "", "disabled"),
                ("org/falcon@nowhere", "", "no revision 'nowhere'"),
                ("org/falcon/nowhere", "", "nowhere"),
            )
        ),
    ],
)
def test_refusals_are_one_sentence(
    served: Hub, look: Look, monkeypatch: pytest.MonkeyPatch, fixtures: Path, name: str, token: str, words: str
) -> None:
    for access in ("private", "gated"):
        served.add(f"org/{access}", fixtures / "falcon", access=access)
    served.add("org/disabled", fixtures / "falcon", disabled=True)
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    message = look.error("verify", f"hf://{name}")
    assert words in message
    assert f"hf://{name.partition('@')[0].removesuffix('/nowhere')}" in message


@pytest.mark.slow
def test_each_export_has_its_own_error(served: Hub, look: Look) -> None:
    served.add("org/gated", {"openvino_model.xml": b"<net/>"}, access="gated")
    done = look("verify", "hf://org/gated", "hf://org/falcon", "hf://org/none", codes=(2,))
    assert "hf://org/falcon" in done.out
    assert done.err.count("error:") == 2


@pytest.mark.slow
def test_no_network(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    assert "not reachable" in look.error("verify", "hf://org/falcon")


@pytest.mark.slow
def test_change_while_it_is_read(served: Hub, look: Look, fixtures: Path) -> None:
    """The branch moves after the first answer; all files must be those of one commit."""
    other = {path.name: path for path in (fixtures / "llama").iterdir()}
    served.api.fault("/api/models/org/falcon", first(lambda: served.commit("org/falcon", other)), times=1)
    assert look.model("verify", "hf://org/falcon") == look.model("verify", fixtures / "falcon")


@pytest.mark.slow
def test_rate_limit_is_waited_for(served: Hub, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    served.api.fault("resolve", fail(429, Retry_After="7"), times=1)
    look("verify", "hf://org/falcon")
    assert any(7 <= seconds <= 9 for seconds in slept)
    shutil.rmtree(look.cache)
    served.api.fault("resolve", fail(429, Retry_After="7"))
    assert "rate-limited" in look.error("verify", "hf://org/falcon")


@pytest.mark.slow
def test_as_a_process(served: Hub, process: Callable[..., Any], tmp_path: Path, fixtures: Path) -> None:
    """HF_ENDPOINT and HF_TOKEN as huggingface_hub reads them; results on stdout, the count on stderr."""
    served.repositories["org/falcon"].access = "private"
    variables = environment(served, tmp_path / "home", XDG_CACHE_HOME=str(tmp_path / "cache"), HF_TOKEN=TOKEN)
    done = process("verify", "hf://org/falcon", **variables)
    local = process("verify", fixtures / "falcon")
    assert done.out.replace("hf://org/falcon", "X") == local.out.replace(str(fixtures / "falcon"), "X")
    assert done.code == local.code
    assert told(done)[1] == len(served.requests)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTS)
def test_findings_of_all_fixtures(hub: Hub, look: Look, fixtures: Path, name: str) -> None:
    export = fixtures / name
    if not export.is_dir():
        pytest.skip("a folder of several exports")
    hub.add("org/name", export)
    for command in ("verify", "locate", "inspect"):
        codes = (0, 1, 2)
        assert look.model(command, "hf://org/name", codes=codes) == look.model(command, export, codes=codes)
    assert weights_sent(hub) <= WEIGHTS
