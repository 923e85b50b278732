"""`python -m tests.support.simulate`: the fault simulator with the real adapters.

The campaigns are `tests.support.simulation`'s; here they get the executor, the readers
of files and of logs that a session on a real cluster has. Needs nothing beyond the
standard library."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from autoexp_tui.engine.executor_port import Executor
from autoexp_tui.engine.ports import Clock
from autoexp_tui.executors.slurm.commands import Ran
from autoexp_tui.executors.slurm.executor import SlurmExecutor, SlurmSettings
from autoexp_tui.executors.slurm.submit import SubmitSettings
from autoexp_tui.executors.slurm.watch import Rhythm
from autoexp_tui.probes.fact_source import OutsideFacts
from autoexp_tui.probes.log_reader import LogReader
from autoexp_tui.testing.clock import ManualClock
from tests.support.fake_slurm import FakeSlurm
from tests.support.sim_clusters import KINDS, Danger, Kind
from tests.support.sim_slurm import Adapters, SlurmCluster, Times
from tests.support.simulation import main


def slurm_executor(
    commands: FakeSlurm[Ran], clock: Clock, root: Path, times: Times, array_size: int
) -> Executor:
    """The executor of a session whose cluster is made up."""
    settings = SlurmSettings(
        submit=SubmitSettings(
            wrapper=root / "session" / "wrapper.py",
            python="python3",
            scripts=root / "scripts",
            array_logs=root / "logs" / ".arrays",
            grace_seconds=times.grace,
            submit_seconds=times.submit,
        ),
        ask_seconds=times.ask,
        settle_seconds=times.settle,
        patience_seconds=times.patience,
        lost_seconds=times.lost,
        array_size=array_size,
        rhythm=Rhythm(first=times.first, latest=times.latest),
    )
    return SlurmExecutor(settings, commands, clock)


def _log_reader(clock: Clock) -> LogReader:
    return LogReader(clock.monotonic)


ADAPTERS: Final = Adapters(
    answer=Ran, executor=slurm_executor, facts=OutsideFacts, logs=_log_reader
)


def _slurm(
    rng: random.Random, clock: ManualClock, danger: Danger, *, accounting: bool
) -> SlurmCluster[Ran]:
    return SlurmCluster(rng, clock, danger, ADAPTERS, accounting=accounting)


ALL_KINDS: Final[Mapping[str, Kind]] = {
    **KINDS,
    "slurm": partial(_slurm, accounting=True),
    "bare": partial(_slurm, accounting=False),
}
"""Campaigns by what runs their jobs; `bare`: a Slurm without accounting."""

if __name__ == "__main__":
    sys.exit(main(kinds=ALL_KINDS))
