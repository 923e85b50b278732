"""The session as the screens see it, built step by step from snapshots.

`observe` shares everything that did not change with the view before: with 10,000 jobs
a snapshot that touched 20 of them costs 20 looks and one pass of identity checks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING

from autoexp_tui.cockpit.spans import (
    outside,
)
from autoexp_tui.cockpit.state.status import (
    NEEDS,
    Look,
    look_of,
    unexplained,
)
from autoexp_tui.model.states import JobState
from autoexp_tui.model.wording import plural
from autoexp_tui.text.spelling import Present

if TYPE_CHECKING:
    from autoexp_tui.model.snapshot import Live, Snapshot
    from autoexp_tui.model.specs import JobSpec, Plan
    from autoexp_tui.model.state import Attempt, ConditionStatus, JobRecord, Warned


STALL_CODES = ("stall", "no_step")
"""Beginnings of the warning codes that mean: the counter stands still."""


@dataclass(frozen=True, slots=True, eq=False)
class JobView:
    """One job, its volatile side, and how it looks."""

    index: int
    record: JobRecord
    live: Live | None
    warned: tuple[Warned, ...]
    look: Look

    @property
    def name(self) -> str:
        """The job's name as the engine knows it; not cleaned."""
        return self.record.spec.name

    @property
    def stage(self) -> str:
        """The job's stage, empty when the plan has none."""
        return self.record.spec.stage

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt."""
        return self.record.attempt

    @property
    def needs_you(self) -> bool:
        """Whether a person is needed: for its state, or for a warning."""
        return self.explains_itself or any(
            entry.severity != "info" for entry in self.warned
        )

    @property
    def explains_itself(self) -> bool:
        """Whether a person is needed for its state, and for no other job's."""
        return self.look in NEEDS or unexplained(self.record)

    def status(self, index: int) -> ConditionStatus | None:
        """A start condition's recorded verdict, its reason as fresh as it is known."""
        start = self.record.start
        recorded = start[index] if index < len(start) else None
        fresh = self.live.start if self.live is not None else ()
        verdict = fresh[index] if index < len(fresh) else None
        if recorded is None or verdict is None or recorded.waived:
            return recorded
        return replace(recorded, result=verdict.result, why=verdict.why)

    @property
    def step(self) -> int | None:
        """The newest known step; None for a program that counts none.

        What writes one row of results has its number 1 for a step, and no total.
        """
        told = self.live.step if self.live is not None else None
        if told is None and self.record.noted is not None:
            told = self.record.noted.step
        return told if told is None or told > 1 or self.total else None

    @property
    def total(self) -> int | None:
        """The last step, when something tells it."""
        if self.live is not None and self.live.total:
            return self.live.total
        noted = self.record.noted.total if self.record.noted else None
        return noted or self.record.spec.progress_total

    @property
    def result(self) -> float | None:
        """The number that the job is for; None: not known, or an older engine's."""
        if self.live is not None and self.live.result is not None:
            return self.live.result
        noted = self.record.noted
        return float(noted.result) if noted and noted.result is not None else None

    def metric(self, name: str) -> float | None:
        """The newest value of a metric; may be nan or inf."""
        if self.live is not None and name in self.live.metrics:
            return self.live.metrics[name]
        value = self.record.noted.values.get(name) if self.record.noted else None
        return None if value is None else float(value)


class Links:
    """Who waits for whom in a plan, worked out once, when first asked for."""

    def __init__(self, plan: Plan | None) -> None:
        self.plan = plan

    @cached_property
    def behind(self) -> Mapping[str, tuple[str, ...]]:
        """Job -> jobs that wait for it directly."""
        return _edges(self.plan, forward=True)

    @cached_property
    def upstream(self) -> Mapping[str, tuple[str, ...]]:
        """Job -> jobs that it waits for directly."""
        return _edges(self.plan, forward=False)

    @cached_property
    def stages(self) -> Mapping[str, tuple[str, ...]]:
        """Stage -> stages that it follows from, each after those before it."""
        if self.plan is None:
            return {}
        # The first paint has no plan, and comes before whatever plans need.
        from autoexp_tui.planning.dag import find_stage_parents

        return find_stage_parents(self.plan)


