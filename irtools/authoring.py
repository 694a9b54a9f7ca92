"""Public names for authors of rules and patterns.

A rule is a function that reads a :class:`Context` and yields a :class:`Finding` for each fault. Its docstring is the
page of the rule. A file with rules goes into a folder that ``irtools verify --rules`` names, or into a package with an
entry point.

>>> from irtools.authoring import Context, Finding, Severity, rule
>>> @rule("ACME001", "unnamed-model", Severity.WARNING, "config.json has no model_type")
... def unnamed_model(context):
...     '''The model type is missing.
...
...     What it checks
...     --------------
...     That config.json has a `model_type`.
...
...     Why it matters
...     --------------
...     Our server selects the chat template by it.
...
...     How to fix it
...     -------------
...     Copy the key from the checkpoint.
...
...     Source
...     ------
...     Our release checklist.
...     '''
...     if "model_type" not in context.config:
...         file = context.export.directory / "config.json"
...         yield Finding("config.json has no model_type", "copy it from the checkpoint", file=file)

The engine runs a rule with a context. So does its test:

>>> import irtools
>>> falcon = irtools.open_export("fixtures/falcon")
>>> list(unnamed_model.check(Context(falcon)))
[]

A pattern is a function over a :class:`Probe` and the layer id of an op. It returns a :class:`Match`, or a
:class:`Mismatch` with the reason. Its module has a name that begins with ``pattern_`` and is in an installed package.

>>> from irtools.authoring import Match, Mismatch, Probe, pattern
>>> @pattern("norm", "plain-norm", "MVN")
... def plain_norm(probe, op):
...     '''An MVN of a value that is not constant.'''
...     if not probe.moving(op):
...         return probe.fail("its input is constant", op)
...     return probe.match("layer", op)
>>> graph = falcon.target.graph
>>> mvn = graph.by_type["MVN"][0]
>>> result = plain_norm.function(Probe(graph, (), (), plain_norm), mvn)
>>> bool(result), result.kind
(True, 'layer')

The names are imported when they are first used, so that a module of patterns does not load what only rules need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from irtools._lazy import attach

if TYPE_CHECKING:
    from irtools.graph.match import Match, Mismatch, Pattern, Probe, pattern
    from irtools.lint.conditions import Requirement
    from irtools.lint.context import Context
    from irtools.lint.finding import Condition, Finding, Fix, Severity
    from irtools.lint.places import finding_at
    from irtools.lint.rule import Rule, RuleGroup, load_rules, rule
    from irtools.lint.symptoms import Symptom
    from irtools.model.decoding import STRATEGIES
    from irtools.model.mtp import MtpProfile, ProfilePort
    from irtools.model.part import PartFacts

__all__ = [
    "STRATEGIES",
    "Condition",
    "Context",
    "Finding",
    "Fix",
    "Match",
    "Mismatch",
    "MtpProfile",
    "PartFacts",
    "Pattern",
    "Probe",
    "ProfilePort",
    "Requirement",
    "Rule",
    "RuleGroup",
    "Severity",
    "Symptom",
    "finding_at",
    "load_rules",
    "pattern",
    "rule",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "STRATEGIES": "irtools.model.decoding",
        "Condition": "irtools.lint.finding",
        "Context": "irtools.lint.context",
        "Finding": "irtools.lint.finding",
        "Fix": "irtools.lint.finding",
        "Match": "irtools.graph.match",
        "Mismatch": "irtools.graph.match",
        "MtpProfile": "irtools.model.mtp",
        "PartFacts": "irtools.model.part",
        "Pattern": "irtools.graph.match",
        "ProfilePort": "irtools.model.mtp",
        "Probe": "irtools.graph.match",
        "Requirement": "irtools.lint.conditions",
        "Rule": "irtools.lint.rule",
        "RuleGroup": "irtools.lint.rule",
        "Severity": "irtools.lint.finding",
        "Symptom": "irtools.lint.symptoms",
        "finding_at": "irtools.lint.places",
        "load_rules": "irtools.lint.rule",
        "pattern": "irtools.graph.match",
        "rule": "irtools.lint.rule",
    },
)
