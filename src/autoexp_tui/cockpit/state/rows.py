"""Which columns the job table has at a width, and what stands in them.

WHY never goes. As the screen narrows the others leave in a fixed order: executor id,
TREND, TIME, the third parameter; last the progress becomes a percentage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from autoexp_tui.cockpit.state.causes import build_cause_key
from autoexp_tui.cockpit.state.session import measure_run
from autoexp_tui.cockpit.state.status import NEEDS, Look

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.filtering import Filter
    from autoexp_tui.cockpit.state.session import JobView, SessionView


Kind: TypeAlias = Literal[
    "state", "stage", "parameter", "progress", "loss", "trend", "time", "id", "why"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: what it shows, its title, its cells."""

    kind: Kind
    title: str
    cells: int
    key: str = ""
    """The parameter's key."""
    right: bool = False


Order: TypeAlias = Literal["plan", "needs", "column"]


_URGENCY: Mapping[Look, int] = {look: place for place, look in enumerate(NEEDS)}


_ALONE = frozenset({Look.RUNNING, Look.ASKS})
"""Looks that never fold: each of these jobs is a story of its own."""


class Row(NamedTuple):
    """A line of the job table; there may be ten thousand."""

    key: str
    """Stable over snapshots: the job's name, or the cause of a folded group."""
    jobs: tuple[int, ...]
    """Places in the session's `jobs`."""

    @property
    def folded(self) -> bool:
        """Whether it stands for several jobs."""
        return len(self.jobs) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """How a person wants the rows: order, filter, folding."""

    order: Order = "plan"
    column: str = ""
    """With order `column`: its title."""
    reversed: bool = False
    """With order `column`: whether it is the other way round."""
    last_column: str = ""
    """The column that was sorted by last, also when plan order is back."""
    ranks: Mapping[str, int] = field(default_factory=dict)
    """With order `column`: job name -> place, as it was when the sort was asked."""
    filter: Filter | None = None
    only: tuple[str, frozenset[str]] | None = None
    """A title and the names it lets through: a stage, a family, a cause."""
    fold: bool = False
    unfolded: frozenset[str] = frozenset()
    """Causes that a person opened."""


def build_single_rows(session: SessionView) -> tuple[Row, ...]:
    """A row for every job, in plan order."""
    return tuple(Row(job.name, (job.index,)) for job in session.jobs)


def build_rows(
    session: SessionView, wanted: Arrangement, singles: tuple[Row, ...] | None = None
) -> tuple[Row, ...]:
    """The rows for a session, as wanted.

    `singles`: the session's `single_rows`, where they are at hand; plain plan order
    is these very rows.
    """
    singles = build_single_rows(session) if singles is None else singles
    if wanted.only is None and _plain(wanted):
        return singles
    jobs: Sequence[JobView] = session.jobs
    if wanted.only is not None:
        index = session.index
        places = sorted(index[name] for name in wanted.only[1] if name in index)
        if _plain(wanted):
            return tuple([singles[place] for place in places])
        jobs = [jobs[place] for place in places]
    if wanted.filter is not None:
        jobs = [job for job in jobs if wanted.filter.keeps(job)]
    jobs = _ordered(jobs, wanted)
    if wanted.fold:
        return _folded(jobs, wanted.unfolded)
    return tuple([singles[job.index] for job in jobs])


def _plain(wanted: Arrangement) -> bool:
    """Whether neither order nor filter nor folding looks at any job."""
    return wanted.order == "plan" and not (wanted.filter or wanted.fold)


def _ordered(jobs: Sequence[JobView], wanted: Arrangement) -> Sequence[JobView]:
    if wanted.order == "needs":
        return sorted(jobs, key=sort_urgency)
    if wanted.order == "column":
        last = len(wanted.ranks)
        return sorted(jobs, key=lambda job: wanted.ranks.get(job.name, last))
    return jobs


def sort_urgency(job: JobView) -> int:
    """Sorts what needs a person first; ties keep plan order."""
    if job.look in _URGENCY:
        return _URGENCY[job.look]
    if job.warned or job.needs_you:
        return len(_URGENCY)
    return len(_URGENCY) + (1 if job.look is Look.RUNNING else 2)


