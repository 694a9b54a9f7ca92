"""The servers of these tests, asked by the real clients of the hub, of S3 and of Google Cloud Storage."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest
import requests
from huggingface_hub import HfApi
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from tests.remote.http_server import fail, redirect, wire
from tests.remote.hub_server import STRANGER, TOKEN, Hub


@pytest.fixture
def api(hub: Hub) -> HfApi:
    return HfApi(endpoint=hub.api.url, token=False)


def test_listing_in_pages(hub: Hub, api: HfApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "page", 3)
    files = {f"folder/{number}.json": b"{}" for number in range(5)} | {"openvino_model.bin": b"weights"}
    hub.add("org/pages", files)
    tree = list(api.list_repo_tree("org/pages", recursive=True))
    assert sorted(item.path for item in tree if hasattr(item, "size")) == sorted(files)
    assert len(hub.api.asked("/tree/")) == 3
    assert [item.path for item in api.list_repo_tree("org/pages")] == ["folder", "openvino_model.bin"]
    assert len(list(api.list_repo_tree("org/pages", "folder"))) == 5
    weights = next(item for item in tree if item.path.endswith(".bin"))
    assert weights.lfs.sha256 == hashlib.sha256(b"weights").hexdigest()
    assert [item.path for item in api.get_paths_info("org/pages", ["folder/1.json", "absent"])] == ["folder/1.json"]


def test_oid_is_that_of_git(hub: Hub, api: HfApi) -> None:
    hub.add("org/git", {"config.json": b"{}\n"})
    git = subprocess.run(["git", "hash-object", "--stdin"], input=b"{}\n", capture_output=True, check=True)
    info = api.model_info("org/git", files_metadata=True)
    assert info.siblings is not None
    assert info.siblings[0].blob_id == git.stdout.decode().strip()


def test_revisions_and_models(hub: Hub, api: HfApi, tmp_path: Path) -> None:
    hub.add("org/one", {"config.json": b"1"})
    old = hub.repositories["org/one"].branches["main"]
    new = hub.commit("org/one", {"config.json": b"2"})
    hub.repositories["org/one"].tags["v1"] = old
    hub.commit("org/one", {"config.json": b"3"}, branch="refs/pr/1")
    hub.add("org/two", {})
    hub.add("org/hidden", {}, access="private")
    hub.add("other/three", {})
    assert api.model_info("org/one").sha == new
    refs = api.list_repo_refs("org/one")
    assert refs.tags[0].target_commit == old
    assert {ref.name for ref in refs.branches} == {"main", "refs/pr/1"}
    for revision, content in (("v1", b"1"), (old, b"1"), ("main", b"2"), ("refs/pr/1", b"3")):
        path = api.hf_hub_download("org/one", "config.json", revision=revision, cache_dir=tmp_path)
        assert Path(path).read_bytes() == content
    assert [model.id for model in api.list_models(author="org")] == ["org/one", "org/two"]
    assert len(list(api.list_models(author="org", token=TOKEN))) == 3


def test_download_goes_to_the_other_host_without_token(served: Hub, tmp_path: Path, fixtures: Path) -> None:
    api = HfApi(endpoint=served.api.url, token=TOKEN)
    folder = Path(api.snapshot_download("org/falcon", cache_dir=tmp_path))
    for path in (fixtures / "falcon").iterdir():
        assert (folder / path.name).read_bytes() == path.read_bytes()
    assert all("authorization" in asked.headers for asked in served.api.requests)
    assert served.cdn.requests
    assert not any("authorization" in asked.headers for asked in served.cdn.requests)


def test_refusals(hub: Hub, api: HfApi, tmp_path: Path) -> None:
    hub.add("org/gated", {"config.json": b"{}"}, access="gated")
    hub.add("org/private", {"config.json": b"{}"}, access="private")
    assert api.model_info("org/gated").gated == "manual"
    for repository, token, kind, status in (
        ("org/none", False, RepositoryNotFoundError, 401),
        ("org/none", TOKEN, RepositoryNotFoundError, 404),
        ("org/private", False, RepositoryNotFoundError, 401),
        ("org/private", STRANGER, RepositoryNotFoundError, 404),
        ("org/gated", False, GatedRepoError, 401),
        ("org/gated", STRANGER, GatedRepoError, 403),
        ("org/gated", "hf_wrong", HfHubHTTPError, 401),
    ):
        with pytest.raises(kind) as caught:
            api.hf_hub_download(repository, "config.json", token=token, cache_dir=tmp_path)
        assert _status(caught.value) == status
    assert Path(api.hf_hub_download("org/gated", "config.json", token=TOKEN, cache_dir=tmp_path)).exists()
    with pytest.raises(RevisionNotFoundError):
        api.model_info("org/gated", revision="none")
    with pytest.raises(RemoteEntryNotFoundError):
        api.hf_hub_download("org/gated", "none.json", token=TOKEN, cache_dir=tmp_path)


def _status(error: BaseException | None) -> int | None:
    """The status of the reply; hf_hub_download wraps the error of the hub."""
    while error is not None and getattr(error, "response", None) is None:
        error = error.__cause__
    return error.response.status_code if isinstance(error, HfHubHTTPError) else None


def test_ranges_and_etags(served: Hub, fixtures: Path) -> None:
    weights = (fixtures / "falcon" / "openvino_model.bin").read_bytes()
    url = f"{served.api.url}/org/falcon/resolve/main/openvino_model.bin"
    with requests.Session() as client:
        for span, part in (("10-19", weights[10:20]), ("-5", weights[-5:]), (f"{len(weights) - 2}-", weights[-2:])):
            reply = client.get(url, headers={"Range": f"bytes={span}"})
            assert (reply.status_code, reply.content) == (206, part)
        assert client.get(url, headers={"Range": f"bytes={len(weights)}-"}).status_code == 416
        etag = client.get(url).headers["ETag"]
        assert client.get(url, headers={"If-None-Match": etag}).status_code == 304
        reply = client.get(url, headers={"Range": "bytes=0-1", "If-Range": '"another"'})
        assert (reply.status_code, reply.content) == (200, weights)
        assert client.get(url, headers={"If-Match": '"another"'}).status_code == 412
        text = client.get(f"{served.api.url}/org/falcon/resolve/main/config.json")
        assert text.headers["Content-Encoding"] == "gzip"
        assert text.content == (fixtures / "falcon" / "config.json").read_bytes()


def test_faults_are_on_the_wire(served: Hub) -> None:
    url = f"{served.api.url}/org/falcon/raw/main/config.json"
    with requests.Session() as client:
        served.api.fault("config.json", fail(429, Retry_After="1"), times=1)
        assert client.get(url).headers["Retry-After"] == "1"
        assert client.get(url).status_code == 200
        served.api.fault("config.json", wire(cut=10), times=1)
        with pytest.raises(requests.RequestException):
            client.get(url)
        served.api.fault("config.json", wire(declared=10), times=1)
        assert len(client.get(url).content) == 10
        served.api.fault("config.json", redirect("file:///etc/passwd"), times=1)
        assert client.get(url, allow_redirects=False).headers["Location"] == "file:///etc/passwd"
        served.api.fault("config.json", wire(endless=True), times=1)
        with client.get(url, stream=True) as reply:
            pieces = reply.iter_content(1000)
            assert sum(len(next(pieces)) for _ in range(50)) > 10_000


@pytest.mark.slow
def test_s3_and_gs_by_their_clients(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import s3fs
    from gcsfs.core import GCSFileSystem

    from tests.remote.gs_server import GoogleStorage
    from tests.remote.s3_server import S3

    weights = (fixtures / "falcon" / "openvino_model.bin").read_bytes()
    with S3() as s3, GoogleStorage() as google:
        for name, value in (s3.environment | google.environment).items():
            monkeypatch.setenv(name, value)
        s3.add("models", "a/falcon/", fixtures / "falcon")
        google.add("a/falcon/", fixtures / "falcon")
        systems = (s3fs.S3FileSystem(skip_instance_cache=True), GCSFileSystem(token="anon", skip_instance_cache=True))
        for system in systems:
            assert len(system.ls("models/a/falcon")) == len(list((fixtures / "falcon").iterdir()))
            assert system.cat_file("models/a/falcon/openvino_model.bin", start=10, end=20) == weights[10:20]
        assert [size for _, path, size in s3.requests if path.endswith(".bin")] == [10]
        s3.failures.append("503 Slow Down")
        assert systems[0].cat_file("models/a/falcon/config.json")
