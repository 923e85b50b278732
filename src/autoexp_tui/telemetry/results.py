"""What a campaign found: a row for each run group, a column for each swept parameter
and each metric asked for.

A run group is the jobs of one stage that agree in everything but the keys `over`, the
seeds mostly; their values are averaged. What is no finite number is counted and never
averaged, and what is missing says why. Pure, of frozen records; a cell is worked out
when somebody looks at it, for there may be ten thousand rows and as many metrics.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from autoexp_tui.model.states import TERMINAL, JobState
from autoexp_tui.model.wording import STATES, format_cause_of_end
from autoexp_tui.planning.dag import find_stage_parents
from autoexp_tui.planning.grid import Axis, Settings, find_axes, read_settings
from autoexp_tui.sweep.points import is_named
from autoexp_tui.text.did_you_mean import did_you_mean
from autoexp_tui.text.log_lines import find_canonical_name
from autoexp_tui.text.spelling import format_metric, plural

if TYPE_CHECKING:
    from autoexp_tui.model.masking import MaskRules
    from autoexp_tui.model.outputs import DoneWork, NotedMetrics
    from autoexp_tui.model.snapshot import Live
    from autoexp_tui.model.specs import JobSpec, Plan
    from autoexp_tui.model.state import JobRecord

How: TypeAlias = Literal["last", "min", "max", "step"]
SEEDS: Final = frozenset({"seed", "random_seed", "rng_seed", "data_seed"})
"""Last parts of keys that are averaged over where the config does not say."""
SESSION: Final = ""
"""The key of the column that tells sessions apart, where there are several."""
VERSION: Final = ".version"
"""The key of the column that tells jobs apart that have all swept values alike: those
that joined anew, as what the sweep does not name was changed."""
DIGITS: Final = 5
"""Of a value: runs that differ in the fourth are not the same."""
EXAMPLES: Final = "loss, accuracy:max, eval_loss:min, loss@5000, or * for all"
_LARGE_IS_GOOD: Final = re.compile(
    r"(^|_)(acc|accuracy|precision|recall|f1|auc|auroc|map|bleu|rouge|meteor|score"
    r"|rewards?|returns?|r2|success|psnr|ssim|util|tokens|throughput|mfu|pass|exact|em|iou|dice)(_|$)"
)
"""Words in names of metrics of which more is better; of any other less is."""
_MOST_CELLS: Final = 20_000
"""That are kept once they were worked out."""
_NO_CURVE: Final = "no curve at hand: no engine has its log in memory"


class Measure(NamedTuple):
    """A column of a metric: its newest value, its best, or that at a step."""

    metric: str
    """Its canonical name."""
    how: How = "last"
    step: int = 0
    """With `step`: which one; of a thinned curve the nearest that was kept."""

    def __str__(self) -> str:
        suffix = f"@{self.step}" if self.how == "step" else f":{self.how}"
        return self.metric + ("" if self.how == "last" else suffix)

    @property
    def is_large_good(self) -> bool:
        """Whether the largest is the best: as asked for, else by the metric's name."""
        if self.how in ("min", "max"):
            return self.how == "max"
        return _LARGE_IS_GOOD.search(self.metric) is not None


def parse_measures(text: str, known: Sequence[str]) -> tuple[Measure, ...]:
    """The columns that a person asks for, of metrics that some job has; raises
    ValueError with a sentence."""
    measures: dict[Measure, None] = {}
    for word in text.replace(",", " ").split():
        if word == "*":
            measures |= dict.fromkeys(map(Measure, known))
            continue
        name, at, step = word.partition("@")
        name, _, how = name.partition(":")
        metric = name if name in known else find_canonical_name(name)
        if how not in ("", "last", "min", "max") or (
            at and (how or not step.isdigit())
        ):
            raise ValueError(f"{word!r} reads {EXAMPLES}")
        if metric not in known:
            hint = did_you_mean(metric, known, "metrics")
            raise ValueError(f"no job of this stage has told {name!r}; {hint}")
        wanted: Any = "step" if at else how or "last"
        measures[Measure(metric, wanted, int(step or 0))] = None
    return tuple(measures)


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A session's side: its jobs, and what is known of them besides, in one order."""

    plan: Plan
    jobs: Sequence[JobRecord]
    live: Sequence[Live | None]
    session: str = ""


