from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.model.agents import Outcome, Usage
from autoexp_tui.model.specs import Resources
from autoexp_tui.model.state import Attempt, JobRecord
from autoexp_tui.model.wording import CODES, sentence
from autoexp_tui.research.budgets import (
    MILESTONES,
    Use,
    estimate_item,
    find_reached,
    find_refusal,
    list_crossed,
    measure_uses,
)
from autoexp_tui.research.events import AnswerRead, ConsultationOpened, MilestoneCrossed
from autoexp_tui.research.options import Budgets, ResearchOptions, RoleBudget
from autoexp_tui.research.state import Item, Research, Role, Run
from autoexp_tui.research.warnings import list_conditions
from tests.model.builders import job
from tests.research.lists import Session, item, research, run


def limited(**budgets: Any) -> ResearchOptions:
    return ResearchOptions(budgets=Budgets(**budgets))


def record(
    name: str, *spans: tuple[float | None, float | None], **of: Any
) -> JobRecord:
    gpus = Resources(gpus=of.pop("gpus", 0))
    attempts = tuple(
        Attempt(number=n, token="", ordered_at=0.0, began_at=began, ended_at=ended)
        for n, (began, ended) in enumerate(spans)
    )
    return JobRecord(spec=job(name, resources=gpus, **of), attempts=attempts)


AB = ("a", "b")
TWO = [record("a", (0.0, 40.0), (50.0, None), gpus=2), record("b", (20.0, 60.0))]


@pytest.mark.parametrize(("gpus", "records", "seconds"), [
    (None, TWO, 2 * (40 + 50)),  # each job its own
    (3, TWO, 3 * 100),  # the run's, while any job runs
    (3, [record("a", (10.0, 20.0)), record("b", (60.0, 70.0))], 3 * 20),
    (None, [record("a", (None, None), gpus=4)], 0),
    (None, [record("a", (200.0, None), gpus=4)], 0),  # a clock that went back
])  # fmt: skip
def test_gpu_hours_are_those_of_attempts(
    gpus: int | None, records: list[JobRecord], seconds: float
) -> None:
    live = Run(id="r", item=Item(id="r", gpus=gpus), jobs=AB)
    now = research(runs=(live,), options=limited(gpu_hours=1.0), gpu_seconds=360.0)
    jobs = {one.name: one for one in records}
    (use,) = measure_uses(now, jobs, t=100.0, lived=5.0)
    assert use.used * 3600 == pytest.approx(360 + seconds)


def test_budgets_without_a_limit_are_not_there() -> None:
    spent: dict[str, Any] = {
        "calls": {"research": 2, "fixer": 1},
        "usage": {"research": Usage(input_tokens=70, output_tokens=5, cached_tokens=9)},
        "costs": {"research": 1.0, "fixer": 0.5},
    }
    assert measure_uses(research(**spent), {}, 0.0, 9.0) == ()
    every = limited(wall_seconds=10.0, calls=6, tokens=100, money=2.0)
    uses = measure_uses(research(options=every, **spent), {}, 0.0, 9.0)
    assert [(one.name, one.used, one.left) for one in uses] == [
        ("wall_seconds", 9.0, pytest.approx(0.1)),
        ("calls", 3, 0.5),
        ("tokens", 75, 0.25),
        ("money", 1.5, 0.25),
    ]


@pytest.mark.parametrize(("used", "limit", "crossed", "warned"), [
    (2, 10, [], []),
    (25, 100, [75], []),
    (5, 10, [75, 50], ["budget_used_calls_50"]),
    (75, 100, [75, 50, 25], ["budget_used_calls_50"]),
    (76, 100, [75, 50, 25], ["budget_used_calls_50", "budget_low_calls"]),
    (99, 10, [*MILESTONES],
     ["budget_used_calls_50", "budget_used_calls_80", "budget_low_calls"]),
    (0, 0, [*MILESTONES],
     ["budget_used_calls_50", "budget_used_calls_80", "budget_low_calls"]),
])  # fmt: skip
def test_what_a_budget_tells_when(
    used: float, limit: float, crossed: list[int], warned: list[str]
) -> None:
    uses = (Use("calls", used, limit),)
    assert [one.left_percent for one in list_crossed(research(), uses)] == crossed
    found = list_conditions(research(), uses=uses)
    assert [one.key for one in found] == warned
    assert {one.why.code for one in found} <= CODES.keys()


