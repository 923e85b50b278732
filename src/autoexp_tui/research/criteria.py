"""Criteria that end a run, and what a hypothesis expects of one.

A text is clauses joined by `or`: `loss > 4 after step 1000`, `eval_loss > 3 after 2 h`,
`plateau 1% in 500 steps`, `plateau 1% of accuracy in 500 steps`, `time > 6 h`. Agents
write them, so a text is bounded and what does not read is refused; nothing is guessed.
A value that is nan triggers nothing here: that a run ends by it is decided elsewhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, TypeAlias, cast, get_args

from autoexp_tui.conditions.jobs import Op, compare
from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.model.facts import MetricFact
from autoexp_tui.model.rules import Anomalies
from autoexp_tui.model.snapshot import Curve, LiveRun
from autoexp_tui.telemetry.inactivity import AnomalyWatch
from autoexp_tui.telemetry.results import Measure
from autoexp_tui.text.log_lines import (
    LOSS,
    MAIN_METRICS,
    STEP,
    find_canonical_name,
    normalize_name,
)
from autoexp_tui.text.sanitize import clean_line
from autoexp_tui.text.spelling import (
    duration,
    format_duration,
    format_float,
    format_number,
    parse_duration,
)

MOST_CHARACTERS: Final = 1000
_EXAMPLES: Final = (
    "loss > 4.0 after step 1000, eval_loss >= 3 after 30 min, "
    "plateau 1% in 500 steps, time > 2 h; joined by or"
)
_EXPECTED: Final = "loss < 2.5, or accuracy >= 0.9 after step 1000"
_NUMBER: Final = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_FLAGS: Final = re.ASCII | re.IGNORECASE
_OR: Final = re.compile(r"(?: |^)or(?= |$)", re.IGNORECASE)
_COMPARISON: Final = re.compile(r"([^<>=!]*?) ?([<>=!]+) ?(.*)")
_VALUE: Final = re.compile(rf"({_NUMBER})(?: after (.*))?", _FLAGS)
_AFTER_STEP: Final = re.compile(r"step (\d{1,18})", _FLAGS)
_PLATEAU: Final = re.compile(
    rf"plateau ({_NUMBER}) ?%(?: of (.+?))? in (\d{{1,18}}) steps?", re.IGNORECASE
)
_NAME: Final = re.compile(r"\w[\w./:@%#-]*(?: \w[\w./:@%#-]*)*")
_RESERVED: Final = frozenset({"time", "plateau", "or", "and", "after", "in", "of"})


@dataclass(eq=False)
class CriteriaRefused(AutoexpError):
    """A text that does not read; `where` has the clause, `hint` what would."""

    exit_code: ClassVar[int] = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What criteria ask of a run."""

    step: int | None = None
    """Where its counter stands; None: it told no step."""
    first_step: int | None = None
    """Where it began, or went on after it went back: no plateau is older."""
    seconds: float = 0.0
    """That it has run."""
    find_value: Callable[[str], MetricFact | None]
    """The newest value of a metric, by its canonical name; None: it was never seen."""
    find_curve: Callable[[str], Curve | None]
    """The same over its steps, thinned or not."""
    default_metric: str = LOSS
    """Whose plateau it is where a clause names none."""
    default_mode: Literal["min", "max"] = "min"
    """Which way it gets better; of another metric its name tells."""

    def read(self, metric: str) -> tuple[float, int] | None:
        """The newest value and its step; None: it was never seen."""
        if metric == STEP and self.step is not None:
            return self.step, self.step
        fact = self.find_value(metric)
        return None if fact is None else (fact.value, fact.step)

    def list_points(self, metric: str) -> Sequence[tuple[int, float]]:
        """Steps and values since the counter began, or went back."""
        curve = self.find_curve(metric) or Curve()
        first = -math.inf if self.first_step is None else self.first_step
        last = math.inf if self.step is None else self.step
        points = zip(curve.steps, curve.values, strict=False)
        return [point for point in points if first <= point[0] <= last]

    def is_rising(self, metric: str) -> bool:
        """Whether more of it is better."""
        if metric == self.default_metric:
            return self.default_mode == "max"
        return Measure(metric).is_large_good


def read_facts(
    run: LiveRun, seconds: float, metric: str, mode: Literal["min", "max"]
) -> RunFacts:
    """What a run tells `seconds` after it began; metric and mode: the objective's."""
    return RunFacts(
        step=None if run.reached is None else run.step,
        first_step=run.first_step,
        seconds=seconds,
        find_value=run.find_value,
        find_curve=run.find_curve,
        default_metric=metric,
        default_mode=mode,
    )


