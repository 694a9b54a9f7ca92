"""Exports in S3, in Google Cloud Storage and on plain web servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.remote.conftest import Look, told
from tests.remote.http_server import Server, first, wire
from tests.remote.s3_server import S3
from tests.remote.static_server import Site, secure


@pytest.fixture(scope="module")
def s3(fixtures: Path) -> Iterator[S3]:
    with S3() as server:
        server.add("models", "exports/falcon/", fixtures / "falcon")
        yield server


@pytest.mark.slow
def test_s3(s3: S3, look: Look, fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    s3.requests.clear()
    assert look.model("verify", "s3://models/exports/falcon") == look.model("verify", fixtures / "falcon")
    sent = s3.sent()
    weights = sum(size for _, path, size in s3.requests if path.endswith(".bin"))
    assert 0 < weights <= 500_000
    s3.requests.clear()
    again = look("verify", "s3://models/exports/falcon")
    assert not any(path.endswith((".bin", ".xml", ".json")) for _, path, _ in s3.requests)
    assert told(again)[0] < sent / 10
    for url in ("s3://models/none", "s3://none/none"):
        assert "not found" in look.error("verify", url) or "no such" in look.error("verify", url)
    s3.failures += ["503 Slow Down"] * 2
    look("locate", "s3://models/exports/falcon")
    s3.failures.clear()


@pytest.mark.slow
def test_s3_changed_while_it_is_read(s3: S3, look: Look, fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    look("locate", "s3://models/exports/falcon")
    s3.add("models2", "falcon/", fixtures / "llama")
    assert look.model("locate", "s3://models2/falcon") == look.model("locate", fixtures / "llama")
    s3.add("models3", "falcon/", fixtures / "falcon")
    s3.put("models3", "falcon/openvino_model.xml", (fixtures / "llama" / "openvino_model.xml").read_bytes())
    assert look.model("locate", "s3://models3/falcon") != look.model("locate", "s3://models/exports/falcon")


@pytest.mark.slow
def test_gs(look: Look, fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.remote.gs_server import GoogleStorage

    with GoogleStorage() as google:
        for name, value in google.environment.items():
            monkeypatch.setenv(name, value)
        google.add("exports/falcon/", fixtures / "falcon")
        assert look.model("verify", "gs://models/exports/falcon") == look.model("verify", fixtures / "falcon")
        assert look.error("verify", "gs://models/none")


SITES = {
    "all": {},
    "no listings": {"listings": False},
    "no ranges": {"ranges": False},
    "no etags": {"etags": False},
    "bare": {"listings": False, "ranges": False, "etags": False},
}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind == "all" else pytest.mark.slow) for kind in SITES]
)
def test_web(look: Look, fixtures: Path, kind: str) -> None:
    with Server(Site(fixtures, **SITES[kind])) as server:
        local, remote = look.model("verify", fixtures / "falcon"), look.model("verify", f"{server.url}/falcon")
        if SITES[kind].get("ranges", True):
            assert remote == local
        else:  # the checks that need weights say that they were not made, or the small file was read whole
            assert {finding["code"] for finding in local["findings"]} - {
                finding["code"] for finding in remote["findings"]
            } <= set()
        assert server.sent(r"\.bin") <= 1_000_000
        server.clear()
        look("verify", f"{server.url}/falcon/")
        if SITES[kind].get("etags", True) and SITES[kind].get("ranges", True):
            assert server.sent(r"openvino_model\.(xml|bin)") == 0
        assert look("locate", f"{server.url}/falcon/openvino_model.xml").code == 0
        assert f"{server.url}/nowhere" in look.error("verify", f"{server.url}/nowhere")


@pytest.mark.slow
def test_web_changes(look: Look, fixtures: Path, export_copy: object, tmp_path: Path) -> None:
    copy = export_copy("falcon", "site/falcon")
    xml = copy / "openvino_model.xml"
    text = xml.read_bytes()
    with Server(Site(tmp_path / "site")) as server:
        server.fault(r"openvino_model\.xml", first(lambda: xml.write_bytes(text + b"\n")), times=1, method="HEAD")
        look("verify", f"{server.url}/falcon", codes=(0, 1, 2))
        assert look.model("verify", f"{server.url}/falcon") == look.model("verify", copy)
        config = copy / "config.json"
        config.write_text(config.read_text().replace('"hidden_size": 32', '"hidden_size": 48'))
        assert "48" in look("verify", f"{server.url}/falcon").out


@pytest.mark.slow
def test_web_listings_lead_elsewhere(look: Look, fixtures: Path) -> None:
    with Server(lambda asked: (_ for _ in ()).throw(AssertionError)) as other:
        extra = {
            f"{other.url}/evil.xml": "openvino_model.xml",
            "../llama/config.json": "config.json",
            "file:///etc/passwd": "passwd",
            "/etc/evil.json": "evil",
            "%2e%2e%2fevil.json": "evil",
            "a%00evil.json": "evil",
            "javascript:evil()": "evil",
            "http://[bad": "evil",
            "openvino_model.xml?C=M;O=D": "sort",
            "#top": "top",
        }
        with Server(Site(fixtures, extra=extra)) as server:
            assert look.model("verify", f"{server.url}/falcon") == look.model("verify", fixtures / "falcon")
            assert not server.asked("llama|evil|passwd")
        assert not other.requests


@pytest.mark.slow
def test_web_over_tls(look: Look, process: object, fixtures: Path, tmp_path: Path) -> None:
    server, certificate = secure(Site(fixtures), tmp_path)
    with server:
        variables = {"XDG_CACHE_HOME": str(tmp_path / "cache2"), "NO_PROXY": "127.0.0.1"}
        done = process("verify", f"{server.url}/falcon", **variables)
        assert done.code == 2
        assert "certificate" in done.err
        done = process("verify", f"{server.url}/falcon", SSL_CERT_FILE=str(certificate), **variables)
        local = process("verify", fixtures / "falcon")
        assert done.out.replace(f"{server.url}/falcon", "X") == local.out.replace(str(fixtures / "falcon"), "X")


@pytest.mark.slow
def test_web_password_is_never_printed(look: Look, fixtures: Path) -> None:
    with Server(Site(fixtures)) as server:
        message = look.error("verify", f"http://user:secret-word@127.0.0.1:{server.port}/falcon")
        assert "secret-word" not in message


@pytest.mark.slow
def test_web_body_that_never_ends(look: Look, fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irtools.remote.http.time.sleep", lambda seconds: None)
    with Server(Site(fixtures)) as server:
        server.fault(r"\.xml", wire(endless=True))
        assert look.error("verify", f"{server.url}/falcon")
        server.clear()
        server.fault(r"/falcon/$", wire(endless=True))
        look("verify", f"{server.url}/falcon", codes=(0, 1, 2))
        assert server.sent() < 200_000_000
