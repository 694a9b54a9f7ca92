"""HID: every locator must name one live value of the right shape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from irtools.authoring import Context, Finding, Severity, rule
from irtools.ir.op import DYNAMIC
from irtools.lint.fix_makers import REPLACE, make_names_unique, replaceable
from irtools.lint.pair import reads_annotation
from irtools.model.annotation import Locator, Tap
from irtools.model.part import PartFacts
from irtools.text import shape_text


def _finding(context: Context, tap: Tap, message: str, hint: str = REPLACE, other: int | None = None) -> Finding:
    """Finding about the locator of a layer, which conflicts with that of the layer ``other`` if given."""
    read = reads_annotation(context, tap.layer, *(() if other is None else (other,)))
    return replaceable(context, f"layer {tap.layer}: {message}", hint, tap.locator.producer, read=read)


def _taps(context: Context) -> Iterator[tuple[PartFacts, Tap]]:
    if context.annotated is not None:
        part, parsed = context.annotated
        for tap in parsed.taps():
            # No draft can ask for a layer that does not exist; another rule reports its entry.
            if context.layer_count is None or tap.layer < context.layer_count:
                yield part, tap


def _shapes(context: Context) -> Iterator[tuple[Tap, tuple[int, ...]]]:
    """Shapes of the values that the locators name."""
    for part, tap in _taps(context):
        source = part.resolve(tap.locator)
        port = part.graph.port(source) if source is not None else None
        if port is not None:
            yield tap, port.shape


@rule("HID009", "unknown-producer", Severity.ERROR, "A locator names an op that is not in the graph")
def unknown_producer(context: Context) -> Iterator[Finding]:
    """No top-level op has the friendly name in a locator's `producer`.

    What it checks
    --------------
    The friendly names of the top-level ops. Ops inside a Loop or If do not count.

    Why it matters
    --------------
    If a draft reads this layer, the runtime rejects the target at load time: "resolved to 0 live
    nodes".

    How to fix it
    -------------
    Run `irtools annotate --force`. The usual cause is that the model was renamed or compressed after
    the annotation was written, or that the annotation was copied from another model.

    Source
    ------
    OpenVINO GenAI, `resolve_unique_live_node`.
    """
    for part, tap in _taps(context):
        if not part.graph.named.get(tap.locator.producer):
            yield _finding(context, tap, f"no op has the name {tap.locator.producer!r}")


@rule("HID010", "dead-producer", Severity.ERROR, "A locator names an op that no output depends on")
def dead_producer(context: Context) -> Iterator[Finding]:
    """The producer exists, but no Result and no Assign depends on it.

    What it checks
    --------------
    That a model output or a state depends on the op.

    Why it matters
    --------------
    OpenVINO drops such ops when it reads the file. The runtime then finds no op of this name and
    rejects the target.

    How to fix it
    -------------
    Run `irtools annotate --force`.

    Source
    ------
    Reproduced with OpenVINO 2026.4; GenAI reports "resolved to 0 live nodes".
    """
    for part, tap in _taps(context):
        if part.graph.named.get(tap.locator.producer) and not part.graph.live_named(tap.locator.producer):
            message = f"no output or state depends on {tap.locator.producer!r}, so OpenVINO drops it"
            yield _finding(context, tap, message)


@rule("HID011", "ambiguous-producer", Severity.ERROR, "Several ops have a locator's name")
def ambiguous_producer(context: Context) -> Iterator[Finding]:
    """More than one live op has the friendly name in a locator's `producer`.

    What it checks
    --------------
    The friendly names of all live top-level ops, including constants, inputs and outputs.

    Why it matters
    --------------
    If a draft reads this layer, the runtime rejects the target at load time: "resolved to 2 live
    nodes".

    How to fix it
    -------------
    Rename the ops so that the names differ; `--unsafe-fixes` does it. Some versions of compression tools
    write such duplicates.

    Source
    ------
    OpenVINO GenAI, `resolve_unique_live_node`.
    """
    for part, tap in _taps(context):
        ops = part.graph.live_named(tap.locator.producer)
        if len(ops) > 1:
            lines = ", ".join(str(part.graph.line(key)) for key in ops)
            message = f"{len(ops)} ops have the name {tap.locator.producer!r} (lines {lines})"
            finding = _finding(context, tap, message, "rename the ops so that the names differ")
            yield replace(finding, fix=make_names_unique(context))


@rule("HID012", "output-index-out-of-range", Severity.ERROR, "A locator's output index is out of range")
def output_index_range(context: Context) -> Iterator[Finding]:
    """The producer has no output with this index.

    What it checks
    --------------
    The number of output ports of the producer. The index counts output ports from 0. It is not the port
    id in the file, which starts after the inputs.

    Why it matters
    --------------
    If a draft reads this layer, the runtime rejects the target at load time.

    How to fix it
    -------------
    Run `irtools annotate --force`.

    Source
    ------
    OpenVINO GenAI, `resolve_live_hidden_state_output`.
    """
    for part, tap in _taps(context):
        ops = part.graph.live_named(tap.locator.producer)
        if len(ops) == 1 and tap.locator.output_index >= len(part.graph.op(ops[0]).outputs):
            count = len(part.graph.op(ops[0]).outputs)
            message = (
                f"{tap.locator.producer!r} has no output {tap.locator.output_index}; its number of outputs is {count}"
            )
            yield _finding(context, tap, message)


@rule("HID013", "tap-of-wrong-rank", Severity.ERROR, "A locator's value lacks rank 3 or a static width")
def tap_rank(context: Context) -> Iterator[Finding]:
    """The value does not have the form `[batch, sequence, width]` with a known width.

    What it checks
    --------------
    Rank and last dimension of the producer's output port.

    Why it matters
    --------------
    If a draft reads this layer, the runtime rejects the target at load time: "must be rank-3 with a
    static hidden width".

    How to fix it
    -------------
    Run `irtools annotate --force`.

    Source
    ------
    OpenVINO GenAI, `is_rank3_hidden_output`.
    """
    for tap, shape in _shapes(context):
        if len(shape) != 3 or shape[2] == DYNAMIC:
            message = f"{tap} is {shape_text(shape)}, which lacks rank 3 or a static last dimension"
            yield _finding(context, tap, message)


@rule("HID014", "tap-of-wrong-width", Severity.ERROR, "A locator's value does not have the hidden size")
def tap_width(context: Context) -> Iterator[Finding]:
    """The value's last dimension differs from the hidden size.

    What it checks
    --------------
    The width of each locator's value against the width of the located residual stream.

    Why it matters
    --------------
    The runtime concatenates the values without comparing widths. The draft's first inference fails.

    How to fix it
    -------------
    Run `irtools annotate --force`.

    Source
    ------
    Reproduced with GenAI 2026.4: generation fails.
    """
    stack = context.stack
    for tap, shape in _shapes(context):
        if stack is not None and len(shape) == 3 and shape[2] not in (DYNAMIC, stack.hidden_size):
            message = f"{tap} has width {shape[2]}, but the model has hidden size {stack.hidden_size}"
            yield _finding(context, tap, message)


@rule("HID015", "shared-tap", Severity.ERROR, "Two layers have the same locator")
def shared_tap(context: Context) -> Iterator[Finding]:
    """Two layers have the same producer and output index.

    What it checks
    --------------
    All pairs of layers, not only the pairs that one draft reads.

    Why it matters
    --------------
    If a draft reads both layers, the runtime rejects the target at load time: "Duplicate
    producer/output locator".

    How to fix it
    -------------
    Run `irtools annotate --force`.

    Source
    ------
    OpenVINO GenAI, `resolve_target_hidden_state_locators`.
    """
    layers: dict[Locator, list[int]] = {}
    for _, tap in _taps(context):
        earlier = layers.setdefault(tap.locator, [])
        if earlier:
            other = next((layer for layer in earlier if reads_annotation(context, layer, tap.layer)), earlier[0])
            yield _finding(context, tap, f"{tap} is already the locator of layer {other}", other=other)
        earlier.append(tap.layer)
