"""ctrl+r over a running session: what is typed, asked and sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autoexp_tui.cockpit.context import GrowthOrder
from autoexp_tui.cockpit.widgets.bars import Prompt
from autoexp_tui.model import commands as c
from autoexp_tui.model.errors import Problem, ValidationFailed
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.planning.growth import Choices, Growth
from tests.cockpit.seat import cockpit
from tests.model.builders import job, plan


def growing(*names: str, gone: tuple[str, ...] = ()) -> Growth:
    """A growth that adds jobs, and has no more some of the session."""
    jobs = [job(name, at, family=f"g{at}") for at, name in enumerate(names)]
    made, attempts = plan(*jobs), dict.fromkeys(gone, 0)
    return Growth(plan=made, renamed=made, added=names, waiting=gone, attempts=attempts)


class Roads:
    """What plans and stores, and what it was asked."""

    def __init__(self, growth: Growth, command: c.Grow) -> None:
        self.growth, self.command = growth, command
        self.asked: list[Sequence[str]] = []
        self.chosen: list[Choices] = []

    def plan(self, _: Snapshot, overrides: Sequence[str]) -> Growth:
        self.asked.append(overrides)
        return self.growth

    def store(self, _: Snapshot, growth: Growth, choices: Choices) -> GrowthOrder:
        self.chosen.append(choices)
        return self.command, growth.attempts

    @property
    def options(self) -> dict[str, Any]:
        return {"plan_growth": self.plan, "store_growth": self.store}


async def test_two_more_values_join_with_three_keys_beside_them() -> None:
    roads = Roads(growing("x", "y"), c.Grow(sha="s", run=("x", "y")))
    async with cockpit(**roads.options) as seat:
        await seat.see("ctrl+r", focus="prompt")
        await seat.type(",7,8")
        await seat.see("enter", dialog="Let 2 jobs join?|adds 2 jobs|2 jobs join: x, y")
        await seat.order("hear y", roads.command)
    ((given,),) = roads.asked
    assert given.startswith("optim.lr=[0.001,")
    assert given.endswith(",7,8]")


async def test_each_group_is_asked_about_and_leaving_sends_nothing() -> None:
    roads = Roads(growing("x", gone=("w",)), c.Grow(sha="s", hold=("w",)))
    async with cockpit(**roads.options) as seat:
        await seat.see("ctrl+r enter", dialog="1 job is no longer planned, and waits|w")
        await seat.play("hear escape")
        await seat.until(lambda: not seat.dialog)
        assert not seat.handle.sent
        await seat.see("ctrl+r enter", dialog="no longer planned")
        await seat.see("hear down y", dialog="Let 1 job join?")
        await seat.order("hear y", roads.command)
        assert seat.handle.sent[0].expected == {"w": 0}
    assert roads.asked == [[], []]  # the sweep as it is asks for nothing
    assert roads.chosen == [Choices(waiting="hold")]


async def test_what_cannot_be_planned_changes_nothing_and_can_be_mended() -> None:
    wrong = Problem("no key lrr", "override lrr", hint="did you mean `lr`?")

    def fail(*_: object) -> Growth:
        raise ValidationFailed("the plan has 1 error", problems=(wrong,))

    options = {**Roads(growing(), c.Grow(sha="s")).options, "plan_growth": fail}
    async with cockpit(**options) as seat:
        await seat.see("ctrl+r", footer="plan again with")
        seat.app.screen.query_one(Prompt).value = "lrr=7"
        await seat.see("enter", dialog="Nothing joins|no key lrr|did you mean")
        await seat.see("hear escape ctrl+r", footer="plan again with")
        assert seat.app.screen.query_one(Prompt).value == "lrr=7"
        assert not seat.handle.sent


async def test_a_view_that_only_reads_asks_for_nothing() -> None:
    roads = Roads(growing("x"), c.Grow(sha="s"))
    async with cockpit(handle_read_only=True, **roads.options) as seat:
        await seat.see("ctrl+r", footer="read only")
    assert not roads.asked
