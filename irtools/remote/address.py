"""URLs of exports: what they name, and what they may not contain."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from irtools.errors import UsageError

__all__ = ["Address", "parse"]

_HUB = re.compile(
    r"(?P<owner>[A-Za-z0-9_.-]+)"
    r"(?:/(?P<name>[A-Za-z0-9_.-]+)(?:@(?P<revision>refs/(?:pr|convert)/[^/]+|[^/]+))?(?P<inner>(?:/[^/]+)*))?"
)
_PAGE = re.compile(
    r"/(?P<repo>[^/]+/[^/]+)(?:/(?:tree|blob|resolve|raw)/(?P<revision>refs/pr/\d+|[^/]+)(?P<inner>/.*)?)?"
)
_OTHER_KINDS = ("buckets", "datasets", "kernels", "spaces")
_EXAMPLE = "hf://org/name, s3://bucket/folder, gs://bucket/folder or https://host/folder"
_HUB_HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co")


@dataclass(frozen=True, slots=True)
class Address:
    """What a URL names.

    Attributes
    ----------
    scheme : str
        ``hf``, ``s3``, ``gs``, ``https`` or ``http``.
    root : str
        URL of the repository or folder whose files are listed.
    place : str
        ``owner/name`` or ``owner`` at the hub, ``bucket/folder`` in an object store, otherwise the root itself.
    revision : str
        Revision at the hub, as given; ``""`` for none.
    inner : str
        Path below the root, without slashes at its ends.
    """

    scheme: str
    root: str
    place: str
    revision: str = ""
    inner: str = ""

    @property
    def url(self) -> str:
        """The whole URL."""
        return f"{self.root}/{self.inner}" if self.inner else self.root

    @property
    def owner_only(self) -> bool:
        """True for an organisation or user of the hub, not a repository."""
        return self.scheme == "hf" and "/" not in self.place

    @property
    def name(self) -> str:
        """Last word of the root, as the name of a directory."""
        return self.place.rstrip("/").rsplit("/", 1)[-1] or "export"

    @property
    def folder(self) -> str:
        """Folder of the export below the root: the inner path, or for a file the folder that it is in."""
        return self.inner.rpartition("/")[0] if _is_file(self.inner) else self.inner


def parse(text: str) -> Address:
    """Parse the URL of an export, a folder or one ``.xml``.

    Raises
    ------
    UsageError
        irtools cannot read such a URL. The message does not repeat what could be a password.

    Examples
    --------
    >>> parse("hf://org/name@v2/int4").place, parse("hf://org/name@v2/int4").inner
    ('org/name', 'int4')
    >>> parse("s3://bucket/models/openvino_model.xml").root
    's3://bucket/models'
    """
    scheme, _, rest = text.partition("://")
    scheme = scheme.lower()
    shown = f"{scheme}://{rest.split('?')[0].rpartition('@')[2]}" if scheme in ("http", "https") else text
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in text) or "\\" in text:
        raise UsageError(f"{shown!r} has a control character or a backslash; give a URL without it")
    if any(part in ("..", ".") for part in unquote(rest).split("/")):
        raise UsageError(f"{shown} has a folder `.` or `..`; give the URL without it")
    if scheme == "hf":
        return _hub(text, rest.strip("/"))
    if scheme in ("s3", "gs"):
        return _object(scheme, rest)
    if scheme in ("http", "https"):
        return _web(text, shown)
    if scheme == "file":
        raise UsageError(f"{text} is a file of this machine; give its path without file://")
    raise UsageError(f"{text}: irtools does not read {scheme}:// URLs; give {_EXAMPLE}")


def _hub(text: str, rest: str) -> Address:
    if rest.split("/", 1)[0] in _OTHER_KINDS and "/" in rest:
        raise UsageError(f"{text} is not a model; irtools reads models: hf://org/name")
    found = _HUB.fullmatch(rest)
    if found is None:
        raise UsageError(f"{text} does not name a repository; give hf://org/name, hf://org/name@revision or hf://org")
    if found["name"] is None:
        return Address("hf", f"hf://{found['owner']}", found["owner"])
    place, revision = f"{found['owner']}/{found['name']}", unquote(found["revision"] or "")
    root = f"hf://{place}@{found['revision']}" if revision else f"hf://{place}"
    return Address("hf", root, place, revision, found["inner"].strip("/"))


def _object(scheme: str, rest: str) -> Address:
    words = [word for word in rest.split("/") if word]
    if not words:
        raise UsageError(f"{scheme}:// names no bucket; give {scheme}://bucket/folder")
    inner = words.pop() if len(words) > 1 and _is_file(words[-1]) else ""
    place = "/".join(words)
    return Address(scheme, f"{scheme}://{place}", place, inner=inner)


def _web(text: str, shown: str) -> Address:
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host:
        raise UsageError(f"{shown} has no valid host; give {_EXAMPLE}")
    if parts.username is not None or parts.password is not None:
        raise UsageError(f"{shown}: give the user and the password in ~/.netrc, not in the URL")
    if parts.query or parts.fragment:
        raise UsageError(f"{shown} has a query or a fragment, which names one file and not an export; give the folder")
    page = _PAGE.fullmatch(parts.path.rstrip("/")) if host in _HUB_HOSTS else None
    if page is not None:  # the address bar of a browser
        revision = f"@{quote(unquote(page['revision']), safe='/')}" if page["revision"] not in (None, "main") else ""
        return _hub(text, f"{page['repo']}{revision}{page['inner'] or ''}".rstrip("/"))
    words = [word for word in parts.path.split("/") if word]
    inner = words.pop() if words and _is_file(words[-1]) else ""
    root = "/".join([f"{parts.scheme.lower()}://{parts.netloc.lower()}", *words])
    return Address(parts.scheme.lower(), root, root, inner=unquote(inner))


def _is_file(name: str) -> bool:
    return name.lower().endswith((".xml", ".bin", ".json"))
