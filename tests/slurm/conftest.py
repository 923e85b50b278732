"""Clusters for the tests: one of each kind a worker, started by its first user.

A test gets a cluster in order and may break it: after each test all jobs are gone,
all daemons run and all nodes are idle.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any, Literal

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.settings import Settings, why_no_cluster, why_no_memory_limits


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need Slurm are skipped, with the reason, where there is none."""
    if reason := why_no_cluster(accounting=True):
        for item in items:
            if item.get_closest_marker("slurm"):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def clusters() -> Iterator[Callable[[Settings], Cluster]]:
    """The one of each kind."""
    with ExitStack() as stack:
        yield cache(lambda settings: stack.enter_context(Cluster(settings)))


def one_with(settings: Settings, scope: Literal["function", "module"]) -> Any:
    @pytest.fixture(scope=scope)
    def cluster(clusters: Callable[[Settings], Cluster]) -> Iterator[Cluster]:
        if settings.memory_limits and (reason := why_no_memory_limits()):
            pytest.skip(reason)
        made = clusters(settings)
        yield made
        made.clear()

    return cluster


cluster = one_with(Settings(), "function")
cluster_of_all = one_with(Settings(), "module")
# An ended job is forgotten with its age.
bare_cluster = one_with(Settings(accounting=False), "function")
# What is absent is sure soon.
forgetful = one_with(Settings(min_job_age_s=5, gpus=0, failing_prolog=True), "function")
LIMITED = Settings(nodes=2, node_prefix=f"m{os.getpid()}x", memory_limits=True)
"""Nodes share the machine's cgroups with those of every other worker."""
cgroup_cluster = one_with(LIMITED, "function")
