"""One family first from the cockpit, and the rest afterwards."""

from __future__ import annotations

from dataclasses import replace

from autoexp_tui.model.commands import Submit
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.states import JobState
from tests.cockpit.plans import holey, opened
from tests.cockpit.seat import Seat, cockpit
from tests.support.campaigns import plan_of


def after_canary() -> Snapshot:
    """The first family has completed, the rest is held."""
    shown = opened(holey())
    states = {True: JobState.COMPLETED, False: JobState.HELD}
    first = shown.jobs[0].spec.family
    jobs = tuple(
        replace(job, state=states[job.spec.family == first]) for job in shown.jobs
    )
    return replace(shown, jobs=jobs)


async def asked(seat: Seat, *keys: str) -> str:
    await seat.press(*keys, "S")
    await seat.hear()
    return seat.dialog


async def test_only_the_family_under_the_cursor_is_submitted() -> None:
    async with cockpit(opened(holey())) as seat:
        assert "one family first (lr=1e-4 bsz=128" in await asked(seat, "j", "j")
        await seat.press("j", "y")
        sent = [one.command for one in seat.handle.sent]
        names = ("lr0.0001_bsz128_stable", "lr0.0001_bsz128_cooldown")
        plan_id = plan_of(seat.handle.snapshot()).plan_id
        assert sent == [Submit(jobs=names, plan_id=plan_id)]


async def test_what_is_held_says_why_and_is_offered_afterwards() -> None:
    async with cockpit(after_canary()) as seat:
        seat.check(jobs="not chosen yet; S releases it")
        assert "the 8 jobs that are left" in await asked(seat)