class RunGroup(NamedTuple):
    """A row: what its jobs have in common, and which they are."""

    settings: Settings
    source: int
    jobs: tuple[int, ...]
    """Places in the source's `jobs`."""


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The rows of a stage, in plan order; they follow from the plan alone."""

    stage: str
    stages: tuple[str, ...]
    """Those that can be asked for, each after those that it follows from."""
    axes: tuple[Axis, ...]
    shown: Mapping[str, Mapping[str, str]]
    """Key of an axis -> its values, and how they are spelled beside each other."""
    rows: tuple[RunGroup, ...]
    is_averaged: bool
    """Whether some row has several jobs."""
    over: tuple[str, ...]
    """Keys that jobs of one row may differ in, as far as some job has them."""
    by_name: bool
    """Whether these were found by their names: nobody declared any."""
    unknown: tuple[str, ...]
    """What was declared, or asked for, and no job of the stage has."""
    result: Measure
    """What the stage is for: `monitoring.result`."""

    def describe_over(self) -> str:
        """`mean and deviation over seed, found by its name`; empty: no row has two."""
        unknown = ", ".join(self.unknown)
        told = f"no job of this stage sets {unknown}" if unknown else ""
        if not self.over:
            return told
        names = ", ".join(key.rsplit(".", 1)[-1] for key in self.over)
        found = ", found by its name" if self.by_name else ""
        return "; ".join(
            filter(None, (f"mean and deviation over {names}{found}", told))
        )


def list_result_stages(plan: Plan) -> tuple[str, ...]:
    """The stages of a plan, each after those that it follows from; what a policy runs
    beside them, calls of agents say, has no results."""
    names = dict.fromkeys(job.stage for job in plan.jobs if job.place == "main")
    ordered = find_stage_parents(plan) if len(names) > 1 else names
    return tuple(one for one in ordered if one in names)


def choose_stage(plan: Plan, stages: Sequence[str]) -> str:
    """The stage that says of itself what its result is, else one of several jobs; the
    last of those."""
    first: dict[str, JobSpec] = {}
    for job in plan.jobs:
        first.setdefault(job.stage, job)
    common, sizes = plan.monitoring.result, Counter(job.stage for job in plan.jobs)
    own = [one for one in stages if plan.rules_of(first[one]).result != common]
    several = [one for one in stages if sizes[one] > 1]
    return next(iter(reversed(own or several or stages)), "")


def is_averaged(key: str, over: Sequence[str] | None) -> bool:
    """Whether runs that differ in a key alone are averaged: it is one of `over`; None,
    for the config does not say: it is a seed by its name."""
    if over is None:
        return key.rsplit(".", 1)[-1] in SEEDS
    return any(is_named(key, one) for one in over)


def group_runs(
    sources: Sequence[Source],
    stage: str | None = None,
    *,
    over: Sequence[str] | None = None,
    by: Sequence[str] = (),
) -> Groups:
    """The rows of a stage, by default of the one that has the result.

    `over`: keys that are averaged over, in place of those that the config declares;
    `by`: the only ones that are not. A key may be given by its last parts.
    """
    ordered = [list_result_stages(source.plan) for source in sources]
    if stage is None:
        stage = choose_stage(sources[0].plan, ordered[0])
    found = [
        (source, place, job.spec)
        for source, it in enumerate(sources)
        for place, job in enumerate(it.jobs)
        if job.spec.stage == stage
    ]
    read = _SettingsReader([it.plan.mask for it in sources])
    points = [read.list_pairs(source, spec) for source, _, spec in found]
    keys = read.list_keys()
    first = found[0] if found else None
    rules = sources[first[0]].plan.rules_of(first[2]) if first else None
    declared = over if over is not None else rules.result.over if rules else None
    if by:
        dropped = [key for key in keys if not any(is_named(key, one) for one in by)]
    else:
        dropped = [key for key in keys if is_averaged(key, declared)]
    wanted = tuple(by or declared or ())
    unknown = tuple(w for w in wanted if not any(is_named(key, w) for key in keys))
    names = [it.session for it in sources] if len(sources) > 1 else []
    gone, alike = read.find_pairs(dropped), dict[object, list[int]]()
    for at, own in enumerate(points):
        key: object = frozenset(own) - gone
        alike.setdefault((key, found[at][0]) if names else key, []).append(at)
    groups, pairs = list[RunGroup](), read.pairs
    for those in alike.values():
        source, place, _ = found[those[0]]
        given = [pairs[one] for one in points[those[0]] if one not in gone]
        settings = dict([(SESSION, names[source]), *given] if names else given)
        if len(those) == 1:  # most are such
            groups.append(RunGroup(settings, source, (place,)))
            continue
        versions = [those] if by else _split_versions(those, points)
        for number, some in enumerate(versions, 1):
            if number > 1:
                settings = {**settings, VERSION: str(number)}
            jobs = tuple([found[at][1] for at in some])
            groups.append(RunGroup(settings, source, jobs))
    if len(groups) > len(alike):
        for at, group in enumerate(groups):
            named = {**group.settings, VERSION: group.settings.get(VERSION, "1")}
            groups[at] = group._replace(settings=named)
    result = rules.result if rules else None
    metric = (result.metric if result else "") or (rules.loss if rules else "loss")
    axes = _find_columns([group.settings for group in groups], names)
    return Groups(
        stage=stage,
        stages=tuple(dict.fromkeys(chain(*ordered))),
        axes=axes,
        shown={one.key: dict(zip(one.values, one.shown, strict=True)) for one in axes},
        rows=tuple(groups),
        is_averaged=len(groups) < len(found),
        over=tuple(dropped),
        by_name=declared is None and not by,
        unknown=unknown,
        result=Measure(find_canonical_name(metric), result.mode if result else "last"),
    )


def _split_versions(
    jobs: Sequence[int], points: Sequence[Sequence[int]]
) -> Sequence[Sequence[int]]:
    """The jobs of a row, those apart that have all values of one before them."""
    seen, versions = Counter[object](), dict[int, list[int]]()
    for at in jobs:
        seen[whole := frozenset(points[at])] += 1
        versions.setdefault(seen[whole], []).append(at)
    return [*versions.values()]


def _find_columns(
    rows: Sequence[Settings], sessions: Sequence[str]
) -> tuple[Axis, ...]:
    axes = find_axes([("", settings) for settings in rows])
    names = tuple(sessions)
    own = (Axis(SESSION, "session", names, names),) if sessions else ()
    return (*own, *(one for one in axes if one.key != SESSION))


class _SettingsReader:
    """`read_settings` of many jobs: each value is spelled once, and has a number."""

    def __init__(self, rules: Sequence[MaskRules]) -> None:
        self._rules = rules
        self._known: dict[object, int] = {}
        self.pairs: dict[int, tuple[str, str]] = {}
        """Keys and values, spelled; what is none of the sweep's has -1, and no pair."""
        self._numbers: dict[tuple[str, str], int] = {}

    def list_pairs(self, source: int, spec: JobSpec) -> list[int]:
        known, pairs = self._known, []
        for key, value in spec.parameters.items():
            place: object = (source, key, value.__class__, value)
            try:
                pairs.append(known[place])
            except KeyError:
                pairs.append(self._read(place, source, key, value))
            except TypeError:  # a list, a mapping
                pairs.append(self._read((source, key, repr(value)), source, key, value))
        return pairs

    def _read(self, place: object, source: int, key: str, value: object) -> int:
        if place not in self._known:
            read = read_settings({key: value}, self._rules[source])
            for pair in read.items():
                number = self._numbers.setdefault(pair, len(self._numbers))
                self.pairs[number] = pair
                self._known[place] = number
            self._known.setdefault(place, -1)
        return self._known[place]

    def list_keys(self) -> list[str]:
        """Of all that was read, in its order."""
        return list(dict.fromkeys(key for key, _ in self.pairs.values()))

    def find_pairs(self, keys: Sequence[str]) -> set[int]:
        """All that was read of these keys, and what is none of the sweep's."""
        return {-1, *(at for at, (key, _) in self.pairs.items() if key in keys)}


