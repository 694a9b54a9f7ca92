"""Explain messages of a runtime that refuses an export by findings of irtools rules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from irtools.errors import IrtoolsError
from irtools.lint.engine import Verification, VerifyOptions, verify
from irtools.lint.model import Finding, Severity
from irtools.model.directory import ModelDirectory

__all__ = ["Evidence", "cite", "limit", "suspects"]

_SIGNS: tuple[tuple[str, str], ...] = (
    ("openvino_tokenizer|Tokenizer::encode|detokenizer|Tokenizer::decode", "EXP003 IR"),
    ("chat_template", "EXP010 EXP011"),
    ("text embeddings model", "EXP004 MTP006 DFL012 DFL016"),
    ("VLM draft|inputs_embeds-native", "DFL012"),
    ("last_hidden_state", "MTP013 MTP007"),
    ("produced by a MatMul|Expected the main model", "MTP050 DFL010 RUN001 RUN010"),
    ("input_ids or input_embeds", "MTP010 RUN008"),
    ("hidden_states_decoder_layers|Eagle3 fallback|hidden.?state.*(layer|producer)", "HID DFL013 DFL020 DFL021"),
    ("dflash|target_layer_ids|mask_token_id", "DFL MTP015"),
    ("stateful|get_variables|keeps no state", "MTP020 RUN002"),
    ("ScaledDotProductAttention|SDPAToPagedAttention|paged", "MTP030 MTP032 RUN003 RUN005"),
    ("Port for tensor name", "MTP010 RUN008 DFL006 RUN001"),
    ("ParameterMismatch|element.?type|precision|tensor type", "MTP015 RUN012 DFL007 RUN014 MTP016"),
    ("rank|shape|dimension", "MTP016 MTP017 MTP018 RUN013 RUN014 DFL007 DFL008 DFL009 HID014 EXP023 IR009"),
    ("enable_prefix_caching|prefix caching", "RUN009"),
    ("could not open|cannot open|no such file|not exist|Failed to open|can't open", "IR006 EXP001 EXP005 DFL017 MTP"),
    ("config.json|preprocessor|parse error|json", "EXP010 EXP011"),
    ("model type", "EXP006"),
    (r"\.bin|weights|Constant|Incorrect", "IR002 IR006 IR007 IR009"),
)
"""Regular expressions for messages of OpenVINO 2026.4 and GenAI 2026.4, and the rules or rule groups they suggest."""
_LIMITS: tuple[tuple[str, str], ...] = (
    (
        "Encoded vision tokens must contain",
        "the tokenizer of the export splits the image tokens of its family, but GenAI needs each as one token, even "
        "for text; use the tokenizer of a full-size model",
    ),
    ("Unsupported '.*' VLM model type", "GenAI 2026.4 does not run this vision-language family (EXP006)"),
    (
        "are not what the tokenizer makes of any text",
        "GenAI accepts only text for a vision-language export; give --prompt instead of --token-ids",
    ),
)
"""Messages about limits of the export's family or size, not about a fault of the export."""
_MOST = 2


class Evidence:
    """Findings of ``irtools verify`` for an export and a decoding mode; computed on first use.

    Parameters
    ----------
    way : str
        Decoding mode: ``plain``, ``mtp``, ``dflash`` or ``eagle3``.
    """

    def __init__(self, export: ModelDirectory, way: str, draft: Path | None) -> None:
        self._export = export
        self._way = way
        self._draft = draft

    @cached_property
    def verification(self) -> Verification | None:
        """Verification of the whole export; None if it failed."""
        options = VerifyOptions(expect_mtp=True if self._way == "mtp" else None, draft=self._draft)
        try:
            return verify(self._export, options)
        except IrtoolsError:
            return None

    def findings(self) -> list[Finding]:
        """Possible causes: first findings that rule out this decoding mode, then other errors."""
        if self.verification is None:
            return []
        modes = {one.name: one.findings for one in self.verification.strategies if not one.available}
        barred = modes.get(self._way, ())
        findings = self.verification.findings
        errors = [f for f in findings if f.severity == Severity.ERROR and f.code not in barred]
        return [f for f in findings if f.code in barred] + errors

    def of(self, *codes: str) -> list[Finding]:
        """Findings of the given rules or rule groups, of any severity."""
        return [f for f in self.verification.findings if _named(f, codes)] if self.verification else []

    def explain(self, message: str) -> str:
        """Explanation of a runtime message and the remedy, in one or more sentences."""
        if named := self.named(message):
            return named
        advice = "look for the message in the issues of OpenVINO GenAI"
        if self.verification is None:
            return f"no rule can explain this, because `irtools verify` failed; {advice}"
        findings = self.findings()
        if findings:
            return f"no rule of irtools is known to explain this; {advice}. `irtools verify` reports: {cite(findings)}"
        return f"no rule of irtools explains this: `irtools verify` reports no error in the files; {advice}"

    def named(self, message: str) -> str:
        """Findings that a runtime message suggests, as text; ``""`` if there are none."""
        findings = self.findings()
        likely = suspects(message, findings) if _pointed(message, findings) else []
        return cite(likely) if likely else ""


def limit(message: str) -> str:
    """Reason why a refusal is not a fault of the export; ``""`` if it may be one."""
    return next((why for sign, why in _LIMITS if re.search(sign, message)), "")


def cite(findings: Sequence[Finding]) -> str:
    """Text of the first findings with their codes, and the number of the others; at least one finding is needed."""
    shown = [f"{finding.code}: {finding.text.rstrip('.')}" for finding in findings[:_MOST]]
    more = len(findings) - len(shown)
    return ". ".join(shown) + (f". Run `irtools verify` to see {more} more" if more else "")


def suspects(message: str, findings: Sequence[Finding]) -> list[Finding]:
    """One finding for each rule that a message suggests, or for each rule if it suggests none.

    Findings about a file that the message names come first.
    """
    by_code: dict[str, Finding] = {}
    for finding in sorted(_pointed(message, findings) or findings, key=lambda finding: not _is_about(message, finding)):
        by_code.setdefault(finding.code, finding)
    return list(by_code.values())


def _pointed(message: str, findings: Sequence[Finding]) -> list[Finding]:
    signs = [codes.split() for sign, codes in _SIGNS if re.search(sign, message, re.IGNORECASE)]
    return [finding for codes in signs for finding in findings if _named(finding, codes)]


def _is_about(message: str, finding: Finding) -> bool:
    """True if a message names the file or part of a finding as a whole word (detokenizer is not tokenizer)."""
    if finding.file is None:
        return False
    part = finding.file.stem.removeprefix("openvino_").removesuffix("_model")
    return bool(re.search(rf"\b{re.escape(part)}\b|openvino_{re.escape(part)}", message, re.IGNORECASE))


def _named(finding: Finding, codes: Sequence[str]) -> bool:
    return finding.code in codes or finding.code.rstrip("0123456789") in codes