@dataclass(frozen=True, slots=True)
class ClauseStatus:
    clause: str
    """Its canonical text."""
    numbers: str
    """What it was judged by, in words."""
    is_triggered: bool = False

    def __str__(self) -> str:
        verdict = "TRIGGERED" if self.is_triggered else "NOT TRIGGERED"
        return f"{self.clause} → {verdict} ({self.numbers})"


@dataclass(frozen=True, slots=True)
class CriteriaStatus:
    clauses: tuple[ClauseStatus, ...]

    @property
    def is_triggered(self) -> bool:
        return any(clause.is_triggered for clause in self.clauses)


@dataclass(frozen=True, slots=True)
class MetricClause:
    """A metric compares to a value; the only one that a hypothesis may expect."""

    metric: str
    """Its canonical name."""
    op: Op
    value: float
    after_step: int | None = None
    """The step from which on it is judged, by values from there on."""
    after_seconds: float | None = None
    """That the run has to have run before it is judged."""

    def __str__(self) -> str:
        text = f"{self.metric} {self.op} {format_float(self.value)}"
        if self.after_step is not None:
            return f"{text} after step {self.after_step}"
        if self.after_seconds is not None:
            return f"{text} after {format_duration(self.after_seconds)}"
        return text

    def find_gate(self, facts: RunFacts, step: int) -> str:
        """Why a value of `step` is not judged; empty where it is."""
        if self.after_seconds is not None and facts.seconds < self.after_seconds:
            return f"judged after {format_duration(self.after_seconds)}"
        if self.after_step is None:
            return ""
        now = step if facts.step is None else facts.step
        if step > now:
            return f"before the run went back to step {now}"
        return f"judged from step {self.after_step}" if step < self.after_step else ""

    def compare(self, value: float) -> bool:
        return not math.isnan(value) and compare(value, self.op, self.value)

    def judge(self, facts: RunFacts) -> ClauseStatus:
        found = facts.read(self.metric)
        if found is None:
            return ClauseStatus(str(self), f"{self.metric}: not seen yet")
        value, step = found
        numbers = f"{self.metric} {self._format(value)} at step {step}"
        if gate := self.find_gate(facts, step):
            return ClauseStatus(str(self), f"{numbers}, {gate}")
        return ClauseStatus(str(self), numbers, self.compare(value))

    def _format(self, value: float) -> str:
        """Few digits, unless they would say the contrary."""
        short = format_number(value)
        is_same = self.compare(float(short)) == self.compare(value)
        return short if is_same else format_float(value)


@dataclass(frozen=True, slots=True)
class PlateauClause:
    """A metric did not get better by so many per cent in so many steps."""

    percent: float
    steps: int
    metric: str = ""
    """Its canonical name; empty: the run's default metric."""

    def __str__(self) -> str:
        of = f" of {self.metric}" if self.metric else ""
        return f"plateau {self._percent}{of} in {self.steps} steps"

    @property
    def _percent(self) -> str:
        return f"{format_float(self.percent)}%"

    def judge(self, facts: RunFacts) -> ClauseStatus:
        metric = self.metric or facts.default_metric
        points = facts.list_points(metric)
        sign = -1 if facts.is_rising(metric) else 1
        watch = AnomalyWatch(Anomalies(plateau_percent=self.percent), metric)
        for step, value in points:
            watch.observe(step, sign * value)
        if watch.anchor is None:
            return ClauseStatus(str(self), f"{metric}: not seen yet")
        (step, value), (since, best) = points[-1], watch.anchor
        numbers = (
            f"{metric} {format_number(value)} at step {step}; since "
            f"{format_number(sign * best)} at step {since} no gain of {self._percent}"
        )
        return ClauseStatus(str(self), numbers, step - since >= self.steps)


@dataclass(frozen=True, slots=True)
class TimeClause:
    """The run took longer than so many seconds."""

    seconds: float

    def __str__(self) -> str:
        return f"time > {format_duration(self.seconds)}"

    def judge(self, facts: RunFacts) -> ClauseStatus:
        numbers = f"ran {duration(facts.seconds)}"
        return ClauseStatus(str(self), numbers, facts.seconds > self.seconds)


Clause: TypeAlias = MetricClause | PlateauClause | TimeClause


@dataclass(frozen=True, slots=True)
class Criteria:
    """Any of its clauses ends the run."""

    clauses: tuple[Clause, ...]

    def __str__(self) -> str:
        return " or ".join(map(str, self.clauses))

    @property
    def metrics(self) -> tuple[str, ...]:
        """Canonical names of those that are named, once each."""
        named = (one for one in self.clauses if not isinstance(one, TimeClause))
        return tuple(dict.fromkeys(one.metric for one in named if one.metric))