class Value(NamedTuple):
    """What one run has of a measure."""

    number: float | None
    """May be nan or infinite: the run said so."""
    step: int | None = None
    """Of the best, or the one that was found for a step."""
    why: str = ""
    """Why there is none."""


def read_value(
    job: JobRecord, live: Live | None, measure: Measure, result: Measure
) -> Value:
    """What a job's newest work came to; `result`: the measure that its stage is for."""
    told, metric = job.noted or job.done, measure.metric
    if job.spec.planned is not None and job.is_doing_other_work:
        return Value(None, why="not run with its new values yet")
    if measure.how == "step":
        return _read_at_step(job, live, measure)
    if measure.how != "last" and (best := _find_best(live, told, measure)):
        return Value(*best)
    newest = live.metrics.get(metric) if live else None
    if newest is None and told is not None and metric in told.values:
        newest = float(told.values[metric])
    if measure.how == "last" and newest is not None:
        return Value(newest)
    if measure == result:
        results = (one.result for one in (live, told) if one is not None)
        known = next((one for one in results if one is not None), None)
        if known is not None:
            return Value(float(known))
    if newest is None:
        return Value(None, why=_explain_missing(job, told, metric))
    if not math.isfinite(newest):
        return Value(newest)
    if job.ended:
        return Value(None, why="its best was not recorded by the version that ran it")
    return Value(None, why="its best is not known while no engine reads its log")


