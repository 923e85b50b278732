"""Jobs that rules made, and the jobs that they were made for.

A recovery that fails may call for the same recovery: what an action makes is under the
rules too. So an action counts over the whole line of jobs, and without a limit of its
own it does not fire for what it has made.
"""

from __future__ import annotations

from collections.abc import Iterator

from autoexp_tui.model.state import JobRecord, SessionState


def line_of(state: SessionState, job: JobRecord) -> Iterator[JobRecord]:
    """A job, the one whose rule made it, and so on up to one that a person planned."""
    found: JobRecord | None = job
    while found is not None:
        yield found
        found = state.jobs.get(found.parent)


def firings(state: SessionState, job: JobRecord, action: str) -> int:
    """How often an action fired for a job or for those that it goes back to."""
    return sum(one.firings.get(action, 0) for one in line_of(state, job))


def goes_back_to(state: SessionState, job: JobRecord, action: str) -> bool:
    """Whether an action made the job, or one that it goes back to."""
    return any(one.parent_action == action for one in line_of(state, job))
