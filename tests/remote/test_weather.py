"""Servers and networks that misbehave: the same findings, or one sentence, and never more bytes than the limits."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.remote.conftest import Look
from tests.remote.http_server import Asked, Reply, Server, fail, redirect, wire
from tests.remote.hub_server import TOKEN, Entry, Hub

URL = "hf://org/falcon"
XML = "resolve-cache.*openvino_model.xml"
Change = Callable[[Asked, Reply], Reply]


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Waits between retries take no time; returns their seconds."""
    slept: list[float] = []
    hurry = SimpleNamespace(**vars(time) | {"sleep": slept.append})  # the servers of this process wait as before
    monkeypatch.setattr("irtools.remote.http.time", hurry)
    return slept


def replaced(body: bytes, **headers: str) -> Change:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda asked, reply: Reply(200, {**reply.headers, **named}, body, ranges=False)


PASSING: dict[str, tuple[str, str, Change]] = {
    "cut file": ("api", XML, wire(cut=20_000)),
    "cut twice in the weights": ("cdn", "", wire(cut=10)),
    "503 for the listing": ("api", "/tree/", fail(503)),
    "500 for the model": ("api", "/api/models/org/falcon", fail(500)),
    "502 of the CDN": ("cdn", "", fail(502, b"<html>bad gateway</html>")),
    "429 without Retry-After": ("api", "resolve/", fail(429)),
    "expired signature": ("cdn", "", fail(403, b"<Error><Code>AccessDenied</Code></Error>")),
}


@pytest.mark.parametrize(
    "case", [case if case == "cut file" else pytest.param(case, marks=pytest.mark.slow) for case in PASSING]
)
def test_passing_faults(served: Hub, look: Look, hurried: list[float], fixtures: Path, case: str) -> None:
    side, pattern, change = PASSING[case]
    fault = getattr(served, side).fault(pattern, change, times=1)
    assert look.model("verify", URL) == look.model("verify", fixtures / "falcon")
    assert fault.met > 1 or "CDN" in case or "signature" in case or "weights" in case
    assert fault.met


LASTING: dict[str, tuple[str, str, Change, str]] = {
    "5xx": ("api", "/api/models/org/falcon", fail(503), "503"),
    "cut": ("api", XML, wire(cut=20_000), "openvino_model.xml"),
    "shorter than listed": ("api", XML, replaced(b"<net/>"), "openvino_model.xml"),
    "longer than listed": ("api", XML, replaced(b"<net>" + b" " * 500_000), "openvino_model.xml"),
    "declared shorter": ("api", XML, wire(declared=1000), "openvino_model.xml"),
    "file never ends": ("api", XML, wire(endless=True), "openvino_model.xml"),
    "model never ends": ("api", "/api/models/org/falcon", wire(endless=True), URL),
    "listing never ends": ("api", "/tree/", wire(endless=True), URL),
    "weights never end": ("cdn", "", wire(endless=True, ranges=False), ""),
    "html for json": ("api", "/api/models/", replaced(b"<html>Log in to the wireless network</html>"), "HF_ENDPOINT"),
    "html for the listing": ("api", "/tree/", replaced(b"<html></html>"), "HF_ENDPOINT"),
    "json of another kind": ("api", "/tree/", replaced(b'{"error": 1}'), "HF_ENDPOINT"),
    "deep json": ("api", "/tree/", replaced(b"[" * 100_000), URL),
    "to a file": ("api", "resolve/", redirect("file:///etc/passwd"), "not followed"),
    "to ftp": ("api", "resolve/", redirect("ftp://localhost/x"), "not followed"),
    "to the cloud's own address": ("api", "resolve/", redirect("http://169.254.169.254/latest/"), "internal"),
    "to nothing": ("api", "resolve/", redirect("http://"), "not"),
    "in a circle": ("api", "resolve/", lambda asked, reply: redirect(asked.target)(asked, reply), "redirects"),
}