def _find_best(
    live: Live | None, told: NotedMetrics | DoneWork | None, measure: Measure
) -> tuple[float, int] | None:
    """The value and its step, of the log, of a replay's curve, or as it was noted."""
    metric, is_low = measure.metric, measure.how == "min"
    if live is not None:
        if best := (live.lows if is_low else live.highs).get(metric):
            return best
        curve = live.curves.get(metric)
        if curve and (found := curve.find_best(rising=not is_low)):
            return found[1], found[0]
    return (told.lows if is_low else told.highs).get(metric) if told else None


def _read_at_step(job: JobRecord, live: Live | None, measure: Measure) -> Value:
    curve = live.curves.get(measure.metric) if live else None
    if curve is None or not curve.steps:
        told = job.noted or job.done
        has_it = told is not None and measure.metric in told.values
        why = _NO_CURVE if has_it else _explain_missing(job, told, measure.metric)
        return Value(None, why=why)
    if curve.steps[-1] < measure.step:
        verb = "ended" if job.ended else "is"
        return Value(None, why=f"{verb} at step {curve.steps[-1]}")
    at = curve.find_nearest(measure.step)
    return Value(curve.values[at], curve.steps[at])


def _explain_missing(
    job: JobRecord, told: NotedMetrics | DoneWork | None, metric: str
) -> str:
    if job.state is JobState.PLANNED:
        return "not submitted"
    if job.state in (JobState.RUNNING, JobState.SUSPENDED):
        return f"{STATES[job.state]}, no value yet"
    if job.state is JobState.COMPLETED:
        return f"its log tells no {metric}" if told else "no metric was recorded"
    if job.state not in TERMINAL or job.cause is None:
        return STATES[job.state]
    return f"{STATES[job.state]}: {format_cause_of_end(job.cause, job.state)}"


