"""Frozen results of a comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from irtools.display import Tabular
from irtools.text import short_repr

__all__ = [
    "CATEGORIES",
    "AnnotationChange",
    "Category",
    "ComparedOp",
    "Comparison",
    "Difference",
    "NearEdge",
    "NearOp",
    "OpChange",
    "PartDiff",
    "RegionDiff",
    "RegionPair",
    "Surroundings",
    "WeightChange",
]

Category = Literal["structure", "shapes", "rt_info", "versions"]
"""Categories of changes of an op."""

CATEGORIES: Mapping[str, str] = {
    "parts": "IRs that only one side has",
    "ports": "inputs and outputs: names, types, shapes, order",
    "states": "types and shapes of states",
    "structure": "layers and ops that were added, removed or changed",
    "shapes": "shapes and types of values inside the graph",
    "weights": "precision and shape of weights, and rt_info entries of weight compression",
    "values": "values of weights with equal precision and shape",
    "annotation": "values that the hidden-state annotation names",
    "rt_info": "other metadata of the IRs and of their ops",
    "versions": "versions of programs, of ops and of the format",
    "names": "names of paired ops and states",
    "config": "config.json",
    "files": "the other files of the directory",
}
"""Description of each category of difference. The keys are the values of ``ignore``."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference.

    Attributes
    ----------
    what : str
        Name of the port, key of the entry, aspect of the op, ...
    a, b : str or None
        The value on each side; None where it is missing.
    """

    what: str
    a: str | None
    b: str | None


@dataclass(frozen=True, slots=True)
class ComparedOp:
    """An op of one side.

    Attributes
    ----------
    id : int
        Layer id in its graph.
    name : str
        Friendly name.
    body : str
        Path of the enclosing body: names of the Loop or If and of the body, separated by ``/``.
    """

    id: int
    name: str
    type: str
    body: str = ""


@dataclass(frozen=True, slots=True)
class OpChange:
    """A paired op that differs."""

    a: ComparedOp
    b: ComparedOp
    category: Category
    changes: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class WeightChange:
    """A weight of a paired op that differs.

    Attributes
    ----------
    a, b : ComparedOp
        The op that reads it.
    role : str
        ``embedding``, ``head``, or the type of the op.
    precision_a, precision_b : str
        Precisions as in :class:`irtools.model.weights.Weight`.
    values : bool
        True if only the numbers differ.
    """

    a: ComparedOp
    b: ComparedOp
    role: str
    precision_a: str
    precision_b: str
    shape_a: tuple[int, ...]
    shape_b: tuple[int, ...]
    values: bool


@dataclass(frozen=True, slots=True)
class RegionPair:
    """A region of the graph on both sides.

    Attributes
    ----------
    kind : str
        ``layer``, ``inputs`` (ops before the layers, masks and positions), ``head`` (ops after the
        layers) or ``graph`` (the whole graph, if no decoder stack was located).
    a, b : int or None
        Positions of the layers; None for the other kinds, and on a side without the layer.
    text_a, text_b : str
        Short description of the layer on each side.
    """

    kind: str
    a: int | None = None
    b: int | None = None
    text_a: str = ""
    text_b: str = ""

    @property
    def one_sided(self) -> bool:
        """True if only one side has the layer."""
        return self.kind == "layer" and (self.a is None) != (self.b is None)


@dataclass(frozen=True, slots=True)
class RegionDiff:
    """Differences in one region of the graph.

    Attributes
    ----------
    ops_a, ops_b : int
        Number of ops without constants.
    removed, added : tuple of ComparedOp
        Ops that only ``a`` or only ``b`` has.
    renamed : int
        Number of paired ops with different names.
    """

    region: RegionPair
    ops_a: int
    ops_b: int
    removed: tuple[ComparedOp, ...] = ()
    added: tuple[ComparedOp, ...] = ()
    changed: tuple[OpChange, ...] = ()
    weights: tuple[WeightChange, ...] = ()
    renamed: int = 0

    def __repr__(self) -> str:
        edits = len(self.removed) + len(self.added) + len(self.changed) + len(self.weights)
        return short_repr(self, self.region.kind, self.region.text_a, f"{edits} changes", f"{self.renamed} renamed")


@dataclass(frozen=True, slots=True)
class AnnotationChange:
    """A layer for which two annotations name different values.

    Attributes
    ----------
    layer : str
        Layer key as written in the annotation.
    a, b : str or None
        Producer and output index; None where the layer is missing.
    """

    layer: str
    a: str | None
    b: str | None


@dataclass(frozen=True, slots=True)
class NearOp:
    """An op in or near a change.

    Attributes
    ----------
    key : str
        Unique among the ops of both sides; the ops of a pair have one key.
    side : str
        ``a`` or ``b`` if only this side has the op, ``both`` for a pair.
    changes : tuple of str
        Descriptions of what differs in a pair.
    """

    key: str
    name: str
    type: str
    side: str
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NearEdge:
    """An edge between two such ops; ``side`` is ``a``, ``b`` or ``both``, ``input`` an input index of the head."""

    tail: str
    head: str
    input: int
    side: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The first changed ops of a part with their neighbours, for a picture; ``left_out`` counts the others."""

    ops: tuple[NearOp, ...] = ()
    edges: tuple[NearEdge, ...] = ()
    left_out: int = 0


