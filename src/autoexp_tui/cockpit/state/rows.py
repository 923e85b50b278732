"""Which rows the job table has, in which order, and what is folded into one.

A sort is taken once, when it is asked for, so that rows do not wander while a person
reads them. A filter is what a person types after `/`, words to find and comparisons to
hold: `failed lr>1e-3` keeps jobs that have *failed* somewhere in name, stage, state or
parameters, and whose one parameter ending in `lr` is above 1e-3. A text that reads as
an expression of the sweep's language is one.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from autoexp_tui.cockpit.state.parameters import Parameter, format_value
from autoexp_tui.cockpit.state.reasons import URGENCY, build_cause_key
from autoexp_tui.cockpit.state.session import JobView, Look, SessionView

Kind: TypeAlias = Literal[
    "state",
    "stage",
    "name",
    "parameter",
    "metric",
    "progress",
    "loss",
    "trend",
    "time",
    "id",
    "node",
    "attempt",
    "why",
]
Order: TypeAlias = Literal["plan", "needs", "column"]

_SortKey: TypeAlias = tuple[int, float, str]
_MISSING: Final[_SortKey] = (9, 0.0, "")
"""The key of a job that has no value."""
_LOOKS: Final = {look: place for place, look in enumerate(Look)}
_ALONE: Final = frozenset({Look.RUNNING, Look.ASKS})
"""Looks that never fold: each of these jobs is a story of its own."""

_TERM: Final = re.compile(r"^([\w.+~@/-]+?)(==|!=|<=|>=|=|<|>|:)(.+)$")
_EXPRESSION: Final = re.compile(
    r"(^|\s)([<>=!]=|[<>=])|([<>=!]=|[<>=])(\s|$)|[()]"
    r"|\b(and|or|not|in)\b.*([<>]|[!=]=)|([<>]|[!=]=).*\b(and|or|not|in)\b"
)
"""What no list of words and comparisons has: brackets, a sign that stands apart, a
keyword beside a sign."""
_UNFINISHED: Final = re.compile(r"([<>=!(,:]|\b(and|or|not|in))\s*$")
_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "==": operator.eq,
    ":": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: what it shows, its title, its cells."""

    kind: Kind
    title: str
    cells: int
    key: str = ""
    """Of a parameter, or a metric."""
    right: bool = False
    falling: bool = False
    """Whether a sort has its largest values on top."""
    entry: Parameter | None = None
    """The parameter."""

    @property
    def id(self) -> str:
        """What it is called where a person's choice of columns is kept."""
        return f"{self.kind}:{self.key}" if self.key else self.kind

    def find_text(self, job: JobView) -> str:
        """What a column of words says of a job; may be empty."""
        attempt = job.attempt
        executor_id, node = (attempt.executor_id, attempt.node) if attempt else ("", "")
        words = {"stage": job.stage, "name": job.name, "id": executor_id, "node": node}
        return words[self.kind]


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


class FilterError(ValueError):
    """What was typed asks for something that cannot be; a sentence says what."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter in force: its text, and what it keeps."""

    text: str
    keeps: Callable[[JobView], bool] = field(compare=False)
    names: tuple[str, ...] = field(default=(), compare=False)
    """What it asks of a job by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """How a person wants the rows: order, filter, folding."""

    order: Order = "plan"
    column: Column | None = None
    """The one that was sorted by last, also when plan order is back."""
    reversed: bool = False
    """With order `column`: whether it is the other way round."""
    ranks: Mapping[str, int] = field(default_factory=dict)
    """With order `column`: job name -> place, as it was when the sort was asked."""
    sorted: tuple[JobView, ...] = ()
    """The jobs as they were then, in that order."""
    filter: Filter | None = None
    only: tuple[str, frozenset[str]] | None = None
    """A title and the names it lets through: a stage, a family, a cause."""
    fold: bool = False
    unfolded: frozenset[str] = frozenset()
    """Causes that a person opened."""

    @property
    def is_of_plan(self) -> bool:
        """Whether the rows are the plan's jobs, as they are in every state."""
        return not (self.fold or self.only or self.filter or self.order != "plan")


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
    if job.look in URGENCY and job.explains_itself:
        return URGENCY[job.look]
    if job.warned or job.is_needy:
        return len(URGENCY)
    return len(URGENCY) + (1 if job.look is Look.RUNNING else 2)


