"""Run the rules over an export."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irtools.display import Tabular
from irtools.errors import ExportError, InvalidIRError, IrtoolsError, OptionError, UsageError, transferring
from irtools.ir.mistaken import meant_instead
from irtools.lint.context import DEFAULT_RUNTIME, Context
from irtools.lint.finding import Finding, Severity, Strategy
from irtools.lint.pair import drafted_by
from irtools.lint.rule import Rule, load_rules, source_of
from irtools.lint.versions import matches
from irtools.model.compression import parse_spec
from irtools.model.directory import TARGET_FILES, ModelDirectory
from irtools.model.versions import parse_version
from irtools.text import did_you_mean, given_fields, plural, short_repr
from irtools.timing import step

if TYPE_CHECKING:
    from irtools.ir.save import Saved
    from irtools.lint.pipelines import Pipeline

__all__ = [
    "Failure",
    "JudgementFailedError",
    "ModelVerification",
    "RuleFailedError",
    "Verification",
    "VerifyOptions",
    "context_for",
    "findings_of",
    "require_runtime",
    "rule_codes",
    "selected_rules",
    "verify",
]


class RuleFailedError(UsageError):
    """A rule that raised an exception which nobody expected; ``__cause__`` is the exception."""

    def __init__(self, rule: Rule, error: Exception) -> None:
        super().__init__(
            f"the rule {rule.code} ({rule.name}) of {source_of(rule)} failed: {type(error).__name__}: {error}",
            hint=f"Correct it, or skip it with --ignore {rule.code}.",
        )
        self.rule = rule


class JudgementFailedError(UsageError):
    """An exception that nobody expected while decoding strategies were judged; ``__cause__`` is the exception."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"the decoding strategies could not be determined: {type(error).__name__}: {error}")


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """Options of a verification.

    Attributes
    ----------
    expect_mtp : bool or None
        True if the export must have an MTP head, False if it must not, None if both are fine.
    draft : Path or None
        Directory of a draft to verify with the export.
    target_runtime : str
        OpenVINO GenAI release to check for.
    expect_compression : mapping of str to str
        Compression that a part must have, by part name; the empty name stands for the target and the MTP head. As text:
        mode, group size, backup precision and ratio, such as ``int4_asym:64:int8_sym``.
    select, ignore : tuple of str
        Codes (``IR009``) or groups (``IR``). An empty ``select`` selects every rule. A code takes
        precedence over a group; with equal precision ``ignore`` wins.
    severities : mapping of str to Severity
        Severities by code or group. They replace those of the rules.
    per_file_ignores : mapping of str to tuple of str
        Codes or groups by file name pattern.
    rules : tuple of Path
        Folders of additional rules.
    """

    expect_mtp: bool | None = None
    draft: Path | None = None
    target_runtime: str = DEFAULT_RUNTIME
    expect_compression: Mapping[str, str] = field(default_factory=dict)
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severities: Mapping[str, Severity] = field(default_factory=dict)
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rules: tuple[Path, ...] = ()

    def __repr__(self) -> str:
        return short_repr(self, *given_fields(self))


