"""Units of work on a real Dask cluster: the same outcomes as here, whatever happens to the workers."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from irtools.errors import OptionError
from irtools.fleet import cluster, pool
from irtools.fleet.outcome import Outcome
from tests.fleet import units
from tests.fleet.clusters import Cluster, running

pytest.importorskip("distributed")


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Make directories below the working directory; returns their relative paths."""
    place = tmp_path / "shared"
    place.mkdir()
    monkeypatch.chdir(place)

    def make(*names: str) -> list[str]:
        for number, name in enumerate(names):
            Path(name).mkdir()
            (Path(name) / "file").write_bytes(b"x" * number)
        return list(names)

    return make


def settled(outcomes: Iterable[Outcome]) -> list[tuple[int, str, object, str | None]]:
    """Outcomes in order, without their times."""
    return sorted(((one.number, one.path, one.row, one.failure) for one in outcomes), key=lambda one: one[0])


class TestErrors:
    def test_no_scheduler(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cluster, "_CONNECT", 0.5)
        for address in (
            "tcp://127.0.0.1:1",
            "127.0.0.1:1",
            "no://where:3",
            "tcp://127.0.0.1:port",
            "tls://127.0.0.1:1",
            "where",
        ):
            with pytest.raises(OptionError, match=f"the scheduler {address} does not answer: .*Start one"):
                next(cluster.run(units.sizes, ["a"], scheduler=address))

    def test_dask_is_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "distributed", None)
        with pytest.raises(
            OptionError, match=r"extra `distributed` \(in a checkout: pip install '\.\[distributed\]'\)"
        ):
            next(cluster.run(units.sizes, ["a"], scheduler="tcp://127.0.0.1:1"))

    @pytest.mark.slow
    def test_other_versions(
        self, dask_cluster: Cluster, folders: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cluster, "installed", lambda: {"irtools": "9.9"})
        with pytest.raises(OptionError, match=r"the worker tcp://\S+ has irtools \S+, and 9.9 is installed here"):
            list(cluster.run(units.sizes, folders("a"), scheduler=dask_cluster.address))

    @pytest.mark.slow
    def test_no_workers(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cluster, "_PATIENCE", 0.5)
        with running(tmp_path, workers=0) as started, pytest.raises(OptionError, match="has no workers"):
            next(cluster.run(units.sizes, ["a"], scheduler=started.address))


