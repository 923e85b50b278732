"""The Slurm executor keeps the contract, on a real cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from autoexp_tui.testing.executor_contract import ExecutorContract
from tests.slurm.cluster import Cluster
from tests.slurm.settings import Settings
from tests.slurm.world import SlurmWorld

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def forgetful() -> Iterator[Cluster]:
    """A cluster that forgets ended jobs soon: what is absent is sure after that."""
    with Cluster(Settings(min_job_age_s=5, gpus=0)) as running:
        yield running


@pytest.fixture
def world(forgetful: Cluster, tmp_path: Path) -> Iterator[SlurmWorld]:
    yield SlurmWorld(tmp_path, forgetful.env)
    forgetful.clear()


class TestSlurmExecutor(ExecutorContract):
    """All promises of the contract, with real jobs."""
