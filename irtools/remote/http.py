"""Requests over HTTP, with limits that hold whatever the server sends.

The client of huggingface_hub sends every request, also those that irtools makes itself, so that there is one policy for
proxies, certificates, redirects, tokens, timeouts and sizes. A token goes to no other origin than the one that it is
for; a redirect may lead to another host, but not from a public one to an internal one.
"""

from __future__ import annotations

import contextlib
import email.utils
import functools
import ipaddress
import logging
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from irtools.remote.meter import METER, Meter
from irtools.text import size_text

__all__ = [
    "Ask",
    "Fault",
    "HttpError",
    "Location",
    "asking",
    "checked_hub",
    "client",
    "fetch",
    "get",
    "head",
    "int_of",
    "origin",
    "retried",
]

_LONGEST_WAIT = 60.0
"""Seconds that a server may ask to wait before irtools gives up."""
_SLOWEST = 2_000
"""Bytes a second below which a body counts as one that never ends."""
_GRACE = 60.0
_ANSWER = 32 << 20
"""Bytes of the longest answer that is not a file."""
_REDIRECT = 64 << 10
_MOST_PAGES = 500
"""Requests of one listing, with retries; a page of the hub has up to 1,000 files."""
_TRIES = 5
_AGAIN = (408, 425, 429, 500, 502, 503, 504)
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


class Fault:
    """Kinds of errors of HTTP, which each source puts into words."""

    NETWORK = "network"
    STATUS = "status"
    BODY = "body"
    REFUSED = "refused"


class HttpError(Exception):
    """A request that failed after its retries.

    Attributes
    ----------
    kind : str
        One of :class:`Fault`.
    status : int
        HTTP status; 0 without an answer.
    """

    def __init__(self, kind: str, message: str, status: int = 0, code: str = "", wait: float = 0.0) -> None:
        super().__init__(message)
        self.kind, self.status, self.code, self.wait = kind, status, code, wait


@dataclass(frozen=True, slots=True)
class Ask:
    """What the hooks must know of a request.

    Attributes
    ----------
    home : str
        Origin that a token is for.
    most : int
        Bytes that the body may have.
    last : int
        Requests of the meter after which there are no more: the pages of a listing may lead on and on.
    """

    home: str
    meter: Meter
    most: int = _ANSWER
    last: int = 1 << 62


_asking: ContextVar[Ask | None] = ContextVar("irtools_asking", default=None)
_lock = threading.Lock()
_made: list[Any] = []


@contextlib.contextmanager
def asking(home: str, meter: Meter) -> Iterator[None]:
    """Say for whom the requests are that huggingface_hub makes within the block, and keep its warnings from stderr."""
    logger = logging.getLogger("huggingface_hub")
    last = meter.traffic.requests + _MOST_PAGES
    level, token = logger.level, _asking.set(Ask(home, meter, _ANSWER, last))
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
        _asking.reset(token)


def _timeouts() -> dict[str, float]:
    """Seconds, which HF_HUB_ETAG_TIMEOUT and HF_HUB_DOWNLOAD_TIMEOUT set."""
    from huggingface_hub import constants

    read = float(constants.HF_HUB_DOWNLOAD_TIMEOUT)
    return {"connect": float(constants.HF_HUB_ETAG_TIMEOUT), "read": read, "write": read, "pool": 60.0}


def origin(url: str) -> str:
    """Scheme, host and port of a URL."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    return f"{parts.scheme}://{(parts.hostname or '').lower()}:{port}"


def client() -> Any:
    """The client, which is that of huggingface_hub in this process from now on."""
    with _lock:
        if not _made:
            from huggingface_hub import get_session, set_client_factory

            # httpx for huggingface_hub 1, httpx2 for 2.
            package = import_module(type(get_session()).__module__.partition(".")[0])
            _made.append(package)
            set_client_factory(functools.partial(_client, package))
    from huggingface_hub import get_session

    return get_session()


def _client(package: Any) -> Any:
    return package.Client(
        event_hooks={"request": [_sending], "response": [functools.partial(_receiving, package)]},
        headers={"Accept-Encoding": "identity"},
        follow_redirects=True,
        max_redirects=8,
        timeout=package.Timeout(**_timeouts()),
    )


# -- hooks, which see each hop of a redirect ---------------------------------------------


def _sending(request: Any) -> None:
    ask = request.extensions.get("irtools") or _asking.get()
    if ask is None:
        return  # a request of other code in this process
    request.extensions = {**request.extensions, "irtools": ask, "timeout": _timeouts()}
    if ask.meter.traffic.requests >= ask.last:
        raise HttpError(Fault.REFUSED, f"the listing has more than {_MOST_PAGES} pages")
    url = str(request.url)
    here = origin(url)
    if here != ask.home:
        _require_allowed(here, ask.home)
        for header in ("Authorization", "Cookie"):
            request.headers.pop(header, None)
    request.headers["Accept-Encoding"] = "identity"
    ask.meter.add(requests=1)
    METER.add(requests=1)


def _require_allowed(here: str, home: str) -> None:
    scheme, host = here.partition("://")[0], urlsplit(here).hostname or ""
    if scheme not in ("http", "https"):
        raise HttpError(Fault.REFUSED, f"leads to a {scheme or 'relative'} address, which is not followed")
    if home.startswith("https:") and scheme != "https":
        raise HttpError(Fault.REFUSED, f"leads from https to http at {host}, which is not followed")
    nearest = _nearness(host)
    if nearest == 2 or (nearest and not _nearness(urlsplit(home).hostname or "")):
        raise HttpError(Fault.REFUSED, f"leads to the internal address {host}, which is not followed")


@functools.lru_cache(maxsize=256)
def _nearness(host: str) -> int:
    """0 for a public host, 1 for an internal one, 2 for an address that only this machine's own services have."""
    try:
        found = {ipaddress.ip_address(host)}
    except ValueError:
        try:
            found = {ipaddress.ip_address(str(info[4][0]).partition("%")[0]) for info in socket.getaddrinfo(host, None)}
        except (OSError, ValueError):
            return 0  # only the proxy knows the name, or the request fails
    kinds = [getattr(one, "ipv4_mapped", None) or one for one in found]
    if any(one.is_link_local or one.is_unspecified or one.is_multicast for one in kinds):
        return 2
    return int(any(not one.is_global for one in kinds))


