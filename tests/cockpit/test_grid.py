"""The grid of a plan: swept values by stages, and what emptied a cell."""

from __future__ import annotations

from autoexp_tui.model.specs import Hole
from tests.cockpit.plans import holey, opened
from tests.cockpit.seat import Seat, cockpit
from tests.planning.plans import job, plan
from tests.support.campaigns import campaign


async def grid(seat: Seat, *keys: str) -> str:
    """Open the grid from the stages, then press keys; what it shows."""
    await seat.press("1", "G", *keys)
    return seat.pane("grid") if seat.app.current_mode == "grid" else ""


async def test_g_in_stages_opens_the_grid() -> None:
    async with cockpit(opened(holey())) as seat:
        assert "6 rows x 2 stages, 2 holes by 1 filter" in await grid(seat)


async def test_g_elsewhere_goes_to_the_end_as_ever() -> None:
    async with cockpit(opened(holey())) as seat:
        await seat.press("2", "G")
        assert seat.app.current_mode == "jobs"
        assert seat.jobs.jobs.cursor == len(seat.jobs.jobs.keys) - 1


async def test_a_cell_says_how_its_job_looks() -> None:
    async with cockpit(opened(holey())) as seat:
        first = (await grid(seat)).splitlines()[2]
        assert first.split() == [
            ">",
            "1e-4",
            "64",
            "[·",
            "planned",
            "]",
            "·",
            "planned",
        ]


async def test_the_cell_under_the_cursor_is_told_below() -> None:
    async with cockpit(opened(holey())) as seat:
        await grid(seat, "l")
        assert "lr0.0001_bsz64_cooldown" in seat.pane("conditions")


async def test_a_hole_names_the_filter_that_made_it() -> None:
    async with cockpit(opened(holey())) as seat:
        await grid(seat, "l", "end")
        told = seat.pane("conditions")
        assert "the filter f1 took it, and 2 cells in all" in told
        assert 'stage == "cooldown")   at sweep.filter' in told


async def test_enter_goes_to_the_cell_s_job_in_the_table() -> None:
    async with cockpit(opened(holey())) as seat:
        await grid(seat, "j", "l", "enter")
        assert seat.app.current_mode == "jobs"
        (found,) = seat.jobs.find_jobs()
        assert found.name == "lr0.0001_bsz128_cooldown"


async def test_enter_on_a_cell_of_several_narrows_the_table_to_them() -> None:
    jobs = [
        job("a", 0, stage="s"),
        job("b", 1, stage="t", parameters={"scale": 1}),
        job("c", 2, stage="t", parameters={"scale": 2}),
    ]
    async with cockpit(opened(plan(jobs))) as seat:
        await grid(seat, "l", "enter")
        assert seat.model.list_shown() == {"b", "c"}


async def test_escape_goes_back_to_the_stages() -> None:
    async with cockpit(opened(holey())) as seat:
        await grid(seat, "escape")
        assert seat.app.current_mode == "jobs"
        assert seat.jobs.focused is seat.jobs.stages


async def test_a_verb_acts_on_the_job_of_the_cell() -> None:
    async with cockpit(opened(holey())) as seat:
        await grid(seat, "l")
        await seat.press("S")
        await seat.hear()
        assert "lr=1e-4 bsz=64" in seat.dialog


async def test_i_reads_how_the_cell_s_job_is_made() -> None:
    async with cockpit(opened(holey())) as seat:
        await grid(seat, "l")
        await seat.press("i")
        assert "lr0.0001_bsz64_cooldown" in seat.dialog


async def test_stages_that_do_not_fit_come_with_the_cursor() -> None:
    jobs = [job(f"j{at}", at, stage=f"stage{at:02}") for at in range(20)]
    async with cockpit(opened(plan(jobs)), size=(80, 24)) as seat:
        shown = await grid(seat, *["l"] * 19)
        assert "stage19" in shown
        assert "stage00" not in shown


async def test_axes_that_do_not_fit_are_counted_and_told_below() -> None:
    own = [{f"some.long_key_{at}": n for at in range(8)} for n in range(2)]
    jobs = [job(f"j{n}", n, parameters=own[n]) for n in range(2)]
    async with cockpit(opened(plan(jobs)), size=(80, 24)) as seat:
        assert "+6" in await grid(seat)
        assert "long_key_7=0" in seat.pane("conditions")


async def test_thousands_of_rows_are_drawn_and_reached() -> None:
    made = holey(rates=[at * 1e-7 for at in range(1, 1501)])
    async with cockpit(opened(made)) as seat:
        await grid(seat)
        await seat.until(lambda: "3000 rows" in seat.pane("grid"))
        await seat.press("end")
        assert "1.5e-4" in seat.pane("grid")


async def test_a_running_session_has_its_grid_too() -> None:
    async with cockpit(campaign()) as seat:
        shown = await grid(seat)
        assert "evaluate" in shown
        assert "running" in shown


async def test_hostile_values_and_filters_reach_no_terminal() -> None:
    bad = "\x1b]52;c;AA\x07[/red]\u202e"
    jobs = [job(f"j{n}", n, stage=bad, parameters={bad: f"{bad}{n}"}) for n in range(2)]
    hole = Hole(parameters={bad: f"{bad}9"}, stage=bad, filter=bad, where=bad)
    async with cockpit(opened(plan(jobs, holes=(hole,)))) as seat:
        shown = await grid(seat, "end") + seat.pane("conditions")
        assert not {"\x1b", "\x07", "\u202e"} & set(shown)
        assert "[/red]" in shown


async def test_i_on_a_hole_says_that_there_is_no_job() -> None:
    async with cockpit(opened(holey())) as seat:
        await grid(seat, "l")
        while "took it" not in seat.pane("conditions"):
            await seat.press("j")
        await seat.press("i")
        assert "there is no job here" in seat.footer
