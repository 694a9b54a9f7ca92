"""MTP: presence and declared_mtp of the head, and the parts that the runtime needs beside it."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.lint.mtp import expected, head, runnable_form
from irtools.model.config import declared_mtp
from irtools.model.directory import MTP_FILE
from irtools.model.mtp import MtpHead, MtpProfile
from irtools.text import listed

from .families import EXPORTED_HEADS

_EXPORT_HINT = (
    "export with `--task image-text-to-text`: only that export includes the head; "
    "`text-generation-with-past` writes one model with embedded embeddings, for which neither the exporter "
    "nor the runtime supports a head"
)


@rule("MTP001", "missing-mtp", Severity.WARNING, "config.json declares an MTP head that is not exported")
def missing_mtp(context: Context) -> Iterator[Finding]:
    """The checkpoint has MTP layers, but the directory has no `openvino_mtp_model.xml`.

    What it checks
    --------------
    `mtp_num_hidden_layers`, `num_nextn_predict_layers` and `num_mtp_layers` in config.json, also under
    `text_config`, against the files. An error with `--expect-mtp`, a note for families whose head the
    exporter does not support, and not reported with `--no-mtp`.

    Why it matters
    --------------
    The exporter writes the head only for the task image-text-to-text and only for one MTP layer, and
    turns failures into warnings. Without the file, a pipeline that asks for MTP treats the directory as
    a plain draft and fails at load time.

    How to fix it
    -------------
    Export again with `--task image-text-to-text`. `text-generation-with-past` does not help: it writes
    one model that includes the embeddings, but MTP needs them in a separate part.

    Source
    ------
    Optimum Intel 2.2, `model_configs.py`; OpenVINO GenAI 2026.4.
    """
    declared = declared_mtp(context.config)
    if declared is None or declared.count < 1 or context.export.mtp is not None or context.expect_mtp is False:
        return
    supported = context.config.get("model_type") in EXPORTED_HEADS
    layers = "layer" if declared.count == 1 else "layers"
    message = f"{declared.key} declares {declared.count} MTP {layers}, but there is no {MTP_FILE}"
    hint = _EXPORT_HINT if supported else "the exporter does not support the MTP head of this family"
    yield _about_config(context, message, hint, None if supported else Severity.NOTE)


def _about_config(context: Context, message: str, hint: str, otherwise: Severity | None = None) -> Finding:
    """Finding about config.json, which is an error with ``--expect-mtp``."""
    return Finding(message, hint, context.export.directory / "config.json", severity=expected(context, otherwise))


@rule("MTP002", "undeclared-mtp", Severity.WARNING, "The directory has an MTP head that config.json does not declare")
def undeclared_mtp(context: Context) -> Iterator[Finding]:
    """`openvino_mtp_model.xml` exists, but config.json declares no MTP layer.

    What it checks
    --------------
    If there is a head: that one of the known keys in config.json is at least 1. An error with
    `--expect-mtp`.

    Why it matters
    --------------
    The runtime looks only at the file, so MTP runs. But tools that read config.json assume that there
    is no head, and the head may come from another checkpoint.

    How to fix it
    -------------
    Take config.json from the checkpoint that the head was exported from, or remove the head.

    Source
    ------
    Reproduced with GenAI 2026.4: no error message.
    """
    if context.mtp is None or context.expect_mtp is False or not context.config:
        return
    declared = declared_mtp(context.config)
    if declared is None or declared.count < 1:
        state = "does not declare it" if declared is None else f"has {declared.key} = {declared.count}"
        hint = "take config.json from the checkpoint of the head, or remove the head"
        yield _about_config(context, f"{MTP_FILE} exists, but config.json {state}", hint)


@rule("MTP003", "several-mtp-layers", Severity.WARNING, "config.json declares more than one MTP layer")
def several_mtp_layers(context: Context) -> Iterator[Finding]:
    """The checkpoint has several MTP layers, but exporter and runtime support one.

    What it checks
    --------------
    If there is a head: that config.json does not declare more than one MTP layer. An error with
    `--expect-mtp`.

    Why it matters
    --------------
    The exporter rejects such a checkpoint, and the runtime runs one layer repeatedly. So the head was
    not made from this config, or lacks layers.

    How to fix it
    -------------
    Correct config.json, or export from the checkpoint that belongs to it.

    Source
    ------
    Optimum Intel 2.2: "MTP export currently supports a single decoder layer"; GenAI 2026.4: no error
    message.
    """
    declared = declared_mtp(context.config)
    if context.mtp is None or context.expect_mtp is False or declared is None or declared.count < 2:
        return
    message = f"{declared.key} declares {declared.count} MTP layers, but the exported head has one"
    yield _about_config(context, message, "correct config.json, or export again from the checkpoint that belongs to it")


@rule("MTP004", "unwanted-mtp", Severity.ERROR, "The directory has an MTP head, but --no-mtp was given")
def unwanted_mtp(context: Context) -> Iterator[Finding]:
    """`--no-mtp` was given, but the directory has an MTP head.

    What it checks
    --------------
    That there is no `openvino_mtp_model.xml`.

    Why it matters
    --------------
    The runtime prefers this file: if the directory is used as a draft, it is loaded as an MTP pair.

    How to fix it
    -------------
    Remove openvino_mtp_model.xml and openvino_mtp_model.bin.

    Source
    ------
    OpenVINO GenAI 2026.4.
    """
    if context.expect_mtp is False and context.export.mtp is not None:
        message = f"the directory has an {MTP_FILE}, but --no-mtp was given"
        yield Finding(message, "remove the file and its .bin", context.export.mtp.path)


@rule("MTP005", "absent-mtp", Severity.ERROR, "The export was expected to have an MTP head, but has none")
def absent_mtp(context: Context) -> Iterator[Finding]:
    """`--expect-mtp` was given, but there is no head, and config.json does not declare one.

    What it checks
    --------------
    That there is an `openvino_mtp_model.xml`. If config.json declares a head, MTP001 reports its
    absence.

    Why it matters
    --------------
    MTP needs this file.

    How to fix it
    -------------
    Export a checkpoint that has MTP layers, with `--task image-text-to-text`. If config.json declares 0
    layers, the checkpoint has no head, and no task can export one.

    Source
    ------
    OpenVINO GenAI 2026.4 looks for the file by name.
    """
    declared = declared_mtp(context.config)
    if context.expect_mtp and context.export.mtp is None and (declared is None or declared.count < 1):
        state = "declares no MTP layer" if declared is None else f"has {declared.key} = {declared.count}"
        message = f"there is no {MTP_FILE}, and config.json {state}"
        yield Finding(message, _without_head(context), file=context.export.directory)


def _without_head(context: Context) -> str:
    """Hint for an export of a checkpoint that has no head."""
    family = context.config.get("model_type")
    if family not in EXPORTED_HEADS:
        return f"the exporter does not support an MTP head for the family {family!r}: omit --expect-mtp"
    if context.export.find_part("text_embeddings") is not None:
        return (
            "this is already an image-text-to-text export, so the checkpoint has no head: "
            "export one that has MTP layers, or omit --expect-mtp"
        )
    return f"take a checkpoint that has MTP layers, and {_EXPORT_HINT}"


@rule("MTP006", "undecomposed-mtp", Severity.ERROR, "The export has an MTP head but no text embeddings part")
def undecomposed_mtp(context: Context) -> Iterator[Finding]:
    """The directory has an MTP head, but no `openvino_text_embeddings_model.xml`.

    What it checks
    --------------
    If there is a head: that the text embeddings are a separate part. A text-only export and a DFlash
    draft never have that part.

    Why it matters
    --------------
    The runtime rejects the directory at load time: "MTP speculative decoding requires a decomposed
    model with a text embeddings model". It does so even if MTP was not requested, because it takes the
    file as a request for MTP.

    How to fix it
    -------------
    Export with `--task image-text-to-text`, or remove openvino_mtp_model.xml.

    Source
    ------
    OpenVINO GenAI 2026.4.
    """
    mtp = head(context)
    if mtp is None or not mtp.profile.usable or context.export.find_part("text_embeddings") is not None:
        return
    message = f"{MTP_FILE} exists without openvino_text_embeddings_model.xml, so the runtime rejects the directory"
    hint = "export with `--task image-text-to-text`, or remove the head"
    if context.needs_embeddings:
        hint = "restore that part, which the language model needs too"
    yield Finding(message, hint, context.export.directory / MTP_FILE)


@rule("MTP007", "unknown-mtp-form", Severity.WARNING, "The runtime does not run this form of MTP head")
def unknown_mtp_form(context: Context) -> Iterator[Finding]:
    """The head's ports match no family whose head GenAI runs from this file.

    What it checks
    --------------
    The names of inputs and outputs against the known profiles: Qwen3.5, Qwen3.5 MoE, the Gemma 4 pair,
    and the self-contained form with embeddings of twice the width. The message names the ports in which
    the head differs from the nearest form that GenAI runs, or the nearest profile and its ports.

    Why it matters
    --------------
    The runtime recognises heads only by their port names.

    How to fix it
    -------------
    Export the head with Optimum Intel 2.2 or later, or run it with the runtime it was made for.

    Source
    ------
    OpenVINO GenAI 2026.4.
    """
    mtp = head(context)
    if mtp is None or context.mtp is None or (mtp.comparable and mtp.profile.usable):
        return
    part, profile = mtp.part, mtp.profile
    if mtp.comparable:
        runs = None if profile.own_directory else runnable_form(part)
        told = f": {profile.remark}" if runs is None else f", which GenAI does not run: {listed(_unlike(mtp, runs), 9)}"
        message = f"this is a {profile.title}{told}"
    else:
        labels = [port.label for port in part.inputs] + [port.label for port in part.outputs]
        has = ", ".join(labels) or "no ports"
        wants = ", ".join(port.name for port in (*profile.inputs, *profile.outputs))
        message = f"no known MTP head has these ports ({has}); the nearest is the {profile.title} with {wants}"
    hint = "export the head with Optimum Intel 2.2 or later"
    if mtp.comparable and profile.own_directory:
        hint = "move it to a separate directory, and check the pair with --draft"
    severity = expected(context, None if mtp.comparable else Severity.ERROR)
    yield finding_at(part, None, message, hint, severity, rules_out=("mtp",))


def _unlike(mtp: MtpHead, profile: MtpProfile) -> list[str]:
    """Differences of a head's ports from a form that the runtime runs, as clauses."""
    part = mtp.part
    joined = [port for port in mtp.profile.inputs if port.shape[-1] == "2H" and mtp.input(port) is not None]
    inputs = [port for port in profile.inputs if port.needed and part.input(port.name) is None]
    outputs = [port for port in profile.outputs if part.output(port.name) is None]
    names = {port.name for port in profile.outputs}
    own = [output.label for output in part.outputs if names.isdisjoint(output.names)]
    return [
        *(f"it has no input {port.name}" for port in inputs),
        *(f"its input {port.name} joins embeddings and hidden state" for port in joined),
        *(f"it has no output {port.name}" for port in outputs),
        *(f"it has an output {label} of its own" for label in own),
    ]
