"""VER001 to VER008: the tools and versions that made the parts of an export, and the release that runs it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.lint.decoding import too_new
from irtools.lint.json_files import finding_in_config
from irtools.lint.mtp import expected, head
from irtools.lint.pair import pair
from irtools.model.config import declared_mtp
from irtools.model.decoding import DECODING
from irtools.model.document import Document
from irtools.model.provenance import recorded_versions, short_version, version_line
from irtools.model.versions import parse_version, release_numbers
from irtools.text import joined

_PACKAGES = {"Optimum Intel": "optimum-intel", "Transformers": "transformers", "NNCF": "nncf"}
"""Packages of an exporter's environment, by the program that rt_info names."""
_FIRST_WITH_MTP = (2, 2)
_UNRELEASED = re.compile(r"\.dev|\d(?:a|b|rc)\d|\+")
_NIGHTLY = re.compile(r"-\d+-[0-9a-f]{7,}")


def _beside_target(context: Context) -> Iterator[tuple[str, Document]]:
    """Name and document of each part of the export other than the target."""
    if context.target is not None:
        for name, document in context.documents.items():
            if document is not context.target and document.path.name.startswith("openvino_"):
                yield name, document


@rule("VER001", "mixed-openvino-versions", Severity.WARNING, "Parts were converted by different OpenVINO versions")
def mixed_openvino_versions(context: Context) -> Iterator[Finding]:
    """Parts were converted by different OpenVINO versions.

    What it checks
    --------------
    ``Runtime_version`` of each part against the target's. A tokenizer from another version gets a note,
    because tokenizers are often converted again on purpose.

    Why it matters
    --------------
    The parts do not come from one export. Their shapes can match although their weights do not. With a
    head or text embeddings of another checkpoint, the only symptom is worse text.

    How to fix it
    -------------
    Export everything again in one run.

    Source
    ------
    The rt_info that OpenVINO writes.
    """
    yield from _by_cause(
        context,
        (one for name, document in _beside_target(context) for one in _mixed(context, name, document, "OpenVINO")),
    )


@rule("VER002", "mixed-exporter-versions", Severity.WARNING, "Parts were exported by different exporter versions")
def mixed_exporter_versions(context: Context) -> Iterator[Finding]:
    """Parts were exported by different exporter versions.

    What it checks
    --------------
    The versions of optimum-intel, transformers and nncf in each part against the target's. For a
    tokenizer, a difference is a note.

    Why it matters
    --------------
    The parts do not come from one export. Their shapes can match although their weights do not. With a
    head or text embeddings of another checkpoint, the only symptom is worse text.

    How to fix it
    -------------
    Export everything again in one run.

    Source
    ------
    The rt_info that Optimum Intel and nncf write.
    """
    parts = tuple(_beside_target(context))
    for program in _PACKAGES:
        yield from _by_cause(
            context, (one for name, document in parts for one in _mixed(context, name, document, program))
        )


def _mixed(context: Context, name: str, document: Document, program: str) -> Iterator[Finding]:
    assert context.target is not None
    package = _PACKAGES.get(program, program)
    theirs, targets = (short_version(recorded_versions(part).get(program, "")) for part in (document, context.target))
    if theirs and targets and theirs != targets:
        message = f"made with {package} {theirs}, but {context.target.path.name} with {targets}"
        severity = Severity.NOTE if "tokenizer" in name else None
        yield _finding(document, program, message, "Export everything again in one run", severity)


def _by_cause(context: Context, findings: Iterable[Finding]) -> Iterator[Finding]:
    """One finding for each cause, at the target if it is concerned, else at the first part; it names the others."""
    causes: dict[tuple[str, Severity | None], list[Finding]] = {}
    for finding in findings:
        causes.setdefault((finding.message, finding.severity), []).append(finding)
    target = context.target.path if context.target is not None else None
    for (message, _), same in causes.items():
        first, *others = sorted(same, key=lambda finding: finding.file != target)
        files = tuple(finding.file for finding in others if finding.file is not None)
        if files:
            names = (
                file.name if file.parent == context.export.directory else f"{file.parent.name}/{file.name}"
                for file in files
            )
            message = f"{message} (so {'was' if len(files) == 1 else 'were'} {joined(names)})"
        yield replace(first, message=message, also=files)


