"""The invariants of a simulated campaign, looked at after every step.

A state of its own is fed with every record that is synced, so that *replay == live*
costs what changed and not the whole history. What the executor is asked to do is held
against the same state: an order that is not on the disk must not reach the outside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Final

from autoexp_tui.actions.action_runner import MOST_RERUNS
from autoexp_tui.actions.kinds import Restart
from autoexp_tui.conditions.files import FileContent, FileExists
from autoexp_tui.conditions.jobs import MaxAttempts
from autoexp_tui.effects.effects import ComposeJob, SubmitTasks
from autoexp_tui.events import events
from autoexp_tui.model.decision_context import rules_of
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.event import Recorded, apply, fold
from autoexp_tui.model.resubmission import is_awaiting_look, list_files_aside
from autoexp_tui.model.specs import JobSpec, Place
from autoexp_tui.model.state import ConditionStatus, JobRecord, SessionState
from autoexp_tui.model.states import ACTIVE, Cause, JobState, Result, Why
from autoexp_tui.model.wording import CODES, sentence, short
from tests.support.memory_journal import MemorySession
from tests.support.sim_causes import problem as cause_problem
from tests.support.sim_slurm import BESIDE, SlurmCluster

PARTS: Final = tuple(
    field.name
    for field in fields(SessionState)
    if field.compare and field.name not in ("plans", "plan", "jobs", "seq")
)
"""What of a state must be equal, beside its jobs."""
GROWS: Final = frozenset({"matches", "commands", "tokens", "joined"})
SMALL: Final = tuple(part for part in PARTS if part not in GROWS)
"""What of it is compared after every commit: it stays small."""


class Violation(Exception):
    """An invariant does not hold: the seed has found a bug."""


HANG_SECONDS: Final = 600.0
"""By which a timer may be off: engines hold, and commits and looks are seldom."""


class Timers:
    """Time passes for timers as it does in truth, and whose time has come goes on."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        """`elapsed`: seconds that passed in truth, whatever any clock shows."""
        self._elapsed = elapsed
        self._epoch = 0
        self._began = (0.0, 0.0)
        """`lived` and the true time of the epoch's first record."""
        self._due: dict[str, float] = {}
        """Job -> the `lived` since when only the engine keeps it from being tried anew:
        its wait is over, and whatever else held it back has gone."""

    def problems(self, record: Recorded, state: SessionState) -> Iterator[str]:
        if record.epoch != self._epoch:
            self._epoch, self._began = record.epoch, (state.lived, self._elapsed())
        lived, passed = state.lived - self._began[0], self._elapsed() - self._began[1]
        if abs(lived - passed) > HANG_SECONDS:
            yield f"timers went on by {lived:.0f} s in {passed:.0f} s"
        yield from self._late(record, state, lived)

    def _late(
        self, record: Recorded, state: SessionState, lived: float
    ) -> Iterator[str]:
        event = record.event
        if isinstance(event, events.RetryOrdered) and not event.held:
            self._due[event.job] = state.lived + (event.wait_seconds or 0.0)
        if isinstance(event, events.SubmissionResumed):  # paused until this record
            self._due = {name: max(at, state.lived) for name, at in self._due.items()}
        for name, due in list(self._due.items()):
            job = state.jobs[name]
            if job.state is not JobState.RETRYING:
                del self._due[name]
            elif not _is_free(job, state):
                self._due[name] = max(due, state.lived)
            elif state.lived - due > HANG_SECONDS < lived:
                yield f"{name} is {state.lived - due:.0f} s late to be tried again"


def _is_free(job: JobRecord, state: SessionState) -> bool:
    """Whether nothing but time keeps a job from being tried again."""
    composes = any(
        isinstance(one.effect, ComposeJob) and one.effect.job == job.name
        for one in state.pending.values()
    )
    told = job.why is not None and job.why.code.startswith("held_by")
    return not (composes or told or state.paused)