class Cell(NamedTuple):
    """A measure of a run group."""

    mean: float | None
    """Of the finite values; None: there is none."""
    deviation: float | None
    """Of a sample (n - 1); None below two values."""
    finite: int
    """How many values that is the mean of."""
    of: int
    """Jobs of the group."""
    step: int | None
    """Of a single value: where it stands."""
    problems: Mapping[str, int]
    """What the other jobs say, and how many do: `nan`, `failed: out of memory`."""

    def describe(self, difference: float | None = None) -> str:
        """`2.9143 ±0.0120 2/3`; what is missing, where there is no value. `difference`:
        to the baseline's, in brackets."""
        if self.mean is None:
            return "; ".join(
                f"{number}x {problem}" if number > 1 else problem
                for problem, number in self.problems.items()
            )
        text = format_metric(self.mean, DIGITS)
        if self.deviation is not None:
            text += f" ±{format_metric(self.deviation, DIGITS - 2)}"
        if self.step is not None:
            text += f" @{self.step}"
        if self.finite < self.of:
            text += f" {self.finite}/{self.of}"
        if difference is not None:
            sign = "" if difference < 0 else "+"
            text += f" ({sign}{format_metric(difference, DIGITS - 1)})"
        return text


_NO_PROBLEMS: Final[Mapping[str, int]] = {}


def compute_cell(values: Sequence[Value]) -> Cell:
    """Mean and deviation of what is finite; the rest by name and number."""
    number, step, _ = values[0]
    if len(values) == 1 and number is not None and number - number == 0.0:
        return Cell(number, None, 1, 1, step, _NO_PROBLEMS)  # most are such
    finite = [
        one
        for one in values
        if one.number is not None and one.number - one.number == 0.0
    ]
    problems = _NO_PROBLEMS
    if len(finite) < len(values):
        problems = Counter(
            one.why or format_metric(one.number) for one in values if one not in finite
        )
    if len(finite) == 1:
        number, step, _ = finite[0]
        return Cell(number, None, 1, len(values), step, problems)
    numbers = [one.number or 0.0 for one in finite]
    if not numbers:
        return Cell(None, None, 0, len(values), None, problems)
    mean = math.fsum(number / len(numbers) for number in numbers)  # none is too large
    spread = math.hypot(*(number - mean for number in numbers))
    deviation = spread / math.sqrt(len(numbers) - 1)
    return Cell(mean, deviation, len(numbers), len(values), None, problems)


