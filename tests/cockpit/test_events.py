"""Events mode: filtered, read back, opened at the evidence."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from autoexp_tui.cockpit.screens import events as module
from autoexp_tui.events import events
from autoexp_tui.model.errors import JournalDamaged
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.states import Outcome
from tests.cockpit.seat import Seat, cockpit
from tests.cockpit.test_modes import eventful
from tests.support.campaigns import campaign
from tests.support.scripted_handle import with_events
from tests.support.week import week

RECORDS = week(31, note_seconds=3600, slots=4).records


def tailed(tail: int = 60) -> Snapshot:
    """A session whose snapshot carries the last few of many events."""
    return replace(campaign(31), seq=RECORDS[-1].seq, events=RECORDS[-tail:])


@asynccontextmanager
async def long_session(tail: int = 60) -> AsyncIterator[Seat]:
    async with cockpit(tailed(tail)) as seat:
        seat.handle.journal = RECORDS
        await seat.press("8")
        await seat.until(lambda: seat.app.context.background.is_idle)
        yield seat


def listed(seat: Seat) -> Any:
    return seat.app.screen.query_one("#events")


async def test_events_older_than_the_snapshot_are_read_when_there_is_room() -> None:
    async with long_session() as seat:
        assert len(listed(seat).history.page.entries) >= 10
        assert listed(seat).history.page.first < RECORDS[-60].seq


async def test_going_up_beyond_the_first_line_reads_back(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "PAGE", 50)
    async with long_session(200) as seat:
        await seat.press("full_stop", "g")
        before = listed(seat).history.page.first
        shown = len(listed(seat).history.page.entries)
        await seat.press("k")
        await seat.until(lambda: listed(seat).history.page.first == before - 50)
        more = len(listed(seat).history.page.entries) - shown
        assert more > 30
        assert listed(seat).cursor in (more, more + 1)
        at = listed(seat).cursor
        await seat.press("k")
        assert listed(seat).cursor == at - 1


async def test_what_cannot_be_read_back_is_said_once(monkeypatch: Any) -> None:
    async with cockpit(tailed(5)) as seat:

        def broken(seq: int, count: int) -> object:
            raise JournalDamaged("line 7 does not read")

        monkeypatch.setattr(seat.handle, "earlier", broken)
        await seat.press("8")
        await seat.until(lambda: "does not read" in seat.footer)
        assert not listed(seat).reading


async def test_brackets_go_through_the_kinds() -> None:
    async with long_session() as seat:
        await seat.press("right_square_bracket")
        await seat.until(lambda: seat.app.context.background.is_idle)
        assert "submit ([ ])" in seat.pane("events")
        assert "job ended" not in seat.pane("events")
        await seat.press("left_square_bracket")
        assert "submit ([ ])" not in seat.pane("events")


async def test_f_keeps_the_job_under_the_cursor() -> None:
    async with long_session() as seat:
        await seat.press(*["right_square_bracket"] * 5, "slash")  # reactions
        await seat.type("cooldown")
        await seat.press("enter")
        await seat.until(lambda: seat.app.context.background.is_idle)
        name = listed(seat).find_entry().event.job
        await seat.press("f")
        await seat.until(lambda: seat.app.context.background.is_idle)
        kept = listed(seat).history.page.entries
        assert {entry.event.job for entry in kept} == {name}
        await seat.press("f")
        await seat.until(lambda: seat.app.context.background.is_idle)
        assert len({entry.event.job for entry in listed(seat).history.page.entries}) > 1


async def test_words_are_looked_for_and_escape_shows_all_again() -> None:
    async with cockpit(eventful()) as seat:
        await seat.press("8", "slash")
        await seat.type("sbatch")
        await seat.press("enter")
        assert len(listed(seat).history.page.entries) == 1
        await seat.press("slash")
        await seat.type(" nothing such")
        await seat.press("enter")
        assert "No event is like that" in seat.pane("events")
        await seat.press("escape")
        assert listed(seat).history.page.entries
        assert seat.app.full_screen is not seat.jobs


async def test_o_goes_to_the_job_in_the_table_or_says_that_there_is_none() -> None:
    base = campaign(31)
    name = base.jobs[4].name
    said = [events.MessageLogged(text="x", job=at) for at in (name, "")]
    async with cockpit(with_events(base, said)) as seat:
        await seat.press("8", "full_stop", "o")
        assert "about no job" in seat.footer
        await seat.press("k", "o")
        assert seat.app.full_screen is seat.jobs
        assert seat.jobs.jobs.key == name


def logged(tmp_path: Path) -> tuple[Snapshot, str, list[str]]:
    base = campaign(31, log_dir=str(tmp_path))
    record = base.jobs[0]
    lines = [f"iteration {n:5d} of 9999\n" for n in range(400)]
    lines[250] = "KeyError: 'rope'\n"
    path = Path(record.attempts[0].log_path)
    path.parent.mkdir(parents=True)
    path.write_text("".join(lines))
    return base, record.name, lines


async def test_enter_on_a_match_opens_the_log_at_its_byte(tmp_path: Path) -> None:
    base, name, lines = logged(tmp_path)
    matched = events.LogMatched(
        match_id="m",
        job=name,
        attempt=1,
        run=0,
        rule="r",
        offset=len("".join(lines[:100])),
        line=lines[100],
    )
    async with cockpit(with_events(base, [matched])) as seat:
        await seat.press("8", "full_stop", "enter")
        await seat.until(lambda: "iteration   100" in seat.pane("evidence"))
        assert "iteration   399" not in seat.pane("evidence")
        await seat.press("y")
        assert "sent to the clipboard" in seat.footer
        await seat.press("escape", "escape")
        assert seat.app.focused is listed(seat)


async def test_enter_on_an_end_opens_the_log_at_its_last_words(tmp_path: Path) -> None:
    base, name, _ = logged(tmp_path)
    ended = events.AttemptEnded(
        job=name, attempt=1, outcome=Outcome.FAILED, evidence="KeyError: 'rope'"
    )
    async with cockpit(with_events(base, [ended])) as seat:
        await seat.press("8", "full_stop", "enter")
        await seat.until(lambda: "KeyError" in seat.pane("evidence"))
        assert "iteration   399" not in seat.pane("evidence")


async def test_enter_on_kept_evidence_reads_it_out_or_says_that_it_is_gone(
    tmp_path: Path,
) -> None:
    stack = tmp_path / "evidence" / "stack.txt"
    stack.parent.mkdir()
    stack.write_text("Thread 0x7f: train()")
    kept = events.EvidenceCaptured(
        job="a", attempt=1, reason="stall", directory=str(stack.parent), summary="all"
    )
    async with cockpit(with_events(campaign(4), [kept])) as seat:
        await seat.press("8", "enter")
        await seat.until(lambda: "train()" in seat.dialog)
        stack.unlink()
        stack.parent.rmdir()
        await seat.press("escape", "enter")
        await seat.until(lambda: "cannot be read" in seat.footer)


async def test_enter_on_an_order_shows_its_words_enlarged() -> None:
    async with cockpit(eventful()) as seat:
        await seat.press("8", "enter")
        assert "sbatch me" in seat.pane("effect")
        assert seat.app.screen.query_one("#effect").region.height > 30
