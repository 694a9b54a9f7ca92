"""Run the rules over an export."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from irtools.errors import ExportError, InvalidIRError, IrtoolsError, OptionError, UsageError
from irtools.ir.listing import meant_instead
from irtools.lint.model import Context, Finding, Rule, Severity, Strategy
from irtools.lint.rules import load_rules, source_of
from irtools.lint.versions import matches, parse_version
from irtools.model.directory import TARGET_FILES, ModelDirectory

if TYPE_CHECKING:
    from irtools.ir.save import Saved
    from irtools.surgery.patch import Patch

__all__ = ["DEFAULT_RUNTIME", "Judged", "Options", "Verification", "selected_rules", "verify"]

DEFAULT_RUNTIME = "2026.4"
"""The OpenVINO GenAI release whose requirements the built-in rules were checked against."""

UNREADABLE = "IR001"
"""Code of the rule that reports what cannot be read."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to verify, and how.

    Attributes
    ----------
    expect_mtp : bool or None
        True: the export is meant to be released with an MTP head; False: without; None: no
        expectation.
    draft : Path or None
        Directory of a draft model to judge together with the export.
    target_runtime : str
        OpenVINO GenAI release that the export is meant for.
    select, ignore : tuple of str
        Codes (``IR009``) or groups (``IR``); nothing selected means every rule. A code counts
        more than a group, and otherwise ``ignore`` more than ``select``.
    severities : mapping of str to Severity
        By code or group, instead of what the rule says.
    per_file_ignores : mapping of str to tuple of str
        Codes or groups by a pattern for file names.
    rule_folders : tuple of Path
        Folders of rules beside the installed ones.
    """

    expect_mtp: bool | None = None
    draft: Path | None = None
    target_runtime: str = DEFAULT_RUNTIME
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severities: Mapping[str, Severity] = field(default_factory=dict)
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rule_folders: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Verification:
    """What the rules found in one export.

    Attributes
    ----------
    export : ModelDirectory
    findings : tuple of Finding
        Sorted by file, line, code; every field filled in.
    rules : tuple of Rule
        Those that were selected.
    strategies : tuple of Strategy
        Which ways of decoding are available, whatever was selected or ignored.
    known : int
        Findings that a baseline silenced.
    """

    export: ModelDirectory
    findings: tuple[Finding, ...]
    rules: tuple[Rule, ...]
    strategies: tuple[Strategy, ...] = ()
    known: int = 0

    @cached_property
    def counts(self) -> Mapping[Severity, int]:
        """Number of findings by severity, worst first."""
        found = Counter(finding.severity for finding in self.findings)
        return {severity: found[severity] for severity in sorted(Severity, reverse=True)}

    def at_least(self, threshold: Severity) -> bool:
        """Whether there is a finding of this severity or a worse one."""
        return any(finding.severity is not None and finding.severity >= threshold for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Judged:
    """One model that was to be verified.

    Attributes
    ----------
    path : Path
        As the user gave it.
    verification : Verification or None
        None when it could not be verified.
    error : str or None
        Then the reason.
    threshold : Severity
        From which severity on a finding counts for the exit code.
    patches : tuple of Patch
        What fixes changed, or would change.
    written : tuple of Saved
        The files that were written.
    notes : tuple of str
        Worth telling the user.
    """

    path: Path
    verification: Verification | None = None
    error: str | None = None
    threshold: Severity = Severity.ERROR
    patches: tuple[Patch, ...] = ()
    written: tuple[Saved, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether there is a finding that counts."""
        return self.verification is not None and self.verification.at_least(self.threshold)


def _specificity(rule: Rule, selectors: Iterable[str]) -> int:
    """How closely a list of codes and groups names a rule: 2 by code, 1 by group, 0 not at all."""
    return max((2 if s == rule.code else 1 if s in (rule.group, "ALL") else 0 for s in selectors), default=0)


def selected_rules(rules: Iterable[Rule], options: Options) -> tuple[Rule, ...]:
    """The rules that the options ask for.

    Raises
    ------
    UsageError
        A code or group that no rule has.
    """
    rules = tuple(rules)
    known = {"ALL"} | {rule.code for rule in rules} | {rule.group for rule in rules}
    listed = [*options.select, *options.ignore, *options.severities]
    for selector in [*listed, *(code for codes in options.per_file_ignores.values() for code in codes)]:
        if selector not in known:
            raise OptionError(
                f"there is no rule or group {selector!r}",
                hint=f"The groups are {', '.join(sorted({rule.group for rule in rules}))}; "
                "`irtools rules list` shows the codes.",
            )
    return tuple(
        rule
        for rule in _applicable(rules, options)
        if (_specificity(rule, options.select) if options.select else 0.5) > _specificity(rule, options.ignore)
    )


def _applicable(rules: Iterable[Rule], options: Options) -> list[Rule]:
    return [rule for rule in rules if matches(rule.runtimes, options.target_runtime)]


