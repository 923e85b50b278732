"""The session as the screens see it, and how its jobs look: never by colour alone.

`build_session` shares everything that did not change with the view before: with 10,000
jobs a snapshot that touched 20 of them costs 20 looks and one pass of identity checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.spans import Role, Span, outside
from autoexp_tui.model.masking import NO_RULES, MaskRules
from autoexp_tui.model.resubmission import asks, is_doomed, list_open_asks
from autoexp_tui.model.snapshot import Live, Snapshot
from autoexp_tui.model.states import JobState, Why
from autoexp_tui.text.spelling import Present, plural

if TYPE_CHECKING:
    from autoexp_tui.model.specs import JobSpec, Plan
    from autoexp_tui.model.state import Ask, Attempt, ConditionStatus, JobRecord, Warned


class Look(StrEnum):
    """What a job looks like, in the order in which counts are told."""

    glyph: str
    twin: str
    """The glyph in ASCII, one cell wide."""
    role: Role

    def __new__(cls, word: str, glyph: str, twin: str, role: Role) -> Look:
        """A look by its word, glyph, ASCII twin and role."""
        made = str.__new__(cls, word)
        made._value_ = word
        made.glyph, made.twin, made.role = glyph, twin, role
        return made

    DONE = "done", "✓", "+", "done"
    RUNNING = "running", "▸", "o", "running"
    STALLED = "stalled", "‖", "|", "stalled"
    SUSPENDED = "suspended", "□", "=", "queued"
    ENDING = "ending", "◂", "<", "running"
    SENDING = "sending", "↑", "^", "queued"
    IN_DOUBT = "in doubt", "≈", "~", "asks"
    QUEUED = "queued", "⧗", ":", "queued"
    RETRYING = "retrying", "↻", "@", "queued"
    WAITING = "waiting", "◌", ".", "waiting"
    ASKS = "asks", "?", "?", "asks"
    DOOMED = "cannot start", "⊘", "&", "doomed"
    HELD = "held", "‗", "_", "skipped"
    PLANNED = "planned", "·", ",", "waiting"
    FAILED = "failed", "✗", "x", "failed"
    LOST = "lost", "∅", "%", "failed"
    CANCELLED = "cancelled", "×", "/", "skipped"
    SKIPPED = "skipped", "–", "-", "skipped"


NEEDS: Final = (Look.FAILED, Look.LOST, Look.STALLED, Look.DOOMED, Look.ASKS)
"""Looks that need a person, most urgent first."""
ENDED_BADLY: Final = frozenset({Look.FAILED, Look.LOST})
BEGUN_LOOKS: Final = frozenset(
    {Look.RUNNING, Look.STALLED, Look.SUSPENDED, Look.ENDING}
)
"""Looks of jobs that have begun and not ended."""

_OTHER_NAMES: Final = {
    JobState.SUBMITTING: Look.SENDING,
    JobState.SUBMIT_UNKNOWN: Look.IN_DOUBT,
    JobState.COMPLETED: Look.DONE,
}
STATE_LOOKS: Final[Mapping[JobState, Look]] = {
    state: _OTHER_NAMES.get(state) or Look[state.name] for state in JobState
}


def find_look(record: JobRecord, *, stalled: bool, leaving: bool = False) -> Look:
    """The job's look; `leaving`: its run is over, and how it ended is not known yet."""
    if record.state is JobState.RUNNING and (leaving or stalled):
        return Look.ENDING if leaving else Look.STALLED
    if asks(record):
        return Look.ASKS
    return Look.DOOMED if is_doomed(record) else STATE_LOOKS[record.state]


def render_badge(look: Look) -> Span:
    """Glyph and word: `✗ failed`."""
    return Span(f"{look.glyph} {look.value}", look.role)


def render_tally(look: Look, number: int, *, apart: bool = False) -> Span:
    """Glyph and count: `✗9`; `apart` where the glyph could be read as a digit's."""
    return Span(f"{look.glyph}{' ' if apart else ''}{number}", look.role)


def render_tallies(counts: Mapping[Look, int], *, apart: bool = False) -> list[Span]:
    """`✓28 ▸4 ‖2 ✗4`: every look that is there."""
    return [
        render_tally(one, counts[one], apart=apart) for one in Look if one in counts
    ]


def render_counts(counts: Mapping[Look, int], *, apart: bool = False) -> list[Span]:
    """`✓28 done`, `▸4 running`: every look that is there, with its word."""
    return [
        Span(f"{render_tally(one, counts[one], apart=apart).text} {one}", one.role)
        for one in Look
        if one in counts
    ]


def find_missing_file(why: Why | None) -> str:
    """The end of a file's path when its writer completed without it; else empty."""
    if why is None or why.code != "doomed_file" or why.arg("state") != "COMPLETED":
        return ""
    return "/".join(str(why.arg("path") or "").rsplit("/", 2)[-2:])


_NOTHING_LIVE = Live()
_ACTIVE = BEGUN_LOOKS | {Look.QUEUED, Look.SENDING, Look.IN_DOUBT, Look.RETRYING}


