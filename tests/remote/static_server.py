"""A plain web server for a directory, over TLS or not: with and without ranges, listings, ETags."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Mapping
from email.utils import formatdate
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.remote.http_server import Asked, Reply, Server


class Site:
    """What a `Server` of a directory answers.

    Parameters
    ----------
    ranges, listings, etags : bool
        Whether the server knows them.
    extra : mapping
        Hrefs that listings have besides the files, with their texts.
    """

    def __init__(
        self,
        root: Path,
        *,
        ranges: bool = True,
        listings: bool = True,
        etags: bool = True,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        self.root = root
        self.ranges, self.listings, self.etags = ranges, listings, etags
        self.extra = dict(extra or {})

    def __call__(self, asked: Asked) -> Reply:
        place = self.root.joinpath(*[part for part in asked.segments if part])
        if ".." in asked.segments or not place.exists():
            return Reply(404, {"Content-Type": "text/html"}, b"<h1>404 Not Found</h1>")
        if place.is_dir():
            if not asked.path.endswith("/"):
                return Reply(301, {"Location": f"{asked.path}/"})
            return self._listing(asked, place) if self.listings else Reply(403, {}, b"<h1>403 Forbidden</h1>")
        status = place.stat()
        headers = {"Last-Modified": formatdate(status.st_mtime, usegmt=True)}
        if self.etags:
            headers["ETag"] = f'"{status.st_mtime_ns:x}-{status.st_size:x}"'
        return Reply(200, headers, place, ranges=self.ranges)

    def _listing(self, asked: Asked, place: Path) -> Reply:
        """As nginx writes it with ``autoindex on``."""
        names = {quote(child.name) + "/" * child.is_dir(): child.name for child in sorted(place.iterdir())}
        rows = "".join(
            f'<a href="{escape(href)}">{escape(text)}</a>  01-Jan-2026 00:00  -\n'
            for href, text in (names | self.extra).items()
        )
        title = f"Index of {escape(asked.path)}"
        page = (
            f'<html><head><title>{title}</title></head><body><h1>{title}</h1><pre><a href="../">../</a>\n{rows}</pre>'
        )
        return Reply(200, {"Content-Type": "text/html"}, page.encode(), ranges=False)


def secure(answer: Any, folder: Path, **settings: Any) -> tuple[Server, Path]:
    """A server over TLS, and the file with its certificate, for ``SSL_CERT_FILE``; both are made for 127.0.0.1."""
    certificate = _certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return Server(answer, tls=context, **settings), certificate


def _certificate(folder: Path) -> Path:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "irtools tests")])
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path
