"""Criteria that end a run, and what a hypothesis expects of one.

A text is clauses joined by `or`: `loss > 4 after step 1000`, `eval_loss > 3 after 2 h`,
`plateau 1% in 500 steps` of the objective, `time > 6 h`. Agents
write them, so a text is bounded and what does not read is refused; nothing is guessed.
A value that is nan triggers nothing here: that a run ends by it is decided elsewhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, NamedTuple, TypeAlias, cast, get_args

from autoexp_tui.conditions.jobs import Op, compare
from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.model.rules import Anomalies
from autoexp_tui.model.snapshot import Curve, Live, LiveRun
from autoexp_tui.telemetry.inactivity import AnomalyWatch
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

_MOST_CLAUSES: Final = 20
"""What is behind them is none."""
_MOST_CHARACTERS: Final = 200
"""Of a clause."""
_EXAMPLES: Final = (
    "loss > 4.0 after step 1000, eval_loss >= 3 after 30 min, "
    "plateau 1% in 500 steps, time > 2 h; joined by or"
)
_EXPECTED: Final = "loss < 2.5, or accuracy >= 0.9 after step 1000"
_NUMBER: Final = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_FLAGS: Final = re.ASCII | re.IGNORECASE
_OR: Final = re.compile(r"(?: |^)or(?= |$)", re.IGNORECASE)
_COMPARISON: Final = re.compile(r"([^<>=!]*?) ?([<>=!]+) ?(.*)")
_VALUE: Final = re.compile(
    rf"({_NUMBER})(?: after (?:step (\d{{1,18}})|(.*)))?", _FLAGS
)
_PLATEAU: Final = re.compile(rf"plateau ({_NUMBER}) ?% in (\d{{1,18}}) steps?", _FLAGS)
_NAME: Final = re.compile(r"\w[\w./:@%#-]*(?: \w[\w./:@%#-]*)*")
_RESERVED: Final = frozenset({"time", "plateau", "or"})


@dataclass(eq=False)
class CriteriaRefused(AutoexpError):
    """A text that does not read; `where` has the clause, `hint` what would."""

    exit_code: ClassVar[int] = 3


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What criteria ask of a run."""

    run: LiveRun | Live
    metric: str = LOSS
    """The objective's: of which a plateau is."""
    mode: Literal["min", "max"] = "min"
    """Which way it gets better."""
    seconds: float = 0.0
    """That it has run."""

    @property
    def step(self) -> int | None:
        """Where its counter stands; None: it told no step."""
        return None if self.run.reached is None else self.run.step

    def read(self, metric: str) -> tuple[float, int] | None:
        """The newest value and its step; None: it was never seen."""
        if metric == STEP and self.step is not None:
            return self.step, self.step
        fact = self.run.find_value(metric)
        return None if fact is None else (fact.value, fact.step)

    def list_points(self) -> Sequence[tuple[int, float]]:
        """Steps and values of the objective since the counter began, or went back: no
        plateau is older."""
        curve = self.run.find_curve(self.metric) or Curve()
        first = -math.inf if self.run.first_step is None else self.run.first_step
        last = math.inf if self.step is None else self.step
        points = zip(curve.steps, curve.values, strict=False)
        return [point for point in points if first <= point[0] <= last]


class CriteriaStatus(NamedTuple):
    is_triggered: bool
    text: str
    """Each clause with the numbers that it was judged by, on one line: `loss > 4 after
    step 1000 → NOT TRIGGERED (loss 2.34 at step 1500)`."""


Judged: TypeAlias = tuple[bool, str]
"""Whether a clause is triggered, and by which numbers."""


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

    def judge(self, facts: RunFacts) -> Judged:
        found = facts.read(self.metric)
        if found is None:
            return False, f"{self.metric}: not seen yet"
        value, step = found
        numbers = f"{self.metric} {format_float(float(f'{value:.6g}'))} at step {step}"
        if gate := self.find_gate(facts, step):
            return False, f"{numbers}, {gate}"
        return self.compare(value), numbers


