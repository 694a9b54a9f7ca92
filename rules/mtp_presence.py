"""MTP: is there a head, is it declared, and does its directory have the form the runtime asks for."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.lint.model import Context, Finding, Severity, rule
from irtools.lint.mtp import EXPORTED_FAMILIES, declaration, expected, head
from irtools.model.directory import MTP_FILE

_EXPORT_HINT = (
    "export with `--task image-text-to-text`: the head is a part of that export only; "
    "`text-generation-with-past` writes one model with its own embeddings, for which neither the exporter "
    "nor the runtime has a head"
)


@rule("MTP001", "missing-mtp", Severity.WARNING, "config.json declares an MTP head that is not exported")
def missing_mtp(context: Context) -> Iterator[Finding]:
    """The checkpoint has MTP layers, but the directory has no `openvino_mtp_model.xml`.

    What it checks
    --------------
    `mtp_num_hidden_layers`, `num_nextn_predict_layers` and `num_mtp_layers` of config.json, also
    under `text_config`, against the files. An error with `--expect-mtp`, a note for families whose
    head the exporter does not know, nothing with `--no-mtp`.

    Why it matters
    --------------
    The exporter writes the head only for the task image-text-to-text, only for one MTP layer, and
    turns failures into warnings. Without the file, a pipeline that asks for MTP takes the directory
    for a plain draft and fails at load.

    How to fix it
    -------------
    Export again with `--task image-text-to-text`. `text-generation-with-past` cannot do it: it
    writes one model with the embeddings inside, and MTP needs them in a part of their own.

    Source
    ------
    Optimum Intel 2.2, `model_configs.py`; OpenVINO GenAI 2026.4.
    """
    declared = declaration(context)
    if declared is None or declared.count < 1 or context.export.mtp is not None or context.expect_mtp is False:
        return
    known = context.config.get("model_type") in EXPORTED_FAMILIES
    layers = "layer" if declared.count == 1 else "layers"
    yield Finding(
        f"{declared.key} declares {declared.count} MTP {layers}, but there is no {MTP_FILE}",
        _EXPORT_HINT if known else "the exporter does not know the MTP head of this family",
        file=context.export.directory / "config.json",
        severity=expected(context, None if known else Severity.NOTE),
    )


@rule("MTP002", "undeclared-mtp", Severity.WARNING, "There is an MTP head that config.json does not declare")
def undeclared_mtp(context: Context) -> Iterator[Finding]:
    """`openvino_mtp_model.xml` is there, but config.json says that the model has no MTP layer.

    What it checks
    --------------
    That one of the known keys of config.json is at least 1 when there is a head. An error with
    `--expect-mtp`.

    Why it matters
    --------------
    The runtime goes by the file alone, so MTP runs; but everything that reads config.json believes
    that there is no head, and the head may be that of another checkpoint.

    How to fix it
    -------------
    Take config.json from the checkpoint that the head was exported from, or take the head away.

    Source
    ------
    Reproduced with GenAI 2026.4: silent.
    """
    if context.mtp is None or context.expect_mtp is False or not context.config:
        return
    declared = declaration(context)
    if declared is None or declared.count < 1:
        said = "has no key for it" if declared is None else f"says {declared.key} = {declared.count}"
        yield Finding(
            f"{MTP_FILE} is there, but config.json {said}",
            "take config.json from the checkpoint of the head, or take the head away",
            file=context.export.directory / "config.json",
            severity=expected(context),
        )


@rule("MTP003", "several-mtp-layers", Severity.WARNING, "config.json declares more than one MTP layer")
def several_mtp_layers(context: Context) -> Iterator[Finding]:
    """The checkpoint has several MTP layers; exporter and runtime know one.

    What it checks
    --------------
    Whether config.json declares more than one MTP layer while there is a head. An error with
    `--expect-mtp`.

    Why it matters
    --------------
    The exporter refuses such a checkpoint, and the runtime runs one layer again and again: the
    head was not made from this config, or lacks layers.

    How to fix it
    -------------
    Correct config.json, or export from the checkpoint that belongs to it.

    Source
    ------
    Optimum Intel 2.2: "MTP export currently supports a single decoder layer"; GenAI 2026.4: silent.
    """
    declared = declaration(context)
    if context.mtp is None or context.expect_mtp is False or declared is None or declared.count < 2:
        return
    yield Finding(
        f"{declared.key} declares {declared.count} MTP layers, and a head with one layer is exported",
        "correct config.json, or export again from the checkpoint that belongs to it",
        file=context.export.directory / "config.json",
        severity=expected(context),
    )


@rule("MTP004", "unwanted-mtp", Severity.ERROR, "There is an MTP head although none is wanted")
def unwanted_mtp(context: Context) -> Iterator[Finding]:
    """`--no-mtp` was given, and the directory has an MTP head.

    What it checks
    --------------
    Whether there is an `openvino_mtp_model.xml`.

    Why it matters
    --------------
    The runtime prefers the file: a directory that has it is loaded as an MTP pair when it is given
    as a draft.

    How to fix it
    -------------
    Remove openvino_mtp_model.xml and openvino_mtp_model.bin.

    Source
    ------
    OpenVINO GenAI 2026.4.
    """
    if context.expect_mtp is False and context.export.mtp is not None:
        yield Finding(
            f"there is a {MTP_FILE}, and none is wanted (--no-mtp)",
            "remove the file and its .bin",
            file=context.export.mtp.path,
        )


@rule("MTP005", "absent-mtp", Severity.ERROR, "A releasable MTP export was asked for, and there is no head")
def absent_mtp(context: Context) -> Iterator[Finding]:
    """`--expect-mtp` was given, there is no head, and config.json does not declare one either.

    What it checks
    --------------
    Whether there is an `openvino_mtp_model.xml`; if config.json declares a head, MTP001 reports it.

    Why it matters
    --------------
    Without the file there is no MTP.

    How to fix it
    -------------
    Export a checkpoint that has MTP layers with `--task image-text-to-text`. Where config.json says 0,
    the checkpoint has none, and no task makes one.

    Source
    ------
    OpenVINO GenAI 2026.4 looks for the file by name.
    """
    declared = declaration(context)
    if context.expect_mtp and context.export.mtp is None and (declared is None or declared.count < 1):
        said = "declares no MTP layer" if declared is None else f"says {declared.key} = {declared.count}"
        yield Finding(
            f"there is no {MTP_FILE}, and config.json {said}", _without_head(context), file=context.export.directory
        )


def _without_head(context: Context) -> str:
    """What to do about an export of a checkpoint that has no head, by how it was exported."""
    family = context.config.get("model_type")
    if family not in EXPORTED_FAMILIES:
        return f"the exporter knows no MTP head of the family {family!r}: leave --expect-mtp out"
    if context.export.find_part("text_embeddings") is not None:
        return (
            "this is an image-text-to-text export already, so the checkpoint has no head: "
            "export one that has MTP layers, or leave --expect-mtp out"
        )
    return f"take a checkpoint that has MTP layers, and {_EXPORT_HINT}"


@rule("MTP006", "undecomposed-mtp", Severity.ERROR, "An MTP head without a text embeddings part")
def undecomposed_mtp(context: Context) -> Iterator[Finding]:
    """The directory has an MTP head, but no `openvino_text_embeddings_model.xml`.

    What it checks
    --------------
    Whether the text embeddings are a part of their own when there is a head. A text-only export
    and a DFlash draft never have that part.

    Why it matters
    --------------
    The runtime refuses the directory at load: "MTP speculative decoding requires a decomposed model
    with a text embeddings model". It does so even where the head was never asked for, because the
    file's presence means MTP.

    How to fix it
    -------------
    Export with `--task image-text-to-text`, or remove openvino_mtp_model.xml.

    Source
    ------
    OpenVINO GenAI 2026.4.
    """
    found = head(context)
    if found is None or not found.profile.usable or context.export.find_part("text_embeddings") is not None:
        return
    yield Finding(
        f"{MTP_FILE} is there, but no openvino_text_embeddings_model.xml: the runtime refuses the directory",
        "export with `--task image-text-to-text`, or remove the head",
        file=context.export.directory / MTP_FILE,
    )


@rule("MTP007", "unknown-mtp-form", Severity.WARNING, "An MTP head of a form that the runtime does not run")
def unknown_mtp_form(context: Context) -> Iterator[Finding]:
    """The head's ports are those of no family whose head GenAI runs from this file.

    What it checks
    --------------
    The names of inputs and outputs against the known profiles: Qwen3.5, its mixture of experts,
    the Gemma 4 pair, and the self-contained form with embeddings of twice the width. The nearest
    profile is named, with what is missing from it and what it does not have.

    Why it matters
    --------------
    The runtime knows heads by their port names only.

    How to fix it
    -------------
    Export the head with Optimum Intel 2.2 or later, or run it with the runtime that it was made for.

    Source
    ------
    OpenVINO GenAI 2026.4.
    """
    found = head(context)
    if found is None or context.mtp is None or (found.known and found.profile.usable):
        return
    part, profile = found.part, found.profile
    if found.known:
        message = f"this is a {profile.title}: {profile.remark}"
    else:
        labels = [port.label for port in part.inputs] + [port.label for port in part.outputs]
        has = ", ".join(labels) or "no ports"
        wants = ", ".join(port.name for port in (*profile.inputs, *profile.outputs))
        message = f"no known MTP head has these ports ({has}); the nearest is the {profile.title} with {wants}"
    yield Finding(
        message,
        "export the head with Optimum Intel 2.2 or later",
        file=part.document.path,
        line=part.document.line(part.document.scan.net_tag),
        severity=expected(context, None if found.known else Severity.ERROR),
    )
