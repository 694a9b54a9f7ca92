"""The process that runs the numeric half of the steps on OpenVINO, and how the parent asks it.

A step called ``taps`` has a module ``irtools.prove.measure_taps`` with
``measure(session, request) -> dict``, which only this process imports. One process serves all
steps: :class:`~irtools.prove.drive.Session` reads each model once. The parent::

    with Worker(Files.of(export)) as worker:
        found = worker.measure("taps", {...}, progress=ui.detail)
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any

from irtools.prove.drive import Files, Session, UndrivableError, first_words
from irtools.runtime.lines import Child, Progress, serve
from irtools.runtime.memory import peak_memory, reset_peak

__all__ = ["Measured", "Worker"]

TIMEOUT = 900.0
"""Seconds without a sign of life; a large model compiles for minutes."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of a measurement.

    Attributes
    ----------
    value : mapping
        What ``measure`` returned; empty unless it was done.
    inapplicable : str
        Why the models cannot be driven, as a clause; ``""`` if they can.
    broken : str
        Why it could not be finished: the runtime's own words, or how the process ended.
    properties : mapping of str to str
        What the device was told.
    made_up : sequence of str
        Parts that the export lacks, so that what they would have made was made up.
    seconds : float
    peak_memory : int
        Largest resident set of the process while it measured, in bytes; 0 where unknown.
    """

    value: Mapping[str, Any]
    inapplicable: str = ""
    broken: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    made_up: Sequence[str] = ()
    seconds: float = 0.0
    peak_memory: int = 0

    @property
    def done(self) -> bool:
        """Whether there is a value."""
        return not (self.inapplicable or self.broken)

    @property
    def remark(self) -> str:
        """What to say about made-up inputs, to be put behind a clause; ``""`` if there are none."""
        missing = " and ".join(f"openvino_{part}_model.xml" for part in self.made_up)
        return f" (of made-up embeddings: there is no {missing})" if missing else ""


class Worker:
    """The process, started when it is first needed and again after it died.

    Parameters
    ----------
    files : Files
    timeout : float
        Seconds without an answer or progress after which it is ended.
    """

    def __init__(self, files: Files, *, timeout: float = TIMEOUT) -> None:
        self._files = files
        self._timeout = timeout
        self._child: Child | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process; its memory is back."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def measure(self, step: str, request: Mapping[str, Any], progress: Progress | None = None) -> Measured:
        """Run ``irtools.prove.measure_<step>.measure(session, request)`` in the process.

        Parameters
        ----------
        step : str
        request : mapping
            JSON.
        progress : callable, optional
            Takes what is being done, as a clause.
        """
        if self._child is None:
            self._child = Child("irtools.prove.worker")
        job = {"step": step, "files": asdict(self._files), "request": dict(request)}
        reply = self._child.ask(job, timeout=self._timeout, progress=progress)
        if reply.ended:
            self.close()
            return Measured({}, broken=reply.ended, seconds=reply.seconds)
        return Measured(**reply.value, seconds=reply.seconds)


class _Server:
    """In the process: keeps the session from one step to the next."""

    def __init__(self) -> None:
        self._session: Any = None

    def __call__(self, job: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
        answer: dict[str, Any] = {"value": {}}
        reset_peak()
        try:
            session = self._session = self._session or Session(Files(**job["files"]))
            session.say = progress
            answer["value"] = import_module(f"irtools.prove.measure_{job['step']}").measure(session, job["request"])
        except UndrivableError as error:
            answer["inapplicable"] = str(error)
        except RuntimeError as error:  # OpenVINO raises nothing more special
            answer["broken"] = first_words(error)
        if self._session is not None:
            self._session.release()
            answer |= {"properties": dict(self._session.properties), "made_up": sorted(self._session.made_up)}
        gc.collect()
        return answer | {"peak_memory": peak_memory()}


if __name__ == "__main__":
    serve(_Server())
