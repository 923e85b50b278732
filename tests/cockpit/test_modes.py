"""Modes beside the jobs: waiting, time-line, grid, events; and the session picker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.cockpit.context import CockpitOptions
from autoexp_tui.cockpit.render import lists as view
from autoexp_tui.cockpit.render.timeline import build_job_strip, build_stage_strip
from autoexp_tui.cockpit.screens.picker import PickerScreen, SessionPicker
from autoexp_tui.cockpit.state.reasons import find_reason
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.cockpit.widgets import headings
from autoexp_tui.effects import effects
from autoexp_tui.events import events
from autoexp_tui.model.commands import Skip
from autoexp_tui.model.snapshot import SessionBrief, Snapshot
from autoexp_tui.model.specs import Hole
from autoexp_tui.model.states import JobState
from autoexp_tui.testing.clock import ManualClock
from tests.cockpit.plans import holey, opened
from tests.cockpit.render.test_small_views import brief
from tests.cockpit.seat import Seat, cockpit
from tests.cockpit.test_motion import painted
from tests.cockpit.test_replay import replaying, shown
from tests.planning.plans import job, plan
from tests.support.campaigns import T0, all_done, campaign, planned
from tests.support.scripted_handle import HOSTILE, moved, with_events, with_job

SUBMIT = effects.SubmitTasks(token="t", tasks=(("a", 1),))
BAD = "\x1b]52;c;AA\x07[/red]\u202e"


def eventful() -> Snapshot:
    return with_events(
        campaign(31),
        [
            events.EffectOrdered(effect_id="e1", effect=SUBMIT),
            events.EffectSettled(effect_id="e1", outcome="ok", detail="sbatch me\n481"),
            events.MessageLogged(text="newest"),
        ],
    )


def in_plan() -> Snapshot:
    return opened(holey())


def of_scales() -> Snapshot:
    jobs = [job("a", 0, stage="s")]
    made = [{"parameters": {"scale": at}, "stage": "t"} for at in (1, 2)]
    jobs += [job(f"b{at}", at + 1, **one) for at, one in enumerate(made)]
    return opened(plan(jobs))


def of_many_stages() -> Snapshot:
    return opened(plan([job(f"j{at}", at, stage=f"stage{at:02}") for at in range(20)]))


def of_many_axes() -> Snapshot:
    own = [{f"some.long_key_{at}": n for at in range(8)} for n in range(2)]
    return opened(plan([job(f"j{n}", n, parameters=own[n]) for n in range(2)]))


def hostile_plan() -> Snapshot:
    jobs = [job(f"j{n}", n, stage=BAD, parameters={BAD: f"{BAD}{n}"}) for n in range(2)]
    hole = Hole(parameters={BAD: f"{BAD}9"}, stage=BAD, filter=BAD, where=BAD)
    return opened(plan(jobs, holes=(hole,)))


ROOT = "lr0.0001_bsz"
Row = tuple[Callable[[], Snapshot], str, dict[str, str]]
SCENES: dict[str, Row] = {
    "escape leads back from waiting": (campaign, "w escape", {"focus": "jobs"}),
    "marks stay when the list is left": (campaign, "space 9 escape", {"jobs": "*"}),
    "nothing that waits is said": (
        lambda: all_done(10),
        "w",
        {"waiting": "Nothing waits."},
    ),
    "stages over time": (campaign, "9", {"timeline": "stable|cooldown|evaluate|▾|✗"}),
    "a verb acts on the stage": (campaign, "9 K", {"dialog": "stable"}),
    "nothing ran yet": (lambda: planned(10), "9 enter", {"timeline": "stable"}),
    "G opens the grid": (
        in_plan,
        "1 G",
        {"grid": "6 rows x 2 stages, 2 holes by 1 filter"},
    ),
    "a cell is told below": (in_plan, "1 G l", {"conditions": f"{ROOT}64_cooldown"}),
    "a hole names its filter": (
        in_plan,
        "1 G l end",
        {
            "conditions": "the filter f1 took it, and 2 cells in all"
            '|stage == "cooldown")   at sweep.filter'
        },
    ),
    "enter goes to the cell's job": (
        in_plan,
        "1 G j l enter",
        {"focus": "jobs", "why": f"{ROOT}128_cooldown"},
    ),
    "escape goes back to the stages": (in_plan, "1 G escape", {"focus": "stages"}),
    "a verb acts on the cell": (in_plan, "1 G l S", {"dialog": "lr=1e-4 bsz=64"}),
    "i reads the cell's job": (in_plan, "1 G l i", {"dialog": f"{ROOT}64_cooldown"}),
    "a hole has no job": (
        in_plan,
        "1 G l end i",
        {"footer": "there is no job here"},
    ),
    "a running session has its grid": (
        campaign,
        "1 G",
        {"grid": "evaluate|running"},
    ),
    "columns come with the cursor": (
        of_many_stages,
        "1 G" + " l" * 19,
        {"grid": "stage19|!stage00"},
    ),
    "axes are counted and told below": (
        of_many_axes,
        "1 G",
        {"grid": "+6", "conditions": "long_key_7=0"},
    ),
    "the newest event is under the cursor": (
        eventful,
        "8 full_stop",
        {"effect": "newest", "events": "message"},
    ),
    "bookkeeping is not shown unasked": (eventful, "8", {"events": "!message"}),
    "an effect shows its exact words": (
        eventful,
        "8 full_stop k",
        {"effect": "sbatch me"},
    ),
    "an entry is copied": (
        eventful,
        "8 full_stop k y",
        {"footer": "sent to the clipboard"},
    ),
    "escape goes back from events": (eventful, "8 escape", {"focus": "jobs"}),
    "a pane's number goes there": (eventful, "8 0", {"focus": "log"}),
}


@pytest.mark.parametrize("scene", SCENES)
async def test_keys_in_other_modes(scene: str) -> None:
    made, script, seen = SCENES[scene]
    async with cockpit(made(), (80 if "many" in made.__name__ else 120, 40)) as seat:
        await seat.play(script)
        seat.check(**seen)
        assert seat.handle.sent == []


@pytest.mark.parametrize(("size"), [(60, 16), (80, 24), (200, 60)])
async def test_hostile_names_harm_nothing(size: tuple[int, int]) -> None:
    async with cockpit(campaign(60, names=HOSTILE), size=size) as seat:
        for script in ("w l", "9 enter"):
            await seat.play(script)
            assert "\x1b" not in seat.everything
    async with cockpit(hostile_plan()) as seat:
        await seat.play("1 G end")
        told = seat.pane("grid") + seat.pane("conditions")
        assert not {"\x1b", "\x07", "\u202e"} & set(told)
        assert "[/red]" in told


@pytest.mark.parametrize("mode", ["w", "9", "8"])
async def test_the_next_that_needs_you_is_a_key_away_everywhere(mode: str) -> None:
    async with cockpit() as seat:
        await seat.press(mode, "exclamation_mark")
        assert seat.app.full_screen is seat.jobs
        assert seat.jobs.jobs.find_jobs()[0].is_needy


# ------------------------------------------------------------------------- waiting
def listed(seat: Seat, name: str) -> Any:
    return seat.app.screen.query_one(f"#{name}")


async def to_group(seat: Seat, look: Look) -> str:
    """To the first group of that look; its key."""
    await seat.press("w")
    pane = listed(seat, "waiting")
    key = next(group.key for group in pane.waits.groups if group.look is look)
    pane.move_to_key(key)
    await seat.pilot.pause()
    return str(key)


async def test_below_stands_the_longest_wait_with_each_condition() -> None:
    async with cockpit() as seat:
        await to_group(seat, Look.DOOMED)
        seat.check(conditions="✗ iter_48000/done.txt")
        await to_group(seat, Look.WAITING)
        seat.check(waiting="waits for", conditions="that wait alike|◌|since")
        await seat.press("tab", "plus")
        seat.check(conditions="reads")


async def test_a_group_opens_and_folds_and_enter_goes_to_a_job() -> None:
    async with cockpit() as seat:
        key = await to_group(seat, Look.WAITING)
        pane = listed(seat, "waiting")
        await seat.press("enter", "j", "j", "h")
        assert pane.key == key
        assert key not in pane.open
        await seat.press("l", "j")
        name = pane.find_job().name
        await seat.press("enter")
        assert seat.app.full_screen is seat.jobs
        assert seat.jobs.jobs.key == name


async def test_x_skips_what_is_under_the_cursor() -> None:
    async with cockpit() as seat:
        await to_group(seat, Look.DOOMED)
        doomed = seat.model.session.count(Look.DOOMED)
        await seat.press("X")
        await seat.hear()
        await seat.press("y")
        sent = seat.handle.commands
        assert isinstance(sent[0], Skip)
        assert len(sent[0].jobs) == doomed


async def test_ages_go_on_while_nothing_runs_and_no_snapshot_comes() -> None:
    base = replace(all_done(10), open=True)
    waits = with_job(
        base, base.jobs[0].name, state=JobState.WAITING, attempts=(), since=T0 - 6
    )
    async with cockpit(waits) as seat:
        await seat.press("w")
        seat.check(waiting="6 s")
        seat.clock.advance(600)
        seat.app.update_every_second()
        seat.check(waiting="10 min")


async def test_ten_thousand_cost_what_is_visible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: dict[str, int] = {}

    def count(module: object, name: str, original: Callable[..., Any]) -> None:
        def counted(*arguments: Any) -> Any:
            drawn[name] = drawn.get(name, 0) + 1
            return original(*arguments)

        monkeypatch.setattr(module, name, counted)

    async with cockpit(campaign(10_000)) as seat:
        await seat.press("9", "enter")
        count(headings, "build_job_strip", build_job_strip)
        count(headings, "build_stage_strip", build_stage_strip)
        await seat.press("G", "k")
        assert 0 < drawn["build_job_strip"] <= 2 * seat.app.size.height
        assert "build_stage_strip" not in drawn
        await seat.press("w", "G", "l")
        count(view, "find_reason", find_reason)
        await seat.press("j")
        await seat.push(moved(seat.handle.snapshot(), 1))
        assert drawn.get("find_reason", 0) < 60 * (1 + view._ALIKE)


# ----------------------------------------------------------------------- time-line
async def test_enter_unfolds_a_stage_and_then_goes_to_a_job() -> None:
    async with cockpit() as seat:
        await seat.press("9", "enter", "j", "j")
        name = listed(seat, "timeline").find_job().name
        assert name in seat.pane("conditions")
        await seat.press("enter")
        assert seat.jobs.jobs.key == name


async def test_the_window_is_zoomed_moved_and_left_by_escape() -> None:
    async with cockpit(size=(60, 16)) as seat:
        await seat.press("9")
        pane = listed(seat, "timeline")
        before = pane.find_window()
        await seat.press("plus")
        assert pane.find_window().seconds == before.seconds / 2
        title = seat.pane("timeline").partition("\n")[0]
        assert "f all" in title
        assert "▒ lost" in title
        assert "…" not in title
        await seat.press("minus")
        assert pane.find_window().seconds == before.seconds
        begin = pane.find_window().begin
        await seat.press("l")
        assert pane.find_window().begin > begin
        await seat.press("h")
        assert pane.find_window().begin == pytest.approx(begin)
        await seat.press("f")
        assert pane.window is None
        await seat.press("enter", "j", "plus", "escape")
        assert not pane.open
        assert listed(seat, "timeline").window
        await seat.press("escape")
        assert not listed(seat, "timeline").window
        await seat.press("escape")
        assert seat.app.full_screen is seat.jobs


async def test_in_a_replay_all_of_the_journal_is_on_it() -> None:
    async with replaying() as seat:
        await seat.press("9")
        window = listed(seat, "timeline").find_window()
        assert window.begin <= shown(seat).begin < shown(seat).end <= window.end
        await seat.press("end")
        await seat.until(lambda: shown(seat).at == shown(seat).end)
        seat.check(timeline="░")


async def test_a_second_without_news_paints_next_to_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cockpit() as seat:
        await seat.press("9")
        await seat.push(moved(seat.handle.snapshot(), 1))
        with painted(monkeypatch) as cells:
            await seat.push(moved(seat.handle.snapshot(), 1))
        assert sum(cells) < 60


# ---------------------------------------------------------------------------- grid
async def test_enter_on_a_cell_of_several_narrows_the_table_to_them() -> None:
    async with cockpit(of_scales()) as seat:
        await seat.play("1 G l enter")
        assert seat.model.list_shown() == {"b0", "b1"}


async def test_thousands_of_rows_are_drawn_and_reached() -> None:
    made = holey(rates=[at * 1e-7 for at in range(1, 1501)])
    async with cockpit(opened(made)) as seat:
        await seat.play("1 G")
        await seat.until(lambda: "3000 rows" in seat.pane("grid"))
        await seat.press("end")
        seat.check(grid="1.5e-4")


# -------------------------------------------------------------------------- events


@pytest.mark.parametrize(("keys", "told"), [("", "late"), ("g", "sbatch me")])
async def test_new_events_move_a_cursor_at_the_end_alone(keys: str, told: str) -> None:
    async with cockpit(eventful()) as seat:
        await seat.play(f"8 full_stop {keys}")
        later = with_events(seat.handle.snapshot(), [events.MessageLogged(text="late")])
        await seat.push(later)
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
        await seat.press("j")
        seat.check(footer="!goes on")


# -------------------------------------------------------------------------- picker
def picker(sessions: Sequence[SessionBrief]) -> SessionPicker:
    options = CockpitOptions(ascii=False, no_color=False)
    return SessionPicker(lambda: sessions, options, ManualClock(T0))


@pytest.mark.parametrize(("keys", "chosen"), [("j enter", "m4q1"), ("q", None)])
async def test_a_session_is_chosen_with_enter_or_none(
    keys: str, chosen: str | None
) -> None:
    app = picker([brief(), brief(id="m4q1", name="other")])
    async with app.run_test(size=(100, 24)) as pilot:
        await pilot.press(*keys.split())
    assert app.return_value == chosen


async def test_no_session_says_what_to_type_until_one_is_found() -> None:
    found: list[SessionBrief] = []
    app = picker(found)
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.press("enter")
        screen = app.screen
        assert isinstance(screen, PickerScreen)
        told = screen.pane.text_on_screen
        assert "`autoexp-tui --config-ref exp` opens the demo" in told
        found.append(brief())
        await pilot.press("r", "enter")
    assert app.return_value == "k7f2"
