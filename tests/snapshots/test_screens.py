"""The screens as they look, at the sizes and in the themes that are designed.

Made anew with `pytest tests/snapshots --snapshot-update`; look at every one that
changed before it is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.cockpit.app import CockpitApp
from autoexp_tui.cockpit.context import CockpitOptions
from autoexp_tui.cockpit.screens.picker import SessionPicker
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.testing.clock import ManualClock
from tests.cockpit.views import brief, eventful, replay, replayed_week
from tests.support.campaigns import T0, campaign, planned
from tests.support.scripted_handle import HOSTILE, ScriptedHandle

Compare = Callable[..., bool]
SIZES = [(80, 24), (120, 40), (200, 60)]
LOOKS: dict[str, dict[str, Any]] = {
    "dark": {"theme": "dark"},
    "light": {"theme": "light"},
    "ansi": {"theme": "ansi"},
    "nocolour": {"no_color": True},
}


def app(snapshot: Snapshot | None = None, **options: Any) -> CockpitApp:
    wanted: dict[str, Any] = {"ascii": False, "no_color": False, **options}
    handle = ScriptedHandle(snapshot if snapshot is not None else campaign())
    return CockpitApp(
        handle, options=CockpitOptions(**wanted), clock=ManualClock(T0 + 2)
    )


def keys(*pressed: str) -> Callable[[Any], Any]:
    """Press keys one by one, letting dialogs come to hear."""

    async def press(pilot: Any) -> None:
        await pilot.pause()
        for key in pressed:
            pilot.app.context.clock.advance(1)
            await pilot.press(key)
            await pilot.pause()
        await settled(pilot)

    return press


async def settled(pilot: Any) -> None:
    """Wait for reads, and let the header tell the manual clock's time."""
    pilot.app.full_screen.update_time()
    for _ in range(200):
        if pilot.app.context.background.is_idle:
            break
        await asyncio.sleep(0.01)
    await pilot.pause()
    await pilot.pause()


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_main(snap_compare: Compare, size: tuple[int, int], look: str) -> None:
    shown = app(**LOOKS[look])
    assert snap_compare(
        shown, terminal_size=size, run_before=keys("exclamation_mark", "space")
    )


