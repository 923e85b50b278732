from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.conditions.jobs import Op
from autoexp_tui.engine.telemetry import RunTelemetry
from autoexp_tui.model.facts import MetricFact
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.snapshot import Curve
from autoexp_tui.research.criteria import (
    Clause,
    CriteriaRefused,
    MetricClause,
    PlateauClause,
    RunFacts,
    TimeClause,
    format_criteria,
    judge_criteria,
    judge_expectation,
    parse_criteria,
    parse_expectation,
)
from autoexp_tui.text.log_lines import find_canonical_name

OPERATORS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
OPS: tuple[Any, ...] = get_args(Op)
STEPS = st.integers(0, 10**18 - 1)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
SECONDS = st.floats(1e-6, 1e9) | st.integers(0, 10**7).map(float)
RESERVED = ["time", "plateau", "or"]
NAMES = st.from_regex(r"[a-zé][\wé/.-]{0,12}", fullmatch=True)
METRICS = NAMES.map(find_canonical_name).filter(
    lambda name: name not in RESERVED and any(map(str.isalpha, name))
)
COMPARISONS = st.builds(MetricClause, METRICS, st.sampled_from(OPS), NUMBERS)
CLAUSES = (
    COMPARISONS
    | st.builds(lambda one, n: replace(one, after_step=n), COMPARISONS, STEPS)
    | st.builds(lambda one, s: replace(one, after_seconds=s), COMPARISONS, SECONDS)
    | st.builds(
        PlateauClause,
        st.floats(0, 99.9),
        st.integers(1, 10**9),
    )
    | st.builds(TimeClause, SECONDS)
)


@given(st.lists(CLAUSES, min_size=1, max_size=4).map(tuple))
def test_what_is_formatted_reads_back_as_the_same(
    criteria: tuple[Clause, ...],
) -> None:
    text = format_criteria(criteria)
    assert parse_criteria(text) == criteria
    assert format_criteria(parse_criteria(text.replace(" ", "  "))) == text


@pytest.mark.parametrize(("text", "canonical"), [
    ("loss > 4.0 after step 1000", "loss > 4 after step 1000"),
    ("lm loss>2.3E-1 After 90 min", "loss > 0.23 after 90 min"),
    ("Train/Loss != -.5", "loss != -0.5"),
    ("eval loss >= +1e3 after 3 h 12", "eval_loss >= 1e3 after 192 min"),
    ("plateau 1 % in 500 steps", "plateau 1% in 500 steps"),
    ("plateau 0.5% in 1 step", "plateau 0.5% in 1 steps"),
    ("TIME >2h or\n time > 1 d 4 h", "time > 2 h or time > 28 h"),
])  # fmt: skip
def test_a_text_has_one_canonical_form(text: str, canonical: str) -> None:
    assert format_criteria(parse_criteria(text)) == canonical


@pytest.mark.parametrize(("text", "told"), [
    ("", "a clause is empty"),
    ("loss > 4 or", '"loss > 4 or": a clause is empty'),
    ("kill it when the loss explodes", "none of < <="),
    ("loss => 4", '"=>" is none of'),
    ("loss = 4", '"=" is none of'),
    ("> 4", "no name of a metric"),
    ("3 > 4", "no name of a metric"),
    ("-loss > 4", "no name of a metric"),
    ("max(loss) > 4", "no name of a metric"),
    ("time > 1 h or when loss > 4", '"when loss > 4": "when loss" is no name'),
    ("held out loss > 4", "no name of a metric"),
    ("loss > four", '"four" is no number'),
    ("loss > nan", "is no number"),
    ("loss > 1e999", "is no number"),
    ("loss > 4,0", "is no number"),
    ("loss > 4 and step > 3", '"4 and step > 3" is no number'),
    ("loss > 4 after step ten", '"step ten" is no time'),
    ("loss > 4 after epoch 3", '"epoch 3" is no time'),
    ("time > 3", '"3" is no time'),
    ("time >= 3 h", "no name of a metric"),
    ("time > 3 h after step 5", "is no time"),
    ("plateau in 500 steps", "a plateau reads"),
    ("plateau 1% in 0 steps", "a plateau reads"),
    ("plateau 100% in 5 steps", "a plateau reads"),
    ("plateau > 3", "a plateau reads"),
    ("loss > 4" + " or lr<1" * 20, '"1 or lr<1" is no number'),
    ("l" * 200 + " > 4", "a clause is too long"),
    ("loss \x1b[31m~ 4", '"loss ~ 4": it has none'),
])  # fmt: skip
def test_a_near_text_is_refused_with_its_place_and_examples(
    text: str, told: str
) -> None:
    with pytest.raises(CriteriaRefused) as caught:
        parse_criteria(text)
    assert told in str(caught.value).splitlines()[0]
    assert "loss > 4.0 after step 1000" in caught.value.hint


