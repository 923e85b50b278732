"""Which curves are shown, of what steps: joined over seeds, smoothed, best first."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from autoexp_tui.cockpit.spans import outside
from autoexp_tui.cockpit.state.parameters import (
    Parameter,
    PlanWords,
    describe_job,
    find_value,
)
from autoexp_tui.model.snapshot import Curve
from autoexp_tui.sweep.points import plain_key
from autoexp_tui.text.log_lines import find_canonical_name

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.model.rules import Monitoring
    from autoexp_tui.model.specs import JobSpec, Plan

MOST_CURVES: Final = 26
"""As many as there are letters to name them by."""
BY_SESSION: Final = "the session"
"""Stands among the parameters that letters and colours may be of."""
BandKind: TypeAlias = Literal["", "min to max", "mean +- sd"]
BAND_KINDS: Final[tuple[BandKind, ...]] = ("", "min to max", "mean +- sd")

_MOST_POINTS: Final = 512
"""Of a curve over seeds."""


class Band(NamedTuple):
    """Between what values several curves lie; all of one length."""

    steps: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


class Drawn(NamedTuple):
    """A curve as it is drawn."""

    place: int
    """Its letter and colour, from 0 on."""
    curve: Curve
    raw: Curve | None = None
    """What it was smoothed from, drawn faintly."""
    band: Band | None = None


class Series(NamedTuple):
    """A run's curve, or the mean of runs that differ only in their seed."""

    key: str
    label: str
    spec: JobSpec
    """Of the first of them."""
    curve: Curve
    best: tuple[int, float] | None
    """Its step and value."""
    place: int
    """In plan order; what is drawn has the place of its letter and colour."""
    session: str = ""
    """Of runs of several sessions: whose it is."""
    band: Band | None = None

    def draw(self, smoothing: float, *, faint: bool) -> Drawn:
        """The curve as it is drawn; of a smoothed one the raw one as well, faintly."""
        if not smoothing:
            return Drawn(self.place, self.curve, band=self.band)
        band, average = self.band, partial(compute_average, share=smoothing)
        if band is not None:
            edges = (average(Curve(band.steps, edge)).values for edge in band[1:])
            band = Band(band.steps, *edges)
        raw = self.curve if faint else None
        return Drawn(self.place, average(self.curve), raw, band)


class Frame(NamedTuple):
    """What of the curves is seen, and how."""

    log_x: bool = False
    log_y: bool = False
    window: tuple[float, float] | None = None
    """The first and the last step; None: all, with those to come."""
    cursor: float | None = None
    """The step of the readout."""
    ascii: bool = False

    def find_window(self, whole: tuple[float, float]) -> tuple[float, float]:
        """The steps that are seen of all that there are; all where that were none."""
        start, end = self.window or whole
        start = max(start, whole[0])
        return (start, end) if start < end else whole

    def scale(self, step: float) -> float:
        """Where a step stands on the axis."""
        return math.log10(step) if self.log_x else step

    def _unscale(self, place: float) -> float:
        return 10.0**place if self.log_x else place

    def _scale_window(self, whole: tuple[float, float]) -> tuple[float, float]:
        start, end = self.find_window(whole)
        return self.scale(start), self.scale(end)

    def _scale_cursor(self, whole: tuple[float, float]) -> float:
        """The readout's place; without one the end of what is seen."""
        if self.cursor is None:
            return self._scale_window(whole)[1]
        return self.scale(max(self.cursor, whole[0]))

    def see(self, start: float, end: float, whole: tuple[float, float]) -> Frame:
        """See a part of the axis, as far as there are steps; not less than a step."""
        first, last = map(self.scale, whole)
        if start <= first and end >= last:
            return self._replace(window=None)
        low, high = self._unscale(max(start, first)), self._unscale(min(end, last))
        return self._replace(window=(low, high)) if high - low >= 1 else self

    def see_steps(self, first: float, last: float, whole: tuple[float, float]) -> Frame:
        """See the steps from one to another."""
        start, end = (self.scale(max(edge, whole[0])) for edge in (first, last))
        return self.see(start, end, whole)

    def zoom(self, factor: float, whole: tuple[float, float]) -> Frame:
        """See `factor` times as much, the readout, else the end, where it stood."""
        edges = start, end = self._scale_window(whole)
        around = min(max(self._scale_cursor(whole), start), end)
        start, end = (around + (edge - around) * factor for edge in edges)
        return self.see(start, end, whole)

    def move(self, by: float, whole: tuple[float, float]) -> Frame:
        """Move the steps that are seen by a share of their length."""
        first, last = map(self.scale, whole)
        start, end = self._scale_window(whole)
        by = min(max(by * (end - start), first - start), last - end)
        return self.see(start + by, end + by, whole)

    def move_cursor(self, by: float, whole: tuple[float, float]) -> Frame:
        """Move the readout by a share of what is seen, and that with it beyond its
        edge; at first it stands at the end."""
        first, last = map(self.scale, whole)
        start, end = self._scale_window(whole)
        way = 0.0 if self.cursor is None else by * (end - start)
        here = min(max(self._scale_cursor(whole) + way, first), last)
        more = min(here - start, 0.0) + max(here - end, 0.0)
        shown = self.see(start + more, end + more, whole)
        return shown._replace(cursor=self._unscale(here))


