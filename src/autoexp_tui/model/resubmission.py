"""What jobs wait for that have not started, and whether and how they come back.

An attempt continues the one before it when it does the same work and was not told to
begin anew; else what lies there is looked at and set aside before it is submitted, and
counts again once it is another file. Identities are compared, never clocks."""

from __future__ import annotations

from collections import deque
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from contextlib import suppress
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from autoexp_tui.model.states import REVIVABLE, Cause, JobState, Outcome, Result

if TYPE_CHECKING:
    from autoexp_tui.model.condition import Condition
    from autoexp_tui.model.outputs import DoneWork, SetAside
    from autoexp_tui.model.specs import JobSpec, Plan
    from autoexp_tui.model.state import (
        Ask,
        ConditionStatus,
        JobRecord,
        PendingEffect,
        SessionState,
    )

    Unmet = tuple[int, Condition, ConditionStatus | None]


_BECAUSE_OF_OTHERS: Final = frozenset({Cause.UPSTREAM, Cause.CANCEL_CONDITION})
_ENDED_SO: Final = frozenset({JobState.SKIPPED, JobState.CANCELLED})
_NOT_SENT = frozenset(
    {JobState.PLANNED, JobState.HELD, JobState.WAITING, JobState.RETRYING}
)


def is_beginning_anew(job: JobRecord) -> bool:
    """Whether the next attempt of a job does not continue what lies there."""
    if job.state not in _NOT_SENT or job.use_files:
        return False
    for before in reversed(job.attempts):
        # What was never seen to begin wrote nothing, unless nobody could see it.
        if before.run >= 0 or before.outcome is Outcome.LOST:
            goes_on = job.retry.from_checkpoint if job.retry else job.resume
            return not goes_on or before.fingerprint not in ("", job.spec.fingerprint)
    return job.foreign_files


def is_awaiting_look(job: JobRecord) -> bool:
    """Whether the files of its followers have to be looked at before it starts."""
    return is_beginning_anew(job) and job.looked_before != len(job.attempts) + 1


def list_files_aside(job: JobRecord) -> Mapping[str, SetAside] | None:
    """Path -> what does not count of a job's files; None: nothing counts yet."""
    if not is_beginning_anew(job):
        return job.aside
    return None if is_awaiting_look(job) else job.found


def has_old_logs(job: JobRecord) -> bool:
    """Whether its log is still that of an attempt which the next does not continue."""
    newest = job.attempt
    return is_beginning_anew(job) or (
        newest is not None and newest.anew and newest.run < 0
    )


def can_come_back(job: JobRecord) -> bool:
    """Whether R runs it again: it ended badly, or an earlier session did its work."""
    return job.state in REVIVABLE or job.done_before


def is_going_along(job: JobRecord) -> bool:
    """Whether it comes back with what it depends on, on whose account it ended."""
    on_account = job.state in _ENDED_SO and job.cause in _BECAUSE_OF_OTHERS
    return on_account or job.done_before


def dependants(jobs: Iterable[JobRecord]) -> Mapping[str, Sequence[str]]:
    """Job -> the jobs that depend on it directly, in the order of `jobs`."""
    below: dict[str, list[str]] = {}
    for job in jobs:
        for upstream in job.spec.depends_on:
            below.setdefault(upstream, []).append(job.name)
    return below


def walk_links(
    names: Iterable[str],
    links: Mapping[str, Sequence[str]],
    goes_along: Callable[[str], bool],
) -> Iterator[str]:
    """Those behind `names`, however far, that go along with one before them."""
    queue = deque(names)
    found = set(queue)
    while queue:
        for other in links.get(queue.popleft(), ()):
            if other not in found and goes_along(other):
                found.add(other)
                queue.append(other)
                yield other


def list_ended_because_of(
    names: Iterable[str],
    jobs: Mapping[str, JobRecord],
    below: Mapping[str, Sequence[str]],
) -> Iterator[str]:
    """Jobs, however far downstream of `names`, that come back on their account."""
    return walk_links(names, below, lambda name: is_going_along(jobs[name]))


def is_open(
    jobs: Sequence[JobRecord],
    pending: Collection[PendingEffect],
    asks: Mapping[str, Ask] = MappingProxyType({}),
) -> bool:
    """Whether work is left: no jobs yet, one that has not ended, an action; or a
    question."""
    if not jobs or pending or list_open_asks(asks):
        return True
    # From the end: those that are left are among the last, mostly.
    return not all(job.ended for job in reversed(jobs)) or is_acting(jobs, pending)


def is_acting(jobs: Iterable[JobRecord], pending: Collection[PendingEffect]) -> bool:
    """Whether an effect is under way, or an action is put off to a known moment."""
    return bool(pending) or any(
        deferred.until_lived is not None
        for job in jobs
        for deferred in job.deferred.values()
    )


def all_unmet(record: JobRecord) -> Iterator[Unmet]:
    """The start conditions that hold the job back, by index, in their order."""
    pairs = zip(record.spec.start_conditions, record.start, strict=False)
    for index, (spec, status) in enumerate(pairs):
        passed = status and (status.waived or status.result is Result.PASS)
        if spec.blocking and not passed:
            yield index, spec, status


def unmet(record: JobRecord) -> Unmet | None:
    """The start condition that holds the job back: a failed one first."""
    standing = list(all_unmet(record))
    failed = [one for one in standing if one[2] and one[2].result is Result.FAIL]
    return next(iter(failed or standing), None)


def is_doomed(record: JobRecord) -> bool:
    """Whether a job that has not started can never start as things stand."""
    if record.state not in (JobState.WAITING, JobState.HELD):
        return False
    missing = unmet(record)
    return bool(missing and missing[2] and missing[2].result is Result.FAIL)


def asks(record: JobRecord) -> bool:
    ask = record.ask
    waiting = record.state is JobState.WAITING
    return waiting and ask is not None and ask.approved is None


def list_open_asks(asks: Mapping[str, Ask]) -> dict[str, Ask]:
    """The questions that are no job's and that nobody has answered."""
    return {name: ask for name, ask in asks.items() if ask.approved is None}


def find_approved(asks: Iterable[str], named: Set[str]) -> dict[str, str]:
    """Of these questions each that `--approve` names, by its name or what stands before
    a `/` there, and the word that names it."""
    found = {one: named & {"*", one, one.partition("/")[0]} for one in asks}
    return {
        one: "all" if "*" in words else min(words)
        for one, words in found.items()
        if words
    }


def stuck(jobs: Sequence[JobRecord], *, with_asks: bool) -> frozenset[str]:
    """Jobs that no engine starts (`with_asks`: or that ask) and what waits for them."""
    found = {
        job.name
        for job in jobs
        if job.state in (JobState.PLANNED, JobState.HELD)
        or is_doomed(job)
        or (with_asks and asks(job))
    }
    if not found:
        return frozenset()
    waiting = {job.name: job for job in jobs if job.state is JobState.WAITING}

    def waits(name: str) -> bool:
        return name in waiting and unmet(waiting[name]) is not None

    return frozenset((*found, *walk_links(found, dependants(jobs), waits)))


# Work that is done already: what a completed job leaves, and what it spares a plan.
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
    from autoexp_tui.model.outputs import DoneWork

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
        lows=noted.lows if noted else {},
        highs=noted.highs if noted else {},
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
