"""Reading how a job is made, and what differs between two."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from autoexp_tui.cockpit.dialogs.reader import ReaderScreen
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
    assert isinstance(screen, ReaderScreen)
    lines = [plain(line) for page in screen.pages for line in page.lines]
    return "It is being read." in lines


def alike(plan: Plan, job: JobSpec) -> JobDetails:
    return JobDetails(entries=(Entry("seed", "7", "file"),), script=("true",))


def wide(plan: Plan, job: JobSpec) -> JobDetails:
    key, value = "slurm.client.grace_seconds", "/scratch/some/where/long/enough"
    return JobDetails(entries=(Entry(key, value, "file"), Entry("a", "1", "file")))


SCENES = {
    "i shows the job's overrides": (papers, "i", "", "as Hydra gets them|lr0.001"),
    "n turns to the config and who set each key": (
        papers,
        "i",
        "n",
        "3 keys: 1 swept, 1 computed, 1 file|${oc.eval:8*100}",
    ),
    "p turns back round to the script": (papers, "i", "p", "train.py --seed 0"),
    "a key takes one line on a small terminal": (
        wide,
        "i",
        "n",
        "file      /scratch/some/where/long/enough",
    ),
    "d shows what differs between two configs": (
        papers,
        "space j d",
        "n",
        "-seed: 0|!optim.lr",
    ),
    "and between two scripts": (
        papers,
        "space j d",
        "n n",
        "-python train.py --seed 0",
    ),
    "two jobs of one config say that nothing differs": (
        alike,
        "space j d",
        "n",
        "Config (alike)",
    ),
    "without a reader the plan is told alone": (
        None,
        "i",
        "n",
        "the config was not read",
    ),
}


@pytest.mark.parametrize("scene", SCENES)
async def test_how_jobs_are_made_is_read_by_pages(scene: str) -> None:
    read, keys, more, shown = SCENES[scene]
    async with cockpit(planned(10), papers=read, size=(80, 24)) as seat:
        await opened(seat, *keys.split())
        await seat.play(more)
        seat.check(dialog=shown)


@pytest.mark.parametrize(("key", "then"), [("n", "It is being read."), ("escape", "")])
async def test_what_the_plan_tells_is_there_before_the_config_was_read(
    key: str, then: str
) -> None:
    read = threading.Event()

    def slow(plan: Plan, job: JobSpec) -> JobDetails:
        read.wait(PATIENCE)
        return papers(plan, job)

    async with cockpit(planned(10), papers=slow) as seat:
        await seat.press("i")
        seat.check(dialog="as Hydra gets them")
        await seat.press(key)
        seat.check(dialog=then)
        read.set()
        await seat.until(lambda: seat.app.context.background.is_idle)
        assert ("3 keys: 1 swept" in seat.dialog) is bool(then)


async def test_a_record_that_does_not_read_is_said_and_nothing_ends() -> None:
    async with cockpit(planned(10), papers=damaged) as seat:
        await seat.press("i")
        await seat.until(lambda: "damaged" in seat.footer)
        await seat.press("n")
        assert "damaged" in seat.dialog


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
