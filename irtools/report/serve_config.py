"""Files that serve an export as it was verified: a graph for OpenVINO Model Server, or Python for OpenVINO GenAI."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from irtools._version import __version__
from irtools.errors import ExportError, OptionError
from irtools.lint.engine import Verification
from irtools.lint.finding import Strategy
from irtools.lint.serving import SERVER_TOKENS
from irtools.model.decoding import DECODING
from irtools.model.directory import ModelDirectory
from irtools.report.snippet import BEST, assistant_tokens, chosen_strategy, draft_directory, snippet_text
from irtools.report.terminal import Column, Style, table
from irtools.serving.graph_file import GRAPH_FILE, reads_images
from irtools.serving.graph_text import config_text, graph_text, oldest_release
from irtools.text import given_fields, short_repr, visible

__all__ = ["CONFIG_FILE", "GENAI_FILE", "SERVERS", "ServeConfig", "ServeSettings", "serve_config", "serve_details"]

SERVERS = {"ovms": "OpenVINO Model Server", "genai": "OpenVINO GenAI"}
"""What files can be written for, by the name on the command line."""
CONFIG_FILE = "ovms_config.json"
"""Not config.json: that is the model's, and the server takes one beside a graph for the models of its subgraph
(`mediapipegraphconfig.cpp`, ``DEFAULT_MODELMESH_SUBCONFIG_FILENAME``)."""
GENAI_FILE = "generate.py"

_BATCHED_TOKENS, _SEQUENCES = 256, 256
"""Defaults of the server (`llm_calculator.proto`)."""
_ONE_REQUEST = ("dflash", "eagle3")
"""Strategies that refuse a second request beside the first: GenAI's `dflash_strategy.cpp`, ``add_request``, and the
limitations of EAGLE-3 in the server's `speculative_decoding/README.md`."""
_SHARED_PREFIXES = ("plain", "draft")
"""Strategies with prefix caching by default, as in the server's `export_model.py`; EAGLE-3 is documented without it."""


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """Settings of a server configuration; None for the default of the decoding strategy.

    Attributes
    ----------
    server : str
        ``ovms`` or ``genai``.
    strategy : str
        A decoding strategy, or ``best``: the one that the draft, or the export alone, is for.
    name : str
        Name under which a server offers the model; by default that of its directory.
    cache_size : int
        Size of the KV cache in GB; 0 lets it grow.
    release : str
        Release of the server to write for.
    """

    server: str = "ovms"
    strategy: str = BEST
    name: str = ""
    device: str = "CPU"
    cache_size: int = 0
    prefix_caching: bool | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    release: str = ""

    def __repr__(self) -> str:
        return short_repr(self, *given_fields(self))


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """Files that serve an export, and what they need.

    Attributes
    ----------
    release : str
        Oldest release of the server that can use them; ``""`` if every release that irtools knows can.
    files : mapping of str to bytes
        Content by name.
    options : mapping
        Options of the graph; empty for GenAI.
    request : mapping
        Fields that each request needs, because the defaults of the server do not fit the decoding strategy.
    start : tuple of str
        Command that starts it; ``{}`` stands for the output directory.
    """

    server: str
    strategy: Strategy
    release: str
    files: Mapping[str, bytes]
    options: Mapping[str, object] = field(default_factory=dict)
    request: Mapping[str, object] = field(default_factory=dict)
    start: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return short_repr(self, self.server, self.strategy.name, *self.files)

    def command(self, output_dir: Path) -> str:
        """The command that starts it, for a shell."""
        return shlex.join(word.replace("{}", str(output_dir)) for word in self.start)

    def text(self, style: Style) -> str:
        """Decoding strategy, release, options and requests."""
        release = f" {self.release} or newer" if self.release else ""
        head = f"{self.strategy.name}, for {SERVERS[self.server]}{release}"
        rows = [(name, _shown(value)) for name, value in self.options.items()]
        if self.request:
            rows.append(("each request", ", ".join(f'"{key}": {value}' for key, value in self.request.items())))
        columns = (Column("", effects=("dim",)), Column("", fold="anywhere"))
        body = f"\n{table(columns, rows, style, indent=2)}" if rows else ""
        return f"{style.paint(visible(head), 'bold')}{body}"


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def serve_config(
    export: ModelDirectory, draft: ModelDirectory | None, found: Verification, output_dir: Path, settings: ServeSettings
) -> ServeConfig:
    """Work out the files that serve an export; nothing is written.

    Parameters
    ----------
    found : Verification
        Of the export with the draft.
    output_dir : Path
        Directory that the files are for: paths in them start there.

    Raises
    ------
    ExportError
        The decoding strategy is not available, or the server cannot use it.
    UsageError
        The strategy needs a draft, a setting does not fit it, or protobuf is not installed.
    """
    if settings.server not in SERVERS:
        raise OptionError(f"there is no server {settings.server!r}", hint=f"Servers are {', '.join(SERVERS)}.")
    if not settings.device.strip():
        raise OptionError("the device is empty", hint="Give one with --device, such as CPU.")
    try:
        strategy = chosen_strategy(export, draft, found.strategies, settings.strategy, substitute=False)
    except ExportError as error:
        if any(one.name == "plain" and one.available for one in found.strategies):
            error.hint = ", and ".join(filter(None, [error.hint, "`--strategy plain` serves it without a draft"]))
        raise
    if settings.server == "genai":
        script = snippet_text(
            export, draft, found.strategies, found.pipelines, wanted=strategy.name, device=settings.device
        )
        files = {GENAI_FILE: f"{_HEAD}\n{script}\n".encode()}
        return ServeConfig(
            "genai", strategy, DECODING[strategy.name].since, files, start=("python", f"{{}}/{GENAI_FILE}")
        )
    where = draft_directory(export, draft, strategy)
    tokens = assistant_tokens(strategy, draft)
    options = dict(_options(export, where, strategy, found, output_dir, tokens, settings))
    release = oldest_release(options, DECODING[strategy.name].since)
    request = _request(strategy, tokens)
    name = settings.name or export.directory.resolve().name
    if not _is_utf8(name):
        raise OptionError(f"the name {name!r} is not valid UTF-8", hint="Give another one with --name.")
    comments = _comments(strategy, release, request)
    files = {
        GRAPH_FILE: graph_text(options, settings.release or release, comments).encode(),
        CONFIG_FILE: config_text(name).encode(),
    }
    start = ["ovms", "--config_path", f"{{}}/{CONFIG_FILE}", "--rest_port", "8000"]
    start += ["--rest_workers", "2"] if strategy.name in _ONE_REQUEST else []
    return ServeConfig("ovms", strategy, release, files, options, request, tuple(start))


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a directory whose name has other bytes
        return False
    return True