@dataclass(frozen=True, slots=True, eq=False)
class SessionView:
    """A snapshot with every job looked at."""

    snapshot: Snapshot
    jobs: tuple[JobView, ...]
    index: Mapping[str, int]
    """Job name -> place in `jobs`."""
    counts: Mapping[Look, int]
    links: Links
    changed: tuple[JobSpec, ...] = ()
    """Of the jobs that run with other values than the plan's."""
    silent_until: float = 0.0
    """Time `t` until which an engine at rest had nothing to say; 0: nobody looked."""

    @property
    def now(self) -> Present:
        """When the engine said its newest word, or was last silent at rest."""
        engine = self.snapshot.engine
        newest = max(self.snapshot.t, engine.committed_at, self.silent_until)
        return Present(newest, self.snapshot.wall_ahead)

    def present(self, utc: float) -> Present:
        """What `utc`, by the machine's clock, is in the session's time."""
        ahead = self.snapshot.wall_ahead
        return Present(utc - ahead, ahead)

    @property
    def at_rest(self) -> bool:
        """Whether the engine says nothing because nothing happens: ages go on."""
        engine = self.snapshot.engine
        return engine.role != "replay" and engine.owner_alive and not self.active

    @property
    def loss(self) -> str:
        """The metric that curves begin with."""
        plan = self.snapshot.plan
        return plan.monitoring.loss if plan else ""

    def result_of(self, job: JobView) -> float | None:
        """What the job's LOSS column shows; may be nan or inf."""
        if job.result is not None or self.snapshot.plan is None:
            return job.result
        rules = self.snapshot.plan.rules_of(job.record.spec)
        return job.metric(rules.result.metric or rules.loss)

    def count(self, *looks: Look) -> int:
        """How many jobs look like one of `looks`."""
        return sum(self.counts.get(look, 0) for look in looks)

    def job(self, name: str) -> JobView | None:
        """The job of that name, None when the session has none."""
        place = self.index.get(name)
        return None if place is None else self.jobs[place]

    def named(self, names: Sequence[str]) -> tuple[JobView, ...]:
        """The jobs of those names that exist, in the order given."""
        found = (self.job(name) for name in names)
        return tuple(job for job in found if job is not None)

    @property
    def behind(self) -> Mapping[str, tuple[str, ...]]:
        """Job -> jobs that wait for it directly."""
        return self.links.behind

    @property
    def upstream(self) -> Mapping[str, tuple[str, ...]]:
        """Job -> jobs that it waits for directly."""
        return self.links.upstream

    @property
    def active(self) -> bool:
        """Whether an attempt exists outside, or may exist."""
        return bool(
            self.count(
                Look.RUNNING,
                Look.STALLED,
                Look.SUSPENDED,
                Look.ENDING,
                Look.QUEUED,
                Look.SENDING,
                Look.IN_DOUBT,
                Look.RETRYING,
            )
        )


def build_session(snapshot: Snapshot, before: SessionView | None = None) -> SessionView:
    """The view of `snapshot`; parts that `before` had already are shared."""
    warned = _warnings_by_job(snapshot)
    old = before.jobs if before else ()
    jobs = [
        _job_view(old[place] if place < len(old) else None, place, *parts)
        for place, parts in enumerate(_parts(snapshot, warned))
    ]
    return SessionView(
        snapshot=snapshot,
        jobs=tuple(jobs),
        index=_index(jobs, snapshot.plan, before),
        counts=_counts(jobs),
        links=_links(snapshot.plan, before),
        changed=tuple(
            job.record.spec for job in jobs if job.record.spec.planned is not None
        ),
        silent_until=before.silent_until if before else 0.0,
    )


def _links(plan: Plan | None, before: SessionView | None) -> Links:
    if before is not None and before.links.plan is plan:
        return before.links
    return Links(plan)


def _parts(
    snapshot: Snapshot, warned: Mapping[str, tuple[Warned, ...]]
) -> Sequence[tuple[JobRecord, Live | None, tuple[Warned, ...], bool]]:
    none: tuple[Warned, ...] = ()
    now = max(snapshot.t, snapshot.engine.committed_at)
    return [
        (
            record,
            live,
            own := warned.get(record.spec.name, none) if warned else none,
            record.state is JobState.RUNNING
            and _stands_still(live, own, now, _patience(snapshot.plan, record)),
        )
        for record, live in zip(snapshot.jobs, snapshot.live, strict=True)
    ]


