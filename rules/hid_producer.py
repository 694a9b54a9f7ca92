"""HID: does every locator name one live value of the right shape."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.ir.op import DYNAMIC
from irtools.lint.annotation import Annotation, Tap, resolve, usable
from irtools.lint.fixes import write_annotation
from irtools.lint.model import Context, Finding, Severity, rule
from irtools.model.part import Part
from irtools.text import shape_text

_HINT = "`irtools annotate --force` replaces the annotation"


def _finding(context: Context, part: Part, found: Annotation, tap: Tap, message: str, hint: str = _HINT) -> Finding:
    return Finding(
        f"layer {tap.layer}: {message}",
        hint,
        file=part.document.path,
        line=found.entry.line,
        op=tap.producer,
        fix=write_annotation(context, force=True),
    )


def _taps(context: Context) -> Iterator[tuple[Part, Annotation, Tap]]:
    checked = usable(context)
    if checked is not None:
        part, found = checked
        for tap in found.taps():
            yield part, found, tap


def _shapes(context: Context) -> Iterator[tuple[Part, Annotation, Tap, tuple[int, ...]]]:
    """Shapes of the values that the locators name."""
    for part, found, tap in _taps(context):
        source = resolve(part, tap)
        port = part.graph.port(source) if source is not None else None
        if port is not None:
            yield part, found, tap, port.shape


def _live(part: Part, tap: Tap) -> list[int]:
    return [key for key in part.named(tap.producer) if key in part.live]


@rule("HID009", "unknown-producer", Severity.ERROR, "A locator names an op that is not in the graph")
def unknown_producer(context: Context) -> Iterator[Finding]:
    """No top-level op has the friendly name of a locator's producer.

    What it checks
    --------------
    The friendly names of the top-level ops; those inside a Loop or If do not count.

    Why it matters
    --------------
    A target is refused at load when the draft asks for such a layer: "resolved to 0 live nodes".

    How to fix it
    -------------
    `irtools annotate --force`. It happens when a model was renamed or compressed after it was
    annotated, or when the annotation was taken over from another model.

    Source
    ------
    OpenVINO GenAI, `resolve_unique_live_node`.
    """
    for part, found, tap in _taps(context):
        if not part.named(tap.producer):
            yield _finding(context, part, found, tap, f"no op has the name {tap.producer!r}")


@rule("HID010", "dead-producer", Severity.ERROR, "A locator names an op that no output depends on")
def dead_producer(context: Context) -> Iterator[Finding]:
    """The producer exists, but no Result and no Assign depends on it.

    What it checks
    --------------
    Whether the op is above some model output or state.

    Why it matters
    --------------
    OpenVINO drops such ops when it reads the file, so the runtime finds none by that name and
    refuses the target.

    How to fix it
    -------------
    `irtools annotate --force`.

    Source
    ------
    Reproduced with OpenVINO 2026.4; GenAI reports "resolved to 0 live nodes".
    """
    for part, found, tap in _taps(context):
        if part.named(tap.producer) and not _live(part, tap):
            message = f"no output or state depends on {tap.producer!r}, so OpenVINO drops it"
            yield _finding(context, part, found, tap, message)


@rule("HID011", "ambiguous-producer", Severity.ERROR, "A locator's name belongs to several ops")
def ambiguous_producer(context: Context) -> Iterator[Finding]:
    """More than one live op has the friendly name of a locator's producer.

    What it checks
    --------------
    The friendly names of all live top-level ops, constants, inputs and outputs included.

    Why it matters
    --------------
    A target is refused at load when the draft asks for such a layer: "resolved to 2 live nodes".

    How to fix it
    -------------
    Give the ops different names. Compression tools have written such files in the past.

    Source
    ------
    OpenVINO GenAI, `resolve_unique_live_node`.
    """
    for part, found, tap in _taps(context):
        ops = _live(part, tap)
        if len(ops) > 1:
            lines = ", ".join(str(part.graph.line(key)) for key in ops)
            message = f"{len(ops)} ops have the name {tap.producer!r} (lines {lines})"
            yield _finding(context, part, found, tap, message, "give the ops different names")


@rule("HID012", "output-index-out-of-range", Severity.ERROR, "A locator's output index is out of range")
def output_index_range(context: Context) -> Iterator[Finding]:
    """The producer has no output of that index.

    What it checks
    --------------
    The number of output ports of the producer. The index counts output ports from 0; it is not
    the port id of the file, which goes on after the inputs.

    Why it matters
    --------------
    A target is refused at load when the draft asks for such a layer.

    How to fix it
    -------------
    `irtools annotate --force`.

    Source
    ------
    OpenVINO GenAI, `resolve_live_hidden_state_output`.
    """
    for part, found, tap in _taps(context):
        ops = _live(part, tap)
        if len(ops) == 1 and tap.output_index >= len(part.graph.op(ops[0]).outputs):
            count = len(part.graph.op(ops[0]).outputs)
            message = f"{tap.producer!r} has no output {tap.output_index}, only {count}"
            yield _finding(context, part, found, tap, message)


@rule("HID013", "tap-of-wrong-rank", Severity.ERROR, "A locator's value has not rank 3 and a static width")
def tap_rank(context: Context) -> Iterator[Finding]:
    """The value is not of the form `[batch, sequence, width]` with a known width.

    What it checks
    --------------
    Rank and last dimension of the producer's output port.

    Why it matters
    --------------
    A target is refused at load when the draft asks for such a layer: "must be rank-3 with a
    static hidden width".

    How to fix it
    -------------
    `irtools annotate --force`.

    Source
    ------
    OpenVINO GenAI, `is_rank3_hidden_output`.
    """
    for part, found, tap, shape in _shapes(context):
        if len(shape) != 3 or shape[2] == DYNAMIC:
            message = f"{tap} is {shape_text(shape)}, not of rank 3 with a static last dimension"
            yield _finding(context, part, found, tap, message)


@rule("HID014", "tap-of-wrong-width", Severity.ERROR, "A locator's value is not as wide as the model")
def tap_width(context: Context) -> Iterator[Finding]:
    """The value's last dimension differs from the hidden size.

    What it checks
    --------------
    The width of each locator's value against that of the located residual stream.

    Why it matters
    --------------
    The runtime concatenates what it is told to and does not compare: the draft fails in its first
    inference.

    How to fix it
    -------------
    `irtools annotate --force`.

    Source
    ------
    Reproduced with GenAI 2026.4: it fails while generating.
    """
    stack = context.stack
    for part, found, tap, shape in _shapes(context):
        if stack is not None and len(shape) == 3 and shape[2] not in (DYNAMIC, stack.hidden_size):
            message = f"{tap} is {shape[2]} wide, the model {stack.hidden_size}"
            yield _finding(context, part, found, tap, message)


@rule("HID015", "shared-tap", Severity.ERROR, "Two layers have the same locator")
def shared_tap(context: Context) -> Iterator[Finding]:
    """Two layers name the same producer and output index.

    What it checks
    --------------
    All pairs of layers, not only those that one draft asks for.

    Why it matters
    --------------
    A target is refused at load when the draft asks for both layers: "Duplicate producer/output
    locator".

    How to fix it
    -------------
    `irtools annotate --force`.

    Source
    ------
    OpenVINO GenAI, `resolve_target_hidden_state_locators`.
    """
    first: dict[tuple[str, int], int] = {}
    for part, found, tap in _taps(context):
        earlier = first.setdefault((tap.producer, tap.output_index), tap.layer)
        if earlier != tap.layer:
            yield _finding(context, part, found, tap, f"{tap} is already the locator of layer {earlier}")
