"""A local server that speaks the API of the Hugging Face Hub, as huggingface_hub 1 and 2 use it, and its CDN.

The hub is one origin, the CDN another one: large files are redirected there with a signed URL. What a reply looks
like follows the public hub: statuses, ``X-Error-Code``, ``Link`` for pages, ``X-Repo-Commit`` and ``X-Linked-*``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

from tests.remote.http_server import Asked, Reply, Server

LFS_SUFFIXES = (".bin", ".safetensors", ".onnx", ".gguf")
LFS_SIZE = 10_000_000  # the hub refuses larger files outside LFS
HASHED = 1 << 26  # a larger file gets a made-up hash, because tests make it sparse
TOKEN = "hf_AllowedEverywhere0123456789abcdef"
STRANGER = "hf_KnownButNotAllowed0123456789abcd"


class Refusal(Exception):  # noqa: N818
    """A reply that is an error of the hub."""

    def __init__(self, status: int, code: str, message: str, commit: str = "") -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": message, "Content-Type": "application/json"}
        if commit:
            headers["X-Repo-Commit"] = commit
        self.reply = Reply(status, headers, json.dumps({"error": message}).encode())


@dataclass(frozen=True)
class Entry:
    """One file of a commit."""

    path: str
    body: bytes | Path
    lfs: bool

    @cached_property
    def size(self) -> int:
        return len(self.body) if isinstance(self.body, bytes) else self.body.stat().st_size

    @cached_property
    def sha256(self) -> str:
        if self.size > HASHED:
            return hashlib.sha256(f"{self.path} {self.size}".encode()).hexdigest()
        return hashlib.sha256(self.content).hexdigest()

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else self.body.read_bytes()

    @property
    def pointer(self) -> bytes:
        return b"version https://git-lfs.github.com/spec/v1\noid sha256:%b\nsize %d\n" % (
            self.sha256.encode(),
            self.size,
        )

    @cached_property
    def oid(self) -> str:
        stored = self.pointer if self.lfs else self.content
        return hashlib.sha1(b"blob %d\0%b" % (len(stored), stored)).hexdigest()

    @property
    def etag(self) -> str:
        return f'"{self.sha256 if self.lfs else self.oid}"'


@dataclass
class Commit:
    """Files by path. ``listed`` changes what listings say of them: entries to add, or keys by path to replace."""

    sha: str
    files: dict[str, Entry]
    listed: list[dict[str, Any]] = field(default_factory=list)
    lies: dict[str, dict[str, Any]] = field(default_factory=dict)

    def entries(self) -> list[dict[str, Any]]:
        entries = []
        for entry in self.files.values():
            item: dict[str, Any] = {"type": "file", "oid": entry.oid, "size": entry.size, "path": entry.path}
            if entry.lfs:
                item["lfs"] = {"oid": entry.sha256, "size": entry.size, "pointerSize": len(entry.pointer)}
            entries.append(item | self.lies.get(entry.path, {}))
        folders = {str(parent) for path in self.files for parent in Path(path).parents} - {"."}
        entries += [
            {"type": "directory", "oid": hashlib.sha1(path.encode()).hexdigest(), "size": 0, "path": path}
            for path in folders
        ]
        return sorted(entries, key=lambda item: item["path"]) + self.listed


@dataclass
class Repository:
    """Commits by hash, and what branches and tags name; ``access`` is ``public``, ``private`` or ``gated``."""

    name: str
    access: str = "public"
    disabled: bool = False
    commits: dict[str, Commit] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    def at(self, revision: str) -> Commit:
        sha = self.branches.get(revision) or self.tags.get(revision) or revision
        if sha not in self.commits:
            raise Refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return self.commits[sha]


class Hub:
    """The hub and its CDN, with a repository for each `add`.

    Attributes
    ----------
    api, cdn : Server
        The two origins; each counts requests and bytes and has faults of its own.
    page : int
        Entries of a page of a tree or of a list of models.
    """

    def __init__(self, *, latency: float = 0.0, rate: float | None = None, page: int = 1000) -> None:
        self.repositories: dict[str, Repository] = {}
        self.page = page
        self.api = Server(self._answer, latency=latency, rate=rate)
        self.cdn = Server(self._blob, host="localhost", latency=latency, rate=rate)
        self._blobs: dict[str, Entry] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Hub:
        self._stack.enter_context(self.api)
        self._stack.enter_context(self.cdn)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def add(self, name: str, files: Path | Mapping[str, bytes | Path], **settings: Any) -> Repository:
        """Make a repository with a first commit on ``main``."""
        self.repositories[name] = Repository(name, **settings)
        self.commit(name, files)
        return self.repositories[name]

    def commit(self, name: str, files: Path | Mapping[str, bytes | Path], branch: str = "main") -> str:
        """Replace all files of a branch; returns the hash of the commit. The older commits stay."""
        if isinstance(files, Path):
            files = {str(path.relative_to(files)): path for path in sorted(files.rglob("*")) if path.is_file()}
        entries = {}
        for path, body in files.items():
            size = len(body) if isinstance(body, bytes) else body.stat().st_size
            entry = Entry(path, body, path.endswith(LFS_SUFFIXES) or size > LFS_SIZE)
            entries[path] = entry
            if entry.lfs:
                self._blobs[entry.sha256] = entry
        repository = self.repositories[name]
        text = f"{name} {len(repository.commits)} " + " ".join(entry.etag for entry in entries.values())
        sha = hashlib.sha1(text.encode()).hexdigest()
        repository.commits[sha] = Commit(sha, entries)
        repository.branches[branch] = sha
        return sha

    def clear(self) -> None:
        """Forget requests and faults of both origins."""
        self.api.clear()
        self.cdn.clear()

    @property
    def requests(self) -> list[Asked]:
        return sorted(self.api.requests + self.cdn.requests, key=lambda asked: asked.at)

    def sent(self, pattern: str = "") -> int:
        return self.api.sent(pattern) + self.cdn.sent(pattern)

    # The hub

    def _answer(self, asked: Asked) -> Reply:
        try:
            return self._route(asked)
        except Refusal as refusal:
            return refusal.reply

    def _route(self, asked: Asked) -> Reply:
        token = asked.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in ("", TOKEN, STRANGER):
            raise Refusal(401, "", "Invalid credentials in Authorization header")
        match asked.segments:
            case ["api", "whoami-v2"]:
                return _json({"name": "tester", "type": "user", "orgs": []}) if token else Reply(401)
            case ["api", "models"]:
                return self._models(asked, token)
            case ["api", "organizations" | "users", owner, "overview"]:
                if any(name.startswith(f"{owner}/") for name in self.repositories):
                    return _json({"name": owner, "fullname": owner})
                raise Refusal(404, "", "This user or organization does not exist")
            case ["api", "models", owner, name, *rest]:
                return self._api(asked, self._repository(f"{owner}/{name}", token), rest)
            case ["api", "resolve-cache", "models", owner, name, sha, *path]:
                return _file(self._repository(f"{owner}/{name}", token).at(sha), "/".join(path))
            case [owner, name, "resolve" | "raw" as kind, revision, *path]:
                repository = self._repository(f"{owner}/{name}", token)
                _require_grant(repository, token)
                return self._resolve(asked, repository.at(revision), repository, "/".join(path), kind == "raw")
        raise Refusal(404, "", "Sorry, we can't find the page you are looking for.")

    def _repository(self, name: str, token: str) -> Repository:
        repository = self.repositories.get(name)
        if repository is None or (repository.access == "private" and token != TOKEN):
            # The hub does not tell strangers whether a repository exists.
            if token:
                raise Refusal(404, "RepoNotFound", "Repository not found")
            raise Refusal(401, "RepoNotFound", "Invalid username or password.")
        if repository.disabled:
            raise Refusal(403, "", "Access to this resource is disabled.")
        return repository

    def _api(self, asked: Asked, repository: Repository, rest: list[str]) -> Reply:
        match rest:
            case [] | ["revision", _]:
                commit = repository.at(rest[1] if rest else "main")
                return _json(_info(repository, commit, blobs="blobs" in asked.query))
            case ["refs"]:
                return _json(
                    {
                        "branches": _refs("heads", repository.branches),
                        "tags": _refs("tags", repository.tags),
                        "converts": [],
                        "pullRequests": [],
                    }
                )
            case ["commits", revision]:
                commit = repository.at(revision)
                return _json([{"id": commit.sha, "title": "Upload", "date": "2026-01-01T00:00:00.000Z", "authors": []}])
            case ["tree", revision, *path]:
                return self._tree(asked, repository.at(revision), "/".join(path))
            case ["paths-info", revision]:
                commit = repository.at(revision)
                content = asked.body.decode()
                if "json" in asked.headers.get("content-type", ""):
                    paths = json.loads(content)["paths"]
                else:
                    paths = parse_qs(content).get("paths", [])
                return _json([entry for entry in commit.entries() if entry["path"] in paths])
        raise Refusal(404, "", "Sorry, we can't find the page you are looking for.")

    def _models(self, asked: Asked, token: str) -> Reply:
        author = asked.query.get("author", [""])[0]
        full = {"full", "expand"} & asked.query.keys()
        shown = [
            _info(repository, repository.at("main"), blobs=False, siblings=bool(full))
            for name, repository in sorted(self.repositories.items())
            if name.startswith(f"{author}/" if author else "") and (repository.access != "private" or token == TOKEN)
        ]
        return self._paged(asked, shown)

    def _tree(self, asked: Asked, commit: Commit, path: str) -> Reply:
        entries = commit.entries()
        if path:
            entries = [entry for entry in entries if f"{entry['path']}/".startswith(f"{path}/")]
            if not entries:
                raise Refusal(404, "EntryNotFound", f"{path} does not exist on {commit.sha!r}", commit.sha)
            entries = [entry for entry in entries if entry["path"] != path or entry["type"] == "file"]
        if asked.query.get("recursive", ["false"])[0].lower() not in ("true", "1"):
            depth = path.count("/") + 1 if path else 0
            entries = [entry for entry in entries if entry in commit.listed or entry["path"].count("/") == depth]
        return self._paged(asked, entries)

    def _paged(self, asked: Asked, items: list[dict[str, Any]]) -> Reply:
        query = asked.query
        start = int(query.get("cursor", ["0"])[0])
        size = min(int(query.get("limit", [str(self.page)])[0]), self.page)
        headers = {}
        if start + size < len(items):
            query["cursor"] = [str(start + size)]
            headers["Link"] = f'<{self.api.url}{asked.path}?{urlencode(query, doseq=True)}>; rel="next"'
        return _json(items[start : start + size], headers)

    def _resolve(self, asked: Asked, commit: Commit, repository: Repository, path: str, raw: bool) -> Reply:
        entry = commit.files.get(path)
        if entry is None:
            raise Refusal(404, "EntryNotFound", "Entry not found", commit.sha)
        if raw:
            return Reply(200, {"X-Repo-Commit": commit.sha}, entry.pointer if entry.lfs else entry.content)
        headers = {"X-Repo-Commit": commit.sha, "X-Linked-Size": str(entry.size), "X-Linked-Etag": entry.etag}
        if entry.lfs:
            signed = urlencode({"Expires": "1900000000", "Signature": entry.sha256[:16], "Key-Pair-Id": "K1"})
            return Reply(302, headers | {"Location": f"{self.cdn.url}/{entry.sha256}?{signed}"})
        place = f"/api/resolve-cache/models/{repository.name}/{commit.sha}/{quote(path)}"
        return Reply(307, headers | {"Location": f"{place}?{urlencode({'etag': entry.etag})}"})

    # The CDN

    def _blob(self, asked: Asked) -> Reply:
        entry = self._blobs.get(asked.segments[0])
        if entry is None or "Signature" not in asked.query:
            return Reply(403, {"Content-Type": "application/xml"}, b"<Error><Code>AccessDenied</Code></Error>")
        return Reply(200, {"ETag": entry.etag, "Content-Type": "application/octet-stream"}, entry.body)


def environment(hub: Hub, home: Path, **more: str) -> dict[str, str]:
    """Variables with which huggingface_hub asks this hub, with a cache and without a token of the machine."""
    return {
        "HF_ENDPOINT": hub.api.url,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": "0",
        "NO_PROXY": "127.0.0.1,localhost",
        **more,
    }


def _require_grant(repository: Repository, token: str) -> None:
    if repository.access != "gated" or token == TOKEN:
        return
    restricted = f"Access to model {repository.name} is restricted"
    if not token:
        message = f"{restricted}. You must have access to it and be authenticated to access it. Please log in."
        raise Refusal(401, "GatedRepo", message)
    raise Refusal(403, "GatedRepo", f"{restricted} and you are not in the authorized list.")


def _json(value: object, headers: dict[str, str] | None = None) -> Reply:
    named = {"Content-Type": "application/json; charset=utf-8", **(headers or {})}
    return Reply(200, named, json.dumps(value).encode(), compress=True, ranges=False)


def _file(commit: Commit, path: str) -> Reply:
    entry = commit.files.get(path)
    if entry is None:
        raise Refusal(404, "EntryNotFound", "Entry not found", commit.sha)
    headers = {"X-Repo-Commit": commit.sha, "ETag": entry.etag, "Content-Type": "text/plain; charset=utf-8"}
    return Reply(200, headers, entry.body, compress=True)


def _info(repository: Repository, commit: Commit, *, blobs: bool, siblings: bool = True) -> dict[str, Any]:
    info: dict[str, Any] = {
        "id": repository.name,
        "modelId": repository.name,
        "author": repository.name.split("/")[0],
        "sha": commit.sha,
        "lastModified": "2026-01-01T00:00:00.000Z",
        "createdAt": "2026-01-01T00:00:00.000Z",
        "private": repository.access == "private",
        "gated": "manual" if repository.access == "gated" else False,
        "disabled": repository.disabled,
        "downloads": 0,
        "likes": 0,
        "tags": ["openvino"],
    }
    if siblings:
        info["siblings"] = list(_siblings(commit, blobs))
    return info


def _siblings(commit: Commit, blobs: bool) -> Iterable[dict[str, Any]]:
    for entry in commit.entries():
        if entry["type"] == "directory":
            continue
        item = {"rfilename": entry["path"]}
        if blobs:
            item |= {"size": entry["size"], "blobId": entry["oid"]}
            if "lfs" in entry:
                lfs = entry["lfs"]
                item["lfs"] = {"sha256": lfs["oid"], "size": lfs["size"], "pointerSize": lfs["pointerSize"]}
        yield item


def _refs(kind: str, named: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "ref": f"refs/{kind}/{name}", "targetCommit": sha} for name, sha in named.items()]
