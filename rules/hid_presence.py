"""HID: is there an annotation, where the runtime looks for it, and only one."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.ir.rt_info import ANNOTATION_KEY
from irtools.lint.annotation import annotation, stray_line
from irtools.lint.fixes import write_annotation
from irtools.lint.model import Context, Finding, Severity, rule


@rule("HID001", "missing-annotation", Severity.NOTE, "The target has no hidden-state annotation")
def missing_annotation(context: Context) -> Iterator[Finding]:
    """A decoder can be located in the target, but no model-level rt_info names its hidden states.

    What it checks
    --------------
    Whether the target has the rt_info key `hidden_states_decoder_layers`. A note for an export
    that is sound without it, an error with `--expect-mtp`.

    Why it matters
    --------------
    DFlash takes the target's hidden states from this annotation. Without it the runtime falls
    back to a guess by name and shape that finds nothing in most families, and takes the value
    before the final norm for the last layer.

    How to fix it
    -------------
    `irtools annotate MODEL_DIR` writes it: only the XML changes, the weights are not touched.

    Source
    ------
    OpenVINO GenAI, `dflash_model_transforms.cpp`, `resolve_target_hidden_state_locators`.
    """
    if context.target is None or context.stack is None:
        return
    part = context.part(context.target)
    if annotation(part) is not None or stray_line(context.target.scan) is not None:
        return
    count = len(context.stack.layers)
    yield Finding(
        f"no {ANNOTATION_KEY} in the model-level rt_info ({count} decoder layers located)",
        "`irtools annotate` writes it without touching the weights",
        file=context.target.path,
        line=context.target.line(context.target.scan.net_tag),
        severity=Severity.ERROR if context.expect_mtp else None,
        fix=write_annotation(context),
    )


@rule("HID002", "misplaced-annotation", Severity.ERROR, "The annotation is where the runtime does not look")
def misplaced_annotation(context: Context) -> Iterator[Finding]:
    """The key is in the file, but not in the one container that OpenVINO reads.

    What it checks
    --------------
    Whether `hidden_states_decoder_layers` stands below another rt_info key, in a second
    `<rt_info>`, or in `<meta_data>` beside an `<rt_info>`, and nowhere else.

    Why it matters
    --------------
    OpenVINO reads the first `<rt_info>` of the model, even an empty one, and ignores all others:
    for the runtime the model has no annotation.

    How to fix it
    -------------
    Move the entry to the first level of the first `<rt_info>` below `<net>`, or take it out and
    run `irtools annotate`.

    Source
    ------
    Reproduced with OpenVINO 2026.4.
    """
    if context.target is None or annotation(context.part(context.target)) is not None:
        return
    line = stray_line(context.target.scan)
    if line is not None:
        yield Finding(
            f"{ANNOTATION_KEY} is there, but not where OpenVINO reads it, so the runtime finds no annotation",
            "put it on the first level of the model's first <rt_info>",
            file=context.target.path,
            line=line,
        )


@rule("HID003", "repeated-annotation", Severity.WARNING, "The annotation is there more than once")
def repeated_annotation(context: Context) -> Iterator[Finding]:
    """Several model-level entries have the annotation's key; the last one counts.

    What it checks
    --------------
    The key as a tag, as `<info name="...">` or as any other tag with that `name`: OpenVINO takes
    all of them for the same key.

    Why it matters
    --------------
    The last entry wins. An editor that changes the first one changes nothing.

    How to fix it
    -------------
    `irtools strip`, then `irtools annotate`.

    Source
    ------
    Reproduced with OpenVINO 2026.4.
    """
    if context.target is None:
        return
    entries = context.part(context.target).entries(ANNOTATION_KEY)
    for entry in entries[:-1]:
        yield Finding(
            f"{ANNOTATION_KEY} is given again in line {entries[-1].line}, and only the last entry counts",
            "`irtools strip`, then `irtools annotate`",
            file=context.target.path,
            line=entry.line,
        )