@dataclass(frozen=True)
class PartDiff:
    """Differences in one part.

    Attributes
    ----------
    a, b : Path
        The XML files.
    error : str or None
        Reason for a failed comparison; everything else is then empty.
    layers_a, layers_b : int
        Number of decoder layers; 0 if no decoder stack was located.
    ops_a, ops_b : int
        Number of ops at the top level without constants.
    ports, states, rt_info, versions, compression, names : tuple of Difference
        ``compression`` holds the rt_info entries of weight compression, ``names`` the renamed states.
    annotated : tuple of bool
        For each side, True if it has an annotation.
    regions : tuple of RegionDiff
        In topological order.
    notes : tuple of str
        Descriptions of content that could not be compared, with reasons.
    unread : tuple of str
        Reasons why weights and small constants were not compared, with the names of the files.
    uncompared : int
        Weights with equal precision and shape whose values were not compared, because they are at a URL.
    surroundings : Surroundings
        The changed ops and their neighbours.
    """

    part: str
    a: Path
    b: Path
    error: str | None = None
    layers_a: int = 0
    layers_b: int = 0
    ops_a: int = 0
    ops_b: int = 0
    states_a: int = 0
    states_b: int = 0
    ports: tuple[Difference, ...] = ()
    states: tuple[Difference, ...] = ()
    rt_info: tuple[Difference, ...] = ()
    versions: tuple[Difference, ...] = ()
    compression: tuple[Difference, ...] = ()
    names: tuple[Difference, ...] = ()
    annotation: tuple[AnnotationChange, ...] = ()
    annotated: tuple[bool, bool] = (False, False)
    regions: tuple[RegionDiff, ...] = ()
    notes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    uncompared: int = 0
    surroundings: Surroundings = Surroundings()

    def __repr__(self) -> str:
        return short_repr(self, self.part, *([self.error] if self.error else _facts(self.counts)))

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of differences by category, without zeros."""
        counts: Counter[str] = Counter(
            ports=len(self.ports),
            states=len(self.states),
            rt_info=len(self.rt_info),
            versions=len(self.versions),
            weights=len(self.compression),
            names=len(self.names),
            annotation=len(self.annotation),
        )
        for diff in self.regions:
            counts["structure"] += len(diff.removed) + len(diff.added) + diff.region.one_sided
            counts["names"] += diff.renamed
            counts.update(change.category for change in diff.changed)
            counts.update("values" if weight.values else "weights" for weight in diff.weights)
        return {category: counts[category] for category in CATEGORIES if counts[category]}

    @property
    def equal(self) -> bool:
        """True if the part was compared and has no differences."""
        return self.error is None and not self.counts and not self.unread


@dataclass(frozen=True)
class Comparison(Tabular):
    """Two exports, or two IRs, side by side.

    Attributes
    ----------
    a, b : Path
        Paths from the caller.
    ignored : frozenset of str
        Ignored categories.
    parts : tuple of PartDiff
        One for each part of both sides, in the order of the names, the target first.
    only : tuple of Difference
        Parts that only one side has; the value is the file.
    config, files : tuple of Difference
        Entries of config.json; other files.
    config_versions : tuple of Difference
        Versions in config.json.
    errors : tuple of str
        Reasons for failed comparisons outside the parts.
    """

    a: Path
    b: Path
    ignored: frozenset[str] = frozenset()
    parts: tuple[PartDiff, ...] = ()
    only: tuple[Difference, ...] = ()
    config: tuple[Difference, ...] = ()
    config_versions: tuple[Difference, ...] = ()
    files: tuple[Difference, ...] = ()
    errors: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return short_repr(self, f"{self.a} and {self.b}", *(["failed"] if self.failures else _facts(self.counts)))

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of differences by category, without zeros."""
        counts: Counter[str] = Counter(
            parts=len(self.only),
            config=len(self.config),
            versions=len(self.config_versions),
            files=len(self.files),
        )
        for part in self.parts:
            counts.update(part.counts)
        return {category: counts[category] for category in CATEGORIES if counts[category]}

    @property
    def failures(self) -> tuple[str, ...]:
        """Reasons for failed comparisons."""
        failed = [part.error for part in self.parts if part.error is not None]
        unread = [fault for part in self.parts for fault in part.unread]
        return (*self.errors, *failed, *(f"weights and small constants were not compared: {fault}" for fault in unread))

    @property
    def equal(self) -> bool:
        """True if everything was compared and nothing differs."""
        return not self.failures and not self.counts

    @property
    def exit_code(self) -> int:
        """Exit code of ``irtools diff``, which is 0 if equal, 1 if different, 2 if a comparison failed."""
        return 2 if self.failures else int(not self.equal)


def _facts(counts: Mapping[str, int]) -> list[str]:
    return [f"{category} {count}" for category, count in counts.items()] or ["equal"]
