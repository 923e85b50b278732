"""One look at one job's conditions: what they say, what they read, when to look again.

A pattern that was found in a log stays found for the wait that found it, whatever
becomes of the log: `JobRecord.latched` holds it, and survives engines. Everything else
is judged by the newest facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from operator import is_

from autoexp_tui.conditions.bindings import Lacking, RefusedValue, bind
from autoexp_tui.conditions.files import is_found
from autoexp_tui.conditions.kinds import Composite, LogPattern, MetadataIs, Not
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.condition import (
    Condition,
    EvalContext,
    evaluate,
    find_wake,
    needs,
)
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.facts import (
    ApprovalFact,
    ApprovalKey,
    Fact,
    FactKey,
    Facts,
    LogFound,
    LogKey,
    MetadataKey,
    Moment,
)
from autoexp_tui.model.resubmission import has_old_logs, list_files_aside
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import BEGUN, JobState, Result, Verdict, Why, why
from autoexp_tui.model.wording import sentence

_NO_VALUE = "\0"
"""No text compares as less than this: the stand-in for a missing value never passes."""


class Look:
    """One look at one job: collects the keys read and the next moment to look."""

    def __init__(self, context: DecisionContext, job: JobRecord) -> None:
        self.context = context
        self.job = job
        self.keys: set[FactKey] = set()
        self._cancels: set[FactKey] = set()
        """What cancel conditions read: that is never over."""
        self.wake: float | None = None

    def wake_by(self, at: float | None) -> None:
        """Look again at `at` (lived) at the latest."""
        if at is not None and (self.wake is None or at < self.wake):
            self.wake = at

    def start(self, spec: Condition, *, assume_approved: bool = False) -> Verdict:
        """What a start condition says; `assume_approved`: with a person's yes."""
        bound, missing = self._bind(spec)
        if bound is None:
            return self._wait_for_value(spec, missing[0])
        facts: Facts = _Latched(self.context, self.job)
        if assume_approved:
            facts = _Approved(facts, self.job.name, self.context.now.lived)
        read = needs(bound, self.job.name)
        self.keys |= {key for key in read if not is_latched(key, self.job)}
        old = {key: reason for key, reason in self._list_old(bound) if key in read}
        if not old:
            return self._evaluate(bound, facts)
        verdict = self._evaluate(bound, _Unfound(facts, old, self.context.now.lived))
        if isinstance(bound, LogPattern) and verdict.why.code == "log_no_match":
            return Verdict(Result.WAIT, old[bound.key])
        return verdict

    def cancel(self, spec: Condition) -> Verdict:
        """What a cancel condition says; logs that may not count yet are left out."""
        bound, missing = self._bind(spec)
        if bound is None:
            return self._wait_for_value(spec, missing[0])
        self._cancels |= needs(bound, self.job.name)
        self.keys |= self._cancels
        verdict = self._evaluate(bound, self.context)
        if verdict.result is not Result.PASS:
            return verdict
        doubts = dict(self._list_doubts(bound))
        if not doubts:
            return verdict
        if isinstance(bound, LogPattern):
            return Verdict(Result.WAIT, doubts[bound.key])
        return self._evaluate(bound, _Without(self.context, doubts, self.context.now))

    def latch(self) -> None:
        """Keep what was found in logs: the wait goes on, and they may go."""
        for spec in self.job.spec.start_conditions:
            bound = self._bind(spec)[0]
            old = {} if bound is None else dict(self._list_old(bound))
            for part in () if bound is None else list_log_patterns(bound):
                if part.key not in old:
                    self._keep_found(part.key)

    def _keep_found(self, key: LogKey) -> None:
        fact, name = self.context.get(key), name_latch(key)
        found = None if fact is None else fact.value
        if not isinstance(found, LogFound) or not is_found(key, found):
            return
        if key not in self._cancels:
            self.keys.discard(key)
        if name not in self.context.job(self.job.name).latched:
            self.context.draft.emit(
                events.ConditionLatched(
                    job=self.job.name, key=name, line=found.line, path=found.path
                )
            )

    # ------------------------------------------------------------------------ judging
    def _evaluate(self, bound: Condition, facts: Facts) -> Verdict:
        ctx = self._build_context()
        self.wake_by(find_wake(bound, facts, self.context.now, ctx))
        return evaluate(bound, facts, self.context.now, ctx)

    def _build_context(self) -> EvalContext:
        return EvalContext(
            job=self.job.name,
            waiting_lived=self.job.waiting_lived,
            grace_seconds=self.context.rules_of(self.job.name).doomed_grace_seconds,
            asked_lived=self.job.ask.asked_lived if self.job.ask else None,
        )

    def _bind(self, spec: Condition) -> tuple[Condition | None, tuple[Lacking, ...]]:
        bound, missing = bind(spec, self.read_metadata, self.context.state.jobs)
        return None if bound is None else _skip_old_logs(bound, self.context), missing

    def read_metadata(self, job: str, key: str) -> str | None:
        """A job's metadata; the look reads it from now on."""
        self.keys.add(MetadataKey(job, key))
        return self.context.read_metadata(job, key)

    def _wait_for_value(self, spec: Condition, missing: Lacking) -> Verdict:
        """A value that a reference needs is waited for like any other.

        So is another value, where this one may not stand.
        """
        if isinstance(missing, RefusedValue):
            job, key, problem = missing
            return Verdict(
                Result.WAIT, why("value_refused", job=job, key=key, problem=problem)
            )
        stand_in = MetadataIs(
            job=missing.job,
            key=missing.key,
            op="<",
            value=_NO_VALUE,
            timeout_seconds=spec.timeout_seconds,
            description=spec.description,
        )
        self.keys |= needs(stand_in, self.job.name)
        verdict = self._evaluate(stand_in, self.context)
        if verdict.why.code != "metadata_is_not":
            return verdict
        reason = why("no_metadata", job=missing.job, key=missing.key)
        return Verdict(Result.WAIT, reason)

    def _list_doubts(self, bound: Condition) -> Iterator[tuple[LogKey, Why]]:
        for part in list_log_patterns(bound):
            reason = _explain_doubt(self.context, part)
            if reason is not None:
                yield part.key, reason

    def _list_old(self, bound: Condition) -> Iterator[tuple[LogKey, Why]]:
        """Finds in logs that were there before this session's first run of the job."""
        for part in list_log_patterns(bound):
            key = part.key
            writer = self.context.state.jobs.get(part.writer)
            if writer is None or key not in self.keys or not _is_to_begin(writer):
                continue
            fact = self.context.get(key)
            found = None if fact is None else fact.value
            if isinstance(found, LogFound) and is_found(key, found):
                yield key, why("log_of_earlier_run", job=writer.name)


