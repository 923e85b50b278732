"""Everything that waits, grouped by what it waits for, the longest wait first.

Ten thousand jobs may wait: what groups them is cheap and remembered as long as a job
does not change; sentences are made for what is seen.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.conditions.unmet import unmet

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView


WAITING: Final = (Look.DOOMED, Look.ASKS, Look.WAITING, Look.RETRYING, Look.HELD)
"""Looks that wait, in the order in which they are told."""


@dataclass(frozen=True, slots=True)
class WaitGroup:
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
    it."""
    if job.look is Look.ASKS and job.record.ask is not None:
        return job.record.ask.asked_at
    if (began := _pause_began(job)) is not None:
        return began
    return job.record.since


def _pause_began(job: JobView) -> float | None:
    """When the pause began that a ready job waits for; older journals do not say."""
    why = job.record.why
    if job.look is not Look.WAITING or why is None or why.code not in _PAUSES:
        return None
    began = why.arg("at")
    return None if isinstance(began, str) else began


_PAUSES: Final = frozenset({"paused", "held_by_storm"})


def _group_key(job: JobView) -> str:
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
        keys: dict[str, tuple[JobView, str]] = {}
        for job in self._jobs:
            if job.look in _WAITING:
                known = self._keys.get(job.name)
                if known is None or known[0] is not job:
                    known = (job, _group_key(job))
                keys[job.name] = known
                grouped.setdefault(known[1], []).append(job)
        self._keys = keys
        made = [_group(key, jobs) for key, jobs in grouped.items()]
        self.groups = tuple(sorted(made, key=_order))
        return True

    @property
    def total(self) -> int:
        """How many jobs wait."""
        return len(self._keys)

    @property
    def doomed(self) -> int:
        """How many of them can never start."""
        return sum(len(one.jobs) for one in self.groups if one.look is Look.DOOMED)


_WAITING = frozenset(WAITING)


def _group(key: str, jobs: list[JobView]) -> WaitGroup:
    return WaitGroup(key, tuple(sorted(jobs, key=find_wait_begin)))


def _order(group: WaitGroup) -> float:
    return group.oldest
