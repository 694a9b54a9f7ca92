"""One call of ``irtools verify``: command line, configuration file, baseline and fixes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from irtools.errors import OptionError, UsageError
from irtools.ir.listing import real_path
from irtools.ir.save import Saved
from irtools.lint.apply_fixes import FixPlan, plan_fixes, write_fixes
from irtools.lint.baseline import apply_baseline, read_baseline
from irtools.lint.configuration import Config, comes_with_model, find_config, load_config
from irtools.lint.context import DEFAULT_RUNTIME
from irtools.lint.engine import (
    Failure,
    ModelVerification,
    Verification,
    VerifyOptions,
    require_runtime,
    rule_codes,
    verify,
)
from irtools.lint.finding import Severity
from irtools.lint.rule import load_rules
from irtools.model.directory import ModelDirectory
from irtools.text import plural

__all__ = ["VerifyCall", "configured_rules", "rule_folders", "verify_model"]


@dataclass(frozen=True, slots=True)
class VerifyCall:
    """Options of the command line; for a None or empty value the configuration file decides.

    Attributes
    ----------
    select, ignore : tuple of str
        ``select`` replaces the value in the configuration file, ``ignore`` extends it.
    ignore_baseline : bool
        True to apply no baseline, as a caller that writes a new one needs.
    trust_model_config : bool
        True to accept a configuration file inside the export.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: Severity | None = None
    expect_mtp: bool | None = None
    draft: Path | None = None
    target_runtime: str | None = None
    expect_compression: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[Path, ...] = ()
    baseline: Path | None = None
    ignore_baseline: bool = False
    config: Path | None = None
    trust_model_config: bool = False
    fix: bool = False
    unsafe_fixes: bool = False
    diff: bool = False
    _baselines: dict[Path, Counter[str]] = field(default_factory=dict, repr=False, compare=False)

    def fingerprints(self, path: Path) -> Counter[str]:
        """Fingerprints of a baseline file, which is read once per call."""
        if path not in self._baselines:
            self._baselines[path] = read_baseline(path)
        return self._baselines[path]


def verify_model(path: Path, call: VerifyCall) -> ModelVerification:
    """Verify one export.

    Parameters
    ----------
    path : Path
        A model directory or an ``.xml`` file.

    Raises
    ------
    IrtoolsError
        The export could not be verified.
    """
    export = ModelDirectory.open(path)
    config, config_notes = _configuration(export, call)
    notes: tuple[str, ...] = ()
    failures: list[UsageError] = []
    try:
        config = _checked(config, call)
        options = _options(config, call)
        verification = verify(export, options, failures=failures, shared=True)
    except OptionError as error:  # such as a code of a rule that was not loaded
        error.hint = " ".join(filter(None, (error.hint, *(f"{note}." for note in config_notes))))
        raise
    baseline = call.baseline or config.baseline
    written: tuple[Saved, ...] = ()
    plan = FixPlan((), (), ())
    if call.fix or call.unsafe_fixes or call.diff:
        plan = plan_fixes(verification, unsafe=call.unsafe_fixes)
        notes += plan.refused
        if call.diff:
            left = tuple(finding for finding in verification.findings if finding not in plan.fixed)
            verification = replace(verification, findings=left)
        elif plan.patches:
            written = write_fixes(plan.patches)
            notes += tuple(note for file in written for note in file.notes)
            failures.clear()
            verification = verify(ModelDirectory.open(path), options, failures=failures)
    if baseline is not None and not call.ignore_baseline:
        verification = apply_baseline(verification, call.fingerprints(baseline))
    if call.fix or call.unsafe_fixes or call.diff:
        notes += tuple(_remaining(verification, refused=bool(plan.refused), unsafe=call.unsafe_fixes))
    return ModelVerification(
        path,
        verification,
        threshold=call.fail_on or config.fail_on or Severity.ERROR,
        diffs=tuple(patch.diff() for patch in plan.patches) if call.diff else (),
        written=written,
        notes=notes,
        config=config.path,
        config_notes=config_notes,
        failures=tuple(map(Failure.of, failures)),
    )


def _options(config: Config, call: VerifyCall) -> VerifyOptions:
    """The options of a call, and those of the configuration where it has none."""
    return VerifyOptions(
        expect_mtp=call.expect_mtp if call.expect_mtp is not None else config.expect_mtp,
        draft=call.draft,
        target_runtime=call.target_runtime or config.target_runtime or DEFAULT_RUNTIME,
        expect_compression=call.expect_compression or config.expect_compression,
        select=call.select or config.select,
        ignore=call.ignore + config.ignore,
        severities=config.severity,
        per_file_ignores=config.per_file_ignores,
        rules=call.rules or config.rules,
    )