# ------------------------------------------------------------------------- logs
def list_log_patterns(spec: Condition) -> Iterator[LogPattern]:
    """The log patterns that `spec` consists of."""
    match spec:
        case LogPattern():
            yield spec
        case Composite():
            for part in spec.conditions:
                yield from list_log_patterns(part)
        case Not():
            yield from list_log_patterns(spec.condition)
        case _:
            pass


def _explain_doubt(context: DecisionContext, spec: LogPattern) -> Why | None:
    """A sibling's log judges us only when that sibling's own fate is settled.

    Between runs its current.log is an old run's; and while a restart may still follow,
    what killed this run need not concern the dependants.
    """
    writer = context.state.jobs.get(spec.writer)
    if writer is None or writer.ended:
        return None
    if writer.state not in BEGUN:
        return why("log_of_earlier_run", job=writer.name)
    if _can_restart(context, writer):
        return why("log_may_restart", job=writer.name)
    return None


def _skip_old_logs(spec: Condition, context: DecisionContext) -> Condition:
    """The condition, its log patterns without what earlier attempts wrote."""
    match spec:
        case LogPattern() if skip := _list_old_texts(spec, context):
            return replace(spec, skip=skip)
        case Composite():
            parts = tuple(_skip_old_logs(part, context) for part in spec.conditions)
            same = all(map(is_, parts, spec.conditions))
            return spec if same else replace(spec, conditions=parts)
        case Not():
            inner = _skip_old_logs(spec.condition, context)
            return spec if inner is spec.condition else replace(spec, condition=inner)
        case _:
            return spec


