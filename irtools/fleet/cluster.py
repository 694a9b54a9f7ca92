"""Units of work on a Dask cluster.

The cluster gets the units that :mod:`irtools.fleet.pool` would run. Dask places them, and gives those of a dead worker
to another one. This module bounds what is in flight, keeps rows instead of futures, and finds out which unit kills its
workers: Dask blames every unit that a dead worker had, also those that only waited there.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from irtools.errors import OptionError
from irtools.fleet.installed import difference, installed
from irtools.fleet.outcome import Outcome, failure_text
from irtools.text import plural, size_text

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["run"]

_CONNECT = 10.0
_PATIENCE = 60.0
"""Seconds without any worker after which the work is given up."""
_FLOW = 2
"""Units in flight for each worker: one runs, and the next one waits there."""
_TRIES = 3
_TICK = 0.5
_PAUSE = 0.01
_LOOK = 2.0
_ANSWER = 5.0
_END = 20.0
_GRACE = 5.0
"""Seconds after an interrupt in which what runs can end by itself, and what it has written is reported."""
_SHARED = "put the exports where every machine of the cluster sees them under the same path"
_one = threading.Lock()
"""Units change the working directory, and what they print is theirs: a process runs one at a time."""


def run(
    unit: Callable[[str], Any], paths: Iterable[str], *, scheduler: str, timeout: float | None = None
) -> Generator[Outcome, None, None]:
    """Run a unit of work for each path on the workers of a Dask scheduler; see :func:`irtools.fleet.run`.

    A worker runs one unit at a time, in the working directory of this process. It must see that directory and the
    paths. A unit whose worker dies is tried again. One that kills each worker that tries it has a failure. With a
    ``timeout``, the worker of a unit that takes longer is restarted. When the iterator is closed, or an exception such
    as ``KeyboardInterrupt`` leaves it, what waits is cancelled. What runs comes to its end on the cluster.

    Parameters
    ----------
    scheduler : str
        Address, such as ``tcp://host:8786``. For ``tls://``, Dask's configuration names the certificates.

    Raises
    ------
    OptionError
        Dask is not installed, the scheduler does not answer or has no workers, or a worker has other versions of
        irtools, OpenVINO or a rule pack.
    """
    with _connected(scheduler) as client:
        flights = _Flights(client, unit, timeout)
        try:
            yield from flights.outcomes(paths)
        except KeyboardInterrupt:
            yield from flights.last()
            raise
        finally:
            flights.end()


@contextmanager
def _connected(scheduler: str) -> Iterator[Client]:
    """A client of a scheduler that has at least one worker."""
    try:
        from distributed import Client, Security
        from distributed.comm.addressing import get_address_host_port
    except ImportError as error:
        raise OptionError(
            "--scheduler needs Dask, which is not installed",
            hint="Install the extra `distributed` (in a checkout: pip install '.[distributed]').",
        ) from error
    advice = "Start one with `dask scheduler`, and give the address that it prints."
    with _quiet():
        try:
            get_address_host_port(scheduler)  # a client that was given a wrong address cannot be closed
            if scheduler.startswith("tls://") and Security().get_connection_args("client").get("ssl_context") is None:
                raise ValueError("Dask's configuration names no certificates (distributed.comm.tls)")
            with warnings.catch_warnings():  # about versions of what irtools does not depend on
                warnings.simplefilter("ignore")
                client = Client(scheduler, timeout=_CONNECT, set_as_default=False, name="irtools")
        except (OSError, ValueError, RuntimeError, ImportError) as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise OptionError(f"the scheduler {scheduler} does not answer: {reason}", hint=advice) from error
        try:
            _require_workers(client, scheduler)
            yield client
        finally:
            with suppress(OSError):  # the scheduler is gone
                client.close(timeout=_END)


def _require_workers(client: Client, scheduler: str) -> None:
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
    except TimeoutError as error:
        hint = f"Start some, for example with `dask worker {scheduler} --nworkers 4 --nthreads 1`."
        raise OptionError(f"the scheduler {scheduler} has no workers", hint=hint) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask from writing to stderr: what counts becomes a failure or an error."""
    ours = [
        logger
        for name, logger in logging.root.manager.loggerDict.items()
        if name.partition(".")[0] == "distributed" and isinstance(logger, logging.Logger) and not logger.disabled
    ]
    for logger in ours:
        logger.disabled = True
    try:
        yield
    finally:
        for logger in ours:
            logger.disabled = False


@dataclass(slots=True)
class _Flight:
    """One unit that the cluster has.

    Attributes
    ----------
    tries : int
        How often it was submitted; Dask's own repetitions for dead workers do not count.
    places : list of str
        Addresses of the workers that have begun it since it was submitted.
    began : float or None
        When the last of them did.
    """

    number: int
    path: str
    exists: bool
    future: Future[Any] | None = None
    tries: int = 0
    places: list[str] = field(default_factory=list)
    began: float | None = None


