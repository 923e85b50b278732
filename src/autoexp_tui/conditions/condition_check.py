"""One look at one job's conditions: what they say, what they read, when to look again.
A pattern found in a log stays found for that wait (`JobRecord.latched`); everything
else is judged by the newest facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from types import MappingProxyType
from typing import Final

from autoexp_tui.conditions.bindings import Lacking, bind
from autoexp_tui.conditions.files import is_found
from autoexp_tui.conditions.kinds import LogPattern, MetadataIs
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.condition import (
    Condition,
    EvalContext,
    change_parts,
    evaluate,
    find_wake,
    needs,
    walk,
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
)
from autoexp_tui.model.resubmission import has_old_logs, list_files_aside
from autoexp_tui.model.rules import is_for_stage
from autoexp_tui.model.state import JobRecord, Latched
from autoexp_tui.model.states import BEGUN, JobState, Result, Verdict, Why, why
from autoexp_tui.model.wording import sentence

_NOTHING: Final[Mapping[FactKey, Fact]] = MappingProxyType({})
_NOT_KNOWN: Final = ((-1, 0),)
"""Of no file: what was found before is not what is looked for from now on."""


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
        read, lived = needs(bound, self.job.name), self.context.now.lived
        over: dict[FactKey, Fact] = {}
        for key in read if self.job.latched else ():  # found once, looked for no more
            if isinstance(key, LogKey) and (found := self._find_latched(key)):
                over[key] = Fact(LogFound(1, 1, found.line, found.path), lived)
        self.keys |= read - over.keys()
        if assume_approved:
            yes = ApprovalFact(approved=True, by="")
            over[ApprovalKey(self.job.name)] = Fact(yes, lived)
        old = self._find_old(bound)
        nothing = Fact(LogFound(files=1, matched=0), lived)
        verdict = self._evaluate(bound, {**over, **dict.fromkeys(old, nothing)})
        if isinstance(bound, LogPattern) and verdict.why.code == "log_no_match":
            return Verdict(Result.WAIT, old.get(bound.key, verdict.why))
        return verdict

    def cancel(self, spec: Condition) -> Verdict:
        """What a cancel condition says; logs that may not count yet are left out."""
        bound, missing = self._bind(spec)
        if bound is None:
            return self._wait_for_value(spec, missing[0])
        self._cancels |= needs(bound, self.job.name)
        self.keys |= self._cancels
        verdict = self._evaluate(bound)
        if verdict.result is not Result.PASS:
            return verdict
        parts = _list_log_patterns(bound)
        found = ((part.key, _explain_doubt(self.context, part)) for part in parts)
        doubts = {key: reason for key, reason in found if reason is not None}
        if not doubts:
            return verdict
        if isinstance(bound, LogPattern):
            return Verdict(Result.WAIT, doubts[bound.key])
        now = self.context.now
        over: dict[FactKey, Fact] = {
            key: Fact(None, now.lived, sentence(reason, now.t))
            for key, reason in doubts.items()
        }
        return self._evaluate(bound, over)

    def latch(self) -> None:
        """Keep what was found in logs: the wait goes on, and they may go."""
        for spec in self.job.spec.start_conditions:
            bound = self._bind(spec)[0]
            if bound is None:
                continue
            old = self._find_old(bound)
            for key in (part.key for part in _list_log_patterns(bound)):
                found = self._find_in_log(key)
                if found is None or key in old:
                    continue
                if key not in self._cancels:
                    self.keys.discard(key)
                if not self._find_latched(key):
                    name, said = self.job.name, {"line": found.line, "path": found.path}
                    self.context.draft.emit(
                        events.ConditionLatched(job=name, key=_name_latch(key), **said)
                    )

    def _find_latched(self, key: LogKey) -> Latched | None:
        return self.context.job(self.job.name).latched.get(_name_latch(key))

    def _evaluate(
        self, bound: Condition, over: Mapping[FactKey, Fact] = _NOTHING
    ) -> Verdict:
        """What it says by the newest facts, those of `over` in place of them."""
        ctx = EvalContext(
            job=self.job.name,
            waiting_lived=self.job.waiting_lived,
            grace_seconds=self.context.rules_of(self.job.name).doomed_grace_seconds,
            asked_lived=self.job.ask.asked_lived if self.job.ask else None,
        )
        facts = _Overlay(self.context, over) if over else self.context
        self.wake_by(find_wake(bound, facts, self.context.now, ctx))
        return evaluate(bound, facts, self.context.now, ctx)

    def _bind(self, spec: Condition) -> tuple[Condition | None, tuple[Lacking, ...]]:
        bound, missing = bind(spec, self.read_metadata, self.context.state.jobs)
        if bound is None:
            return None, missing
        return change_parts(bound, self._skip_old), ()

    def _skip_old(self, spec: Condition) -> Condition:
        """A log pattern without what earlier attempts wrote; any other as it is."""
        if not isinstance(spec, LogPattern):
            return spec
        writer = self.context.state.jobs.get(spec.writer)
        aside = list_files_aside(writer) if writer is not None else {}
        if aside is None:
            return replace(spec, skip=_NOT_KNOWN)
        skip = tuple(
            (one.file.inode, one.file.size)
            for path, one in aside.items()
            if (fnmatch(path, spec.log_path) if spec.glob else path == spec.log_path)
        )
        return replace(spec, skip=skip) if skip else spec

    def read_metadata(self, job: str, key: str) -> str | None:
        """A job's metadata; the look reads it from now on."""
        self.keys.add(MetadataKey(job, key))
        return self.context.read_metadata(job, key)

    def _wait_for_value(self, spec: Condition, missing: Lacking) -> Verdict:
        """A value that a reference needs is waited for like any other; so is another
        value, where this one may not stand."""
        if missing.problem:
            return Verdict(Result.WAIT, missing.explain())
        stand_in = MetadataIs(
            job=missing.job,
            key=missing.key,
            op="known",
            timeout_seconds=spec.timeout_seconds,
            description=spec.description,
        )
        self.keys |= needs(stand_in, self.job.name)
        return self._evaluate(stand_in)

    def _find_old(self, bound: Condition) -> Mapping[FactKey, Why]:
        """Finds in logs that were there before this session's first run of the job."""
        old: dict[FactKey, Why] = {}
        for part in _list_log_patterns(bound):
            writer = self.context.state.jobs.get(part.writer)
            if writer is None or part.key not in self.keys or writer.ended:
                continue
            if writer.state in (JobState.PLANNED, JobState.HELD):
                continue  # nobody waits for one not chosen
            began = any(attempt.run >= 0 for attempt in writer.attempts)
            if began and not has_old_logs(writer):
                continue
            if self._find_in_log(part.key):
                old[part.key] = why("log_of_earlier_run", job=writer.name)
        return old

    def _find_in_log(self, key: LogKey) -> LogFound | None:
        """What was found in a log, when it is what is looked for."""
        fact = self.context.get(key)
        found = None if fact is None else fact.value
        return found if isinstance(found, LogFound) and is_found(key, found) else None


