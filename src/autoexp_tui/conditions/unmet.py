"""What a job that has not started waits for: a condition, a person, or nothing that can
still happen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from autoexp_tui.model.resubmission import dependants
from autoexp_tui.model.states import JobState, Result

if TYPE_CHECKING:
    from autoexp_tui.model.condition import Condition
    from autoexp_tui.model.state import ConditionStatus, JobRecord

    Unmet = tuple[int, Condition, ConditionStatus | None]


def all_unmet(record: JobRecord) -> Iterator[Unmet]:
    """The start conditions that hold the job back, by index, in their order."""
    pairs = zip(record.spec.start_conditions, record.start, strict=False)
    for index, (spec, status) in enumerate(pairs):
        if spec.blocking and not _is_passed(status):
            yield index, spec, status


def unmet(record: JobRecord) -> Unmet | None:
    """The start condition that holds the job back: a failed one first."""
    standing = list(all_unmet(record))
    failed = [one for one in standing if one[2] and one[2].result is Result.FAIL]
    return next(iter(failed or standing), None)


def _is_passed(status: ConditionStatus | None) -> bool:
    return status is not None and (bool(status.waived) or status.result is Result.PASS)


def is_doomed(record: JobRecord) -> bool:
    """Whether a job that has not started can never start as things stand."""
    if record.state not in (JobState.WAITING, JobState.HELD):
        return False
    missing = unmet(record)
    return bool(missing and missing[2] and missing[2].result is Result.FAIL)


def asks(record: JobRecord) -> bool:
    """Whether the job waits for a person's answer."""
    ask = record.ask
    waiting = record.state is JobState.WAITING
    return waiting and ask is not None and ask.approved is None


def stuck(jobs: Sequence[JobRecord], *, with_asks: bool) -> frozenset[str]:
    """Jobs that no engine will start, and all that wait for them.

    Those that are planned or held, or cannot start; `with_asks`: and those that ask.
    """
    found = {job.name for job in jobs if _is_for_person(job, with_asks=with_asks)}
    if not found:
        return frozenset()
    records = {job.name: job for job in jobs}
    below = dependants(jobs)
    queue = deque(found)
    while queue:
        for name in below.get(queue.popleft(), ()):
            if name not in found and _waits(records[name]):
                found.add(name)
                queue.append(name)
    return frozenset(found)


def _is_for_person(job: JobRecord, *, with_asks: bool) -> bool:
    if job.state in (JobState.PLANNED, JobState.HELD):
        return True
    return is_doomed(job) or (with_asks and asks(job))


def _waits(job: JobRecord) -> bool:
    return job.state is JobState.WAITING and unmet(job) is not None
