"""The groups of the built-in rules, in the order of the documentation."""

from __future__ import annotations

from irtools.authoring import STRATEGIES, RuleGroup

GROUPS = (
    RuleGroup("IR", "The files themselves", STRATEGIES),
    RuleGroup("EXP", "The directory", STRATEGIES),
    RuleGroup("HID", "Hidden-state annotation", ("dflash",)),
    RuleGroup("MTP", "The MTP head", ("mtp",)),
    RuleGroup("DFL", "Drafts in a separate directory: DFlash, EAGLE-3, ordinary", ("dflash",)),
    RuleGroup("QNT", "Weight compression"),
    RuleGroup("RUN", "Runtime readiness", STRATEGIES),
    RuleGroup("SRV", "Graphs of OpenVINO Model Server"),
    RuleGroup("VER", "Provenance and versions"),
)