def parse_criteria(text: str) -> Criteria:
    """The clauses of a text; raises CriteriaRefused."""
    return _read_clauses(text, _EXAMPLES)


def format_criteria(criteria: Criteria) -> str:
    """The canonical text, which reads back as the same criteria."""
    return str(criteria)


def judge_criteria(criteria: Criteria, facts: RunFacts) -> CriteriaStatus:
    """Each clause as the facts have it now; nothing is remembered in between."""
    return CriteriaStatus(tuple(one.judge(facts) for one in criteria.clauses))


def describe_status(status: CriteriaStatus) -> str:
    """On one line: `loss > 4 after step 1000 → NOT TRIGGERED (loss 2.34 at step
    1500)`."""
    return "; ".join(map(str, status.clauses))


def parse_expectation(text: str) -> MetricClause:
    """`METRIC op NUMBER [after step N]`; raises CriteriaRefused."""
    clause, *more = _read_clauses(text, _EXPECTED).clauses
    if isinstance(clause, MetricClause) and clause.after_seconds is None and not more:
        return clause
    problem = "that is more than one metric and a step"
    raise CriteriaRefused(problem, f'"{clean_line(text, 80)}"', f"Write {_EXPECTED}.")


def judge_expectation(clause: MetricClause, facts: RunFacts) -> bool | None:
    """Whether a run that ended met it; None: it did not get so far, or never told the
    metric. A value that is nan meets nothing."""
    found = facts.read(clause.metric)
    if found is None or clause.find_gate(facts, found[1]):
        return None
    return clause.compare(found[0])


def _read_clauses(text: str, examples: str) -> Criteria:
    """An error says which part of the text it is."""
    problem, place = f"more than {MOST_CHARACTERS} characters", text
    if len(text) <= MOST_CHARACTERS:
        try:
            parts = _OR.split(clean_line(text, MOST_CHARACTERS))
            criteria = Criteria(tuple(_parse_clause(place := part) for part in parts))
            if len(str(criteria)) <= MOST_CHARACTERS:  # so that it reads back
                return criteria
        except ValueError as error:
            problem, place = str(error), place.strip() or text
    raise CriteriaRefused(problem, f'"{clean_line(place, 80)}"', f"Write {examples}.")


def _parse_clause(text: str) -> Clause:
    """Raises ValueError with a sentence."""
    text = text.strip()
    if not text:
        raise ValueError("a clause is empty")
    if text.lower().split()[0] == "plateau":
        return _parse_plateau(text)
    parts = _COMPARISON.fullmatch(text)
    if parts is None:
        raise ValueError("it has none of < <= > >= == !=")
    name, op, rest = parts.groups()
    if name.lower() == "time" and op == ">":
        return TimeClause(parse_duration(rest))
    if op not in get_args(Op):
        raise ValueError(f'"{op}" is none of < <= > >= == !=')
    metric, value = _read_metric(name), _VALUE.fullmatch(rest)
    if value is None:
        raise ValueError(
            f'"{rest}" is no number, with "after ..." or nothing behind it'
        )
    number = float(value[1])
    if not math.isfinite(number):
        raise ValueError(f'"{value[1]}" is too large a number')
    return MetricClause(metric, cast("Op", op), number, *_parse_gate(value[2]))


def _parse_gate(text: str | None) -> tuple[int | None, float | None]:
    """The step or the seconds behind `after`."""
    if text is None:
        return None, None
    if step := _AFTER_STEP.fullmatch(text):
        return int(step[1]), None
    return None, parse_duration(text)


def _parse_plateau(text: str) -> PlateauClause:
    parts = _PLATEAU.fullmatch(text)
    if parts is None:
        raise ValueError("a plateau reads: plateau 1% of loss in 500 steps")
    percent, steps = float(parts[1]), int(parts[3])
    if not 0 <= percent < 100 or steps < 1:
        raise ValueError("a plateau has 0 to 100 per cent, and at least one step")
    return PlateauClause(percent, steps, _read_metric(parts[2]) if parts[2] else "")


def _read_metric(text: str) -> str:
    """The canonical name of a metric. Of several words it is one only where that is a
    common name (`lm loss`): in `when loss` the first is none."""
    name = find_canonical_name(text)
    if not _NAME.fullmatch(text) or not re.search(r"[^\W\d_]", name):
        raise ValueError(f'"{text}" is no name of a metric')
    if name in _RESERVED:
        raise ValueError(f'"{text}" cannot be the name of a metric')
    if " " in text and name == normalize_name(text) and name not in MAIN_METRICS:
        raise ValueError(f'"{text}" is no name of a metric; in one word it is {name}')
    return name
