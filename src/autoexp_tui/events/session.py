"""Events of the session itself: engines start, plans join, submission pauses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from autoexp_tui.model.event import (
    Event,
    Headline,
    Recorded,
    join_parts,
    list_names,
    move_all,
    pick,
    update,
)
from autoexp_tui.model.outputs import DoneWork, NotedMetrics
from autoexp_tui.model.specs import Edge, JobSpec, Plan
from autoexp_tui.model.state import GAPS, JobRecord, Joined, SessionState, changed
from autoexp_tui.model.states import JobState, Why
from autoexp_tui.text.spelling import duration, size


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted(Event):
    """The first event of a session."""

    session: str
    name: str
    engine_version: str
    wrapper_version: str
    plan_sha: str
    environment_digest: str = ""

    def apply(self, state: SessionState, record: Recorded) -> None:
        state.session = self.session
        state.name = self.name
        state.started_at = record.t

    def format_headline(self, now: float) -> Headline:
        return Headline(
            "session began", f"{self.name}, autoexp-tui {self.engine_version}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStarted(Event):
    """An engine took the session; the first event of each further journal part."""

    host: str
    pid: int
    engine_version: str = ""
    sealed_part: str = ""
    """Name of the predecessor's part, empty for the first engine."""
    sealed_bytes: int = 0
    """Bytes of it that count; what lies past them is ignored and reported."""
    gap_seconds: float = 0.0
    """How long no engine lived, by the wall clock."""
    wrapper_sha256: str = ""
    """Of the session's copy of the wrapper, as this engine uses it."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        state.engine_host = self.host
        state.engine_pid = self.pid
        state.engine_stopped = state.engine_stopping = False
        state.wrapper_sha256 = self.wrapper_sha256 or state.wrapper_sha256
        if self.gap_seconds > 0:
            gap = (record.t - self.gap_seconds, record.t)
            state.gaps = (*state.gaps, gap)[-GAPS:]

    def format_headline(self, now: float) -> Headline:
        gap = self.gap_seconds
        without = f"after {duration(gap)} without an engine" if gap >= 1 else ""
        about = join_parts(f"on {self.host}", f"pid {self.pid}", without)
        return Headline("engine began", about)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOrdered(Event, verb="engine stops", about=("by",)):
    """The engine stops once what it was told to end has ended."""

    by: str = ""

    def apply(self, state: SessionState, record: Recorded) -> None:
        state.engine_stopping = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStopped(Event, verb="engine stopped", about=("reason",)):
    """An engine gave the session back in an orderly way."""

    reason: str = ""
    on_request: bool = False
    """Somebody told it to: who watches leaves the session at rest."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        state.engine_stopped = True


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRotated(Event):
    """The journal had grown long; the first event of each further part of an engine."""

    sealed_part: str
    """Name of the part before it."""
    sealed_bytes: int
    """Bytes of it that count: all that were ever synced."""

    def format_headline(self, now: float) -> Headline:
        return Headline(
            "journal went on", f"{self.sealed_part} has {size(self.sealed_bytes)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAdded(Event, topic="state"):
    """Jobs joined the session; the plan lies beside the journal under its sha."""

    sha: str
    job: str = ""
    """Whose rule asked for it; empty: a person or a policy did."""
    action: str = ""
    """Of that rule: `<rule>/<index>`."""
    asked_by: str = ""
    """Who did where no rule did, as `ann on login1 (pts/3)`; empty: whoever began the
    session, or the journal is an old one's."""
    policy: str = ""
    """Which made its jobs, on account of `asked_by`; empty: none did."""
    first_index: int | None = None
    """Of its first job, the others follow; None: each keeps its own where those are
    free, as in journals of older versions."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        plan = state.plans[self.sha]
        new = plan.jobs
        if state.base is None:
            state.base, state.joined[self.sha] = plan, Joined(new, plan.edges)
        else:
            new = join_plan(state, plan, self.sha, self.first_index)
        if self.policy:
            state.refused_joins.pop(self.asked_by, None)
        elif not self.job:
            state.asked = self.sha
        whose = pick(self, "asked_by", "policy")
        whose |= {"parent": self.job, "parent_action": self.action}
        _add_jobs(state, record, new, plan_sha=self.sha, **whose)

    def format_headline(self, now: float) -> Headline:
        by = f"by {self.asked_by}" if self.asked_by else ""
        by = f"by the action {self.action} of {self.job}" if self.action else by
        return Headline("plan added", join_parts(f"plan_{self.sha}", by))


def _add_jobs(
    state: SessionState, record: Recorded, jobs: Sequence[JobSpec], **whose: Any
) -> None:
    for spec in jobs:
        state.highest = max(state.highest, spec.index)
        state.jobs[spec.name] = JobRecord(
            spec=spec,
            since=record.t,
            since_lived=state.lived,
            start=(None,) * len(spec.start_conditions),
            cancel=(None,) * len(spec.cancel_conditions),
            **whose,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsAdded(Event, topic="state", changes_jobs=True, rejudges=True):
    """All jobs that a policy made for one purpose joined the session."""

    policy: str
    asked_by: str
    """On whose account, in words."""
    specs: tuple[JobSpec, ...]
    """With their places in the session's order."""
    edges: tuple[Edge, ...] = ()
    released: bool = False
    """They may run as soon as their conditions pass, without `JobsReleased`."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        state.refused_joins.pop(self.asked_by, None)
        state.joined[record.event_id] = Joined(self.specs, self.edges)
        _add_jobs(state, record, self.specs, **pick(self, "asked_by", "policy"))
        if self.released:
            move_all(state, record, self.list_jobs(), JobState.WAITING)

    def list_jobs(self) -> tuple[str, ...]:
        return tuple(spec.name for spec in self.specs)

    def format_headline(self, now: float) -> Headline:
        about = join_parts(list_names(self.list_jobs()), f"for {self.asked_by}")
        return Headline("jobs added", about)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRefused(
    Event,
    topic="state",
    matters=True,
    verb="jobs did not join",
    about=("asked_by", "why"),
):
    """Jobs that a policy asked for could not join: nothing of them is there."""

    policy: str
    asked_by: str
    why: Why

    def apply(self, state: SessionState, record: Recorded) -> None:
        state.refused_joins[self.asked_by] = self.why


# Names tell jobs apart, so they are never changed when a plan joins; whoever lets it
# join sees to it that they are free. Places in the order and sets of rules are the
# session's own. It costs what joins: nothing walks through the jobs that are there.
def join_plan(
    state: SessionState, plan: Plan, sha: str, first_index: int | None
) -> tuple[JobSpec, ...]:
    """Take in what a further plan has that the session has not; the jobs, as they join.
    `sha`: names its rules where they differ; `first_index`: as in `PlanAdded`."""
    assert state.base is not None, "it joins another"
    new = [job for job in plan.jobs if job.name not in state.jobs]
    rule_sets = dict(plan.rule_sets)
    if plan.monitoring != state.base.monitoring:
        name = f"plan-{sha}"
        rule_sets[name] = plan.monitoring
        new = [job if job.rules else replace(job, rules=name) for job in new]
    if rule_sets:
        rule_sets = {**state.base.rule_sets, **rule_sets}
        state.base = replace(state.base, rule_sets=rule_sets)
    jobs, names = _place_behind(state, new, first_index), {job.name for job in new}
    edges = dict.fromkeys(plan.edges)
    if any(edge.after not in names for edge in edges):  # both may have it
        there = {edge for one in state.joined.values() for edge in one.edges}
        edges = dict.fromkeys(edge for edge in edges if edge not in there)
    state.joined.setdefault(sha, Joined(jobs, tuple(edges)))
    return jobs


def _place_behind(
    state: SessionState, new: Sequence[JobSpec], first_index: int | None
) -> tuple[JobSpec, ...]:
    """Jobs with their places behind those that are there."""
    if first_index is not None:
        return tuple(changed(job, index=at) for at, job in enumerate(new, first_index))
    taken = {job.spec.index for job in state.jobs.values()}
    if taken.isdisjoint(job.index for job in new):
        return tuple(new)
    shift = state.highest + 1 - min(job.index for job in new)
    return tuple(replace(job, index=job.index + shift) for job in new)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneFound(Event, topic="state"):
    """Jobs whose work an earlier session did; they complete when they are let run."""

    works: tuple[DoneWork, ...]

    def apply(self, state: SessionState, record: Recorded) -> None:
        for work in self.works:
            noted = None
            if work.step is not None:
                same = ("step", "total", "values", "result", "lows", "highs")
                noted = NotedMetrics(attempt=0, **pick(work, *same))
            changes = {"metadata": work.metadata, "noted": noted}
            update(state, work.job, done=work, **changes)

    def format_headline(self, now: float) -> Headline:
        return Headline("done before", list_names([work.job for work in self.works]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignFilesFound(
    Event, topic="state", verb="files of other work", about=("jobs",)
):
    """In the directories of these jobs lies what other work has left."""

    jobs: tuple[str, ...]

    def apply(self, state: SessionState, record: Recorded) -> None:
        for job in self.jobs:
            update(state, job, foreign_files=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionPaused(Event, matters=True, verb="submission paused"):
    why: Why

    def apply(self, state: SessionState, record: Recorded) -> None:
        state.paused = self.why


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionResumed(Event, matters=True, verb="submission goes on"):
    def apply(self, state: SessionState, record: Recorded) -> None:
        state.paused = None
        state.streaks.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeExcluded(
    Event, topic="reaction", matters=True, verb="node excluded", about=("node", "why")
):
    node: str
    why: Why

    def apply(self, state: SessionState, record: Recorded) -> None:
        state.excluded_nodes = (*state.excluded_nodes, self.node)
        state.streaks.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRefused(
    Event, topic="error", matters=True, verb="order refused", about=("jobs", "why")
):
    """A command was stale or made no sense; nothing happened."""

    why: Why
    jobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLogged(Event, topic="reaction", verb="message", about=("text",)):
    """A line that a rule or the engine wrote for people."""

    text: str
    level: Literal["info", "warning", "error"] = "info"
    job: str = ""

    def is_error(self) -> bool:
        return self.level == "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFaulted(
    Event,
    topic="error",
    matters=True,
    verb="engine faulted",
    about=("where", "problem"),
):
    """A bug or an outside failure inside the engine; the traceback is in its log."""

    where: str
    problem: str
