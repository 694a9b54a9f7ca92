"""Process that makes the measurements of the numeric steps with OpenVINO, and its client in the parent process.

The step ``taps`` has a module ``irtools.prove.measure_taps`` with
``measure(session, request) -> dict``, which only this process imports. One process serves all
steps: :class:`~irtools.prove.drive.Session` reads each model once. Use in the parent::

    with Worker(Files.of(export)) as worker:
        measured = worker.measure("taps", {...}, progress=print)
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any

from irtools.prove.files import Files
from irtools.prove.steps import Check, Step
from irtools.runtime.child import Child, Progress, serve
from irtools.runtime.messages import short_message

__all__ = ["Measured", "Worker"]

TIMEOUT = 900.0
"""Maximum seconds without an answer or progress; a large model compiles for minutes."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Result of a measurement.

    Attributes
    ----------
    value : mapping
        Result of ``measure``; empty if the measurement was not completed.
    inapplicable : str
        Reason why the models cannot be run, as a clause; ``""`` if they can.
    broken : str
        Reason why the measurement was not completed: the message of the runtime, or how the process ended.
    properties : mapping of str to str
        Device properties for the compilation.
    made_up : sequence of str
        Missing parts whose outputs were replaced by random numbers.
    """

    value: Mapping[str, Any]
    inapplicable: str = ""
    broken: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    made_up: Sequence[str] = ()
    seconds: float = 0.0

    @property
    def done(self) -> bool:
        """True if the measurement was completed."""
        return not (self.inapplicable or self.broken)

    def step(self, name: str, checks: Iterable[Check], why: str = "") -> Step:
        """Step of a proof with the time of the measurement, which is broken if this is."""
        return Step(name, tuple(checks), self.broken or why, self.seconds, bool(self.broken))

    @property
    def remark(self) -> str:
        """Remark about random inputs, to append to a clause; ``""`` if there are none."""
        missing = " and ".join(f"openvino_{part}_model.xml" for part in self.made_up)
        return f" (with random embeddings, because there is no {missing})" if missing else ""


class Worker:
    """Client of the process. It starts the process on first use, and again after the process ended.

    Parameters
    ----------
    timeout : float
        Maximum seconds without an answer or progress.
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
        """End the process, which frees its memory."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def measure(self, step: str, request: Mapping[str, Any], progress: Progress | None = None) -> Measured:
        """Run ``irtools.prove.measure_<step>.measure(session, request)`` in the process; ``request`` is JSON."""
        if self._child is None:
            self._child = Child("irtools.prove.worker")
        job = {"step": step, "files": asdict(self._files), "request": dict(request)}
        reply = self._child.ask(job, timeout=self._timeout, progress=progress)
        if reply.ended:
            self.close()
            return Measured({}, broken=reply.ended, seconds=reply.seconds)
        return Measured(**reply.value, seconds=reply.seconds)


class _MeasureServer:
    """Handler in the process; it keeps the session between steps."""

    def __init__(self) -> None:
        self._session: Any = None

    def __call__(self, job: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
        from irtools.prove.drive import Session, UndrivableError  # loads OpenVINO

        answer: dict[str, Any] = {"value": {}}
        try:
            session = self._session = self._session or Session(Files(**job["files"]))
            session.say = progress
            answer["value"] = import_module(f"irtools.prove.measure_{job['step']}").measure(session, job["request"])
        except UndrivableError as error:
            answer["inapplicable"] = str(error)
        except RuntimeError as error:  # OpenVINO raises no subclass
            answer["broken"] = short_message(error)
        if self._session is not None:
            self._session.release()
            answer |= {"properties": dict(self._session.properties), "made_up": sorted(self._session.made_up)}
        gc.collect()
        return answer


if __name__ == "__main__":
    serve(_MeasureServer())