@pytest.mark.parametrize(
    ("name", "pressed"),
    [
        ("kill", ["slash", "r", "u", "n", "enter", "K"]),
        ("resubmit", ["exclamation_mark", "R", "j", "j"]),
        ("skip", ["slash", "c", "a", "n", "n", "enter", "X", "j"]),
        ("approve", ["A"]),
        ("leave", ["q"]),
        ("help", ["question_mark"]),
        ("palette", ["colon"]),
        ("metrics", ["space", "j", "j", "space", "4"]),
        ("why", ["exclamation_mark", "enter"]),
        ("filter", ["slash", "l", "r"]),
        ("families", ["1", "plus", "l"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_at_80_columns(
    snap_compare: Compare, name: str, pressed: Sequence[str]
) -> None:
    assert snap_compare(app(), terminal_size=(80, 24), run_before=keys(*pressed))


def test_an_opened_plan(snap_compare: Compare) -> None:
    assert snap_compare(app(planned(10)), terminal_size=(80, 24), run_before=keys("S"))


def test_events(snap_compare: Compare) -> None:
    assert snap_compare(
        app(eventful()), terminal_size=(80, 24), run_before=keys("8", "k")
    )


async def at_rest(pilot: Any) -> None:
    """Wait until no read leads to a further one."""
    idle = 0
    while idle < 5:
        idle = idle + 1 if pilot.app.context.background.is_idle else 0
        await asyncio.sleep(0.01)
        await pilot.pause()


def replayed(**options: Any) -> CockpitApp:
    clock = ManualClock(T0)
    handle = replay(clock)
    wanted: dict[str, Any] = {"ascii": False, "no_color": False, **options}
    return CockpitApp(
        handle, options=CockpitOptions(replay=True, **wanted), clock=clock
    )


def to_the_midst(*pressed: str) -> Callable[[Any], Any]:
    """Go to the midst of a replay, then press keys."""

    async def press(pilot: Any) -> None:
        await pilot.pause()
        begin, end = replayed_week().records[0].t, replayed_week().records[-1].t
        moment = begin + 0.55 * (end - begin)
        pilot.app.context.handle.play("jump", moment)
        for _ in range(500):
            playback = pilot.app.context.model.session.snapshot.playback
            if playback is not None and playback.at == moment:
                break
            pilot.app.on_command_sent()
            await asyncio.sleep(0.01)
        for key in pressed:
            await pilot.press(key)
            await pilot.pause()
        pilot.app.full_screen.update_time()
        await at_rest(pilot)

    return press


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize(
    ("name", "pressed"),
    [
        ("replay", []),
        ("timeline", ["9", "enter", "j"]),
        ("events", ["8", "right_square_bracket"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_replay(
    snap_compare: Compare, name: str, pressed: Sequence[str], look: str
) -> None:
    shown = replayed(**LOOKS[look])
    assert snap_compare(
        shown, terminal_size=(120, 40), run_before=to_the_midst(*pressed)
    )


@pytest.mark.parametrize(
    "pressed",
    [[], ["9", "plus"], ["8", "right_square_bracket"]],
    ids=["replay", "timeline", "events"],
)
@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=["80x24", "200x60"])
def test_a_replay_at(
    snap_compare: Compare, size: tuple[int, int], pressed: list[str]
) -> None:
    assert snap_compare(
        replayed(), terminal_size=size, run_before=to_the_midst(*pressed)
    )


@pytest.mark.parametrize("pressed", [[], ["9", "enter"]], ids=["replay", "timeline"])
def test_a_replay_in_ascii(snap_compare: Compare, pressed: list[str]) -> None:
    shown = replayed(ascii=True, no_color=True)
    assert snap_compare(
        shown, terminal_size=(120, 40), run_before=to_the_midst(*pressed)
    )


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_waiting(snap_compare: Compare, size: tuple[int, int], look: str) -> None:
    shown = app(**LOOKS[look])
    pressed = ["w", "j", "l", "j"]
    assert snap_compare(shown, terminal_size=size, run_before=keys(*pressed))


def test_ascii(snap_compare: Compare) -> None:
    shown = app(ascii=True, no_color=True)
    assert snap_compare(
        shown, terminal_size=(120, 40), run_before=keys("exclamation_mark")
    )


@pytest.mark.parametrize(
    "pressed",
    [["G"], ["exclamation_mark", "R"], ["4"], ["w", "l"], ["9", "enter"]],
    ids=["rows", "question", "metrics", "waiting", "timeline"],
)
def test_hostile_names(snap_compare: Compare, pressed: list[str]) -> None:
    shown = app(campaign(60, names=HOSTILE))
    assert snap_compare(shown, terminal_size=(120, 40), run_before=keys(*pressed))


def test_a_log(snap_compare: Compare, tmp_path: Path) -> None:
    base = campaign(31, log_dir=str(tmp_path))
    path = Path(base.jobs[0].attempts[0].log_path)
    path.parent.mkdir(parents=True)
    path.write_text(
        "".join(f"iteration {n * 10:6d}/60000 | lm loss: 2.9\n" for n in range(80))
        + "Traceback (most recent call last):\nRuntimeError: CUDA out of memory\n"
    )
    shown = app(base)
    assert snap_compare(
        shown, terminal_size=(80, 24), run_before=keys("0", "plus", "E")
    )


def test_the_sessions(snap_compare: Compare) -> None:
    sessions = [brief(), brief(id="m4q1", owner="no", problem="journal line 3")]
    options = CockpitOptions(ascii=False, no_color=False)
    shown = SessionPicker(lambda: sessions, options, ManualClock(T0))
    assert snap_compare(shown, terminal_size=(100, 14))
