"""What is read in a dialog: errors of a plan, changes, how jobs are made, evidence."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.cockpit.context import LeaveWay
from autoexp_tui.cockpit.render import plan_findings
from autoexp_tui.cockpit.widgets.pane import LinesWidget
from autoexp_tui.model.errors import EnvironmentFailed, Problem
from autoexp_tui.model.snapshot import EngineView, Snapshot
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.job_details import Entry, JobDetails
from tests.cockpit.plans import details, holey, opened
from tests.cockpit.seat import PATIENCE, Seat, cockpit, read_lines
from tests.planning.plans import job, plan
from tests.support.campaigns import T0, campaign, planned


@pytest.fixture
def faults(tmp_path: Path) -> tuple[Problem, ...]:
    path = tmp_path / "exp.yaml"
    path.write_text("\n".join(f"line {at}" for at in range(1, 60)))
    wrong = Problem(
        message="no key backend.lrr",
        where="backend.lrr",
        hint="did you mean `backend.lr`?",
        place=f"{path}:41",
    )
    return wrong, Problem(message="a second thing", where="sweep", job="job 3")


async def show_faults(seat: Seat, *faults: Problem) -> None:
    seat.app.show_faults(faults)
    await seat.until(lambda: seat.dialog)


async def test_each_error_leads_to_its_place_and_ctrl_r_plans_again(
    faults: tuple[Problem, ...],
) -> None:
    asked: list[str] = []
    told = "The plan has 2 errors. Nothing was submitted.|exp.yaml:41 backend.lrr"
    async with cockpit(replan=lambda: asked.append("again")) as seat:
        await show_faults(seat, *faults)
        seat.check(dialog=f"{told}|did you mean `backend.lr`?|a second thing")
        await seat.see("enter", dialog=">   41 │ line 41|!line 36")
        await seat.see("enter", dialog="!line 41")
        await seat.see("j enter", dialog="no file is known for this one")
        assert not asked
        await seat.see("ctrl+r", dialog="planning again")
        assert asked == ["again"]
        seat.app.show_faults(faults[1:])
        await seat.see(dialog="The plan has 1 error.|!backend.lrr")
        gone = replace(faults[0], place="/nowhere/exp.yaml:41")
        seat.app.show_faults((gone,))
        await seat.see("enter", dialog="cannot be read")


async def test_errors_close_for_a_sound_plan_or_for_that_of_before(
    faults: tuple[Problem, ...],
) -> None:
    async with cockpit(opened(holey()), replan=lambda: None) as seat:
        await show_faults(seat, *faults)
        await seat.see("escape", footer="the plan of before stands")
        assert not seat.left
        await show_faults(seat, *faults)
        await seat.push(opened(plan([job("mended")])))
        assert not seat.dialog
        seat.check(why="mended")


async def test_behind_errors_without_a_plan_stands_that_planning_failed(
    faults: tuple[Problem, ...],
) -> None:
    def behind() -> str:
        assert seat.app.full_screen is not None
        panes = seat.app.full_screen.query(LinesWidget)
        return "\n".join(map(read_lines, panes))

    shown = Snapshot(name="exp", engine=EngineView(role="plan", doing="planning exp"))
    async with cockpit(shown, replan=lambda: None) as seat:
        await show_faults(seat, *faults)
        for words in ("exp   planning failed", " planning exp failed"):
            assert words in behind()
        assert "appear when it is done" not in behind()
        await seat.press("ctrl+r")
        assert "failed" not in behind()
        seat.app.show_faults(faults)
        await seat.until(lambda: " planning exp failed" in behind())
        await seat.press("q")
        await seat.until(lambda: seat.left)
        assert seat.left == [LeaveWay.LEFT]


async def test_ctrl_r_over_a_plan_plans_it_again_and_without_a_config_says_so() -> None:
    asked: list[str] = []
    first = opened(plan([job("old")]))
    async with cockpit(first, replan=lambda: asked.append("x")) as seat:
        seat.handle.role = "live"
        await seat.see("ctrl+r", footer="no config to plan again")
        assert not asked
        seat.handle.role = "plan"
        await seat.press("ctrl+r")
        assert asked == ["x"]
        await seat.push(opened(plan([job("other")])))
        seat.check(footer="planned again: 1 job", why="other")
        assert seat.model.session.find_job("old") is None


DIFFERS = plan_findings.PlanChanges(
    T0 - 600, "2 jobs added, 8 the same", (("+", "lr1e-3"), ("~", "seed: 1 -> 2"))
)
SAME = plan_findings.PlanChanges(T0, "nothing differs: 10 jobs", (), differs=False)


@pytest.mark.parametrize(
    ("changes", "told", "where", "then"),
    [
        (DIFFERS, "2 jobs added, 8 the same|(= reads it)", "dialog", "~ seed: 1 -> 2"),
        (SAME, "!nothing differs", "dialog", "nothing differs"),
        (None, "!differ", "footer", "no earlier plan"),
    ],
)
async def test_a_plan_that_is_opened_says_what_changed(
    changes: Any, told: str, where: str, then: str
) -> None:
    asked: list[int] = []

    def compare() -> Any:
        asked.append(1)
        return changes

    async with cockpit(changes=compare) as seat:
        await seat.push(campaign(31))  # a session that runs
        assert asked == []
        await seat.push(opened(holey()))
        await seat.idle()
        await seat.see(footer=told)
        await seat.see("equals_sign", **{where: then})


def alike(_: Plan, spec: JobSpec) -> JobDetails:
    return JobDetails(entries=(Entry("seed", "7", "file"),), script=("true",))


COUNTS = "5 keys: 1 swept, 1 override, 1 set by autoexp, 1 computed, 1 file"
ROADS = {
    "overrides, then config, then script": f"""
        i => dialog: as Hydra gets them|lr0.001
        n => dialog: {COUNTS}|${{oc.eval:'_0*1000',${{n}}}}
        n => dialog: --seed 0
        p p p => dialog: --seed 0
        escape space j d => dialog: lr
        n => dialog: -seed: 0|!optim.lr
        n => dialog: -  --seed 0""",
    "nothing differs": """
        space j d => dialog: lr
        n => dialog: Config (alike)""",
    "without a reader the plan is told alone": """
        i => dialog: as Hydra gets them
        n => dialog: the config was not read""",
}
READERS = dict(zip(ROADS, (details, alike, None), strict=True))


@pytest.mark.parametrize("road", ROADS)
async def test_how_jobs_are_made_is_read_by_pages(road: str) -> None:
    async with cockpit(planned(10), details=READERS[road], size=(80, 24)) as seat:
        await seat.walk(ROADS[road])


@pytest.mark.parametrize(("key", "then"), [("n", "It is being read."), ("escape", "")])
async def test_what_the_plan_tells_is_there_before_the_config_was_read(
    key: str, then: str
) -> None:
    read = threading.Event()

    def slow(known: Plan, spec: JobSpec) -> JobDetails:
        read.wait(PATIENCE)
        return details(known, spec)

    async with cockpit(planned(10), details=slow) as seat:
        await seat.see("i", dialog="as Hydra gets them")
        await seat.see(key, dialog=then)
        read.set()
        await seat.idle()
        assert (COUNTS in seat.dialog) is bool(then)


async def test_a_record_that_does_not_read_is_said_and_nothing_ends() -> None:
    def damaged(_: Plan, spec: JobSpec) -> JobDetails:
        raise EnvironmentFailed("a config is damaged", hint="Plan again.")

    async with cockpit(planned(10), details=damaged) as seat:
        await seat.see("i", footer="damaged")
        await seat.see("n", dialog="damaged")
