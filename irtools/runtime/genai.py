"""Run OpenVINO GenAI on an export, in a separate process.

A faulty export can crash the native pipeline, and GenAI's libraries cannot be unloaded. If a worker process dies,
its job is reported as crashed and a new worker runs the remaining jobs. The main process needs neither OpenVINO nor
GenAI.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import asdict

from irtools.errors import UsageError
from irtools.model.decoding import DECODING
from irtools.runtime.child import Progress, ask_each
from irtools.runtime.jobs import GenerationJob, Outcome

__all__ = ["NOT_INSTALLED", "available", "installed_version", "iterate", "missing"]

NOT_INSTALLED = "openvino-genai is not installed; install the extra `runtime` (in a checkout: pip install '.[runtime]')"


def available() -> bool:
    """True if openvino-genai is installed."""
    from importlib.util import find_spec

    return find_spec("openvino_genai") is not None


def installed_version() -> str:
    """Version of the installed openvino-genai, read without loading it; ``""`` if its metadata is missing."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("openvino-genai")
    except PackageNotFoundError:
        return ""


def missing(strategy: str) -> str:
    """Statement that the installed release does not have a decoding strategy; ``""`` if it has it, or is not known.

    It would crash, or decode in another way.
    """
    installed = installed_version()
    reason = DECODING[strategy].missing(installed) if installed and strategy in DECODING else ""
    return f"{reason}, and {installed} is installed" if reason else ""


def iterate(
    jobs: Iterable[GenerationJob], *, timeout: float = 300.0, progress: Progress | None = None
) -> Generator[Outcome, None, None]:
    """Run jobs one after the other, each when the next outcome is requested.

    Parameters
    ----------
    timeout : float
        Seconds without progress after which a job's process is killed.

    Yields
    ------
    Outcome
        In the order of the jobs. Closing the iterator ends the process.

    Raises
    ------
    UsageError
        openvino-genai is not installed.
    """
    if not available():
        raise UsageError(NOT_INSTALLED)
    requests = (asdict(job) for job in jobs)
    with closing(ask_each("irtools.runtime.pipeline", requests, timeout=timeout, progress=progress)) as replies:
        for reply in replies:
            yield Outcome("crash", reply.ended, hung=reply.hung) if reply.ended else Outcome.from_json(reply.value)
