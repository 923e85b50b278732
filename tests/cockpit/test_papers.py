"""Reading how a job is made, and what differs between two."""

from __future__ import annotations

import threading
from typing import Any

from textual import events

from autoexp_tui.cockpit.dialogs.reader import PagesScreen
from autoexp_tui.cockpit.spans import plain
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.job_details import Entry, JobDetails
from tests.cockpit.seat import PATIENCE, Seat, cockpit
from tests.support.campaigns import planned


def papers(plan: Plan, job: JobSpec) -> JobDetails:
    """A config whose seed differs from job to job."""
    return JobDetails(
        entries=(
            Entry("optim.lr", "1e-3", "swept"),
            Entry("train.iters", "800", "computed", "${oc.eval:8*100}"),
            Entry("seed", str(job.index), "file"),
        ),
        script=("cd /work", f"python train.py --seed {job.index}"),
    )


def damaged(plan: Plan, job: JobSpec) -> JobDetails:
    raise EnvironmentFailed("a config is damaged", hint="Plan again.")


async def opened(seat: Seat, *keys: str) -> str:
    """What is shown first, once all was read."""
    await seat.press(*keys)
    await seat.until(lambda: seat.dialog and not unread(seat))
    return seat.dialog


def unread(seat: Seat) -> bool:
    """Whether a page is still to be read."""
    screen = seat.app.screen
    assert isinstance(screen, PagesScreen)
    lines = [plain(line) for page in screen.pages for line in page.lines]
    return "It is being read." in lines


async def test_i_shows_the_job_s_overrides() -> None:
    async with cockpit(planned(10), papers=papers) as seat:
        shown = await opened(seat, "i")
        assert "as Hydra gets them" in shown
        assert seat.model.session.jobs[0].name in shown


async def test_a_key_right_behind_it_is_for_the_page() -> None:
    async with cockpit(planned(10), papers=papers) as seat:
        for key in ("i", "q"):
            seat.app.post_message(events.Key(key, key))
        for _ in range(4):
            await seat.pilot.pause()
        assert seat.app.screen is seat.jobs


async def test_what_the_plan_tells_is_there_before_the_config_was_read() -> None:
    read = threading.Event()

    def slow(plan: Plan, job: JobSpec) -> JobDetails:
        read.wait(PATIENCE)
        return papers(plan, job)

    async with cockpit(planned(10), papers=slow) as seat:
        await seat.press("i")
        assert "as Hydra gets them" in seat.dialog
        await seat.press("n")
        assert "It is being read." in seat.dialog
        read.set()
        await seat.until(lambda: "3 keys: 1 swept" in seat.dialog)


async def test_a_config_that_was_left_before_it_was_read_changes_nothing() -> None:
    read = threading.Event()

    def slow(plan: Plan, job: JobSpec) -> JobDetails:
        read.wait(PATIENCE)
        return papers(plan, job)

    async with cockpit(planned(10), papers=slow) as seat:
        await seat.press("i", "escape")
        read.set()
        await seat.until(lambda: seat.app.context.background.is_idle)
        assert seat.dialog == ""


async def test_n_turns_to_the_config_and_who_set_each_key() -> None:
    async with cockpit(planned(10), papers=papers) as seat:
        await opened(seat, "i")
        await seat.press("n")
        assert "3 keys: 1 swept, 1 computed, 1 file" in seat.dialog
        assert "${oc.eval:8*100}" in seat.dialog


async def test_a_key_of_the_config_takes_one_line_on_a_small_terminal() -> None:
    def wide(plan: Plan, job: JobSpec) -> JobDetails:
        key, value = "slurm.client.grace_seconds", "/scratch/some/where/long/enough"
        return JobDetails(entries=(Entry(key, value, "file"), Entry("a", "1", "file")))

    async with cockpit(planned(10), papers=wide, size=(80, 24)) as seat:
        await opened(seat, "i")
        await seat.press("n")
        (row,) = (line for line in seat.dialog.splitlines() if "grace" in line)
        assert row.split()[-3:] == ["file", "/scratch/some/where/long/enough", "│"]


async def test_p_turns_back_round_to_the_script() -> None:
    async with cockpit(planned(10), papers=papers) as seat:
        await opened(seat, "i")
        await seat.press("p")
        assert "python train.py --seed 0" in seat.dialog


async def test_d_shows_by_page_what_differs_between_two_jobs() -> None:
    async with cockpit(planned(10), papers=papers) as seat:
        await opened(seat, "space", "j", "d")
        await seat.press("n")
        config = seat.dialog
        await seat.press("n")
        assert "-seed: 0" in config
        assert "optim.lr" not in config
        assert "-python train.py --seed 0" in seat.dialog


async def test_two_jobs_of_one_config_say_that_nothing_differs() -> None:
    def alike(plan: Plan, job: JobSpec) -> JobDetails:
        return JobDetails(entries=(Entry("seed", "7", "file"),), script=("true",))

    async with cockpit(planned(10), papers=alike) as seat:
        await opened(seat, "space", "j", "d")
        await seat.press("n")
        assert "Config (alike)" in seat.dialog


async def test_a_record_that_does_not_read_is_said_and_nothing_ends() -> None:
    async with cockpit(planned(10), papers=damaged) as seat:
        await seat.press("i")
        await seat.until(lambda: "damaged" in seat.footer)
        await seat.press("n")
        assert "damaged" in seat.dialog


async def test_without_a_reader_the_plan_is_told_alone() -> None:
    async with cockpit(planned(10)) as seat:
        await opened(seat, "i")
        await seat.press("n")
        assert "the config was not read" in seat.dialog


async def test_hostile_text_of_a_config_reaches_no_terminal() -> None:
    hostile = "\x1b]52;c;AAAA\x07[red]x[/]\u202e"

    def bad(plan: Plan, job: JobSpec) -> JobDetails:
        return JobDetails(entries=(Entry(hostile, hostile, "file"),), script=(hostile,))

    async with cockpit(planned(10), papers=bad) as seat:
        await opened(seat, "i")
        shown: list[Any] = []
        for _ in range(3):
            shown.append(seat.dialog)
            await seat.press("n")
        assert not {"\x1b", "\x07", "\u202e"} & set("".join(shown))
        assert "[red]x[/]" in "".join(shown)