def test_a_warning_has_its_numbers() -> None:
    *_, found = list_conditions(research(), uses=(Use("wall_seconds", 9e3, 1e4),))
    assert (found.severity, found.evidence) == ("medium", ("2 h 30 of 2 h 46 used",))
    told = "below 25 % of a budget are left (time: 2 h 30 of 2 h 46 used)"
    assert sentence(found.why, 0.0) == told


@given(st.lists(st.floats(0, 30), max_size=12), st.integers(0, 10**6))
def test_milestones_are_told_once_each_and_lead_to_one_call(
    steps: list[float], seed: int
) -> None:
    """Also over a restart, which goes on from a copy of the state."""
    rng = random.Random(seed)
    session = Session(research(options=limited(wall_seconds=100.0)))
    used, told = 0.0, list[int]()
    for step in steps:
        used += step
        uses = measure_uses(session.research, {}, used, used)
        crossed = list_crossed(session.research, uses)
        session.happen(*(MilestoneCrossed(milestone=one) for one in crossed))
        assert len(session.research.triggers) == len(crossed)
        if rng.random() < 0.5:
            session = Session(session.research.fork())
        assert list_crossed(session.research, uses) == []
        name = f"c{session.research.next_consultation}"
        session.happen(ConsultationOpened(consultation=name, role="research"))
        assert session.research.triggers == ()
        told += [one.left_percent for one in crossed]
    assert told == [percent for percent in MILESTONES if used >= 100 - percent]


@pytest.mark.parametrize(("uses", "reached"), [
    ((Use("wall_seconds", 9.0, 10.0), Use("gpu_hours", 2.0, 2.0)),
     "nothing more begins: a budget is used up (GPU hours: 2 of 2)"),
    ((Use("wall_seconds", 61.0, 60.0),),
     "nothing more begins: a budget is used up (time: 61 s of 60 s)"),
    # What calls have paid for is still run.
    ((Use("calls", 9, 9), Use("tokens", 9, 9), Use("money", 9.0, 9.0)), None),
])  # fmt: skip
def test_used_up_time_and_gpu_hours_end_everything(
    uses: tuple[Use, ...], reached: str | None
) -> None:
    found = find_reached(uses)
    assert (found and sentence(found, 0.0)) == reached
    refused = find_refusal(research(), "fixer", uses)
    assert refused is not None
    assert reached is None or refused == found


SPENT: dict[str, Any] = {
    "calls": {"research": 2},
    "usage": {"research": Usage(input_tokens=50, output_tokens=10)},
}


@pytest.mark.parametrize(("role", "budgets", "told"), [
    ("research", {"calls": 2},
     "no agent is called: a budget is used up (calls: 2 of 2)"),
    ("research", {"research": RoleBudget(calls=2)},
     "no agent is called: a budget is used up (calls of the role research: 2 of 2)"),
    ("fixer", {"research": RoleBudget(calls=2)}, None),
    ("fixer", {"tokens": 80}, None),  # nobody knows what it uses
    ("research", {"tokens": 90}, None),
    ("research", {"tokens": 80},
     "no agent is called: a call uses about 30, which a budget has not left (tokens: "
     "60 of 80)"),
])  # fmt: skip
def test_a_call_that_does_not_fit_is_refused_with_its_numbers(
    role: Role, budgets: dict[str, Any], told: str | None
) -> None:
    now = research(options=limited(**budgets), **SPENT)
    found = find_refusal(now, role, measure_uses(now, {}, 0.0, 0.0))
    assert (found and sentence(found, 0.0)) == told


