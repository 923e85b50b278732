"""How an event changes a job's record: parts of it, an attempt of it, or its state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autoexp_tui.events.events import Recorded
from autoexp_tui.model.state import Attempt, JobRecord, SessionState
from autoexp_tui.model.states import JobState, may_become


class IllegalTransition(Exception):
    """An event asks for a step that the table does not have."""


def update(state: SessionState, job: str, **changes: Any) -> None:
    """Change parts of a job's record."""
    state.jobs[job] = state.renew(state.jobs[job], **changes)


def move(
    state: SessionState,
    record: Recorded,
    job: str,
    new: JobState,
    *,
    again: bool = False,
    **changes: Any,
) -> None:
    """`again`: it completed without a run of this session, and may still have one."""
    old = state.jobs[job]
    if not (again or may_become(old.state, new)):
        raise IllegalTransition(f"{job}: {old.state} -> {new} by {record.event!r}")
    if old.state is not new:
        changes |= {"since": record.t, "since_lived": state.lived}
    state.jobs[job] = state.renew(old, state=new, **changes)


def move_all(
    state: SessionState,
    record: Recorded,
    jobs: tuple[str, ...],
    new: JobState,
    **changes: Any,
) -> None:
    """Move several jobs to one state, with no word of why they waited before."""
    waiting = state.lived if new is JobState.WAITING else None
    changes = {"why": None, **changes}
    for job in jobs:
        move(state, record, job, new, waiting_lived=waiting, **changes)


def attempts_with_metrics(job: JobRecord) -> tuple[Attempt, ...]:
    """The attempts of a job, the newest with the metrics that were recorded of it."""
    if job.noted is None or job.attempt is None:
        return job.attempts
    if job.noted.attempt != job.attempt.number:
        return job.attempts
    return (*job.attempts[:-1], replace(job.attempt, noted=job.noted))


def update_attempt(state: SessionState, job: str, number: int, **changes: Any) -> None:
    """Change parts of one attempt of a job."""
    attempts = tuple(
        state.renew(attempt, **changes) if attempt.number == number else attempt
        for attempt in state.jobs[job].attempts
    )
    update(state, job, attempts=attempts)
