"""Why the runtime refused an export: its message, and the rule of irtools that explains it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from irtools.errors import IrtoolsError
from irtools.lint.engine import Options, Verification, verify
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
"""What in a message of OpenVINO 2026.4 or GenAI 2026.4 points to which rules, or groups of them."""
_LIMITS: tuple[tuple[str, str], ...] = (
    (
        "Encoded vision tokens must contain",
        "the tokenizer of the export does not know the image tokens of its family as one token each, "
        "which GenAI needs even for text; that of a full-size model does",
    ),
    (
        "Unsupported '.*' VLM model type",
        "GenAI 2026.4 does not run this vision-language family (EXP006)",
    ),
    (
        "are not what the tokenizer makes of any text",
        "GenAI drives a vision-language export by text only; give --prompt instead of --token-ids",
    ),
)
"""Messages about what the export's family or size does not allow, rather than about a fault in it."""
_MOST = 2


class Evidence:
    """What ``irtools verify`` says about an export that is to be decoded in some way. Found out when it is asked for.

    Parameters
    ----------
    export : ModelDirectory
    way : str
        ``plain``, ``mtp``, ``dflash`` or ``eagle3``.
    draft : Path or None
    """

    def __init__(self, export: ModelDirectory, way: str, draft: Path | None) -> None:
        self._export = export
        self._way = way
        self._draft = draft

    @cached_property
    def verification(self) -> Verification | None:
        """Of the whole export; None when it could not be made."""
        options = Options(expect_mtp=True if self._way == "mtp" else None, draft=self._draft)
        try:
            return verify(self._export, options)
        except IrtoolsError:
            return None

    def findings(self) -> list[Finding]:
        """What may be why: the errors, and what rules this way of decoding out; the latter first."""
        if self.verification is None:
            return []
        ways = {one.name: one.findings for one in self.verification.strategies if not one.available}
        barred = ways.get(self._way, ())
        found = [f for f in self.verification.findings if f.code in barred]
        found += [f for f in self.verification.findings if f.severity == Severity.ERROR and f.code not in barred]
        return found

    def of(self, *codes: str) -> list[Finding]:
        """The findings of some rules or groups, of any severity."""
        return [f for f in self.verification.findings if _named(f, codes)] if self.verification else []

    def explain(self, message: str) -> str:
        """The rule that explains what the runtime said, and what to do; a sentence or more.

        Parameters
        ----------
        message : str
            The runtime's own.
        """
        if named := self.named(message):
            return named
        advice = "look for the message in the issues of OpenVINO GenAI"
        if self.verification is None:
            return f"`irtools verify` could not be run to find a rule that explains this; {advice}"
        findings = self.findings()
        if findings:
            return f"no rule of irtools is known to explain this; {advice}. `irtools verify` finds: {cite(findings)}"
        return f"no rule of irtools explains this: `irtools verify` finds no error in the files; {advice}"

    def named(self, message: str) -> str:
        """The rules that a message of the runtime points to; ``""`` when there is none."""
        findings = self.findings()
        likely = suspects(message, findings) if _pointed(message, findings) else []
        return cite(likely) if likely else ""


def limit(message: str) -> str:
    """Why a refusal is not the export's fault; ``""`` when it may be."""
    return next((why for sign, why in _LIMITS if re.search(sign, message)), "")


def cite(findings: Sequence[Finding]) -> str:
    """Findings with their codes, the first ones in full.

    Parameters
    ----------
    findings : sequence of Finding
        At least one.
    """
    shown = [f"{finding.code}: {finding.text.rstrip('.')}" for finding in findings[:_MOST]]
    more = len(findings) - len(shown)
    return ". ".join(shown) + (f". And {more} more: run `irtools verify`" if more else "")


def suspects(message: str, findings: Sequence[Finding]) -> list[Finding]:
    """Put those findings first that a message points to, and leave out the rest if there are any.

    Parameters
    ----------
    message : str
    findings : sequence of Finding

    Returns
    -------
    list of Finding
        One for each rule.
    """
    by_code: dict[str, Finding] = {}
    for finding in sorted(_pointed(message, findings) or findings, key=lambda finding: not _is_about(message, finding)):
        by_code.setdefault(finding.code, finding)
    return list(by_code.values())


def _pointed(message: str, findings: Sequence[Finding]) -> list[Finding]:
    signs = [codes.split() for sign, codes in _SIGNS if re.search(sign, message, re.IGNORECASE)]
    return [finding for codes in signs for finding in findings if _named(finding, codes)]


def _is_about(message: str, finding: Finding) -> bool:
    """Whether a message names the file of a finding, or what it is: a tokenizer is no detokenizer."""
    if finding.file is None:
        return False
    part = finding.file.stem.removeprefix("openvino_").removesuffix("_model")
    return bool(re.search(rf"\b{re.escape(part)}\b|openvino_{re.escape(part)}", message, re.IGNORECASE))


def _named(finding: Finding, codes: Sequence[str]) -> bool:
    return finding.code in codes or finding.code.rstrip("0123456789") in codes