LIMITS = st.none() | st.integers(0, 120)
COUNTS = st.none() | st.integers(0, 6)
ROLE_LIMITS = st.builds(RoleBudget, calls=COUNTS, tokens=LIMITS, money=LIMITS)
TRADE = st.tuples(st.sampled_from(["research", "fixer"]), st.integers(0, 40))


@settings(max_examples=150)
@given(COUNTS, LIMITS, LIMITS, ROLE_LIMITS, ROLE_LIMITS, st.lists(TRADE, max_size=12))
def test_no_call_begins_whose_estimate_does_not_fit_and_no_other_is_refused(
    calls: int | None,
    tokens: int | None,
    money: int | None,
    own: RoleBudget,
    fixers: RoleBudget,
    trade: list[tuple[Role, int]],
) -> None:
    options = limited(
        calls=calls, tokens=tokens, money=money, research=own, fixer=fixers
    )
    session = Session(research(options=options))
    last = ""
    for number, (role, amount) in enumerate(trade, 1):
        now = session.research
        uses = measure_uses(now, {}, 0.0, 0.0)
        fits = _fits_all(now, role)
        assert (find_refusal(now, role, uses) is None) == fits
        if fits:
            name = f"c{number}"
            session.happen(ConsultationOpened(consultation=name, role=role))
            if last:  # one call is under way while the next is asked for
                read = AnswerRead(
                    consultation=last,
                    outcome=Outcome.OK,
                    usage=Usage(output_tokens=amount),
                    cost=float(amount),
                )
                session.happen(read)
            last = name


def _fits_all(now: Research, role: Role) -> bool:
    """Whether each limit has room for what is used, what is under way and one more."""
    every: list[Role] = ["research", "fixer"]
    ended = [one for one in now.consultations.values() if one.ended_lived is not None]
    under_way = [one for one in now.consultations.values() if one.ended_lived is None]

    def use(whose: Role, what: str) -> list[float]:
        mine = [one for one in ended if one.role == whose]
        if what == "calls":
            return [1.0 for _ in mine]
        if what == "money":
            return [one.cost or 0.0 for one in mine]
        return [float(one.usage.output_tokens if one.usage else 0) for one in mine]

    def mean(whose: Role, what: str) -> float:
        used = use(whose, what)
        return 1.0 if what == "calls" else sum(used) / (len(used) or 1)

    def fits(limit: float | None, roles: list[Role], what: str) -> bool:
        if limit is None:
            return True
        used = sum(sum(use(whose, what)) for whose in roles)
        calling = [one.role for one in under_way if one.role in roles]
        left = limit - used - sum(mean(whose, what) for whose in calling)
        return left > 0 and mean(role, what) <= left

    budgets = now.options.budgets
    return all(
        fits(getattr(of, what), roles, what)
        for of, roles in ((budgets, every), (getattr(budgets, role), [role]))
        for what in ("calls", "tokens", "money")
    )


LIMITED = (job("a", resources=Resources(time_limit_seconds=7200)), job("b"))


@pytest.mark.parametrize(("ended", "wanted", "hours"), [
    ([], Item(id="x", gpus=4, jobs=LIMITED), 8.0),
    ([], item("x", 4), 0.0),
    ([1.0, 9.0, 2.0], item("x", 4), 8.0),
    ([1.0, 2.0], item("x", 2), 3.0),
    ([0.0, 3.0], item("x", 2), 6.0),  # what never ran says nothing
])  # fmt: skip
def test_an_item_is_estimated_by_runs_that_ended(
    ended: list[float], wanted: Item, hours: float
) -> None:
    runs = [run(f"r{n}", gpus=n + 1, hours=length) for n, length in enumerate(ended)]
    now = research(runs=(*runs, run("cpu", gpus=0), run("live", ended=False)))
    assert estimate_item(now, wanted) == pytest.approx(hours)
