"""Read a ``graph.pbtxt`` of OpenVINO Model Server, which may be of any size and content."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from irtools.errors import os_reason
from irtools.ir.reading import read_file
from irtools.serving.fields import LAST_RELEASE
from irtools.serving.schema import Schema, schema
from irtools.text import is_url, shortened

__all__ = [
    "GRAPH_FILE",
    "GraphFile",
    "LlmNode",
    "Problem",
    "graph_files",
    "read_graph",
    "reads_images",
    "resolve",
    "same",
]

GRAPH_FILE = "graph.pbtxt"
_CALCULATOR = "LLMCalculator"
"""End of the names of the calculators that the server gives a language model (`llm_node_initializer.cpp`)."""
_VLM_FILES = ("openvino_text_embeddings_model.xml", "openvino_vision_embeddings_model.bin")
_SPEECH = "openvino_talker_model.xml"
_NAME = re.compile(r"[\w.]+")
_OUTSIDE = re.compile(r"Type (\S+) not found in descriptor pool|Extension ")
_MOST_TYPES = 16


@dataclass(frozen=True, slots=True)
class Problem:
    """Reason for which the server refuses a graph.

    Attributes
    ----------
    message : str
        Without full stop.
    line : int or None
        Counted from 1.
    unknown : str
        Name that the release does not know: a field, or a value of an enumeration; ``""`` for other reasons.
    """

    message: str
    line: int | None = None
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class LlmNode:
    """A node with a language model.

    Attributes
    ----------
    options : message
        ``mediapipe.LLMCalculatorOptions`` of the release.
    """

    file: Path
    lines: tuple[str, ...] = field(repr=False)
    options: Any = field(repr=False)

    def has(self, name: str) -> bool:
        """True if the graph gives an option; False too if the release does not have it."""
        return name in self.options.DESCRIPTOR.fields_by_name and self.options.HasField(name)

    def value(self, name: str) -> Any:
        """An option, or its default; None if the release does not have it. The name for a value of an enumeration."""
        described = self.options.DESCRIPTOR.fields_by_name.get(name)
        if described is None:
            return None
        value = getattr(self.options, name)
        return described.enum_type.values_by_number[value].name if described.enum_type is not None else value

    def line(self, name: str) -> int | None:
        """Line of an option: the first with its name and value, which nodes differ in; else with its name."""
        option = re.compile(rf"(?:^|[\s{{,;]){re.escape(name)}\s*:?(.*)")
        matches = ((number, option.search(line.partition("#")[0])) for number, line in enumerate(self.lines, 1))
        found = {number: match[1] for number, match in matches if match is not None}
        value = str(self.value(name))
        return next((number for number, rest in found.items() if value in rest), next(iter(found), None))


@dataclass(frozen=True, slots=True)
class GraphFile:
    """A graph, as far as it can be read.

    Attributes
    ----------
    problems : tuple of Problem
        Reasons for which the server refuses it.
    nodes : tuple of LlmNode
        Nodes with a language model; empty if the graph cannot be read, or has other models.
    """

    path: Path
    problems: tuple[Problem, ...] = ()
    nodes: tuple[LlmNode, ...] = ()
    text: str = field(default="", repr=False)


def graph_files(directory: Path, release: str) -> tuple[GraphFile, ...]:
    """Graphs in a model directory and beside it.

    The one beside counts if it serves this directory; or if it cannot be read and has the name of the directory in it.
    """
    inside = directory / GRAPH_FILE
    found = [read_graph(inside, release)] if _exists(inside) else []
    if is_url(str(directory)):
        return tuple(found)  # above it is another repository, or a list of them
    whole = Path(os.path.abspath(directory))  # noqa: PTH100  # `resolve` would leave the directory that a link is in
    parent = directory.parent if directory.name == whole.name else whole.parent
    if _exists(parent / GRAPH_FILE):
        graph = read_graph(parent / GRAPH_FILE, release)
        if any(same(resolve(node, "models_path"), directory) for node in graph.nodes) or (
            graph.problems and not graph.nodes and whole.name and whole.name in graph.text
        ):
            found.append(graph)
    return tuple(found)


def reads_images(directory: Path) -> bool:
    """True if the server takes a model for one of text and images (`determinePipelineType`)."""
    return all((directory / name).exists() for name in _VLM_FILES) and not (directory / _SPEECH).exists()


def resolve(node: LlmNode, option: str) -> Path | None:
    """Path of an option, as the server finds it: a relative one starts at the graph, which an empty one leads to.

    None without a draft: an empty path of one is none.
    """
    text = node.value(option)
    return node.file.parent / text if text or option == "models_path" else None


def same(path: Path | None, directory: Path) -> bool:
    """True if a path leads to a directory."""
    try:
        return path is not None and path.samefile(directory)
    except (OSError, ValueError):  # a NUL in the path is a ValueError
        return False


def _exists(path: Path) -> bool:
    try:
        return path.exists() or path.is_symlink()
    except OSError:
        return True  # reading it says why


def read_graph(path: Path, release: str) -> GraphFile:
    """Read a graph as a release of the server does; whatever is wrong with the file is a problem of the result.

    Raises
    ------
    UsageError
        protobuf is not installed.
    """
    known = schema(release)
    try:
        text = read_file(path, "graph").decode("utf-8-sig")
    except OSError as error:
        return GraphFile(path, (Problem(f"cannot be read: {os_reason(error)}"),))
    except UnicodeDecodeError as error:
        return GraphFile(path, (Problem(f"is not text in UTF-8 ({error.reason} at byte {error.start})"),))
    graph, failure = _parse(text, known)
    if failure.outside:
        graph = _with_others(text, failure, release)
        if _CALCULATOR not in text or (graph is not None and not any(map(_is_llm, graph.node))):
            return GraphFile(path, text=text)  # of other models
    if graph is None:
        return GraphFile(path, (_explained(text, failure, known),), text=text)
    nodes = list(filter(_is_llm, graph.node))
    lines = tuple(text.splitlines())
    problems: list[Problem] = []
    found: list[LlmNode] = []
    for node in nodes:
        options, problem = _options(node, known)
        problems += [problem] if problem is not None else []
        found += [LlmNode(path, lines, options)] if options is not None else []
    return GraphFile(path, tuple(problems), tuple(found), text)


def _is_llm(node: Any) -> bool:
    return bool(node.calculator.endswith(_CALCULATOR))


def _with_others(text: str, failure: _Failure, release: str) -> Any:
    """Message of a text with calculators that are not in the schema; None if it has none, or cannot be read so.

    What protobuf then skips of them, it skips in all nodes: a misspelt option of a language model is not told.
    """
    graph: Any = None
    types: list[str] = []
    for _ in range(_MOST_TYPES):
        if not failure.outside:
            break
        types += [failure.type] if failure.type else []
        try:
            known = schema(release, tuple(types))
        except TypeError:  # a name that cannot be one of a type
            return None
        graph, failure = _parse(text, known, lenient=True)
    return None if graph is not None and graph.node and all(map(_is_llm, graph.node)) else graph


def _options(node: Any, known: Schema) -> tuple[Any, Problem | None]:
    """Options of a node with a language model, or the reason why the server does not get them."""
    from google.protobuf.message import DecodeError

    if not node.node_options:
        return None, Problem(f"the node {node.name!r} has no node_options")
    try:
        options = known.options(node.node_options[0])
    except DecodeError:
        options = None
    if options is None:
        return None, Problem(f"the first node_options of {node.name!r} are not those of a language model")
    return options, None if node.name else Problem("the node of the language model has no name")


@dataclass(frozen=True, slots=True)
class _Failure:
    message: str
    line: int | None = None
    column: int | None = None
    outside: bool = False
    """True for a type or an extension that is not in the schema, such as the options of another calculator."""
    type: str = ""
    """Name of that type."""


def _parse(text: str, known: Schema, *, lenient: bool = False) -> tuple[Any, _Failure]:
    """Message of a text, or None and the reason."""
    from google.protobuf import text_format
    from google.protobuf.message import Error

    graph = known.new("CalculatorGraphConfig")
    try:
        text_format.Parse(
            text, graph, descriptor_pool=known.pool, allow_unknown_extension=lenient, allow_unknown_field=lenient
        )
    except text_format.ParseError as error:
        place = re.match(r"\d+:\d+ : (?:'.*': )?", str(error), re.DOTALL)
        message = str(error)[place.end() if place else 0 :].rstrip(".")
        outside = _OUTSIDE.match(message)
        kind = outside[1] or "" if outside else ""
        return None, _Failure(shortened(message), error.GetLine(), error.GetColumn(), outside is not None, kind)
    except RecursionError:
        return None, _Failure("it is nested too deeply")
    except Error as error:  # such as a required field that is missing
        return None, _Failure(str(error).rstrip("."))
    except (ValueError, TypeError, KeyError) as error:  # protobuf's parser raises them for some malformed texts
        return None, _Failure(f"it is malformed ({error})")
    return graph, _Failure("")


def _explained(text: str, failure: _Failure, known: Schema) -> Problem:
    """Problem of a text that a release refuses: a name that it does not know, or anything else."""
    newest = _parse(text, schema(LAST_RELEASE))[0] is not None
    if newest or _parse(text, known, lenient=True)[0] is not None:
        unknown = _name_at(text, failure)
        if unknown:
            return Problem(failure.message, failure.line, shortened(unknown))
    return Problem(failure.message, failure.line)


def _name_at(text: str, failure: _Failure) -> str:
    if failure.line is None or failure.column is None:
        return ""
    line = (text.split("\n")[failure.line - 1 :] or [""])[0]
    match = _NAME.match(line, failure.column - 1)
    return match[0] if match else ""