def _receiving(package: Any, response: Any) -> None:
    ask = response.request.extensions.get("irtools")
    if ask is None:
        return
    coding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if coding not in ("", "identity"):  # a few bytes of it could be gigabytes
        raise HttpError(Fault.BODY, f"is sent as {coding[:20]!r}, although irtools asked for the unchanged content")
    wait = _asked_wait(response.headers)
    if response.status_code in _AGAIN and wait > _LONGEST_WAIT:
        raise HttpError(Fault.STATUS, f"the server asks to wait {wait:.0f} s", response.status_code)
    moved = response.has_redirect_location
    if response.status_code == 200 and "Range" in response.request.headers:
        raise HttpError(Fault.BODY, "the server sends whole files only, no byte ranges", code="ranges")
    if not moved and response.status_code == 200 and int_of(response.headers.get("Content-Length")) > ask.most:
        raise HttpError(Fault.BODY, _endless(ask.most))
    response.stream = _counted(package)(response.stream, ask, _REDIRECT if moved else ask.most)


@functools.cache
def _counted(package: Any) -> Any:
    class Counted(package.SyncByteStream):  # type: ignore[misc]
        """A body that is counted, and ends with an error when it is too long or too slow."""

        def __init__(self, inner: Any, ask: Ask, most: int) -> None:
            self._inner, self._ask, self._most = inner, ask, most

        def __iter__(self) -> Iterator[bytes]:
            started, received = time.monotonic(), 0
            for piece in self._inner:
                received += len(piece)
                self._ask.meter.add(bytes_=len(piece))
                METER.add(bytes_=len(piece))
                if received > self._most:
                    raise HttpError(Fault.BODY, _endless(self._most))
                if time.monotonic() - started > _GRACE + received / _SLOWEST:
                    raise HttpError(Fault.NETWORK, "the server sends so slowly that the transfer would not end")
                yield piece

        def close(self) -> None:
            self._inner.close()

    return Counted


def _endless(most: int) -> str:
    return f"the server sends more than the {size_text(most)} that there should be"


def _asked_wait(headers: Mapping[str, str]) -> float:
    """Seconds of a Retry-After, as a number or a date; 0 without one."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    date = email.utils.parsedate_tz(text) if text else None
    return max(email.utils.mktime_tz(date) - time.time(), 0.0) if date else 0.0


def int_of(text: str | None) -> int:
    """A number of a header; -1 if it has none."""
    return int(text[:24]) if text and text.isascii() and text.isdigit() else -1


# -- requests ----------------------------------------------------------------------------


@dataclass(slots=True)
class Location:
    """Where the bytes of a file are, once a redirect has said so; it is asked again when that place refuses."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    moved: str = ""
    etag: str = ""


def retried(work: Callable[[], Any]) -> Any:
    """Call a function, and again after an error that can pass; raises the last :class:`HttpError`."""
    for turn in range(_TRIES):
        try:
            return _translated(work)
        except HttpError as error:
            passing = error.kind == Fault.NETWORK or error.status in _AGAIN
            if not passing or turn == _TRIES - 1 or (error.code == "connect" and turn >= 2):
                raise
            time.sleep(error.wait or 0.3 * 2**turn * (1 + random.random() / 2))
    raise AssertionError


def _translated(work: Callable[[], Any]) -> Any:
    package = _made[0]
    try:
        return work()
    except (package.ConnectError, package.ConnectTimeout, package.ProxyError) as error:
        raise HttpError(Fault.NETWORK, _reason(error), code="connect") from error
    except package.TooManyRedirects:
        raise HttpError(Fault.REFUSED, "redirects too many times") from None
    except package.UnsupportedProtocol:
        raise HttpError(
            Fault.REFUSED, "leads to an address that is not of http or https, which is not followed"
        ) from None
    except package.TransportError as error:
        raise HttpError(Fault.NETWORK, _reason(error)) from error
    except package.InvalidURL:
        raise HttpError(Fault.REFUSED, "leads to an address that is not valid") from None


