"""Rules, findings, and running rules over an export."""

from __future__ import annotations

from irtools.lint.model import Context, Finding, Rule, Severity, rule

__all__ = ["Context", "Finding", "Rule", "Severity", "rule"]