def _checked(config: Config, call: VerifyCall) -> Config:
    """The configuration with codes in place of the names of rules; errors name the file."""
    if config.path is None:
        return config
    rules = load_rules(call.rules or config.rules)

    def codes(selectors: Iterable[str]) -> tuple[str, ...]:
        return rule_codes(rules, selectors, path=config.path)

    if call.target_runtime is None and config.target_runtime is not None:
        require_runtime(config.target_runtime, path=config.path)
    return replace(
        config,
        select=codes(config.select),
        ignore=codes(config.ignore),
        severity=dict(zip(codes(config.severity), config.severity.values(), strict=True)),
        per_file_ignores={pattern: codes(names) for pattern, names in config.per_file_ignores.items()},
    )


def configured_rules(config: Path | None) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Folders of rules in a configuration file that the user names, and notes about one that is found instead."""
    if config is not None:
        chosen, notes = _named(config, (), trust=False)
    else:
        chosen, notes = _found((), trust=False)
        notes = tuple(note for note in notes if "--rules" in note)  # no other key matters here
    return chosen.rules, notes


def rule_folders(call: VerifyCall) -> tuple[Path, ...]:
    """Folders of rules that take part in a call, whatever the export."""
    if call.rules or call.config is None:
        return call.rules
    return _named(call.config, (), trust=call.trust_model_config)[0].rules


def _remaining(verification: Verification, *, refused: bool, unsafe: bool) -> Iterator[str]:
    """Notes about remaining findings that need --unsafe-fixes or that irtools cannot fix."""
    left = verification.findings
    offered = sum(finding.fix is not None and not finding.fix.safe for finding in left)
    if offered and not unsafe:
        yield f"{plural(offered, 'finding')} can be fixed with --unsafe-fixes"
    elif left and not refused and all(finding.fix is None for finding in left):
        yield f"irtools cannot fix the {'finding' if len(left) == 1 else f'{len(left)} findings'} left"


def _configuration(export: ModelDirectory, call: VerifyCall) -> tuple[Config, tuple[str, ...]]:
    """The effective configuration for an export, and notes about the file that counts and those that are ignored."""
    barred = [export.directory]
    if call.draft is not None:
        barred.append(ModelDirectory(call.draft).directory)
    if call.config is not None:
        return _named(call.config, barred, trust=call.trust_model_config)
    if call.trust_model_config:
        own, _ = find_config(export.directory, trust=True)
        if own is not None and real_path(own).is_relative_to(real_path(export.directory)):
            return _without_code(load_config(own))
    return _found(barred, trust=call.trust_model_config)


def _named(path: Path, barred: Sequence[Path], *, trust: bool) -> tuple[Config, tuple[str, ...]]:
    """The configuration file that the user names; its rules count unless it could come with a model."""
    if not comes_with_model(path, map(real_path, barred)):
        return load_config(path), ()
    if not trust:
        hint = "Pass --trust-model-config to use it."
        raise UsageError("lies beside an IR or inside an export", hint=hint, path=path)
    return _without_code(load_config(path))


def _found(barred: Sequence[Path], *, trust: bool) -> tuple[Config, tuple[str, ...]]:
    """The configuration file that counts in the working directory; notes also name one in the export that does not."""
    path, skipped = find_config(real_path(Path()), outside=barred, trust=trust)
    config, notes = _without_code(load_config(path))
    own = [real_path(file) for directory in barred[:1] if (file := directory / "irtools.toml").is_file() and not trust]
    return config, (*map(_ignored, dict.fromkeys([*skipped, *own])), *notes)


def _ignored(path: Path) -> str:
    return f"{path} lies beside an IR or inside an export and is ignored; pass --trust-model-config to use it"


def _without_code(config: Config) -> tuple[Config, tuple[str, ...]]:
    """A configuration file that was found, without its folders of rules, because rules are code."""
    if config.path is None:
        return config, ()
    notes = [f"using the configuration {config.path}"]
    if config.rules:
        folders = " ".join(f"--rules {folder}" for folder in config.rules)
        notes.append(
            f"{config.path}: `rules` is ignored, because rules are code and the file was not named; "
            f"give {folders}, or --config {config.path}"
        )
    return replace(config, rules=()), tuple(notes)
