"""The errors of a plan: each leads to its place, and ctrl+r plans again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.cockpit.context import LeaveWay
from autoexp_tui.cockpit.render import plan_findings as fault_view
from autoexp_tui.cockpit.spans import wrap
from autoexp_tui.cockpit.widgets.pane import LinesWidget
from autoexp_tui.engine.session_handle import make_empty_snapshot
from autoexp_tui.model.errors import Problem
from tests.cockpit.plans import holey, opened
from tests.cockpit.seat import Seat, cockpit
from tests.planning.plans import job, plan

LINES = [f"line {at}" for at in range(1, 60)]


@pytest.fixture
def faults(tmp_path: Path) -> tuple[Problem, ...]:
    path = tmp_path / "exp.yaml"
    path.write_text("\n".join(LINES))
    return (
        Problem(
            message="no key backend.lrr",
            where="backend.lrr",
            hint="did you mean `backend.lr`?",
            place=f"{path}:41",
        ),
        Problem(message="a second thing", where="sweep", job="job 3"),
    )


async def faulty(seat: Seat, faults: tuple[Problem, ...]) -> None:
    """Show them over a plan that does not exist yet."""
    seat.app.show_faults(faults)
    await seat.until(lambda: seat.dialog)


SCENES = {
    "every error is shown with its place": (
        "",
        "The plan has 2 errors. Nothing was submitted.|exp.yaml:41 backend.lrr"
        "|did you mean `backend.lr`?|a second thing",
    ),
    "enter opens the file at the line": ("enter", ">   41 │ line 41|!line 36"),
    "enter again closes the excerpt": ("enter enter", "!line 41"),
    "a finding of no file says so": ("j enter", "no file is known for this one"),
    "ctrl+r plans again": ("ctrl+r", "planning again"),
}


@pytest.mark.parametrize("scene", SCENES)
async def test_keys_over_the_errors(scene: str, faults: tuple[Problem, ...]) -> None:
    asked: list[str] = []
    script, shown = SCENES[scene]
    async with cockpit(replan=lambda: asked.append("again")) as seat:
        await faulty(seat, faults)
        for key in script.split():
            await seat.press(key)
            await seat.until(lambda: seat.app.context.background.is_idle)
        seat.check(dialog=shown)
        assert asked == ["again"] * (script == "ctrl+r")


async def test_a_key_lays_out_no_more_than_its_finding_of_a_thousand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    laid_out: list[object] = []

    def counted(*given: Any) -> Any:
        laid_out.append(given)
        return wrap(*given)

    monkeypatch.setattr(fault_view, "wrap", counted)
    many = tuple(Problem(message=f"no key k{at}", where=f"k{at}") for at in range(1000))
    async with cockpit() as seat:
        await faulty(seat, many)
        laid_out.clear()
        await seat.press("j", "end", "k")
        assert "> k0" in seat.dialog
        assert "no key k5" in seat.dialog
        assert len(laid_out) < 40


async def test_a_file_that_is_gone_is_told(faults: tuple[Problem, ...]) -> None:
    gone = replace(faults[0], place="/nowhere/exp.yaml:41")
    async with cockpit() as seat:
        await faulty(seat, (gone,))
        await seat.press("enter")
        await seat.until(lambda: "cannot be read" in seat.dialog)


async def test_what_is_left_after_planning_again_takes_its_place(
    faults: tuple[Problem, ...],
) -> None:
    async with cockpit(replan=lambda: None) as seat:
        await faulty(seat, faults)
        await seat.press("ctrl+r")
        seat.app.show_faults(faults[1:])
        await seat.pilot.pause()
        assert "The plan has 1 error." in seat.dialog
        assert "backend.lrr" not in seat.dialog


async def test_a_sound_plan_closes_the_errors(faults: tuple[Problem, ...]) -> None:
    async with cockpit(opened(holey()), replan=lambda: None) as seat:
        await faulty(seat, faults)
        await seat.push(opened(plan([job("mended")])))
        assert not seat.dialog
        assert "mended" in seat.pane("why")


async def test_closing_them_over_a_plan_keeps_that_plan(
    faults: tuple[Problem, ...],
) -> None:
    async with cockpit(opened(holey())) as seat:
        await faulty(seat, faults)
        await seat.press("escape")
        assert "the plan of before stands" in seat.footer
        assert not seat.left


async def test_closing_them_without_a_plan_leaves(faults: tuple[Problem, ...]) -> None:
    async with cockpit(make_empty_snapshot("exp", "planning exp")) as seat:
        await faulty(seat, faults)
        await seat.press("q")
        await seat.until(lambda: seat.left)
        assert seat.left == [LeaveWay.NOTHING]


async def test_behind_the_errors_stands_what_became_of_the_planning(
    faults: tuple[Problem, ...],
) -> None:
    shown = make_empty_snapshot("exp", "planning exp")
    async with cockpit(shown, replan=lambda: None) as seat:
        await faulty(seat, faults)
        behind = _behind(seat)
        assert "exp   planning failed" in behind
        assert " planning exp failed" in behind
        assert "appear when it is done" not in behind
        await seat.press("ctrl+r")
        assert "failed" not in _behind(seat)
        seat.app.show_faults(faults)
        await seat.pilot.pause()
        assert " planning exp failed" in _behind(seat)


def _behind(seat: Seat) -> str:
    screen = seat.app.full_screen
    assert screen is not None
    return "\n".join(one.text_on_screen for one in screen.query(LinesWidget))


async def test_ctrl_r_over_a_plan_plans_it_again_and_over_a_session_does_not() -> None:
    asked: list[str] = []
    first = opened(plan([job("old")]))
    async with cockpit(first, replan=lambda: asked.append("x")) as seat:
        seat.handle.role = "live"
        await seat.press("ctrl+r")
        assert not asked
        seat.check(footer="nobody has submitted")
        seat.handle.role = "plan"
        await seat.press("ctrl+r")
        assert asked == ["x"]
        await seat.push(opened(plan([job("other")])))
        seat.check(footer="planned again: 1 job", why="other")
        assert seat.model.session.job("old") is None


async def test_hostile_text_of_a_finding_reaches_no_terminal(tmp_path: Path) -> None:
    bad = "\x1b]52;c;AA\x07[/red]\u202e"
    path = tmp_path / "exp.yaml"
    path.write_text(f"{bad}\n" * 9)
    fault = Problem(message=bad, where=bad, hint=bad, job=bad, place=f"{path}:4")
    async with cockpit() as seat:
        await faulty(seat, (fault,))
        await seat.press("enter")
        await seat.until(lambda: "> " in seat.dialog and "4 │" in seat.dialog)
        assert not {"\x1b", "\x07", "\u202e"} & set(seat.dialog)
        assert "[/red]" in seat.dialog
