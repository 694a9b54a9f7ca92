"""Contents of the picture of a page: a tree from the whole part down to single ops."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from irtools.anatomy.blocks import Block, LayerBlocks
from irtools.anatomy.describe import block_facts, block_title, symbolic
from irtools.anatomy.kinds import layer_kinds
from irtools.decoder.mixers import MIXERS
from irtools.decoder.stream import ancestors
from irtools.ir.scan import BODY_OWNERS
from irtools.render.layers import BOX_KINDS, NO_WEIGHTS
from irtools.render.part import DrawnPart
from irtools.report.html_graph import Columns
from irtools.text import plural

__all__ = ["Box", "Node", "outline", "plain", "walk"]

_SHARED = {
    "rotary": "Rotary table",
    "mask": "Attention mask",
    "stream": "Computed from the embeddings",
    "input": "Computed from inputs",
}
_ENDS = ("Parameter", "Result")
_STATES = ("ReadValue", "Assign")
_MOST_ENDS = 12
_MOST_OTHERS = 3
_MOST_LEAVES = 64
_CHUNK = 40
_LONGEST_TITLE = 26
_MOST_SCOPES = 4096


class Node(NamedTuple):
    """A box that can be opened, or a single op.

    Attributes
    ----------
    title : str
        If it is empty, the page shows the type of the op.
    kind : str
        Key of ``irtools.render.picture.KINDS``, which determines the colour.
    lines : tuple of str
        Text below the title.
    op : int or None
        Position of the op, for a single op.
    flow : bool
        True if the children are drawn in rows, one after the other.
    layer : int or None
        Index of the decoder layer, for a decoder layer.
    """

    title: str = ""
    kind: str = ""
    lines: tuple[str, ...] = ()
    children: tuple[Node | int, ...] = ()
    op: int | None = None
    flow: bool = False
    layer: int | None = None


Box: TypeAlias = Node | int
"""A box, or the position of an op whose box has no title, colour and contents of its own."""


def walk(box: Box) -> Iterator[Box]:
    """Iterate over a box and all boxes in it, each before those in it."""
    pending = [box]
    while pending:
        one = pending.pop()
        yield one
        if not isinstance(one, int):
            pending += one.children[::-1]


def plain(box: Box) -> object:
    """JSON form of a box for the page: an op without title, kind and children is its position."""
    if isinstance(box, int) or (box.op is not None and not (box.title or box.kind or box.children)):
        return box if isinstance(box, int) else box.op
    full = {
        "t": box.title,
        "k": box.kind,
        "l": list(box.lines),
        "c": list(map(plain, box.children)),
        "o": box.op,
        "f": int(box.flow),
        "n": box.layer,
    }
    return {key: value for key, value in full.items() if value or (key in "on" and value is not None)}


def outline(part: DrawnPart, columns: Columns) -> tuple[Box, ...]:
    """Arrange all ops of a part except constants in a tree; ``columns`` must be of the same part."""
    return _Outline(part, columns).build()


class _Outline:
    """Assignment of the ops of a part to places, which become nodes."""

    def __init__(self, part: DrawnPart, columns: Columns) -> None:
        self.part = part
        self.view = part.view
        self.columns = columns
        self.place: dict[int, tuple[object, ...]] = {}
        self._norms_of: dict[frozenset[int], tuple[Block, ...]] = {}
        kinds = (*_ENDS, *_STATES, *BODY_OWNERS)
        self._special = {op for kind in kinds for op in part.view.by_type.get(kind, ())}

    def build(self) -> tuple[Box, ...]:
        """The outermost boxes."""
        if self.part.blocks is None:
            return tuple(self._ends_and(set(self.view.nodes)))
        self._place_blocks()
        self._place_shared()
        self._place_readers()
        members: dict[tuple[object, ...], set[int]] = {}
        for op, place in self.place.items():
            members.setdefault(place, set()).add(op)
        nodes = [
            self._group(title, sorted(members[place]), self._folded(members[place]), kind)
            for place, (title, kind) in _GROUPS.items()
            if place in members
        ]
        nodes += self._single("embedding", "Token embedding", members)
        nodes.append(self._stack(self.part.blocks.layers, members))
        nodes += self._layer(self.part.blocks.closing, members)
        nodes += self._single("head", "Head", members)
        return (*nodes, *self._ends_and(set(self.view.nodes) - self.place.keys()))

    # -- places of the ops ---------------------------------------------------------------

    def _place_blocks(self) -> None:
        blocks, stack = self.part.blocks, self.part.stack
        if blocks is None:
            return
        for layer in (*blocks.layers, blocks.closing):
            for position, block in enumerate(layer.blocks):
                self.place |= dict.fromkeys(block.ops, ("layer", layer.index, position))
                for state in block.states:
                    self.place.setdefault(state.op, ("layer", layer.index, position))
        for op, kind in self.part.kinds.items():
            if kind == "fusion" and op in self.view:
                self.place.setdefault(op, ("fusion",))
        if stack is not None:
            ends = [(stack.embedding, "embedding"), (stack.head, "head"), *((op, "tail") for op in stack.logits_tail)]
            for op, name in ends:
                if self.view.op_type(op) not in _ENDS:
                    self.place[op] = (name,)

    def _place_shared(self) -> None:
        """Place the ops of masks, rotary tables and other values that several layers read."""
        layers = self.part.blocks.layers if self.part.blocks is not None else ()
        for layer in layers:
            for value in layer.outside:
                if value.kind in _SHARED:
                    self._place_ancestors(value.source.op, ("shared", value.kind))
        if layers and layers[0].entry is not None:
            self._place_ancestors(layers[0].entry, ("start",))

    def _place_ancestors(self, op: int, place: tuple[object, ...]) -> None:
        if op not in self.place:
            for key in ancestors(self.view, op):
                if key in self.view and self.view.op_type(key) not in _ENDS:
                    self.place.setdefault(key, place)

    def _place_readers(self) -> None:
        """Place ops that only one layer uses, such as states and shape arithmetic, in that layer."""
        # The output of the layers is beside them, as in the overview.
        end = self.part.blocks.stream.end.op if self.part.blocks is not None else None
        outputs = {op for op in self.view.by_type.get("Result", ()) if end in self.view.pred[op]}
        order = [op for op in self.view.topological if op in self.view and op not in outputs]
        for op in reversed(order):
            if op not in self.place and self.view.succ[op]:
                self._place_beside(op, self.view.succ[op])
        for op in order:
            if op not in self.place:
                self._place_beside(op, [key for key in self.view.pred[op] if self.view.op_type(key) != "Parameter"])

    def _place_beside(self, op: int, others: Iterable[int]) -> None:
        places = {self.place.get(other, ()) for other in others}
        layers = {place[1] if place and place[0] == "layer" else None for place in places}
        within = ("layer",) if self.view.op_type(op) in _ENDS else ("layer", "shared", "fusion", "start")
        if len(places) == 1 and (place := places.pop()) and place[0] in within:
            self.place[op] = place
        elif len(layers) == 1 and (layer := layers.pop()) is not None:
            self.place[op] = ("layer", layer, -1)

    # -- nodes ---------------------------------------------------------------------------

    def _stack(self, layers: Sequence[LayerBlocks], members: Mapping[tuple[object, ...], set[int]]) -> Node:
        texts = {index: kind.text for kind in layer_kinds(layers) for index in kind.indices}
        own: dict[object, set[int]] = {}
        for place, ops in members.items():
            if place[0] == "layer":
                own.setdefault(place[1], set()).update(ops)
        boxes = []
        for layer in layers:
            children = self._layer(layer, members)
            lines = (*texts[layer.index].split(" + "), *self._weights(own.get(layer.index, ())))
            title = f"layer {layer.index}"
            boxes.append(Node(title, _layer_kind(layer), lines, tuple(children), layer=layer.index))
        return Node(plural(len(boxes), "decoder layer"), "layers", (), tuple(boxes), flow=True)

    def _layer(self, layer: LayerBlocks, members: Mapping[tuple[object, ...], set[int]]) -> Iterator[Box]:
        for position, block in enumerate(layer.blocks):
            yield self._block(block, members.get(("layer", layer.index, position), set(block.ops)))
        rest = members.get(("layer", layer.index, -1))
        if rest:
            yield Node("Shapes and states", "op", (), self._folded(rest))

    def _block(self, block: Block, ops: Collection[int]) -> Box:
        view = self.view
        kind = BOX_KINDS.get(block.kind, "mixer")
        title = block_title(view, block)
        if len(ops) == 1:
            op = self.columns.position[next(iter(ops))]
            return Node("+" if block.kind == "sum" else "", kind, (), (), op)
        shapes = [view.op(state.op).outputs for state in block.states]
        states = [f"state {port[0].element_type} {symbolic(port[0].shape, state=True)}" for port in shapes if port]
        weights = self._weights(ops)
        lines = (*block_facts(view, block), *dict.fromkeys(states), *weights)
        if block.kind == "norm" and not weights:
            lines = (*lines, NO_WEIGHTS)
        return Node(title[0].upper() + title[1:], kind, lines, self._inside(block, ops, kind))

    def _inside(self, block: Block, ops: Collection[int], kind: str) -> tuple[Box, ...]:
        """Contents of a block: the norms in it, and for attention a box for each purpose."""
        blocks, left, nodes = self.part.blocks, set(ops), []
        for role in self.part.roles(block):
            own = role.ops & left
            if len(own) > 1 and own != left:
                nodes.append((own, Node(role.title, kind, self._weights(own), self._with_norms(block, own))))
                left -= own
        if not nodes or blocks is None:
            return self._with_norms(block, ops)
        rank = self.view.rank
        nodes.sort(key=lambda pair: min(rank[op] for op in pair[0]))
        return (*(node for _, node in nodes), *self._with_norms(block, left))

    def _with_norms(self, block: Block, ops: Collection[int]) -> tuple[Box, ...]:
        """Some ops of a block, with one box for each norm among them."""
        nodes, left = [], set(ops)
        for norm in self._norms(block):
            if norm.ops <= left and norm.ops != left:
                nodes.append(self._block(norm, norm.ops))
                left -= norm.ops
        return (*nodes, *self._folded(left))

    def _norms(self, block: Block) -> tuple[Block, ...]:
        if self.part.blocks is None or block.kind not in MIXERS:
            return ()
        if block.ops not in self._norms_of:
            self._norms_of[block.ops] = self.part.blocks.norms_within(block)
        return self._norms_of[block.ops]

    def _single(self, name: str, title: str, members: Mapping[tuple[object, ...], set[int]]) -> Iterator[Box]:
        for op in members.get((name,), ()):
            yield Node(title, name, self._weights([op]), (), self.columns.position[op])

    def _weights(self, ops: Iterable[int]) -> tuple[str, ...]:
        line = self.part.weight_line(ops)
        return (line,) if line else ()

    def _ends_and(self, ops: set[int]) -> Iterator[Box]:
        """Inputs and outputs, in one box each if there are many, followed by all other ops."""
        for kind, title in (("Parameter", "Inputs"), ("Result", "Outputs")):
            ends = [op for op in self.view.by_type.get(kind, ()) if op in ops]
            boxes = [Node("", "input", (), (), self.columns.position[op]) for op in ends]
            if len(boxes) > _MOST_ENDS:
                yield Node(f"{len(boxes)} {title.lower()}", "input", (), tuple(boxes))
            else:
                yield from boxes
            ops = ops.difference(ends)
        if self.part.blocks is not None and len(ops) > _MOST_OTHERS:
            yield Node("Other ops", "op", (), self._folded(ops))
        else:
            yield from self._folded(ops)

    # -- many ops ------------------------------------------------------------------------

    def _folded(self, ops: Collection[int]) -> tuple[Box, ...]:
        """Ops in the order of computation, grouped by the scopes of their names or by number if there are many."""
        order = sorted(ops, key=self.view.rank.__getitem__)
        if len(order) <= _MOST_LEAVES:
            return tuple(self._leaf(op) for op in order)
        return self._fold(order, {op: _scopes(self.view.op_name(op)) for op in order})

    def _fold(self, ops: Sequence[int], scopes: Mapping[int, tuple[str, ...]]) -> tuple[Box, ...]:
        if len(ops) <= _MOST_LEAVES:
            return tuple(self._leaf(op) for op in ops)
        shared = _shared_scopes([scopes[op] for op in ops])
        groups: dict[str, list[int]] = {}
        for op in ops:
            groups.setdefault("".join(scopes[op][shared : shared + 1]), []).append(op)
        direct = groups.pop("", [])
        if not groups or len(groups) > _MOST_LEAVES:
            return self._chunks(ops)
        beside = self._chunks(direct) if len(direct) + len(groups) > _MOST_LEAVES else map(self._leaf, direct)
        nodes = list(beside)
        for members in groups.values():
            children = self._fold(members, scopes)
            # A group with most of the ops would leave an almost empty box around it, so it gets no box.
            fits = len(nodes) + len(groups) + len(children) <= _MOST_LEAVES and len(members) * 2 > len(ops)
            title = _scope_title([scopes[op] for op in members], shared)
            nodes += children if fits else (self._group(title, members, children),)
        return tuple(nodes)

    def _chunks(self, ops: Sequence[int]) -> tuple[Box, ...]:
        size = max(_CHUNK, -(-len(ops) // _CHUNK))
        chunks = [ops[start : start + size] for start in range(0, len(ops), size)]
        return tuple(
            self._group(
                f"ops {number * size + 1}-{number * size + len(chunk)}",
                chunk,
                self._chunks(chunk) if len(chunk) > _MOST_LEAVES else tuple(self._leaf(op) for op in chunk),
            )
            for number, chunk in enumerate(chunks)
        )

    def _group(self, title: str, ops: Collection[int], children: tuple[Box, ...], kind: str = "op") -> Box:
        return children[0] if len(children) == 1 else Node(title, kind, self._weights(ops), children)

    def _leaf(self, op: int) -> Box:
        position = self.columns.position[op]
        if op not in self._special:
            return position
        kind = self.view.op_type(op)
        bodies = [body for body in self.columns.bodies if body.owner == position] if kind in BODY_OWNERS else []
        if not bodies:
            state = "state" if kind in _STATES else "input" if kind in _ENDS else ""
            return Node("", state, (), (), position)
        if len(bodies) == 1:
            return Node("", "op", (), tuple(bodies[0].ops), position)
        frames = tuple(Node(body.name, "op", (), tuple(body.ops)) for body in bodies)
        return Node("", "op", (), frames, position)


_GROUPS: dict[tuple[object, ...], tuple[str, str]] = {
    **{("shared", kind): (title, "shared") for kind, title in _SHARED.items()},
    ("start",): ("Before the layers", "embedding"),
    ("fusion",): ("Fusion", "fusion"),
    ("tail",): ("Logits tail", "op"),
}
"""Title and kind of the boxes beside the layers, by place."""


def _layer_kind(layer: LayerBlocks) -> str:
    """Kind of a layer: that of its token mixer."""
    kinds = [BOX_KINDS.get(block.kind, "mixer") for block in layer.blocks]
    return next((kind for kind in kinds if kind in ("attention", "mixer")), "layers")


def _scopes(name: str) -> tuple[str, ...]:
    """Module scopes of a friendly name: ``a``, ``b`` and ``c`` for ``a.b/c/aten::add/Add``."""
    at = name.find("::")
    if at < 0 and "/" not in name:
        return _split(name, ".") if "." in name else ()
    return _split(name if at < 0 else name[:at], "/")


@lru_cache(_MOST_SCOPES)
def _split(name: str, last: str) -> tuple[str, ...]:
    """Scopes in a name before the last sign of a kind; many ops have the same."""
    return tuple(name.rpartition(last)[0].replace("/", ".").split(".")) if last in name else ()


def _shared_scopes(paths: Sequence[tuple[str, ...]]) -> int:
    """Number of leading scopes that all names share."""
    pairs = zip(min(paths), max(paths), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _scope_title(paths: Sequence[tuple[str, ...]], start: int) -> str:
    """Scopes that names share, from ``start`` on; leading ones are dropped until the title is short enough."""
    scopes = paths[0][start : max(_shared_scopes(paths), start + 1)]
    while len(scopes) > 1 and len(".".join(scopes)) > _LONGEST_TITLE:
        scopes = scopes[1:]
    return ".".join(scopes)
