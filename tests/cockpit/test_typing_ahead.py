"""Keys that come faster than they are handled: a paste, a script, quick fingers."""

from __future__ import annotations

import pytest
from textual import events
from textual.keys import _character_to_key

from autoexp_tui.cockpit.dialogs.reader import PaletteScreen
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.model.commands import Resubmit, Skip
from tests.cockpit.seat import Seat, asking, cockpit
from tests.support.campaigns import campaign

_NAMED = {
    "\x7f": "backspace",
    "\r": "enter",
    "\t": "tab",
    "\x1b": "escape",
    "\x10": "ctrl+p",
}


async def burst(seat: Seat, text: str) -> None:
    """All keys of `text` at once, as a terminal hands on what was pasted or sent."""
    for letter in text:
        key = _NAMED.get(letter) or _character_to_key(letter)
        character = None if letter in _NAMED else letter
        seat.app.post_message(events.Key(key, character))
    for _ in range(4):
        await seat.pilot.pause()


@pytest.mark.parametrize(
    ("before", "keys", "typed"),
    [
        ("", "/lr>1e-3", "lr>1e-3"),
        ("", "/stage:cooldown Kq j/G:", "stage:cooldown Kq j/G:"),
        ("", "/lr=\x7f>1", "lr>1"),
        ("", "0/loss", "loss"),
        ("8", "2/x", "x"),
        ("8", "/kind:submit", "kind:submit"),
        ("w l j", "\r/ab", "ab"),
    ],
    ids=[
        "a filter",
        "commands and moves in a filter",
        "a backspace",
        "a search behind a change of pane",
        "a filter behind a change of mode",
        "a filter of events",
        "behind a key that leads to a job",
    ],
)
async def test_what_is_typed_in_one_burst_reaches_its_field(
    before: str, keys: str, typed: str
) -> None:
    async with cockpit() as seat:
        await seat.play(before)
        await burst(seat, keys)
        screen = seat.app.full_screen
        assert screen is not None
        assert screen.field is not None
        assert screen.field.value == typed
        assert seat.handle.sent == []


@pytest.mark.parametrize("keys", ["/cannot\r", "/cannot\rzz"])
async def test_what_is_typed_after_enter_is_no_part_of_the_filter(keys: str) -> None:
    async with cockpit() as seat:
        await burst(seat, keys)
        assert seat.jobs.field is None
        seat.check(jobs="/cannot (esc)")


async def test_text_pasted_after_a_slash_reaches_the_field() -> None:
    async with cockpit() as seat:
        seat.app.post_message(events.Key("slash", "/"))
        seat.app.post_message(events.Paste("lr>1e-3"))
        for _ in range(4):
            await seat.pilot.pause()
        assert seat.jobs.field is not None
        assert seat.jobs.field.value == "lr>1e-3"


async def test_the_palette_takes_a_burst() -> None:
    async with cockpit() as seat:
        await burst(seat, ":kill")
        screen = seat.app.screen
        assert isinstance(screen, PaletteScreen)
        assert screen.field is not None
        assert screen.field.value == "kill"


# ---------------------------------------------------------------------------- dialogs
@pytest.mark.parametrize(
    ("keys", "last"),
    [
        ("jj\toptim.lr=5e-4\r", "y"),
        ("jjoptim.lr=5e-4\r", "y"),
        ("jj\toptim.lr=5e-4\ty", ""),
    ],
    ids=["and enter", "without tab", "with its confirmation"],
)
async def test_other_values_typed_in_one_burst_are_sent_whole(
    keys: str, last: str
) -> None:
    async with asking("R", Look.FAILED) as (seat, name):
        await burst(seat, keys)
        if last:
            seat.check(dialog="optim.lr: 3e-4 -> 5e-4|same directory")
            assert seat.handle.sent == []
            await seat.hear()
            await burst(seat, last)
        await seat.until(lambda: seat.handle.sent)
        assert seat.handle.commands == [
            Resubmit(jobs=(name,), overrides=("optim.lr=5e-4",))
        ]


async def test_enter_on_a_way_that_asks_goes_to_its_field() -> None:
    async with asking("R", Look.FAILED) as (seat, _):
        await burst(seat, "jj\rnodes.quick=1")
        assert "nodes.quick" in seat.dialog
        assert seat.handle.sent == []


async def test_enter_behind_a_filled_field_says_how_to_go_on_and_closes_nothing() -> (
    None
):
    async with asking("R", Look.FAILED) as (seat, _):
        await burst(seat, "jj\toptim.lr=5e-4\r")
        await seat.hear()
        await burst(seat, "\r")
        assert "y resubmit" in seat.dialog
        assert "Enter does nothing here" in seat.dialog
        assert seat.handle.sent == []


async def test_letters_typed_on_behind_a_closed_dialog_are_no_commands() -> None:
    async with asking("R", Look.FAILED) as (seat, _):
        await seat.press("n", "8", "S")
        assert seat.dialog == ""
        assert seat.app.current_mode == "jobs"
        await seat.hear()
        await burst(seat, "8")
        assert seat.app.current_mode == "events"


async def test_a_reason_is_typed_without_tab_and_its_letters_confirm_nothing() -> None:
    async with asking("X", Look.DOOMED) as (seat, name):
        await burst(seat, "busy, not now\r")
        assert seat.handle.sent == []
        await seat.hear()
        await burst(seat, "y")
        await seat.until(lambda: seat.handle.sent)
        assert seat.handle.commands == [Skip(jobs=(name,), reason="busy, not now")]


async def test_keys_typed_ahead_of_a_question_confirm_nothing() -> None:
    async with cockpit(campaign(40)) as seat:
        await seat.go_to(Look.RUNNING)
        await burst(seat, "Kyy")
        await seat.press("y")
        assert "Kill 1 running job?" in seat.dialog
        assert seat.app.job_actions.countdown is None
        assert seat.handle.sent == []
