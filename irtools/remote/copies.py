"""The copy of one export in the cache: files of the listed sizes, whose bytes are fetched when they are read."""

from __future__ import annotations

import errno
import functools
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from irtools.errors import RemoteError, failed_transfers
from irtools.ir.hashes import hash_of
from irtools.ir.reading import NotFetchedError, kind_of, read_limit
from irtools.remote.address import parse
from irtools.remote.cache import STATE, load, save
from irtools.remote.ledger import Filled, entries_from, entries_to
from irtools.remote.lines import download_line
from irtools.remote.listing import Entry, Listing, Source
from irtools.text import listed, plural, size_text

__all__ = ["WEIGHTS_AT_MOST", "Copy", "Failed", "known_listing"]

WEIGHTS_AT_MOST = 500_000
"""Bytes that are fetched from the weights of one export; ``irtools.lint`` reads no more of a local one."""
_WHOLE = (".xml", ".json", ".jinja")
_WORKERS = 24
_NEAR = 16_384
"""Bytes between two ranges that may be fetched as one: a request takes longer."""
_JOINED_AT_MOST = WEIGHTS_AT_MOST // 2
"""Bytes of weights up to which ranges are joined; the rest is for ranges that something reads later."""
_AHEAD = 1 << 20
"""Bytes of the largest tokenizer.json that is fetched before something asks for it."""
_MOST_AHEAD = 200
_AGAIN_AFTER = 20.0
"""Seconds after a failed transfer in which other files of the export are not tried."""
_TOGETHER = 1 << 30
"""Bytes of all files that are fetched whole."""


@dataclass(frozen=True, slots=True)
class Failed:
    """An error of a server, and when it was."""

    error: RemoteError
    at: float = field(default_factory=time.monotonic)

    @property
    def is_recent(self) -> bool:
        """True if nobody should try again now."""
        return time.monotonic() - self.at < _AGAIN_AFTER


def known_listing(folder: Path) -> Listing | None:
    """The listing of a copy that the cache has; None if it has none, or not a whole one."""
    state = load(folder / STATE)
    try:
        entries, _ = entries_from(state["files"])
        return Listing(tuple(entries), str(state["revision"]), tuple(map(str, state["left_out"])))
    except (KeyError, TypeError, ValueError):
        return None


