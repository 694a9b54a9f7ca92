"""A local HTTP server that records what it is asked and can misbehave on the wire in every way that clients meet.

Other servers of this folder are functions from a request to a `Reply`; ranges, ETags, compression, latency and
faults are the same for all of them and live here.
"""

from __future__ import annotations

import gzip
import re
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

CHUNK = 1 << 16
ENDLESS = 1 << 30  # bytes after which a body that never ends gives up, so that a broken client ends the test


@dataclass(eq=False)
class Asked:
    """One request, and what was sent for it. Header names are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes = b""
    status: int = 0
    sent: int = 0
    at: float = field(default_factory=time.monotonic)

    @property
    def path(self) -> str:
        """The path as sent: quoted, so that a slash in a revision stays one segment."""
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.target).query, keep_blank_values=True)

    @property
    def segments(self) -> list[str]:
        return [unquote(part) for part in self.path.split("/")[1:]]


@dataclass(frozen=True)
class Reply:
    """What to send. The fields after ``ranges`` are lies and delays; a sound server leaves them alone.

    Attributes
    ----------
    cut : int, optional
        Close the connection after so many bytes of the body.
    declared : int, optional
        The Content-Length, if it is not that of the body. -1 sends none and closes the connection after the body.
    endless : bool
        Repeat the body for ever, in chunks.
    delay, pause : float
        Seconds before the status line; seconds after each 64 KiB of the body.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | Path = b""
    compress: bool = False
    ranges: bool = True
    cut: int | None = None
    declared: int | None = None
    endless: bool = False
    delay: float = 0.0
    pause: float = 0.0

    @property
    def size(self) -> int:
        return len(self.body) if isinstance(self.body, bytes) else self.body.stat().st_size


@dataclass(eq=False)
class Fault:
    """A change of ``times`` replies to requests whose method and target match, after ``skip`` sound ones."""

    pattern: str
    change: Callable[[Asked, Reply], Reply]
    times: float = float("inf")
    method: str = "GET|POST"
    skip: int = 0
    met: int = 0

    def apply(self, asked: Asked, reply: Reply) -> Reply:
        if not re.fullmatch(self.method, asked.method) or not re.search(self.pattern, unquote(asked.target)):
            return reply
        self.met += 1
        return self.change(asked, reply) if self.skip < self.met <= self.skip + self.times else reply


class Server:
    """A threaded server for one origin.

    Parameters
    ----------
    answer : callable
        From a request to the reply.
    latency : float
        Seconds that pass before each new connection and before each reply: one round trip each.
    rate : float, optional
        Bytes per second of one connection.
    """

    def __init__(
        self,
        answer: Callable[[Asked], Reply],
        *,
        host: str = "127.0.0.1",
        latency: float = 0.0,
        rate: float | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.answer = answer
        self.latency = latency
        self.rate = rate
        self.requests: list[Asked] = []
        self.faults: list[Fault] = []
        self.connections = 0
        self._http = _Listener((host, 0), _handler(self))
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self._http.server_address[1]
        self.url = f"{'https' if tls else 'http'}://{host}:{self.port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def fault(self, pattern: str, change: Callable[[Asked, Reply], Reply], **when: Any) -> Fault:
        """Misbehave where the path and query match a regular expression; see `Fault`."""
        self.faults.append(Fault(pattern, change, **when))
        return self.faults[-1]

    def clear(self) -> None:
        """Forget requests and faults; what is served stays."""
        self.requests.clear()
        self.faults.clear()

    def sent(self, pattern: str = "") -> int:
        """Bytes of bodies sent for matching targets."""
        return sum(asked.sent for asked in self.asked(pattern))

    def asked(self, pattern: str = "") -> list[Asked]:
        return [asked for asked in self.requests if re.search(pattern, unquote(asked.target))]


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that go away; anything else is a fault of the server and is shown."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            server.connections += 1
            time.sleep(server.latency)

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, self.path, headers, body)
            server.requests.append(asked)
            reply = server.answer(asked)
            for fault in list(server.faults):
                reply = fault.apply(asked, reply)
            time.sleep(server.latency + reply.delay)
            _send(self, asked, _conditions(asked, reply), server.rate)

        do_HEAD = do_POST = do_GET  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


