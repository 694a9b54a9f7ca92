"""Facts about an MTP head that several rules need: its profile, its fusion, its norms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from irtools.graph.view import Source
from irtools.lint.model import Context, Finding, Severity
from irtools.lint.run import target_part
from irtools.model.document import Document
from irtools.model.part import Input, Output, Part
from irtools.model.target import head_width
from irtools.model.values import norm_input
from irtools.registry import collect

__all__ = [
    "DECLARATION_KEYS",
    "Declaration",
    "Fusion",
    "Head",
    "MtpProfile",
    "Port",
    "at_op",
    "declaration",
    "expected",
    "head",
    "own_target",
    "qwen_like",
]

DECLARATION_KEYS = ("mtp_num_hidden_layers", "num_nextn_predict_layers", "num_mtp_layers")
"""How config.json says that a checkpoint has MTP layers; which key, depends on the family."""

EXPORTED_FAMILIES = ("qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_6", "qwen3_6_moe")
"""``model_type`` of the families whose MTP head the exporter knows."""


@dataclass(frozen=True, slots=True)
class Port:
    """One port of a profile.

    Attributes
    ----------
    name : str
        Tensor name.
    element_type : str
    shape : tuple of str
        ``?`` for a dimension that must be dynamic, a letter for a width that is the same
        wherever the letter stands, ``2H`` for twice that, a number, or ``*`` for anything.
    needed : bool
        Whether the runtime fails without it; otherwise it is only part of the usual form.
    type_matters : bool
        Whether the runtime fails with another element type.
    friendly_matters : bool
        Whether the runtime looks it up by friendly name too.
    """

    name: str
    element_type: str
    shape: tuple[str, ...]
    needed: bool = True
    type_matters: bool = True
    friendly_matters: bool = False


@dataclass(frozen=True, slots=True)
class MtpProfile:
    """What one family's MTP head looks like: data, found in the rule packs.

    Attributes
    ----------
    name : str
    title : str
        As a noun, for messages.
    inputs, outputs : tuple of Port
    target_outputs : tuple of Port
        What the target must give out for it.
    model_types : tuple of str
        ``model_type`` values of config.json.
    states : int
        Number of state variables.
    attentions : int or None
        Number of attention ops; None: any.
    fusion : bool
        Whether the head joins embeddings and hidden state itself; otherwise it gets them joined.
    experts : bool or None
        Whether its feed-forward block has experts; None: either.
    usable : bool
        Whether GenAI runs it from ``openvino_mtp_model.xml``.
    own_directory : bool
        Whether GenAI runs it as a draft from a directory of its own.
    remark : str
        What a user should know when ``openvino_mtp_model.xml`` is not its place.
    """

    name: str
    title: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    target_outputs: tuple[Port, ...] = ()
    model_types: tuple[str, ...] = ()
    states: int = 2
    attentions: int | None = 1
    fusion: bool = True
    experts: bool | None = None
    usable: bool = True
    own_directory: bool = False
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Declaration:
    """What config.json says about MTP layers.

    Attributes
    ----------
    key : str
        Of config.json, with the section it is in.
    count : int
    """

    key: str
    count: int


def declaration(context: Context) -> Declaration | None:
    """The first key of config.json that says how many MTP layers there are, or None."""
    for prefix, section in (("", context.config), ("text_config.", context.text_config)):
        for key in DECLARATION_KEYS:
            value = section.get(key)
            if isinstance(value, int) and not isinstance(value, bool):
                return Declaration(prefix + key, value)
    return None


_CERTAIN = 0.8
"""Share of port names by which a draft is taken for a head, not for a language model."""

# -- the head --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fusion:
    """Where embeddings and hidden state are joined.

    Attributes
    ----------
    concat : int
        Layer id of the Concat.
    projection : int
        Layer id of the MatMul that reads it.
    operands : tuple of frozenset of str
        Names of the model inputs whose values are in each operand.
    normed : tuple of bool
        Whether each operand is the output of a norm.
    """

    concat: int
    projection: int
    operands: tuple[frozenset[str], ...]
    normed: tuple[bool, ...]


class Head:
    """An MTP head and the profile it is judged by.

    Parameters
    ----------
    part : Part
    profile : MtpProfile
        The one that fits best.
    likeness : float
        How many of the profile's and the head's port names agree, from 0 to 1.
    """

    def __init__(self, part: Part, profile: MtpProfile, likeness: float) -> None:
        self.part = part
        self.profile = profile
        self.likeness = likeness

    @property
    def known(self) -> bool:
        """Whether enough ports agree for the profile's details to mean something."""
        return self.likeness > 0.4

    def input(self, port: Port) -> Input | None:
        """The input that a port of the profile stands for, by tensor name, else by friendly name."""
        return self.part.input(port.name) or self.part.input_called(port.name)

    def output(self, port: Port) -> Output | None:
        """The output that a port of the profile stands for."""
        return self.part.output(port.name)

    def reached(self, port: Input) -> bool:
        """Whether the value of an input is used for some output or state; its shape alone does not count."""
        return port.op in self._used

    @cached_property
    def _used(self) -> set[int]:
        types = self.part.graph.by_type
        return self.part.ancestors([*types.get("Result", ()), *types.get("Assign", ())], through_shapes=False)

    @cached_property
    def experts(self) -> bool:
        """Whether it routes tokens to experts."""
        return next(self.part.live_ops("TopK"), None) is not None

    @cached_property
    def fusion(self) -> Fusion | None:
        """The first Concat of two equally wide values that a MatMul with constant weights reads."""
        graph = self.part.graph
        for concat in sorted(self.part.live_ops("Concat"), key=graph.rank.__getitem__):
            projection = self._projection(concat)
            if projection is not None:
                sources = graph.inputs(concat)
                return Fusion(
                    concat,
                    projection,
                    tuple(self._inputs_above(source) for source in sources),
                    tuple(norm_input(graph, source) is not None for source in sources),
                )
        return None

    def _projection(self, concat: int) -> int | None:
        """The MatMul from twice the width to the width below a Concat of two values."""
        graph = self.part.graph
        sources = graph.inputs(concat)
        widths = [port.shape[-1] for port in map(graph.port, sources) if port is not None and len(port.shape) == 3]
        if len(sources) != 2 or len(widths) != 2 or widths[0] != widths[1] or widths[0] <= 0:
            return None
        if graph.data(concat).get("axis") not in ("-1", "2"):
            return None
        for consumer in graph.consumers(concat):
            below = consumer.op
            if graph.op_type(below) == "MatMul" and any(map(graph.constant, graph.producers(below))):
                outputs = graph.op(below).outputs
                if outputs and outputs[0].shape[-1:] == (widths[0],):
                    return below
        return None

    def _inputs_above(self, source: Source) -> frozenset[str]:
        above = self.part.ancestors([source.op], through_shapes=False)
        return frozenset(
            name for port in self.part.inputs if port.op in above for name in port.names or (port.friendly,)
        )


