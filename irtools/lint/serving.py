"""Graphs of OpenVINO Model Server that serve an export: the draft of each, and what drafting with it needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from irtools.errors import IrtoolsError
from irtools.lint.conditions import conditions
from irtools.lint.context import Context
from irtools.lint.finding import Condition, Finding, Severity
from irtools.lint.pair import drafted_by
from irtools.model.directory import ModelDirectory
from irtools.serving.graph_file import GraphFile, LlmNode, graph_files, resolve, same
from irtools.serving.schema import available

__all__ = ["SERVER_TOKENS", "Served", "finding_in_graph", "is_directory", "judged", "served", "stateful"]

SERVER_TOKENS = 5
"""Tokens that the server drafts if neither the request nor generation_config.json has a number
(`base_generation_config_builder.cpp`)."""
_STATEFUL = ("LM", "VLM", "OMNI")


@dataclass(frozen=True, slots=True)
class Served:
    """A node of a graph that serves the export.

    Attributes
    ----------
    draft_path : Path or None
        Directory of the draft, as the server finds it; None without ``draft_models_path``.
    draft : ModelDirectory or None
        The draft; None without one, and if there is no model in its directory.
    """

    node: LlmNode
    draft_path: Path | None = None
    draft: ModelDirectory | None = None
    context: Context | None = field(default=None, repr=False)

    @property
    def strategy(self) -> str:
        """Decoding strategy that the draft is for; ``""`` without a draft, and if it cannot be told."""
        names = drafted_by(self.context) if self.context is not None and self.draft is not None else ()
        return names[0] if len(names) == 1 else ""

    def needs(self, setting: str) -> Condition | None:
        """Condition of the decoding strategy for a setting of GenAI; None if it has none."""
        if self.context is None or not self.strategy:
            return None
        found = (one for one in conditions(self.context, self.strategy) if one.setting == setting)
        return next(found, None)


def judged(context: Context) -> tuple[GraphFile, ...]:
    """Graphs in the model directory and beside it; none without protobuf, which cannot be read then."""
    return context.kept(
        "graphs", lambda: graph_files(context.export.directory, context.target_runtime) if available() else ()
    )


def served(context: Context) -> tuple[Served, ...]:
    """Nodes of these graphs that serve the export, or a path that does not exist here."""
    return context.kept("served", lambda: tuple(_served(context)))


def _served(context: Context) -> Iterator[Served]:
    for graph in judged(context):
        for node in graph.nodes:
            path = resolve(node, "models_path")
            if path is not None and (same(path, context.export.directory) or not is_directory(path)):
                yield _with_draft(context, node)


def _with_draft(context: Context, node: LlmNode) -> Served:
    path = resolve(node, "draft_models_path")
    if path is None or not is_directory(path):
        return Served(node, path)
    try:
        draft = context.export if same(path, context.export.directory) else ModelDirectory.open(path)
    except IrtoolsError:
        return Served(node, path)
    if not draft.target_candidates and draft.mtp is None:
        return Served(node, path)
    return Served(node, path, draft, context.with_draft(draft))


def is_directory(path: Path) -> bool:
    """True for a directory; False for a path that no system accepts too."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def stateful(node: LlmNode) -> bool:
    """True if the server decodes without continuous batching, and so without a draft (`determinePipelineType`)."""
    kind = node.value("pipeline_type")
    return kind in _STATEFUL or (kind == "AUTO" and node.value("device") == "NPU")


def finding_in_graph(node: LlmNode, option: str, message: str, hint: str, severity: Severity | None = None) -> Finding:
    """Finding at an option of a node."""
    return Finding(message, hint, node.file, node.line(option), severity=severity)