def _finding(document: Document, program: str, message: str, hint: str, severity: Severity | None = None) -> Finding:
    """Finding at the recorded version of a program."""
    return Finding(message, hint, document.path, version_line(document, program), severity=severity)


@rule("VER003", "exporter-too-old", Severity.WARNING, "The exporter is too old for this export")
def exporter_too_old(context: Context) -> Iterator[Finding]:
    """The exporter is too old for this export.

    What it checks
    --------------
    If the directory or config.json has an MTP head, with ``--expect-mtp``, or for a DFlash draft: that
    optimum-intel 2.2 or newer exported the target or draft.

    Why it matters
    --------------
    optimum-intel 2.2 is the first release that exports MTP heads and DFlash drafts. An older release
    silently omits the head, so a head beside an older target comes from another export.

    How to fix it
    -------------
    Export again with optimum-intel 2.2 or newer.

    Source
    ------
    The released wheels: 2.1 contains neither ``openvino_mtp_model.xml`` nor ``dflash_mode``.
    """
    yield from _by_cause(context, _exporter_too_old(context))


def _exporter_too_old(context: Context) -> Iterator[Finding]:
    declared = declared_mtp(context.config)
    wanted = context.expect_mtp or context.export.mtp is not None
    if declared is not None and declared.count > 0 and context.expect_mtp is not False:
        wanted = True
    for document in context.all_documents:
        version = recorded_versions(document).get("Optimum Intel", "")
        about_mtp = wanted and document in (context.target, context.mtp)
        numbers = parse_version(version)
        if not numbers or numbers >= _FIRST_WITH_MTP:
            continue
        about_draft = b"<dflash_mode " in document.data
        if about_mtp or about_draft:
            feature = "DFlash drafts" if about_draft else "MTP heads"
            message = f"exported by optimum-intel {short_version(version)}, which does not support {feature}"
            yield _finding(document, "Optimum Intel", message, "Export again with optimum-intel 2.2 or newer")


@rule("VER004", "unreleased-version", Severity.NOTE, "A part was made with an unreleased version")
def unreleased_version(context: Context) -> Iterator[Finding]:
    """A part was made with an unreleased version.

    What it checks
    --------------
    Development, alpha, beta and release-candidate versions of optimum-intel, transformers and nncf, and
    OpenVINO builds that are not from a release branch.

    Why it matters
    --------------
    The export cannot be reproduced later, and the output of such a version may differ from that of the
    release.

    How to fix it
    -------------
    Export again with released versions before publishing.

    Source
    ------
    A released OpenVINO names its branch: ``2026.4.1-22982-e213a147257-releases/2026/4``.
    """
    yield from _by_cause(context, _unreleased_version(context))


def _unreleased_version(context: Context) -> Iterator[Finding]:
    for document in context.all_documents:
        for program, version in recorded_versions(document).items():
            package = "OpenVINO" if program == "OpenVINO" else _PACKAGES.get(program)
            nightly = package == "OpenVINO" and _NIGHTLY.search(version) and "releases/" not in version
            if package is not None and (nightly or _UNRELEASED.search(short_version(version))):
                message = f"made with {package} {short_version(version)}, which is not a release"
                yield _finding(document, program, message, "Export again with released versions before publishing")


@rule("VER005", "newer-than-runtime", Severity.WARNING, "A part is newer than its runtime")
def newer_than_runtime(context: Context) -> Iterator[Finding]:
    """A part is newer than its runtime.

    What it checks
    --------------
    The OpenVINO version of each part against ``--target-runtime``, by year and release.

    Why it matters
    --------------
    An older runtime may not support the ops, types or rt_info of a newer export.

    How to fix it
    -------------
    Export again with the version that will run the model, or require a newer runtime.

    Source
    ------
    OpenVINO guarantees that newer versions read older IRs, but not the reverse.
    """
    yield from _by_cause(context, _newer_than_runtime(context))


def _newer_than_runtime(context: Context) -> Iterator[Finding]:
    runtime = release_numbers(context.target_runtime)
    for document in context.all_documents:
        version = recorded_versions(document).get("OpenVINO", "")
        if version and release_numbers(version) > runtime:
            runs = context.target_runtime
            message = f"made with OpenVINO {short_version(version)}, but the target runtime is {runs}"
            yield _finding(document, "OpenVINO", message, "Export again with the version that will run the model")