class Checks:
    """Holds a campaign to its invariants."""

    def __init__(
        self, session: MemorySession, truth: SlurmCluster, elapsed: Callable[[], float]
    ) -> None:
        """`elapsed`: seconds that passed in truth, whatever any clock shows."""
        self._timers = Timers(elapsed)
        self.shadow = SessionState(plans=session.plans)
        """The fold of what is synced."""
        self._session = session
        self._truth = truth
        self._fed = 0
        self._effects: set[str] = set()
        self._matches: set[str] = set()
        """Of all that rules ever found: a state keeps only what it needs."""
        self._credit: Counter[str] = Counter()
        """How often a submission may still be sent."""
        self._live: dict[str, JobRecord] = {}
        self._folded: dict[str, JobRecord] = {}
        self._begun = 0
        self._owners: dict[TaskId, str] = {}
        self._runs: set[tuple[TaskId, int]] = set()
        self._spelt: set[tuple[str, tuple[str, ...]]] = set()
        self._broken: list[str] = []
        self.slots: Mapping[Place, int] = {}
        """Of each place; 0, or none: no limit."""

    def look(self, live: SessionState) -> None:
        """After a step of the engine that owns the session; raises Violation."""
        self.look_outside()
        if self._feed() or live.seq != self.shadow.seq:
            self._compare(live)

    def look_outside(self) -> None:
        """After a step of anybody: what was sent, and what was begun; raises Violation
        where an invariant does not hold."""
        if self._broken:
            raise Violation(self._broken[0])
        for task, run, start in self._truth.begun(self._begun):
            self._begun += 1
            self._note_begun(task, run, start)

    def look_whole(self, live: SessionState) -> None:
        """Everything, compared in full; raises Violation."""
        self._feed()
        _equal(live, self.shadow, "the live state", "the journal")

    def look_by_parts(self, live: SessionState, cut: int) -> None:
        """A state of the first `cut` records and the rest of them make the whole;
        raises Violation where they do not."""
        self._feed()
        base = SessionState(plans=self._session.plans)
        records = self._session.records
        fold(base, records[:cut])
        draft = base.fork()
        for record in records[cut : self._fed]:
            apply(draft, record)
        _equal(live, draft, "the live state", "a snapshot and its tail")

    def _feed(self) -> bool:
        """Take in whole commits that are new; whether there were any."""
        records = self._session.records
        end = len(records)
        while end > self._fed and records[end - 1].more:
            end -= 1
        for record in records[self._fed : end]:
            self._take(record)
        fed, self._fed = self._fed, end
        return end > fed

    def _take(self, record: Recorded) -> None:
        for problem in self._problems(record):
            raise Violation(f"record {record.seq} ({record.event!r}): {problem}")
        apply(self.shadow, record)
        for problem in self._timers.problems(record, self.shadow):
            raise Violation(f"record {record.seq} ({record.event!r}): {problem}")
        if isinstance(record.event, events.JobEnded):
            self._check_end(self.shadow.jobs[record.event.job])

    def _problems(self, record: Recorded) -> Iterator[str]:
        shadow = self.shadow
        if record.seq != shadow.seq + 1:
            yield f"it does not follow {shadow.seq}"
        if record.epoch < shadow.epoch:
            yield f"epoch {record.epoch} was deposed by {shadow.epoch}"
        if record.t < shadow.t:
            yield "its time is before the last one's"
        reason = getattr(record.event, "why", None)
        if isinstance(reason, Why) and (problem := self._unspoken(reason)):
            yield problem
        match record.event:
            case events.WaitExplained(job=name, why=Why(code="held_by_slots")):
                place = shadow.jobs[name].spec.place
                if len(self._active(place)) < self.slots[place]:
                    yield f"{name} waits, and a slot {place} is free"
            case events.SubmissionPaused(why=Why(code="storm") as told):
                if shadow.jobs[str(told.arg("job"))].spec.trial:
                    yield "a trial pauses the session"
            case events.EffectOrdered() as event:
                yield from self._ordered(event)
            case events.PlanAdded() as event:
                yield from self._added(event)
            case events.JobsAdded() as event:
                yield from self._find_known(event.specs)
            case events.AttemptEnded() as event:
                yield from self._ended(event)
            case events.RetryOrdered() as event:
                yield from self._retried(event)
            case events.EffectSettled(effect_id=name) if name not in shadow.pending:
                yield "nothing of that id is pending"
            case events.SubmissionAbsent(token=token):
                self._credit[token] += 1
            case events.LogMatched(match_id=name):
                if name in self._matches:
                    yield "the line was matched before"
                self._matches.add(name)
            case events.WarningRaised(job=name) if name and name not in shadow.jobs:
                yield f"nobody knows {name}"
            case events.EngineFaulted():
                yield "a bug was met"

    def _ordered(self, event: events.EffectOrdered) -> Iterator[str]:
        if event.effect_id in self._effects:
            yield "an effect of that id was ordered before"
        self._effects.add(event.effect_id)
        if not isinstance(event.effect, SubmitTasks):
            return
        token = event.effect.token
        self._credit[token] += 1
        if self.shadow.tokens.get(token, event.effect.tasks) != event.effect.tasks:
            yield "its token stands for other tasks"
        places = {self.shadow.jobs[name].spec.place for name, _ in event.effect.tasks}
        for place in places:
            active = self._active(place) | {name for name, _ in event.effect.tasks}
            if len(places) > 1 or 0 < self.slots.get(place, 0) < len(active):
                yield f"{len(active)} go to {places}, of {self.slots}"
        for name, number in event.effect.tasks:
            job = self.shadow.jobs[name]
            if job.state is JobState.COMPLETED:
                yield f"{name} has succeeded"
            live = [a.number for a in job.attempts if a.outcome is None]
            if live not in ([], [number]):
                yield f"attempt {live} of {name} has not ended"
            yield from unsure_files(self.shadow, job)

    def _active(self, place: Place) -> set[str]:
        jobs = self.shadow.jobs.values()
        return {j.name for j in jobs if j.state in ACTIVE and j.spec.place == place}

    def _added(self, event: events.PlanAdded) -> Iterator[str]:
        if event.sha in self.shadow.joined:
            yield "it has joined before"
        yield from self._find_known(self._session.plans[event.sha].jobs)
        if not event.job:
            return
        line = self.shadow.list_origins(self.shadow.jobs[event.job])
        if sum(one.parent_action == event.action for one in line) > MOST_OFFSPRING:
            yield f"{event.action} feeds itself"

    def _find_known(self, specs: Iterable[JobSpec]) -> Iterator[str]:
        for spec in specs:
            if spec.name in self.shadow.jobs:
                yield f"{spec.name} is there already"

    def _ended(self, event: events.AttemptEnded) -> Iterator[str]:
        if event.streak and self.shadow.jobs[event.job].spec.trial:
            yield "a trial counts among quick failures"
        if (event.job, event.attempt) in self._truth.living():
            yield "its command runs on"
        attempt = self.shadow.jobs[event.job].attempts[event.attempt - 1]
        befallen = self._truth.befallen((event.job, event.attempt))
        if wrong := cause_problem(event, attempt, befallen, self._truth.memory):
            yield wrong

    def _retried(self, event: events.RetryOrdered) -> Iterator[str]:
        job = self.shadow.jobs[event.job]
        most = _most_attempts(self.shadow, job)
        if event.why.code == "rerun":  # in the place of a requeue, which has no limit
            forgotten = sum(one.cause is Cause.NODE_FAIL for one in job.attempts)
            most = len(job.attempts) + (forgotten <= MOST_RERUNS)
        if job.retry is not None and not job.retry.held:
            yield f"it was decided before that {event.job} runs again"
        if len(job.attempts) >= most:
            yield f"{len(job.attempts)} attempts were made, {most} are allowed"

    def _check_end(self, job: JobRecord) -> None:
        if job.ended and job.state is not JobState.COMPLETED and job.cause is None:
            raise Violation(f"{job.name} ended {job.state} without a cause")
        if job.state is JobState.COMPLETED and job.attempts:
            tasks = [(job.name, attempt.number) for attempt in job.attempts]
            done = any(attempt.finished for attempt in job.attempts)
            if not done and not any(map(self._truth.has_succeeded, tasks)):
                raise Violation(f"{job.name} is completed, but never succeeded")

    def _compare(self, live: SessionState) -> None:
        """What has changed of the live state against what the journal says."""
        if live.seq != self.shadow.seq:
            raise Violation(
                f"the live state is at {live.seq}, the journal at {self.shadow.seq}"
            )
        for part in SMALL:
            if getattr(live, part) != getattr(self.shadow, part):
                raise Violation(_differ(part, live, self.shadow))
        for name in self._moved(live):
            job, folded = live.jobs[name], self.shadow.jobs.get(name)
            if folded is None or job != folded:
                raise Violation(f"replay differs from the live state of {name}")
            self._check_job(job)
            self._live[name], self._folded[name] = job, folded

    def _moved(self, live: SessionState) -> list[str]:
        """Jobs that are not what they were at the last comparison, in one or in both:
        records are never changed where they are, so that the same ones are equal."""
        seen, folded, before = self._live, self.shadow.jobs, self._folded
        return [
            name
            for name, job in live.jobs.items()
            if job is not seen.get(name) or folded.get(name) is not before.get(name)
        ]

    def _check_job(self, job: JobRecord) -> None:
        live = [a.number for a in job.attempts if a.outcome is None]
        if len(live) > 1:
            raise Violation(f"{job.name} has {len(live)} living attempts")
        if job.state in ACTIVE and not live:
            raise Violation(f"{job.name} is {job.state} without a living attempt")
        if job.state in _WAITS and not self._is_told(job):
            raise Violation(f"nothing says why {job.name} is {job.state}")

    def _is_told(self, job: JobRecord) -> bool:
        """Whether a person can be told why a job stands still."""
        reasons: list[Why | None] = [job.why]
        if job.state is JobState.WAITING:
            unmet = [status for status in job.start if _holds_back(status)]
            reasons = [status.why for status in unmet if status] or reasons
        elif job.state is JobState.QUEUED:
            attempt = job.attempt
            return attempt is not None and attempt.submitted_at is not None
        return all(reason and not self._unspoken(reason) for reason in reasons)

    def _unspoken(self, reason: Why) -> str:
        """Why a reason says nothing to a person; empty when it does."""
        kind = (reason.code, tuple(name for name, _ in reason.args))
        if kind in self._spelt:
            return ""
        if reason.code not in CODES:
            return f"nobody has words for {reason.code!r}"
        if not sentence(reason, 0.0).strip() or not short(reason).strip():
            return f"{reason} says nothing"
        self._spelt.add(kind)
        return ""

    def _note_begun(self, task: TaskId, run: int, start: str) -> None:
        owner = self._owners.setdefault(task, start)
        if owner != start:
            raise Violation(f"{task} was begun by {owner} and by {start}")
        if (task, run) in self._runs:
            raise Violation(f"run {run} of {task} was begun twice")
        self._runs.add((task, run))
        job = self.shadow.jobs[task[0]]
        if start.startswith(BESIDE) != (job.spec.place == "beside"):
            raise Violation(f"{task} is to run {job.spec.place}, and began as {start}")
        if task[1] > len(job.attempts):
            raise Violation(f"{task} was begun and never ordered")
        if job.state is JobState.COMPLETED:
            raise Violation(f"{task} was begun after {task[0]} had succeeded")
        beside = [other for other in self._truth.living() if other[0] == task[0]]
        if len(beside) > 1:
            raise Violation(f"{task[0]} runs {len(beside)} times at a time: {beside}")

    def may_send(self, token: str, *, deposed: bool) -> None:
        """A submission is about to be sent: it was ordered, and is nowhere yet.

        What is wrong is told at the next look: here an engine would catch it.
        """
        self._feed()
        if token not in self.shadow.tokens:
            self._broken.append(f"{token} is sent and was never ordered")
        if deposed:
            return  # its order is older than its fall: the claim decides
        if self._credit[token] <= 0:
            self._broken.append(f"{token} is sent again and not known to be absent")
        self._credit[token] -= 1

    def was_not_taken(self, token: str) -> None:
        """It was sent, and refused for now: it may be sent again."""
        self._credit[token] += 1

    def may_cancel(self, tasks: Sequence[TaskId]) -> None:
        """Tasks are about to be cancelled: each was ordered to end."""
        self._feed()
        for name, number in tasks:
            job = self.shadow.jobs[name]
            ordered = [a for a in job.attempts if a.number == number]
            if not ordered or not ordered[0].is_told_to_end:
                text = f"{(name, number)} is cancelled without an order"
                self._broken.append(text)


