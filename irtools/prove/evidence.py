"""Conditions of a measurement, for its record: when, with which programs and files, on which machine and device."""

from __future__ import annotations

import datetime
import hashlib
import os
import platform
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from irtools._version import __version__
from irtools.errors import ExportError, InvalidIRError
from irtools.ir.reading import open_file
from irtools.model.directory import ModelDirectory
from irtools.model.graft import draft_head_text
from irtools.model.provenance import versions
from irtools.model.weights import weights
from irtools.runtime.child import Progress
from irtools.runtime.effective import EffectiveProperties, effective
from irtools.runtime.probe import RuntimeFacts

__all__ = [
    "HEADS",
    "SAMPLING",
    "TIMING",
    "WHOLE",
    "Evidence",
    "changed_file",
    "file_marks",
    "load_averages",
    "model_record",
    "other_file",
]

TIMING = "timing"
"""Key of values that vary between runs: seconds, and the load of the machine."""
_HASHED = (".xml", ".json", ".jinja", ".bin")
HEADS = ("openvino_mtp_model.bin",)
"""Weights that are hashed whole in every run: they decide the acceptance, and are small beside the target's."""
WHOLE = 1 << 30
"""Size in bytes up to which any file is hashed whole: about one second."""
_BLOCK = 1 << 16
_BLOCKS = 1024
SAMPLING = f"the size, and {_BLOCKS} blocks of {_BLOCK} bytes at equal distances, with the first and the last"
"""What the hash of a file covers that is not hashed whole."""
_NO_WEIGHTS = ("tokenizer", "detokenizer")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Conditions of a measurement, read when it begins.

    Use :meth:`take` before the measurement and :meth:`keys` after it.

    Attributes
    ----------
    models : mapping of str to mapping
        Record of each model directory, by its key in the record: ``model``, ``draft``, ...
    compiled : mapping of str to EffectiveProperties
        Properties of the compiled models, by part: ``target``, and ``mtp``, ``draft``, ... for drafts.
    load : tuple of float
        Load averages over 1, 5 and 15 minutes; empty if the system has none.
    """

    date: datetime.datetime
    device: str
    seen: RuntimeFacts
    models: Mapping[str, Mapping[str, Any]]
    compiled: Mapping[str, EffectiveProperties]
    load: tuple[float, ...]

    @classmethod
    def take(
        cls,
        device: str,
        seen: RuntimeFacts,
        models: Mapping[str, ModelDirectory],
        compiled: Mapping[str, Path] | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        whole: bool = False,
        timeout: float = 900.0,
        progress: Progress | None = None,
    ) -> Evidence:
        """Read the conditions.

        Parameters
        ----------
        seen : RuntimeFacts
            Result of :func:`irtools.runtime.probe.probe` for the device.
        models : mapping of str to ModelDirectory
            Directories that take part, by their keys in the record: ``model`` is the target; the keys of drafts begin
            with ``draft``.
        compiled : mapping of str to Path
            ``.xml`` files to compile for their effective properties, by part. Each takes as long as a load of it.
        properties : mapping of str to str
            Properties that the pipelines get.
        whole : bool
            Hash every file whole, also large weights.
        """
        say = progress or (lambda text: None)
        now, load = datetime.datetime.now(datetime.UTC), load_averages()
        say("hashing the files")
        # A draft is hashed whole, as an MTP head: it decides the acceptance.
        recorded = {key: model_record(one, whole=whole or key.startswith("draft")) for key, one in models.items()}
        read: Sequence[EffectiveProperties] = ()
        if compiled:
            say("compiling the models to read their properties")
            read = effective(list(compiled.values()), device, properties, timeout=timeout)
        return cls(now, device, seen, recorded, dict(zip(compiled or (), read, strict=True)), load)

    def keys(self) -> dict[str, Any]:
        """Keys of the record, with the load of the machine at this moment as the load at the end."""
        defaults = dict(self.seen.properties)
        driver = next((value for name, value in defaults.items() if "DRIVER_VERSION" in name), None)
        target = self.compiled["target"].properties if "target" in self.compiled else {}
        return {
            "date": self.date.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "versions": {"irtools": __version__, **self.seen.versions},
            "device": {
                "name": self.device,
                "full_name": defaults.get("FULL_DEVICE_NAME"),
                "driver": driver,
                "properties": {name: target.get(name, value) for name, value in defaults.items()},
                "defaults": defaults,
                "effective": {part: asdict(read) for part, read in self.compiled.items()},
            },
            "machine": {**_machine(), TIMING: {"load_start": list(self.load), "load_end": list(load_averages())}},
            **self.models,
        }


# -- machine ---------------------------------------------------------------------------


def load_averages() -> tuple[float, ...]:
    """Load of the machine over 1, 5 and 15 minutes; empty if the system has none."""
    try:
        return tuple(round(average, 2) for average in os.getloadavg())
    except (OSError, AttributeError):  # Windows
        return ()


def _machine() -> dict[str, Any]:
    return {
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "usable_cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory": _memory(),
    }


def _cpu_model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine()


def _memory() -> int | None:
    """Size of the memory in bytes; None if the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


# -- model directories -----------------------------------------------------------------


def model_record(export: ModelDirectory, *, whole: bool = False) -> dict[str, Any]:
    """Identity of a model directory: name, revision, programs that made it, precision of its weights, files."""
    identity, revision = _origin(export)
    return {
        "path": str(export.path),
        "id": identity,
        "revision": revision,
        "made_with": _made_with(export),
        "draft_head": _draft_head(export),
        "weights": dict(_precisions(export)),
        "files": file_marks(export.directory, whole=whole),
    }


def _made_with(export: ModelDirectory) -> dict[str, str]:
    try:
        return dict(versions(export.target))
    except (InvalidIRError, ExportError):
        return {}