def measure_steps(curves: Iterable[Curve], *, log: bool) -> tuple[float, float] | None:
    """The first and the last step that can be shown; None: there is none."""
    least = 1 if log else -math.inf
    ends = [
        (one.steps[bisect_left(one.steps, least)], one.steps[-1])
        for one in curves
        if one.steps and one.steps[-1] >= least
    ]
    return (min(end[0] for end in ends), max(end[1] for end in ends)) if ends else None


def count_hidden(curves: Iterable[Curve], frame: Frame) -> int:
    """How many points a logarithm cannot show."""
    found = 0
    for one in curves if frame.log_x or frame.log_y else ():
        found += sum(step <= 0 for step in one.steps) if frame.log_x else 0
        found += sum(value <= 0 for value in one.values) if frame.log_y else 0
    return found


def is_over_seeds(entry: Parameter, words: PlanWords, jobs: Sequence[JobView]) -> bool:
    """Whether runs of `jobs` that differ in a parameter alone are repeated ones."""
    from autoexp_tui.telemetry.results import is_averaged  # a first paint needs none

    rules = _find_rules(words.plan, jobs)
    return is_averaged(plain_key(entry.key), rules.result.over if rules else None)


def _find_rules(plan: Plan | None, jobs: Sequence[JobView]) -> Monitoring | None:
    return plan.rules_of(jobs[0].record.spec) if plan is not None and jobs else None


def is_rising(metric: str, jobs: Sequence[JobView], plan: Plan | None) -> bool:
    """Whether more of a metric is better: as the result of these jobs says, else by its
    name; `plan`: the first one's."""
    from autoexp_tui.telemetry.results import Measure  # a first paint needs none

    rules = _find_rules(plan, jobs)
    named = rules is not None and metric == (rules.result.metric or rules.loss)
    mode = rules.result.mode if rules and named else "last"
    return Measure(find_canonical_name(metric), mode).is_large_good


def build_series(
    jobs: Iterable[JobView],
    metric: str,
    words: PlanWords,
    kind: BandKind,
    *,
    rising: bool,
    own: str = "",
) -> tuple[list[Series], list[str]]:
    """What has the metric, the best first, each run for itself or joined over seeds;
    and the names of those that lack it. Runs of several sessions are told apart by the
    session's id, `own` that of the cockpit's."""
    jobs = tuple(jobs)
    is_compared = any(job.session for job in jobs)
    seeds = [one for one in words.parameters if is_over_seeds(one, words, jobs)]
    shown = [one for one in words.parameters if not (kind and one in seeds)]
    groups: dict[str, list[JobView]] = {}
    labels: dict[str, str] = {}
    for job in jobs:
        whose = outside(job.session or own) if is_compared else ""
        parts = (whose, outside(job.stage), describe_job(job.record.spec, shown))
        label = " ".join(filter(None, parts))
        key = label if kind and label else f"{job.session} {job.name}"
        groups.setdefault(key, []).append(job)
        labels[key] = label or outside(job.name)
    series: list[Series] = []
    lacking: list[str] = []
    for key, members in groups.items():
        curves = [
            job.live.curves[metric] for job in members if metric in job.live.curves
        ]
        curves = [one for one in curves if one.steps]
        if not curves:
            lacking.append(labels[key])
            continue
        label, curve, band = labels[key], curves[0], None
        if len(curves) > 1:
            curve, band, whole = join_curves(curves, kind)
            fewer = f", fewer from {whole}" if whole < curve.steps[-1] else ""
            label = f"{label} ({len(curves)} seeds{fewer})"
        best = curve.find_best(rising=rising)
        spec = members[0].record.spec
        whose = members[0].session or own
        series.append(Series(key, label, spec, curve, best, len(series), whose, band))
    sign = -1 if rising else 1
    series.sort(key=lambda one: sign * one.best[1] if one.best else math.inf)
    return series, lacking