def _job_view(
    old: JobView | None,
    place: int,
    record: JobRecord,
    live: Live | None,
    warned: tuple[Warned, ...],
    stalled: bool,  # noqa: FBT001
) -> JobView:
    if old is not None and old.record is record:
        if old.live is live and old.warned == warned:
            still = old.look is Look.STALLED
            if still == stalled:
                return old
        if record.state is not JobState.RUNNING:
            return JobView(place, record, live, warned, old.look)
    look = look_of(record, stalled=stalled, leaving=_is_leaving(live))
    return JobView(place, record, live, warned, look)


def _is_leaving(live: Live | None) -> bool:
    """Whether a run is over, and how it ended is not known yet."""
    return live is not None and live.queue is not None and live.queue.leaving


def _patience(plan: Plan | None, record: JobRecord) -> float:
    """Seconds without a step after which the job counts as stalled."""
    return plan.rules_of(record.spec).stall_after_seconds if plan else inf


def _stands_still(
    live: Live | None, warned: tuple[Warned, ...], now: float, after: float
) -> bool:
    if any(entry.why.code.startswith(STALL_CODES) for entry in warned):
        return True
    moved = live.last_step_at if live is not None else None
    return moved is not None and after > 0 and now - moved > after


def _warnings_by_job(snapshot: Snapshot) -> Mapping[str, tuple[Warned, ...]]:
    found: dict[str, tuple[Warned, ...]] = {}
    for entry in snapshot.warnings:
        if entry.job:
            found[entry.job] = (*found.get(entry.job, ()), entry)
    return found


def _index(
    jobs: Sequence[JobView], plan: Plan | None, before: SessionView | None
) -> Mapping[str, int]:
    same = before is not None and before.snapshot.plan is plan
    if before is not None and same and len(before.jobs) == len(jobs):
        return before.index
    return {job.name: job.index for job in jobs}


def _counts(jobs: Sequence[JobView]) -> Mapping[Look, int]:
    counts: dict[Look, int] = {}
    for job in jobs:
        counts[job.look] = counts.get(job.look, 0) + 1
    return counts


def _edges(plan: Plan | None, *, forward: bool) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for edge in plan.edges if plan else ():
        if edge.mode == "waits":
            key, value = (
                (edge.before, edge.after) if forward else (edge.after, edge.before)
            )
            found.setdefault(key, []).append(value)
    return {name: tuple(dict.fromkeys(others)) for name, others in found.items()}


def measure_run(job: JobView, now: float) -> float | None:
    """How long the newest attempt has run, or ran; None when it never began."""
    attempt = job.attempt
    if attempt is None or attempt.began_at is None:
        return None
    end = attempt.ended_at if attempt.ended_at is not None else now
    return max(0.0, end - attempt.began_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Jobs that a verb acts on, in plan order, and how they were chosen."""

    jobs: tuple[JobView, ...]
    by_marks: bool = False
    hidden: int = 0
    """Marked ones that the table does not show just now."""
    title: str = ""
    """The row, stage, family or cause they stand under."""

    @property
    def words(self) -> str:
        """`3 marked jobs, 1 of them hidden by the filter`, or the row's title."""
        if not self.by_marks:
            return self.title
        count = plural(len(self.jobs), "marked job")
        hidden = f", {self.hidden} of them hidden by the filter" if self.hidden else ""
        return f"{count}{hidden}"


def choose_scope(
    session: SessionView,
    marks: Collection[str],
    shown: Callable[[], Collection[str]],
    under_cursor: Sequence[JobView],
    title: str = "",
) -> Scope:
    """The scope of a verb.

    Args:
        session: as shown.
        marks: names of marked jobs.
        shown: tells the names of the jobs that have a row now.
        under_cursor: the jobs of the row, or header, under the cursor.
        title: what that row is called.
    """
    marked = _in_plan_order(session.named(tuple(marks)))
    if marked:
        visible = shown()
        hidden = sum(1 for job in marked if job.name not in visible)
        return Scope(jobs=marked, by_marks=True, hidden=hidden)
    jobs = _in_plan_order(under_cursor)
    name = title or (outside(jobs[0].name) if len(jobs) == 1 else "")
    return Scope(jobs=jobs, title=name)


def _in_plan_order(jobs: Sequence[JobView]) -> tuple[JobView, ...]:
    return tuple(sorted(jobs, key=lambda job: job.index))
