"""Which rows the job table has, in which order, and what is folded into one.

A sort is taken once, when it is asked for, so that rows do not wander while a person
reads them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from autoexp_tui.cockpit.state.causes import URGENCY, build_cause_key
from autoexp_tui.cockpit.state.status import Look

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.filtering import Filter
    from autoexp_tui.cockpit.state.session import JobView, SessionView

Kind: TypeAlias = Literal[
    "state", "stage", "parameter", "progress", "loss", "trend", "time", "id", "why"
]
Order: TypeAlias = Literal["plan", "needs", "column"]

_ALONE: Final = frozenset({Look.RUNNING, Look.ASKS})
"""Looks that never fold: each of these jobs is a story of its own."""
_LARGEST_FIRST: Final = frozenset({"progress", "time"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: what it shows, its title, its cells."""

    kind: Kind
    title: str
    cells: int
    key: str = ""
    """The parameter's key."""
    right: bool = False


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


def build_rows(session: SessionView, wanted: Arrangement) -> tuple[Row, ...]:
    """The rows for a session, as wanted."""
    jobs: Sequence[JobView] = session.jobs
    if wanted.only is not None:
        index = session.index
        places = sorted(index[name] for name in wanted.only[1] if name in index)
        jobs = [jobs[place] for place in places]
    if wanted.filter is not None:
        jobs = [job for job in jobs if wanted.filter.keeps(job)]
    if wanted.order == "needs":
        jobs = sorted(jobs, key=find_urgency)
    elif wanted.order == "column":
        last = len(wanted.ranks)
        jobs = sorted(jobs, key=lambda job: wanted.ranks.get(job.name, last))
    if not wanted.fold:
        return tuple([Row(job.name, (job.index,)) for job in jobs])
    groups: dict[str, list[JobView]] = {}
    for job in jobs:
        key = job.name
        if job.look not in _ALONE:
            cause = f"\x1f{job.stage}\x1f{build_cause_key(job)}"
            key = key if cause in wanted.unfolded else cause
        groups.setdefault(key, []).append(job)
    return tuple(
        Row(
            key if len(members) > 1 else members[0].name,
            tuple(job.index for job in members),
        )
        for key, members in groups.items()
    )


def find_urgency(job: JobView) -> int:
    """Sorts what needs a person first; ties keep plan order."""
    if job.look in URGENCY:
        return URGENCY[job.look]
    if job.warned or job.is_needy:
        return len(URGENCY)
    return len(URGENCY) + (1 if job.look is Look.RUNNING else 2)


def sort_by(session: SessionView, column: Column, current: Arrangement) -> Arrangement:
    """`current` sorted by a column, the other way round where it was already; jobs
    without a value come last either way."""
    keys = {job.name: _build_sort_key(job, column, session) for job in session.jobs}
    again = current.order == "column" and current.column == column.title
    back = again and not current.reversed
    jobs = sorted(session.jobs, key=lambda job: keys[job.name], reverse=back)
    jobs.sort(key=lambda job: keys[job.name] == _MISSING)
    return replace(
        current,
        order="column",
        column=column.title,
        reversed=back,
        last_column=column.title,
        ranks={job.name: place for place, job in enumerate(jobs)},
    )


def is_falling(columns: Sequence[Column], current: Arrangement) -> bool:
    """Whether the column sorted by has its largest values on top."""
    kinds = (column.kind for column in columns if column.title == current.column)
    return (next(kinds, "") in _LARGEST_FIRST) != current.reversed


def sort_next(
    session: SessionView, columns: Sequence[Column], current: Arrangement
) -> Arrangement:
    """What `,` sorts by: a column, its reverse, plan order, again the last column."""
    if current.order == "column" and current.reversed:
        return replace(current, order="plan", column="", ranks={})
    wanted = current.column if current.order == "column" else current.last_column
    column = next((one for one in columns if one.title == wanted), columns[0])
    return sort_by(session, column, current)


def sort_beside(
    session: SessionView, columns: Sequence[Column], current: Arrangement, step: int
) -> Arrangement:
    """Sorted by the column `step` places to the right, going round."""
    names = [column.title for column in columns]
    place = names.index(current.column) if current.column in names else -step
    column = columns[(place + step) % len(columns)]
    return sort_by(session, column, replace(current, column=""))


_SortKey: TypeAlias = tuple[int, float, str]
_MISSING: Final[_SortKey] = (9, 0.0, "")
"""The key of a job that has no value."""


_LOOKS: Final = {look: place for place, look in enumerate(Look)}


def _build_sort_key(job: JobView, column: Column, session: SessionView) -> _SortKey:
    match column.kind:
        case "state":
            return (find_urgency(job), float(_LOOKS[job.look]), "")
        case "stage":
            return (0, 0.0, job.stage)
        case "parameter":
            value = job.record.spec.parameters.get(column.key)
            if isinstance(value, int | float) and not isinstance(value, bool):
                return (0, float(value), "")
            return _MISSING if value is None else (1, 0.0, str(value))
        case "progress" if job.step is not None:
            share = (0, -job.step / job.total, "") if job.total else None
            return share or (1, -float(job.step), "")
        case "loss" | "trend":
            result = session.find_result(job)
            ill = result is None or math.isnan(result)
            return _MISSING if ill else (0, result or 0.0, "")
        case "time":
            ran = job.measure_run(session.now)
            return _MISSING if ran is None else (0, -ran, "")
        case "id" if job.attempt:
            return (0, 0.0, job.attempt.executor_id)
        case "why":
            return (0, 0.0, build_cause_key(job))
    return _MISSING