def find_places(
    series: Iterable[Series], words: PlanWords, colour: str
) -> dict[str, int]:
    """The letters of series by their keys: of each its own, in plan order, or of the
    value of the parameter `colour`, or of their session."""
    ordered = sorted(series, key=lambda one: one.place)
    names = list(dict.fromkeys(one.session for one in ordered))
    if colour == BY_SESSION and len(names) > 1:
        return {one.key: names.index(one.session) for one in ordered}
    entry = next((one for one in words.parameters if one.key == colour), None)
    if entry is None:
        return {one.key: place for place, one in enumerate(ordered)}
    values = {one.key: find_value(one.spec, entry) for one in ordered}
    places = list(dict.fromkeys((*entry.values, *values.values())))
    return {key: places.index(value) for key, value in values.items()}


def compute_average(curve: Curve, share: float) -> Curve:
    """The exponential moving average over the points, `share` of it what was before.

    Freed of the bias of its beginning, as TensorBoard does: sum w^k v / sum w^k.
    """
    average, weight, values = 0.0, 0.0, []
    for value in curve.values:
        if math.isfinite(value):
            average = share * average + (1 - share) * value
            weight = share * weight + (1 - share)
        values.append(average / weight if math.isfinite(value) else value)
    return Curve(curve.steps, tuple(values), curve.gaps)


def join_curves(curves: Sequence[Curve], kind: BandKind) -> tuple[Curve, Band, int]:
    """The mean of curves that have points, a band around it, and the step up to which
    it is of all.

    Between its points a curve counts by a straight line, beyond its ends not at all.
    """
    steps = sorted(set().union(*(one.steps for one in curves)))
    steps = steps[:: -(-len(steps) // _MOST_POINTS)]
    columns = [_sample(one, steps) for one in curves]
    means, low, high = [], [], []
    for column in zip(*columns, strict=True):
        row = [one for one in column if one is not None]
        mean, lowest, highest = sum(row) / len(row), min(row), max(row)
        if kind == "mean +- sd":
            spread = sum((value - mean) ** 2 for value in row) / max(1, len(row) - 1)
            lowest, highest = mean - math.sqrt(spread), mean + math.sqrt(spread)
        means.append(mean)
        low.append(lowest)
        high.append(highest)
    gaps = sorted(set().union(*(one.gaps for one in curves)))
    whole = min(one.steps[-1] for one in curves)
    band = Band(tuple(steps), tuple(low), tuple(high))
    return Curve(band.steps, tuple(means), tuple(gaps)), band, whole


def _sample(curve: Curve, steps: Sequence[int]) -> list[float | None]:
    """The values of a curve at `steps`; None beyond its ends."""
    found: list[float | None] = []
    place, last = 0, len(curve.steps) - 1
    for step in steps:
        while place < last and curve.steps[place + 1] <= step:
            place += 1
        here, value = curve.steps[place], curve.values[place]
        if step < here or (place == last and step > here):
            found.append(None)
        elif step == here:
            found.append(value)
        else:
            share = (step - here) / (curve.steps[place + 1] - here)
            found.append(value + share * (curve.values[place + 1] - value))
    return found
