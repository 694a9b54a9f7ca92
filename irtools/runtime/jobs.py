"""Generations to run with OpenVINO GenAI, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["GenerationJob", "Outcome", "Timing"]


@dataclass(frozen=True, slots=True)
class GenerationJob:
    """One generation to run.

    Attributes
    ----------
    model : str
        Model directory.
    token_ids : tuple of int
        Instead of a prompt.
    as_text : bool
        Pass the token ids as decoded text: the pipeline of a vision-language export accepts only text.
    draft : str or None
        Directory of the draft, whose rt_info gives its kind; the same as ``model`` for MTP.
    assistant_tokens : int
        Candidates per step, with a draft.
    prefix_caching : bool
        Set explicitly, because GenAI's default depends on the pipeline.
    stateful : bool
        Use ``LLMPipeline`` with the SDPA backend, as GenAI does for models that cannot be paged.
    chat_template : bool
        Apply the export's chat template to the prompt, as GenAI does by default.
    image : int
        Side of a generated square image that goes with the prompt; 0 for none.
    exact : bool
        Set the device hints of :data:`irtools.runtime.exact.EXACT`.
    reuse : bool
        Keep the pipeline for the next job if its settings are the same; the files must not change meanwhile.
    keep_others : bool
        With ``reuse``: also keep the pipelines of other settings, which takes the memory of all of them.
    properties : mapping of str to str
        Device properties for the compilation of target and draft.
    system : str
        System message before the prompt; only with ``chat_template``.
    image_file : str
        Image that goes with the prompt: a file that Pillow can read; ``""`` for none.
    """

    model: str
    prompt: str = ""
    token_ids: tuple[int, ...] = ()
    as_text: bool = False
    draft: str | None = None
    max_new_tokens: int = 20
    assistant_tokens: int = 1
    prefix_caching: bool = False
    device: str = "CPU"
    stateful: bool = False
    chat_template: bool = True
    image: int = 0
    exact: bool = False
    reuse: bool = False
    keep_others: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    system: str = ""
    image_file: str = ""


@dataclass(frozen=True, slots=True)
class Timing:
    """Measurements of a run, in seconds and bytes.

    Attributes
    ----------
    seconds : float
        The whole generation, without load.
    load : float
        Reading and compiling the models; 0 if the pipeline was reused.
    first_token : float
        From the call to the first token, including tokenization and prefill (GenAI's ``get_ttft``).
    verify : float
        In the target after the prefill (``m_durations`` of ``main_model_metrics``); only with a draft.
    draft : float
        In the draft (``m_durations`` of ``draft_model_metrics``).
    peak_memory : int
        Largest resident set of the process so far.
    cpu : float
        Processor time of all threads of the process during the generation.
    passes : tuple of float
        Each pass of the target after the prefill, with the drafting before it (differences of the
        ``m_new_token_times`` of GenAI's raw metrics).
    """

    seconds: float = 0.0
    load: float = 0.0
    first_token: float = 0.0
    verify: float = 0.0
    draft: float = 0.0
    peak_memory: int = 0
    cpu: float = 0.0
    passes: tuple[float, ...] = ()

    @property
    def decode(self) -> float:
        """From the first token to the last."""
        return sum(self.passes)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a job.

    Attributes
    ----------
    stage : str
        ``ran``, ``generate`` (failed there), ``load`` (refused there) or ``crash``.
    message : str
        The runtime's message if it did not run.
    tokens : tuple of int
        Generated token ids.
    text : str
        The tokens as text; ``""`` without a detokenizer.
    prompt_ids : tuple of int
        The prompt as the model saw it; empty with an image, whose tokens are not known.
    prompt_tokens : int
        Length of the prompt, images included.
    accepted, drafted : int
        Accepted and proposed candidates: ``get_num_accepted_tokens`` and ``get_num_draft_tokens``. GenAI 2026.4
        counts neither for DFlash. There, accepted is the number of tokens minus the runs of the target, because
        each run yields one token itself, and drafted is ``get_num_draft_processed_tokens``. 0 without a draft.
    steps : int
        Runs of the target, including the prefill.
    pass_tokens : tuple of int
        Tokens that each of these runs yielded; empty if the runtime does not report them.
    hung : bool
        True if the process was ended because it gave no sign of life.
    """

    stage: str
    message: str = ""
    tokens: tuple[int, ...] = ()
    text: str = ""
    prompt_ids: tuple[int, ...] = ()
    prompt_tokens: int = 0
    accepted: int = 0
    drafted: int = 0
    steps: int = 0
    pass_tokens: tuple[int, ...] = ()
    hung: bool = False
    timing: Timing = Timing()

    @classmethod
    def from_json(cls, answer: Mapping[str, Any]) -> Outcome:
        """Rebuild an outcome from its ``asdict`` form."""
        lists = {name: tuple(answer[name]) for name in ("tokens", "prompt_ids", "pass_tokens")}
        timing = Timing(**{**answer["timing"], "passes": tuple(answer["timing"]["passes"])})
        return cls(**{**answer, **lists, "timing": timing})
