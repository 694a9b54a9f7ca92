"""Write a ``graph.pbtxt`` and the configuration of OpenVINO Model Server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from irtools.errors import UsageError
from irtools.model.versions import parse_version
from irtools.serving.fields import FIRST_RELEASE, MESSAGES, OPTIONS, PACKAGE
from irtools.serving.schema import releases_with, schema

__all__ = ["config_text", "graph_text", "oldest_release"]

_STREAMS = (("input_stream", "HTTP_REQUEST_PAYLOAD:input"), ("output_stream", "HTTP_RESPONSE_PAYLOAD:output"))
_LOOPBACK = "LOOPBACK"


def graph_text(options: Mapping[str, object], release: str, comments: Iterable[str]) -> str:
    """Text of a graph with one language model.

    The node is that of the server's documentation (`docs/llm/reference.md`): its calculator calls itself through a
    loopback until the answer is complete.

    Parameters
    ----------
    options : mapping
        Options of the language model by name; a value of an enumeration by its name.
    release : str
        Release that must know all of it.
    comments : iterable of str
        Lines at the beginning.

    Raises
    ------
    UsageError
        protobuf is not installed, or the release does not have an option, or a text is not valid UTF-8.
    """
    known = schema(release)
    from google.protobuf import text_format

    graph, llm = known.new("CalculatorGraphConfig"), known.new(OPTIONS)
    for name, value in options.items():
        field = llm.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            raise UsageError(f"OpenVINO Model Server {release} has no option {name}", hint=_since(name))
        if field.enum_type is not None:
            value = field.enum_type.values_by_name[str(value)].number
        try:
            setattr(llm, name, value)
        except ValueError as error:  # a path that is not valid UTF-8, or a number out of range
            raise UsageError(f"{name} cannot be {str(value)!r}: {error}") from error
    node = graph.node.add(name="LLMExecutor", calculator="HttpLLMCalculator")
    for field_name, stream in _STREAMS:
        getattr(graph, field_name).append(stream)
        getattr(node, field_name).extend([f"{_LOOPBACK}:loopback", stream])
    node.input_side_packet.append("LLM_NODE_RESOURCES:llm")
    node.input_stream_info.add(tag_index=f"{_LOOPBACK}:0", back_edge=True)
    packed = node.node_options.add()
    packed.type_url, packed.value = f"type.googleapis.com/{PACKAGE}.{OPTIONS}", llm.SerializeToString()
    node.input_stream_handler.input_stream_handler = "SyncSetInputStreamHandler"
    extension = known.pool.FindExtensionByName(f"{PACKAGE}.SyncSetInputStreamHandlerOptions.ext")
    synced = node.input_stream_handler.options.Extensions[extension].sync_set.add()
    synced.tag_index.append(f"{_LOOPBACK}:0")
    body = text_format.MessageToString(graph, as_utf8=True, descriptor_pool=known.pool)
    return "".join(f"# {_one_line(line)}\n" for line in comments) + body


def _since(name: str) -> str:
    since = releases_with(name)
    return f"It came with {since}." if since else "No release that irtools knows has it."


def _one_line(text: str) -> str:
    """Text of a comment: a line break, such as in the name of a directory, would end it."""
    return re.sub(r"[\x00-\x1f\x7f\u2028\u2029]+", " ", text)


def config_text(name: str) -> str:
    """Configuration that serves the graph beside it under a name (`schema.cpp`, `MODELS_CONFIG_SCHEMA`)."""
    content = {"model_config_list": [{"config": {"name": name, "base_path": "./"}}]}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def oldest_release(options: Iterable[str], since: str) -> str:
    """Oldest release that has some options and what came with another one.

    Parameters
    ----------
    since : str
        A release; ``""`` if there is no such bound.
    """
    releases = [MESSAGES[OPTIONS][name].partition(" since ")[2] for name in options]
    return max([FIRST_RELEASE, since, *releases], key=parse_version)