def verify(export: ModelDirectory, options: Options | None = None) -> Verification:
    """Run every selected rule over an export, from its files alone.

    Parameters
    ----------
    export : ModelDirectory
        A directory, or one of its ``.xml`` files: then only what concerns that file is reported.
    options : Options, optional

    Returns
    -------
    Verification

    Raises
    ------
    UsageError
        An option makes no sense, or a rule failed.
    ExportError
        There is nothing to verify: no IR in the directory.
    """
    options = options or Options()
    if not parse_version(options.target_runtime):
        raise OptionError(f"{options.target_runtime!r} is no runtime version", hint="Write it like 2026.4.")
    loaded = load_rules(options.rule_folders)
    rules = selected_rules(loaded, options)
    whole = _whole_export(export)
    if not whole.parts:
        meant = meant_instead(whole.directory, TARGET_FILES)
        raise ExportError(f"there is no .xml here, so nothing to verify; {meant}", path=whole.directory)
    draft = ModelDirectory.open(options.draft) if options.draft is not None else None
    context = Context(whole, options.expect_mtp, draft, options.target_runtime)
    found = [finding for rule in rules for finding in _run(rule, context)]
    others = [rule for rule in _applicable(loaded, options) if rule not in rules]
    ways = _strategies(context, [*found, *_left_out(others, context)])
    if UNREADABLE not in {rule.code for rule in rules}:
        found = [finding for finding in found if finding.code != UNREADABLE]
    found = [finding for finding in _drop_echoes(found) if not _ignored_in_file(finding, options, whole)]
    found = [_with_severity(finding, options) for finding in found]
    if export.path.suffix == ".xml" and not export.path.is_dir():
        found = [f for f in found if f.file is not None and _xml_of(f.file) == export.path]
    return Verification(export, _sorted(found), rules, ways)


def _left_out(rules: Iterable[Rule], context: Context) -> Iterator[Finding]:
    """What rules that are not to be shown say about the ways of decoding."""
    from irtools.lint.strategies import GROUPS

    for rule in rules:
        if rule.group in GROUPS:
            with suppress(UsageError):  # the rule failed, and may be left out because it does
                yield from _run(rule, context)


def _whole_export(export: ModelDirectory) -> ModelDirectory:
    """The directory around a single ``.xml`` that is one of its side parts, else the export itself."""
    whole = ModelDirectory(export.directory)
    parts = {document.path for document in whole.parts.values()}
    targets = {document.path for document in whole.target_candidates}
    side_part = export.path in parts - targets and targets
    return whole if export.path == export.directory or side_part or targets == {export.path} else export


def _run(rule: Rule, context: Context) -> Iterator[Finding]:
    """The findings of one rule, filled in.

    Rules come from users as well: whatever one raises becomes an error that names it.
    """
    try:
        for finding in rule.check(context):
            yield _filled_in(finding, rule, context)
    except InvalidIRError as error:
        # The file is broken in a way that only shows when this op is looked at.
        broken = Finding(str(error.args[0]), error.hint or "", file=error.path, line=error.line)
        yield replace(_filled_in(broken, rule, context), code=UNREADABLE, severity=Severity.ERROR)
    except IrtoolsError:
        raise
    except Exception as error:
        raise UsageError(
            f"the rule {rule.code} ({rule.name}) of {source_of(rule)} failed: {type(error).__name__}: {error}",
            hint=f"Correct it, or leave it out with --ignore {rule.code}.",
        ) from error


def _check(finding: object) -> None:
    """Rules of users are not always type-checked."""
    if not isinstance(finding, Finding):
        raise TypeError(f"it yields {finding!r}, which is no Finding")
    kinds = {"message": str, "hint": str, "code": str, "file": Path | None, "line": int | None, "op": str | None}
    for name, kind in kinds.items():
        value = getattr(finding, name)
        if not isinstance(value, kind):
            raise TypeError(f"it yields a Finding whose {name} is {value!r}")


def _filled_in(finding: Finding, rule: Rule, context: Context) -> Finding:
    _check(finding)
    part = finding.part
    if part is None and finding.file is not None:
        xml = _xml_of(finding.file)
        part = next((name for name, document in context.export.parts.items() if document.path == xml), None)
    return replace(
        finding,
        code=finding.code or rule.code,
        severity=finding.severity if finding.severity is not None else rule.severity,
        part=part,
    )


def _xml_of(file: Path) -> Path:
    """The ``.xml`` that a file belongs to; the working directory has no name to change."""
    return file.with_suffix(".xml") if file.name else file


def _drop_echoes(findings: list[Finding]) -> Iterator[Finding]:
    """Leave out that a file cannot be read when an IR rule says more precisely why."""
    explained = {
        f.file for f in findings if f.code.startswith("IR") and f.code != UNREADABLE and f.severity == Severity.ERROR
    }
    for finding in findings:
        # An op that cannot be read does not always say of which file it is.
        is_echo = finding.code == UNREADABLE and (finding.file in explained or (finding.file is None and explained))
        if not is_echo:
            yield finding


def _ignored_in_file(finding: Finding, options: Options, export: ModelDirectory) -> bool:
    if finding.file is None:
        return False
    names = {finding.file.name, finding.file.as_posix()}
    if finding.file.is_relative_to(export.directory):
        names.add(finding.file.relative_to(export.directory).as_posix())
    group = finding.code.rstrip("0123456789")
    return any(
        any(fnmatchcase(name, pattern) for name in names) and not {"ALL", group, finding.code}.isdisjoint(codes)
        for pattern, codes in options.per_file_ignores.items()
    )


def _with_severity(finding: Finding, options: Options) -> Finding:
    group = finding.code.rstrip("0123456789")
    wanted = options.severities.get(finding.code, options.severities.get(group))
    return finding if wanted is None else replace(finding, severity=wanted)


def _order(finding: Finding) -> tuple[str, int, str, str, str]:
    return (str(finding.file or ""), finding.line or 0, finding.code, finding.op or "", finding.message)


def _sorted(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(dict.fromkeys(findings), key=_order))


def _strategies(context: Context, findings: list[Finding]) -> tuple[Strategy, ...]:
    """By what all rules found, with their own severities: no option makes the runtime take an export."""
    from irtools.lint.strategies import strategies

    try:
        return strategies(context, _sorted(_drop_echoes(findings)))
    except InvalidIRError:
        return ()  # a finding says what is broken