@pytest.mark.slow
class TestOutcomes:
    def run(self, dask_cluster: Cluster, paths: Iterable[str], timeout: float | None = None) -> list[Outcome]:
        return list(cluster.run(units.sizes, paths, scheduler=dask_cluster.address, timeout=timeout))

    def test_are_those_of_this_machine(self, dask_cluster: Cluster, folders: Callable[..., list[str]]) -> None:
        paths = [*folders(*map(str, range(20)), "a_raise"), "missing", os.path.abspath("3")]  # noqa: PTH100
        here = settled(pool.run(units.sizes, paths))
        assert len(here) == 23
        assert settled(self.run(dask_cluster, paths)) == here

    def test_paths_are_read_as_there_is_room(self, dask_cluster: Cluster, folders: Callable[..., list[str]]) -> None:
        paths = folders(*map(str, range(60)))
        read = done = most = 0

        def reading() -> Iterable[str]:
            nonlocal read
            for path in paths:
                read += 1
                yield path

        for _ in cluster.run(units.sizes, reading(), scheduler=dask_cluster.address):
            most = max(most, read - done)
            done += 1
        assert (done, read) == (60, 60)
        assert most <= 5

    def test_a_worker_that_is_killed_costs_nothing(
        self, dask_cluster: Cluster, folders: Callable[..., list[str]]
    ) -> None:
        paths = folders(*(f"{number}_slow" for number in range(8)))
        victim = dask_cluster.workers()[0]
        outcomes = []
        for outcome in cluster.run(units.sizes, paths, scheduler=dask_cluster.address):
            if not outcomes:
                os.kill(victim, signal.SIGKILL)
            outcomes.append(outcome)
        assert settled(outcomes) == settled(pool.run(units.sizes, paths))

    def test_a_unit_that_kills_its_worker_once_is_repeated(
        self, dask_cluster: Cluster, folders: Callable[..., list[str]]
    ) -> None:
        outcomes = self.run(dask_cluster, folders("a_kill-once", "b", "c"))
        assert [one.failure for one in outcomes] == [None] * 3
        assert sorted(len(one.row["files"]) for one in outcomes if one.row) == [1, 1, 2]

    def test_poison_is_reported_once_and_costs_the_others_nothing(
        self, dask_cluster: Cluster, folders: Callable[..., list[str]]
    ) -> None:
        paths = folders("a", "b_memory", *(f"c{number}_slow" for number in range(4)), "d_die", "e")
        outcomes = self.run(dask_cluster, paths)
        failures = {one.path: one.failure for one in outcomes if one.failure is not None}
        assert len(outcomes) == len(paths)
        assert failures.keys() == {"b_memory", "d_die"}
        assert "2 workers died while working on it, because it exceeded their limit of memory" in failures["b_memory"]
        assert failures["d_die"] == "2 workers died while working on it, perhaps for lack of memory"
        assert [one.row["path"] for one in sorted(outcomes, key=lambda one: one.number) if one.row] == [
            path for path in paths if path not in failures
        ]

    def test_a_hung_unit_ends_and_its_worker_goes_on(
        self, dask_cluster: Cluster, folders: Callable[..., list[str]]
    ) -> None:
        outcomes = self.run(dask_cluster, folders("a_hold", *"bcdefgh"), timeout=2)
        assert {one.path: one.failure for one in outcomes} == {
            "a_hold": "took longer than 2 s and was stopped",
            **dict.fromkeys("bcdefgh"),
        }
        assert len(dask_cluster.workers()) == 2

    def test_a_path_that_a_worker_does_not_see(self, dask_cluster: Cluster, folders: Callable[..., list[str]]) -> None:
        (path,) = folders("a")
        handle = os.open(path, os.O_RDONLY)
        try:
            os.dup2(handle, 900)
            (outcome,) = self.run(dask_cluster, ["/proc/self/fd/900"])
        finally:
            os.close(handle)
            os.close(900)
        assert outcome.failure is not None
        assert "does not see it; put the exports where every machine of the cluster" in outcome.failure

    def test_what_is_deleted_meanwhile_fails_in_the_words_of_the_unit(
        self, dask_cluster: Cluster, folders: Callable[..., list[str]]
    ) -> None:
        paths = folders("a_slow", "b_slow", "c", "d")

        def deleting() -> Iterator[str]:
            for path in paths:
                yield path
                if path == "c":
                    shutil.rmtree(path)

        failures = {one.path: one.failure for one in self.run(dask_cluster, deleting())}
        assert failures == {"a_slow": None, "b_slow": None, "c": "no such file or directory", "d": None}

    def test_closing_the_iterator_cancels_what_waits(
        self, dask_cluster: Cluster, folders: Callable[..., list[str]]
    ) -> None:
        from distributed import Client

        paths = folders(*(f"{number}_slow" for number in range(30)))
        run = cluster.run(units.sizes, paths, scheduler=dask_cluster.address)
        next(run)
        run.close()
        ending = time.monotonic() + 20
        with Client(dask_cluster.address, set_as_default=False) as client:
            while any(client.processing().values()):
                assert time.monotonic() < ending
                time.sleep(0.1)


@pytest.mark.slow
class TestLostCluster:
    def test_every_path_has_an_outcome_when_the_scheduler_dies(
        self, tmp_path: Path, folders: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cluster, "_CONNECT", 2.0)
        paths = folders(*(f"{number}_slow" for number in range(12)))
        outcomes = []
        with running(tmp_path) as started:
            for outcome in cluster.run(units.sizes, paths, scheduler=started.address):
                if not outcomes:
                    os.killpg(started.scheduler.pid, signal.SIGKILL)
                outcomes.append(outcome)
        assert sorted(one.number for one in outcomes) == list(range(12))
        failures = {one.failure for one in outcomes if one.failure is not None}
        assert failures == {"the connection to the scheduler was lost"}

    def test_every_path_has_an_outcome_when_all_workers_die(
        self, tmp_path: Path, folders: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cluster, "_PATIENCE", 4.0)
        paths = folders("a", "b", "c_die", "d", "e", "f")
        with running(tmp_path, nanny=False) as started:
            started.workers()
            outcomes = list(cluster.run(units.sizes, paths, scheduler=started.address))
        assert sorted(one.number for one in outcomes) == list(range(6))
        assert {one.path: one.failure for one in outcomes}["c_die"] == "the cluster has had no workers for 4 s"
