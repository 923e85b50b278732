"""What an end would cost: steps since the last checkpoint, GPU hours, what waits.

A checkpoint is known where a log event extracted it into a job's metadata (a key that
begins with `checkpoint`); without one, everything since the attempt began is at stake.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from autoexp_tui.core.states import ACTIVE, TERMINAL, Cause, JobState
from autoexp_tui.ui.view.columns import run_seconds

if TYPE_CHECKING:
    from autoexp_tui.ui.view.session import JobView, SessionView

NOTHING_TO_END: Final = TERMINAL | {JobState.PLANNED, JobState.HELD}
"""States in which there is nothing to kill."""
_INTEGER: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Loss:
    """What ending one job now loses."""

    job: JobView
    steps: int | None
    """Since its last checkpoint; None when no step is known."""
    seconds: float
    """Of running, since its last checkpoint as far as that is known."""
    checkpoint: int | None
    """The step of the newest checkpoint; None when none is known."""

    @property
    def gpu_hours(self) -> float:
        """What the GPUs did in vain."""
        return self.seconds / 3600 * self.job.record.spec.resources.gpus


def checkpoint_step(job: JobView) -> int | None:
    """The step of the newest checkpoint that the job's log told of."""
    found = [
        int(numbers[-1])
        for key, value in job.record.metadata.items()
        if key.startswith("checkpoint") and (numbers := _INTEGER.findall(str(value)))
    ]
    return max(found, default=None)


def nan_step(job: JobView) -> int | None:
    """The step from which the loss was no number; None unless that ended the job."""
    if job.record.cause is not Cause.NAN:
        return None
    reasons = (job.record.why, *(entry.why for entry in job.warned))
    steps = [why.arg("step") for why in reasons if why is not None]
    return next((step for step in steps if isinstance(step, int)), None)


def holds_nan(job: JobView) -> bool:
    """Whether the newest checkpoint was saved when the loss was no number already."""
    ill, saved = nan_step(job), checkpoint_step(job)
    return ill is not None and saved is not None and saved >= ill


def loss_of(job: JobView, now: float) -> Loss:
    """What ending `job` at `now` loses."""
    saved = checkpoint_step(job)
    steps = None if job.step is None else max(0, job.step - (saved or 0))
    seconds = run_seconds(job, now) or 0.0
    if steps is not None and saved and job.step:
        seconds *= _unsaved(job, steps, now)
    return Loss(job, steps, seconds, saved)


def _unsaved(job: JobView, steps: int, now: float) -> float:
    """The part of the run's time that came after the checkpoint."""
    seconds = run_seconds(job, now) or 0.0
    rate = job.live.rate if job.live else None
    if rate and seconds > 0:
        return min(1.0, steps / rate / seconds)
    return min(1.0, steps / job.step) if job.step else 1.0


def killable(jobs: Iterable[JobView]) -> tuple[JobView, ...]:
    """Those that wait, queue or run; what nobody asked for yet has nothing to end."""
    return tuple(job for job in jobs if job.record.state not in NOTHING_TO_END)


def exists_outside(job: JobView) -> bool:
    """Whether an attempt of it lives, or may live."""
    return job.record.state in ACTIVE


def waits_behind(jobs: Sequence[JobView], session: SessionView) -> tuple[JobView, ...]:
    """Jobs that have not started and wait, however far down, for one of `jobs`."""
    seen = {job.name for job in jobs}
    queue = [job.name for job in jobs]
    found: list[JobView] = []
    while queue:
        for name in session.behind.get(queue.pop(), ()):
            job = session.job(name)
            if name in seen or job is None:
                continue
            seen.add(name)
            queue.append(name)
            if not job.record.started:
                found.append(job)
    return tuple(sorted(found, key=lambda job: job.index))


def needed_upstream(
    jobs: Sequence[JobView], session: SessionView
) -> tuple[JobView, ...]:
    """Jobs that `jobs` wait for, however far up, that nobody has asked to run."""
    seen = {job.name for job in jobs}
    queue = [job.name for job in jobs]
    found: list[JobView] = []
    while queue:
        for name in session.upstream.get(queue.pop(), ()):
            job = session.job(name)
            if name in seen or job is None:
                continue
            seen.add(name)
            queue.append(name)
            found.append(job)
    return tuple(sorted(found, key=lambda job: job.index))
