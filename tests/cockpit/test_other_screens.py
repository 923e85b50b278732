"""Events mode and the session picker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autoexp_tui.cockpit.context import CockpitOptions
from autoexp_tui.cockpit.screens.picker import PickerScreen, SessionPicker
from autoexp_tui.effects import effects
from autoexp_tui.events import events
from autoexp_tui.model.snapshot import SessionBrief, Snapshot
from autoexp_tui.model.states import Cause, JobState, why
from autoexp_tui.testing.clock import ManualClock
from tests.cockpit.render.test_small_views import brief
from tests.cockpit.seat import cockpit
from tests.support.campaigns import T0, campaign
from tests.support.scripted_handle import with_events

SUBMIT = effects.SubmitTasks(token="t", tasks=(("a", 1),))


def eventful() -> Snapshot:
    return with_events(
        campaign(31),
        [
            events.EffectOrdered(effect_id="e1", effect=SUBMIT),
            events.EffectSettled(effect_id="e1", outcome="ok", detail="sbatch me\n481"),
            events.MessageLogged(text="newest"),
        ],
    )


async def test_events_mode_shows_the_newest_first_under_the_cursor() -> None:
    async with cockpit(eventful()) as seat:
        await seat.press("8", "full_stop")
        assert "newest" in seat.pane("effect")


async def test_bookkeeping_is_shown_only_when_asked_for() -> None:
    async with cockpit(eventful()) as seat:
        await seat.press("8")
        assert "message" not in seat.pane("events")
        await seat.press("full_stop")
        assert "message" in seat.pane("events")


async def test_an_event_line_names_its_job_before_what_happened() -> None:
    ended = events.JobEnded(
        job="a_job", state=JobState.FAILED, cause=Cause.NAN, why=why("nan")
    )
    async with cockpit(with_events(campaign(4), [ended])) as seat:
        await seat.press("8")
        row = seat.pane("events")
        assert row.index("a_job") < row.index("job ended")


async def test_an_effect_shows_its_exact_words() -> None:
    async with cockpit(eventful()) as seat:
        await seat.press("8", "full_stop", "k")
        assert "sbatch me" in seat.pane("effect")


async def test_new_events_come_while_the_cursor_is_at_the_end() -> None:
    async with cockpit(eventful()) as seat:
        await seat.press("8", "full_stop")
        later = with_events(seat.handle.snapshot(), [events.MessageLogged(text="late")])
        await seat.push(later)
        assert "late" in seat.pane("effect")


async def test_new_events_do_not_move_a_cursor_that_was_moved() -> None:
    async with cockpit(eventful()) as seat:
        await seat.press("8", "full_stop", "g")
        later = with_events(seat.handle.snapshot(), [events.MessageLogged(text="late")])
        await seat.push(later)
        assert "sbatch me" in seat.pane("effect")


async def test_escape_goes_back_to_the_jobs() -> None:
    async with cockpit(eventful()) as seat:
        await seat.press("8", "escape")
        assert seat.app.full_screen is seat.jobs


async def test_a_pane_s_number_goes_there_from_events() -> None:
    async with cockpit(eventful()) as seat:
        await seat.press("8", "0")
        assert seat.app.focused is seat.jobs.logs


async def test_keys_typed_right_after_a_change_of_mode_are_not_lost() -> None:
    async with cockpit(eventful()) as seat:
        await seat.pilot.press("8", "2", "slash", "x")
        await seat.pilot.pause()
        assert seat.jobs.field is not None
        assert seat.jobs.field.value == "x"


async def test_an_entry_can_be_copied() -> None:
    async with cockpit(eventful()) as seat:
        await seat.press("8", "full_stop", "k", "y")
        assert "sent to the clipboard" in seat.footer


# -------------------------------------------------------------------------- picker
def picker(sessions: Sequence[SessionBrief]) -> SessionPicker:
    options = CockpitOptions(ascii=False, no_color=False)
    return SessionPicker(lambda: sessions, options, ManualClock(T0))


async def test_a_session_is_chosen_with_enter() -> None:
    app = picker([brief(), brief(id="m4q1", name="other")])
    async with app.run_test(size=(100, 24)) as pilot:
        await pilot.press("j", "enter")
    assert app.return_value == "m4q1"


async def test_choosing_none_is_none() -> None:
    app = picker([brief()])
    async with app.run_test(size=(100, 24)) as pilot:
        await pilot.press("q")
    assert app.return_value is None


async def test_no_session_says_what_to_type() -> None:
    app = picker([])
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.press("enter")
        screen = app.screen
        assert isinstance(screen, PickerScreen)
        assert (
            "`autoexp-tui --config-ref exp` opens the demo"
            in screen.pane.text_on_screen
        )


async def test_the_list_is_made_anew_on_request() -> None:
    found: list[SessionBrief] = []
    app = picker(found)
    async with app.run_test(size=(100, 24)) as pilot:
        found.append(brief())
        await pilot.press("r", "enter")
    assert app.return_value == "k7f2"


async def test_a_take_over_by_this_cockpit_is_said_until_a_key_comes() -> None:
    async with cockpit(campaign(31, role="viewer")) as seat:
        await seat.push(campaign(31))
        assert "the session goes on in this one" in seat.footer
        await seat.press("j")
        assert "goes on" not in seat.footer


async def test_a_session_that_nobody_ran_is_no_take_over() -> None:
    base = campaign(31, role="viewer")
    gone = replace(base, engine=replace(base.engine, owner_alive=False))
    async with cockpit(gone) as seat:
        await seat.push(campaign(31))
        assert "goes on" not in seat.footer
