"""A person at a simulated campaign: kills, brings back, waives, answers, pauses.

What they order goes through the session's inbox, as a cockpit's commands do; some of it
is stale, or given twice. In the end they bring the campaign home: they answer what is
asked, release what is held, and skip what will never start.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from autoexp_tui.model.commands import (
    Acknowledge,
    Answer,
    Command,
    Grow,
    Kill,
    Order,
    Pause,
    Resubmit,
    Resume,
    Skip,
    Submit,
    Waive,
)
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.state import JobRecord, SessionState
from autoexp_tui.model.states import NOT_STARTED, REVIVABLE, JobState, Result
from tests.support.sim_world import Mailbox


class Person:
    """Gives orders, as a seed says."""

    def __init__(
        self, rng: random.Random, inbox: Mailbox, counts: Counter[str]
    ) -> None:
        self._rng = rng
        self._inbox = inbox
        self._counts = counts
        self._given = 0
        self._last: Order | None = None
        self.grown: dict[str, str] = {}
        """Command -> the sha of the plan that it asked for."""

    def order(self, command: Command, expected: Mapping[str, int] | None = None) -> str:
        self._given += 1
        order = Order(
            command_id=f"cmd{self._given}", command=command, expected=expected or {}
        )
        self._inbox.orders[order.command_id] = self._last = order
        return order.command_id

    def meddle(self, state: SessionState) -> str:
        """Do something to a job, or to the session; what it was."""
        said = self._rng.choice(_ACTS)(self, state)
        if said:
            self._counts[f"person {said}"] += 1
        return said

    def grow(self, state: SessionState, sha: str, plan: Plan) -> None:
        """Ask for a plan, and leave out a job of the session or two."""
        self._counts["person grows the plan"] += 1
        left = {self._job(state).name: "hold", self._job(state).name: "end"}
        hold = tuple(
            name
            for name, how in left.items()
            if how == "hold" and state.jobs[name].state in NOT_STARTED
        )
        end = tuple(name for name, how in left.items() if how == "end")
        names = [job.name for job in plan.jobs]
        command = Grow(
            sha=sha,
            run=tuple(name for name in names if self._rng.random() < 0.9),
            hold=hold,
            end=end if self._rng.random() < 0.3 else (),
        )
        seen = {name: len(state.jobs[name].attempts) for name in (*hold, *end)}
        self.grown[self.order(command, seen)] = sha

    def _job(self, state: SessionState) -> JobRecord:
        return self._rng.choice(list(state.jobs.values()))

    def _kill(self, state: SessionState) -> str:
        job = self._job(state)
        if job.ended:
            return ""
        self.order(Kill(jobs=(job.name,)), {job.name: len(job.attempts)})
        return "kills"

    def _resubmit(self, state: SessionState) -> str:
        ended = [job for job in state.jobs.values() if job.state in REVIVABLE]
        if not ended:
            return ""
        command = Resubmit(jobs=(self._rng.choice(ended).name,))
        draw = self._rng.random()
        if draw < 0.2:
            command = replace(command, overrides=("train.lr=0.1",))
        elif draw < 0.4:
            command = replace(command, exclude_nodes=("n1",), from_checkpoint=False)
        elif draw < 0.5:
            command = replace(command, time_limit_seconds=7200.0)
        self.order(command)
        return "resubmits"

    def _skip(self, state: SessionState) -> str:
        job = self._job(state)
        if job.state is not JobState.WAITING:
            return ""
        self.order(Skip(jobs=(job.name,), reason="not needed"))
        return "skips"

    def _waive(self, state: SessionState) -> str:
        job = self._job(state)
        if job.state is not JobState.WAITING or not job.start:
            return ""
        self.order(Waive(job=job.name, condition=self._rng.randrange(len(job.start))))
        return "waives"

    def _pause(self, state: SessionState) -> str:
        self.order(Resume() if state.paused else Pause())
        return "resumes" if state.paused else "pauses"

    def _acknowledge(self, state: SessionState) -> str:
        warnings = tuple(state.warnings)[:3]
        if not warnings:
            return ""
        self.order(Acknowledge(warnings=warnings))
        return "acknowledges"

    def _stale(self, state: SessionState) -> str:
        job = self._job(state)
        self.order(Kill(jobs=(job.name,)), {job.name: len(job.attempts) + 1})
        return "gives a stale order"

    def _again(self, _state: SessionState) -> str:
        if self._last is None:
            return ""
        self._inbox.orders[self._last.command_id] = self._last
        return "gives an order twice"

    def answer(self, state: SessionState, *, kindly: bool = False) -> str:
        waiting = [job for job in state.jobs.values() if job.state is JobState.WAITING]
        asked = [(job, job.ask) for job in waiting if job.ask]
        asked = [(job, ask) for job, ask in asked if ask.approved is None]
        if not asked:
            return ""
        job, ask = self._rng.choice(asked)
        yes = kindly or self._rng.random() < 0.8
        self.order(Answer(job=job.name, digest=ask.digest, approved=yes))
        return "answers"

    def bring_home(self, state: SessionState) -> None:
        """Order whatever keeps the campaign from its end, unless orders are waiting."""
        if self._inbox.orders:
            return
        if state.paused:
            self.order(Resume())
        elif self.answer(state, kindly=True):
            pass
        elif any(job.state in _CHOOSABLE for job in state.jobs.values()):
            self.order(Submit())
        elif doomed := tuple(
            job.name for job in state.jobs.values() if _is_doomed(job)
        ):
            self.order(Skip(jobs=doomed))  # what they wait for will never come


_CHOOSABLE: Final = frozenset({JobState.PLANNED, JobState.HELD})


def _is_doomed(job: JobRecord) -> bool:
    unmet = (s and s.result is Result.FAIL and not s.waived for s in job.start)
    return job.state is JobState.WAITING and any(unmet)


_ACTS: Final[tuple[Callable[[Person, SessionState], str], ...]] = (
    Person._kill,
    *[Person._resubmit] * 2,
    Person._skip,
    Person._waive,
    Person._pause,
    Person._acknowledge,
    Person._stale,
    Person._again,
    *[Person.answer] * 2,
)
