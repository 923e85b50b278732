"""What an end would cost: steps since the last checkpoint, GPU hours, what waits.

A checkpoint is known where a log event extracted it into a job's metadata (a key that
begins with `checkpoint`) or a look by `checkpoints.glob` found it: the engine looks
when an attempt has ended, a question about a job that runs when it is asked. Without
one, everything since the attempt's first step would be lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from autoexp_tui.cockpit.state.session import sort_jobs
from autoexp_tui.model.outputs import CheckpointPlace, SeenCheckpoint
from autoexp_tui.model.states import ACTIVE, TERMINAL, Cause, JobState
from autoexp_tui.text.spelling import wall_time

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView

NOTHING_TO_END: Final = TERMINAL | {JobState.PLANNED, JobState.HELD}
"""States in which there is nothing to kill."""
_INTEGER: Final = re.compile(r"\d+")
_NOT_SET: Final = "set monitoring.checkpoints.glob"
NOT_YET: Final = "looking for them"
"""Why no checkpoint is known while a look for it is under way."""

Looks: TypeAlias = Mapping[str, SeenCheckpoint | str]
"""Job -> the newest checkpoint that `checkpoints.glob` finds, or why none is known."""
NO_LOOKS: Final[Looks] = {}


class Loss(NamedTuple):
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
        """What the GPUs did for nothing."""
        return self.seconds / 3600 * self.job.record.spec.resources.gpus


def format_gpu_hours(hours: float) -> str:
    """`0.9 GPU h`; empty when it is next to nothing."""
    return f"{hours:.1f} GPU h" if hours >= 0.05 else ""


def find_checkpoint(job: JobView) -> int | None:
    """The step of the newest checkpoint known without a look: the job's log told of
    it, or the engine found it at an attempt's end, for other work not to go on from."""
    found = [
        int(numbers[-1])
        for key, value in job.record.metadata.items()
        if key.startswith("checkpoint") and (numbers := _INTEGER.findall(str(value)))
    ]
    saved, attempt = job.record.saved, job.attempt
    others = attempt is not None and attempt.anew and attempt.ended_at is None
    if saved is not None and saved.checkpoint.step is not None and not others:
        found.append(saved.checkpoint.step)
    return max(found, default=None)


def has_nan(job: JobView) -> bool:
    """Whether the newest checkpoint was saved when the loss was no number already."""
    if job.record.cause is not Cause.NAN:
        return False
    reasons = (job.record.why, *(entry.why for entry in job.warned))
    steps = (why.arg("step") for why in reasons if why is not None)
    ill = next((step for step in steps if isinstance(step, int)), None)
    saved = find_checkpoint(job)
    return ill is not None and saved is not None and saved >= ill


def estimate_loss(job: JobView, now: float, looks: Looks = NO_LOOKS) -> Loss:
    """What ending `job` at `now` loses."""
    seen, step = looks.get(job.name, _NOT_SET), job.step
    seconds = job.measure_run(now) or 0.0
    if isinstance(seen, SeenCheckpoint):
        more = step - seen.step if step is not None and seen.step is not None else -1
        steps = more if more >= 0 else None  # its log counts otherwise, or is behind
        return Loss(job, steps, min(seconds, seen.age), seen.step)
    saved = find_checkpoint(job)
    begun = saved if saved is not None else max(0, (job.live.first_step or 1) - 1)
    steps = None if step is None else max(0, step - begun)
    if steps is not None and saved and step:
        # The part of the run's time that came after the checkpoint.
        whole = job.rate * seconds if job.rate and seconds > 0 else step
        seconds *= min(1.0, steps / whole)
    return Loss(job, steps, seconds, saved, seen if saved is None else "")


def list_checkpoint_places(
    jobs: Iterable[JobView], session: SessionView
) -> Sequence[CheckpointPlace]:
    """Where to look for the checkpoints of those of `jobs` that run."""
    plan, found = session.snapshot.plan, []
    for job in filter(is_outside, jobs):
        spec, attempt = job.record.spec, job.attempt
        glob = plan.rules_of(spec).checkpoints.glob if plan is not None else ""
        anew = attempt.began_at if attempt is not None and attempt.anew else None
        since = None if anew is None else wall_time(anew, session.now)
        place = CheckpointPlace(
            job=job.name, output_dir=spec.output_dir, glob=glob, since=since
        )
        found += [place] if glob else []
    return found


def select_killable(jobs: Iterable[JobView]) -> tuple[JobView, ...]:
    """Those that wait, queue or run; what nobody asked for yet has nothing to end."""
    return tuple(job for job in jobs if job.record.state not in NOTHING_TO_END)


def is_outside(job: JobView) -> bool:
    """Whether an attempt of it lives, or may live."""
    return job.record.state in ACTIVE


def find_waiting(jobs: Sequence[JobView], session: SessionView) -> tuple[JobView, ...]:
    """Jobs that have not started and wait, however far down, for one of `jobs`."""
    found = find_linked(jobs, session, session.links.behind)
    return tuple(job for job in found if not job.record.started)


def find_linked(
    jobs: Sequence[JobView], session: SessionView, links: Mapping[str, Iterable[str]]
) -> tuple[JobView, ...]:
    """All that links lead to from `jobs`, without these, in plan order."""
    seen = {job.name for job in jobs}
    queue = list(seen)
    while queue:
        fresh = set(links.get(queue.pop(), ())) - seen
        seen |= fresh
        queue += fresh
    return sort_jobs(session.list_jobs(seen - {job.name for job in jobs}))
