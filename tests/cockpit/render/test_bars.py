"""Header, footer, time bar and boxes: what they say, and that all of it fits."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

import pytest

from autoexp_tui.cockpit.keymap import Keymap, Pane
from autoexp_tui.cockpit.render import layout
from autoexp_tui.cockpit.session_model import SessionModel, estimate_outlook
from autoexp_tui.cockpit.spans import Line, plain, width
from autoexp_tui.cockpit.widgets import bars
from autoexp_tui.cockpit.widgets.pane import to_ascii
from autoexp_tui.model.snapshot import Landmark, Playback, Snapshot
from autoexp_tui.model.states import why
from tests.cockpit.views import SESSION
from tests.support.campaigns import HOUR, T0, all_done, campaign, planned

MANY = SESSION.snapshot


def render_header(snapshot: Snapshot, cells: int, now: float, **told: Any) -> Line:
    model = SessionModel(snapshot)
    model.set_outlook(*estimate_outlook(model.session))
    return bars.render_header(model, now, cells, **told)


def render_footer(*args: Any, **told: Any) -> Line:
    return tuple(span for part, _ in bars.list_hints(*args, **told) for span in part)


@pytest.mark.parametrize("cells", range(60, 210, 15))
def test_no_bar_is_wider_than_the_screen(cells: int) -> None:
    assert width(render_header(MANY, cells, T0)) == cells
    assert "14 need you" in plain(render_header(MANY, cells, T0))
    assert width(bars.render_counts(SESSION, cells)) <= cells
    two = bars.render_time_bar(SHOWN, cells, 2)
    assert all(width(one) <= cells for one in two)
    assert plain(two[1]).endswith(" ✗ failed ? asked ░ gone ")
    panes: tuple[Pane, ...] = ("jobs", "log", "metrics", "events")
    for told in (render_footer(Keymap(), pane, ALL, cells) for pane in panes):
        assert width(told) <= cells
        assert all(word in plain(told) for word in ("q leave", "? keys"))


def header(snapshot: Snapshot = MANY, cells: int = 120, now: float = T0 + 2) -> str:
    return plain(render_header(snapshot, cells, now))


def engine(snapshot: Snapshot, **changes: Any) -> Snapshot:
    return replace(snapshot, engine=replace(snapshot.engine, **changes))


WATCHER = campaign(31, role="viewer")
LATE = engine(campaign(31), executor_answered_at=T0 - 300)
BESIDE = replace(
    LATE,
    jobs=tuple(
        replace(job, spec=replace(job.spec, place="beside")) for job in LATE.jobs
    ),
)
THEIRS = engine(WATCHER, user="user 61001", owner_alive=False)


@pytest.mark.parametrize(
    ("snapshot", "now", "words"),
    [
        (MANY, 2, "engine ok|slurm 15 s"),
        (MANY, 9, "engine 5 s"),
        (MANY, 300, "engine silent 5 min|as of 08:41"),
        (all_done(10), 2, "all ended"),
        (planned(10), 2, "not submitted"),
        (engine(planned(10), doing="planning exp"), 2, "planning exp"),
        (engine(campaign(31), holding="disk is full"), 2, "HOLDING: disk is full"),
        (
            replace(campaign(31), paused=why("paused")),
            2,
            "submission paused, P resumes",
        ),
        (
            replace(campaign(31), paused=why("storm", count=5)),
            2,
            "STORM, paused: 5 quick failures, P resumes",
        ),
        (WATCHER, 2, "watching"),
        (engine(WATCHER, halted_pid=47), 2, "engine stopped: fg, or kill -CONT 47"),
        (engine(WATCHER, owner_alive=False), 2, "its engine is gone"),
        (THEIRS, 2, "session of user 61001, read only   no engine "),
        (LATE, 2, "slurm silent 5 min"),
        (BESIDE, 2, "slurm 5 min|!silent"),  # nobody asks it
        (engine(LATE, executor_error="no answer"), 2, "slurm silent 5 min: no answer"),
        (engine(campaign(31), executor_error="sinfo: late"), 2, "slurm: sinfo: late"),
    ],
)
def test_how_old_the_data_is_and_what_is_not_as_usual_is_said(
    snapshot: Snapshot, now: float, words: str
) -> None:
    told = header(snapshot, 160, T0 + now)
    for word in words.split("|"):
        assert (word.lstrip("!") in told) is not word.startswith("!")


ALL = {"run.kill", "run.resubmit", "run.submit", "run.skip", "run.answer"}


WEEK = 7 * 24 * HOUR
SHOWN = Playback(
    begin=T0,
    end=T0 + WEEK,
    at=T0 + WEEK / 2,
    position=500,
    length=1000,
    speed=60.0,
    playing=True,
    landmarks=(
        Landmark(T0 + 0.1 * WEEK, "asked", T0 + 0.1 * WEEK),
        Landmark(T0 + 0.8 * WEEK, "failed", T0 + 0.8 * WEEK),
        Landmark(T0 + 0.85 * WEEK, "gone", T0 + 0.95 * WEEK),
    ),
)


def bar(shown: Playback = SHOWN) -> str:
    return plain(bars.render_time_bar(shown, 120, 1)[0])


def test_days_are_ticks_with_their_names_below() -> None:
    first, second = map(
        plain, bars.render_time_bar(replace(SHOWN, at=T0, landmarks=()), 120, 2)
    )
    assert first.count("┼") == 7
    assert first.index("┼") == second.index("Sun 15")
    assert plain(bars.render_time_bar(SHOWN, 80, 2)[1]).split()[0] == "Sun"


def test_the_speed_is_spelled_and_every_glyph_has_a_twin() -> None:
    told = [bars.format_speed(one) for one in (1.0, 1.875, 60.0, 2.0**20, inf)]
    assert told == ["1x", "1.9x", "60x", "1048576x", "max"]
    assert "▸ 60x" in bar()
    assert "?" not in to_ascii(bar(replace(SHOWN, landmarks=())))
    gone = Landmark(T0 + 0.75 * WEEK, "gone", T0 + WEEK)  # of a cell the gravest
    assert "✗" in bar(replace(SHOWN, landmarks=(SHOWN.landmarks[1], gone)))


SIZES = [
    (60, 16), (80, 24), (109, 29), (110, 30), (120, 40), (169, 50), (170, 50),
    (200, 60), (240, 24), (80, 60),
]  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("stages", [0, 1, 2, 4, 40])
@pytest.mark.parametrize("rows", [None, 0, 1, 3, 9, 500])
def test_boxes_tile_the_screen(
    size: tuple[int, int], stages: int, rows: int | None
) -> None:
    place = partial(layout.place_main, stages=stages, rows=rows)
    places = layout.build_boxes(*size, place)
    covered = [
        (x, y)
        for box in places.values()
        for x in range(box.x, box.right)
        for y in range(box.y, box.bottom)
    ]
    assert len(covered) == len(set(covered)) == size[0] * size[1]
    alone = layout.build_boxes(*size, place, "log")
    assert set(alone) == {"header", "footer", "log"}
    assert sum(box.height for box in alone.values()) == size[1]
    for enlarged in (None, "effect"):
        two = layout.build_boxes(
            *size, partial(layout.place_two, upper="events", lower="effect"), enlarged
        )
        assert sum(box.area for box in two.values()) == size[0] * size[1]
