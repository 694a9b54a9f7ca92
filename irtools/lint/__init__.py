"""Rules, findings, and running rules over an export."""

from __future__ import annotations

from irtools.lint.model import Context, Finding, Fix, Rule, Severity, Strategy, rule

__all__ = ["Context", "Finding", "Fix", "Rule", "Severity", "Strategy", "rule"]
