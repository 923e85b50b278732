"""The Slurm executor keeps the contract, on a made-up cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoexp_tui.testing.executor_contract import ExecutorContract
from tests.contract.fake_slurm_world import FakeSlurmWorld
from tests.support.fake_slurm_jobs import ClusterSettings


class TestSlurmExecutorWithAccounting(ExecutorContract):
    """All promises of the contract, sacct answering."""

    @pytest.fixture
    def world(self, tmp_path: Path) -> FakeSlurmWorld:
        return FakeSlurmWorld(tmp_path, ClusterSettings(min_job_age=5))


class TestSlurmExecutorWithoutAccounting(ExecutorContract):
    """All promises again, where nothing remains of an ended job but its records."""

    @pytest.fixture
    def world(self, tmp_path: Path) -> FakeSlurmWorld:
        settings = ClusterSettings(min_job_age=5, accounting=False)
        return FakeSlurmWorld(tmp_path, settings)
