"""What a person has arranged: order, filter, folds, marks; over the newest session.

It knows no widget and no engine; what it holds dies with the screen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from autoexp_tui.cockpit.spans import outside
from autoexp_tui.cockpit.state.forecast import (
    NO_CUTS,
    Ends,
    Rates,
    count_gpu_hours,
    estimate_ends,
    find_sure_cuts,
    measure_rates,
)
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.reasons import CauseGroup, group_causes
from autoexp_tui.cockpit.state.rows import Arrangement, Row, build_rows, is_stale
from autoexp_tui.cockpit.state.session import JobView, SessionView, build_session
from autoexp_tui.cockpit.state.stages import StageView, build_stages

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from autoexp_tui.model.snapshot import Live, Snapshot

JobKey: TypeAlias = tuple[str, str]
"""The id of another session, empty for the own one; a job's name."""
ESTIMATE_EVERY = 10.0
"""Seconds between two estimates of ends: they do not change faster."""
ESTIMATE_SELDOM = 60.0
"""The same for more than `MANY` jobs, where an estimate is felt in the fingers."""
AGES_EVERY = 10.0
"""Seconds after which ages are told anew while the engine has nothing to say."""
MANY = 2000


def estimate_outlook(session: SessionView) -> tuple[Ends, float, Rates]:
    """Estimated ends, GPU hours used, rates; reads frozen values alone."""
    return estimate_ends(session), count_gpu_hours(session), measure_rates(session)


