"""Clusters for the tests: one of each kind a worker, started by its first user.

A test gets a cluster in order and may break it: after each test all jobs are gone,
all daemons run and all nodes are idle.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.settings import Settings, why_no_cluster, why_no_memory_limits


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need Slurm are skipped, with the reason, where there is none."""
    if reason := why_no_cluster(accounting=True):
        for item in items:
            if item.get_closest_marker("slurm"):
                item.add_marker(pytest.mark.skip(reason=reason))


@contextmanager
def cleared(cluster: Cluster) -> Iterator[Cluster]:
    yield cluster
    cluster.clear()


@pytest.fixture(scope="session")
def accounted() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture(scope="session")
def bare() -> Iterator[Cluster]:
    with Cluster(Settings(accounting=False)) as running:
        yield running


@pytest.fixture(scope="session")
def forgets_soon() -> Iterator[Cluster]:
    with Cluster(Settings(min_job_age_s=5, gpus=0, failing_prolog=True)) as running:
        yield running


@pytest.fixture(scope="session")
def limited() -> Iterator[Cluster]:
    if reason := why_no_memory_limits():
        pytest.skip(reason)
    # Nodes share the machine's cgroups with those of every other worker.
    settings = Settings(nodes=2, node_prefix=f"m{os.getpid()}x", memory_limits=True)
    with Cluster(settings) as running:
        yield running


@pytest.fixture
def cluster(accounted: Cluster) -> Iterator[Cluster]:
    """Four nodes, with accounting."""
    with cleared(accounted):
        yield accounted


@pytest.fixture
def bare_cluster(bare: Cluster) -> Iterator[Cluster]:
    """Four nodes, without accounting: an ended job is forgotten with its age."""
    with cleared(bare):
        yield bare


@pytest.fixture
def forgetful(forgets_soon: Cluster) -> Iterator[Cluster]:
    """Forgets ended jobs soon: what is absent is sure after that."""
    with cleared(forgets_soon):
        yield forgets_soon


@pytest.fixture
def cgroup_cluster(limited: Cluster) -> Iterator[Cluster]:
    """Two nodes that enforce the memory of jobs; skips where the machine cannot."""
    with cleared(limited):
        yield limited
