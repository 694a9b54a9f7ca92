"""HID: exactly one annotation, where the runtime reads it."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.ir.rt_info import ANNOTATION_KEY
from irtools.lint.fix_makers import write_annotation
from irtools.lint.mtp import expected
from irtools.lint.pair import pair, reads_annotation
from irtools.model.annotation import stray_line
from irtools.model.draft import is_draft
from irtools.text import plural


@rule("HID001", "missing-annotation", Severity.NOTE, "The target has no hidden-state annotation", rules_out=())
def missing_annotation(context: Context) -> Iterator[Finding]:
    """The decoder stack can be located, but no model-level rt_info names its hidden states.

    What it checks
    --------------
    That the target has the rt_info key `hidden_states_decoder_layers`. Its absence is a note, because
    only DFlash reads the key. It is an error with `--expect-mtp`, which asks for a complete export: the
    exporter writes the key together with the MTP head. The message gives the reason. A draft needs no
    annotation.

    Why it matters
    --------------
    DFlash takes the target's hidden states from this annotation. Without it, the runtime guesses by
    name and shape. The guess finds nothing in most families, and takes the value before the final norm
    for the last layer.

    How to fix it
    -------------
    `irtools annotate MODEL_DIR` writes it. Only the XML changes; the weights are not touched.

    Source
    ------
    OpenVINO GenAI, `dflash_model_transforms.cpp`, `resolve_target_hidden_state_locators`.
    """
    part = context.target_facts
    if part is None or context.stack is None or part.annotation is not None or stray_line(part.document.scan):
        return
    reason = "only DFlash reads it"
    if context.expect_mtp:
        reason = "--expect-mtp asks for a complete export, which has it"
    elif context.draft is not None and not reads_annotation(context):
        reason = "only DFlash reads it, and the draft is not a DFlash draft"
    located = plural(len(context.stack.layers), "decoder layer")
    message = f"no {ANNOTATION_KEY} in the model-level rt_info ({located} located); {reason}"
    hint = "run `irtools annotate` to write it; the weights are not touched"
    if context.stack.obstacle:
        hint = "give the producers of the hidden states unique names first (IR016), then run `irtools annotate`"
    yield finding_at(part, None, message, hint, expected(context), fix=write_annotation(context))


@rule("HID021", "annotated-draft", Severity.NOTE, "A draft has a hidden-state annotation", rules_out=())
def annotated_draft(context: Context) -> Iterator[Finding]:
    """The annotation is in a draft, where nothing reads it.

    What it checks
    --------------
    That a draft, in MODEL_DIR or in the directory of `--draft`, has no `hidden_states_decoder_layers`.

    Why it matters
    --------------
    A draft reads the hidden states of a target, and the runtime looks for the annotation there. In the
    draft it does no harm, but it may be missing where it is needed.

    How to fix it
    -------------
    Annotate the target. `irtools strip` removes the annotation from the draft.

    Source
    ------
    OpenVINO GenAI, `resolve_target_hidden_state_locators`: the only model that is read is the target.
    """
    paired = pair(context)
    if paired is not None and is_draft(paired.draft.part) and paired.draft.part.annotation is not None:
        message = f"the draft has {ANNOTATION_KEY}, which the runtime reads only in a target"
        hint = "annotate the target, and run `irtools strip` to remove the annotation from the draft"
        yield finding_at(paired.draft.part, ANNOTATION_KEY, message, hint)


@rule("HID002", "misplaced-annotation", Severity.ERROR, "The annotation is not where the runtime reads it")
def misplaced_annotation(context: Context) -> Iterator[Finding]:
    """The key is in the file, but not in the container that OpenVINO reads.

    What it checks
    --------------
    That `hidden_states_decoder_layers` is on the first level of the first `<rt_info>`. The rule reports
    the key if it occurs only below another rt_info key, in a second `<rt_info>`, or in a `<meta_data>`
    beside an `<rt_info>`.

    Why it matters
    --------------
    OpenVINO reads the first `<rt_info>` of the model, even an empty one, and ignores all others. To the
    runtime, the model has no annotation.

    How to fix it
    -------------
    Move the entry to the first level of the first `<rt_info>` below `<net>`, or remove it and run
    `irtools annotate`.

    Source
    ------
    Reproduced with OpenVINO 2026.4.
    """
    if context.target is None or context.is_draft or context.facts(context.target).annotation is not None:
        return
    line = stray_line(context.target.scan)
    if line is not None:
        message = f"OpenVINO does not read {ANNOTATION_KEY} at this place, so the runtime finds no annotation"
        yield Finding(message, "move it to the first level of the model's first <rt_info>", context.target.path, line)


@rule("HID003", "repeated-annotation", Severity.WARNING, "The annotation appears more than once")
def repeated_annotation(context: Context) -> Iterator[Finding]:
    """Several model-level entries have the annotation's key; the last one counts.

    What it checks
    --------------
    The key as a tag, as `<info name="...">`, and as any other tag with that `name`. OpenVINO treats all
    of them as the same key.

    Why it matters
    --------------
    The last entry counts. An editor that changes the first one has no effect.

    How to fix it
    -------------
    Run `irtools strip`, then `irtools annotate`.

    Source
    ------
    Reproduced with OpenVINO 2026.4.
    """
    if context.target is None:
        return
    entries = context.facts(context.target).entries(ANNOTATION_KEY)
    for entry in entries[:-1]:
        message = f"{ANNOTATION_KEY} is repeated in line {entries[-1].line}, and only the last entry counts"
        yield Finding(message, "run `irtools strip`, then `irtools annotate`", context.target.path, entry.line)