@pytest.mark.parametrize(
    "case",
    [case if case == "to a file" else pytest.param(case, marks=pytest.mark.slow) for case in LASTING],
)
def test_lasting_faults(
    served: Hub, look: Look, hurried: list[float], monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr("irtools.remote.http._ANSWER", 1 << 20)
    side, pattern, change, words = LASTING[case]
    getattr(served, side).fault(pattern, change)
    if "weights" in case:
        look("verify", URL, codes=(0, 1, 2))
    else:
        assert words in look.error("verify", URL)
    assert served.sent() < 200_000_000
    served.clear()
    assert look("verify", URL).code in (0, 1)  # nothing of the fault is left in the cache


@pytest.mark.slow
def test_compressed_against_the_request(served: Hub, look: Look, hurried: list[float]) -> None:
    """100 MB of spaces in 100 kB."""
    bomb = gzip.compress(b" " * 100_000_000)
    served.api.fault(XML, replaced(bomb, Content_Encoding="gzip"))
    assert "openvino_model.xml" in look.error("verify", URL)


@pytest.mark.slow
@pytest.mark.parametrize("change", [wire(ranges=False), lambda asked, reply: reply], ids=["no ranges", "ranges"])
def test_weights_without_ranges_are_not_downloaded(
    hub: Hub, look: Look, hurried: list[float], fixtures: Path, tmp_path: Path, change: Change
) -> None:
    files = {path.name: path for path in (fixtures / "falcon").iterdir()}
    files["openvino_model.bin"] = tmp_path / "large.bin"
    files["openvino_model.bin"].write_bytes((fixtures / "falcon" / "openvino_model.bin").read_bytes())
    with files["openvino_model.bin"].open("r+b") as file:
        file.truncate(1 << 32)
    hub.add("org/large", files)
    hub.cdn.fault("", change)
    look("verify", "hf://org/large", codes=(0, 1, 2))
    assert hub.cdn.sent() < 20_000_000


@pytest.mark.slow
def test_another_range_than_asked_for(served: Hub, look: Look, hurried: list[float]) -> None:
    def shifted(asked: Asked, reply: Reply) -> Reply:
        asked.headers["range"] = "bytes=1-100"
        return reply

    served.cdn.fault("", shifted)
    done = look("verify", URL, codes=(0, 1, 2))
    assert done.code == 2 or "range" in done.out + done.err


@pytest.mark.slow
def test_other_content_of_the_same_length(served: Hub, look: Look, fixtures: Path) -> None:
    """What a listing says of a file, and what the file is: a whole file is compared with its hash."""
    xml = (fixtures / "falcon" / "openvino_model.xml").read_bytes()
    served.api.fault(XML, replaced(xml.replace(b"Parameter", b"Qarameter")))
    assert "openvino_model.xml" in look.error("verify", URL)


@pytest.mark.slow
def test_other_host_gets_no_token(served: Hub, look: Look, monkeypatch: pytest.MonkeyPatch, fixtures: Path) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    config = (fixtures / "falcon" / "config.json").read_bytes()
    with Server(lambda asked: Reply(200, {}, config), host="localhost") as other:
        served.api.fault("resolve/[^/]*/config.json", redirect(f"{other.url}/config.json"))
        look("verify", URL)
        assert other.requests
        assert not any("authorization" in asked.headers or "cookie" in asked.headers for asked in other.requests)


@pytest.mark.slow
def test_next_page_on_another_host_gets_no_token(served: Hub, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with Server(lambda asked: Reply(200, {}, b"[]"), host="localhost") as other:
        link = {"Link": f'<{other.url}/api/models>; rel="next"'}
        served.api.fault("/tree/", lambda asked, reply: Reply(200, {**reply.headers, **link}, reply.body))
        look("verify", URL, codes=(0, 1, 2))
        assert not any("authorization" in asked.headers for asked in other.requests)


@pytest.mark.slow
def test_pages_without_end(served: Hub, look: Look) -> None:
    def empty(asked: Asked, reply: Reply) -> Reply:
        link = f'<{served.api.url}{asked.path}?cursor={len(served.api.requests)}>; rel="next"'
        return Reply(200, {"Link": link}, b"[]")

    served.api.fault("/tree/", empty)
    look.error("verify", URL)
    assert len(served.api.requests) < 2000


def entry(path: str, size: object = 3) -> dict[str, object]:
    return {"type": "file", "oid": "0" * 40, "size": size, "path": path}


NAMES = (
    "../evil.json",
    "../../../../evil.json",
    "/tmp/irtools-evil.json",
    "folder/../../evil.json",
    "..\\evil.json",
    "C:\\evil.json",
    "C:evil.json",
    "evil\0.json",
    "evil\x1b[2J\x07.json",
    "evil\n::error::x.json",
    "evil\u202e.json",
    "openvino_model.xml/evil.json",
    "evil//x.json",
    "./evil.json",
    "evil" + "x" * 300 + ".json",
    "e/" * 400 + "vil.json",
    "con.json",
    "evil. ",
    "",
    ".",
    "..",
)


def test_hostile_names(served: Hub, look: Look, fixtures: Path, tmp_path: Path) -> None:
    commit = served.repositories["org/falcon"].at("main")
    commit.files |= {name: Entry(name, b"{}\n", lfs=False) for name in (*NAMES, "CONFIG.JSON")}
    commit.listed = [entry("config.json")]
    done = look("verify", URL)
    assert done.out.replace(URL, "X") == look("verify", fixtures / "falcon").out.replace(str(fixtures / "falcon"), "X")
    assert "\x1b" not in done.out + done.err
    assert not Path("/tmp/irtools-evil.json").exists()
    assert [path for path in tmp_path.rglob("*evil*") if look.cache not in path.parents] == []
    assert not any(path.is_symlink() for path in look.cache.rglob("*"))


@pytest.mark.parametrize(
    "size", [-1, *(pytest.param(size, marks=pytest.mark.slow) for size in (1 << 62, 1 << 80, "many", None, 1.5, True))]
)
def test_sizes_that_are_none(served: Hub, look: Look, size: object) -> None:
    commit = served.repositories["org/falcon"].at("main")
    commit.lies["openvino_model.bin"] = {"size": size, "lfs": {"oid": "0" * 64, "size": size, "pointerSize": 130}}
    look("verify", URL, codes=(1, 2))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["openvino_model.bin", "openvino_model.xml", "config.json"])
@pytest.mark.parametrize("factor", [0, 0.5, 2, 1 << 20])
def test_sizes_that_lie(served: Hub, look: Look, hurried: list[float], name: str, factor: float) -> None:
    commit = served.repositories["org/falcon"].at("main")
    size = int(commit.files[name].size * factor)
    commit.lies[name] = {"size": size}
    if name.endswith(".bin"):
        commit.lies[name]["lfs"] = {"oid": commit.files[name].sha256, "size": size, "pointerSize": 130}
    look("verify", URL, codes=(1, 2))
    assert served.sent() < 5_000_000
    disk = sum(path.stat().st_blocks * 512 for path in look.cache.rglob("*"))
    assert disk < 5_000_000


@pytest.mark.slow
def test_20000_files(served: Hub, look: Look, fixtures: Path) -> None:
    commit = served.repositories["org/falcon"].at("main")
    commit.listed = [entry(f"more/{number}.txt") for number in range(50_000)]
    assert "files" in look.error("verify", URL)
    assert len(json.dumps(commit.listed)) > 1_000_000


@pytest.mark.slow
def test_slow_server(served: Hub, look: Look, hurried: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.5)
    monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 0.5)
    served.api.fault(XML, wire(delay=1.5))
    started = time.monotonic()
    assert "openvino_model.xml" in look.error("verify", URL)
    assert time.monotonic() - started < 10