def sort_by(
    session: SessionView, column: Column, current: Arrangement, *, back: bool = False
) -> Arrangement:
    """`current` sorted by a column, or the other way round (`back`); jobs without a
    value come last either way."""
    keys = [_build_sort_key(job, column, session) for job in session.jobs]
    ordered = sorted(range(len(keys)), key=keys.__getitem__, reverse=back)
    known = [at for at in ordered if keys[at] != _MISSING]
    missing = [at for at in ordered if keys[at] == _MISSING]
    jobs = [session.jobs[at] for at in (*known, *missing)]
    ranks = {job.name: place for place, job in enumerate(jobs)}
    made = replace(current, order="column", column=column, reversed=back)
    return replace(made, ranks=ranks, sorted=tuple(jobs))


def is_falling(current: Arrangement) -> bool:
    """Whether the column sorted by has its largest values on top."""
    return current.column is not None and current.column.falling != current.reversed


def is_stale(session: SessionView, current: Arrangement) -> bool:
    """Whether the rows stand in the order of a sort that holds no longer."""
    column, before = current.column, current.sorted
    if current.order != "column" or column is None:
        return False
    if len(before) != len(session.jobs):
        return True

    def build_key(old: JobView) -> _SortKey:
        job = session.find_job(old.name)
        return _build_sort_key(job, column, session) if job else _MISSING

    for place, old in enumerate(before):
        if session.find_job(old.name) is not old:
            near = [*map(build_key, before[max(0, place - 1) : place + 2])]
            known = [one for one in near if one != _MISSING]
            missing = [_MISSING] * (len(near) - len(known))
            if near != [*sorted(known, reverse=current.reversed), *missing]:
                return True
    return False


def sort_next(
    session: SessionView,
    columns: Sequence[Column],
    current: Arrangement,
    step: int = 0,
    *,
    stale: bool = False,
) -> Arrangement:
    """Sorted by the column `step` places to the right, going round; without a step
    what `,` sorts by: a column (at first the results, where there are some), its
    reverse, plan order, again the last column; the same anew where that is `stale`."""
    is_sorted = current.order == "column"
    if is_sorted and current.reversed and not (step or stale):
        return replace(current, order="plan", ranks={}, sorted=())
    ids = [column.id for column in columns]
    last = current.column.id if current.column is not None else ""
    place = ids.index(last) if last in ids else -step
    if not (step or last in ids) and "loss" in ids:
        results = (session.find_result(job) is not None for job in session.jobs)
        place = ids.index("loss") if any(results) else 0
    column = columns[(place + step) % len(columns)]
    is_same = is_sorted and column.id == last
    back = current.reversed if is_same and stale else is_same
    return sort_by(session, column, current, back=back)


def _build_sort_key(job: JobView, column: Column, session: SessionView) -> _SortKey:
    match column.kind:
        case "state":
            return (find_urgency(job), float(_LOOKS[job.look]), "")
        case "stage" | "name" | "node" | "id":
            text = column.find_text(job)
            return (0, 0.0, text) if text else _MISSING
        case "parameter":
            value = job.record.spec.parameters.get(column.key)
            if isinstance(value, int | float) and not isinstance(value, bool):
                return (0, float(value), "")
            return _MISSING if value is None else (1, 0.0, str(value))
        case "progress" if job.step is not None:
            return (0 if job.total else 1, -job.step / (job.total or 1), "")
        case "loss" | "trend":
            return _build_number_key(session.find_result(job), column)
        case "metric":
            return _build_number_key(job.find_metric(column.key), column)
        case "attempt" if job.attempt:
            return (0, float(job.attempt.number), "")
        case "time":
            ran = job.measure_run(session.now)
            return _MISSING if ran is None else (0, -ran, "")
        case "why":
            return (0, 0.0, build_cause_key(job))
    return _MISSING


