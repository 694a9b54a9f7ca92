"""One call of ``irtools verify``: command line, configuration file, baseline and fixes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from irtools.errors import UsageError
from irtools.ir.listing import real_path
from irtools.ir.save import Saved
from irtools.lint.apply_fixes import FixPlan, plan_fixes, write_fixes
from irtools.lint.baseline import apply_baseline, read_baseline
from irtools.lint.configuration import Config, find_config, load_config
from irtools.lint.context import DEFAULT_RUNTIME
from irtools.lint.engine import (
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

__all__ = ["VerifyCall", "configured_rules", "verify_model"]


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
    config, notes = _configuration(export, call)
    config = _checked(config, call)
    options = VerifyOptions(
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
    baseline = call.baseline or config.baseline
    verification = verify(export, options)
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
            verification = verify(ModelDirectory.open(path), options)
    if baseline is not None and not call.ignore_baseline:
        verification = apply_baseline(verification, call.fingerprints(baseline))
    if call.fix or call.unsafe_fixes or call.diff:
        notes += tuple(_remaining(verification, refused=bool(plan.refused), unsafe=call.unsafe_fixes))
    threshold = call.fail_on or config.fail_on or Severity.ERROR
    return ModelVerification(path, verification, None, threshold, plan.patches, written, notes)


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


def configured_rules() -> tuple[Path, ...]:
    """Folders of rules in the configuration of the working directory.

    As in :func:`verify_model`, a configuration file beside an IR is ignored, because it could come with the model.
    """
    here = real_path(Path())
    path, _ = find_config(here)
    if path is not None and ModelDirectory(path.parent).parts:
        path, _ = find_config(here, outside=path.parent)
    return load_config(path).rules


def _remaining(verification: Verification, *, refused: bool, unsafe: bool) -> Iterator[str]:
    """Notes about remaining findings that need --unsafe-fixes or that irtools cannot fix."""
    left = verification.findings
    offered = sum(finding.fix is not None and not finding.fix.safe for finding in left)
    if offered and not unsafe:
        yield f"{plural(offered, 'finding')} can be fixed with --unsafe-fixes"
    elif left and not refused and all(finding.fix is None for finding in left):
        yield f"irtools cannot fix the {'finding' if len(left) == 1 else f'{len(left)} findings'} left"


def _configuration(export: ModelDirectory, call: VerifyCall) -> tuple[Config, tuple[str, ...]]:
    """The effective configuration for an export, and notes about the files that are ignored."""
    inside = "lies inside the export that is verified"
    if call.config is not None:
        inside_export = real_path(call.config).is_relative_to(real_path(export.directory))
        if inside_export and not call.trust_model_config:
            raise UsageError(inside, hint="Pass --trust-model-config to use it.", path=call.config)
        config = load_config(call.config)
        return _without_code(config) if inside_export else config, ()
    if call.trust_model_config:
        path, _ = find_config(export.directory)
        if path is not None and real_path(path).is_relative_to(real_path(export.directory)):
            return _without_code(load_config(path)), ()
        return load_config(find_config(real_path(Path()))[0]), ()
    path, skipped = find_config(real_path(Path()), outside=export.directory)
    own = export.directory / "irtools.toml"
    ignored = dict.fromkeys([*skipped, *([real_path(own)] if own.is_file() else [])])
    notes = tuple(f"{file} {inside} and is ignored; pass --trust-model-config to use it" for file in ignored)
    return load_config(path), notes


def _without_code(config: Config) -> Config:
    """Refuse a configuration inside an export that names folders of rules, because rules are code."""
    if config.rules:
        message = "a file inside the export may not name folders of rules"
        raise UsageError(message, hint="Use --rules.", path=config.path)
    return config
