"""What comparing yields. Frozen: reports only read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

__all__ = [
    "CATEGORIES",
    "AnnotationChange",
    "Category",
    "Change",
    "Comparison",
    "OpChange",
    "OpRef",
    "PartDiff",
    "Region",
    "RegionDiff",
    "WeightChange",
]

Category = Literal[
    "parts",
    "ports",
    "states",
    "structure",
    "shapes",
    "weights",
    "values",
    "annotation",
    "rt_info",
    "versions",
    "names",
    "config",
    "files",
]

CATEGORIES: Mapping[str, str] = {
    "parts": "IRs that only one side has",
    "ports": "inputs and outputs: names, types, shapes, order",
    "states": "cached values: types and shapes",
    "structure": "layers and ops that were added, removed or changed",
    "shapes": "shapes and types of values inside the graph",
    "weights": "precision and shape of weights, and what compression recorded about itself",
    "values": "the numbers in weights of equal precision and shape",
    "annotation": "which values the hidden-state annotation names",
    "rt_info": "other metadata of the IRs and of their ops",
    "versions": "versions of programs, of ops and of the format",
    "names": "names of ops and states that are paired by structure",
    "config": "config.json",
    "files": "the other files of the directory",
}
"""What can differ, and what ``ignore`` takes."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is not the same.

    Attributes
    ----------
    what : str
        Name of the port, key of the entry, aspect of the op, ...
    a, b : str or None
        How it is on each side; None where it is missing.
    """

    what: str
    a: str | None
    b: str | None


@dataclass(frozen=True, slots=True)
class OpRef:
    """An op of one side.

    Attributes
    ----------
    id : int
        Layer id, in its graph.
    name : str
        Friendly name.
    type : str
    body : str
        Names of the Loop or If and of the body that it is in, separated by ``/``.
    """

    id: int
    name: str
    type: str
    body: str = ""


@dataclass(frozen=True, slots=True)
class OpChange:
    """An op that both sides have and that is not the same.

    Attributes
    ----------
    a, b : OpRef
    category : str
        ``structure``, ``shapes``, ``rt_info`` or ``versions``.
    changes : tuple of Change
    """

    a: OpRef
    b: OpRef
    category: Category
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class WeightChange:
    """A weight that both sides have and that is not the same.

    Attributes
    ----------
    a, b : OpRef
        The op that reads it.
    role : str
        ``embedding``, ``head``, or the type of the op.
    precision_a, precision_b : str
        As of :class:`irtools.model.weights.Weight`.
    shape_a, shape_b : tuple of int
    values : bool
        Whether only the numbers differ.
    """

    a: OpRef
    b: OpRef
    role: str
    precision_a: str
    precision_b: str
    shape_a: tuple[int, ...]
    shape_b: tuple[int, ...]
    values: bool


@dataclass(frozen=True, slots=True)
class Region:
    """A stretch of the graph on both sides.

    Attributes
    ----------
    kind : str
        ``layer``, ``inputs`` (what comes before the layers, masks and positions), ``head`` (what
        comes after) or ``graph`` (all of it, when no decoder stack was located).
    a, b : int or None
        Positions of the layers; None for the other kinds, and on a side that lacks the layer.
    text_a, text_b : str
        What the layer is on each side, in a few words.
    """

    kind: str
    a: int | None = None
    b: int | None = None
    text_a: str = ""
    text_b: str = ""

    @property
    def one_sided(self) -> bool:
        """Whether only one side has the layer."""
        return self.kind == "layer" and (self.a is None) != (self.b is None)


@dataclass(frozen=True, slots=True)
class RegionDiff:
    """What differs in one stretch of the graph.

    Attributes
    ----------
    region : Region
    ops_a, ops_b : int
        How many ops it has, constants left out.
    removed, added : tuple of OpRef
        Ops that only ``a`` or only ``b`` has.
    changed : tuple of OpChange
    weights : tuple of WeightChange
    renamed : int
        Ops that are paired and named otherwise.
    """

    region: Region
    ops_a: int
    ops_b: int
    removed: tuple[OpRef, ...] = ()
    added: tuple[OpRef, ...] = ()
    changed: tuple[OpChange, ...] = ()
    weights: tuple[WeightChange, ...] = ()
    renamed: int = 0


@dataclass(frozen=True, slots=True)
class AnnotationChange:
    """A layer for which two annotations do not name the same value.

    Attributes
    ----------
    layer : str
        As written.
    a, b : str or None
        Producer and output index; None where the layer is missing.
    """

    layer: str
    a: str | None
    b: str | None


@dataclass(frozen=True)
class PartDiff:
    """What differs in one part.

    Attributes
    ----------
    part : str
        Its name.
    a, b : Path
        The files.
    error : str or None
        Why it could not be compared; everything else is then empty.
    layers_a, layers_b : int
        Decoder layers; 0 when no stack was located.
    ops_a, ops_b : int
        At the top level, constants left out.
    states_a, states_b : int
    ports, states, rt_info, versions, compression, names : tuple of Change
        ``compression`` is what compression recorded in rt_info, ``names`` renamed states.
    annotation : tuple of AnnotationChange
    annotated : tuple of bool
        Whether each side has an annotation.
    regions : tuple of RegionDiff
        In order of computation.
    notes : tuple of str
        What could not be compared, and why.
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
    ports: tuple[Change, ...] = ()
    states: tuple[Change, ...] = ()
    rt_info: tuple[Change, ...] = ()
    versions: tuple[Change, ...] = ()
    compression: tuple[Change, ...] = ()
    names: tuple[Change, ...] = ()
    annotation: tuple[AnnotationChange, ...] = ()
    annotated: tuple[bool, bool] = (False, False)
    regions: tuple[RegionDiff, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> Mapping[str, int]:
        """How many differences there are of each category; only those that there are."""
        found: Counter[str] = Counter(
            ports=len(self.ports),
            states=len(self.states),
            rt_info=len(self.rt_info),
            versions=len(self.versions),
            weights=len(self.compression),
            names=len(self.names),
            annotation=len(self.annotation),
        )
        for diff in self.regions:
            found["structure"] += len(diff.removed) + len(diff.added) + diff.region.one_sided
            found["names"] += diff.renamed
            found.update(change.category for change in diff.changed)
            found.update("values" if weight.values else "weights" for weight in diff.weights)
        return {category: found[category] for category in CATEGORIES if found[category]}

    @property
    def equal(self) -> bool:
        """Whether nothing differs; False for one that could not be compared."""
        return self.error is None and not self.counts


@dataclass(frozen=True)
class Comparison:
    """Two exports, or two IRs, side by side.

    Attributes
    ----------
    a, b : Path
        As given.
    ignored : frozenset of str
        Categories that were left out.
    parts : tuple of PartDiff
        One per part that both sides have, in the order of the names, the target first.
    only : tuple of Change
        Parts that one side has; the value is the file.
    config, files : tuple of Change
        Entries of config.json; other files.
    config_versions : tuple of Change
        Entries of config.json that say a version.
    """

    a: Path
    b: Path
    ignored: frozenset[str] = frozenset()
    parts: tuple[PartDiff, ...] = ()
    only: tuple[Change, ...] = ()
    config: tuple[Change, ...] = ()
    config_versions: tuple[Change, ...] = ()
    files: tuple[Change, ...] = ()
    errors: tuple[str, ...] = field(default=())

    @property
    def counts(self) -> Mapping[str, int]:
        """How many differences there are of each category; only those that there are."""
        found: Counter[str] = Counter(
            parts=len(self.only),
            config=len(self.config),
            versions=len(self.config_versions),
            files=len(self.files),
        )
        for part in self.parts:
            found.update(part.counts)
        return {category: found[category] for category in CATEGORIES if found[category]}

    @property
    def failures(self) -> tuple[str, ...]:
        """Why something could not be compared."""
        return (*self.errors, *(part.error for part in self.parts if part.error is not None))

    @property
    def equal(self) -> bool:
        """Whether everything could be compared and nothing differs."""
        return not self.failures and not self.counts

    @property
    def exit_code(self) -> int:
        """0 equal, 1 different, 2 something could not be compared."""
        return 2 if self.failures else int(not self.equal)
