"""Draw individual ops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

from irtools.anatomy.blocks import Block
from irtools.anatomy.describe import SYMBOLS, block_title
from irtools.graph.view import Source
from irtools.render.layers import BOX_KINDS, NO_WEIGHTS, OUTSIDE_TITLES
from irtools.render.part import DrawnPart, weight_line
from irtools.render.picture import TIMES, Picture
from irtools.render.select import columns, shape_ops
from irtools.render.sketch import Sketch
from irtools.text import plural

__all__ = ["OpsDrawer"]

_LONGEST_NAME = 44
_MANY_USES = 3
_MOST_FROM_GAP = 12
_FEW_OPS = 30
"""Ops that are narrower than a legend in four columns."""
_PLAIN_ROLES = ("Attention", "Output projection", "Gate")
"""Purposes without a frame of their own: they are in the frame of the block."""


class OpsDrawer:
    """Draws ops of one part."""

    def __init__(self, part: DrawnPart) -> None:
        self.part = part
        self.view = part.view
        self.sketch = Sketch()
        self._scope = ""

    @cached_property
    def _shape_ops(self) -> frozenset[int]:
        return shape_ops(self.view)

    @cached_property
    def _block_of(self) -> Mapping[int, str]:
        """Box kind of each op in a recognised block; without blocks, of the embedding and the head."""
        if self.part.blocks is None:
            return {op: kind for op, kind in self.part.kinds.items() if kind in ("embedding", "head")}
        layers = (*self.part.blocks.layers, self.part.blocks.closing)
        kinds = {
            op: BOX_KINDS.get(block.kind, "mixer") for layer in layers for block in layer.blocks for op in block.ops
        }
        if self.part.stack:
            kinds |= {self.part.stack.embedding: "embedding", self.part.stack.head: "head"}
        return kinds

    def draw(
        self,
        ops: Sequence[int],
        title: str,
        subtitle: Iterable[str],
        *,
        focus: Collection[int] = (),
        groups: Sequence[Block] = (),
        frames: bool = False,
        most: int = 0,
        foot: int | None = None,
        rest: Sequence[int] = (),
        fold: bool = False,
    ) -> Picture:
        """Draw ops.

        Parameters
        ----------
        ops : sequence of int
            The most important ops first, because ``most`` cuts the end.
        focus : collection of int
            Ops with a thick border.
        groups : sequence of Block
            Blocks to draw as one box each.
        frames : bool
            Put the ops of each block into a frame.
        most : int
            Maximum number of ops; 0 for no limit.
        foot : int, optional
            Op below which there is room for the legend.
        rest : sequence of int
            Further ops; others are left out between them and ``ops``.
        fold : bool
            Draw the layers of a deep picture in columns.
        """
        self._focus = frozenset(focus)
        omitted = []
        if most and len(ops) > most:
            omitted.append(
                f"{len(ops) - most} of {len(ops)} ops without constants, beyond the limit of {most} (--max-nodes)"
            )
        drawn = [*(ops[:most] if most else ops), *rest]
        if rest:
            count = sum(not self.view.constant(key) for key in self.view.topological)
            omitted.append(
                f"{count - len(drawn)} of {count} ops without constants, in the middle, beyond the limit of "
                f"{len(drawn)} (--max-nodes); irtools report writes a page with every op"
            )
        self._scope = _common_scope([self.view.op_name(key) for key in drawn])
        self._drawn = frozenset(drawn)
        self._group = {op: min(group.ops) for group in groups for op in group.ops if group.ops <= self._drawn}
        self._titles = {min(group.ops): group for group in groups}
        gap = {self._layer_of[key] for key in (ops[-1], rest[0]) if key in self._layer_of} if rest else ()
        self._columns = columns(self.view, self._drawn, self._layer_of, gap) if fold else {}
        for key in self._frames(drawn) if frames else drawn:
            self._box(key)
        for key in drawn:
            self._arrows(key)
        self._continuations()
        if rest:
            self._gap(ops[-1], rest, plural(count - len(drawn), "op"))
        lines = [*subtitle, f"names without {self._scope!r}" if self._scope else ""]
        return Picture(
            title,
            tuple(line for line in lines if line),
            self.sketch.items,
            self.sketch.arrows,
            tuple(omitted),
            (*SYMBOLS, "? not known"),
            self._key(foot) if foot in self._drawn else "",
            legend_columns=4 if len(drawn) > _FEW_OPS else 2,
        )

    def _continuations(self) -> None:
        """At the end of a column, name the layer that reads the hidden state in another column."""
        for layer in self.part.blocks.layers if self._columns and self.part.blocks else ():
            column = {self._columns[op] for block in layer.blocks for op in block.ops if op in self._columns}
            if layer.entry in self._drawn and column - {self._columns[layer.entry]}:
                key = self.sketch.box(f"to{layer.index}", "shared", f"to layer {layer.index}")
                self.sketch.arrow(self._key(layer.entry), key, style="shared")

    def _gap(self, before: int, rest: Sequence[int], title: str) -> None:
        """Draw the ops that are left out as one box, with the drawn ops that read them below it."""
        gap = self.sketch.box("gap", "omitted", title, ("left out",))
        self.sketch.arrow(self._key(before), gap, style="gap")
        first = [key for key in rest if not self._drawn.intersection(self.view.pred[key]) and self.view.pred[key]]
        for key in first[:_MOST_FROM_GAP]:
            self.sketch.arrow(gap, self._key(key), style="gap")

    def _frames(self, drawn: Sequence[int]) -> list[int]:
        """Put the ops of each block into a frame; return the other ops."""
        if self.part.blocks is None:
            return list(drawn)
        done: set[int] = set()
        for layer in (*self.part.blocks.layers, self.part.blocks.closing):
            for position, block in enumerate(layer.blocks):
                inside = [key for key in drawn if key in block.ops]
                if len(inside) > 1 and inside[0] not in self._group and block.kind != "sum":
                    done.update(self._frame(f"L{layer.index}b{position}", block, inside))
        return [key for key in drawn if key not in done]

    def _frame(self, key: str, block: Block, inside: Sequence[int]) -> set[int]:
        """Draw a block in a frame, beside a frame for each of its purposes; return their ops."""
        title = block_title(self.view, block)
        roles = self.part.roles(block)
        own = {op for role in roles for op in role.ops} & self._drawn | {*inside}
        rest = set(own)
        for number, role in enumerate(roles):
            ops = role.ops & self._drawn
            if role.title not in _PLAIN_ROLES and len({self._key(op) for op in ops}) > 1:
                self._framed(f"{key}r{number}", role.title, ops)
                rest -= ops
        self._framed(key, title[0].upper() + title[1:], rest)
        return own

    def _framed(self, key: str, title: str, ops: Collection[int]) -> None:
        with self.sketch.frame(key, title):
            for op in sorted(ops, key=self.view.rank.__getitem__):
                self._box(op)

    def _kind(self, key: int) -> str:
        kind = self.view.op_type(key)
        if key in self._focus:
            return "focus"
        if kind in ("Parameter", "Result"):
            return "input"
        if kind in ("ReadValue", "Assign"):
            return "state"
        return self._block_of.get(key, "op")

    def _key(self, op: int) -> str:
        return f"n{self._group.get(op, op)}"

    def _grouped(self, key: int) -> None:
        """Draw the ops of a block as one box."""
        block = self._titles[key]
        names = [self._without_scope(self.view.op_name(op)) for op in block.ops]
        name = _shorten(_common_scope([f"{name}." for name in names]).rstrip("./") or names[0])
        title = block_title(self.view, block)
        lines = (name, self.part.weight_line(block.ops) or NO_WEIGHTS)
        self.sketch.box(f"n{key}", block.kind, title[0].upper() + title[1:], lines, hint="\n".join(sorted(names)))

    def _box(self, key: int) -> None:
        for source in self.view.inputs(key):  # in the frame of the op that reads them
            if self._stubbed(key, source):
                self._stub(key, source)
        if key in self._group:
            if self._group[key] == key:
                self._grouped(key)
            return
        view, kind = self.view, self._kind(key)
        name = view.op_name(key)
        if kind == "sum" and view.op_type(key) == "Add":
            self.sketch.box(f"n{key}", kind, "+", hint=name, op=name)
            return
        weights = self.part.weights_of([key])
        learned = [weight for weight in weights if weight.learned]
        shapes = [f" {TIMES} ".join(map(str, weight.shape)) for weight in learned]
        title, lines = (
            view.op_type(key),
            [_shorten(self._without_scope(name)), ", ".join(shapes[:2]), weight_line(learned)],
        )
        if kind == "state":
            title, lines[0] = self._state(key), _shorten(self.view.data(key).get("variable_id") or name)
        elif title == "Parameter":
            title, lines[1] = view.input_name(key), self._value(Source(key, view.output(key).id))
        self.sketch.box(f"n{key}", "op" if kind == "sum" else kind, title, lines, hint=name, op=name)

    def _state(self, key: int) -> str:
        """Name of an op that reads or writes a state: that of the role, if it has one."""
        done = "written" if self.view.op_type(key) == "Assign" else "read"
        return f"{self._state_names.get(key, 'State')}, {done}"

    @cached_property
    def _state_names(self) -> Mapping[int, str]:
        if self.part.blocks is None:
            return {}
        names = {"Key cache": "Keys", "Value cache": "Values"}
        blocks = [block for layer in self.part.blocks.layers for block in layer.blocks if block.states]
        return {
            op: names[role.title]
            for block in blocks
            if block.ops & self._drawn
            for role in self.part.roles(block)
            if role.title in names
            for op in role.ops
        }

    def _without_scope(self, name: str) -> str:
        return name.removeprefix(self._scope) or name

    def _arrows(self, key: int) -> None:
        for source in self.view.inputs(key):
            tail, head = self._key(source.op), self._key(key)
            if self._stubbed(key, source):
                self.sketch.arrow(self._stub_key(key, source), head, self._value(source), "shared")
            elif source.op in self._drawn and tail != head:
                self.sketch.arrow(tail, head, self._value(source))

    def _stubbed(self, key: int, source: Source) -> bool:
        """True if a value is drawn beside the op that reads it: if it is shared, or comes from outside the picture."""
        if self.view.constant(source.op):
            return False
        if source.op in self._drawn:
            return self._shared(source.op) or self._columns.get(source.op) != self._columns.get(key)
        return source.op not in self._shape_ops or key in self._shape_ops

    def _stub_key(self, key: int, source: Source) -> str:
        return f"{self._key(key)}i{source.op}p{source.port}"

    def _stub(self, key: int, source: Source) -> None:
        name, title, kind = self.view.op_name(source.op), self._outside(key, source), self.view.op_type(source.op)
        lines = (_shorten(self._without_scope(name)) if title == kind else kind, self._value(source))
        self.sketch.box(self._stub_key(key, source), "shared", title, lines, hint=name, op=name)

    def _outside(self, key: int, source: Source) -> str:
        """Name of a value from outside: as in the overview if a decoder layer reads it, else the type of its op."""
        view, blocks = self.view, self.part.blocks
        kind = view.op_type(source.op)
        name = view.input_name(source.op) if kind == "Parameter" else kind
        layer = self._layer_of.get(key)
        if blocks is None or layer is None:
            return name
        if source.op == blocks.layers[layer].entry:
            return f"from layer {layer - 1}" if layer else name if kind == "Parameter" else "embeddings"
        value = blocks.reader.read(0, source)
        if value is None or (kind == "Parameter" and value.kind == "input"):
            return name
        return f"from layer {value.layer}" if value.kind == "layer" else OUTSIDE_TITLES[value.kind]

    @cached_property
    def _layer_of(self) -> Mapping[int, int]:
        """Decoder layer of each op."""
        layers = self.part.blocks.layers if self.part.blocks else ()
        return {op: layer.index for layer in layers for block in layer.blocks for op in block.ops}

    def _shared(self, op: int) -> bool:
        """True if a value is drawn once per use: it has readers in several layers, or many readers.

        A value of the residual stream needs twice as many readers, because its edges are the main line of the picture.
        """
        users = {consumer.op for consumer in self.view.consumers(op)} & self._drawn
        if self.part.blocks is not None and op in self.part.blocks.stream.ops:
            return len(users) > 2 * _MANY_USES
        layers = {self._layer_of[user] for user in users if user in self._layer_of}
        return len(users) > _MANY_USES or len(layers) > 1

    def _value(self, source: Source) -> str:
        port = self.view.port(source)
        if port is None:
            return ""
        output = f"output {self.view.output_index(source)}: " if len(self.view.op(source.op).outputs) > 1 else ""
        return f"{output}{port.element_type} {self.part.dims.text(source)}"


def _common_scope(names: Sequence[str]) -> str:
    """The longest dotted scope of more than half of the names; the boxes omit it."""
    counts: Counter[str] = Counter()
    for name in names:
        scope = name.split("/", 1)[0]
        while "." in scope:
            scope = scope.rsplit(".", 1)[0]
            counts[f"{scope}."] += 1
    often = [scope for scope, count in counts.items() if count * 2 > len(names)]
    return max(often, key=len, default="")


def _shorten(name: str) -> str:
    """Shorten a name to fit a box; its end is more specific than its beginning."""
    return name if len(name) <= _LONGEST_NAME else "\N{HORIZONTAL ELLIPSIS}" + name[-_LONGEST_NAME:]
