"""Who comes back with a job: those that ended only because it did, and those whose
work was done on its earlier results.

The engine revives by this, and a front end counts and names by it before it asks, so
that what was shown is what is done. Pure; jobs are handed in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from autoexp_tui.model.states import REVIVABLE, Cause, JobState

if TYPE_CHECKING:
    from autoexp_tui.model.state import JobRecord

_BECAUSE_OF_OTHERS: Final = frozenset({Cause.UPSTREAM, Cause.CANCEL_CONDITION})
_ENDED_SO: Final = frozenset({JobState.SKIPPED, JobState.CANCELLED})


def ended_by_others(job: JobRecord) -> bool:
    """Whether the job was skipped or cancelled on another one's account."""
    return job.state in _ENDED_SO and job.cause in _BECAUSE_OF_OTHERS


def may_come_back(job: JobRecord) -> bool:
    """Whether R runs it again: it ended badly, or an earlier session did its work."""
    return job.state in REVIVABLE or job.done_before


def goes_along(job: JobRecord) -> bool:
    """Whether it comes back with what it depends on."""
    return ended_by_others(job) or job.done_before


def dependants(jobs: Iterable[JobRecord]) -> Mapping[str, Sequence[str]]:
    """Job -> the jobs that depend on it directly, in the order of `jobs`."""
    below: dict[str, list[str]] = {}
    for job in jobs:
        for upstream in job.spec.depends_on:
            below.setdefault(upstream, []).append(job.name)
    return below


def ended_because_of(
    names: Iterable[str],
    jobs: Mapping[str, JobRecord],
    below: Mapping[str, Sequence[str]],
) -> Iterator[str]:
    """Jobs, however far downstream of `names`, that come back on their account.

    Args:
        names: the jobs that come back; they are not told again.
        jobs: every job by its name.
        below: what `dependants` found.
    """
    queue = deque(names)
    found = set(queue)
    while queue:
        for other in below.get(queue.popleft(), ()):
            if other not in found and goes_along(jobs[other]):
                found.add(other)
                queue.append(other)
                yield other
