"""What an end would cost: steps since the last checkpoint, GPU hours, what waits.

A checkpoint is known where a log event extracted it into a job's metadata (a key that
begins with `checkpoint`) or a look by `checkpoints.glob` found it: the engine looks
when an attempt has ended, a question about a job that runs when it is asked. Without
one, everything since the attempt's first step would be lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from autoexp_tui.cockpit.state.session import measure_run
from autoexp_tui.model.outputs import CheckpointPlace, SeenCheckpoint
from autoexp_tui.model.states import ACTIVE, TERMINAL, Cause, JobState
from autoexp_tui.text.spelling import wall_time

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.model.state import Attempt


NOTHING_TO_END: Final = TERMINAL | {JobState.PLANNED, JobState.HELD}
"""States in which there is nothing to kill."""


_INTEGER: Final = re.compile(r"\d+")


_NOT_SET: Final = "set monitoring.checkpoints.glob"


_NOT_YET: Final = "looking for them"


Looks: TypeAlias = Mapping[str, SeenCheckpoint | str]
"""Job -> the newest checkpoint that `checkpoints.glob` finds, or why none is known."""


NO_LOOKS: Final[Looks] = {}


@dataclass(frozen=True, slots=True)
class Loss:
    """What ending one job now loses."""

    job: JobView
    steps: int | None
    """Since its last checkpoint, else since the first step that its attempt reported;
    None when no step is known."""
    seconds: float
    """Of running, since its last checkpoint as far as that is known."""
    checkpoint: int | None
    """The step of the newest checkpoint; None when none is known, or its name holds
    no number."""
    unknown: str = ""
    """Why no checkpoint is known; empty where one is."""

    @property
    def gpu_hours(self) -> float:
        """What the GPUs did in vain."""
        return self.seconds / 3600 * self.job.record.spec.resources.gpus


def find_checkpoint(job: JobView) -> int | None:
    """The step of the newest checkpoint that is known without a look."""
    found = [*_seen_at_an_end(job), *_told(job)]
    return max(found, default=None)


def _seen_at_an_end(job: JobView) -> Iterable[int]:
    """What the engine found when an attempt had ended; other work does not go on
    from it."""
    saved, attempt = job.record.saved, job.attempt
    others = attempt is not None and attempt.anew and attempt.ended_at is None
    if saved is not None and saved.checkpoint.step is not None and not others:
        yield saved.checkpoint.step


def _told(job: JobView) -> Iterable[int]:
    """What the job's log told."""
    return [
        int(numbers[-1])
        for key, value in job.record.metadata.items()
        if key.startswith("checkpoint") and (numbers := _INTEGER.findall(str(value)))
    ]


def find_nan_step(job: JobView) -> int | None:
    """The step from which the loss was no number; None unless that ended the job."""
    if job.record.cause is not Cause.NAN:
        return None
    reasons = (job.record.why, *(entry.why for entry in job.warned))
    steps = [why.arg("step") for why in reasons if why is not None]
    return next((step for step in steps if isinstance(step, int)), None)


def has_nan(job: JobView) -> bool:
    """Whether the newest checkpoint was saved when the loss was no number already."""
    ill, saved = find_nan_step(job), find_checkpoint(job)
    return ill is not None and saved is not None and saved >= ill


def estimate_loss(job: JobView, now: float, looks: Looks = NO_LOOKS) -> Loss:
    """What ending `job` at `now` loses."""
    seen = looks.get(job.name, _NOT_SET)
    if isinstance(seen, SeenCheckpoint):
        return _loss_since(job, now, seen)
    saved = find_checkpoint(job)
    first = job.live.first_step if job.live else None
    begun = saved if saved is not None else max(0, (first or 1) - 1)
    steps = None if job.step is None else max(0, job.step - begun)
    seconds = measure_run(job, now) or 0.0
    if steps is not None and saved and job.step:
        seconds *= _unsaved(job, steps, now)
    return Loss(job, steps, seconds, saved, seen if saved is None else "")


def _loss_since(job: JobView, now: float, seen: SeenCheckpoint) -> Loss:
    """What is lost since a checkpoint that was seen."""
    step, saved = job.step, seen.step
    steps = None if step is None or saved is None else step - saved
    if steps is not None and steps < 0:  # its log counts otherwise, or is behind
        steps = None
    seconds = min(measure_run(job, now) or 0.0, seen.age)
    return Loss(job, steps, seconds, saved)


def list_checkpoint_places(
    jobs: Iterable[JobView], session: SessionView
) -> Sequence[CheckpointPlace]:
    """Where to look for the checkpoints of those of `jobs` that run."""
    plan = session.snapshot.plan
    if plan is None:
        return ()
    return [
        CheckpointPlace(
            job=job.name,
            output_dir=job.record.spec.output_dir,
            glob=where.glob,
            since=_since(attempt, session),
        )
        for job in jobs
        if (attempt := job.attempt) is not None and is_outside(job)
        if (where := plan.rules_of(job.record.spec).checkpoints).glob
    ]


def _since(attempt: Attempt, session: SessionView) -> float | None:
    """From when on checkpoints are those of an attempt that began anew, UTC."""
    if not attempt.anew or attempt.began_at is None:
        return None
    return wall_time(attempt.began_at, session.now)


def mark_unlooked(places: Iterable[CheckpointPlace]) -> Looks:
    """What is known while the look is under way."""
    return {place.job: _NOT_YET for place in places}


def _unsaved(job: JobView, steps: int, now: float) -> float:
    """The part of the run's time that came after the checkpoint."""
    seconds = measure_run(job, now) or 0.0
    rate = job.live.rate if job.live else None
    if rate and seconds > 0:
        return min(1.0, steps / rate / seconds)
    return min(1.0, steps / job.step) if job.step else 1.0


def select_killable(jobs: Iterable[JobView]) -> tuple[JobView, ...]:
    """Those that wait, queue or run; what nobody asked for yet has nothing to end."""
    return tuple(job for job in jobs if job.record.state not in NOTHING_TO_END)


def is_outside(job: JobView) -> bool:
    """Whether an attempt of it lives, or may live."""
    return job.record.state in ACTIVE


def find_waiting(jobs: Sequence[JobView], session: SessionView) -> tuple[JobView, ...]:
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


def find_needed(jobs: Sequence[JobView], session: SessionView) -> tuple[JobView, ...]:
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
