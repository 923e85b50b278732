"""What changed since the last plan, told when a plan is opened."""

from __future__ import annotations

from typing import Any

from autoexp_tui.cockpit.render.plan_findings import PlanChanges
from autoexp_tui.model.specs import Plan
from tests.cockpit.plans import holey, opened
from tests.cockpit.seat import Seat, cockpit
from tests.support.campaigns import T0, campaign

CHANGES = PlanChanges(
    T0 - 600, "2 jobs added, 8 the same", (("+", "lr1e-3"), ("~", "seed: 1 -> 2"))
)


def told(plan: Plan) -> PlanChanges | None:
    return CHANGES


async def compared(seat: Seat) -> None:
    """Open the plan, as the engine's thread does, and wait for the comparison."""
    await seat.push(opened(holey()))
    await seat.until(lambda: seat.app.context.background.is_idle)


async def test_a_plan_that_is_opened_says_what_changed() -> None:
    async with cockpit(changes=told) as seat:
        await compared(seat)
        await seat.until(lambda: "2 jobs added, 8 the same" in seat.footer)
        assert "(= reads it)" in seat.footer
        await seat.press("equals_sign")
        assert "~ seed: 1 -> 2" in seat.dialog


async def test_without_an_earlier_plan_the_key_says_so() -> None:
    async with cockpit(changes=lambda plan: None) as seat:
        await compared(seat)
        await seat.press("equals_sign")
        assert "no earlier plan" in seat.footer


async def test_a_plan_as_it_was_says_nothing() -> None:
    same = PlanChanges(T0, "nothing differs: 10 jobs", (), differs=False)
    async with cockpit(changes=lambda plan: same) as seat:
        await compared(seat)
        await seat.until(lambda: seat.app.plan_actions.changes)
        assert "nothing differs" not in seat.footer


async def test_a_session_that_runs_is_compared_with_nothing() -> None:
    asked: list[Any] = []
    async with cockpit(changes=asked.append) as seat:
        await seat.push(campaign(31))
        assert not asked
