"""Draw decoder layers: equal layers are collapsed, and one layer of each kind is opened."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from irtools.anatomy.blocks import Block, LayerBlocks, Link, StackBlocks
from irtools.anatomy.describe import block_facts, block_title, symbolic
from irtools.anatomy.kinds import LayerKind, Run, Segment, layer_kinds, segments
from irtools.anatomy.outside import Outside
from irtools.decoder.mixers import MIXERS
from irtools.graph.view import Source
from irtools.ir.op import DYNAMIC
from irtools.render.part import DrawnPart
from irtools.render.picture import TIMES
from irtools.render.sketch import Sketch
from irtools.text import cut, ranges

__all__ = ["BOX_KINDS", "LONGEST_INPUT", "NO_WEIGHTS", "OUTSIDE_TITLES", "LayerDrawer", "value_text"]

BOX_KINDS = {
    "norm": "norm",
    **{kind: "attention" for kind, mixer in MIXERS.items() if mixer.attends},
    "dense": "mlp",
    "router": "experts",
    "experts": "experts",
    "shared_expert": "experts",
    "sum": "sum",
    "op": "op",
}
_BESIDE_EACH_OTHER = ("router", "experts", "shared_expert")
OUTSIDE_TITLES = {
    "rotary": "rotary table",
    "mask": "attention mask",
    "stream": "computed from the embeddings",
    "input": "computed from inputs",
}
"""Names of values that a layer reads but does not compute, by their kind."""
NO_WEIGHTS = "no weights"
"""Second line of a norm without weights; exporters drop a product with ones."""
LONGEST_INPUT = 32
"""Characters of the name of an input in a box: those of a cut piece are names of ops."""
_MOST_UNITS = 12
_MOST_STACKED = 4
"""Values from outside below each other, beside one block."""
_WIDE_ROW = 48
"""Characters of values from outside in a row; a wider row makes a frame much wider than its blocks."""
_MOST_IN_COLUMN = 2
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MOST_RANGES = 4


def _short(numbers: Iterable[int]) -> str:
    """Layer numbers as ranges; a long list keeps its first two ranges and its last."""
    parts = ranges(numbers).split(", ")
    return ", ".join(parts) if len(parts) <= _MOST_RANGES else ", ".join([*parts[:2], "...", parts[-1]])


def _layers(numbers: Sequence[int]) -> str:
    return f"layer{'s' if len(numbers) > 1 else ''} {_short(numbers)}"


def value_text(part: DrawnPart, source: Source) -> str:
    """Precision and shape of a value, for example ``f32 [B, S, 32]``."""
    port = part.view.port(source)
    return f"{port.element_type} {part.dims.text(source)}" if port is not None else ""


def _lines_of(inputs: Sequence[str]) -> tuple[str, ...]:
    """Names of inputs in one line, or in one each if it would be long: wide boxes leave places below them empty."""
    line = f"from {', '.join(inputs)}"
    return (line,) if len(line) <= LONGEST_INPUT else tuple(f"from {name}" for name in inputs)


def _across(count: int) -> int:
    """Number of frames beside each other in a block of frames: about as many as below each other, few places empty."""
    side = math.isqrt(count - 1) + 1
    return min(side, side + 1, key=lambda across: -count % across)


def _distinct(values: Iterable[Outside]) -> list[Outside]:
    """Keep one value of each kind per block that reads it."""
    return list({(value.head, value.kind, value.layer, value.inputs): value for value in values}.values())


@dataclass(eq=False)
class LayerDrawer:
    """Draws the layers of one part into a sketch.

    Attributes
    ----------
    prefix : str
        Prefix of the box keys.
    opened : bool
        Open one layer of each kind.
    inputs : mapping of str to str
        Box keys of the model inputs that are already drawn, by tensor name.
    """

    sketch: Sketch
    part: DrawnPart
    blocks: StackBlocks
    prefix: str
    opened: bool
    inputs: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kinds = layer_kinds(self.blocks.layers)
        self.omitted: list[str] = []
        self._shown: dict[int, int] = {}
        # A column of more than two opened layers does not fit on a page.
        self._aside = self.opened and len(self.kinds) > _MOST_IN_COLUMN

    def draw(self, current: str) -> str:
        """Draw all layers and the final norm below the box ``current``; return the key of the last box."""
        for number, segment in enumerate(self._segments()):
            first, last = min(segment.runs[0].indices), max(index for run in segment.runs for index in run.indices)
            title = f"{segment.repeat} {TIMES} layers {first}-{last}"
            lines = (f"the layers in this frame repeat {segment.repeat} times in this order",)
            repeated = self.sketch.frame(f"{self.prefix}segment{number}", title, lines)
            with repeated if segment.repeat > 1 else nullcontext():
                for run in segment.runs:
                    current = self._run(run, current)
        if self._aside:
            across = _across(len(self.kinds))
            ends = [self._beside(position, kind) for position, kind in enumerate(self.kinds)]
            for position, end in enumerate(ends[:-across]):
                self.sketch.arrow(end, f"{self.prefix}kind{position + across}entry", style="below")
        return self.layer(self.blocks.closing, (self.blocks.closing,), current)

    def _beside(self, position: int, kind: LayerKind) -> str:
        """Open one layer of a kind in a frame beside the column of closed layers; return its last box."""
        key = f"{self.prefix}kind{position}"
        with self.sketch.frame(key, f"{_LETTERS[position]}: {kind.text}", (_layers(kind.indices),), apart=True):
            entry = self.sketch.box(f"{key}entry", "layers", "the layer before", column=key)
            return self.layer(kind.layers[0], kind.layers, entry)

    def _segments(self) -> tuple[Segment, ...]:
        repeated = segments(self.kinds)
        if sum(len(segment.runs) for segment in repeated) <= _MOST_UNITS:
            return repeated
        self.omitted.append("the order of the layers, which has no short form; see the layer numbers")
        runs = tuple(Run(position, len(kind.layers), kind.indices) for position, kind in enumerate(self.kinds))
        return (Segment(1, runs),)

    def _run(self, run: Run, current: str) -> str:
        kind = self.kinds[run.kind]
        layers = [layer for layer in kind.layers if layer.index in set(run.indices)]
        label = _layers(run.indices)
        if not self.opened or self._aside or run.kind in self._shown:
            current = self._closed(kind, layers, label, current)
        else:
            self._shown[run.kind] = layers[0].index
            count = f"{run.length} equal layers in a row, drawn once" if run.length > 1 else ""
            with self.sketch.frame(f"{self.prefix}layer{layers[0].index}", label, (kind.text, count)):
                current = self.layer(layers[0], layers, current)
        self._tap(run, current)
        return current

    def _closed(self, kind: LayerKind, layers: Sequence[LayerBlocks], label: str, current: str) -> str:
        position = self.kinds.index(kind)
        like = f"like layer {self._shown[position]}" if position in self._shown else kind.text
        like = f"{_LETTERS[position]}: {kind.text}" if self._aside else like
        weights = self.part.weight_line(op for layer in layers for block in layer.blocks for op in block.ops)
        key = self.sketch.box(
            f"{self.prefix}layer{layers[0].index}", "layers", label, (like, weights), column=self.prefix
        )
        self.sketch.arrow(current, key, self._entry_text(layers[0]))
        return key

    def _entry_text(self, layer: LayerBlocks) -> str:
        sources = (link.source for link in layer.links if link.tail == -1)
        return next((value_text(self.part, source) for source in sources), "")

    def _tap(self, run: Run, current: str) -> None:
        """Mark the hidden states of a run. The last layer has none here: its tap is after the final norm."""
        stack = self.part.stack
        taps = [index for index in run.indices if stack and index < len(stack.layers) - 1]
        if taps:
            self.sketch.box(f"{self.prefix}tap{taps[0]}", "tap", f"tap {_short(taps)}")
            self.sketch.arrow(current, f"{self.prefix}tap{taps[0]}", style="tap")

    # -- one layer opened ----------------------------------------------------------------

    def layer(self, layer: LayerBlocks, equal: Sequence[LayerBlocks], current: str) -> str:
        """Draw the blocks of one layer, with the weight sizes of all the layers that it represents."""
        keys = [f"{self.prefix}L{layer.index}b{position}" for position in range(len(layer.blocks))]
        # Boxes beside the main line come first: the engine then places them to the left of it.
        beside: dict[int, dict[str, int]] = {}
        for number, value in enumerate(_distinct(layer.outside)):
            key = f"{keys[value.head]}o{number}"
            if width := self._outside(value, key, keys[value.head]):
                beside.setdefault(value.head, {})[key] = width
        for boxes in beside.values():
            self._stack(boxes)
        for key, block in zip(keys, layer.blocks, strict=True):
            if block.states:
                self._state(f"{key}s", key, block)
        for position, block in enumerate(layer.blocks):
            weights = self.part.weight_line(*(other.blocks[position].ops for other in equal))
            self._block(keys[position], block, weights)
        for link in layer.links:
            self._link(layer, link, keys, current)
        return keys[-1] if keys else current

    def _block(self, key: str, block: Block, weights: str) -> None:
        view = self.part.view
        title = block_title(view, block)
        title = title[0].upper() + title[1:]
        op = view.op_name(next(iter(block.ops))) if len(block.ops) == 1 else ""
        if block.kind == "norm":
            weights = weights or NO_WEIGHTS
        lines = [*block_facts(view, block), weights] if block.kind != "sum" else []
        hint = op or f"{len(block.ops)} ops"
        column = "" if block.kind in _BESIDE_EACH_OTHER else self.prefix
        self.sketch.box(key, BOX_KINDS.get(block.kind, "mixer"), title, lines, hint=hint, op=op, column=column)

    def _state(self, key: str, owner: str, block: Block) -> None:
        outputs = [self.part.view.op(state.op).outputs for state in block.states]
        ports = [port[0] for port in outputs if port]
        texts = Counter(f"{port.element_type} {symbolic(port.shape, state=True)}" for port in ports)
        lines = [f"{text} {TIMES} {count}" if count > 1 else text for text, count in texts.items()]
        grows = [sum(dim == DYNAMIC for dim in port.shape) > 1 for port in ports]
        title = "Keys and values" if all(grows) and len(grows) == 2 else "State"
        self.sketch.box(key, "state", title, lines, hint="\n".join(state.name for state in block.states))
        self.sketch.arrow(key, owner, style="state")

    def _link(self, layer: LayerBlocks, link: Link, keys: Sequence[str], current: str) -> None:
        tail = current if link.tail < 0 else keys[link.tail]
        into_sum = layer.blocks[link.head].kind == "sum"
        carries = link.tail < 0 or layer.blocks[link.tail].kind == "sum"
        if into_sum and carries:
            self.sketch.arrow(tail, keys[link.head], style="skip")
        else:
            self.sketch.arrow(tail, keys[link.head], value_text(self.part, link.source))

    def _stack(self, boxes: Mapping[str, int]) -> None:
        """Place the values that one block reads below each other if they are wide: a row would widen the frame."""
        columns = -(-len(boxes) // _MOST_STACKED)
        if sum(boxes.values()) > _WIDE_ROW:
            for upper, lower in zip(boxes, list(boxes)[columns:], strict=False):
                self.sketch.arrow(upper, lower, style="below")

    def _outside(self, value: Outside, key: str, owner: str) -> int:
        """Draw a value beside the block that reads it; return the characters of its longest line, 0 without a box."""
        text = value_text(self.part, value.source)
        if value.kind == "input" and len(value.inputs) == 1 and value.inputs[0] in self.inputs:
            self.sketch.arrow(self.inputs[value.inputs[0]], owner, f"{text} made of it", "shared")
            return 0
        title = f"from layer {value.layer}" if value.kind == "layer" else OUTSIDE_TITLES[value.kind]
        names = () if value.kind == "layer" else _lines_of([cut(name, LONGEST_INPUT) for name in value.inputs])
        if value.kind == "input" and self.part.view.op_type(value.source.op) == "Parameter":
            title, names = "input", tuple(cut(name, LONGEST_INPUT) for name in value.inputs)
        self.sketch.box(key, "shared", title, (*names, text), hint=self.part.view.op_name(value.source.op))
        self.sketch.arrow(key, owner, text, "shared")
        return max(map(len, (title, *names, text)))