def _likeness(part: Part, profile: MtpProfile) -> float:
    wanted = {("in", port.name) for port in profile.inputs} | {("out", port.name) for port in profile.outputs}
    there = {_known_name("in", port, wanted) for port in part.inputs}
    there |= {_known_name("out", port, wanted) for port in part.outputs}
    return len(wanted & there) / max(1, len(wanted | there))


def _known_name(side: str, port: Input | Output, wanted: set[tuple[str, str]]) -> tuple[str, str]:
    """The tensor name of a port that a profile has, else the first."""
    return next(((side, name) for name in port.names if (side, name) in wanted), (side, port.label))


def head(context: Context) -> Head | None:
    """The export's MTP head with the profile that is nearest to it.

    That is ``openvino_mtp_model.xml``, or the model of ``--draft`` if it has the ports of a head
    that is a draft of its own. None without a readable one, and with ``--no-mtp``: what is not
    wanted need not be sound.
    """
    if context.expect_mtp is False:
        return None
    if context.mtp is not None:
        return _nearest(context, context.mtp)
    if context.export.mtp is None and context.draft is not None and len(context.draft.target_candidates) == 1:
        document = context.readable(context.draft.target_candidates[0])
        found = _nearest(context, document) if document is not None else None
        if found is not None and found.profile.own_directory and found.likeness > _CERTAIN:
            return found
    return None


def _nearest(context: Context, document: Document) -> Head | None:
    width = head_width(context.part(context.target)) if context.target is not None else None
    model_type = str(context.config.get("model_type", ""))
    return nearest(context.part(document), collect(MtpProfile), model_type, width)


def own_target(context: Context) -> Part | None:
    """The target that a head can belong to: one that takes embeddings and is no draft itself.

    In a text-only export or a draft's directory the head is out of place (MTP006), and comparing
    the two would say nothing more.
    """
    part = target_part(context)
    return part if part is not None and part.input("input_ids") is None else None


def qwen_like(context: Context) -> Head | None:
    """The head, if it is near enough to a form that GenAI runs for its inside to be judged."""
    found = head(context)
    return found if found is not None and found.known and found.profile.usable else None


def at_op(found: Head, op: int | None, message: str, hint: str, severity: Severity | None = None) -> Finding:
    """A finding at an op of the head, or at its ``<net>``."""
    graph, document = found.part.graph, found.part.document
    line = graph.line(op) if op is not None else document.line(document.scan.net_tag)
    return Finding(message, hint, document.path, line, graph.op_name(op) if op is not None else None, severity)


def expected(context: Context, otherwise: Severity | None = None) -> Severity | None:
    """Error when a releasable MTP export was asked for, else ``otherwise``."""
    return Severity.ERROR if context.expect_mtp else otherwise


def nearest(part: Part, profiles: Iterable[MtpProfile], model_type: str = "", width: int | None = None) -> Head | None:
    """Pair a head with the profile whose ports agree most; equal ones by experts and model type.

    Parameters
    ----------
    part : Part
    profiles : iterable of MtpProfile
    model_type : str
        Of config.json.
    width : int, optional
        Hidden size of the target: tells embeddings that are joined already from plain ones.
    """
    experts = next(part.live_ops("TopK"), None) is not None

    def fit(profile: MtpProfile) -> tuple[float, bool, bool]:
        likeness = _likeness(part, profile) * (0.5 if _other_width(part, profile, width) else 1.0)
        return likeness, profile.experts in (None, experts), model_type in profile.model_types

    best = max(profiles, key=fit, default=None)
    return Head(part, best, fit(best)[0]) if best is not None else None


def _other_width(part: Part, profile: MtpProfile, width: int | None) -> bool:
    """Whether an input that the profile has twice as wide as the target is only as wide."""
    doubled = (part.input(port.name) for port in profile.inputs if port.shape[-1] == "2H")
    return width is not None and any(port is not None and port.shape[-1:] == (width,) for port in doubled)