@rule("VER006", "tokenizer-version", Severity.WARNING, "The tokenizer and its OpenVINO have different releases")
def tokenizer_version(context: Context) -> Iterator[Finding]:
    """The tokenizer and its OpenVINO have different releases.

    What it checks
    --------------
    ``openvino_tokenizers_version`` against ``openvino_version`` in the same file, by year and release.

    Why it matters
    --------------
    The extension is built for one OpenVINO release. With different releases, loading can fail, or the
    conversion can write ops that the runtime's own extension does not support.

    How to fix it
    -------------
    Install openvino-tokenizers of the same release, and convert the tokenizer again.

    Source
    ------
    The installation notes of openvino-tokenizers.
    """
    yield from _by_cause(context, _tokenizer_version(context))


def _tokenizer_version(context: Context) -> Iterator[Finding]:
    for document in context.all_documents:
        made = recorded_versions(document)
        tokenizers, openvino = (short_version(made.get(name, "")) for name in ("OpenVINO Tokenizers", "OpenVINO"))
        if tokenizers and openvino and release_numbers(tokenizers) != release_numbers(openvino):
            message = f"converted with openvino-tokenizers {tokenizers} and OpenVINO {openvino}"
            hint = "Install both packages of the same release, and convert again"
            yield _finding(document, "OpenVINO Tokenizers", message, hint)


@rule("VER007", "config-from-elsewhere", Severity.NOTE, "config.json was written by another transformers version")
def config_from_elsewhere(context: Context) -> Iterator[Finding]:
    """config.json was written by another transformers version.

    What it checks
    --------------
    ``transformers_version`` of config.json against the version in the target's rt_info.

    Why it matters
    --------------
    The exporter writes both. If they differ, one of the files was replaced later.

    How to fix it
    -------------
    Make sure that config.json belongs to the exported checkpoint.

    Source
    ------
    The two versions are equal in every checked export of Optimum Intel 2.2.
    """
    configured = context.config.get("transformers_version")
    if context.target is None or not isinstance(configured, str):
        return
    version = recorded_versions(context.target).get("Transformers")
    if version and configured != version:
        message = f"config.json was written by transformers {configured}, but the target was exported with {version}"
        hint = "Make sure that config.json belongs to the exported checkpoint"
        yield finding_in_config(context, "transformers_version", configured, message, hint)


@rule("VER008", "strategy-newer-than-runtime", Severity.NOTE, "The runtime does not have the decoding strategy yet")
def strategy_newer_than_runtime(context: Context) -> Iterator[Finding]:
    """The runtime does not have the decoding strategy that the export is made for.

    What it checks
    --------------
    For an export with an MTP head, with ``--expect-mtp`` and with ``--draft``: that OpenVINO GenAI has this
    decoding strategy in the release of ``--target-runtime``. An error with ``--expect-mtp`` and ``--draft``.

    Why it matters
    --------------
    An older release takes the draft for an ordinary one or ignores it. It fails at load time, or crashes.

    How to fix it
    -------------
    Require the release that the message names.

    Source
    ------
    The released libraries: ``openvino_mtp_model`` and ``dflash`` are in that of OpenVINO GenAI 2026.4.1 but not
    of 2026.3.1, the MTP pair of Gemma 4 is in 2026.3.1 but not in 2026.2.1, ``eagle3`` in 2026.0.0 but not in 2025.4.1.
    """
    paired = pair(context)
    kinds = {paired.draft.kind: paired.draft.part.document} if paired is not None else {}
    wanted: dict[str, tuple[Document, Severity | None]] = {
        kind: (document, Severity.ERROR) for kind, document in kinds.items() if kind in DECODING
    }
    drafting = head(context)
    document = context.mtp or (drafting.part.document if drafting is not None else context.target)
    if document is not None and (drafting is not None or context.expect_mtp):
        own = drafting is None or drafting.part.document is context.mtp
        wanted["mtp"] = (document, expected(context, Severity.NOTE) if own else Severity.ERROR)
    for kind, (place, severity) in wanted.items():
        reason = too_new(context, kind)
        if reason:
            message = f"{kind} does not exist in the target runtime {context.target_runtime}: {reason}"
            yield finding_at(place, None, message, "require that release", severity, rules_out=(kind,))
