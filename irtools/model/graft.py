"""A graft: a smaller draft head in the target, which the runtime copies into the draft in place of lm_head.

GenAI 2026.4 takes the first Result whose source has the tensor name ``logits`` or whose friendly name is ``logits``,
requires its source to be a MatMul and copies the weights of this MatMul (``mtp_model_transforms.cpp``). The main
pipeline reads its logits by tensor name. So a Result with the friendly name ``logits`` before the model's own decides
what the draft computes, and changes no text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from irtools.graph.view import GraphView
from irtools.text import plural

__all__ = ["GRAFT_OUTPUT", "GRAFT_PREFIX", "RENAMED", "Graft", "draft_head_text", "find_graft", "graft_ops"]

GRAFT_PREFIX = "irtools.graft/"
"""Start of the friendly names of the ops that a graft adds; OpenVINO keeps friendly names."""

GRAFT_OUTPUT = "irtools.graft.logits"
"""Name of the output of a draft head in the target."""
RENAMED = re.compile(re.escape(GRAFT_PREFIX) + r"[0-9]+/own/(.+)", re.DOTALL)
"""Friendly name of the model's own Result if it was named ``logits``: the graft takes that name."""

_OWN = re.compile(re.escape(GRAFT_PREFIX) + r"own/([0-9]{1,18})/")
_LOGITS = "logits"
_HIDDEN = "last_hidden_state"


@dataclass(frozen=True, slots=True)
class Graft:
    """A draft head in the target.

    Attributes
    ----------
    result : int
        Layer id of the Result with the friendly name ``logits``.
    matmul : int
        Layer id of its MatMul.
    rows : int
        Number of tokens that the draft head covers; -1 if unknown.
    hidden : int or None
        Layer id of the Result ``last_hidden_state``, which tells the runtime what the draft reads.
    first : bool
        True if the runtime takes this Result, because it stands before the model's own.
    """

    result: int
    matmul: int
    rows: int
    hidden: int | None
    first: bool


def find_graft(graph: GraphView) -> Graft | None:
    """Find the draft head of a target; None if the target has none, or if it is no target with logits."""
    results = graph.results
    own = graph.result_named(_LOGITS)
    other = next((key for key in results if key != own and graph.op_name(key) == _LOGITS), None)
    if own is None or other is None:
        return None
    source = graph.inputs(other)[0]
    if graph.op_type(source.op) != "MatMul":  # another output that happens to have the name
        return None
    shape = graph.shape(source)
    return Graft(
        result=other,
        matmul=source.op,
        rows=shape[-1] if shape else -1,
        hidden=graph.result_named(_HIDDEN),
        first=results.index(other) < results.index(own),
    )


def graft_ops(graph: GraphView) -> tuple[int, ...]:
    """Layer ids of the ops that irtools has added for a draft head, in file order, without the Result ``logits``."""
    return tuple(
        key for key, name in zip(graph.scan.ids, graph.scan.names, strict=True) if name.startswith(GRAFT_PREFIX)
    )


def draft_head_text(target: GraphView | None, mtp: GraphView | None) -> str:
    """Phrase about the draft head of an export, such as ``the first 100 tokens, in the target``; ``""`` without one."""
    graft = find_graft(target) if target is not None else None
    if graft is not None:
        ignored = "" if graft.first else ", ignored by the runtime"
        return f"the first {plural(graft.rows, 'token', grouped=True)}, in the target{ignored}"
    if mtp is None:
        return ""
    marks = (_OWN.match(mtp.op_name(key)) for key in graft_ops(mtp))
    own = next((int(mark[1]) for mark in marks if mark is not None), None)
    return f"{plural(own, 'token', grouped=True)}, in the MTP part" if own is not None else ""
