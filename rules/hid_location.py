"""HID: the annotation's locators against the hidden states that irtools locates."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.authoring import Context, Finding, Severity, rule
from irtools.decoder.stack import DecoderStack
from irtools.errors import IrtoolsError
from irtools.graph.view import Source
from irtools.lint.fix_makers import replaceable
from irtools.lint.pair import reads_annotation
from irtools.model.annotation import Locator, Tap
from irtools.model.part import PartFacts
from irtools.model.values import carries

_HINT = "run `irtools locate` to see the evidence, and `irtools annotate --force` to replace the annotation"


def _wrong_taps(context: Context) -> Iterator[tuple[PartFacts, DecoderStack, Tap, Source]]:
    """Locators that are valid but do not carry the located hidden state."""
    checked, stack = context.annotated, context.stack
    if checked is None or stack is None:
        return
    part, parsed = checked
    seen: set[Locator] = set()
    for tap in parsed.taps():
        source = part.resolve(tap.locator)
        again = tap.locator in seen
        if reads_annotation(context, tap.layer):  # else no rule compares it with the layers that are read
            seen.add(tap.locator)
        if source is None or again or tap.layer >= len(stack.layers):
            continue  # other rules report these
        port = part.graph.port(source)
        if port is None or len(port.shape) != 3 or port.shape[2] != stack.hidden_size:
            continue
        if not carries(part.graph, source, stack.layers[tap.layer].source):
            yield part, stack, tap, source


def _kind(part: PartFacts, stack: DecoderStack, tap: Tap, source: Source) -> tuple[str, int | None]:
    """Kind of a wrong tap, ``pre-norm``, ``shifted``, ``inside`` or ``elsewhere``, and the layer it is in."""
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


def _of_kind(context: Context, wanted: str) -> Iterator[tuple[Tap, int | None]]:
    for part, stack, tap, source in _wrong_taps(context):
        kind, layer = _kind(part, stack, tap, source)
        if kind == wanted:
            yield tap, layer


def _finding(context: Context, tap: Tap, message: str) -> Finding:
    wanted = context.stack.layers[tap.layer].locator if context.stack else None
    where = f"; the hidden state is {wanted}" if wanted else ""
    message, read = f"layer {tap.layer}: {message}{where}", reads_annotation(context, tap.layer)
    return replaceable(context, message, _HINT, tap.locator.producer, read=read)


@rule("HID016", "wrong-tap", Severity.ERROR, "A locator names a value that is not a hidden state")
def wrong_tap(context: Context) -> Iterator[Finding]:
    """The locator is valid, but names a value outside the decoder layers.

    What it checks
    --------------
    Every locator against the hidden state that irtools locates for its layer. A reshaped hidden state
    counts as the same value.

    Why it matters
    --------------
    The runtime uses the named value without checking it. The draft receives different features from those in
    training, and the acceptance rate drops without an error message.

    How to fix it
    -------------
    Compare with `irtools locate`, then run `irtools annotate --force`.

    Source
    ------
    Reproduced with GenAI 2026.4: no error message.
    """
    for tap, _ in _of_kind(context, "elsewhere"):
        yield _finding(context, tap, f"{tap} is outside the decoder layers")


@rule("HID017", "shifted-tap", Severity.ERROR, "A locator names the hidden state of another layer")
def shifted_tap(context: Context) -> Iterator[Finding]:
    """The locator names the hidden state of another layer.

    What it checks
    --------------
    Every locator against the hidden states of all layers. Off by one is the usual mistake: the hidden
    state of layer i is the value that block i passes to block i+1, not its input.

    Why it matters
    --------------
    The draft receives features of another depth, and the acceptance rate drops without an error
    message.

    How to fix it
    -------------
    Run `irtools annotate --force`.

    Source
    ------
    Reproduced with GenAI 2026.4: no error message.
    """
    for tap, layer in _of_kind(context, "shifted"):
        yield _finding(context, tap, f"{tap} is the hidden state of layer {layer}")


@rule("HID018", "mid-layer-tap", Severity.ERROR, "A locator names a value inside a layer")
def mid_layer_tap(context: Context) -> Iterator[Finding]:
    """The locator names a value inside a decoder layer, such as the sum after attention.

    What it checks
    --------------
    Every locator against the ops between the input and the hidden state of each layer.

    Why it matters
    --------------
    The draft receives a value that lacks one sublayer of a block, and the acceptance rate drops without
    an error message.

    How to fix it
    -------------
    Run `irtools annotate --force`.

    Source
    ------
    Reproduced with GenAI 2026.4: no error message.
    """
    for tap, layer in _of_kind(context, "inside"):
        yield _finding(context, tap, f"{tap} is inside layer {layer}")


@rule("HID019", "tap-before-final-norm", Severity.ERROR, "The last layer's locator is before the final norm")
def tap_before_final_norm(context: Context) -> Iterator[Finding]:
    """The last layer's locator names the last residual sum, not the input of lm_head.

    What it checks
    --------------
    The last layer's locator against the last sum of the residual stream.

    Why it matters
    --------------
    The hidden state of the last layer is defined as the value after the final norm. Without an
    annotation, the runtime's own guess takes the value before that norm.

    How to fix it
    -------------
    Run `irtools annotate --force`.

    Source
    ------
    Optimum Intel 2.2 writes the input of lm_head; reproduced with GenAI 2026.4: no error message.
    """
    for tap, _ in _of_kind(context, "pre-norm"):
        yield _finding(context, tap, f"{tap} is the value before the final norm")


@rule("HID020", "unverified-annotation", Severity.NOTE, "The annotation could not be compared with the graph")
def unverified_annotation(context: Context) -> Iterator[Finding]:
    """The target has an annotation, but irtools cannot locate the decoder stack.

    What it checks
    --------------
    That the decoder stack can be located if the target has an annotation.

    Why it matters
    --------------
    irtools has checked the form of the annotation, but not whether it names the right values.

    How to fix it
    -------------
    Run `irtools locate` to see which witnesses contradict each other.

    Source
    ------
    irtools.
    """
    if context.target is None or context.is_draft or not isinstance(context.location, IrtoolsError):
        return
    parsed = context.facts(context.target).annotation
    if parsed is not None:
        message = f"the annotation could not be compared with the graph: {context.location.args[0]}"
        yield Finding(message, "run `irtools locate` to see the evidence", context.target.path, parsed.line)
