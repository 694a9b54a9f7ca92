"""Object stores that fsspec reads: S3 and Google Cloud Storage."""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from irtools.errors import RemoteError
from irtools.remote.address import Address
from irtools.remote.listing import Entry, Listing, Sink, usable
from irtools.remote.meter import METER, Meter

__all__ = ["StoreSource"]

T = TypeVar("T")
_PIECE = 8 << 20
_OPTIONS: dict[str, dict[str, Any]] = {
    "s3": {
        "config_kwargs": {
            "connect_timeout": 10,
            "read_timeout": 20,
            "retries": {"max_attempts": 5, "mode": "standard"},
        }
    },
    "gs": {"timeout": 20},
}
_LOGIN = {"s3": "the usual ones of AWS (environment, ~/.aws)", "gs": "`gcloud auth application-default login`"}


@dataclass
class StoreSource:
    """A folder in a bucket."""

    address: Address
    meter: Meter = field(default_factory=Meter)

    def revision(self) -> str:
        """A folder has none; its files have ETags."""
        return ""

    def listing(self, revision: str) -> Listing:
        """Files directly in the folder."""
        found = self._call(lambda: self._fs.ls(self.address.place, detail=True, refresh=True))
        self._count(0)
        prefix = f"{self.address.place}/"
        files = [
            Entry(
                name, int(item["size"] or 0), str(item.get("ETag") or item.get("etag") or item.get("generation") or "")
            )
            for item in found
            if item.get("type") == "file" and (name := str(item["name"]).removeprefix(prefix))
        ]
        if not files:
            raise RemoteError("no such folder, or there are no files in it", url=self.address.root)
        entries, left_out = usable(files, self.address.root)
        return Listing(entries, "", left_out)

    def read(self, entry: Entry, start: int, end: int, sink: Sink, revision: str) -> None:
        """Read a range of the version of the listing."""
        while start < end:
            stop = min(start + _PIECE, end)
            piece = self._call(functools.partial(self._range, entry, start, stop), entry.name)
            self._count(len(piece))
            if len(piece) != stop - start:
                raise RemoteError(
                    f"{stop - start} bytes were requested, {len(piece)} arrived; it changed, or the listing is wrong",
                    url=f"{self.address.root}/{entry.name}",
                )
            sink(start, piece)
            start = stop

    def _range(self, entry: Entry, start: int, end: int) -> bytes:
        path = f"{self.address.place}/{entry.name}"
        if self.address.scheme == "s3" and entry.etag:
            bucket, key, version = self._fs.split_path(path)
            named = {"VersionId": version} if version else {}
            asked = {"Bucket": bucket, "Key": key, "Range": f"bytes={start}-{end - 1}", "IfMatch": entry.etag, **named}
            answer = self._fs.call_s3("get_object", **asked)
            return bytes(_body(self._fs, answer["Body"], end - start))
        return bytes(self._fs.cat_file(path, start=start, end=end))

    def _count(self, size: int) -> None:
        for meter in (self.meter, METER):
            meter.add(bytes_=size, requests=1)

    @functools.cached_property
    def _fs(self) -> Any:
        import fsspec

        options = dict(_OPTIONS[self.address.scheme])
        if self.address.scheme == "s3" and not _has_aws_login():
            options["anon"] = True
        return fsspec.filesystem(self.address.scheme, use_listings_cache=False, **options)

    def _call(self, ask: Callable[[], T], name: str = "") -> T:
        where = f"{self.address.root}/{name}" if name else self.address.root
        try:
            return ask()
        except FileNotFoundError:
            raise RemoteError("not found; check the bucket and the folder", url=where) from None
        except PermissionError:
            raise RemoteError(
                f"access denied; give credentials that may read it: {_LOGIN[self.address.scheme]}", url=where
            ) from None
        except RemoteError:
            raise
        except Exception as error:
            raise RemoteError(_reason(error), url=where) from None


def _has_aws_login() -> bool:
    from botocore.session import Session

    try:
        return Session().get_credentials() is not None
    except Exception:  # a broken profile: the request says what is wrong
        return True


def _body(filesystem: Any, body: Any, size: int) -> bytes:
    """The body of an answer; one byte more than there should be tells that it is too long."""
    from fsspec.asyn import sync

    async def read() -> bytes:
        pieces, left = [], size + 1
        try:
            while left and (piece := await body.read(left)):
                pieces.append(piece)
                left -= len(piece)
        finally:
            body.close()
        return b"".join(pieces)

    return bytes(sync(filesystem.loop, read))


def _reason(error: Exception) -> str:
    """Sentence about an error of the client, whose own text can have a signed address."""
    name = type(error).__name__
    code = getattr(error, "response", {}).get("Error", {}).get("Code", "") if hasattr(error, "response") else ""
    if isinstance(error, OSError) and (error.errno == errno.EINVAL and "condition" in str(error)):
        return "changed while it was read; run the command again"
    if code == "PreconditionFailed":
        return "changed while it was read; run the command again"
    if code in ("SlowDown", "TooManyRequests", "Throttling") or (
        isinstance(error, OSError) and error.errno == errno.EBUSY
    ):
        return "rate-limited; wait some minutes, and run the command again"
    if "Credential" in name or "RefreshError" in name:
        return "the credentials are not complete or not valid; correct them"
    if "Connect" in name or "Timeout" in name or "Connection" in name:
        return "no network, or the store is not reachable; what the cache has can be read with --offline"
    return f"the store answers with an error ({code or name})"