@dataclass(frozen=True)
class Verification(Tabular):
    """Result of running the rules over one export.

    Attributes
    ----------
    findings : tuple of Finding
        Sorted by file, line and code, with every field filled in.
    strategies : tuple of Strategy
        Availability of each decoding strategy; it does not depend on ``select`` and ``ignore``.
    pipelines : tuple of Pipeline
        Pipeline classes of GenAI, those that fit the parts of the export first.
    in_baseline : int
        Number of findings that a baseline removed.
    """

    export: ModelDirectory
    findings: tuple[Finding, ...]
    rules: tuple[Rule, ...]
    strategies: tuple[Strategy, ...] = ()
    pipelines: tuple[Pipeline, ...] = ()
    in_baseline: int = 0

    def __repr__(self) -> str:
        counts = [plural(count, str(severity)) for severity, count in self.counts.items() if count]
        return short_repr(self, str(self.export.path), *(counts or ["no findings"]))

    @cached_property
    def counts(self) -> Mapping[Severity, int]:
        """Number of findings by severity, worst first."""
        counter = Counter(finding.severity for finding in self.findings)
        return {severity: counter[severity] for severity in sorted(Severity, reverse=True)}

    def at_least(self, threshold: Severity) -> bool:
        """True if a finding has at least this severity."""
        return any(finding.severity is not None and finding.severity >= threshold for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Failure:
    """A rule, or the judgement of the strategies, that raised an exception which nobody expected.

    Attributes
    ----------
    message : str
        Without full stop.
    rule : str or None
        Code of the rule; None for the judgement of the strategies.
    traceback : str
        Traceback of the exception.
    """

    message: str
    rule: str | None = None
    traceback: str = field(default="", repr=False)

    @classmethod
    def of(cls, error: UsageError) -> Failure:
        """Describe an error of :func:`verify`."""
        from traceback import format_exception

        cause = "".join(format_exception(error.__cause__)) if error.__cause__ is not None else ""
        return cls(str(error.args[0]), error.rule.code if isinstance(error, RuleFailedError) else None, cause)


@dataclass(frozen=True, slots=True)
class ModelVerification:
    """Result of ``irtools verify`` for one model.

    Attributes
    ----------
    verification : Verification or None
        None if the model could not be verified; then ``error`` has the reason.
    threshold : Severity
        Lowest severity that fails the verification.
    diffs : tuple of str
        Unified diffs of the changes that the fixes would make; empty unless they were asked for.
    config : Path or None
        Configuration file that counted.
    config_notes : tuple of str
        Notes about the configuration files that were found; mostly the same for all models.
    failures : tuple of Failure
        Rules that failed, each of which also has a finding; and the judgement of the strategies if that failed.
    """

    path: Path
    verification: Verification | None = None
    error: str | None = None
    threshold: Severity = Severity.ERROR
    diffs: tuple[str, ...] = ()
    written: tuple[Saved, ...] = ()
    notes: tuple[str, ...] = ()
    config: Path | None = None
    config_notes: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()

    @property
    def failed(self) -> bool:
        """True if a finding reaches the threshold."""
        return self.verification is not None and self.verification.at_least(self.threshold)


def _specificity(rule: Rule, selectors: Iterable[str]) -> int:
    """Precision with which selectors name a rule: 2 by code, 1 by group or ALL, 0 not at all."""
    return max((2 if s == rule.code else 1 if s in (rule.group, "ALL") else 0 for s in selectors), default=0)


def with_codes(rules: Iterable[Rule], options: VerifyOptions) -> VerifyOptions:
    """The options with the codes of the rules that they give by name.

    Raises
    ------
    OptionError
        No rule has a given code or name, or no group the given letters.
    """
    return replace(
        options,
        select=rule_codes(rules, options.select),
        ignore=rule_codes(rules, options.ignore),
        severities=dict(zip(rule_codes(rules, options.severities), options.severities.values(), strict=True)),
        per_file_ignores={pattern: rule_codes(rules, codes) for pattern, codes in options.per_file_ignores.items()},
    )


def rule_codes(rules: Iterable[Rule], selectors: Iterable[str], *, path: Path | None = None) -> tuple[str, ...]:
    """Codes or groups for codes, groups, ``ALL`` and names of rules, in upper or lower case.

    Parameters
    ----------
    path : Path, optional
        Configuration file that has them, for the error.

    Raises
    ------
    OptionError
        There is no such rule or group.
    """
    rules = tuple(rules)
    names = {rule.name: rule.code for rule in rules}
    valid = ("ALL", *dict.fromkeys(rule.group for rule in rules), *names.values())
    codes = {code.upper(): code for code in valid} | {name.upper(): code for name, code in names.items()}
    found = []
    for selector in selectors:
        if selector.upper() not in codes:
            close = did_you_mean(selector.lower(), names) or did_you_mean(selector.upper(), valid)
            groups = ", ".join(sorted({rule.group for rule in rules}))
            hint = f"The groups are {groups}; `irtools rules list` shows the codes and names."
            raise OptionError(f"there is no rule or group {selector!r}", hint=f"{close} {hint}".strip(), path=path)
        found.append(codes[selector.upper()])
    return tuple(found)


def selected_rules(rules: Iterable[Rule], options: VerifyOptions) -> tuple[Rule, ...]:
    """The rules that the options select, by the codes of :func:`with_codes`."""
    select = options.select or ("ALL",)
    return tuple(
        rule for rule in _applicable(rules, options) if _specificity(rule, select) > _specificity(rule, options.ignore)
    )


def require_runtime(version: str, *, path: Path | None = None) -> None:
    """Refuse a text that is no version of the runtime; ``path`` is the configuration file that has it."""
    if not parse_version(version) or "." not in version:
        raise OptionError(f"{version!r} is not a runtime version", hint="Write it as in 2026.4.", path=path)


def _applicable(rules: Iterable[Rule], options: VerifyOptions) -> list[Rule]:
    return [rule for rule in rules if matches(rule.runtimes, options.target_runtime)]


_SLOW = 0.02
"""Seconds from which a rule is a step of its own."""


def context_for(export: ModelDirectory, options: VerifyOptions, *, shared: bool = False) -> Context:
    """Context of a verification; for ``shared`` see :func:`verify`.

    Raises
    ------
    UsageError
        An option is invalid.
    ExportError
        The directory contains no IR, or not a part that ``expect_compression`` names.
    """
    require_runtime(options.target_runtime)
    whole = _whole_export(export, shared=shared)
    if not whole.parts:
        meant = meant_instead(whole.directory, TARGET_FILES)
        raise ExportError(f"there is no .xml here to verify; {meant}", path=whole.directory)
    draft = ModelDirectory.open(options.draft) if options.draft is not None else None
    specs = {name: parse_spec(text) for name, text in options.expect_compression.items()}
    for name in filter(None, specs):
        whole.part(name)  # raises ExportError
    return Context(whole, options.expect_mtp, draft, options.target_runtime, specs)


def verify(
    export: ModelDirectory,
    options: VerifyOptions | None = None,
    *,
    failures: list[UsageError] | None = None,
    context: Context | None = None,
    shared: bool = False,
) -> Verification:
    """Run every selected rule over the files of an export.

    Parameters
    ----------
    export : ModelDirectory
        A directory, or one of its ``.xml`` files; with a file, only findings about this file are reported.
    failures : list of UsageError, optional
        Gets the rules that fail; each becomes a finding, and the others run. If the judgement of the strategies fails,
        it gets that, and there are no strategies. Without it, the first failure is raised.
    context : Context, optional
        That of :func:`context_for`, for a caller that needs further facts and so reads each file once.
    shared : bool
        Use the files that ``export`` has read already. Otherwise they are read again, because they may have changed.

    Raises
    ------
    UsageError
        An option is invalid, or a rule or the judgement of the strategies failed.
    ExportError
        As :func:`context_for`.
    """
    options = options or VerifyOptions()
    require_runtime(options.target_runtime)
    with transferring():
        return _verified(export, options, failures, context, shared)


def _verified(
    export: ModelDirectory,
    options: VerifyOptions,
    failures: list[UsageError] | None,
    context: Context | None,
    shared: bool,
) -> Verification:
    loaded = load_rules(options.rules)
    options = with_codes(loaded, options)
    rules = selected_rules(loaded, options)
    context = context or context_for(export, options, shared=shared)
    whole = context.export
    unreadable = next(rule for rule in loaded if rule.unreadable)
    with step(f"Applying {plural(len(rules), 'rule')}"):
        findings = [finding for rule in rules for finding in _findings_or_failure(rule, context, unreadable, failures)]
    others = [rule for rule in _applicable(loaded, options) if rule not in rules]
    all_findings = [*findings, *_left_out(others, context, unreadable)]
    with step("Determining the decoding strategies"):
        judged = _judged(context, list(_drop_echoes(all_findings, unreadable)), failures)
    if unreadable not in rules:
        findings = [finding for finding in findings if finding.code != unreadable.code]
    findings = [f for f in _drop_echoes(findings, unreadable) if not _ignored_in_file(f, options, whole)]
    findings = [_with_severity(finding, options) for finding in findings]
    if export.path.suffix == ".xml" and not export.path.is_dir():
        findings = [f for f in findings if export.path in map(_xml_of, (*filter(None, (f.file,)), *f.also))]
    return Verification(export, _sorted(findings), rules, *judged)


def _findings_or_failure(
    rule: Rule, context: Context, unreadable: Rule, failures: list[UsageError] | None
) -> Iterator[Finding]:
    try:
        with step(f"Applying {rule.code} {rule.name}", least=_SLOW):
            yield from findings_of(rule, context, unreadable)
    except RuleFailedError as error:
        if failures is None:
            raise
        failures.append(error)
        file = context.export.directory
        broken = Finding(str(error.args[0]), error.hint or "", file, severity=Severity.ERROR)
        yield _filled_in(broken, error.rule, context)


def _left_out(rules: Iterable[Rule], context: Context, unreadable: Rule) -> Iterator[Finding]:
    """Findings of the rules that are not selected but affect the decoding strategies."""
    for rule in rules:
        if rule.rules_out:
            with suppress(UsageError):  # a rule that fails may be deselected for exactly that reason
                yield from findings_of(rule, context, unreadable)


def _whole_export(export: ModelDirectory, *, shared: bool) -> ModelDirectory:
    """The whole directory if the export is a single ``.xml`` among its parts, else the export itself."""
    whole = export.whole() if shared else ModelDirectory(export.directory)
    parts = {document.path for document in whole.parts.values()}
    targets = {document.path for document in whole.target_candidates}
    side_part = export.path in parts - targets and targets
    return whole if export.path == export.directory or side_part or targets == {export.path} else export


def findings_of(rule: Rule, context: Context, unreadable: Rule) -> Iterator[Finding]:
    """Findings of one rule, with every field filled in.

    Users write rules too, so any exception becomes an error that names the rule.
    """
    try:
        for finding in rule.check(context):
            yield _filled_in(finding, rule, context)
    except InvalidIRError as error:
        # Some faults of a file appear only when the op that has them is parsed.
        broken = Finding(str(error.args[0]), error.hint or "", file=error.path, line=error.line)
        yield _filled_in(replace(broken, severity=Severity.ERROR), unreadable, context)
    except IrtoolsError:
        raise
    except Exception as error:
        raise RuleFailedError(rule, error) from error


def _check(finding: object) -> None:
    """Check the types of a finding; rules of users are not always type-checked."""
    if not isinstance(finding, Finding):
        raise TypeError(f"it yields {finding!r}, which is not a Finding")
    kinds: dict[str, Any] = {"message": str, "hint": str, "code": str, "file": Path | None, "line": int | None}
    kinds |= {"op": str | None, "rules_out": tuple | None, "needs": Mapping}
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
    severity = finding.severity if finding.severity is not None else rule.severity
    rules_out = finding.rules_out
    if rules_out is None:
        rules_out = (rule.rules_out or ()) if severity == Severity.ERROR else ()
        if part == "mtp":  # a fault of the head leaves the target as it is
            rules_out = tuple(name for name in rules_out if name == "mtp")
        elif part is None and context.of_draft(finding.file):  # as does a fault of the draft
            rules_out = tuple(name for name in rules_out if name in drafted_by(context))
    return replace(finding, code=finding.code or rule.code, severity=severity, part=part, rules_out=rules_out)


def _xml_of(file: Path) -> Path:
    """The ``.xml`` to which a file belongs; a path without a name, such as ``.``, stays as it is."""
    return file.with_suffix(".xml") if file.name else file


def _drop_echoes(findings: list[Finding], unreadable: Rule) -> Iterator[Finding]:
    """Drop the general findings about an unreadable file if a rule of the same group gives the precise reason."""
    errors = [f for f in findings if f.severity == Severity.ERROR and f.code != unreadable.code]
    explained = {f.file for f in errors if f.group == unreadable.group}
    for finding in findings:
        # The error about an unreadable op does not always name the file.
        is_echo = finding.code == unreadable.code and (finding.file in explained or (not finding.file and explained))
        if not is_echo:
            yield finding


def _ignored_in_file(finding: Finding, options: VerifyOptions, export: ModelDirectory) -> bool:
    if finding.file is None:
        return False
    names = {finding.file.name, finding.file.as_posix()}
    if finding.file.is_relative_to(export.directory):
        names.add(finding.file.relative_to(export.directory).as_posix())
    return any(
        any(fnmatchcase(name, pattern) for name in names) and not {"ALL", finding.group, finding.code}.isdisjoint(codes)
        for pattern, codes in options.per_file_ignores.items()
    )


def _with_severity(finding: Finding, options: VerifyOptions) -> Finding:
    severity = options.severities.get(finding.code, options.severities.get(finding.group))
    return finding if severity is None else replace(finding, severity=severity)


def _sorted(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    unique = dict.fromkeys(findings)
    return tuple(sorted(unique, key=lambda f: (str(f.file or ""), f.line or 0, f.code, f.op or "", f.message)))


def _judged(
    context: Context, findings: list[Finding], failures: list[UsageError] | None
) -> tuple[tuple[Strategy, ...], tuple[Pipeline, ...]]:
    """Judge strategies and pipelines by all rules and their original severities: the runtime ignores options."""
    from irtools.lint.pipelines import pipelines
    from irtools.lint.strategies import strategies

    found = _sorted(findings)
    try:
        return strategies(context, found), pipelines(context, found)
    except InvalidIRError:
        return (), ()  # a finding reports the fault
    except IrtoolsError:
        raise
    except Exception as error:
        failure = JudgementFailedError(error)
        failure.__cause__ = error
        if failures is None:
            raise failure from error
        failures.append(failure)
        return (), ()