@dataclass
class Told:
    """What a run told."""

    step: int | None = None
    first_step: int | None = None
    values: Mapping[str, MetricFact] = field(default_factory=dict)
    curves: Mapping[str, Curve] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reached = self.step
        self.find_value, self.find_curve = self.values.get, self.curves.get


def make_facts(value: float | None, at: int = 0, **more: Any) -> RunFacts:
    told = {
        name: more.pop(name)
        for name in ("step", "first_step", "curves")
        if name in more
    }
    values = {} if value is None else {"loss": MetricFact(value, at)}
    run: Any = Told(values=values, **told)
    return RunFacts(run, **more)


GATES: list[tuple[str, int, dict[str, Any], str | None]] = [
    ("", 0, {}, None),
    ("", 1500, {"step": 3}, None),
    ("after step 1000", 999, {"step": 999}, "judged from step 1000"),
    ("after step 1000", 900, {"step": 1000}, "judged from step 1000"),
    ("after step 1000", 1000, {"step": 1000}, None),
    ("after step 1000", 1500, {"step": None}, None),
    ("after step 1000", 1500, {"step": 10}, "before the run went back to step 10"),
    ("after step 1000", 1500, {"step": 1100}, "before the run went back to step 1100"),
    ("after 30 min", 7, {"seconds": 1799.0}, "judged after 30 min"),
    ("after 30 min", 7, {"seconds": 1800.0}, None),
]
"""Text, the step of the value, facts, and why it is not judged."""


@pytest.mark.parametrize(("after", "at", "facts", "reason"), GATES)
def test_a_clause_is_triggered_when_it_is_judged_and_holds(
    after: str, at: int, facts: dict[str, Any], reason: str | None
) -> None:
    """With 10 gates 300 cases."""
    for op, value in product(OPERATORS, (2.3, 2.5, 2.7, math.nan, None)):
        text = f"loss {op} 2.5 {after}".strip()
        seen = value is not None and not math.isnan(value)
        holds = seen and reason is None and OPERATORS[op](value, 2.5)
        numbers = f"loss {value} at step {at}" + (f", {reason}" if reason else "")
        shown = "loss: not seen yet" if value is None else numbers
        status = judge_criteria(parse_criteria(text), make_facts(value, at, **facts))
        verdict = "TRIGGERED" if holds else "NOT TRIGGERED"
        assert status.text == f"{text} → {verdict} ({shown})"
        assert status.is_triggered is holds


def test_numbers_that_are_shown_do_not_say_the_contrary() -> None:
    status = judge_criteria(parse_criteria("loss > 4"), make_facts(4.00001, 1))
    assert status.text == "loss > 4 → TRIGGERED (loss 4.00001 at step 1)"


