"""The screens as they look, at the sizes and in the themes that are designed.

Made anew with `pytest tests/snapshots --snapshot-update`; look at every one that
changed before it is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.cockpit.app import CockpitApp
from autoexp_tui.cockpit.context import CockpitOptions
from autoexp_tui.cockpit.screens.picker import SessionPicker
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.snapshot import BestResult, Snapshot
from autoexp_tui.model.specs import Hole
from autoexp_tui.model.states import JobState
from autoexp_tui.testing.clock import ManualClock
from tests.cockpit.plans import branching, details, holey, opened
from tests.cockpit.sweeps import swept
from tests.cockpit.views import brief, eventful, replay, replayed_week
from tests.planning.plans import job, plan
from tests.support.campaigns import T0, campaign, planned
from tests.support.scripted_handle import HOSTILE, ScriptedHandle

Compare = Callable[..., bool]
Size = tuple[int, int]
LOW, USUAL = (80, 24), (120, 40)
LOOKS: dict[str, dict[str, Any]] = {
    "dark": {"theme": "dark"},
    "light": {"theme": "light"},
    "ansi": {"theme": "ansi"},
    "nocolour": {"no_color": True},
}
ASCII: dict[str, Any] = {"ascii": True, "no_color": True}
BY_LOOK = pytest.mark.parametrize("look", LOOKS)
BY_SIZE = pytest.mark.parametrize(
    "size", [LOW, USUAL, (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}"
)


def app(snapshot: Snapshot | None = None, **options: Any) -> CockpitApp:
    handle = ScriptedHandle(snapshot if snapshot is not None else campaign())
    wanted = CockpitOptions(**{"ascii": False, "no_color": False, **options})
    return CockpitApp(handle, options=wanted, clock=ManualClock(T0 + 2))


def keys(script: str) -> Callable[[Any], Awaitable[None]]:
    """Press keys one by one, letting dialogs come to hear."""

    async def press(pilot: Any) -> None:
        await pilot.pause()
        for key in script.split():
            pilot.app.context.clock.advance(1)
            await pilot.press(key)
            await pilot.pause()
        pilot.app.full_screen.update_time()  # of the manual clock
        for _ in range(200):
            if pilot.app.context.background.is_idle:
                break
            await asyncio.sleep(0.01)
        await pilot.pause()
        await pilot.pause()

    return press


@BY_LOOK
@BY_SIZE
def test_main(snap_compare: Compare, size: Size, look: str) -> None:
    pressed = keys("exclamation_mark space")
    assert snap_compare(app(**LOOKS[look]), terminal_size=size, run_before=pressed)


AT_80_COLUMNS = {
    "kill": "slash r u n enter K",
    "resubmit": "exclamation_mark R j j",
    "skip": "slash c a n n enter X j",
    "approve": "A",
    "leave": "q",
    "help": "question_mark",
    "palette": "colon",
    "metrics": "space j j space 4",
    "why": "exclamation_mark enter",
    "filter": "slash l r",
    "families": "1 plus l",
}


@pytest.mark.parametrize("name", AT_80_COLUMNS, ids=lambda name: f"{name}-")
def test_at_80_columns(snap_compare: Compare, name: str) -> None:
    pressed = keys(AT_80_COLUMNS[name])
    assert snap_compare(app(), terminal_size=LOW, run_before=pressed)


def test_an_opened_plan(snap_compare: Compare) -> None:
    assert snap_compare(app(planned(10)), terminal_size=LOW, run_before=keys("S"))


def test_events(snap_compare: Compare) -> None:
    assert snap_compare(app(eventful()), terminal_size=LOW, run_before=keys("8 k"))


def replayed(**options: Any) -> CockpitApp:
    clock = ManualClock(T0)
    wanted: dict[str, Any] = {"ascii": False, "no_color": False, **options}
    shown = CockpitOptions(replay=True, **wanted)
    return CockpitApp(replay(clock), options=shown, clock=clock)


def in_the_midst(script: str) -> Callable[[Any], Awaitable[None]]:
    """Go to the midst of a replay, then press keys."""

    async def press(pilot: Any) -> None:
        await pilot.pause()
        begin, end = (replayed_week().records[at].t for at in (0, -1))
        moment = begin + 0.55 * (end - begin)
        pilot.app.context.handle.play("jump", moment)
        for _ in range(500):
            playback = pilot.app.context.model.session.snapshot.playback
            if playback is not None and playback.at == moment:
                break
            pilot.app.on_command_sent()
            await asyncio.sleep(0.01)
        for key in script.split():
            await pilot.press(key)
            await pilot.pause()
        pilot.app.full_screen.update_time()
        idle = 0  # until no read leads to a further one
        while idle < 5:
            idle = idle + 1 if pilot.app.context.background.is_idle else 0
            await asyncio.sleep(0.01)
            await pilot.pause()

    return press


EVENTS = "8 right_square_bracket"
MODES = {"replay": "", "timeline": "9 enter j", "events": EVENTS}
ENLARGED = {"replay": "", "timeline": "9 plus", "events": EVENTS}


@BY_LOOK
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: f"{mode}-")
def test_a_replay(snap_compare: Compare, mode: str, look: str) -> None:
    shown, pressed = replayed(**LOOKS[look]), in_the_midst(MODES[mode])
    assert snap_compare(shown, terminal_size=USUAL, run_before=pressed)


@pytest.mark.parametrize("mode", ENLARGED)
@pytest.mark.parametrize("size", [LOW, (200, 60)], ids=["80x24", "200x60"])
def test_a_replay_at(snap_compare: Compare, size: Size, mode: str) -> None:
    pressed = in_the_midst(ENLARGED[mode])
    assert snap_compare(replayed(), terminal_size=size, run_before=pressed)


@pytest.mark.parametrize("script", ["", "9 enter"], ids=["replay", "timeline"])
def test_a_replay_in_ascii(snap_compare: Compare, script: str) -> None:
    shown, pressed = replayed(**ASCII), in_the_midst(script)
    assert snap_compare(shown, terminal_size=USUAL, run_before=pressed)


@BY_LOOK
@BY_SIZE
def test_waiting(snap_compare: Compare, size: Size, look: str) -> None:
    shown, pressed = app(**LOOKS[look]), keys("w j l j")
    assert snap_compare(shown, terminal_size=size, run_before=pressed)


def test_ascii(snap_compare: Compare) -> None:
    pressed = keys("exclamation_mark")
    assert snap_compare(app(**ASCII), terminal_size=USUAL, run_before=pressed)


@pytest.mark.parametrize(
    "script",
    ["G", "exclamation_mark R", "4", "w l", "9 enter"],
    ids=["rows", "question", "metrics", "waiting", "timeline"],
)
def test_hostile_names(snap_compare: Compare, script: str) -> None:
    shown = app(campaign(60, names=HOSTILE))
    assert snap_compare(shown, terminal_size=USUAL, run_before=keys(script))


def test_a_log(snap_compare: Compare, tmp_path: Path) -> None:
    base = campaign(31, log_dir=str(tmp_path))
    path = Path(base.jobs[0].attempts[0].log_path)
    path.parent.mkdir(parents=True)
    path.write_text(
        "".join(f"iteration {n * 10:6d}/60000 | lm loss: 2.9\n" for n in range(80))
        + "Traceback (most recent call last):\nRuntimeError: CUDA out of memory\n"
    )
    assert snap_compare(app(base), terminal_size=LOW, run_before=keys("0 plus E"))


@pytest.mark.parametrize("size", [LOW, (120, 14), (200, 14)])
def test_the_sessions(snap_compare: Compare, size: Size) -> None:
    best = BestResult("loss", 2.0221, "lr=1e-3 bsz=256 warmup=100", "train")
    waits = {JobState.RUNNING: 6, JobState.WAITING: 9, JobState.COMPLETED: 105}
    counts: Any = {**waits, JobState.FAILED: 4}
    sessions = [
        brief(),
        brief(id="p6pe", counts=counts, needs={"stalled": 2, "asks": 1}, best=best),
        brief(id="z2zz", user="alice", owner="no", name=BAD, best=best),
        brief(id="m4q1", owner="no", problem="journal line 3"),
    ]
    options = CockpitOptions(ascii=False, no_color=False)
    shown = SessionPicker(lambda: sessions, options, ManualClock(T0))
    marks = ("j", "space", "space")
    assert snap_compare(shown, terminal_size=size, press=marks)


CURVES = {
    "80x24": (LOW, "c"),
    "80x24-band": (LOW, "c b e e c y"),
    "120x40-several": (USUAL, "v G v 4 plus n n n z left left left"),
    "200x60-beside": ((200, 60), "space j j j space 4 e e"),
}


@pytest.mark.parametrize("at", CURVES)
@pytest.mark.parametrize("look", ["dark", "nocolour", "ascii"])
def test_curves(snap_compare: Compare, at: str, look: str) -> None:
    size, script = CURVES[at]
    shown = app(swept(), **{**LOOKS, "ascii": ASCII}[look])
    assert snap_compare(shown, terminal_size=size, run_before=keys(script))


def came_to() -> Snapshot:
    """Runs of a sweep over seeds, each with the last values of its curves."""
    snapshot = swept()
    pairs = ((live, live.curves.items()) for live in snapshot.live if live is not None)
    told = ({name: curve.values[-1] for name, curve in its} for _, its in pairs)
    known = zip(filter(None, snapshot.live), told, strict=True)
    live = tuple(replace(live, metrics=metrics) for live, metrics in known)
    return replace(snapshot, live=live)


RESULTS = {
    "80x24": (came_to, LOW, "e"),
    "120x40-heat": (campaign, USUAL, "e G j l"),
    "200x60-metrics": (
        *(came_to, (200, 60)),
        "e m space l o s s colon m a x enter b j",
    ),
}


@pytest.mark.parametrize("at", RESULTS)
@pytest.mark.parametrize("look", ["dark", "ascii"])
def test_results(snap_compare: Compare, at: str, look: str) -> None:
    made, size, script = RESULTS[at]
    shown = app(made(), **{**LOOKS, "ascii": ASCII}[look])
    assert snap_compare(shown, terminal_size=size, run_before=keys(script))


BAD = "\x1b]52;c;AA\x07[/red]\u202e日本"


@BY_SIZE
def test_stages_as_a_graph(snap_compare: Compare, size: Size) -> None:
    shown = app(opened(branching()))
    assert snap_compare(shown, terminal_size=size, run_before=keys("1"))


def test_stages_as_a_graph_enlarged_in_ascii(snap_compare: Compare) -> None:
    shown, pressed = app(opened(branching()), **ASCII), keys("1 plus j l")
    assert snap_compare(shown, terminal_size=USUAL, run_before=pressed)


@BY_SIZE
def test_the_grid(snap_compare: Compare, size: Size) -> None:
    shown = app(opened(holey()))
    assert snap_compare(shown, terminal_size=size, run_before=keys("1 G l end"))


@pytest.mark.parametrize("look", ["light", "ansi", "nocolour"])
def test_the_grid_of_a_session(snap_compare: Compare, look: str) -> None:
    shown, pressed = app(**LOOKS[look]), keys("1 G j l")
    assert snap_compare(shown, terminal_size=USUAL, run_before=pressed)


def test_the_grid_with_hostile_names_in_ascii(snap_compare: Compare) -> None:
    own: list[Any] = [{"parameters": {BAD: f"{BAD}{n}"}} for n in range(2)]
    jobs = [job(f"j{n}", n, stage=BAD, **own[n]) for n in range(2)]
    hole = Hole(parameters={BAD: "x"}, stage=BAD, filter=BAD, where=BAD)
    shown = app(opened(plan(jobs, holes=(hole,))), **ASCII)
    assert snap_compare(shown, terminal_size=LOW, run_before=keys("1 G end"))


def test_results_with_hostile_names(snap_compare: Compare) -> None:
    own: list[Any] = [{BAD: f"{BAD}{n}", f"{BAD}2": n} for n in range(2)]
    jobs = [job(f"j{n}", n, stage=BAD, parameters=own[n]) for n in range(2)]
    shown = app(opened(plan(jobs)), **ASCII)
    assert snap_compare(shown, terminal_size=LOW, run_before=keys("e"))


@BY_SIZE
def test_how_a_job_is_made(snap_compare: Compare, size: Size) -> None:
    shown = app(opened(holey()), details=details)
    assert snap_compare(shown, terminal_size=size, run_before=keys("i n"))


def test_what_differs_between_two_jobs(snap_compare: Compare) -> None:
    shown, pressed = app(opened(holey()), details=details), keys("space j space d")
    assert snap_compare(shown, terminal_size=LOW, run_before=pressed)


@BY_SIZE
def test_errors_of_a_plan(
    snap_compare: Compare, size: Size, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("exp.yaml").write_text("".join(f"key{at}: {at}\n" for at in range(1, 50)))
    wrong = Problem(
        message="is not in the config (and for 3 more jobs)",
        where="backend.lrr",
        job="job 0 (stage=stable, lr=1e-3)",
        hint="did you mean `backend.lr`? write `++backend.lrr` to add it",
        place="exp.yaml:41",
    )
    none = Problem(message="makes no job", where="sweep", hint="its filters take all")

    async def open_them(pilot: Any) -> None:
        await pilot.pause()
        pilot.app.show_faults((wrong, none))
        await pilot.pause()
        await keys("enter")(pilot)

    assert snap_compare(app(opened(holey())), terminal_size=size, run_before=open_them)
