"""Work that is done already: what a completed job leaves, and what it spares a plan. A
job need not run again when its work was done and everything it builds on is still what
it was built on then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from autoexp_tui.model.outputs import DoneWork

if TYPE_CHECKING:
    from autoexp_tui.model.specs import JobSpec, Plan
    from autoexp_tui.model.state import JobRecord, SessionState


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneReport:
    """Which jobs of a plan are done, and why others that once were are not."""

    done: Mapping[str, DoneWork] = field(default_factory=dict)
    changed: tuple[str, ...] = ()
    """Completed before, and would do other work now."""
    upstream: tuple[str, ...] = ()
    """Completed before, and build on something that has run, or will run, again."""


def is_of_attempt(work: DoneWork, session: str, attempt: int) -> bool:
    """Whether the word that lies there is of an attempt about to be sent, or later: a
    deposed engine may go on sending when the job has completed, and the word must
    stay."""
    return work.session == session and work.attempts >= attempt


def mark_of(state: SessionState) -> str:
    return f"{state.session}@{state.started_at:.3f}"


def work_of(state: SessionState, job: JobRecord) -> DoneWork:
    """What a completed job leaves."""
    noted = job.noted
    upstream = {
        name: state.jobs[name] for name in job.spec.depends_on if name in state.jobs
    }
    return DoneWork(
        job=job.name,
        session=state.session,
        mark=mark_of(state),
        fingerprint=_find_fingerprint(job),
        at=job.since + state.wall_ahead,
        attempts=len(job.attempts),
        upstream={name: _find_maker(state, other) for name, other in upstream.items()},
        upstream_work={name: _work_used(job, it) for name, it in upstream.items()},
        metadata=job.metadata,
        step=noted.step if noted else None,
        seconds=_measure_seconds(job),
        total=noted.total if noted else None,
        values=noted.values if noted else {},
        result=noted.result if noted else None,
    )


def _find_fingerprint(job: JobRecord) -> str:
    """Of the attempt that completed: the job may have been planned anew since."""
    attempt = job.attempt
    return (attempt.fingerprint if attempt else "") or job.spec.fingerprint


def _measure_seconds(job: JobRecord) -> float | None:
    """Of the only attempt; of several none did all the steps."""
    if len(job.attempts) != 1:
        return None
    began, ended = job.attempts[0].began_at, job.attempts[0].ended_at
    return None if began is None or ended is None else ended - began


def _find_maker(state: SessionState, job: JobRecord) -> str:
    """The mark of the session whose results of `job` are there."""
    return job.done.mark if job.done else mark_of(state)


def _work_used(job: JobRecord, other: JobRecord) -> str:
    """The fingerprint of the attempt of `other` whose results a completed job used: the
    newest when the first of the attempts that continue each other was ordered."""
    if other.done is not None:
        return other.done.fingerprint
    began = _find_begin(job)
    there = [one for one in other.attempts if one.ordered_at <= began]
    # One that had none yet was not waited for: its results are from its first.
    used = there[-1] if there else next(iter(other.attempts), None)
    return (used.fingerprint if used else "") or other.spec.fingerprint


def _find_begin(job: JobRecord) -> float:
    """When the first of the attempts that continue each other was ordered."""
    firsts = [one for at, one in enumerate(job.attempts) if one.anew or not at]
    return firsts[-1].ordered_at if firsts else job.since


def done_before(plan: Plan, found: Mapping[str, DoneWork]) -> DoneReport:
    """Which jobs of `plan` need not run, by what was found of each."""
    done: dict[str, DoneWork] = {}
    changed: list[str] = []
    upstream: list[str] = []
    for job in _upstream_first(plan):
        work = found.get(job.name)
        if work is None:
            continue
        if not _is_same(job, work):
            changed.append(job.name)
        elif _is_standing(job, work, done):
            done[job.name] = work
        else:
            upstream.append(job.name)
    return DoneReport(done=done, changed=tuple(changed), upstream=tuple(upstream))


def _is_same(job: JobSpec, work: DoneWork) -> bool:
    same = work.job == job.name and work.fingerprint == job.fingerprint
    return same and bool(job.fingerprint)


def _is_standing(job: JobSpec, work: DoneWork, done: Mapping[str, DoneWork]) -> bool:
    """Whether all that the job builds on is there as it was then."""
    return all(name in done and _is_used(work, done[name]) for name in job.depends_on)


def _is_used(work: DoneWork, other: DoneWork) -> bool:
    """Whether a job's results were built on those that are there of another."""
    same_session = work.upstream.get(other.job) == other.mark
    read = work.upstream_work.get(other.job, other.fingerprint)
    return same_session and read == other.fingerprint


def _upstream_first(plan: Plan) -> Iterator[JobSpec]:
    """Every job after all that it depends on; without circles and what hangs on
    them."""
    jobs = {job.name: job for job in plan.jobs}
    sorter = TopologicalSorter({job.name: job.depends_on for job in plan.jobs})
    with suppress(CycleError):
        sorter.prepare()
    while names := sorter.get_ready():
        known = [name for name in names if name in jobs]
        yield from map(jobs.__getitem__, known)
        sorter.done(*known)
