"""HID: does the annotation name the values that irtools finds by itself."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.decoder.stack import DecoderStack
from irtools.errors import IrtoolsError
from irtools.graph.view import Source
from irtools.lint.annotation import Annotation, Tap, annotation, resolve, usable
from irtools.lint.fixes import write_annotation
from irtools.lint.model import Context, Finding, Severity, rule
from irtools.model.part import Part
from irtools.model.values import carries

_HINT = "`irtools locate` shows the evidence; `irtools annotate --force` replaces the annotation"


def _strangers(context: Context) -> Iterator[tuple[Part, Annotation, Tap, Source]]:
    """Locators that are sound in themselves but do not carry the located hidden state."""
    checked, stack = usable(context), context.stack
    if checked is None or stack is None:
        return
    part, found = checked
    seen: set[tuple[str, int]] = set()
    for tap in found.taps():
        source = resolve(part, tap)
        again = (tap.producer, tap.output_index) in seen
        seen.add((tap.producer, tap.output_index))
        if source is None or again or tap.layer >= len(stack.layers):
            continue  # other rules report these
        port = part.graph.port(source)
        if port is None or len(port.shape) != 3 or port.shape[2] != stack.hidden_size:
            continue
        if not carries(part.graph, source, stack.layers[tap.layer].source):
            yield part, found, tap, source


def _kind(part: Part, stack: DecoderStack, tap: Tap, source: Source) -> tuple[str, int | None]:
    """What a wrong tap is: ``pre-norm``, ``shifted``, ``inside`` or ``elsewhere``, and of which layer."""
    above = part.graph.unreshaped(source)
    if tap.layer == len(stack.layers) - 1 and above.op == part.graph.unreshaped(Source(stack.last_sum, above.port)).op:
        return "pre-norm", tap.layer
    for layer in stack.layers:
        if carries(part.graph, source, layer.source):
            return "shifted", layer.index
    for layer in stack.layers:
        if source.op in layer.ops or above.op in layer.ops:
            return "inside", layer.index
    return "elsewhere", None


def _of_kind(context: Context, wanted: str) -> Iterator[tuple[Part, Annotation, Tap, int | None]]:
    for part, found, tap, source in _strangers(context):
        if context.stack is not None:
            kind, layer = _kind(part, context.stack, tap, source)
            if kind == wanted:
                yield part, found, tap, layer


def _finding(context: Context, part: Part, found: Annotation, tap: Tap, message: str) -> Finding:
    wanted = context.stack.layers[tap.layer].locator if context.stack else None
    where = f"; the hidden state is {wanted.producer}[{wanted.output_index}]" if wanted else ""
    return Finding(
        f"layer {tap.layer}: {message}{where}",
        _HINT,
        file=part.document.path,
        line=found.entry.line,
        op=tap.producer,
        fix=write_annotation(context, force=True),
    )


@rule("HID016", "wrong-tap", Severity.ERROR, "A locator names a value that is no hidden state")
def wrong_tap(context: Context) -> Iterator[Finding]:
    """The locator is legal, but names a value outside of the decoder layers.

    What it checks
    --------------
    Every locator against the layer's hidden state as irtools locates it. A value that is the same
    but for a reshape counts as the same.

    Why it matters
    --------------
    The runtime takes what it is told to. The draft gets other numbers than it was trained on, and
    few of its candidates are accepted: nothing fails and nothing is said.

    How to fix it
    -------------
    Compare with `irtools locate`; `irtools annotate --force` writes what that shows.

    Source
    ------
    Reproduced with GenAI 2026.4: silent.
    """
    for part, found, tap, _ in _of_kind(context, "elsewhere"):
        yield _finding(context, part, found, tap, f"{tap} is outside of the decoder layers")


@rule("HID017", "shifted-tap", Severity.ERROR, "A locator names the hidden state of another layer")
def shifted_tap(context: Context) -> Iterator[Finding]:
    """The locator is a hidden state, but that of another layer.

    What it checks
    --------------
    Every locator against the hidden states of all layers. Off by one is the usual case: layer i is
    what block i hands to block i+1, not what it receives.

    Why it matters
    --------------
    The draft gets the features of another depth; fewer of its candidates are accepted, and nothing
    is said.

    How to fix it
    -------------
    `irtools annotate --force`.

    Source
    ------
    Reproduced with GenAI 2026.4: silent.
    """
    for part, found, tap, layer in _of_kind(context, "shifted"):
        yield _finding(context, part, found, tap, f"{tap} is the hidden state of layer {layer}")


@rule("HID018", "mid-layer-tap", Severity.ERROR, "A locator names a value inside a layer")
def mid_layer_tap(context: Context) -> Iterator[Finding]:
    """The locator is a value within a decoder layer, such as the sum after attention.

    What it checks
    --------------
    Whether the value is computed between the input and the hidden state of some layer.

    Why it matters
    --------------
    The draft gets a value that misses half of a block; fewer of its candidates are accepted, and
    nothing is said.

    How to fix it
    -------------
    `irtools annotate --force`.

    Source
    ------
    Reproduced with GenAI 2026.4: silent.
    """
    for part, found, tap, layer in _of_kind(context, "inside"):
        yield _finding(context, part, found, tap, f"{tap} is inside layer {layer}")


@rule("HID019", "tap-before-final-norm", Severity.ERROR, "The last layer's locator is before the final norm")
def tap_before_final_norm(context: Context) -> Iterator[Finding]:
    """The last layer's locator is the last residual sum, not what the head reads.

    What it checks
    --------------
    Whether the last layer's locator is the last sum of the residual stream.

    Why it matters
    --------------
    The last layer's hidden state is by contract the value after the final norm. What the runtime's
    own guess takes, without an annotation, is the value before it.

    How to fix it
    -------------
    `irtools annotate --force`.

    Source
    ------
    Optimum Intel 2.2 writes the head's input; reproduced with GenAI 2026.4: silent.
    """
    for part, found, tap, _ in _of_kind(context, "pre-norm"):
        yield _finding(context, part, found, tap, f"{tap} is the value before the final norm")


@rule("HID020", "unverified-annotation", Severity.NOTE, "The annotation could not be compared with the graph")
def unverified_annotation(context: Context) -> Iterator[Finding]:
    """There is an annotation, but irtools cannot locate the decoder stack by itself.

    What it checks
    --------------
    Whether the location was refused although the target has an annotation.

    Why it matters
    --------------
    The form of the annotation has been checked, but not whether it names the right values.

    How to fix it
    -------------
    `irtools locate` says which witnesses contradict each other.

    Source
    ------
    irtools.
    """
    if context.target is None or not isinstance(context.location, IrtoolsError):
        return
    found = annotation(context.part(context.target))
    if found is not None:
        yield Finding(
            f"the annotation could not be compared with the graph: {context.location.args[0]}",
            "`irtools locate` shows the evidence",
            file=context.target.path,
            line=found.entry.line,
        )
