"""HID: the annotation's JSON against the form that the runtime parses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from irtools.authoring import Context, Finding, Severity, rule
from irtools.ir.rt_info import ANNOTATION_KEY
from irtools.lint.fix_makers import replaceable, write_annotation
from irtools.lint.mtp import expected
from irtools.lint.pair import reads_annotation
from irtools.model.annotation import is_layer_key

_REPLACE = "run `irtools annotate --force` to replace it"


@rule("HID004", "malformed-annotation", Severity.ERROR, "The annotation is not the JSON that the runtime expects")
def malformed_annotation(context: Context) -> Iterator[Finding]:
    """The value is not valid JSON, or has no object `layers`.

    What it checks
    --------------
    That the value is valid JSON (no NaN, no comments, no lone surrogates) and an object, and that its
    member `layers` is an object. An empty or absent value is also reported.

    Why it matters
    --------------
    DFlash rejects a target with a malformed annotation at load time. Once the key exists, the runtime
    does not fall back to its guess.

    How to fix it
    -------------
    `irtools annotate --force` writes a valid annotation; `irtools strip` removes it.

    Source
    ------
    OpenVINO GenAI: "Malformed hidden-state annotation metadata in model rt_info".
    """
    if context.target is None:
        return
    parsed = context.facts(context.target).annotation
    if parsed is not None and parsed.problem and not context.is_draft:
        read = reads_annotation(context)
        yield replaceable(context, f"the annotation {parsed.problem}", _REPLACE, read=read)


@rule("HID005", "early-form-annotation", Severity.ERROR, "The annotation has the early form")
def early_form_annotation(context: Context) -> Iterator[Finding]:
    """The layers are names instead of locators: `{"version":1,"layers":{"0":"name"}}`.

    What it checks
    --------------
    That `layers` does not consist of strings only.

    Why it matters
    --------------
    No released runtime reads this form. DFlash rejects such a target at load time.

    How to fix it
    -------------
    `irtools annotate` upgrades the annotation if it agrees with the located layers.

    Source
    ------
    Written by development versions of the exporter.
    """
    if context.target is None:
        return
    parsed = context.facts(context.target).annotation
    if parsed is not None and parsed.early and not context.is_draft:
        message = f"{ANNOTATION_KEY} has the early form: layer names instead of producer and output_index"
        read = reads_annotation(context)
        finding = replaceable(context, message, "run `irtools annotate` to upgrade it", read=read)
        yield replace(finding, fix=write_annotation(context))


@rule("HID006", "layer-gap", Severity.ERROR, "The annotation omits layers")
def layer_gap(context: Context) -> Iterator[Finding]:
    """Some decoder layers have no entry.

    What it checks
    --------------
    That `layers` has every number from 0 to the number of decoder layers minus one, in the runtime's
    spelling ("7", not "07").

    Why it matters
    --------------
    Each draft chooses the layers it reads. If a chosen layer is missing, the runtime rejects the target
    at load time.

    How to fix it
    -------------
    Run `irtools annotate --force`.

    Source
    ------
    The annotation must list every layer. OpenVINO GenAI looks layers up by `std::to_string`.
    """
    checked = context.annotated
    count = context.layer_count
    if checked is None or count is None:
        return
    missing = [layer for layer in range(count) if str(layer) not in checked[1].layers]
    if missing:
        noun = "layer" if len(missing) == 1 else "layers"
        message = f"the annotation has no {noun} {', '.join(map(str, missing))} (of {count})"
        read = any(reads_annotation(context, layer) for layer in missing)
        yield replaceable(context, message, _REPLACE, read=read)


@rule("HID007", "surplus-layer", Severity.WARNING, "The annotation has layers that the model does not have")
def surplus_layer(context: Context) -> Iterator[Finding]:
    """A member of `layers` is not a layer of this model, or is repeated.

    What it checks
    --------------
    That every key is a layer number below the number of decoder layers, and that no key is repeated.

    Why it matters
    --------------
    The runtime never asks for such a key, but the key shows that the annotation was made for another
    model or by hand. Of a repeated key, the last entry counts.

    How to fix it
    -------------
    Run `irtools annotate --force`.

    Source
    ------
    The annotation must list layers 0 to N-1 and no others.
    """
    checked = context.annotated
    count = context.layer_count
    if checked is None:
        return
    parsed = checked[1]
    surplus = [key for key in parsed.layers if not is_layer_key(key) or (count is not None and int(key) >= count)]
    for keys, fault in (
        (surplus, "has entries that are not layers of this model"),
        (parsed.repeated, "repeats layers, and the last entry counts"),
    ):
        if keys:
            message = f"the annotation {fault}: {', '.join(map(repr, keys))}"
            yield replaceable(context, message, _REPLACE, severity=expected(context))


@rule("HID008", "mistyped-locator", Severity.ERROR, "A locator has a member of the wrong type")
def locator_type(context: Context) -> Iterator[Finding]:
    """A layer's entry is not an object with a string `producer` and an unsigned `output_index`.

    What it checks
    --------------
    The types as the runtime's JSON library distinguishes them: -1, 0.0, -0, "0", true and null are not
    unsigned integers.

    Why it matters
    --------------
    If a draft reads such a layer, the runtime rejects the target at load time. It does not check the
    other layers.

    How to fix it
    -------------
    Run `irtools annotate --force`.

    Source
    ------
    OpenVINO GenAI: "Malformed hidden-state annotation metadata".
    """
    checked = context.annotated
    if checked is None:
        return
    for key in checked[1].layers:
        problem = checked[1].entry_problem(key)
        if problem:
            read = reads_annotation(context, int(key) if is_layer_key(key) else -1)
            yield replaceable(context, f"layer {key} of the annotation {problem}", _REPLACE, read=read)