def _conditions(asked: Asked, reply: Reply) -> Reply:
    """The reply after the headers of the request on ETags and ranges (RFC 9110, 13 and 14)."""
    etag = reply.headers.get("ETag")
    if reply.status != 200:
        return reply
    if etag and etag in asked.headers.get("if-none-match", ""):
        return Reply(304, {"ETag": etag})
    if etag and asked.headers.get("if-match", etag) not in (etag, "*"):
        return Reply(412)
    if not reply.ranges:
        return reply
    reply = replace(reply, headers={**reply.headers, "Accept-Ranges": "bytes"})
    wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", asked.headers.get("range", ""))
    if wanted is None or wanted.group(0) == "bytes=-" or asked.headers.get("if-range", etag) != etag:
        return reply
    first, last = wanted.groups()
    size = reply.size
    start = int(first) if first else max(size - int(last), 0)
    stop = min(int(last) + 1, size) if first and last else size
    if start >= min(size, stop):
        return Reply(416, {"Content-Range": f"bytes */{size}"})
    headers = {"Content-Range": f"bytes {start}-{stop - 1}/{size}", **reply.headers}
    return replace(reply, status=206, headers=headers)


def _send(handler: BaseHTTPRequestHandler, asked: Asked, reply: Reply, rate: float | None) -> None:
    span = re.fullmatch(r"bytes (\d+)-(\d+)/\d+", reply.headers.get("Content-Range", ""))
    start, stop = (int(span[1]), int(span[2]) + 1) if span and reply.status == 206 else (0, reply.size)
    body = reply.body
    headers = dict(reply.headers)
    if reply.compress and reply.status == 200 and "gzip" in asked.headers.get("accept-encoding", ""):
        body = gzip.compress(body if isinstance(body, bytes) else body.read_bytes(), mtime=0)
        start, stop = 0, len(body)
        headers["Content-Encoding"] = "gzip"
    chunked = reply.endless or "Content-Encoding" in headers
    length = stop - start if reply.declared is None else reply.declared
    if chunked:
        headers["Transfer-Encoding"] = "chunked"
    elif length >= 0 and reply.status != 304:
        headers["Content-Length"] = str(length)
    whole = reply.cut is None and reply.declared is None
    if not whole:
        headers["Connection"] = "close"
        handler.close_connection = True
    asked.status = reply.status
    handler.send_response(reply.status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    if asked.method == "HEAD" or reply.status == 304:
        return
    left = reply.cut if reply.cut is not None else ENDLESS if reply.endless else stop - start
    try:
        for piece in _pieces(body, start, stop, reply.endless):
            piece = piece[:left]
            left -= len(piece)
            handler.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            asked.sent += len(piece)
            time.sleep(reply.pause + (len(piece) / rate if rate else 0))
            if left <= 0:
                break
        if chunked and reply.cut is None:
            handler.wfile.write(b"0\r\n\r\n")
    except OSError:
        handler.close_connection = True
    if not whole:
        handler.connection.shutdown(socket.SHUT_RDWR)


def _pieces(body: bytes | Path, start: int, stop: int, endless: bool) -> Iterator[bytes]:
    while True:
        if isinstance(body, bytes):
            yield from (body[place : min(place + CHUNK, stop)] for place in range(start, stop, CHUNK))
        else:
            with body.open("rb") as file:
                file.seek(start)
                for place in range(start, stop, CHUNK):
                    yield file.read(min(CHUNK, stop - place))
        if not endless:
            return


def fail(status: int, body: bytes = b"", **headers: str) -> Callable[[Asked, Reply], Reply]:
    """Reply with a status. Names of headers are given with underscores: ``Retry_After="1"``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda asked, reply: Reply(status, named, body)


def redirect(to: str, status: int = 302) -> Callable[[Asked, Reply], Reply]:
    """Redirect to a URL, with the other headers of the reply."""
    return lambda asked, reply: replace(reply, status=status, headers={**reply.headers, "Location": to}, body=b"")


def wire(**lies: Any) -> Callable[[Asked, Reply], Reply]:
    """Send the sound reply with other fields, such as ``cut=100``, ``endless=True`` or ``body=b"..."``."""
    return lambda asked, reply: replace(reply, **lies)


def first(do: Callable[[], object]) -> Callable[[Asked, Reply], Reply]:
    """Reply soundly, then do something: what is served changes after this request."""

    def change(asked: Asked, reply: Reply) -> Reply:
        do()
        return reply

    return change
