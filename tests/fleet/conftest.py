"""A real Dask cluster, for all tests that work with a healthy one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fleet.clusters import Cluster, running


@pytest.fixture(scope="session")
def dask_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler and two workers, which are started again when they die."""
    with running(tmp_path_factory.mktemp("dask")) as cluster:
        yield cluster
