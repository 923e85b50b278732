"""Modes beside the jobs: waiting, time-line, grid, events; and the session picker."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.cockpit.app import CockpitApp
from autoexp_tui.cockpit.context import CockpitOptions
from autoexp_tui.cockpit.screens import events as events_screen
from autoexp_tui.cockpit.screens.picker import Choice, SessionPicker
from autoexp_tui.cockpit.state.session import Look
from autoexp_tui.events import events
from autoexp_tui.model.commands import Skip
from autoexp_tui.model.errors import JournalDamaged
from autoexp_tui.model.event import Event
from autoexp_tui.model.snapshot import Playback, SessionBrief, Snapshot
from autoexp_tui.model.states import JobState, Outcome
from autoexp_tui.testing.clock import ManualClock
from tests.cockpit.plans import FILTER, holey, opened
from tests.cockpit.seat import Seat, cockpit, read_lines
from tests.cockpit.views import brief, eventful, replay, replayed_week
from tests.planning.plans import job, plan
from tests.support.campaigns import T0, all_done, campaign, planned
from tests.support.scripted_handle import with_events, with_job
from tests.support.week import week

RECORDS = week(31, note_seconds=3600, slots=4).records


def in_plan() -> Snapshot:
    return opened(holey())


def of_thousands() -> Snapshot:
    return opened(holey(rates=[at * 1e-7 for at in range(1, 1501)]))


def of_many_stages() -> Snapshot:
    return opened(plan([job(f"j{at}", at, stage=f"stage{at:02}") for at in range(20)]))


def of_many_axes() -> Snapshot:
    own = [{f"some.long_key_{at}": n for at in range(8)} for n in range(2)]
    return opened(plan([job(f"j{n}", n, parameters=own[n]) for n in range(2)]))


FILTERED = 'the filter f1 took it, and 2 cells in all|stage == "cooldown")   at sweep'
ROADS: dict[str, tuple[Callable[[], Snapshot], str]] = {
    "escape leaves a mode, and the marks are kept": (
        campaign,
        "space 9 escape => focus: jobs; jobs: *\nw escape => focus: jobs; jobs: *",
    ),
    "nothing that waits is said": (all_done, "w => waiting: Nothing waits."),
    "stages over time, and a verb acts on the stage": (
        campaign,
        """
        9 => timeline: stable|cooldown|evaluate|▾|✗
        K => dialog: stable""",
    ),
    "nothing ran yet": (planned, "9 enter => timeline: stable"),
    "a cell and a hole of the grid are told below": (
        in_plan,
        f"""
        1 G => grid: 6 rows x 2 stages, 2 holes by 1 filter
        l => conditions: lr0.0001_bsz64_cooldown
        i => dialog: lr0.0001_bsz64_cooldown
        escape S => dialog: lr=1e-4 bsz=64
        hear escape end => conditions: {FILTERED}
        i => footer: there is no job here
        escape => focus: stages
        G home j l enter => focus: jobs; why: lr0.0001_bsz128_cooldown""",
    ),
    "results are there sorted, are sorted again, compared, and lead to jobs": (
        campaign,
        """
        e => results: evaluate, 40 rows|by loss, lowest first|1/2
        comma => results: by loss, highest first
        h comma => results: by bsz, lowest first|over seed, found by its name
        b => results: against lr=1e-3 bsz=256|(
        end enter => focus: jobs; why: lr5e-05_bsz4096_evaluate""",
    ),
    "other metrics, stages and the way of a column": (
        campaign,
        """
        e m ctrl+u 'los enter => footer: did you mean `loss`?
        ctrl+u 'loss@5000~loss:max enter => results: loss@5000|loss:max
        o => results: by loss, lowest
        left_square_bracket => results: cooldown, 40 rows|by loss
        c => focus: metrics""",
    ),
    "a heat map names what is missing, and is left for the table": (
        in_plan,
        f"""
        e G => results: lr|bsz|not submit
        end l => results: filtered; conditions: the filter {FILTER}
        escape => results: by loss, lowest first
        escape => focus: jobs""",
    ),
    "a running session has its grid": (campaign, "1 G => grid: evaluate|running"),
    "thousands of rows": (
        of_thousands,
        "1 G => grid: 3000 rows\n end => grid: 1.5e-4",
    ),
    "columns come with the cursor": (
        of_many_stages,
        f"1 G {'l ' * 19} => grid: stage19|!stage00",
    ),
    "axes are counted and told below": (
        of_many_axes,
        "1 G => grid: +6; conditions: long_key_7=0",
    ),
    "an event is told, an order with its words, and copied": (
        eventful,
        """
        8 => events: submit|!message
        full_stop => effect: newest; events: message
        k enter => effect: sbatch me; focus: effect
        y => footer: sent to the clipboard
        escape escape => focus: jobs
        8 0 => focus: log""",
    ),
}


@pytest.mark.parametrize("road", ROADS)
async def test_keys_in_other_modes(road: str) -> None:
    made, steps = ROADS[road]
    async with cockpit(made(), (80 if "many" in made.__name__ else 120, 40)) as seat:
        await seat.walk(steps)
        assert seat.handle.sent == []


async def test_results_are_saved_in_the_form_of_the_name_and_over_nothing(
    tmp_path: Path,
) -> None:
    async with cockpit(save_directory=str(tmp_path)) as seat:
        await seat.see("e ctrl+s", footer="; ctrl+s again: save as")
        await seat.see("ctrl+s enter", footer="_results-2.csv")
        await seat.see("ctrl+s", footer="_results-3.csv; ctrl+s again")
        await seat.see("j ctrl+s", footer="_results-4.csv; ctrl+s again")
        await seat.see(
            "ctrl+s ctrl+u 'a.txt enter", footer="ends in .csv, .md or .json"
        )
        await seat.see("ctrl+u 'a.md enter", footer="/a.md")
        await seat.see("j ctrl+s ctrl+s ctrl+u 'no/a.md enter", footer="not saved: No")
    names = sorted(os.listdir(tmp_path))
    assert names == ["a.md", *sorted(name for name in names if "_results" in name)]
    assert len({(tmp_path / name).read_bytes() for name in names[1:]}) == 1


async def to_group(seat: Seat, look: Look) -> str:
    """To the first group of that look; its key."""
    await seat.press("w")
    pane = seat.widget("waiting")
    key = next(group.key for group in pane.groups if group.look is look)
    pane.move_to_key(key)
    await seat.pilot.pause()
    return str(key)


async def test_below_stands_the_longest_wait_with_each_condition() -> None:
    async with cockpit() as seat:
        await to_group(seat, Look.WAITING)
        seat.check(waiting="waits for", conditions="that wait alike|◌|since")
        await seat.see("tab plus", conditions="reads")
        await seat.press("escape")
        await to_group(seat, Look.DOOMED)
        seat.check(conditions="✗ iter_48000/done.txt")
        await seat.play("X hear y")
        (sent,) = seat.handle.commands
        assert isinstance(sent, Skip)
        assert sent.jobs == tuple(job.name for job in seat.looking(Look.DOOMED))


async def test_a_group_opens_and_folds_and_enter_goes_to_a_job() -> None:
    async with cockpit() as seat:
        key = await to_group(seat, Look.WAITING)
        pane = seat.widget("waiting")
        await seat.press("enter", "j", "j", "h")
        assert pane.key == key
        assert key not in pane.open
        await seat.press("l", "j")
        name = pane.find_job().name
        await seat.press("enter")
        assert seat.app.full_screen is seat.jobs
        assert seat.jobs.jobs.key == name


async def test_ages_go_on_while_nothing_runs_and_no_snapshot_comes() -> None:
    base = replace(all_done(10), open=True)
    waits = {"state": JobState.WAITING, "attempts": (), "since": T0 - 6}
    async with cockpit(with_job(base, base.jobs[0].name, **waits)) as seat:
        await seat.see("w", waiting="6 s")
        seat.clock.advance(600)
        seat.app.update_every_second()
        seat.check(waiting="10 min")


async def test_the_window_is_zoomed_moved_and_left_by_escape() -> None:
    async with cockpit(size=(60, 16)) as seat:
        await seat.press("9")
        pane = seat.widget("timeline")
        seconds, begin = pane.find_window().seconds, pane.find_window().begin
        await seat.press("plus")
        assert pane.find_window().seconds == seconds / 2
        title = seat.pane("timeline").partition("\n")[0]
        assert all(word in title for word in ("f all", "▒ lost"))
        assert "…" not in title
        await seat.press("minus")
        assert pane.find_window().seconds == seconds
        await seat.press("l")
        assert pane.find_window().begin > begin
        await seat.press("h")
        assert pane.find_window().begin == pytest.approx(begin)
        await seat.press("f")
        assert pane.window is None
        await seat.press("enter", "j", "plus", "escape")
        assert (pane.open, bool(pane.window)) == (set(), True)
        await seat.press("escape")
        assert not seat.widget("timeline").window
        await seat.press("escape")
        assert seat.app.full_screen is seat.jobs


async def test_enter_on_a_cell_of_several_narrows_the_table_to_them() -> None:
    jobs = [job("a", 0, stage="s")]
    own = [{"parameters": {"scale": at}, "stage": "t"} for at in (1, 2)]
    jobs += [job(f"b{at}", at + 1, **one) for at, one in enumerate(own)]
    async with cockpit(opened(plan(jobs))) as seat:
        await seat.play("1 G l enter")
        assert seat.model.list_shown() == {"b0", "b1"}


def tailed(tail: int) -> Snapshot:
    """A session whose snapshot carries the last few of many events."""
    return replace(campaign(31), seq=RECORDS[-1].seq, events=RECORDS[-tail:])


@asynccontextmanager
async def long_session(tail: int = 60) -> AsyncIterator[tuple[Seat, Any]]:
    async with cockpit(tailed(tail)) as seat:
        seat.handle.journal = RECORDS
        await seat.press("8")
        await seat.idle()
        yield seat, seat.widget("events")


def jobs_of(pane: Any) -> set[str]:
    return {entry.event.job for entry in pane.history.page.entries}


async def test_going_up_beyond_the_first_line_reads_back(monkeypatch: Any) -> None:
    monkeypatch.setattr(events_screen, "PAGE", 50)
    async with long_session(200) as (seat, pane):
        await seat.press("full_stop", "g")
        before, shown = pane.history.page.first, len(pane.history.page.entries)
        await seat.press("k")
        await seat.until(lambda: pane.history.page.first == before - 50)
        more = len(pane.history.page.entries) - shown
        assert more > 30
        at = pane.cursor
        assert at in (more, more + 1)
        await seat.press("k")
        assert pane.cursor == at - 1


async def test_what_cannot_be_read_back_is_read_again_only_when_a_key_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def broken(seq: int, count: int) -> object:
        asked.append(seq)
        raise JournalDamaged("line 7 does not read")

    async with cockpit(tailed(5)) as seat:
        monkeypatch.setattr(seat.handle, "earlier", broken)
        await seat.see("8", footer="does not read")
        assert not seat.widget("events").reading
        assert len(asked) == 1
        await seat.play("g k")
        await seat.until(lambda: len(asked) == 2)


async def test_a_page_read_back_for_an_older_filter_is_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_answer = threading.Event()
    async with cockpit(tailed(5)) as seat:
        seat.handle.journal = RECORDS
        read = seat.handle.earlier

        def slow(seq: int, count: int) -> object:
            assert may_answer.wait(20)
            return read(seq, count)

        monkeypatch.setattr(seat.handle, "earlier", slow)
        await seat.press("8")
        pane = seat.widget("events")
        await seat.until(lambda: pane.reading)
        await seat.play("slash 'cooldown enter")
        may_answer.set()
        await seat.until(lambda: len(pane.history.page.entries) > 5)
        assert all(map(pane.history.wanted.keeps, pane.history.page.entries))


async def test_events_are_kept_by_kind_job_and_words_until_escape() -> None:
    async with long_session() as (seat, pane):
        for _ in range(2):
            await seat.press("right_square_bracket")
            await seat.idle()
        await seat.see("left_square_bracket", events="submit ([ ])|!job ended")
        await seat.see("left_square_bracket", events="!submit ([ ])")
        await seat.play("right_square_bracket " * 5 + "slash 'cooldown enter")
        await seat.idle()
        name = pane.find_entry().event.job
        await seat.press("f")
        await seat.until(lambda: jobs_of(pane) == {name})
        await seat.press("f")
        await seat.until(lambda: len(jobs_of(pane)) > 1)
    async with cockpit(eventful()) as seat:
        await seat.play("8 slash 'sbatch enter")
        assert len(seat.widget("events").history.page.entries) == 1
        await seat.see("slash '~nothing~such enter", events="No event is like that")
        await seat.see("escape", events="submit|!No event is like that")


async def test_o_goes_to_the_job_in_the_table_or_says_that_there_is_none() -> None:
    base = campaign(31)
    name = base.jobs[4].name
    said = [events.MessageLogged(text="x", job=at) for at in (name, "")]
    async with cockpit(with_events(base, said)) as seat:
        await seat.see("8 full_stop o", footer="about no job")
        await seat.press("k", "o")
        assert seat.app.full_screen is seat.jobs
        assert seat.jobs.jobs.key == name


AT_BYTE = {"match_id": "m", "attempt": 1, "run": 0, "rule": "r"}
LINES = [f"iteration {n:5d} of 9999\n" for n in range(400)]
LINES[250] = "KeyError: 'rope'\n"
START = len("".join(LINES[:100]))
JOB = campaign(31).jobs[0].name
PROOFS: list[tuple[Event, str]] = [
    (
        events.LogMatched(job=JOB, offset=START, line=LINES[100], **AT_BYTE),  # type: ignore[arg-type]
        "iteration   100",
    ),
    (
        events.AttemptEnded(
            job=JOB, attempt=1, outcome=Outcome.FAILED, evidence="KeyError: 'rope'"
        ),
        "KeyError",
    ),
]


@pytest.fixture
def logged(tmp_path: Path) -> Snapshot:
    base = campaign(31, log_dir=str(tmp_path))
    path = Path(base.jobs[0].attempts[0].log_path)
    path.parent.mkdir(parents=True)
    path.write_text("".join(LINES))
    return base


async def test_enter_on_kept_evidence_opens_its_summary(tmp_path: Path) -> None:
    (tmp_path / "summary.txt").write_text("Thread 0x7f: train()")
    told = {"job": "a", "attempt": 1, "reason": "stall", "summary": "all"}
    kept = events.EvidenceCaptured(**told, directory=str(tmp_path))  # type: ignore[arg-type]
    async with cockpit(with_events(campaign(4), [kept])) as seat:
        await seat.see("8 enter", evidence="train()")


@pytest.mark.parametrize(("event", "words"), PROOFS, ids=["a match", "an end"])
async def test_enter_on_an_event_opens_the_log_at_its_proof(
    event: Event, words: str, logged: Snapshot
) -> None:
    async with cockpit(with_events(logged, [event])) as seat:
        await seat.see("8 full_stop enter", evidence=f"{words}|!iteration   399")
        await seat.see("y", footer="sent to the clipboard")
        await seat.see("escape escape", focus="events")


@pytest.mark.parametrize(("keys", "told"), [("", "late"), ("g", "sbatch me")])
async def test_new_events_move_a_cursor_at_the_end_alone(keys: str, told: str) -> None:
    async with cockpit(eventful()) as seat:
        await seat.play(f"8 full_stop {keys}")
        late = events.MessageLogged(text="late")
        await seat.push(with_events(seat.handle.snapshot(), [late]))
        seat.check(effect=told)


@pytest.mark.parametrize("alive", [True, False])
async def test_a_take_over_of_a_session_that_ran_is_said_until_a_key_comes(
    alive: bool,
) -> None:
    base = campaign(31, role="viewer")
    seen = replace(base, engine=replace(base.engine, owner_alive=alive))
    async with cockpit(seen) as seat:
        await seat.push(campaign(31))
        assert ("the session goes on in this one" in seat.footer) is alive
        await seat.see("j", footer="!goes on")


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        ("j enter", Choice(("m4q1",))),
        ("q", None),
        ("j e", Choice(("m4q1",), compares=True)),
        ("space space e", Choice(("k7f2", "m4q1"), compares=True)),
        ("space space k space r e", Choice(("m4q1",), compares=True)),
    ],
)
async def test_a_session_is_chosen_or_none_or_waited_for(
    keys: str, chosen: Choice | None
) -> None:
    options = CockpitOptions(ascii=False, no_color=False)
    found: list[SessionBrief] = []
    app = SessionPicker(lambda: found, options, ManualClock(T0))
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.press("enter")
        told = read_lines(app.pane)
        assert "`autoexp-tui --config-ref exp` opens the demo" in told
        found += [brief(), brief(id="m4q1", name="other")]
        await pilot.press("r", *keys.split())
    assert app.return_value == chosen


@asynccontextmanager
async def replaying(size: tuple[int, int] = (120, 40)) -> AsyncIterator[Seat]:
    clock = ManualClock(0.0)
    handle = replay(clock)
    options = CockpitOptions(ascii=False, no_color=False, replay=True)
    app = CockpitApp(handle, options=options, clock=clock)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield Seat(app, pilot, handle, clock)  # type: ignore[arg-type]
    handle.close()


def shown(seat: Seat) -> Playback:
    playback = seat.model.session.snapshot.playback
    assert playback is not None
    return playback


BEGIN, END = replayed_week().records[0].t, replayed_week().records[-1].t
STEPS: list[tuple[str, Callable[[Playback], bool]]] = [
    ("space", lambda at: at.playing),
    ("space", lambda at: not at.playing),
    ("greater_than_sign", lambda at: at.speed == 120.0),
    ("less_than_sign less_than_sign", lambda at: at.speed == 30.0),
    ("right right", lambda at: at.position > 2),  # by a commit
    ("left left left", lambda at: at.position < 3),
    ("t '50% enter", lambda at: abs(at.at - (BEGIN + END) / 2) < 1),
    ("end", lambda at: at.at == END),
    ("home", lambda at: at.at == BEGIN),
]


async def test_keys_lead_through_the_time() -> None:
    async with replaying() as seat:
        assert seat.app.context.find_utc() == shown(seat).at == BEGIN
        for script, holds in STEPS:
            await seat.play(script)
            await seat.until(lambda: holds(shown(seat)))  # noqa: B023


async def test_header_bar_footer_and_help_are_those_of_a_replay() -> None:
    async with replaying((80, 24)) as seat:
        await seat.see(header="replay", footer="space play", timebar="60x")
        await seat.see("greater_than_sign", timebar="120x")
        await seat.see("t 'noon enter", footer="a time reads")
        assert shown(seat).at == BEGIN
        await seat.see("escape end", header="!running")
        await seat.press("question_mark")
        assert "replay: " in seat.dialog.partition("Act (")[0]


async def test_a_replay_takes_no_commands_rings_never_and_is_left_unasked() -> None:
    async with replaying() as seat:
        for key in "SKRAXPU":
            await seat.see("j", footer="!takes no commands")
            await seat.see(key, footer="what has happened takes no commands")
            assert seat.dialog == ""
        assert seat.app.notifier._quiet
        await seat.press("q")
        assert not seat.app.is_running