def _reason(error: Exception) -> str:
    """Reason of a transport error; the text of one names no URL."""
    words = {"ConnectTimeout": "no answer in time", "ReadTimeout": "no answer in time"}
    name = type(error).__name__
    return words.get(name) or str(error).strip().rstrip(".") or name


def checked(response: Any) -> Any:
    """The response, if its status is below 400; else raises :class:`HttpError`."""
    if response.status_code >= 400:
        raise _status_error(response)
    return response


def _status_error(response: Any, code: str = "") -> HttpError:
    status, wait = response.status_code, min(_asked_wait(response.headers), _LONGEST_WAIT)
    code = response.headers.get("X-Error-Code", "") or code
    return HttpError(Fault.STATUS, f"the server answers {status}", status, code, wait)


def checked_hub(work: Callable[[], Any]) -> Any:
    """Call a function of huggingface_hub; its errors become :class:`HttpError`."""
    from huggingface_hub.errors import (
        DisabledRepoError,
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    codes = {
        GatedRepoError: "GatedRepo",
        RevisionNotFoundError: "RevisionNotFound",
        DisabledRepoError: "DisabledRepo",
        RepositoryNotFoundError: "RepoNotFound",
    }
    try:
        return work()
    except HfHubHTTPError as error:
        code = next((code for kind, code in codes.items() if isinstance(error, kind)), "")
        raise _status_error(error.response, code) from None
    except HFValidationError:
        raise HttpError(Fault.REFUSED, "is not valid", code="invalid") from None
    except OfflineModeIsEnabled:
        raise HttpError(Fault.NETWORK, "offline", code="connect") from None


def head(url: str, ask: Ask, headers: Mapping[str, str] | None = None) -> Any:
    """The headers of a file."""
    http = client()

    def work() -> Any:
        return checked(http.request("HEAD", url, headers=dict(headers or {}), extensions={"irtools": ask}))

    return retried(work)


def get(url: str, ask: Ask, headers: Mapping[str, str] | None = None) -> Any:
    """A whole short answer, with its body."""
    http = client()

    def work() -> Any:
        return checked(http.request("GET", url, headers=dict(headers or {}), extensions={"irtools": ask}))

    return retried(work)


def fetch(location: Location, size: int, start: int, end: int, ask: Ask, sink: Callable[[int, bytes], None]) -> None:
    """Fetch a range of a file; what was cut is fetched from where it broke off.

    Parameters
    ----------
    size : int
        Bytes of the whole file, by its listing.
    sink : callable
        Gets each piece with its offset.

    Raises
    ------
    HttpError
        It failed, or the file is not as long as listed, or has changed.
    """
    http = client()
    position = start

    def work() -> None:
        nonlocal position
        if position >= end:
            return
        whole = position == 0 and end == size
        url = location.moved or location.url
        headers = {} if location.moved else dict(location.headers)
        if not whole:
            headers["Range"] = f"bytes={position}-{end - 1}"
        limited = Ask(ask.home, ask.meter, end - position)
        with http.stream("GET", url, headers=headers, extensions={"irtools": limited}) as response:
            elsewhere = origin(str(response.url)) != origin(location.url)
            if response.status_code in (401, 403, 404, 410) and elsewhere:
                location.moved = ""  # the address that the redirect gave has expired
                raise HttpError(Fault.NETWORK, "the server no longer has the file", response.status_code)
            checked(response)
            _require_same(response, location, size, position, end)
            if elsewhere:
                location.moved = str(response.url)
            for piece in response.iter_raw():
                sink(position, piece)
                position += len(piece)
        if position < end:
            raise HttpError(Fault.NETWORK, f"the transfer ended {end - position} bytes early")

    retried(work)


def _require_same(response: Any, location: Location, size: int, start: int, end: int) -> None:
    """Refuse a response that is not the range asked for, of a file of the listed size and version."""
    etag = response.headers.get("ETag", "")
    if location.etag and etag and etag != location.etag:
        raise HttpError(Fault.BODY, "changed while it was read; run the command again")
    if response.status_code == 206:
        found = _RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
        if found is None or int(found[1]) != start or int(found[2]) != end - 1:
            raise HttpError(Fault.BODY, "the server sent a different range from the one requested")
        total = int(found[3]) if found[3] != "*" else size
    elif start == 0 and end == size:
        total = int_of(response.headers.get("Content-Length"))
        total = size if total < 0 else total
    else:
        raise HttpError(Fault.BODY, "the server sent a different range from the one requested")
    if total != size:
        raise HttpError(
            Fault.BODY, f"has {total} bytes, and the listing says {size}; it changed, or the listing is wrong"
        )