@dataclass(frozen=True, slots=True)
class PlateauClause:
    """The objective did not get better by so many per cent in so many steps."""

    percent: float
    steps: int

    def __str__(self) -> str:
        return f"plateau {format_float(self.percent)}% in {self.steps} steps"

    def judge(self, facts: RunFacts) -> Judged:
        metric, points = facts.metric, facts.list_points()
        sign = -1 if facts.mode == "max" else 1
        watch = AnomalyWatch(Anomalies(plateau_percent=self.percent), metric)
        for step, value in points:
            watch.observe(step, sign * value)
        if watch.anchor is None:
            return False, f"{metric}: not seen yet"
        (step, value), (since, best) = points[-1], watch.anchor
        now, then = format_number(value), format_number(sign * best)
        told = f"{metric} {now} at step {step}; no gain since {then} at step {since}"
        return step - since >= self.steps, told


@dataclass(frozen=True, slots=True)
class TimeClause:
    """The run took longer than so many seconds."""

    seconds: float

    def __str__(self) -> str:
        return f"time > {format_duration(self.seconds)}"

    def judge(self, facts: RunFacts) -> Judged:
        return facts.seconds > self.seconds, f"ran {duration(facts.seconds)}"


Clause: TypeAlias = MetricClause | PlateauClause | TimeClause
Criteria: TypeAlias = tuple[Clause, ...]
"""Any of them ends the run."""


def parse_criteria(text: str) -> Criteria:
    """The clauses of a text; raises CriteriaRefused."""
    return _read_clauses(text, _EXAMPLES)


def format_criteria(criteria: Criteria) -> str:
    """The canonical text, which reads back as the same criteria."""
    return " or ".join(map(str, criteria))


def judge_criteria(criteria: Criteria, facts: RunFacts) -> CriteriaStatus:
    """Each clause as the facts have it now; nothing is remembered in between."""
    judged = [(clause, *clause.judge(facts)) for clause in criteria]
    texts = (
        f"{clause} → {'' if is_triggered else 'NOT '}TRIGGERED ({numbers})"
        for clause, is_triggered, numbers in judged
    )
    is_any = any(is_triggered for _, is_triggered, _ in judged)
    return CriteriaStatus(is_any, "; ".join(texts))


def parse_expectation(text: str) -> MetricClause:
    """`METRIC op NUMBER [after step N]`; raises CriteriaRefused."""
    clause, *more = _read_clauses(text, _EXPECTED)
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
    part = text
    try:
        parts = _OR.split(clean_line(text, len(text)), _MOST_CLAUSES - 1)
        return tuple(_parse_clause(part := one.strip()) for one in parts)
    except ValueError as error:
        place = f'"{clean_line(part or text, 80)}"'
        raise CriteriaRefused(str(error), place, f"Write {examples}.") from None


def _parse_clause(text: str) -> Clause:
    """Raises ValueError with a sentence."""
    if not text or len(text) > _MOST_CHARACTERS:
        raise ValueError("a clause is empty" if not text else "a clause is too long")
    if text.lower().split()[0] == "plateau":
        return _parse_plateau(_PLATEAU.fullmatch(text))
    parts = _COMPARISON.fullmatch(text)
    if parts is None:
        raise ValueError("it has none of < <= > >= == !=")
    name, op, rest = parts.groups()
    if name.lower() == "time" and op == ">":
        return TimeClause(parse_duration(rest))
    if op not in get_args(Op):
        raise ValueError(f'"{op}" is none of < <= > >= == !=')
    metric, value = _read_metric(name), _VALUE.fullmatch(rest)
    if value is None or not math.isfinite(number := float(value[1])):
        raise ValueError(f'"{rest}" is no number, or has more than "after ..." behind')
    step = None if value[2] is None else int(value[2])
    seconds = None if value[3] is None else parse_duration(value[3])
    return MetricClause(metric, cast("Op", op), number, step, seconds)


def _parse_plateau(parts: re.Match[str] | None) -> PlateauClause:
    if parts and 0 <= float(parts[1]) < 100 and int(parts[2]):
        return PlateauClause(float(parts[1]), int(parts[2]))
    raise ValueError("a plateau reads: plateau 1% in 500 steps")


def _read_metric(text: str) -> str:
    """The canonical name of a metric. Of several words it is one only where that is a
    common name (`lm loss`): in `when loss` the first is none."""
    name = find_canonical_name(text)
    is_common = name != normalize_name(text) or name in MAIN_METRICS
    is_name = _NAME.fullmatch(text) and re.search(r"[^\W\d_]", name)
    if not is_name or name in _RESERVED or (" " in text and not is_common):
        raise ValueError(f'"{text}" is no name of a metric')
    return name
