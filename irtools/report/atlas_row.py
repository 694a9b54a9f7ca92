"""What an atlas says about one export: values only, small and picklable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from irtools.lint.finding import Severity, Strategy
from irtools.text import listed, short_repr

__all__ = ["AtlasFinding", "AtlasHead", "AtlasMemory", "AtlasPart", "AtlasRow", "Measurement"]


@dataclass(frozen=True, slots=True)
class AtlasFinding:
    """A finding of ``irtools verify``.

    Attributes
    ----------
    file : str
        Path relative to the export, or in full if it lies outside; ``""`` for the export as a whole.
    """

    code: str
    severity: Severity
    message: str
    hint: str = ""
    file: str = ""
    line: int | None = None
    op: str = ""
    part: str = ""
    fixable: bool = False


@dataclass(frozen=True, slots=True)
class AtlasPart:
    """An IR of the export.

    Attributes
    ----------
    error : str
        Reason why it cannot be read; ``""`` if it can.
    xml_bytes, bin_bytes : int or None
        Sizes of the files; None for a missing one.
    """

    name: str
    file: str
    error: str = ""
    xml_bytes: int | None = None
    bin_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class AtlasHead:
    """The MTP head.

    Attributes
    ----------
    declared : int or None
        Number of MTP layers in config.json; None if it declares none.
    valid : bool or None
        False if a finding concerns the head: an error in its file, or one that rules out drafting with it and nothing
        else. None without a head.
    faults : tuple of str
        Codes of these findings.
    """

    declared: int | None = None
    present: bool = False
    valid: bool | None = None
    faults: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """``valid`` or ``faulty``, for a head that is there; else ``missing``, if one is declared, or ``none``."""
        if self.present:
            return "valid" if self.valid else "faulty"
        return "missing" if self.declared else "none"

    @property
    def text(self) -> str:
        """The three facts as a phrase."""
        if not self.present:
            return "declared, missing" if self.declared else "none"
        verdict = "valid" if self.valid else f"faulty: {listed(self.faults, separator=', ')}"
        return f"{'declared' if self.declared else 'not declared'}, present, {verdict}"


@dataclass(frozen=True, slots=True)
class AtlasMemory:
    """Estimated memory with GenAI on a CPU, in bytes.

    Attributes
    ----------
    precision : str
        Of keys and values: the one that the IR asks for, else u8.
    plain : int
        For plain decoding.
    drafting : int or None
        With the MTP head; None without one.
    limit : int or None
        Largest context according to config.json.
    """

    context: int
    precision: str
    plain: int
    drafting: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """Figures from a record of ``irtools prove`` or ``irtools bench`` about the files of the export.

    Attributes
    ----------
    kind : str
        ``proof`` or ``bench``.
    file : str
        The record, relative to the export.
    date : str
        As in the record, in UTC; ``""`` if it has none.
    device : str
        Name in OpenVINO.
    device_name : str
        Full name; ``""`` if the record has none.
    row : str
        What was run, such as ``mtp 3``.
    assistant_tokens : int
        Tokens drafted at a time.
    acceptance : float or None
        Share of drafted tokens that the target accepted.
    speed_up : float or None
        Speed divided by that of plain decoding; ``low`` and ``high`` are the ends of its interval.
    result : str
        Decision of the benchmark, or verdict of the proof.
    """

    kind: str
    file: str
    date: str
    device: str
    device_name: str = ""
    row: str = ""
    assistant_tokens: int = 0
    acceptance: float | None = None
    speed_up: float | None = None
    low: float | None = None
    high: float | None = None
    result: str = ""


@dataclass(frozen=True, slots=True)
class AtlasRow:
    """One export of an atlas.

    Attributes
    ----------
    error : str or None
        Reason why the export could not be looked at, or a part of the work failed; the other values are those that are
        known nevertheless.
    role : str
        ``target``, ``dflash``, ``eagle3``, ``mtp`` (an MTP head in a directory of its own) or ``other``; ``""`` if the
        model cannot be read.
    family : str
        ``model_type`` of config.json.
    parameters : int or None
        Number of learned values of all parts without the tokenizers.
    refusal : str
        Reason why no decoder layers were located.
    annotation : str
        ``absent``, ``present`` (as located), ``early``, ``differs`` or ``unknown``; ``""`` for what is no target.
    precision, lm_head_precision, mtp_precision : str
        Stored precision of most weights of the decoder layers, of the lm_head and of the MTP head: mode and group size
        as ``verify --expect-compression`` takes them (``int4_asym:64``), or a type (``f16``).
    strategies : tuple of Strategy
        Decoding strategies on ``target_runtime``, without their conditions.
    pipelines : tuple of str
        Pipeline classes of GenAI that fit.
    counts : mapping of str to int
        Number of findings by code; ``findings`` may have fewer, because a damaged file can have thousands.
    known : int
        Number of findings that a baseline silenced.
    graft : str
        Phrase about the draft head; ``""`` without one.
    unmatched : tuple of str
        Records beside the export that are about other files, each with the reason.
    made_with : mapping of str to str
        Versions by program, as the target records them.
    """

    path: str
    error: str | None = None
    role: str = ""
    family: str = ""
    parts: tuple[AtlasPart, ...] = ()
    parameters: int | None = None
    layers: int | None = None
    hidden_size: int | None = None
    refusal: str = ""
    mtp: AtlasHead = AtlasHead()
    annotation: str = ""
    annotation_text: str = ""
    precision: str = ""
    lm_head_precision: str = ""
    mtp_precision: str = ""
    target_runtime: str = ""
    strategies: tuple[Strategy, ...] = ()
    pipelines: tuple[str, ...] = ()
    memory: AtlasMemory | None = None
    findings: tuple[AtlasFinding, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    severities: Mapping[Severity, int] = field(default_factory=dict)
    known: int = 0
    graft: str = ""
    measured: tuple[Measurement, ...] = ()
    unmatched: tuple[str, ...] = ()
    made_with: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return short_repr(self, self.path, self.error or self.family, self.role)

    @property
    def status(self) -> str:
        """``failed``, ``findings`` if there is an error among them, else ``ok``; as in the JSON of ``verify``."""
        if self.error is not None:
            return "failed"
        return "findings" if self.severities.get(Severity.ERROR) else "ok"

    @property
    def worst(self) -> str:
        """``failed``, the worst severity of a finding, or ``ok``."""
        found = max((severity for severity, count in self.severities.items() if count), default=None)
        return "failed" if self.error is not None else str(found) if found is not None else "ok"

    @property
    def size(self) -> int:
        """Bytes of the ``.xml`` and ``.bin`` files."""
        return sum((part.xml_bytes or 0) + (part.bin_bytes or 0) for part in self.parts)

    @property
    def decoding(self) -> tuple[str, ...]:
        """Names of the decoding strategies that are available."""
        return tuple(strategy.name for strategy in self.strategies if strategy.available)

    @property
    def acceptance(self) -> Measurement | None:
        """The newest measurement with an acceptance rate; None if it was not measured."""
        return self._newest([one for one in self.measured if one.acceptance is not None])

    @property
    def speed_up(self) -> Measurement | None:
        """The newest measurement with a speed-up; None if it was not measured."""
        return self._newest([one for one in self.measured if one.speed_up is not None])

    @staticmethod
    def _newest(measured: list[Measurement]) -> Measurement | None:
        return max(measured, key=lambda one: (one.date, one.kind == "bench"), default=None)

    def plain(self) -> dict[str, Any]:
        """The row in values that JSON can express, from which :meth:`restored` makes it again."""
        content = asdict(self)
        for one in content["strategies"]:
            del one["conditions"]
        for one in content["findings"]:
            one["severity"] = str(one["severity"])
        content["severities"] = {str(severity): count for severity, count in self.severities.items()}
        return content

    @classmethod
    def restored(cls, content: Mapping[str, Any]) -> Self:
        """Restore a row from its plain values."""
        memory = content["memory"]
        return cls(
            **{
                **content,
                "parts": tuple(AtlasPart(**one) for one in content["parts"]),
                "mtp": AtlasHead(**{**content["mtp"], "faults": tuple(content["mtp"]["faults"])}),
                "strategies": tuple(
                    Strategy(**{**one, "findings": tuple(one["findings"])}) for one in content["strategies"]
                ),
                "pipelines": tuple(content["pipelines"]),
                "memory": AtlasMemory(**memory) if memory is not None else None,
                "findings": tuple(
                    AtlasFinding(**{**one, "severity": Severity[one["severity"].upper()]})
                    for one in content["findings"]
                ),
                "severities": {Severity[name.upper()]: count for name, count in content["severities"].items()},
                "measured": tuple(Measurement(**one) for one in content["measured"]),
                "unmatched": tuple(content["unmatched"]),
            }
        )

    def details(self) -> dict[str, object]:
        """JSON form, without ``path``, ``status`` and ``error``."""
        content = self.plain()
        del content["path"], content["error"]
        acceptance, speed_up = self.acceptance, self.speed_up
        return {
            **content,
            "bytes": self.size,
            "findings_left_out": sum(self.counts.values()) - len(self.findings),
            "acceptance": acceptance.acceptance if acceptance is not None else None,
            "speed_up": speed_up.speed_up if speed_up is not None else None,
        }