def _list_old_texts(
    spec: LogPattern, context: DecisionContext
) -> tuple[tuple[int, int], ...]:
    """(inode, bytes) of the logs that a writer's newest attempt does not continue."""
    writer = context.state.jobs.get(spec.writer)
    if writer is None:
        return ()
    aside = list_files_aside(writer)
    if aside is None:
        return _NOT_KNOWN
    return tuple(
        (one.file.inode, one.file.size)
        for path, one in aside.items()
        if (fnmatch(path, spec.log_path) if spec.glob else path == spec.log_path)
    )


_NOT_KNOWN = ((-1, 0),)
"""Of no file: what was found before is not what is looked for from now on."""


def _is_to_begin(job: JobRecord) -> bool:
    """Whether a job has yet to begin its first run, or one that begins anew; nobody
    waits for one not chosen."""
    if job.ended or job.state in (JobState.PLANNED, JobState.HELD):
        return False
    if has_old_logs(job):
        return True
    return all(attempt.run < 0 for attempt in job.attempts)


def _can_restart(context: DecisionContext, job: JobRecord) -> bool:
    return any(
        action.restarts
        for rule in context.rules_of(job.name).state_events
        if not rule.stages or job.spec.stage in rule.stages
        for action in rule.actions
    )


def name_latch(key: LogKey) -> str:
    """The name of a search, in `JobRecord.latched`."""
    parts = (key.path, key.pattern, key.glob, key.check_mode, key.tail_bytes)
    return ids.digest(*parts, *((key.skip,) if key.skip else ()))


def is_latched(key: FactKey, job: JobRecord) -> bool:
    """Whether a search is over: it found what it looked for."""
    return isinstance(key, LogKey) and name_latch(key) in job.latched


# ------------------------------------------------------------------------ facts
@dataclass(frozen=True, slots=True)
class _Latched:
    """The newest facts, and of logs what was found once."""

    context: DecisionContext
    job: JobRecord

    def get(self, key: FactKey) -> Fact | None:
        if not isinstance(key, LogKey) or not self.job.latched:
            return self.context.get(key)
        latched = self.job.latched.get(name_latch(key))
        if latched is None:
            return self.context.get(key)
        found = LogFound(files=1, matched=1, line=latched.line, path=latched.path)
        return Fact(found, self.context.now.lived)


@dataclass(frozen=True, slots=True)
class _Approved:
    """Facts as they would be if the person had approved."""

    facts: Facts
    job: str
    lived: float

    def get(self, key: FactKey) -> Fact | None:
        if key == ApprovalKey(self.job):
            return Fact(ApprovalFact(approved=True, by=""), self.lived)
        return self.facts.get(key)


@dataclass(frozen=True, slots=True)
class _Without:
    """Facts without those of logs that may not count yet: they are unknown."""

    facts: Facts
    doubts: Mapping[LogKey, Why]
    now: Moment

    def get(self, key: FactKey) -> Fact | None:
        if isinstance(key, LogKey) and key in self.doubts:
            reason = sentence(self.doubts[key], self.now.t)
            return Fact(None, self.now.lived, reason)
        return self.facts.get(key)


@dataclass(frozen=True, slots=True)
class _Unfound:
    """Facts in which logs of an earlier session hold nothing."""

    facts: Facts
    old: Mapping[LogKey, Why]
    lived: float

    def get(self, key: FactKey) -> Fact | None:
        if isinstance(key, LogKey) and key in self.old:
            return Fact(LogFound(files=1, matched=0), self.lived)
        return self.facts.get(key)
