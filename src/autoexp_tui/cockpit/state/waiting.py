"""Everything that waits, grouped by what it waits for, the longest wait first.

Ten thousand jobs may wait: what groups one is remembered as long as it does not change.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Final, NamedTuple

from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.model.resubmission import unmet
from autoexp_tui.text.spelling import plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView

WAITING: Final = (Look.DOOMED, Look.ASKS, Look.WAITING, Look.RETRYING, Look.HELD)
"""Looks that wait, in the order in which they are told."""
_PAUSES: Final = frozenset({"paused", "held_by_storm"})


class WaitGroup(NamedTuple):
    """Jobs that wait for the same kind of thing."""

    key: str
    jobs: tuple[JobView, ...]
    """The one that waits longest first."""

    @property
    def look(self) -> Look:
        """How all of them look."""
        return self.jobs[0].look

    @property
    def oldest(self) -> float:
        """Since when the first of them waits, UTC."""
        return find_wait_begin(self.jobs[0])


def find_wait_begin(job: JobView) -> float:
    """Since when a job waits, or asks, or submission is paused where that alone keeps
    it; older journals do not say when a pause began."""
    why = job.record.why
    if job.look is Look.ASKS and job.record.ask is not None:
        return job.record.ask.asked_at
    if job.look is Look.WAITING and why is not None and why.code in _PAUSES:
        began = why.arg("at")
        return began if isinstance(began, int | float) else job.record.since
    return job.record.since


def _build_key(job: JobView) -> str:
    missing = unmet(job.record) if job.look is not Look.RETRYING else None
    if missing is None:
        why = job.record.why
        return f"{job.look}|{job.stage}|{why.code if why else ''}"
    index, spec, status = missing
    code = status.why.code if status is not None else ""
    return f"{job.look}|{job.stage}|{code}|{spec.kind}|{index}"


class Waits:
    """The groups of the newest session, made anew from what changed."""

    def __init__(self) -> None:
        self.groups: tuple[WaitGroup, ...] = ()
        self._jobs: tuple[JobView, ...] = ()
        self._keys: dict[str, tuple[JobView, str]] = {}

    def take(self, session: SessionView) -> bool:
        """Group a newer session's jobs; whether anything changed."""
        old, self._jobs = self._jobs, session.jobs
        if len(old) == len(self._jobs) and all(map(operator.is_, old, self._jobs)):
            return False
        grouped: dict[str, list[JobView]] = {}
        before, self._keys = self._keys, {}
        for job in self._jobs:
            if job.look in WAITING:
                known = before.get(job.name)
                if known is None or known[0] is not job:
                    known = (job, _build_key(job))
                self._keys[job.name] = known
                grouped.setdefault(known[1], []).append(job)
        made = (
            WaitGroup(key, tuple(sorted(jobs, key=find_wait_begin)))
            for key, jobs in grouped.items()
        )
        self.groups = tuple(sorted(made, key=lambda group: group.oldest))
        return True

    def describe(self) -> str:
        """`697 jobs, 4 reasons, 26 can never start`."""
        if not self._keys:
            return "nothing waits"
        never = [len(one.jobs) for one in self.groups if one.look is Look.DOOMED]
        reasons = plural(len(self.groups), "reason")
        number = f"{plural(len(self._keys), 'job')}, {reasons}"
        return f"{number}, {sum(never)} can never start" if never else number
