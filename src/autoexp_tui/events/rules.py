"""Events of rules: what logs showed, warnings, evidence, actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from autoexp_tui.model.event import (
    Event,
    Headline,
    Recorded,
    append_reason,
    join_parts,
    pick,
    update,
    update_attempt,
)
from autoexp_tui.model.facts import FactKey, FiredKey, MetadataKey, MetricKey
from autoexp_tui.model.outputs import NotedMetrics
from autoexp_tui.model.state import Deferred, Mark, Matched, SessionState, Warned
from autoexp_tui.model.states import Why
from autoexp_tui.text.spelling import count, format_number


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMatched(Event, topic="reaction"):
    """A log rule matched; `match_id` makes a second scan harmless."""

    match_id: str
    job: str
    attempt: int
    run: int
    rule: str
    offset: int
    line: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    count: int = 1
    """Matches that it stands for, itself the last: they came too fast."""
    first_offset: int | None = None
    """Where the first of several lies; None: it is the only one."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        found = state.matches.get(self.job)
        marks: dict[str, Mark] = {}
        if found is not None and (found.attempt, found.run) == (self.attempt, self.run):
            marks |= found.marks
        marks[self.rule] = (self.match_id, self.offset)
        state.matches[self.job] = Matched(self.attempt, self.run, marks)
        if self.metadata:
            known = state.jobs[self.job].metadata
            update(state, self.job, metadata={**known, **self.metadata})

    def format_headline(self, now: float) -> Headline:
        times = f" ({count(self.count)} times)" if self.count > 1 else ""
        about = append_reason(self.rule + times, self.line.strip())
        return Headline("log matched", about)

    def list_changed_facts(self) -> tuple[FactKey, ...]:
        return tuple(MetadataKey(self.job, key) for key in self.metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsNoted(Event, NotedMetrics, topic=""):
    """A job's newest metrics, recorded seldom: the log itself keeps the rest. The
    lowest and highest values are told once, at the run's end."""

    job: str

    def apply(self, state: SessionState, record: Recorded) -> None:
        same = ("attempt", "run", "step", "total", "values", "judged", "result")
        noted = NotedMetrics(**pick(self, *same, "lows", "highs"))
        update(state, self.job, noted=noted, noted_at=record.t)

    def format_headline(self, now: float) -> Headline:
        step = f"step {self.step}" + (f" of {self.total}" if self.total else "")
        values = [
            f"{name} {value if isinstance(value, str) else format_number(value)}"
            for name, value in self.values.items()
        ]
        return Headline("metrics noted", join_parts(step, *values))

    def list_changed_facts(self) -> tuple[FactKey, ...]:
        return tuple(MetricKey(self.job, name) for name in self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningRaised(Event, topic="warning", matters=True, verb="warning"):
    warning_id: str
    why: Why
    job: str = ""
    severity: Literal["info", "warning", "error"] = "warning"
    evidence: str = ""

    def apply(self, state: SessionState, record: Recorded) -> None:
        same = ("warning_id", "why", "job", "severity", "evidence")
        warned = Warned(**pick(self, *same), raised_at=record.t)
        state.warnings[self.warning_id] = warned

    def is_error(self) -> bool:
        return self.severity == "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningCleared(Event, topic="warning"):
    """It passed, or was acknowledged."""

    warning_id: str
    by: str = ""

    def apply(self, state: SessionState, record: Recorded) -> None:
        state.warnings.pop(self.warning_id, None)

    def format_headline(self, now: float) -> Headline:
        return Headline("warning cleared", f"by {self.by}" if self.by else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitAcknowledged(Event, topic="warning"):
    job: str
    attempt: int
    by: str = ""

    def apply(self, state: SessionState, record: Recorded) -> None:
        update_attempt(state, self.job, self.attempt, limit_seen=True)

    def format_headline(self, now: float) -> Headline:
        return Headline("time limit seen", f"by {self.by}" if self.by else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceCaptured(Event, topic="reaction", matters=True):
    """What could be seen of a run that a rule ends was kept."""

    job: str
    attempt: int
    reason: str
    """`stall`, `nan`, or the rule's name."""
    directory: str
    """Absolute; empty: nothing could be written."""
    summary: str
    """What was obtained and what not, in one line."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        if self.directory:
            attempt = state.jobs[self.job].attempts[self.attempt - 1]
            captures = (*attempt.captures, self.directory)
            update_attempt(state, self.job, self.attempt, captures=captures)

    def format_headline(self, now: float) -> Headline:
        return Headline("evidence kept", join_parts(self.summary, self.directory))


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFired(Event, topic="reaction", verb="action fired", about=("action",)):
    job: str
    action: str
    trigger: str
    """The match or the attempt that triggered it."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        job = state.jobs[self.job]
        fired = {**job.fired, self.action: state.lived}
        firings = {**job.firings, self.action: job.firings.get(self.action, 0) + 1}
        update(state, self.job, fired=fired, firings=firings)
        _forget_deferred(state, self.job, self.action)

    def list_changed_facts(self) -> tuple[FactKey, ...]:
        return (FiredKey(self.job, self.action),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionDeferred(
    Event,
    topic="reaction",
    verb="action deferred",
    about=("action", "why"),
    rejudges=True,
):
    job: str
    action: str
    trigger: str
    why: Why
    wait_seconds: float | None = None
    """For how long at most it is not decided; None: nobody knows."""
    until: float | None = None
    """UTC of that, in journals of an older version that have no `wait_seconds`."""
    line: str = ""
    """The log line that triggered it."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        before = state.jobs[self.job].deferred
        old = before.get(self.action)
        waits = self.wait_seconds
        if waits is None and self.until is not None:  # of an older version
            waits = max(0.0, self.until - record.t)
        same = old is not None and old.trigger == self.trigger
        deferred = Deferred(
            trigger=self.trigger,
            since_lived=old.since_lived if same and old else state.lived,
            why=self.why,
            until_lived=None if waits is None else state.lived + waits,
            line=self.line,
        )
        update(state, self.job, deferred={**before, self.action: deferred})


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionDropped(
    Event,
    topic="reaction",
    matters=True,
    verb="action dropped",
    about=("action", "why"),
):
    job: str
    action: str
    trigger: str
    why: Why

    def apply(self, state: SessionState, record: Recorded) -> None:
        _forget_deferred(state, self.job, self.action)


def _forget_deferred(state: SessionState, job: str, action: str) -> None:
    deferred = dict(state.jobs[job].deferred)
    if deferred.pop(action, None) is not None:
        update(state, job, deferred=deferred)
