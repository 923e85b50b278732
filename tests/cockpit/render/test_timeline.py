"""Strips of time: each cell tells the gravest thing that happened in it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.cockpit.render import timeline
from autoexp_tui.cockpit.render.timeline import (
    LEAST_SECONDS,
    MOST_SECONDS,
    Window,
    build_job_strip,
    build_stage_strip,
    build_window,
    format_tick,
    list_segments,
    list_ticks,
    render_axis,
)
from autoexp_tui.cockpit.spans import join_cells, plain, width
from autoexp_tui.cockpit.state.session import build_session
from autoexp_tui.cockpit.widgets.pane import to_ascii
from autoexp_tui.model.event import fold
from autoexp_tui.model.state import Attempt, JobRecord, SessionState
from autoexp_tui.model.states import JobState, Outcome
from tests.support.campaigns import HOUR, T0, campaign
from tests.support.week import SHA, week

SPEC = campaign(4).jobs[0].spec
DAY = Window(T0, 24 * HOUR, 48)
"""Half an hour a cell."""


def attempt(number: int = 1, **times: object) -> Attempt:
    found = {"ordered_at": T0 + HOUR, "token": "t", **times}
    return Attempt(number=number, **found)  # type: ignore[arg-type]


def record(*attempts: Attempt, **changes: object) -> JobRecord:
    return JobRecord(spec=SPEC, attempts=attempts, **changes)  # type: ignore[arg-type]


def drawn(one: JobRecord, now: float = T0 + 12 * HOUR, window: Window = DAY) -> str:
    return plain(join_cells(build_job_strip(one, T0, now, window)))


BEGAN = attempt(began_at=T0 + 2 * HOUR)
FAILED = replace(BEGAN, ended_at=T0 + 3 * HOUR, outcome=Outcome.FAILED)
ENDED = replace(BEGAN, ended_at=T0 + 4 * HOUR, outcome=Outcome.COMPLETED)
DONE = record(ENDED, state=JobState.COMPLETED)


@pytest.mark.parametrize(
    ("job", "window", "strip"),
    [
        (DONE, DAY, "··░░████✓" + " " * 15 + "│" + " " * 23),
        (DONE, Window(T0 + 40 * HOUR, HOUR, 20), " " * 20),
        (DONE, Window(T0 + 2.5 * HOUR, HOUR, 20), "█" * 20),
        (record(BEGAN, state=JobState.RUNNING), DAY, "··░░" + "█" * 21 + " " * 23),
        (
            record(state=JobState.SKIPPED, since=T0 + 2 * HOUR),
            DAY,
            "····–" + " " * 19 + "│" + " " * 23,
        ),
        (record(state=JobState.WAITING), DAY, "·" * 25 + " " * 23),
    ],
    ids=["ended", "before the window", "amid it", "runs", "put aside", "waits"],
)
def test_a_strip_tells_what_a_job_did(
    job: JobRecord, window: Window, strip: str
) -> None:
    assert drawn(job, window=window) == strip


def test_a_failure_that_is_run_again_is_told_from_the_run_that_went_well() -> None:
    second = attempt(2, ordered_at=T0 + 5 * HOUR, began_at=T0 + 6 * HOUR)
    told = drawn(record(FAILED, second, state=JobState.RUNNING))
    assert told.startswith("··░░▒▒✗╌╌╌░░██")


def test_a_bad_end_is_not_hidden_by_a_good_one_in_the_same_cell() -> None:
    first = replace(FAILED, ended_at=T0 + 2.1 * HOUR)
    begin, end = T0 + 2.2 * HOUR, T0 + 2.3 * HOUR
    second = attempt(2, ordered_at=begin, began_at=begin, ended_at=end)
    second = replace(second, outcome=Outcome.COMPLETED)
    assert drawn(record(first, second, state=JobState.COMPLETED))[4] == "✗"


def test_each_segment_begins_where_the_one_before_ended() -> None:
    told = week(31, note_seconds=4 * HOUR, slots=4)
    state = fold(SessionState(plans={SHA: told.plan}), told.records)
    for job in state.jobs.values():
        found = list(list_segments(job, state.started_at, state.t))
        assert found[0].begin == state.started_at
        for before, after in pairwise(found):
            assert before.end == after.begin


def test_a_stage_is_as_high_as_many_ran() -> None:
    told = week(31, note_seconds=4 * HOUR, slots=4)
    half = told.records[: len(told.records) // 2]
    state = fold(SessionState(plans={SHA: told.plan}), half)
    base = campaign(31)
    session = build_session(
        replace(base, jobs=tuple(state.jobs[name] for name in state.order))
    )
    window = build_window(state.started_at, state.t, 60)
    cells = build_stage_strip(session.jobs, state.started_at, state.t, window)
    assert {cell.text for cell in cells} & set("▁▂▃▄▅▆▇█")


def test_only_what_failed_for_good_is_marked_in_its_stage() -> None:
    job = build_session(campaign(4)).jobs[0]
    failed = replace(job, record=record(FAILED, state=JobState.FAILED))
    again = replace(job, record=record(FAILED, state=JobState.RETRYING))
    now = T0 + 12 * HOUR
    assert build_stage_strip([failed], T0, now, DAY)[6].text == "✗"
    assert all(cell.text != "✗" for cell in build_stage_strip([again], T0, now, DAY))


def test_a_stage_costs_its_attempts_not_its_cells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = build_session(campaign(3000))
    asked: list[float] = []
    original = Window.cell

    def counted(self: Window, t: float) -> int:
        asked.append(t)
        return original(self, t)

    monkeypatch.setattr(timeline.Window, "cell", counted)
    build_stage_strip(
        session.jobs, T0 - 9 * HOUR, T0, Window(T0 - 9 * HOUR, 9 * HOUR, 400)
    )
    assert len(asked) < 12 * len(session.jobs)


@given(
    st.floats(1, 1e7),
    st.lists(st.sampled_from([0.5, 2.0]), max_size=40),
    st.floats(0, 1),
)
def test_zooming_keeps_the_moment_where_it_stood(
    seconds: float, factors: list[float], share: float
) -> None:
    window = Window(T0, max(LEAST_SECONDS, seconds), 100)
    around = window.begin + share * window.seconds
    for factor in factors:
        window = window.zoom(factor, around)
        assert LEAST_SECONDS <= window.seconds <= MOST_SECONDS
        assert (around - window.begin) / window.seconds == pytest.approx(
            share, abs=1e-3
        )


@given(st.floats(0, 1e8))
def test_the_whole_seldom_changes_its_length(seconds: float) -> None:
    first = build_window(T0, T0 + seconds, 80)
    assert first.end > T0 + seconds
    assert first.seconds >= LEAST_SECONDS
    assert first.seconds <= max(2 * seconds, 2 * LEAST_SECONDS)
    assert first.move(0.5).begin == T0 + first.seconds / 2
    assert build_window(T0, T0 + 6, 80).seconds < 12
    assert build_window(T0, T0 + 40, 80).seconds < 45


@pytest.mark.parametrize("cells", [20, 60, 90, 170])
@pytest.mark.parametrize("seconds", [10, 60, 3600, 86_400, 7 * 86_400, 300 * 86_400])
def test_ticks_are_round_and_have_room(cells: int, seconds: float) -> None:
    window = Window(T0, seconds, cells)
    found = list_ticks(window)
    places = [window.cell(t) for t in found]
    assert all(after - before >= 8 for before, after in pairwise(places))
    upper, lower = render_axis(window, T0 + seconds / 2, [], 10)
    assert width(upper) <= cells + 10
    assert width(lower) == cells + 10
    assert "▾" in plain(lower)


def test_labels_are_times_and_days() -> None:
    found = [
        format_tick(t, by_days=False) for t in list_ticks(Window(T0, 48 * HOUR, 80))
    ]
    assert len(list_ticks(Window(T0, 11, 60))) >= 5
    assert "Sun 15" in found
    assert "12:00" in found
    assert format_tick(T0 - T0 % 60 + 30, by_days=False).endswith(":30")


def test_times_without_an_engine_are_seen() -> None:
    _, lower = render_axis(DAY, T0, [(T0 + 6 * HOUR, T0 + 9 * HOUR)], 0)
    assert plain(lower).count("░") >= 6
    _, outside = render_axis(DAY, T0, [(T0 - 9 * HOUR, T0 - 6 * HOUR)], 0)
    assert "░" not in plain(outside)


def test_every_glyph_has_a_twin() -> None:
    glyphs = "".join(cell.text for cell in timeline._WEIGHT) + "┬▾│"
    assert "?" not in to_ascii(glyphs)
    assert len(set(to_ascii("·░█▒"))) == 4
