"""A local S3 server: that of moto, with a count of its requests and bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "a-secret-that-nobody-may-print"


class S3:
    """The threaded server of moto, as ``moto_server`` runs it.

    Attributes
    ----------
    requests : list of (str, str, int)
        Method, path, and bytes of the body that was sent.
    failures : list of str
        Statuses with which the next requests are refused, such as ``"503 Slow Down"``.
    """

    def __init__(self) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
        from werkzeug.serving import make_server

        self.requests: list[tuple[str, str, int]] = []
        self.failures: list[str] = []
        self._application = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._count, threaded=True, request_handler=MotoRequestHandler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> S3:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which the clients of S3 ask this server."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_CONFIG_FILE": "/nonexistent",
            "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "127.0.0.1,localhost",
        }

    def add(self, bucket: str, prefix: str, files: Path) -> None:
        """Make a bucket and upload a directory."""
        self._client.create_bucket(Bucket=bucket)
        for path in sorted(files.iterdir()):
            self.put(bucket, f"{prefix}{path.name}", path.read_bytes())
        self.requests.clear()

    def put(self, bucket: str, key: str, body: bytes) -> None:
        """Write one object."""
        self._client.put_object(Bucket=bucket, Key=key, Body=body)

    @cached_property
    def _client(self) -> Any:
        import boto3

        login = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
        return boto3.client("s3", endpoint_url=self.url, **login)

    def sent(self) -> int:
        """Bytes of the bodies of objects that were sent; listings do not count."""
        return sum(size for method, _, size in self.requests if method == "GET")

    def _count(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if self.failures:
            self.requests.append((method, path, 0))
            start(self.failures.pop(0), [("Content-Length", "0")])
            return []
        return self._counted(method, path, self._application(environ, start))

    def _counted(self, method: str, path: str, body: Iterable[bytes]) -> Iterator[bytes]:
        pieces = list(body)
        self.requests.append((method, path, sum(map(len, pieces))))
        yield from pieces