def _draft_head(export: ModelDirectory) -> str | None:
    """Phrase about the draft head; None without one."""
    try:
        return draft_head_text(export.target.graph, export.mtp.graph if export.mtp is not None else None) or None
    except (InvalidIRError, ExportError):
        return None


def _precisions(export: ModelDirectory) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Precisions of the weights of each part, the one with the most bytes first."""
    for name, document in export.parts.items():
        if name in _NO_WEIGHTS:
            continue
        sizes: dict[str, dict[str, int]] = {}
        with suppress(InvalidIRError, ExportError):
            for weight in weights(document.graph):
                if weight.learned:
                    size = sizes.setdefault(weight.precision, {"elements": 0, "bytes": 0})
                    size["elements"] += weight.elements
                    size["bytes"] += weight.size
        most_first = sorted(sizes.items(), key=lambda item: -item[1]["bytes"])
        yield name, [{"precision": precision, **size} for precision, size in most_first]


def _origin(export: ModelDirectory) -> tuple[str | None, str | None]:
    """Name and revision: from the path in a Hugging Face cache, else from a download or clone and ``config.json``."""
    for path in (export.directory.absolute(), export.directory.resolve()):
        for place, part in enumerate(path.parts):
            if part.startswith("models--") and path.parts[place + 1 : place + 2] == ("snapshots",):
                revision = path.parts[place + 2] if len(path.parts) > place + 2 else None
                return part.removeprefix("models--").replace("--", "/"), revision
    try:
        name = export.config.get("_name_or_path")
    except ExportError:
        name = None
    return (name if isinstance(name, str) and name else None), _commit(export.directory)


def _commit(directory: Path) -> str | None:
    """Commit of a directory that ``hf download --local-dir`` or ``git clone`` made; None for any other.

    Read from files, because ``git`` runs programs that the configuration of a repository names.
    """
    found = _first_line(directory / ".cache" / "huggingface" / "download" / "config.json.metadata")
    git = directory / ".git"
    head = _first_line(git / "HEAD")
    if head.startswith("ref: "):
        name = head.removeprefix("ref: ").strip()
        head = "" if ".." in name.split("/") else _first_line(git / name) or _packed_ref(git, name)
    return next((commit for commit in (found, head) if _COMMIT.fullmatch(commit)), None)


def _packed_ref(git: Path, name: str) -> str:
    with suppress(OSError, ValueError), open_file(git / "packed-refs") as file:
        for line in file:
            commit, _, ref = line.decode().strip().partition(" ")
            if ref == name:
                return commit
    return ""


def _first_line(path: Path) -> str:
    with suppress(OSError, ValueError), open_file(path) as file:
        return file.readline(1000).decode().strip()
    return ""


# -- files -----------------------------------------------------------------------------


def file_marks(
    directory: Path, *, whole: bool = False, names: Collection[str] | None = None
) -> dict[str, dict[str, Any]]:
    """Size and hash of each file of a model directory, by its name; only of some ``names`` if given.

    ``sha256`` is the hash of the whole file: of text files, the weights of an MTP head, and weights of up to 1 GiB;
    with ``whole`` of all. Larger weights always have ``sha256_of_samples``, whose scheme is :data:`SAMPLING`.
    """
    try:
        files = sorted(path for path in directory.iterdir() if (names is None or path.name in names) and path.is_file())
    except OSError:  # a directory without read permission
        return {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # hashing releases the lock of the interpreter
        return dict(zip((path.name for path in files), pool.map(lambda path: _mark(path, whole), files), strict=True))


def _mark(path: Path, whole: bool) -> dict[str, Any]:
    mark: dict[str, Any] = {"size": path.stat().st_size, "sha256": None}
    if path.suffix not in _HASHED:
        return mark
    with suppress(OSError), open_file(path) as file:
        if mark["size"] > WHOLE:
            mark |= {"sha256_of_samples": _sampled(file, mark["size"]), "samples": SAMPLING}
        if whole or mark["size"] <= WHOLE or path.name in HEADS:
            file.seek(0)
            mark["sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
    return mark


def _sampled(file: Any, size: int) -> str:
    digest = hashlib.sha256(str(size).encode())
    for number in range(_BLOCKS):
        file.seek((size - _BLOCK) * number // (_BLOCKS - 1))
        digest.update(file.read(_BLOCK))
    return digest.hexdigest()


def other_file(export: ModelDirectory, record: object) -> str:
    """First IR or weights that are not those of a record, as a clause; ``""`` if the record is about these files.

    ``record`` is that of a model directory. Of large weights it may hold only the hash of samples. Tokenizers and
    text files do not matter.
    """
    then = record.get("files") if isinstance(record, Mapping) else None
    return changed_file(then, file_marks(export.directory)) if isinstance(then, Mapping) else "it names no files"


def changed_file(then: Mapping[str, Any], now: Mapping[str, Mapping[str, Any]]) -> str:
    """As :func:`other_file`, for the files of a record and the :func:`file_marks` of a directory."""
    for name in sorted({*then, *now}):
        if name.endswith((".xml", ".bin")) and "tokenizer" not in name:
            if name not in then:
                return f"{name} is not in the record"
            if name not in now:
                return f"{name} is not in this export"
            if not _same(then[name], now[name]):
                return f"{name} has changed since"
    return ""


def _same(then: Any, now: Mapping[str, Any]) -> bool:
    """True if two marks may be of one file: equal in everything that both know."""
    if not isinstance(then, Mapping):
        return False
    pairs = [(then.get(key), now[key]) for key in ("size", "sha256", "sha256_of_samples") if key in now]
    return all(before == after for before, after in pairs if before is not None and after is not None)