@dataclass(frozen=True, slots=True, eq=False)
class JobView:
    """One job, its volatile side, and how it looks."""

    index: int
    record: JobRecord
    live: Live
    """What its log said last; all empty where nothing is known."""
    warned: tuple[Warned, ...]
    look: Look
    session: str = ""
    """The id of another session that is compared; empty: the cockpit's own."""

    @property
    def name(self) -> str:
        return self.record.spec.name

    @property
    def stage(self) -> str:
        return self.record.spec.stage

    @property
    def attempt(self) -> Attempt | None:
        return self.record.attempt

    @property
    def is_needy(self) -> bool:
        """Whether a person is needed: for its state, or for a warning."""
        grave = (entry.severity != "info" for entry in self.warned)
        over = self.record.is_over_as_trial
        return self.explains_itself or (any(grave) and not over)

    @property
    def explains_itself(self) -> bool:
        """Whether a person is needed for its state, and for no other job's."""
        if self.record.is_over_as_trial:
            return False
        if self.look is Look.SKIPPED:  # for a file: no failure of another explains it
            return bool(find_missing_file(self.record.why))
        return self.look in NEEDS

    def find_status(self, index: int) -> ConditionStatus | None:
        """A start condition's recorded verdict, its reason as fresh as it is known."""
        recorded = next(iter(self.record.start[index : index + 1]), None)
        verdict = next(iter(self.live.start[index : index + 1]), None)
        if recorded is None or verdict is None or recorded.waived:
            return recorded
        return replace(recorded, result=verdict.result, why=verdict.why)

    @property
    def step(self) -> int | None:
        """The newest known step; None for a program that counts none: the number 1 of
        one row of results is no step."""
        step = self.live.step
        if step is None and self.record.noted is not None:
            step = self.record.noted.step
        return step if step is None or step > 1 or self.total else None

    @property
    def total(self) -> int | None:
        """The last step, when something tells it."""
        noted = self.record.noted.total if self.record.noted else None
        return self.live.total or noted or self.record.spec.progress_total

    @property
    def rate(self) -> float | None:
        return self.live.rate if (self.live.rate or 0.0) > 0 else None

    @property
    def has_run(self) -> bool:
        """Whether there is a curve, or a log to read one from."""
        began = self.attempt is not None and self.attempt.began_at is not None
        return bool(self.live.curves) or began

    @property
    def queue_reason(self) -> str:
        """What the executor says of a job that it has; may be empty."""
        return self.live.queue.reason if self.live.queue is not None else ""

    def list_metrics(self) -> dict[str, float]:
        """The newest values; of a job that ended long ago those that were journaled."""
        noted = self.record.noted.values if self.record.noted else {}
        known = {name: float(value) for name, value in noted.items()}
        return {**known, **self.live.metrics}

    def find_metric(self, name: str) -> float | None:
        """The newest value of one metric; None where the job has none."""
        noted = self.record.noted.values if self.record.noted else {}
        value = self.live.metrics.get(name, noted.get(name))
        return None if value is None else float(value)

    def measure_run(self, now: float) -> float | None:
        """How long the newest attempt has run, or ran; None when it never began."""
        return measure_run(self.attempt, now)


def measure_run(attempt: Attempt | None, now: float) -> float | None:
    """Seconds that an attempt has run, or ran; None when it never began."""
    if attempt is None or attempt.began_at is None:
        return None
    end = attempt.ended_at if attempt.ended_at is not None else now
    return max(0.0, end - attempt.began_at)


def count_looks(jobs: Iterable[JobView]) -> Mapping[Look, int]:
    return Counter(job.look for job in jobs)