def _build_number_key(value: float | None, column: Column) -> _SortKey:
    if value is None or math.isnan(value):
        return _MISSING
    return (0, -value if column.falling else value, "")


def compile_filter(text: str) -> Filter | None:
    """The filter that `text` asks for; None for an empty one.

    Raises FilterError for an expression that does not parse.
    """
    from autoexp_tui.sweep.expression import compile_expression  # imported ahead

    text = text.strip()
    if not _EXPRESSION.search(text):
        return _compile_words(text) if text else None
    try:
        test = compile_expression(text, dotted=True)
    except ValueError as error:
        raise FilterError(str(error)) from None

    def keeps(job: JobView) -> bool:
        try:
            return bool(test.evaluate(list_values(job)))
        except (ValueError, TypeError, KeyError):
            return False

    return Filter(text, keeps, test.names)


def _compile_words(text: str) -> Filter:
    matches = [(word.lower(), _TERM.match(word)) for word in text.split()]

    def holds(job: JobView, word: str, term: re.Match[str] | None) -> bool:
        if term is None:
            return word in _build_haystack(job)
        value, sign, wanted = list_values(job).get(term[1]), term[2], term[3]
        return _compare_values(value, sign, wanted.strip("\"'"))

    def keeps(job: JobView) -> bool:
        return all(holds(job, word, term) for word, term in matches)

    return Filter(text, keeps, tuple(term[1] for _, term in matches if term))


def check_names(wanted: Filter | None, jobs: Iterable[JobView]) -> None:
    """Raise FilterError for a name that no job has: which, and what was meant."""
    from autoexp_tui.text.did_you_mean import did_you_mean  # a first paint needs none

    missing = wanted.names if wanted is not None else ()
    known: dict[str, object] = {}
    for job in jobs:
        known.update(list_values(job))
        missing = tuple(name for name in missing if name not in known)
        if not missing:
            return
    if missing and known:
        hint = did_you_mean(missing[0], [*map(_find_tail, known), *known], "names")
        raise FilterError(f"no job has `{missing[0]}`; {hint}")


def is_unfinished(text: str) -> bool:
    """Whether more has to be typed before anything can be said of it."""
    return bool(_UNFINISHED.search(text)) or text.count("(") > text.count(")")


def _find_tail(key: str) -> str:
    return key.lstrip("+~").rsplit(".", 1)[-1]


def list_values(job: JobView) -> dict[str, object]:
    """What a filter may ask of a job: parameters (`optim.lr` as `lr` too, where only
    one key ends so), metrics, and a few of its own."""
    parameters, attempt = job.record.spec.parameters, job.attempt
    tails = [*map(_find_tail, parameters)]
    short = dict(zip(tails, parameters.values(), strict=True))
    return {
        **job.list_metrics(),
        **{tail: value for tail, value in short.items() if tails.count(tail) == 1},
        **parameters,
        "name": job.name,
        "stage": job.stage,
        "state": job.look.value,
        "family": job.record.spec.family,
        "cause": job.record.cause.value if job.record.cause else "",
        "node": attempt.node if attempt else "",
        "id": attempt.executor_id if attempt else "",
        "step": job.step,
    }


def _compare_values(value: object, sign: str, wanted: str) -> bool:
    if value is None:
        return False
    try:
        return _COMPARE[sign](float(str(value)), float(wanted))
    except ValueError:
        pair = format_value(value).lower(), wanted.lower()
        return "<" not in sign and ">" not in sign and _COMPARE[sign](*pair)


def _build_haystack(job: JobView) -> str:
    """All that a bare word is looked for in, in lower case."""
    spec = job.record.spec
    values = (f"{key}={format_value(one)}" for key, one in spec.parameters.items())
    why = job.record.cause.value.replace("_", " ") if job.record.cause else ""
    node = job.attempt.node if job.attempt else ""
    words = f"{spec.name} {spec.stage} {job.look} {why} {node} {' '.join(values)}"
    return words.lower()