_HEAD = f"# Written by irtools {__version__}, serve-config."


def _options(
    export: ModelDirectory,
    draft: Path | None,
    strategy: Strategy,
    found: Verification,
    output_dir: Path,
    tokens: int,
    settings: ServeSettings,
) -> Iterator[tuple[str, object]]:
    """Options of the graph, in the order in which they are shown."""
    backend = next((one.value for one in strategy.conditions if one.setting == "ATTENTION_BACKEND"), "PA")
    if backend != "PA":
        raise ExportError(
            f"OpenVINO Model Server cannot draft with this pair: it needs continuous batching, and "
            f"the pair needs ATTENTION_BACKEND = {backend}",
            path=export.directory,
            hint="`--for genai` writes Python for it, and `--strategy plain` serves it without a draft",
        )
    npu = settings.device == "NPU"
    if npu and draft is not None:
        raise OptionError("--device NPU: there the server decodes without continuous batching, and so without a draft")
    yield "models_path", _path(export.directory, output_dir) or "./"
    if draft is not None:
        yield "draft_models_path", _path(draft, output_dir) or "."
        yield "draft_device", settings.device
    yield "device", settings.device
    if npu:
        return  # the pipeline for it reads none of the options below
    if not any(one.fits for one in found.pipelines if one.name == "ContinuousBatchingPipeline"):
        yield "pipeline_type", "VLM" if reads_images(export.directory) else "LM"
        return  # nor does this one
    yield "cache_size", settings.cache_size
    yield "enable_prefix_caching", _prefix_caching(strategy, settings)
    one_request = strategy.name in _ONE_REQUEST
    yield "max_num_batched_tokens", _batched_tokens(strategy, tokens, settings)
    yield "max_num_seqs", settings.max_num_seqs or (1 if one_request else _SEQUENCES)
    if one_request and (settings.max_num_seqs or 1) > 1:
        raise OptionError(f"--max-num-seqs {settings.max_num_seqs}: {strategy.name} decodes one request at a time")
    if strategy.name == "eagle3":
        yield "draft_eagle3_mode", True