@dataclass(frozen=True, slots=True, eq=False)
class ResultTable:
    """Groups with their measures; columns are the axes, then the measures."""

    sources: Sequence[Source]
    groups: Groups
    measures: tuple[Measure, ...]
    baseline: int | None = None
    """A row that the others are compared to."""
    _cells: dict[tuple[int, int], Cell] = field(default_factory=dict)
    _means: dict[int, Sequence[float | None]] = field(default_factory=dict)

    def renew(self, sources: Sequence[Source]) -> ResultTable:
        """The same rows and columns, of newer values; without a baseline."""
        return ResultTable(sources, self.groups, self.measures)

    @property
    def heads(self) -> tuple[str, ...]:
        return (*(one.label for one in self.groups.axes), *map(str, self.measures))

    def list_jobs(self, row: int) -> list[JobRecord]:
        group = self.groups.rows[row]
        return [self.sources[group.source].jobs[place] for place in group.jobs]

    def list_values(self, row: int, measure: int) -> list[Value]:
        """Of each job of a row."""
        group, wanted = self.groups.rows[row], self.measures[measure]
        source, result = self.sources[group.source], self.groups.result
        jobs, live = source.jobs, source.live
        return [read_value(jobs[at], live[at], wanted, result) for at in group.jobs]

    def cell(self, row: int, measure: int) -> Cell:
        found = self._cells.get((row, measure))
        if found is None:
            found = compute_cell(self.list_values(row, measure))
            if len(self._cells) < _MOST_CELLS:
                self._cells[row, measure] = found
        return found

    def list_means(self, measure: int) -> Sequence[float | None]:
        """Of all rows: sorting asks for these, the screen for the cells of a few."""
        if measure not in self._means:
            means, wanted, result = [], self.measures[measure], self.groups.result
            for row, (_, source, jobs) in enumerate(self.groups.rows):
                if len(jobs) > 1:
                    means.append(self.cell(row, measure).mean)
                    continue
                job, live = self.sources[source].jobs, self.sources[source].live
                number = read_value(job[jobs[0]], live[jobs[0]], wanted, result).number
                means.append(None if number is None or number - number else number)
            self._means[measure] = means
        return self._means[measure]

    def list_cells(self, row: int) -> list[tuple[Cell, float | None]]:
        """Each measure's cell, and its difference to the baseline's. None is kept: a
        file has all rows once."""
        group, result = self.groups.rows[row], self.groups.result
        source = self.sources[group.source]
        jobs = [(source.jobs[at], source.live[at]) for at in group.jobs]
        if len(jobs) == 1:  # most are such
            ((job, live),) = jobs
            found = [read_value(job, live, one, result) for one in self.measures]
            cells = [compute_cell((one,)) for one in found]
        else:
            cells = [
                compute_cell([read_value(job, live, one, result) for job, live in jobs])
                for one in self.measures
            ]
        if self.baseline is None:
            return [(one, None) for one in cells]
        return [(one, self._compare(one, row, at)) for at, one in enumerate(cells)]

    def _compare(self, cell: Cell, row: int, measure: int) -> float | None:
        """How much more it is than the baseline's; None without one, or for it."""
        if self.baseline is None or row == self.baseline or cell.mean is None:
            return None
        base = self.cell(self.baseline, measure).mean
        return None if base is None else cell.mean - base

    def describe_cell(self, row: int, measure: int) -> str:
        cell = self.cell(row, measure)
        return cell.describe(self._compare(cell, row, measure))

    def find_setting(self, row: int, axis: int) -> str:
        """A row's value of a swept parameter, `-` where its jobs set none."""
        key = self.groups.axes[axis].key
        return self.groups.rows[row].settings.get(key, "-")

    def describe_setting(self, row: int, axis: int) -> str:
        """The same, spelled like the others of its column."""
        text = self.find_setting(row, axis)
        return self.groups.shown[self.groups.axes[axis].key].get(text, text)

    def describe_row(self, row: int) -> str:
        """`lr=1e-3 bsz=64`."""
        settings = self.groups.rows[row].settings
        return " ".join(
            f"{one.label}={self.describe_setting(row, at)}"
            for at, one in enumerate(self.groups.axes)
            if one.key in settings
        )

    def find_row(self, text: str) -> int:
        """The one row that has all of `lr=1e-3 bsz=64`; raises ValueError."""
        wanted = [word.partition("=")[::2] for word in text.replace(",", " ").split()]

        def holds(settings: Settings) -> bool:
            return all(
                any(
                    is_named(key, name)
                    and value in (own, self.groups.shown.get(key, {}).get(own))
                    for key, own in settings.items()
                )
                for name, value in wanted
            )

        rows = [at for at, row in enumerate(self.groups.rows) if holds(row.settings)]
        if len(rows) != 1:
            raise ValueError(f"{plural(len(rows), 'row')} of this table have {text!r}")
        return rows[0]

    def find_measure(self, column: int) -> int | None:
        """The place of a column's measure; None: it is one of a parameter."""
        at = column - len(self.groups.axes)
        return at if 0 <= at < len(self.measures) else None

    def is_rising(self, column: int) -> bool:
        """Whether the best, or the first, of a column is its lowest."""
        at = self.find_measure(column)
        return at is None or not self.measures[at].is_large_good

    def sort_rows(self, column: int, *, reverse: bool = False) -> tuple[int, ...]:
        """Places of the rows: best first, of a parameter the smallest; without a value
        last either way."""
        at, axes = self.find_measure(column), self.groups.axes
        rows = range(len(self.groups.rows))
        ranks: dict[int, Any]
        if at is not None:
            means = enumerate(self.list_means(at))
            ranks = {row: mean for row, mean in means if mean is not None}
        else:
            order = {value: n for n, value in enumerate(axes[column].values)}
            texts = ((row, self.find_setting(row, column)) for row in rows)
            ranks = {row: order[text] for row, text in texts if text in order}
        falls = self.is_rising(column) == reverse
        known = sorted(ranks, key=ranks.__getitem__, reverse=falls)
        return (*known, *(row for row in rows if row not in ranks))

    @property
    def result_column(self) -> int:
        """The first measure's: what a table is sorted by unasked."""
        return len(self.groups.axes) if self.measures else 0


