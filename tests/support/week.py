"""A week of a large campaign as a journal would tell it, faults and all, from one seed.

A thousand jobs in three stages on a few slots: crashes and restarts, lost nodes, runs
out of memory, stalls, answers in doubt, engines that die, a person who pauses and
approves. Every record follows legally from those before it (it is applied), so whatever
folds journals can be tried on it. No engine decided any of this: it proves nothing
about deciding.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Final

from autoexp_tui.conditions.files import FileExists
from autoexp_tui.effects import effects
from autoexp_tui.events import events
from autoexp_tui.model.event import Event, Recorded, apply
from autoexp_tui.model.ids import event_id
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import Cause, JobState, Outcome, Result, Why, why
from tests.support.campaigns import HOUR, STEPS, T0, plan_of, planned

SESSION: Final = "w7k2"
BEGIN: Final = T0 - 7 * 24 * HOUR
SHA: Final = "0123456789abcdef"
"""Under which the records name the plan; who stores it elsewhere says so in `week`."""
ENGINES_DIE: Final = (0.21, 0.5, 0.79)
"""Shares of the whole after which an engine dies; the next one comes much later."""
_HOURS: Final = {"stable": (3.0, 6.0), "cooldown": (1.0, 3.0), "evaluate": (0.4, 1.0)}
_FAULTS: Final = (
    (0.03, Cause.EXIT_CODE, 1, 'KeyError: "rope"'),
    (0.03, Cause.OUT_OF_MEMORY, 137, "slurmstepd: error: Detected 1 oom_kill event"),
    (0.03, Cause.NODE_FAIL, None, ""),
    (0.02, Cause.STALL, None, ""),
    (0.01, Cause.NAN, None, "lm loss: nan"),
)
"""(share of the runs, cause, exit code, last words)."""
_MOST_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class Week:
    """What came of it."""

    plan: Plan
    records: tuple[Recorded, ...]


def week(
    jobs: int = 1000,
    *,
    slots: int = 16,
    note_seconds: float = 90.0,
    sha: str = SHA,
    plan: Plan | None = None,
) -> Week:
    """The journal of about `jobs` jobs, three a family and one report, `slots` of which
    run at a time; `note_seconds` lie between two records of metrics, and a plan is made
    up when none is given."""
    wanted = plan or plan_of(planned(jobs))
    return Week(wanted, tuple(_Story(wanted, slots, note_seconds).told(sha)))


@dataclass(slots=True)
class _Run:
    """A run under way."""

    spec: JobSpec
    number: int
    began: float
    ends: float
    fault: tuple[float, Cause, int | None, str] | None
    first_step: int
    saved: int = 0

    def step(self, t: float) -> int:
        part = min(1.0, (t - self.began) / (self.ends - self.began))
        last = STEPS if self.fault is None else int(STEPS * 0.7)
        return self.first_step + int((last - self.first_step) * part)


@dataclass(slots=True)
class _Story:
    """Tells the week: a heap of what comes next, over the state as it becomes."""

    plan: Plan
    slots: int
    note_seconds: float
    rng: random.Random = field(default_factory=lambda: random.Random(7))
    epoch: int = 1
    records: list[Recorded] = field(default_factory=list)
    state: SessionState = field(default_factory=SessionState)
    used: int = 0
    ready: list[str] = field(default_factory=list)
    _next: list[tuple[float, int, Callable[[float], None]]] = field(
        default_factory=list
    )
    _numbers: Iterator[int] = field(default_factory=count)
    _tokens: Iterator[int] = field(default_factory=lambda: count(1))
    _away: float = 0.0
    """Until when no engine lives."""

    def told(self, sha: str) -> list[Recorded]:
        self.state.plans = {sha: self.plan}
        start = events.SessionStarted(
            session=SESSION,
            name=self.plan.name,
            engine_version="0.1.0",
            wrapper_version="1",
            plan_sha=sha,
        )
        self.state.session = SESSION
        names = tuple(spec.name for spec in self.plan.jobs)
        self.emit(BEGIN, start, events.EngineStarted(host="login1", pid=4242))
        self.emit(BEGIN, events.PlanAdded(sha=sha))
        self.emit(BEGIN + 5, events.JobsReleased(jobs=names), by="c-submit")
        for share in ENGINES_DIE:
            self.at(BEGIN + share * self.length, self.engine_dies)
        self.at(BEGIN + 0.35 * self.length, self.pause)
        self.at(BEGIN + 6, self.first_look)
        while self._next:
            t, _, call = heapq.heappop(self._next)
            if t < self._away:  # nobody is there to see it: the next engine does
                self.at(self._away, call)
            else:
                call(t)
        return self.records

    @property
    def length(self) -> float:
        """About how long it all takes: the usual hours of every job, slot by slot."""
        hours = (sum(_HOURS.get(spec.stage, (0.2, 0.4))) / 2 for spec in self.plan.jobs)
        return sum(hours) / self.slots * HOUR

    def at(self, t: float, call: Callable[[float], None]) -> None:
        heapq.heappush(self._next, (t, next(self._numbers), call))

    def emit(self, t: float, *told: Event, by: str = "") -> None:
        for place, event in enumerate(told, 1):
            seq = self.state.seq + 1
            record = Recorded(
                seq=seq,
                epoch=self.epoch,
                t=round(max(t, self.state.t), 3),
                event_id=event_id(self.state.session, self.epoch, seq),
                command_id=by,
                event=event,
                more=place < len(told),
            )
            apply(self.state, record)
            self.records.append(record)

    def first_look(self, t: float) -> None:
        """Every condition is looked at; what has none is ready."""
        for spec in self.plan.jobs:
            if not spec.start_conditions:
                self.ready.append(spec.name)
                continue
            condition, told = spec.start_conditions[0], why("asks_later")
            if isinstance(condition, FileExists):
                writer = spec.depends_on[0]
                told = why("file_missing", path=condition.path, writer=writer)
            elif condition.kind != "approval":
                told = why("job_waits", job=spec.depends_on[0], wanted="COMPLETED")
            self.emit(t, _judged(spec.name, Result.WAIT, told))
        self.send_ready(t)

    def send_ready(self, t: float) -> None:
        while self.ready and self.used < self.slots and self.state.paused is None:
            self.send(t, self.ready.pop(0))
        for place, name in enumerate(self.ready[:5], 1):
            if self.state.jobs[name].why is None:
                told = why("held_by_slots", slots=self.slots, place=place)
                self.emit(t, events.WaitExplained(job=name, why=told))

    def passed(self, t: float, name: str) -> None:
        job = self.state.jobs[name]
        if job.state is JobState.WAITING and name not in self.ready:
            self.emit(t, _judged(name, Result.PASS, why("ok")))
            self.ready.append(name)
            self.send_ready(t)

    def send(self, t: float, name: str) -> None:
        """Order, and have it taken; now and then the answer is lost for a while."""
        number = len(self.state.jobs[name].attempts) + 1
        serial = next(self._tokens)
        token, effect = f"t{serial:05}", f"e{serial:05}"
        self.used += 1
        submit = effects.SubmitTasks(token=token, tasks=((name, number),))
        self.emit(t, events.EffectOrdered(effect_id=effect, effect=submit))
        if self.rng.random() < 0.02:
            lost = why("in_doubt", place="slurm", message="sbatch timed out", at=t)
            self.emit(t + 30, events.SubmissionUncertain(token=token, why=lost))
            t += 200
        executor_id = str(48_000 + serial)
        said = f"$ sbatch --parsable --job-name={token} job.sh\n{executor_id}"
        taken = events.SubmissionAccepted(
            token=token, executor_ids=(executor_id,), submitted_at=t + 1
        )
        settled = events.EffectSettled(effect_id=effect, outcome="ok", detail=said)
        self.emit(t + 1, taken, settled)
        queued = self.rng.uniform(10, 900)
        self.at(t + queued, lambda now: self.begins(now, name, number, executor_id))

    def begins(self, t: float, name: str, number: int, executor_id: str) -> None:
        job = self.state.jobs[name]
        low, high = _HOURS.get(job.spec.stage, (0.2, 0.4))
        length = self.rng.uniform(low, high) * HOUR
        draw, fault = self.rng.random(), None
        for one in _FAULTS:
            draw -= one[0]
            if draw < 0:
                fault, length = one, length * self.rng.uniform(0.1, 0.9)
                break
        saved = int(job.metadata.get("checkpoint_step", "0")) if number > 1 else 0
        run = _Run(job.spec, number, t, t + length, fault, saved)
        node = f"nid{self.rng.randint(1000, 2400):06}"
        self.emit(
            t,
            events.RunBegan(
                job=name,
                attempt=number,
                run=0,
                began_at=t,
                executor_id=executor_id,
                node=node,
                partition="gpu",
                log_path=f"{job.spec.log_dir}/slurm-{executor_id}.out",
            ),
        )
        self.at(t + self.note_seconds, lambda now: self.note(now, run))
        self.at(run.ends, lambda now: self.ends(now, run))

    def note(self, t: float, run: _Run) -> None:
        """The newest metrics; every tenth of the way a checkpoint."""
        if t >= run.ends:
            return
        step = run.step(t)
        total = run.spec.progress_total
        loss = 2.4 + 6.0 / math.sqrt(1 + step / 60) + self.rng.gauss(0, 0.015)
        noted = events.MetricsNoted(
            job=run.spec.name,
            attempt=run.number,
            run=0,
            step=step,
            total=total,
            values={"loss": round(loss, 4), "lr": 1e-3},
        )
        self.emit(t, noted)
        saved = step // (STEPS // 10) * (STEPS // 10)
        if saved > max(run.saved, run.first_step):
            run.saved = saved
            self.saves(t, run, saved)
        self.at(t + self.note_seconds, lambda now: self.note(now, run))

    def saves(self, t: float, run: _Run, step: int) -> None:
        name = run.spec.name
        path = f"{run.spec.output_dir}/iter_{step}"
        matched = events.LogMatched(
            match_id=f"{name}|{run.number}|{step}",
            job=name,
            attempt=run.number,
            run=0,
            rule="checkpoint",
            offset=step * 110,
            line=f"saved checkpoint {step}",
            metadata={"checkpoint_step": str(step), "checkpoint_path": path},
        )
        self.emit(t, matched)
        if run.spec.stage == "stable" and step >= 48_000:
            for after in self.behind(name):
                self.passed(t, after)

    def behind(self, name: str) -> list[str]:
        return [edge.after for edge in self.plan.edges if edge.before == name]

    def ends(self, t: float, run: _Run) -> None:
        """An attempt is over: done, to be run again, or failed for good."""
        self.used -= 1
        if run.fault is None:
            self.completes(t, run)
        else:
            self.fails(t, run, run.fault)
        self.send_ready(t)

    def completes(self, t: float, run: _Run) -> None:
        name = run.spec.name
        ended = events.AttemptEnded(
            job=name,
            attempt=run.number,
            outcome=Outcome.COMPLETED,
            exit_code=0,
            ended_at=min(t, run.ends),
        )
        self.emit(t, ended, events.JobEnded(job=name, state=JobState.COMPLETED))
        for after in self.behind(name):
            if self.all_done(after):
                self.comes_next(t, after)

    def all_done(self, name: str) -> bool:
        before = self.state.jobs[name].spec.depends_on
        states = {self.state.jobs[one].state for one in before}
        if self.state.jobs[name].spec.stage == "report":
            return all(self.state.jobs[one].ended for one in before)
        return states == {JobState.COMPLETED}

    def comes_next(self, t: float, name: str) -> None:
        spec = self.state.jobs[name].spec
        if spec.stage != "report":
            self.passed(t, name)
        elif self.state.jobs[name].ask is None:
            prompt, told = "Publish the comparison?", why("asks_you", prompt="Publish?")
            asked = events.ApprovalAsked(
                job=name, attempt=1, digest="d1", prompt=prompt
            )
            self.emit(t, asked, _judged(name, Result.WAIT, told))
            self.at(t + 2 * HOUR, partial(self.approves, name=name))

    def approves(self, t: float, name: str) -> None:
        answer = events.ApprovalAnswered(
            job=name, digest="d1", approved=True, by="cockpit"
        )
        self.emit(t, answer, by="c-approve")
        self.passed(t, name)

    def fails(
        self, t: float, run: _Run, fault: tuple[float, Cause, int | None, str]
    ) -> None:
        _, cause, code, words = fault
        name, number = run.spec.name, run.number
        reason = why(cause.value, seconds=1800, step=run.step(t), node="nid002117")
        ended = events.AttemptEnded(
            job=name,
            attempt=number,
            outcome=Outcome.FAILED,
            cause=cause,
            exit_code=code,
            ended_at=min(t, run.ends),
            why=reason,
            evidence=words,
        )
        again = cause not in (Cause.OUT_OF_MEMORY, Cause.NAN)
        if again and number < _MOST_ATTEMPTS:
            told = why("retry", attempt=number + 1, reason=cause.value)
            retry = events.RetryOrdered(
                job=name, wait_seconds=60.0, from_checkpoint=True, why=told
            )
            trigger = f"{name}|{number}"
            fired = events.ActionFired(job=name, action="crash/0", trigger=trigger)
            self.emit(t, ended, fired, retry)
            self.at(t + 60, partial(self.send, name=name))
            return
        over = events.JobEnded(job=name, state=JobState.FAILED, cause=cause, why=reason)
        self.emit(t, ended, over)
        self.dooms(t, name)

    def dooms(self, t: float, name: str) -> None:
        """What waits for a job that failed for good can never start."""
        for after in self.behind(name):
            job = self.state.jobs[after]
            if job.spec.stage == "report":
                if self.all_done(after):
                    self.comes_next(t, after)
            elif job.state is JobState.WAITING and after not in self.ready:
                told = why("upstream", job=name, state="FAILED")
                over, cause = JobState.SKIPPED, Cause.UPSTREAM
                end = events.JobEnded(job=after, state=over, cause=cause, why=told)
                self.emit(t, _judged(after, Result.FAIL, told), end)
                self.dooms(t, after)

    def engine_dies(self, t: float) -> None:
        gap = self.rng.uniform(0.003, 0.03) * self.length
        self._away = t + gap
        self.at(t + gap, self.engine_returns)

    def engine_returns(self, t: float) -> None:
        self.epoch += 1
        gap = t - self.records[-1].t
        started = events.EngineStarted(
            host="login1",
            pid=4242 + self.epoch,
            sealed_part=f"journal.{self.epoch - 1}.jsonl",
            gap_seconds=round(gap, 3),
        )
        self.emit(t, started)

    def pause(self, t: float) -> None:
        told = why("paused_by", by="cockpit")
        self.emit(t, events.SubmissionPaused(why=told), by="c-pause")
        self.at(t + 0.007 * self.length, self.resume)

    def resume(self, t: float) -> None:
        self.emit(t, events.SubmissionResumed(), by="c-resume")
        self.send_ready(t)


def _judged(name: str, result: Result, reason: Why) -> events.ConditionJudged:
    return events.ConditionJudged(
        job=name, role="start", index=0, result=result, why=reason
    )
