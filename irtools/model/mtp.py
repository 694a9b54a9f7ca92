"""MTP heads: the profile of a model family, and a head measured against it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from irtools.graph.view import Source
from irtools.model.part import ModelInput, ModelOutput, PartFacts
from irtools.model.values import norm_input

__all__ = ["Fusion", "MtpHead", "MtpProfile", "ProfilePort", "nearest_profile"]


@dataclass(frozen=True, slots=True)
class ProfilePort:
    """Port of a profile, named by its tensor name.

    Attributes
    ----------
    shape : tuple of str
        ``?`` for a dimension that must be dynamic, a number, ``*`` for any dimension, or a letter. Equal
        letters stand for equal widths, and ``2H`` for twice the width ``H``.
    needed : bool
        True if the runtime fails without the port; otherwise the port is only customary.
    type_matters : bool
        True if the runtime fails with another element type.
    friendly_matters : bool
        True if the runtime also looks the port up by friendly name.
    """

    name: str
    element_type: str
    shape: tuple[str, ...]
    needed: bool = True
    type_matters: bool = True
    friendly_matters: bool = False


@dataclass(frozen=True, slots=True)
class MtpProfile:
    """Form of the MTP head of a model family; the rule packs contain the profiles.

    Attributes
    ----------
    title : str
        Noun for messages.
    target_outputs : tuple of ProfilePort
        Outputs that the target must have for the head.
    attentions : int or None
        Number of attention ops; None for any number.
    fusion : bool
        True if the head concatenates embeddings and hidden state itself; otherwise its input has both.
    experts : bool or None
        True if its feed-forward block has experts; None for both forms.
    usable : bool
        True if GenAI runs it from ``openvino_mtp_model.xml``.
    own_directory : bool
        True if GenAI runs it as a draft from a directory of its own.
    since : str
        First release of OpenVINO GenAI that runs it, if it differs from that of the decoding strategy.
    remark : str
        Advice for users if the head does not belong in ``openvino_mtp_model.xml``.
    """

    name: str
    title: str
    inputs: tuple[ProfilePort, ...]
    outputs: tuple[ProfilePort, ...]
    target_outputs: tuple[ProfilePort, ...] = ()
    model_types: tuple[str, ...] = ()
    states: int = 2
    attentions: int | None = 1
    fusion: bool = True
    experts: bool | None = None
    usable: bool = True
    own_directory: bool = False
    since: str = ""
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Fusion:
    """Concatenation of embeddings and hidden state.

    Attributes
    ----------
    projection : int
        Layer id of the MatMul that reads the Concat.
    operands : tuple of frozenset of str
        Names of the model inputs on which each operand depends.
    normed : tuple of bool
        True for each operand that is the output of a norm.
    """

    concat: int
    projection: int
    operands: tuple[frozenset[str], ...]
    normed: tuple[bool, ...]


@dataclass(eq=False)
class MtpHead:
    """An MTP head and the profile against which it is checked.

    Attributes
    ----------
    likeness : float
        Share of the port names of head and profile that agree, from 0 to 1.
    """

    part: PartFacts
    profile: MtpProfile
    likeness: float

    @property
    def comparable(self) -> bool:
        """True if enough ports agree for a check against the details of the profile."""
        return self.likeness > 0.4

    def input(self, port: ProfilePort) -> ModelInput | None:
        """The input for a port of the profile, by tensor name, else by friendly name."""
        return self.part.input(port.name) or self.part.input_called(port.name)

    def output(self, port: ProfilePort) -> ModelOutput | None:
        """The output for a port of the profile."""
        return self.part.output(port.name)

    def reached(self, port: ModelInput) -> bool:
        """True if an output or state depends on the value of an input, not only on its shape."""
        return port.op in self._used

    @cached_property
    def _used(self) -> set[int]:
        types = self.part.graph.by_type
        return self.part.ancestors([*types.get("Result", ()), *types.get("Assign", ())], through_shapes=False)

    @cached_property
    def experts(self) -> bool:
        """True if the head routes tokens to experts."""
        return next(self.part.live_ops("TopK"), None) is not None

    @cached_property
    def fusion(self) -> Fusion | None:
        """The first Concat of two values of equal width that a MatMul with constant weights reads."""
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
        """The MatMul below a Concat of two values that halves the width."""
        graph = self.part.graph
        sources = graph.inputs(concat)
        widths = [shape[-1] for shape in map(graph.shape, sources) if len(shape) == 3]
        if len(sources) != 2 or len(widths) != 2 or widths[0] != widths[1] or widths[0] <= 0:
            return None
        if graph.data(concat).get("axis") not in ("-1", "2"):
            return None
        for consumer in graph.consumers(concat):
            weighted = any(map(graph.constant, graph.producers(consumer.op)))
            halved = graph.output_shape(consumer.op)[-1:] == (widths[0],)
            if graph.op_type(consumer.op) == "MatMul" and weighted and halved:
                return consumer.op
        return None

    def _inputs_above(self, source: Source) -> frozenset[str]:
        above = self.part.ancestors([source.op], through_shapes=False)
        return frozenset(
            name for port in self.part.inputs if port.op in above for name in port.names or (port.friendly,)
        )


def _likeness(part: PartFacts, profile: MtpProfile) -> float:
    wanted = {("in", port.name) for port in profile.inputs} | {("out", port.name) for port in profile.outputs}
    present = {_known_name("in", port, wanted) for port in part.inputs}
    present |= {_known_name("out", port, wanted) for port in part.outputs}
    return len(wanted & present) / max(1, len(wanted | present))


def _known_name(side: str, port: ModelInput | ModelOutput, wanted: set[tuple[str, str]]) -> tuple[str, str]:
    """The tensor name of a port that occurs in the profile, else its label."""
    return next(((side, name) for name in port.names if (side, name) in wanted), (side, port.label))


def nearest_profile(
    part: PartFacts, profiles: Iterable[MtpProfile], model_type: str = "", width: int | None = None
) -> MtpHead | None:
    """The head with the profile whose ports agree most; experts and model type break ties.

    Parameters
    ----------
    model_type : str
        Value in config.json.
    width : int, optional
        Hidden size of the target. It distinguishes an input that has both embeddings and hidden state from
        plain embeddings.
    """
    experts = next(part.live_ops("TopK"), None) is not None

    def fit(profile: MtpProfile) -> tuple[float, bool, bool]:
        likeness = _likeness(part, profile) * (0.5 if _other_width(part, profile, width) else 1.0)
        return likeness, profile.experts in (None, experts), model_type in profile.model_types

    best = max(profiles, key=fit, default=None)
    return MtpHead(part, best, fit(best)[0]) if best is not None else None


def _other_width(part: PartFacts, profile: MtpProfile, width: int | None) -> bool:
    """True if an input has the width of the target where the profile requires twice that width."""
    doubled = (part.input(port.name) for port in profile.inputs if port.shape[-1] == "2H")
    return width is not None and any(port is not None and port.shape[-1:] == (width,) for port in doubled)