_WAITS = frozenset(
    {JobState.WAITING, JobState.QUEUED, JobState.RETRYING, JobState.SUBMIT_UNKNOWN}
)
MOST_OFFSPRING: Final = 1
"""How often an action of these plans may stand in a line of jobs, before one more."""


def unsure_files(state: SessionState, job: JobRecord) -> Iterator[str]:
    """What is wrong with the files of a job that is submitted now: it writes them anew
    or begins from them, and nobody knows yet which of them are old."""
    if is_awaiting_look(job):
        yield f"{job.name} begins anew, and nobody has looked at what lies there"
    if job.state is not JobState.WAITING:
        return
    for spec, status in zip(job.spec.start_conditions, job.start, strict=True):
        if not isinstance(spec, FileExists | FileContent) or not spec.blocking:
            continue
        writer = state.jobs.get(spec.writer) if spec.fresh else None
        unsure = writer is not None and list_files_aside(writer) is None
        if unsure and not (status and status.waived):
            yield f"{job.name} begins from {spec.path}, and {spec.writer} begins anew"


def _holds_back(status: ConditionStatus | None) -> bool:
    return status is None or (status.result is not Result.PASS and not status.waived)


def _most_attempts(state: SessionState, job: JobRecord) -> int:
    """What the rules that may restart a job allow."""
    rules = rules_of(state, job.spec)
    actions = [action for rule in rules.log_events for action in rule.actions]
    actions += [action for rule in rules.state_events for action in rule.actions]
    restarts = (action for action in actions if isinstance(action, Restart))
    conditions = (one for action in restarts for one in action.conditions)
    limits = (one for one in conditions if isinstance(one, MaxAttempts))
    return max((one.max_attempts for one in limits), default=0)


def _equal(one: SessionState, other: SessionState, first: str, second: str) -> None:
    if one.seq != other.seq:
        raise Violation(f"{first} is at {one.seq}, {second} at {other.seq}")
    for part in PARTS:
        mine, theirs = getattr(one, part), getattr(other, part)
        if _plain(mine) != _plain(theirs):
            raise Violation(f"{first} and {second}: {_differ(part, one, other)}")
    if dict(one.jobs) != dict(other.jobs):
        names = [n for n in one.jobs if one.jobs[n] != other.jobs.get(n)]
        raise Violation(f"{first} and {second} differ about {names}")


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else value


def _differ(part: str, one: SessionState, other: SessionState) -> str:
    return f"{part} is {getattr(one, part)!r} and {getattr(other, part)!r}"