def test_any_clause_triggers_and_each_is_shown() -> None:
    criteria = parse_criteria("loss > 4 or time > 2 h or step >= 10 or acc < 1")
    status = judge_criteria(criteria, make_facts(2.5, 9, step=9, seconds=7300.0))
    assert status.is_triggered
    assert status.text.split("; ") == [
        "loss > 4 → NOT TRIGGERED (loss 2.5 at step 9)",
        "time > 2 h → TRIGGERED (ran 2 h 01)",
        "step >= 10 → NOT TRIGGERED (step 9 at step 9)",
        "acc < 1 → NOT TRIGGERED (acc: not seen yet)",
    ]


FLAT = ((0, 4.0), (100, 2.0), (300, 1.99), (600, 2.1))


def test_a_run_that_told_no_step_is_at_none_whatever_the_run_before_told() -> None:
    run = RunTelemetry(Monitoring(), "a", step=5000)
    assert RunFacts(run).read("step") is None
    run.reached = 5000
    assert RunFacts(run).read("step") == (5000, 5000)


RISES = ((0, 0.5), (100, 0.6), (300, 0.7))


@pytest.mark.parametrize(("text", "points", "facts", "shown"), [
    ("1% in 500 steps", FLAT, {}, "TRIGGERED (since 2 at step 100)"),
    ("1% in 501 steps", FLAT, {}, "NOT TRIGGERED (since 2 at step 100)"),
    ("0.1% in 500 steps", FLAT, {}, "NOT TRIGGERED (since 1.99 at step 300)"),
    ("1% in 500 steps", FLAT, {"first_step": 200},  # it went on at 200
     "NOT TRIGGERED (since 1.99 at step 300)"),
    ("1% in 500 steps", FLAT, {"first_step": 0, "step": 50},  # it began again
     "NOT TRIGGERED (since 4 at step 0)"),
    ("1% in 600 steps", FLAT, {"mode": "max"},
     "TRIGGERED (since 4 at step 0)"),
    ("1% in 200 steps", RISES, {"mode": "max"},
     "NOT TRIGGERED (since 0.7 at step 300)"),
    ("1% in 200 steps", RISES, {}, "TRIGGERED (since 0.5 at step 0)"),
    ("1% in 500 steps", (), {}, "NOT TRIGGERED (loss: not seen yet)"),
])  # fmt: skip
def test_a_plateau_is_steps_without_a_gain_since_the_counter_began(
    text: str, points: tuple[Any, ...], facts: dict[str, Any], shown: str
) -> None:
    criteria = parse_criteria(f"plateau {text}")
    curve = Curve(tuple(at for at, _ in points), tuple(value for _, value in points))
    curves = {"loss": curve} if points else {}
    made = make_facts(None, curves=curves, **{"step": 700, **facts})
    status = judge_criteria(criteria, made).text
    verdict, _, numbers = shown.partition("(")
    assert status.startswith(f"plateau {text} → {verdict}(loss")
    assert numbers.removesuffix(")") in status


@pytest.mark.parametrize(("text", "facts", "met"), [
    ("loss < 2.5", make_facts(2.4, 10, step=10), True),
    ("loss < 2.5", make_facts(2.5, 10, step=10), False),
    ("loss < 2.5", make_facts(math.nan, 10, step=10), False),
    ("loss != 2.5", make_facts(math.nan, 10, step=10), False),
    ("loss < 2.5", make_facts(None, step=10), None),
    ("loss < 2.5 after step 11", make_facts(2.4, 10, step=10), None),
    ("loss < 2.5 after step 10", make_facts(2.4, 10, step=10), True),
])  # fmt: skip
def test_a_run_meets_what_was_expected_or_not_or_never_got_there(
    text: str, facts: RunFacts, met: bool | None
) -> None:
    assert judge_expectation(parse_expectation(text), facts) is met


@pytest.mark.parametrize("text", [
    "plateau 1% in 5 steps", "time > 2 h", "loss < 3 or acc > 1", "loss < 3 after 2 h",
    "better than the baseline", "",
])  # fmt: skip
def test_what_is_expected_is_one_comparison(text: str) -> None:
    with pytest.raises(CriteriaRefused):
        parse_expectation(text)
