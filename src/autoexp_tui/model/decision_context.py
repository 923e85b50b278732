"""A decision in the making: deciders emit and see at once what they emitted; the
session's own state moves only after the journal has the events. Who must be looked at
again: an index from facts to jobs, a timer heap."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol, TypeVar

from autoexp_tui.model.event import Event, Recorded, apply
from autoexp_tui.model.facts import (
    ApprovalFact,
    ApprovalKey,
    Fact,
    FactKey,
    FactValue,
    FiredKey,
    JobFact,
    JobKey,
    MetadataKey,
    MetricFact,
    MetricKey,
    Moment,
    OutsideKey,
)
from autoexp_tui.model.ids import event_id
from autoexp_tui.model.resubmission import (
    has_old_logs,
    is_beginning_anew,
    list_files_aside,
)
from autoexp_tui.model.rules import Armed, LogEvent, Monitoring, StateEvent, arm
from autoexp_tui.model.snapshot import LiveRun
from autoexp_tui.model.specs import JobSpec, Place
from autoexp_tui.model.state import Deferred, JobRecord, SessionState, changed
from autoexp_tui.model.states import ACTIVE, JobState, Verdict
from autoexp_tui.text.log_lines import find_canonical_name

K = TypeVar("K")


class Watch:
    """Which jobs' conditions read which facts."""

    def __init__(self) -> None:
        self._jobs: dict[FactKey, set[str]] = {}
        self._keys: dict[str, frozenset[FactKey]] = {}
        self.wanted: dict[OutsideKey, None] = {}
        self.dropped: dict[OutsideKey, None] = {}
        self.measured: Counter[str] = Counter()

    def set(self, job: str, keys: frozenset[FactKey]) -> None:
        """`job`, judged just now, reads exactly `keys`; those outside are wanted."""
        old = self._keys.get(job, frozenset())
        if keys != old:
            for key in _in_order(old - keys):
                self._drop(key, job)
            for key in keys - old:
                if isinstance(key, MetricKey) and key not in self._jobs:
                    self.measured[key.job] += 1
                self._jobs.setdefault(key, set()).add(job)
            self._keys[job] = keys
        outside = [key for key in keys if isinstance(key, OutsideKey)]
        self.wanted |= dict.fromkeys(_in_order(outside))

    def _drop(self, key: FactKey, job: str) -> None:
        readers = self._jobs[key]
        readers.discard(job)
        if not readers:
            del self._jobs[key]
            if isinstance(key, MetricKey):
                self.measured[key.job] -= 1
                if not self.measured[key.job]:
                    del self.measured[key.job]
            if isinstance(key, OutsideKey):
                self.dropped[key] = None

    def jobs(self, key: FactKey) -> Iterable[str]:
        return self._jobs.get(key, ())

    def is_read(self, key: FactKey) -> bool:
        return key in self._jobs

    def take_wanted(self) -> Iterable[OutsideKey]:
        wanted, self.wanted = self.wanted, {}
        return wanted

    def take_dropped(self) -> Iterable[OutsideKey]:
        """Outside keys that lost their last reader since the last call."""
        dropped, self.dropped = self.dropped, {}
        return [key for key in dropped if key not in self._jobs]


def _in_order(keys: Collection[K]) -> Collection[K]:
    """In one that every process has."""
    return sorted(keys, key=repr) if len(keys) > 1 else keys