def list_metrics(sources: Sequence[Source], groups: Groups) -> tuple[str, ...]:
    """The metrics that some job of the stage has told, the result's first."""
    names: dict[str, None] = {groups.result.metric: None}
    for group in groups.rows:
        source = sources[group.source]
        for place in group.jobs:
            job, live = source.jobs[place], source.live[place]
            told = job.noted or job.done
            names.update(dict.fromkeys(told.values if told else ()))
            names.update(dict.fromkeys(live.metrics if live else ()))
    return tuple(names)


class HeatCell(NamedTuple):
    """A field of a heat map: the rows that have both values, the best one first."""

    rows: tuple[int, ...]
    level: int
    """From 0, the worst, to 3, the best; -1: none of its rows has a value."""


@dataclass(frozen=True, slots=True, eq=False)
class HeatMap:
    """The best result of each pair of values of two parameters."""

    across: Axis
    down: Axis
    cells: Mapping[tuple[str, str], HeatCell]
    """By the values (down, across)."""
    holes: Mapping[tuple[str, str], str]
    """Fields that a filter emptied -> that filter."""


LEVELS: Final = 4


def build_heat_map(table: ResultTable, across: int, down: int, measure: int) -> HeatMap:
    """`across`, `down`: places of two axes; `measure`: the place of the result. Values
    that filters left no job of are there as well."""
    keys = [table.groups.axes[at].key for at in (across, down)]
    holes = [
        (read_settings(hole.parameters, source.plan.mask), hole.filter)
        for source in table.sources
        for hole in source.plan.holes
        if hole.stage in ("", table.groups.stage)
    ]
    points = [row.settings for row in table.groups.rows] + [own for own, _ in holes]
    both = [("", {key: own[key] for key in keys if key in own}) for own in points]
    x, y = sorted(find_axes(both), key=lambda one: keys.index(one.key))
    found: dict[tuple[str, str], list[int]] = {}
    for row in table.sort_rows(len(table.groups.axes) + measure):
        key = table.find_setting(row, down), table.find_setting(row, across)
        found.setdefault(key, []).append(row)
    best = {key: table.cell(rows[0], measure).mean for key, rows in found.items()}
    means = [mean for mean in best.values() if mean is not None]
    low, high = min(means, default=0.0), max(means, default=0.0)

    def rank(mean: float | None) -> int:
        if mean is None:
            return -1
        share = (mean - low) / (high - low) if high > low else 1.0
        is_falling = not table.measures[measure].is_large_good and high > low
        return min(LEVELS - 1, int((1.0 - share if is_falling else share) * LEVELS))

    cells = {key: HeatCell(tuple(rows), rank(best[key])) for key, rows in found.items()}
    emptied: dict[tuple[str, str], str] = {}
    for own, text in holes:  # one that names no value of an axis is one of all
        sides = ([own[it.key]] if it.key in own else it.values for it in (y, x))
        for field_down, field_across in product(*sides):
            if (field_down, field_across) not in cells:  # the first filter counts
                emptied.setdefault((field_down, field_across), text)
    return HeatMap(x, y, cells, emptied)
