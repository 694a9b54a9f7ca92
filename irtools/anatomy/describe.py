"""Descriptions of blocks, layers, sizes and symbolic shapes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from irtools.anatomy.blocks import Block, LayerBlocks
from irtools.decoder.mixers import MIXERS
from irtools.graph.view import GraphView
from irtools.ir.op import DYNAMIC, FLOATS
from irtools.model.ports import PORTS, is_past, is_present
from irtools.text import plural, ranges

__all__ = [
    "SYMBOLS",
    "block_facts",
    "block_title",
    "expert_choice",
    "kind_text",
    "layer_text",
    "layers_text",
    "letters",
    "symbolic",
]

_OTHERS = {
    "norm": "norm",
    "dense": "dense MLP",
    "router": "router",
    "experts": "experts",
    "shared_expert": "shared expert",
    "sum": "+",
    "op": "op",
}
_NORMS = {"rms_norm": "RMS norm", "layer_norm": "layer norm"}
_ACTIVATIONS = ("Swish", "Gelu", "Relu", "Sigmoid", "Tanh", "Elu", "PRelu", "HSwish", "SoftPlus", "Mish")

SYMBOLS = ("B batch", "S tokens of this call", "P tokens in the state", "T = P + S")
"""Meaning of the letters in symbolic shapes."""
_IDS = ("input_ids", "position_ids", "token_type_ids")
"""Ports whose last two dimensions are batch and tokens."""
_VALUES = tuple(name for name, form in PORTS.items() if form.element_type in FLOATS)
"""Ports whose first two dimensions are batch and tokens."""


def layers_text(indices: Collection[int]) -> str:
    """Layer indices as text: ``layer 3`` or ``layers 0-2, 4``."""
    return f"layer{'s' if len(indices) > 1 else ''} {ranges(indices)}"


def symbolic(shape: Sequence[int], name: str = "", *, state: bool = False, stream: bool = False) -> str:
    """Format a shape with letters for the dynamic dimensions whose meaning is known.

    Parameters
    ----------
    name : str
        Tensor name of the input or output; the runtime identifies ports by these names.
    state : bool
        True for a state: the first dimension is the batch, the dynamic one the tokens in the state.
    stream : bool
        True for a value of the residual stream: the first two dimensions are batch and tokens of this call.

    Examples
    --------
    >>> symbolic((4, -1, -1), "position_ids"), symbolic((-1, 2, -1, 16), state=True), symbolic((-1, 3))
    ('[4, B, S]', '[B, 2, P, 16]', '[?, 3]')
    >>> symbolic((1, -1), "input_ids"), symbolic((-1, -1), "hidden_states")
    ('[1, S]', '[?, ?]')
    """
    found = letters(shape, name, state=state, stream=stream)
    dims = (found.get(place, "?") if dim == DYNAMIC else str(dim) for place, dim in enumerate(shape))
    return f"[{', '.join(dims)}]"


def letters(shape: Sequence[int], name: str = "", *, state: bool = False, stream: bool = False) -> dict[int, str]:
    """Letters by dimension, for the dimensions whose meaning is known."""
    rank = len(shape)
    past = state or is_past(name)
    if past or is_present(name):
        growing = [place for place, dim in enumerate(shape) if place and dim == DYNAMIC]
        return {0: "B", growing[0]: "P" if past else "T"} if len(growing) == 1 else {0: "B"}
    usual = name in PORTS and rank in PORTS[name].ranks
    if usual and name in _IDS:
        return {rank - 2: "B", rank - 1: "S"}
    if (usual and name in _VALUES) or (stream and rank == 3 and shape[0] in (DYNAMIC, 1)):
        return {0: "B", 1: "S"}
    if usual and name == "attention_mask":
        return {0: "B", 1: "T"}
    return {0: "B"} if name == "beam_idx" else {}


def block_title(view: GraphView, block: Block) -> str:
    """Name of a block in two or three words."""
    if block.kind == "norm" and block.match is not None:
        return _NORMS.get(block.match.kind, "norm")
    if block.kind == "op" and len(block.ops) == 1:
        return view.op_type(next(iter(block.ops)))
    if block.kind == "op":
        return f"{len(block.ops)} ops"
    mixer = MIXERS.get(block.kind)
    return mixer.title if mixer is not None else _OTHERS.get(block.kind, block.kind)


def block_facts(view: GraphView, block: Block) -> tuple[str, ...]:
    """Properties of a block: heads, widths, experts."""
    mixer = MIXERS.get(block.kind)
    if mixer is not None and mixer.attends:
        return _attention(view, block)
    if mixer is not None and mixer.in_order:
        return _recurrence(view, block)
    if block.kind in ("dense", "shared_expert"):
        return _mlp(view, block)
    if block.kind == "router":
        return _router(view, block)
    if block.kind == "experts":
        return _experts(view, block)
    return ()


def _attention(view: GraphView, block: Block) -> tuple[str, ...]:
    query = block.match.ops.get("query") if block.match is not None else None
    shape = view.output_shape(query) if query is not None else ()
    if len(shape) != 4 or min(shape[1], shape[3]) < 1:
        return ()
    facts = [f"{plural(shape[1], 'head')} of {shape[3]}"]
    grown = [view.output_shape(state.op) for state in block.states]
    keys = {cached[1] for cached in grown if len(cached) == 4 and cached[1] > 0}
    if len(keys) == 1 and keys != {shape[1]}:
        facts.append(plural(keys.pop(), "key/value head"))
    return (", ".join(facts),)


def _recurrence(view: GraphView, block: Block) -> tuple[str, ...]:
    facts = []
    for op in sorted(block.ops):
        if view.op_type(op) in ("GroupConvolution", "Convolution"):
            shape = view.shape(view.input(op, 1))
            if shape:
                facts.append(f"convolution over {plural(shape[-1], 'token')}")
    return tuple(dict.fromkeys(facts))


def _products(view: GraphView, block: Block) -> list[tuple[int, tuple[int, ...]]]:
    """MatMuls of a block that have constant weights, with the shapes of these weights, in order of computation."""
    products = []
    for op in sorted(block.ops, key=view.rank.__getitem__):
        if view.op_type(op) == "MatMul":
            shapes = [view.shape(source) for source in view.inputs(op) if view.constant(source.op)]
            products += [(op, shape) for shape in shapes if len(shape) > 1 and min(shape[-2:]) > 1]
    return products


def _inner_width(view: GraphView, products: Sequence[tuple[int, tuple[int, ...]]]) -> int:
    """Width between the up and down projections: the input side of the last weights."""
    op, shape = products[-1]
    first, second = shape[-2:]
    return second if view.output_shape(op)[-1:] == (first,) else first


def _activation(view: GraphView, block: Block) -> str:
    types = {view.op_type(op) for op in block.ops}
    return next((kind for kind in _ACTIVATIONS if kind in types), "")


def _mlp(view: GraphView, block: Block) -> tuple[str, ...]:
    products = _products(view, block)
    if len(products) < 2:
        return ()
    facts = (f"width {_inner_width(view, products)}", "gated" if len(products) > 2 else "", _activation(view, block))
    return (", ".join(filter(None, facts)),)


def expert_choice(view: GraphView, block: Block) -> tuple[int, int] | None:
    """Number of experts that a router selects for each token, and of all its experts; None for other blocks."""
    if block.kind != "router":
        return None
    ranked = [op for op in block.ops if view.op_type(op) == "TopK"]
    experts = _expert_count(view, block)
    chosen = sum(view.output_shape(op)[-1] for op in ranked if view.output_shape(op)[-1:] > (0,))
    return (chosen, experts) if experts > 0 and chosen else None


def _router(view: GraphView, block: Block) -> tuple[str, ...]:
    choice = expert_choice(view, block)
    return (f"top {choice[0]} of {choice[1]}",) if choice else ()


def _expert_count(view: GraphView, block: Block) -> int:
    router = block.match.ops.get("router") if block.match is not None else None
    shape = view.output_shape(router) if router is not None else ()
    return shape[-1] if shape else 0


def _experts(view: GraphView, block: Block) -> tuple[str, ...]:
    count = _expert_count(view, block)
    products = _products(view, block)
    width = f"width {_inner_width(view, products)}" if products else ""
    facts = (plural(count, "expert") if count > 0 else "", width, _activation(view, block))
    return (", ".join(filter(None, facts)),)


def kind_text(mixer: str, feed_forward: str) -> str:
    """Token mixer and feed-forward block of a layer: ``linear attention + dense MLP``."""
    return " + ".join(word for word in (mixer, _OTHERS.get(feed_forward, feed_forward)) if word != "none")


def layer_text(layer: LayerBlocks) -> str:
    """Short description of a layer: ``linear attention + dense MLP``."""
    kinds = [block.kind for block in layer.blocks]
    words = [MIXERS[kind].title for kind in kinds if kind in MIXERS]
    if "experts" in kinds or "router" in kinds:
        words.append("experts" + (" and shared expert" if "shared_expert" in kinds else ""))
    dense = kinds.count("dense")
    words += ["dense MLP"] if dense == 1 else [f"{dense} dense MLPs"] if dense else []
    shared = sorted({value.layer for value in layer.outside if value.kind == "layer" and value.layer is not None})
    text = " + ".join(words) or "unrecognised ops"
    return f"{text}, reading layer {ranges(shared)}" if shared else text