def _folded(jobs: Sequence[JobView], unfolded: frozenset[str]) -> tuple[Row, ...]:
    groups: dict[str, list[JobView]] = {}
    for job in jobs:
        key = build_fold_key(job)
        groups.setdefault(job.name if key in unfolded else key, []).append(job)
    return tuple(_row(key, members) for key, members in groups.items())


def _row(key: str, members: Sequence[JobView]) -> Row:
    if len(members) == 1:
        return Row(members[0].name, (members[0].index,))
    return Row(key, tuple(job.index for job in members))


def build_fold_key(job: JobView) -> str:
    """Equal for jobs that fold into one row."""
    if job.look in _ALONE:
        return job.name
    return f"\x1f{job.stage}\x1f{build_cause_key(job)}"


def sort_by(session: SessionView, column: Column, current: Arrangement) -> Arrangement:
    """`current` sorted by a column, as its values are now.

    The other way round when it was sorted by that column already. Jobs without a value
    come last either way.
    """
    value = _SORTS[column.kind]
    keys = {job.name: value(job, column, session) for job in session.jobs}
    again = current.order == "column" and current.column == column.title
    back = again and not current.reversed
    jobs = sorted(session.jobs, key=lambda job: keys[job.name], reverse=back)
    jobs.sort(key=lambda job: keys[job.name][0] == _MISSING)
    return replace(
        current,
        order="column",
        column=column.title,
        reversed=back,
        last_column=column.title,
        ranks={job.name: place for place, job in enumerate(jobs)},
    )


_LARGEST_FIRST = frozenset({"progress", "time"})


def is_falling(columns: Sequence[Column], current: Arrangement) -> bool:
    """Whether the column sorted by has its largest values on top."""
    kinds = (column.kind for column in columns if column.title == current.column)
    return (next(kinds, "") in _LARGEST_FIRST) != current.reversed


SortKey: TypeAlias = tuple[int, float, str]


_MISSING = 9
"""First in the key of a job that has no value."""


def _number(value: float | None, *, descending: bool = False) -> SortKey:
    if value is None or math.isnan(value):
        return (_MISSING, 0.0, "")
    return (0, -value if descending else value, "")


def _parameter(job: JobView, column: Column) -> SortKey:
    value = job.record.spec.parameters.get(column.key)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (0, float(value), "")
    return (_MISSING, 0.0, "") if value is None else (1, 0.0, str(value))


def _progress(job: JobView) -> SortKey:
    if job.step is None:
        return (_MISSING, 0.0, "")
    return (0, -job.step / job.total, "") if job.total else (1, -float(job.step), "")


_LOOKS = {look: place for place, look in enumerate(Look)}


_SORTS: Mapping[str, Callable[[JobView, Column, SessionView], SortKey]] = {
    "state": lambda job, column, session: (
        sort_urgency(job),
        float(_LOOKS[job.look]),
        "",
    ),
    "stage": lambda job, column, session: (0, 0.0, job.stage),
    "parameter": lambda job, column, session: _parameter(job, column),
    "progress": lambda job, column, session: _progress(job),
    "loss": lambda job, column, session: _number(session.result_of(job)),
    "trend": lambda job, column, session: _number(session.result_of(job)),
    "time": lambda job, column, session: _number(
        measure_run(job, session.now), descending=True
    ),
    "id": lambda job, column, session: (
        (0, 0.0, job.attempt.executor_id) if job.attempt else (_MISSING, 0.0, "")
    ),
    "why": lambda job, column, session: (0, 0.0, build_cause_key(job)),
}


def next_column(columns: Sequence[Column], current: Arrangement) -> Column | None:
    """What `,` sorts by: a column, the same again for its reverse, then none.

    None is plan order; from there the column that was sorted by last comes back.
    """
    if current.order == "column" and current.reversed:
        return None
    wanted = current.column if current.order == "column" else current.last_column
    return next((one for one in columns if one.title == wanted), columns[0])


def find_column(columns: Sequence[Column], current: Arrangement, step: int) -> Column:
    """The column `step` places to the right of the one sorted by, going round."""
    names = [column.title for column in columns]
    place = names.index(current.column) if current.column in names else -step
    return columns[(place + step) % len(columns)]