class SessionModel:
    """The newest session, and how it is looked at."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.session: SessionView = build_session(snapshot)
        self.words = PlanWords(snapshot.plan, self.session.changed)
        self.failed = False
        """Whether what the engine says it is doing has ended without a result."""
        self.groups: tuple[CauseGroup, ...] = ()
        self._cuts = NO_CUTS
        self.ends = Ends()
        self.gpu_hours = 0.0
        self.rates: Rates = {}
        """Usual steps a second, by stage."""
        self.stages: tuple[StageView, ...] = ()
        self.arrangement = Arrangement()
        self.rows: tuple[Row, ...] = ()
        self.is_stale = False
        """Whether the rows are sorted by values that have changed since."""
        self.columns: tuple[str, ...] = ()
        """Ids of the table's columns as a person chose them; empty: the usual ones."""
        self.marks: set[str] = set()
        self.dropped: frozenset[str] = frozenset()
        """The marks that were given up last, while there are no newer ones."""
        self.range_from = ""
        """The row at which `v` was pressed, empty when no range is open."""
        self.others: Mapping[str, SessionView] = {}
        """Sessions that are compared with it, by their ids."""
        self.left_out: dict[str, str] = {}
        """Sessions that were to be compared, and why they are not."""
        self.read: dict[JobKey, Live] = {}
        """What logs said of runs of which no engine tells curves."""
        self._estimated_at: float | None = None
        self._look()
        self._arrange()

    def describe_opening(self) -> str:
        """That all is still to come: `planning exp goes on`; empty when it is there."""
        doing = self.session.snapshot.engine.doing
        known = not doing or self.failed or self.session.jobs
        return "" if known else f"{outside(doing)} goes on"

    def take(self, snapshot: Snapshot) -> None:
        self.failed = False
        index = self.session.index
        self.session = build_session(snapshot, self.session)
        if snapshot.playback is not None and not self.has_many:
            self._estimated_at = None  # its time goes faster than the machine's
        if not self.words.is_of(self.session):
            self.words = PlanWords(snapshot.plan, self.session.changed)
            self.marks.intersection_update(self.session.index)
        self._look()
        if self.session.index is not index or not self.arrangement.is_of_plan:
            self._arrange()
        self.is_stale = is_stale(self.session, self.arrangement)

    def take_others(self, snapshots: Mapping[str, Snapshot]) -> bool:
        """Compare with these sessions, by their ids; whether any of them moved."""
        before = self.others
        known = [(one, seen, before.get(one)) for one, seen in snapshots.items()]
        self.others = {
            one: old
            if old and old.snapshot is seen
            else build_session(seen, old, other=one)
            for one, seen, old in known
        }
        return any(not old or old.snapshot is not seen for _, seen, old in known)

    @property
    def sessions(self) -> tuple[SessionView, ...]:
        """The cockpit's own, and those that it is compared with."""
        others = (one for at, one in self.others.items() if at != self.session.id)
        return (self.session, *others)

    def find_session(self, job: JobView) -> SessionView:
        """The session of a job."""
        return self.others.get(job.session, self.session)

    def list_runs(self, keys: Iterable[JobKey]) -> tuple[JobView, ...]:
        """Jobs of any of the sessions, with what their logs said."""
        views = {**self.others, "": self.session}
        found = (
            (key, job)
            for key in keys
            if (view := views.get(key[0])) and (job := view.find_job(key[1]))
        )
        return tuple(
            job if job.live.curves else replace(job, live=self.read.get(key, job.live))
            for key, job in found
        )

    def update_ages(self, utc: float) -> bool:
        """Let ages grow while the engine rests, up to the machine's `utc`; whether."""
        now = self.session.present(utc)
        if not self.session.at_rest or now - self.session.now < AGES_EVERY:
            return False
        self.session = replace(self.session, silent_until=now)
        return True

    def _look(self) -> None:
        self._cuts = find_sure_cuts(self.session, self._cuts)
        self.groups = group_causes(self.session, self.words, self._cuts)
        self.stages = build_stages(self.session, self.ends)

    @property
    def has_many(self) -> bool:
        """Whether an estimate takes so long that the keys would feel it."""
        return len(self.session.jobs) > MANY

    def is_due(self, now: float) -> bool:
        """Whether an estimate is due at `now` (monotonic); then it counts as made."""
        last = self._estimated_at
        every = ESTIMATE_SELDOM if self.has_many else ESTIMATE_EVERY
        if last is not None and 0 <= now - last < every:
            return False
        self._estimated_at = now
        return True

    def set_outlook(self, expected: Ends, hours: float, usual: Rates) -> None:
        """Take an estimate; it counts from the engine's newest word."""
        self.ends, self.gpu_hours, self.rates = expected, hours, usual
        self.stages = build_stages(self.session, self.ends)

    def _arrange(self) -> None:
        self.rows = build_rows(self.session, self.arrangement)

    def update_arrangement(
        self, wanted: Arrangement | None = None, **changes: object
    ) -> None:
        """Arrange the rows otherwise: as `wanted`, which is sorted as things stand now,
        else as before, with `changes`."""
        self.arrangement = replace(wanted or self.arrangement, **changes)  # type: ignore[arg-type]
        self.is_stale = wanted is None and is_stale(self.session, self.arrangement)
        self._arrange()

    def find_jobs(self, row: Row) -> tuple[JobView, ...]:
        return tuple(self.session.jobs[place] for place in row.jobs)

    def find_row(self, key: str) -> Row | None:
        return next((row for row in self.rows if row.key == key), None)

    def list_shown(self) -> set[str]:
        return {
            self.session.jobs[place].name for row in self.rows for place in row.jobs
        }

    def fold(self, *, on: bool) -> None:
        """Fold equal causes into one row each, or show every job."""
        if on != self.arrangement.fold:
            self.update_arrangement(fold=on, unfolded=frozenset())

    def next_need(self, after: str) -> JobView | CauseGroup | None:
        """The next job of a cause, or question, else the first of the next one, going
        round; `after`: a job's name, or the key of a question's cause."""
        needing: dict[str, JobView | CauseGroup] = {}  # some need you for two causes
        for group in self.groups:
            needing |= {job.name: job for job in group.jobs}
            needing |= {group.key: group} if group.asks else {}
        names = list(needing)
        place = names.index(after) + 1 if after in names else 0
        return needing[names[place % len(names)]] if names else None