def _path(directory: Path, output_dir: Path) -> str:
    """Path of a directory from the graph: relative below the graph, ``""`` for its own directory, else absolute.

    The server refuses ``..`` in other paths (`filesystem.hpp`, ``isPathEscaped``), and ``..`` after a link leads
    elsewhere.
    """
    inner, outer = Path(os.path.realpath(directory)), Path(os.path.realpath(output_dir))
    if not inner.is_relative_to(outer):
        return inner.as_posix()
    relative = inner.relative_to(outer).as_posix()
    return "" if relative == "." else relative


def _prefix_caching(strategy: Strategy, settings: ServeSettings) -> bool:
    needed = next((one for one in strategy.conditions if one.setting.endswith(".enable_prefix_caching")), None)
    if needed is not None and settings.prefix_caching:
        raise OptionError(f"--prefix-caching: {strategy.name} needs it off for this export: {needed.otherwise!r}")
    if settings.prefix_caching is not None:
        return settings.prefix_caching
    return needed is None and strategy.name in _SHARED_PREFIXES


def _batched_tokens(strategy: Strategy, tokens: int, settings: ServeSettings) -> int:
    wanted = settings.max_num_batched_tokens
    needed = any(one.setting.endswith(".max_num_batched_tokens") for one in strategy.conditions)
    least = max(tokens, SERVER_TOKENS) + 1
    if wanted is not None and needed and wanted < least:
        raise OptionError(
            f"--max-batched-tokens {wanted}: {strategy.name} needs at least {least}, the drafted tokens and one more"
        )
    return wanted or _BATCHED_TOKENS


def _request(strategy: Strategy, tokens: int) -> dict[str, object]:
    """Fields of a request, by the conditions that the defaults of the server do not meet.

    The server samples if the temperature is not 0, and drafts 5 tokens (`base_generation_config_builder.cpp`).
    """
    request: dict[str, object] = {}
    if any(one.setting.endswith(".do_sample") and one.value == "False" for one in strategy.conditions):
        request["temperature"] = 0
    if strategy.name == "mtp" or (strategy.name == "dflash" and tokens < SERVER_TOKENS):
        request["num_assistant_tokens"] = tokens
    return request


def _comments(strategy: Strategy, release: str, request: Mapping[str, object]) -> Iterator[str]:
    yield _HEAD.removeprefix("# ")
    yield f"Decoding strategy {strategy.name}; needs {SERVERS['ovms']} {release} or newer."
    if request:
        fields = ", ".join(f'"{name}": {value}' for name, value in request.items())
        yield f"Each request needs {fields}, unless generation_config.json of the model has it."
    if strategy.name in _ONE_REQUEST:
        yield "One request at a time: start the server with --rest_workers 2."


def serve_details(config: ServeConfig, output_dir: Path) -> dict[str, object]:
    """JSON form of a server configuration."""
    return {
        "for": config.server,
        "strategy": config.strategy.name,
        "release": config.release,
        "options": dict(config.options),
        "request": dict(config.request),
        "conditions": [asdict(one) for one in config.strategy.conditions],
        "command": config.command(output_dir),
        "files": [{"path": str(output_dir / name), "content": data.decode()} for name, data in config.files.items()],
    }
