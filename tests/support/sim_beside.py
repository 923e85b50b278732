"""The engine's host in a simulated campaign: runs what is to run beside the cluster.

It outlives engines as the cluster does, keeps what the wrapper's records keep, and
knows what really befell each run. What runs write are real files, as the cluster's are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from autoexp_tui.model.effect import TaskId
from autoexp_tui.testing.clock import ManualClock
from tests.support.fake_executor import FakeExecutor
from tests.support.fake_script import Script
from tests.support.true_ends import STROKES, Befallen, Stroke


class BesideHost(FakeExecutor):
    """A fake executor of which a checker may ask the truth."""

    def __init__(
        self,
        clock: ManualClock,
        script: Script,
        write: Callable[[str, bytes], None] | None = None,
    ) -> None:
        super().__init__(clock, script, write=write or _append)

    def has_succeeded(self, task: TaskId) -> bool:
        return any(
            one.stroke is Stroke.ENDED and one.exit_code == 0
            for one in self.befallen(task)
        )

    def befallen(self, task: TaskId) -> Iterator[Befallen]:
        """What befell each run of an attempt, in order."""
        copy = self.claims.get(task)
        if copy is None:
            return
        for number, run in enumerate(copy.runs):
            newest = run is copy.runs[-1]
            if run.exit is not None:
                if newest and copy.cause and (stroke := STROKES.get(copy.cause)):
                    yield Befallen(stroke=stroke, run=number)
                yield Befallen(
                    stroke=Stroke.ENDED,
                    run=number,
                    exit_code=run.exit.exit_code,
                    signal=run.exit.signal,
                    asked=run.asked,
                )
            elif run.over:
                left = newest and copy.over
                stroke = Stroke.VANISHED if left else Stroke.REQUEUED
                yield Befallen(stroke=stroke, run=number)


def _append(path: str, data: bytes) -> None:
    """A run writes; a run's log also becomes the job's current one."""
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("ab") as file:
        file.write(data)
    current = place.parent / "current.log"
    if place.name.startswith("slurm-") and not (
        current.is_symlink() and os.readlink(current) == place.name
    ):
        current.unlink(missing_ok=True)
        current.symlink_to(place.name)
