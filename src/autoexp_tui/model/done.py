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


def work_of(state: SessionState, job: JobRecord) -> DoneWork:
    """What a completed job leaves."""
    noted, attempt = job.noted, job.attempt
    found = ((name, state.jobs.get(name)) for name in job.spec.depends_on)
    upstream = {name: other for name, other in found if other is not None}
    mine, seconds = f"{state.session}@{state.started_at:.3f}", None
    if len(job.attempts) == 1:  # of several none did all the steps
        began, ended = job.attempts[0].began_at, job.attempts[0].ended_at
        seconds = None if began is None or ended is None else ended - began
    return DoneWork(
        job=job.name,
        session=state.session,
        mark=mine,
        # Of the attempt that completed: the job may have been planned anew since.
        fingerprint=(attempt.fingerprint if attempt else "") or job.spec.fingerprint,
        at=job.since + state.wall_ahead,
        attempts=len(job.attempts),
        upstream={
            name: other.done.mark if other.done else mine
            for name, other in upstream.items()
        },
        upstream_work={name: _work_used(job, it) for name, it in upstream.items()},
        metadata=job.metadata,
        step=noted.step if noted else None,
        seconds=seconds,
        total=noted.total if noted else None,
        values=noted.values if noted else {},
        result=noted.result if noted else None,
    )


def _work_used(job: JobRecord, other: JobRecord) -> str:
    """The fingerprint of the attempt of `other` whose results a completed job used: the
    newest when the first of the attempts that continue each other was ordered."""
    if other.done is not None:
        return other.done.fingerprint
    firsts = [one for at, one in enumerate(job.attempts) if one.anew or not at]
    began = firsts[-1].ordered_at if firsts else job.since
    there = [one for one in other.attempts if one.ordered_at <= began]
    # One that had none yet was not waited for: its results are from its first.
    used = there[-1] if there else next(iter(other.attempts), None)
    return (used.fingerprint if used else "") or other.spec.fingerprint


def done_before(plan: Plan, found: Mapping[str, DoneWork]) -> DoneReport:
    done: dict[str, DoneWork] = {}
    changed: list[str] = []
    upstream: list[str] = []
    for job in _upstream_first(plan):
        work = found.get(job.name)
        if work is None:
            continue
        same = (work.job, work.fingerprint) == (job.name, job.fingerprint)
        if not (same and job.fingerprint):
            changed.append(job.name)
            continue
        used = [done.get(one) for one in job.depends_on]
        # Its results have to be built on those that are there.
        if all(
            one is not None
            and work.upstream.get(one.job) == one.mark
            and work.upstream_work.get(one.job, one.fingerprint) == one.fingerprint
            for one in used
        ):
            done[job.name] = work
        else:
            upstream.append(job.name)
    return DoneReport(done=done, changed=tuple(changed), upstream=tuple(upstream))


def _upstream_first(plan: Plan) -> Iterator[JobSpec]:
    """Every job after what it depends on; without circles and what hangs on them."""
    jobs = {job.name: job for job in plan.jobs}
    sorter = TopologicalSorter({job.name: job.depends_on for job in plan.jobs})
    with suppress(CycleError):
        sorter.prepare()
    while names := sorter.get_ready():
        known = [name for name in names if name in jobs]
        yield from map(jobs.__getitem__, known)
        sorter.done(*known)