class _Flights:
    """The units in flight, and what becomes of them. Dask's threads only fill a queue, which one thread reads."""

    def __init__(self, client: Client, unit: Callable[[str], Any], timeout: float | None) -> None:
        import cloudpickle

        self._client = client
        self._timeout = timeout
        self._topic = f"irtools-{uuid.uuid4().hex}"
        self._shared = {
            "installed": dict(installed()),
            "directory": os.getcwd(),  # noqa: PTH109
            "topic": self._topic,
            # The worker sends its word before the unit can keep Python's lock, and with it the time.
            "pause": 0.0 if timeout is None else _PAUSE,
        }
        # As bytes, so that a worker compares the versions before it loads anything.
        self._unit = cloudpickle.dumps(unit)
        self._events: SimpleQueue[tuple[str, Any, Any, float]] = SimpleQueue()
        self._flights: dict[int, _Flight] = {}
        self._restarts: list[threading.Thread] = []
        self._limits: dict[str, int] = {}
        self._workers = 1
        self._workers_seen = time.monotonic()
        self._next_look = 0.0
        self._lost = ""
        client.subscribe_topic(self._topic, self._on_start)
        client.subscribe_topic("worker-restart-memory", self._on_memory)

    def _on_start(self, event: tuple[float, Any]) -> None:
        self._events.put(("began", *event[1], time.monotonic()))

    def _on_memory(self, event: tuple[float, Any]) -> None:
        self._events.put(("memory", event[1]["worker"], event[1]["rss"], time.monotonic()))

    def outcomes(self, paths: Iterable[str]) -> Iterator[Outcome]:
        """Outcomes as they come; the paths are read as there is room for them."""
        numbered = iter(enumerate(paths))
        more = True
        while more or self._flights:
            self._look()
            while more and not self._lost and len(self._flights) < _FLOW * max(self._workers, 1):
                number, path = next(numbered, (-1, ""))
                more = number >= 0
                if more:
                    self._flights[number] = _Flight(number, path, os.path.lexists(path))
                    self._submit(self._flights[number])
            if self._lost:
                yield from (self._failed(flight, self._lost) for flight in list(self._flights.values()))
                yield from (Outcome(number, path, None, self._lost, 0.0) for number, path in numbered)
                return
            if self._flights:
                yield from self._settled()

    def last(self) -> Iterator[Outcome]:
        """Outcomes of what runs and ends within a moment, so that what it has written is reported."""
        waiting = [number for number, flight in self._flights.items() if flight.began is None]
        self._cancel([self._flights.pop(number) for number in waiting])
        ending = time.monotonic() + _GRACE
        while self._flights and time.monotonic() < ending:
            yield from self._settled()

    def end(self) -> None:
        """Cancel what waits, and let the restarts of workers come to their end."""
        self._cancel(self._flights.values())
        for thread in self._restarts:
            thread.join(_END)

    def _cancel(self, flights: Iterable[_Flight]) -> None:
        with suppress(Exception):  # the scheduler is gone
            self._client.cancel([flight.future for flight in flights if flight.future is not None])

    def _submit(self, flight: _Flight) -> None:
        flight.tries += 1
        flight.places, flight.began = [], None
        try:
            future = self._client.submit(
                _perform,
                self._unit,
                flight.number,
                flight.path,
                flight.exists,
                self._shared,
                key=f"{self._topic}-{flight.number}-{flight.tries}",
                pure=False,
            )
        except Exception:
            if self._client.status == "running":
                raise
            flight.future = None  # submitted again when the connection is there
        else:
            flight.future = future
            self._await(flight.number, future)

    def _await(self, number: int, future: Future[Any]) -> None:
        future.add_done_callback(lambda done: self._events.put(("done", number, done, time.monotonic())))

    def _look(self) -> None:
        """Count the workers now and then, and submit again what a lost connection has cancelled."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK
        if self._client.status == "closed":
            self._lost = "the connection to the scheduler was lost"
        if self._client.status != "running":
            return
        with suppress(OSError):
            self._workers = len(self._client.nthreads())
        if self._workers:
            self._workers_seen = now
        elif now - self._workers_seen > _PATIENCE:
            self._lost = f"the cluster has had no workers for {_PATIENCE:.0f} s"
        for flight in self._flights.values():
            if flight.future is None:
                self._submit(flight)

    def _settled(self) -> Iterator[Outcome]:
        """Outcomes of what has happened; waits for a moment if nothing has."""
        events = []
        with suppress(Empty):
            events.append(self._events.get(timeout=_TICK))
            while True:
                events.append(self._events.get_nowait())
        for kind, what, detail, when in events:
            flight = self._flights.get(what) if isinstance(what, int) else None
            if kind == "memory":
                self._limits[what] = detail
            elif flight is not None and kind == "began":
                flight.places.append(detail)
                flight.began = when
            elif flight is not None and flight.future is detail is not None:
                yield from self._landed(flight, detail)
        yield from self._late()

    def _late(self) -> Iterator[Outcome]:
        """Outcomes of the units that take too long. Only a restart of the worker ends a thread."""
        if self._timeout is None:
            return
        now = time.monotonic()
        for flight in list(self._flights.values()):
            if flight.began is not None and now - flight.began > self._timeout and flight.future is not None:
                yield self._failed(flight, f"took longer than {self._timeout:g} s and was stopped")
                self._cancel([flight])
                thread = threading.Thread(target=self._restart, args=(flight.places[-1],), daemon=True)
                self._restarts.append(thread)
                thread.start()

    def _restart(self, worker: str) -> None:
        with suppress(Exception):  # the worker or the whole cluster is gone, which shows elsewhere
            try:
                self._client.restart_workers([worker], timeout=_END, raise_for_error=False)
            except ValueError:  # it has no nanny, and whoever started it must start it again
                self._client.retire_workers([worker])

    def _landed(self, flight: _Flight, future: Future[Any]) -> Iterator[Outcome]:
        """Outcome of a unit that Dask is done with; none if it is tried again."""
        from distributed import CancelledError, KilledWorker

        try:
            kind, value, seconds = future.result(timeout=_ANSWER)
        except TimeoutError:  # the worker that has the row has died, and Dask repeats the unit
            self._await(flight.number, future)
        except (CancelledError, OSError):  # the connection to the scheduler was lost
            flight.future = None
            if flight.tries >= _TRIES:
                yield self._failed(flight, "the connection to the scheduler was lost repeatedly")
        except KilledWorker as error:
            # Less often begun than blamed: it waited behind the one that kills the workers.
            if len(flight.places) <= error.allowed_failures and flight.tries < _TRIES:
                self._submit(flight)
            else:
                yield self._failed(flight, self._killed(flight, error.allowed_failures + 1))
        except (ImportError, AttributeError) as error:  # `_perform` itself was not found
            raise OptionError(
                f"the cluster cannot load irtools: {error}",
                hint=f"Install irtools {installed()['irtools']} where the scheduler and the workers run.",
            ) from error
        except Exception as error:
            yield self._failed(flight, failure_text(error))
        else:
            yield from self._answered(flight, kind, value, seconds)

    def _answered(self, flight: _Flight, kind: str, value: Any, seconds: float) -> Iterator[Outcome]:
        if kind == "refused":
            raise OptionError(value, hint="Install the same versions on all machines of the cluster.")
        if kind == "unseen" and not os.path.lexists(flight.path):
            flight.exists = False  # it was deleted meanwhile, about which the unit has its own words
            self._submit(flight)
        elif kind == "row":
            del self._flights[flight.number]
            yield Outcome(flight.number, flight.path, value, None, seconds)
        else:
            yield self._failed(flight, value, seconds)

    def _killed(self, flight: _Flight, times: int) -> str:
        limit = next((self._limits[place] for place in flight.places if place in self._limits), None)
        died = f"{plural(times, 'worker')} died while working on it"
        if limit is None:
            return f"{died}, perhaps for lack of memory"
        return f"{died}, because it exceeded their limit of memory with {size_text(limit)}"

    def _failed(self, flight: _Flight, failure: str, seconds: float | None = None) -> Outcome:
        del self._flights[flight.number]
        if seconds is None:
            seconds = time.monotonic() - flight.began if flight.began is not None else 0.0
        return Outcome(flight.number, flight.path, None, failure, seconds)


def _perform(unit: bytes, number: int, path: str, exists: bool, shared: Mapping[str, Any]) -> tuple[str, Any, float]:
    """Run a unit on a worker.

    Returns
    -------
    tuple
        What the value is (``row``, ``failure``, ``unseen`` or ``refused``), the value, and seconds.
    """
    import cloudpickle
    from distributed import get_worker

    worker = get_worker()
    different = difference(shared["installed"], installed())
    if different:
        return "refused", f"the worker {worker.address} {different}", 0.0
    with _one:
        worker.log_event(shared["topic"], [number, worker.address])
        time.sleep(shared["pause"])
        began = time.monotonic()
        here = os.getcwd()  # noqa: PTH109
        try:
            try:
                os.chdir(shared["directory"])
            except OSError:
                return "failure", _unseen(worker.address, f"the working directory {shared['directory']}"), 0.0
            if exists and not os.path.lexists(path):
                return "unseen", _unseen(worker.address, "it"), 0.0
            try:
                return "row", cloudpickle.loads(unit)(path), time.monotonic() - began
            except (Exception, SystemExit) as error:
                return "failure", failure_text(error), time.monotonic() - began
        finally:
            os.chdir(here)


def _unseen(worker: str, what: str) -> str:
    return f"the worker {worker} does not see {what}; {_SHARED}"
