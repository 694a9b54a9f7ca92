"""HID: does the annotation have the form that the runtime parses."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.ir.rt_info import ANNOTATION_KEY
from irtools.lint.annotation import annotation, layer_count, layer_id, usable
from irtools.lint.fixes import write_annotation
from irtools.lint.model import Context, Finding, Severity, rule


@rule("HID004", "malformed-annotation", Severity.ERROR, "The annotation is not the JSON that the runtime expects")
def malformed_annotation(context: Context) -> Iterator[Finding]:
    """The value does not parse, or has no object `layers`.

    What it checks
    --------------
    That the value is JSON (no NaN, no comments, no lone surrogates), an object, and that its
    member `layers` is an object. An empty or absent value counts too.

    Why it matters
    --------------
    A target with a malformed annotation is refused when it is loaded for DFlash: there is no
    fallback once the key exists.

    How to fix it
    -------------
    `irtools annotate --force` writes a sound one; `irtools strip` takes it out.

    Source
    ------
    OpenVINO GenAI: "Malformed hidden-state annotation metadata in model rt_info".
    """
    if context.target is None:
        return
    found = annotation(context.part(context.target))
    if found is not None and found.problem:
        yield Finding(
            f"the annotation {found.problem}",
            "`irtools annotate --force` replaces it",
            file=context.target.path,
            line=found.entry.line,
            fix=write_annotation(context, force=True),
        )


@rule("HID005", "early-form-annotation", Severity.ERROR, "The annotation has the early form")
def early_form_annotation(context: Context) -> Iterator[Finding]:
    """The layers are names instead of locators: `{"version":1,"layers":{"0":"name"}}`.

    What it checks
    --------------
    Whether every member of `layers` is a string.

    Why it matters
    --------------
    No released runtime reads this form: a target with it is refused when it is loaded for DFlash.

    How to fix it
    -------------
    `irtools annotate` upgrades it when it agrees with the located layers.

    Source
    ------
    Written by development versions of the exporter.
    """
    if context.target is None:
        return
    found = annotation(context.part(context.target))
    if found is not None and found.early:
        yield Finding(
            f"{ANNOTATION_KEY} has the early form, layer names instead of producer and output_index",
            "`irtools annotate` upgrades it",
            file=context.target.path,
            line=found.entry.line,
            fix=write_annotation(context),
        )


@rule("HID006", "layer-gap", Severity.ERROR, "The annotation leaves layers out")
def layer_gap(context: Context) -> Iterator[Finding]:
    """Some decoder layer has no entry.

    What it checks
    --------------
    That `layers` has every number from 0 to one less than the number of decoder layers, written
    as the runtime writes it ("7", not "07").

    Why it matters
    --------------
    A draft chooses its layers. One that asks for a missing layer is refused at load.

    How to fix it
    -------------
    `irtools annotate --force`.

    Source
    ------
    The annotation's contract: every layer. OpenVINO GenAI looks layers up by `std::to_string`.
    """
    checked = usable(context)
    count = layer_count(context, context.stack)
    if checked is None or count is None:
        return
    part, found = checked
    missing = [str(layer) for layer in range(count) if str(layer) not in found.layers]
    if missing:
        noun = "layer" if len(missing) == 1 else "layers"
        yield Finding(
            f"the annotation has no {noun} {', '.join(missing)} (of {count})",
            "`irtools annotate --force` replaces it",
            file=part.document.path,
            line=found.entry.line,
            fix=write_annotation(context, force=True),
        )


@rule("HID007", "surplus-layer", Severity.WARNING, "The annotation has layers that the model does not have")
def surplus_layer(context: Context) -> Iterator[Finding]:
    """A member of `layers` is no layer of this model, or is written twice.

    What it checks
    --------------
    That every key is a layer number below the number of decoder layers, and that none is repeated.

    Why it matters
    --------------
    The runtime never asks for such a key, but it shows that the annotation was made for another
    model or by hand; of a repeated key the last one counts.

    How to fix it
    -------------
    `irtools annotate --force`.

    Source
    ------
    The annotation's contract: every layer 0..N-1, and no other.
    """
    checked = usable(context)
    count = layer_count(context, context.stack)
    if checked is None:
        return
    part, found = checked
    surplus = [key for key in found.layers if not layer_id(key) or (count is not None and int(key) >= count)]
    severity = Severity.ERROR if context.expect_mtp else None
    for keys, what in (
        (surplus, "no layer of this model"),
        (list(found.repeated), "repeated, and the last one counts"),
    ):
        if keys:
            yield Finding(
                f"in the annotation, {', '.join(repr(key) for key in keys)} {'is' if len(keys) == 1 else 'are'} {what}",
                "`irtools annotate --force` replaces it",
                file=part.document.path,
                line=found.entry.line,
                severity=severity,
                fix=write_annotation(context, force=True),
            )


@rule("HID008", "mistyped-locator", Severity.ERROR, "A locator has a member of the wrong type")
def locator_type(context: Context) -> Iterator[Finding]:
    """A layer's entry is no object with a string `producer` and an unsigned `output_index`.

    What it checks
    --------------
    The types as the runtime's JSON library sees them: -1, 0.0, -0, "0", true and null are no
    unsigned integers.

    Why it matters
    --------------
    A target is refused at load when the draft asks for such a layer; others are never looked at.

    How to fix it
    -------------
    `irtools annotate --force`.

    Source
    ------
    OpenVINO GenAI: "Malformed hidden-state annotation metadata".
    """
    checked = usable(context)
    if checked is None:
        return
    part, found = checked
    for key in found.layers:
        problem = found.locator_problem(key)
        if problem:
            yield Finding(
                f"layer {key} of the annotation {problem}",
                "`irtools annotate --force` replaces it",
                file=part.document.path,
                line=found.entry.line,
                fix=write_annotation(context, force=True),
            )