@dataclass(eq=False)
class Copy:
    """A folder of the cache that stands for an export.

    Parameters
    ----------
    url : str
        Root of the export.
    folder : Path
        Folder of the cache; it has the state, and below it the directory with the files.
    name : str
        Name of that directory.
    lock : callable
        Makes the lock of the folder against other processes.
    """

    url: str
    folder: Path
    name: str
    source: Source
    listing: Listing
    lock: Callable[[], AbstractContextManager[object]]
    notes: dict[str, None] = field(default_factory=dict, init=False)
    _filled: dict[str, Filled] = field(default_factory=dict, init=False, repr=False)
    _weights_bytes: int = field(default=0, init=False, repr=False)
    _whole_bytes: int = field(default=0, init=False, repr=False)
    _reached: set[str] = field(default_factory=set, init=False, repr=False)
    _unreadable: dict[str, str] = field(default_factory=dict, init=False, repr=False)
    _failed: Failed | None = field(default=None, init=False, repr=False)
    _guard: threading.RLock = field(default_factory=threading.RLock, init=False, repr=False)

    @property
    def directory(self) -> Path:
        """The directory with the files."""
        return self.folder / self.name

    @functools.cached_property
    def entries(self) -> dict[str, Entry]:
        """Files by name."""
        return {entry.name: entry for entry in self.listing.entries}

    # -- making it -----------------------------------------------------------------------

    def make(self, earlier: Path | None = None) -> None:
        """Create the files that are missing or have changed, and forget the others.

        Parameters
        ----------
        earlier : Path, optional
            Folder of another revision, whose files are taken over if they are the same.

        Raises
        ------
        RemoteError
            The cache cannot hold such files.
        """
        with self.lock():
            self._adopt(load(self.folder / STATE).get("files"))
            try:
                self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._remove_others()
                self._share(earlier)
                unusable = [entry.name for entry in self.entries.values() if not self._make(entry)]
                self._save()
            except OSError as error:
                raise RemoteError(
                    f"cannot be kept in the cache {self.folder}: {error.strerror}", url=self.url
                ) from error
        for name in unusable:  # not those of the listing: one of them can be a usable name for the second time
            del self.entries[name]
        left_out = [*self.listing.left_out, *unusable]
        if left_out:
            names = listed([repr(name) for name in left_out])
            self.notes[
                f"{self.url}: left out {plural(len(left_out), 'name')} that cannot be file names here: {names}"
            ] = None

    def _adopt(self, rows: object) -> None:
        """Take over what is there of files that have not changed since."""
        try:
            old, filled = entries_from(rows)
        except (KeyError, TypeError, ValueError):
            return
        for entry in old:
            if entry == self.entries.get(entry.name) and entry.etag and self._sound(entry) and entry.name in filled:
                self._filled[entry.name] = filled[entry.name]

    def _share(self, earlier: Path | None) -> None:
        """Link files of an earlier revision; what one of the two fills later is in the other one too."""
        if earlier is None or earlier == self.folder:
            return
        try:
            old, filled = entries_from(load(earlier / STATE).get("files"))
        except (KeyError, TypeError, ValueError):
            return
        for entry in old:
            source, path = earlier / self.name / entry.name, self.directory / entry.name
            same = entry == self.entries.get(entry.name) and (entry.sha256 or entry.git)
            if same and entry.name in filled and entry.name not in self._filled and self._sound(entry, source):
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                with suppress(OSError):  # a file system without hard links: it is fetched again
                    os.link(source, path)
                    self._filled[entry.name] = filled[entry.name]

    def _sound(self, entry: Entry, path: Path | None = None) -> bool:
        path = path or self.directory / entry.name
        return path.is_file() and not path.is_symlink() and path.stat().st_size == entry.size

    def _remove_others(self) -> None:
        for path in sorted(self.directory.rglob("*"), reverse=True):
            if path.is_dir() and not path.is_symlink():
                continue
            name = path.relative_to(self.directory).as_posix()
            if name not in self._filled:
                path.unlink()

    def _make(self, entry: Entry) -> bool:
        """Make a sparse file; False for a name that the file system does not tell from another one, or not take."""
        if entry.name in self._filled:
            return True
        path = self.directory / entry.name
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0), 0o600)
        except (FileExistsError, NotADirectoryError):
            return False
        except OSError as error:
            if error.errno in (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL):
                return False
            raise
        try:
            os.ftruncate(handle, entry.size)
        finally:
            os.close(handle)
        return True

    def _save(self) -> None:
        save(
            self.folder / STATE,
            {
                "url": self.url,
                "revision": self.listing.revision,
                "left_out": self.listing.left_out,
                "files": entries_to(self.listing.entries, self._filled),
            },
        )

    # -- filling it ------------------------------------------------------------------------

    def prefetch(self, folder: str) -> None:
        """Fetch the files of one folder that nearly every command reads, in parallel.

        Raises
        ------
        RemoteError
            A file cannot be fetched.
        """
        inside = [entry for entry in self.entries.values() if entry.name.rpartition("/")[0] == folder]
        ahead = [
            entry
            for entry in inside
            if self._is_whole(entry) and (kind_of(Path(entry.name)) != "tokenizer" or entry.size <= _AHEAD)
        ]
        ahead.sort(key=lambda entry: not entry.name.endswith(".xml"))
        with self._guard:
            missing = [
                (entry, start, end)
                for entry in ahead[:_MOST_AHEAD]
                for start, end in self._filled.get(entry.name, Filled()).missing(0, entry.size)
            ]
            self._fetch([(entry, 0, entry.size) for entry in dict.fromkeys(entry for entry, _, _ in missing)])

    def hashes(self, path: str) -> Mapping[str, str]:
        """Hashes that the listing has of a file."""
        entry = self.entries.get(self._name(path))
        known = {"sha256": entry.sha256, "git": entry.git} if entry is not None else {}
        return {kind: value for kind, value in known.items() if value}

    def _name(self, path: str) -> str:
        return os.path.relpath(os.path.realpath(path), os.path.realpath(self.directory)).replace(os.sep, "/")

    def fill(self, path: str, ranges: Sequence[tuple[int, int]], /) -> None:
        """Fetch what is missing of some ranges, each from a start to an end; a text file is fetched whole.

        Raises
        ------
        NotFetchedError
            The bytes cannot be fetched, or are beyond what is fetched of weights.
        """
        name = self._name(path)
        entry = self.entries.get(name)
        if entry is None:
            return
        with self._guard:
            filled = self._filled.setdefault(name, Filled())
            whole = self._is_whole(entry)
            wanted = [(0, entry.size)] if whole else [(start, min(end, entry.size)) for start, end in ranges]
            gaps = [gap for start, end in sorted(wanted) if start < end for gap in filled.missing(start, end)]
            if not gaps:
                return
            if name in self._unreadable:
                raise NotFetchedError(errno.EIO, self._unreadable[name], path)
            if self._failed is not None and self._failed.is_recent:
                failed_transfers.append(self._failed.error)
                raise NotFetchedError(errno.EIO, str(self._failed.error), path)
            gaps = wanted if whole else self._within_budget(path, gaps)
            try:
                self._fetch([(entry, start, end) for start, end in gaps])
            except RemoteError as error:
                failed_transfers.append(error)
                self._failed = Failed(error)
                raise NotFetchedError(errno.EIO, str(error), path) from error
            except NotFetchedError as error:
                self._unreadable[name] = str(error.strerror)
                self.notes[f"{self.url}/{name}: {error.strerror}, so checks that need its values are skipped"] = None
                raise

    def _within_budget(self, path: str, gaps: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        joined = _joined(gaps, _JOINED_AT_MOST - self._weights_bytes)
        size = sum(end - start for start, end in joined)
        if self._weights_bytes + size > WEIGHTS_AT_MOST:
            kilobytes = WEIGHTS_AT_MOST // 1000
            self.notes[
                f"{self.url}: checks that need more than {kilobytes} kB of the weights are skipped; "
                f"for them, run `{download_line(parse(self.url), self.listing.revision)}` and give that directory"
            ] = None
            raise NotFetchedError(errno.EFBIG, f"is beyond the {kilobytes} kB of weights that are fetched", path)
        self._weights_bytes += size
        return joined

    def _is_whole(self, entry: Entry) -> bool:
        path = Path(entry.name)
        return path.suffix.lower() in _WHOLE and entry.size <= read_limit(kind_of(path)).size

    def _fetch(self, jobs: Sequence[tuple[Entry, int, int]]) -> None:
        if not jobs:
            return
        self._whole_bytes += sum(end - start for entry, start, end in jobs if self._is_whole(entry))
        if self._whole_bytes > _TOGETHER:
            raise RemoteError(
                f"its XML and JSON files have more than {size_text(_TOGETHER)}; download the export", url=self.url
            )
        # The first request for a file is redirected; the others then know where to.
        first = {job[0].name: job for job in reversed(jobs) if job[0].name not in self._reached}
        self._reached.update(first)
        try:
            for batch in (list(first.values()), [job for job in jobs if job is not first.get(job[0].name)]):
                self._fetch_all(batch)
        finally:
            self._keep()

    def _fetch_all(self, jobs: Sequence[tuple[Entry, int, int]]) -> None:
        with ThreadPoolExecutor(min(_WORKERS, max(len(jobs), 1))) as pool:
            futures = [pool.submit(self._fetch_one, *job) for job in jobs]
            try:
                for (entry, start, end), future in zip(jobs, futures, strict=True):
                    future.result()
                    self._filled.setdefault(entry.name, Filled()).add(start, end)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _fetch_one(self, entry: Entry, start: int, end: int) -> None:
        path = self.directory / entry.name
        handle = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0))
        try:
            self.source.read(entry, start, end, functools.partial(_write, handle), self.listing.revision)
            if hasattr(os, "fdatasync"):
                os.fdatasync(handle)  # before the state says that the bytes are there
        except OSError as error:
            if isinstance(error, NotFetchedError):
                raise
            raise RemoteError(f"cannot be kept in the cache {self.folder}: {error.strerror}", url=self.url) from error
        finally:
            os.close(handle)
        if start == 0 and end == entry.size and (entry.sha256 or entry.git):
            self._require_content(entry, path)

    def _require_content(self, entry: Entry, path: Path) -> None:
        known, found = (entry.sha256, "sha256") if entry.sha256 else (entry.git, "git")
        with path.open("rb") as file:  # not through the provider of the file, which waits for this fetch
            content = hash_of(file, found)
        if content != known:
            raise RemoteError(
                "its content does not have the hash of the listing; run the command again",
                url=f"{self.url}/{entry.name}",
            )

    def _keep(self) -> None:
        """Save the state, with what other processes have fetched meanwhile."""
        with self.lock():
            before = dict(self._filled)
            self._adopt(load(self.folder / STATE).get("files"))
            for name, own in before.items():
                merged = self._filled.setdefault(name, own)
                if merged is not own:
                    for start, end in own.ranges:
                        merged.add(start, end)
            self._save()


def _joined(ranges: Sequence[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """Join sorted ranges across the smallest holes between them, up to ``most`` bytes in all."""
    spare = most - sum(end - start for start, end in ranges)
    holes = sorted((start - end, number) for number, ((_, end), (start, _)) in enumerate(pairwise(ranges), 1))
    across = set()
    for hole, number in holes:
        if hole > 0 and (hole > spare or hole > _NEAR):
            break
        spare -= max(hole, 0)
        across.add(number)
    joined: list[tuple[int, int]] = []
    for number, (start, end) in enumerate(ranges):
        if number in across:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _write(handle: int, offset: int, piece: bytes) -> None:
    view = memoryview(piece)
    while view:
        if hasattr(os, "pwrite"):
            count = os.pwrite(handle, view, offset)
        else:  # Windows, where each job has a handle of its own too
            os.lseek(handle, offset, os.SEEK_SET)
            count = os.write(handle, view)
        view, offset = view[count:], offset + count
