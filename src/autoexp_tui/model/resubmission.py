"""What jobs wait for that have not started, and whether and how they come back.

An attempt continues the one before it when it does the same work and was not told to
begin anew; else what lies there is looked at and set aside before it is submitted, and
counts again once it is another file. Identities are compared, never clocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from autoexp_tui.model.states import REVIVABLE, Cause, JobState, Outcome, Result

if TYPE_CHECKING:
    from autoexp_tui.model.condition import Condition
    from autoexp_tui.model.outputs import SetAside
    from autoexp_tui.model.state import (
        ConditionStatus,
        JobRecord,
        PendingEffect,
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


def list_ended_because_of(
    names: Iterable[str],
    jobs: Mapping[str, JobRecord],
    below: Mapping[str, Sequence[str]],
) -> Iterator[str]:
    """Jobs, however far downstream of `names`, that come back on their account."""
    queue = deque(names)
    found = set(queue)
    while queue:
        for other in below.get(queue.popleft(), ()):
            if other not in found and is_going_along(jobs[other]):
                found.add(other)
                queue.append(other)
                yield other


def is_open(jobs: Collection[JobRecord], pending: Collection[PendingEffect]) -> bool:
    """Whether work is left: no jobs yet, one that has not ended, an action."""
    return not jobs or not all(job.ended for job in jobs) or is_acting(jobs, pending)


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


def stuck(jobs: Sequence[JobRecord], *, with_asks: bool) -> frozenset[str]:
    """Jobs that no engine starts (`with_asks`: or that ask) and what waits for them."""
    found = {
        job.name
        for job in jobs
        if job.state in (JobState.PLANNED, JobState.HELD)
        or is_doomed(job)
        or (with_asks and asks(job))
    }
    records = {job.name: job for job in jobs}
    below = dependants(jobs) if found else {}
    queue = deque(found)
    while queue:
        for name in below.get(queue.popleft(), ()):
            waits = records[name].state is JobState.WAITING
            if name not in found and waits and unmet(records[name]) is not None:
                found.add(name)
                queue.append(name)
    return frozenset(found)