class Links:
    """Who waits for whom in a plan, worked out once, when first asked for."""

    def __init__(self, plan: Plan | None) -> None:
        self.plan = plan

    @cached_property
    def behind(self) -> Mapping[str, Collection[str]]:
        """Job -> jobs that wait for it directly."""
        return self._group_waits("before", "after")

    @cached_property
    def upstream(self) -> Mapping[str, Collection[str]]:
        """Job -> jobs that it waits for directly."""
        return self._group_waits("after", "before")

    def _group_waits(self, end: str, other: str) -> Mapping[str, Collection[str]]:
        found: dict[str, dict[str, None]] = {}
        for edge in self.plan.edges if self.plan else ():
            if edge.mode == "waits":
                found.setdefault(getattr(edge, end), {})[getattr(edge, other)] = None
        return found

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
    def id(self) -> str:
        """By which it is found: a copy has another than it says; empty: of a plan."""
        directory = self.snapshot.engine.directory.rstrip("/")
        return directory.rsplit("/", 1)[-1] or self.snapshot.session

    @property
    def now(self) -> Present:
        """When the engine said its newest word, or was last silent at rest."""
        engine = self.snapshot.engine
        newest = max(self.snapshot.t, engine.committed_at, self.silent_until)
        return Present(newest, self.snapshot.wall_ahead)

    @property
    def lived(self) -> float:
        """For how long engines of the session had lived by then."""
        return self.now - self.snapshot.absent

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
    def mask(self) -> MaskRules:
        """What of texts is not shown."""
        return self.snapshot.plan.mask if self.snapshot.plan else NO_RULES

    @property
    def loss(self) -> str:
        """The metric that curves begin with."""
        plan = self.snapshot.plan
        return plan.monitoring.loss if plan else ""

    def find_result(self, job: JobView) -> float | None:
        """What the job's LOSS column shows; may be nan or inf."""
        plan, noted = self.snapshot.plan, job.record.noted
        if job.live.result is not None:
            return job.live.result
        if noted is not None and noted.result is not None:
            return float(noted.result)
        if plan is None:
            return None
        rules = plan.rules_of(job.record.spec)
        return job.find_metric(rules.result.metric or rules.loss)

    @property
    def asks(self) -> Mapping[str, Ask]:
        """The questions that are no job's and stand open."""
        return list_open_asks(self.snapshot.asks)

    def find_asks(self, kinds: Collection[str]) -> Mapping[str, Ask]:
        """Those of some kinds, which stand before the `/` of their names."""
        asks = self.asks.items()
        return {name: ask for name, ask in asks if name.partition("/")[0] in kinds}

    def count(self, *looks: Look) -> int:
        """How many jobs look like one of `looks`."""
        return sum(self.counts.get(look, 0) for look in looks)

    def find_job(self, name: str) -> JobView | None:
        place = self.index.get(name)
        return None if place is None else self.jobs[place]

    def list_jobs(self, names: Iterable[str]) -> tuple[JobView, ...]:
        return tuple(job for name in names if (job := self.find_job(name)) is not None)

    @property
    def active(self) -> bool:
        """Whether an attempt exists outside, or may exist."""
        return bool(self.count(*_ACTIVE))

    @property
    def is_beside_alone(self) -> bool:
        """Whether those that do run beside: the session's executor is not asked."""
        active = (job for job in self.jobs if job.look in _ACTIVE)
        return all(job.record.spec.place == "beside" for job in active)


def build_session(
    snapshot: Snapshot, before: SessionView | None = None, other: str = ""
) -> SessionView:
    """The view of `snapshot`; parts that `before` had already are shared. `other`: the
    id of a session that is not the cockpit's own."""
    plan, now = snapshot.plan, max(snapshot.t, snapshot.engine.committed_at)
    warnings: dict[str, tuple[Warned, ...]] = {}
    for entry in snapshot.warnings:
        if entry.job:
            warnings[entry.job] = (*warnings.get(entry.job, ()), entry)
    old = before.jobs if before else ()
    jobs: list[JobView] = []
    pairs = zip(snapshot.jobs, snapshot.live, strict=True)
    for place, (record, known) in enumerate(pairs):
        live = known or _NOTHING_LIVE
        warned = warnings.get(record.spec.name, ()) if warnings else ()
        running = record.state is JobState.RUNNING
        stalled = running and _is_stalled(record, live, warned, now, plan)
        job = old[place] if place < len(old) else None
        same = job and job.record is record and job.live is live
        if job and same and (job.warned, job.look is Look.STALLED) == (warned, stalled):
            jobs.append(job)
            continue
        leaving = live.queue is not None and live.queue.leaving
        look = find_look(record, stalled=stalled, leaving=leaving)
        jobs.append(JobView(place, record, live, warned, look, other))
    same_plan = before is not None and before.snapshot.plan is plan
    return SessionView(
        snapshot=snapshot,
        jobs=tuple(jobs),
        index=before.index
        if before is not None and same_plan and len(old) == len(jobs)
        else {job.name: job.index for job in jobs},
        counts=count_looks(jobs),
        links=before.links if before is not None and same_plan else Links(plan),
        changed=tuple(
            job.record.spec for job in jobs if job.record.spec.planned is not None
        ),
        silent_until=before.silent_until if before else 0.0,
    )


def _is_stalled(
    record: JobRecord,
    live: Live,
    warned: tuple[Warned, ...],
    now: float,
    plan: Plan | None,
) -> bool:
    """Whether somebody says so, or its last step is long past."""
    if any(entry.is_stall for entry in warned):
        return True
    after = plan.rules_of(record.spec).stall_after_seconds if plan else inf
    return after > 0 and now - (live.last_step_at or inf) > after


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Jobs that a verb acts on, in plan order, and how they were chosen."""

    jobs: tuple[JobView, ...]
    by_marks: bool = False
    hidden: int = 0
    """Marked ones that the table does not show just now."""
    title: str = ""
    """The row, stage, family or cause they stand under."""
    asks: tuple[str, ...] = ()
    """Names of questions that are no job's, under the cursor."""

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
    """The scope of a verb: the marks, also those that a filter hides (`shown` has a
    row), else the row under the cursor, which is called `title`."""
    if marked := sort_jobs(session.list_jobs(marks)):
        visible = shown()
        hidden = sum(job.name not in visible for job in marked)
        return Scope(jobs=marked, by_marks=True, hidden=hidden)
    jobs = sort_jobs(under_cursor)
    name = title or (outside(jobs[0].name) if len(jobs) == 1 else "")
    return Scope(jobs=jobs, title=name)


def sort_jobs(jobs: Iterable[JobView]) -> tuple[JobView, ...]:
    return tuple(sorted(jobs, key=lambda job: job.index))