class Timers:
    """When to look at a job again although nothing happened."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._due: dict[str, float] = {}

    def set(self, job: str, at: float | None) -> None:
        """Look at `job` at `at` (lived); None forgets it."""
        if at is None:
            self._due.pop(job, None)
        elif self._due.get(job) != at:
            self._due[job] = at
            heapq.heappush(self._heap, (at, job))

    def pop_due(self, lived: float) -> Iterator[str]:
        while self._heap and self._heap[0][0] <= lived:
            at, job = heapq.heappop(self._heap)
            if self._due.get(job) == at:
                del self._due[job]
                yield job

    def next_at(self) -> float | None:
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None


class Draft:
    """Events decided in one commit, over a fork of the session's state, which is made
    with the first of them: a commit that decides nothing copies nothing."""

    def __init__(self, state: SessionState, now: Moment, epoch: int) -> None:
        self.state = state
        self._is_forked = False
        self.now = Moment(
            t=max(now.t, state.t), utc=now.utc, lived=max(now.lived, state.lived)
        )
        self.epoch = epoch
        self.records: list[Recorded] = []
        self.command_id = ""
        """What the next events come from."""
        self.cause_id = ""

    def fork(self) -> None:
        """Let `state` be the draft's own, once and for all."""
        if not self._is_forked:
            self._is_forked, self.state = True, self.state.fork(briefly=True)

    def emit(self, event: Event) -> Recorded:
        self.fork()
        session = self.state.session or getattr(event, "session", "")
        seq = self.state.seq + 1
        record = Recorded(
            seq=seq,
            epoch=self.epoch,
            t=self.now.t,
            utc=self.now.utc,
            lived=self.now.lived,
            event_id=event_id(session, self.epoch, seq),
            cause_id=self.cause_id,
            command_id=self.command_id,
            event=event,
        )
        apply(self.state, record)
        self.records.append(record)
        return record

    def commit(self) -> list[Recorded]:
        """The records as they go to the journal: they count together or not at all."""
        return [
            *(changed(r, in_place=True, more=True) for r in self.records[:-1]),
            *self.records[-1:],
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingPolicy:
    auto_approve: frozenset[str] = frozenset()
    """Stages, and questions, whose approvals are given without asking; `*`: all."""
    slots: int = 0
    """Tasks at a time; 0: no limit. Those beside are not counted."""
    beside_slots: int = 0
    """The same of those beside."""
    place: str = "local"
    """The executor's name; beside, it is always this machine."""
    has_nodes: bool = False
    """Whether the executor has nodes to choose from, and can leave some out."""
    array_size: int = 1
    """Of one submission; beside, each is sent alone."""
    briefly: bool = False
    """The engine lives for one command: in a session with policies these are not asked
    and nothing is submitted, so that a word to an agent calls none."""

    def count_slots(self, place: Place) -> int:
        return self.slots if place == "main" else self.beside_slots

    def name_executor(self, place: Place) -> str:
        return self.place if place == "main" else "local"


@dataclass(slots=True)
class Roster:
    """Jobs by what they do just now, kept in step with the draft."""

    active: set[str] = field(default_factory=set)
    ready: dict[str, int] = field(default_factory=dict)
    """Job of which everything passed -> its place in line for a slot."""
    lost: set[str] = field(default_factory=set)
    """A late exit record may still tell how they ended."""
    failed_policies: dict[str, str] = field(default_factory=dict)
    """Policy -> the warning; it is asked again once a person has seen that."""
    beside: set[str] = field(default_factory=set)
    """Jobs that run beside, whatever they do."""

    def note(self, job: JobRecord) -> None:
        is_lost = job.state is JobState.LOST
        if job.spec.place == "beside":
            self.beside.add(job.name)
        (self.active.add if job.state in ACTIVE else self.active.discard)(job.name)
        (self.lost.add if is_lost else self.lost.discard)(job.name)
        if job.state not in _MAY_START:
            self.ready.pop(job.name, None)

    def select(self, names: set[str], place: Place) -> set[str]:
        """Those of `names` that are of a place; at the cost of `names` alone."""
        if place == "beside":
            return names & self.beside
        return names - self.beside if self.beside else names

    def count_active(self, place: Place) -> int:
        beside = len(self.active & self.beside)
        return beside if place == "beside" else len(self.active) - beside


_MAY_START = frozenset({JobState.WAITING, JobState.RETRYING})


class Joining(Protocol):
    def add_jobs(
        self,
        context: DecisionContext,
        policy: str,
        asked_by: str,
        jobs: Sequence[JobSpec],
    ) -> None: ...


@dataclass(slots=True)
class DecisionContext:
    draft: Draft
    now: Moment
    watch: Watch
    timers: Timers
    roster: Roster
    outside: Mapping[OutsideKey, Fact]
    metrics: Mapping[str, Mapping[str, MetricFact]]
    policy: SchedulingPolicy
    runs: Mapping[str, LiveRun] = field(default_factory=dict)
    """Job -> the newest of its runs that was read."""
    verdicts: dict[tuple[str, str, int], Verdict] = field(default_factory=dict)
    """(job, role, index) -> the newest verdict, volatile arguments included."""
    reworded: set[str] = field(default_factory=set)
    """Jobs of which a condition says something else than before."""
    joining: Joining | None = None

    def add_jobs(self, policy: str, asked_by: str, jobs: Sequence[JobSpec]) -> None:
        """Let jobs that a policy makes join the session in this commit, all or none;
        why not is then in `SessionState.refused_joins`. They may wait for each other;
        what is not given is as in the session's first plan. `asked_by`: on whose
        account, in words (`evaluation e12`), a name that is used once."""
        assert self.joining is not None, "only an engine lets jobs join"
        self.joining.add_jobs(self, policy, asked_by, jobs)

    @property
    def state(self) -> SessionState:
        return self.draft.state

    def rules_of(self, name: str) -> Monitoring:
        return rules_of(self.state, self.job(name).spec)

    def read_metadata(self, job: str, key: str) -> str | None:
        """What a job's log has said; None while there is no such value."""
        record = self.state.jobs.get(job)
        if record is None or is_beginning_anew(record):
            return None
        return record.metadata.get(key)

    def job(self, name: str) -> JobRecord:
        return self.state.jobs[name]

    def find_run(self, job: str) -> LiveRun | None:
        """A job's newest run, which may have ended; None: nothing was read of it."""
        run, record = self.runs.get(job), self.state.jobs.get(job)
        newest = record.attempt if record else None
        if run is None or newest is None:
            return None
        return run if run.number == (newest.number, newest.run) else None

    def read_points(self, job: str, metric: str) -> Sequence[tuple[int, float]]:
        """(step, value) of a metric (canonical name) of a job's newest run, steps
        rising, thinned so that peaks survive; empty: there is none."""
        run = self.find_run(job)
        curve = run.find_curve(metric) if run else None
        return list(zip(curve.steps, curve.values, strict=True)) if curve else ()

    def measure_run(self, job: str) -> float | None:
        """Seconds for which a job's newest run has run, of those that engines lived;
        None: it does not run."""
        record = self.job(job)
        is_running = record.state is JobState.RUNNING
        return self.now.lived - record.since_lived if is_running else None

    def find_action(self, job: str, key: str, put_off: Deferred) -> Armed | None:
        """The action that `<rule>/<index>` names for a job; None when rules changed."""
        watched, why = self.rules_of(job), (put_off.trigger, put_off.line)
        rules: tuple[LogEvent | StateEvent, ...]
        rules = (*watched.log_events, *watched.state_events)
        armed = (one for rule in rules for one in arm(rule, *why))
        return next((one for one in armed if one.key == key), None)

    def list_restarts(self, job: str) -> list[tuple[str, Deferred]]:
        return [
            (key, waiting)
            for key, waiting in self.job(job).deferred.items()
            if (armed := self.find_action(job, key, waiting)) and armed.action.restarts
        ]

    def get(self, key: FactKey) -> Fact | None:
        """The newest fact; the session's own facts come from the draft."""
        if isinstance(key, OutsideKey):
            return self.outside.get(key)
        value: FactValue = None
        # Somebody else's condition may ask for anything.
        job = self.state.jobs.get(getattr(key, "job", ""))
        if isinstance(key, MetricKey):
            value = self._find_metric(key, job)
            return None if value is None else Fact(value, self.now.lived)
        if job is None or (isinstance(key, ApprovalKey) and job.ask is None):
            return None
        match key:
            case JobKey():
                value = job_fact(job)
            case MetadataKey():
                value = self.read_metadata(key.job, key.key)
            case FiredKey():
                value = job.fired.get(key.action)
            case ApprovalKey() if job.ask is not None:
                value = ApprovalFact(job.ask.approved, job.ask.by, job.ask.reason)
            case _:  # a key of somebody else's that happens to name a job
                return None
        return Fact(value, self.now.lived)

    def _find_metric(self, key: MetricKey, job: JobRecord | None) -> MetricFact | None:
        if job is not None and has_old_logs(job):
            return None
        if observed := self.metrics.get(key.job, {}).get(key.name):
            return observed
        # Logs of jobs that ended earlier are not read again.
        noted = job.noted if job is not None and job.ended else None
        if noted is None:
            return None
        values = {find_canonical_name(name): at for name, at in noted.values.items()}
        found = values.get(key.name)
        return None if found is None else MetricFact(float(found), noted.step)


def rules_of(state: SessionState, job: JobSpec) -> Monitoring:
    """How `job` is watched: by rules of its own, else by those of the newest plan."""
    if state.base is None:
        return job.own_rules or Monitoring()
    plans = chain((state.base,), state.plans.values()) if job.rules else ()
    named = (plan for plan in plans if job.rules in plan.rule_sets)
    return next(named, state.base).rules_of(job)


def job_fact(job: JobRecord) -> JobFact:
    return JobFact(
        state=job.state,
        cause=job.cause,
        attempts=len(job.attempts),
        step=job.noted.step if job.noted else None,
        ended_lived=job.since_lived if job.ended else None,
        aside=list_files_aside(job),
    )