def _list_log_patterns(spec: Condition) -> list[LogPattern]:
    return [part for part in walk(spec) if isinstance(part, LogPattern)]


def _explain_doubt(context: DecisionContext, spec: LogPattern) -> Why | None:
    """A sibling's log judges us only when that sibling's own fate is settled: between
    runs its current.log is an old run's; and while a restart may still follow, what
    killed this run need not concern the dependants."""
    writer = context.state.jobs.get(spec.writer)
    if writer is None or writer.ended:
        return None
    if writer.state not in BEGUN:
        return why("log_of_earlier_run", job=writer.name)
    can_restart = any(
        action.restarts
        for rule in context.rules_of(writer.name).state_events
        if is_for_stage(rule, writer.spec.stage)
        for action in rule.actions
    )
    return why("log_may_restart", job=writer.name) if can_restart else None


def _name_latch(key: LogKey) -> str:
    parts = (key.path, key.pattern, key.glob, key.check_mode, key.tail_bytes)
    return ids.digest(*parts, *((key.skip,) if key.skip else ()))


@dataclass(frozen=True, slots=True)
class _Overlay:
    facts: Facts
    over: Mapping[FactKey, Fact]

    def get(self, key: FactKey) -> Fact | None:
        return self.over.get(key) or self.facts.get(key)
