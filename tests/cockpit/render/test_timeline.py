"""Strips of time: each cell tells the gravest thing that happened in it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from autoexp_tui.cockpit.render import timeline
from autoexp_tui.cockpit.render.timeline import (
    LEAST_SECONDS,
    Window,
    build_stage_strip,
    build_window,
    list_ticks,
    render_axis,
)
from autoexp_tui.cockpit.spans import join_cells, plain, width
from autoexp_tui.cockpit.state.session import build_session
from autoexp_tui.model.event import fold
from autoexp_tui.model.state import Attempt, JobRecord, SessionState
from autoexp_tui.model.states import JobState, Outcome
from tests.cockpit.views import SESSION
from tests.planning.plans import job
from tests.support.campaigns import HOUR, T0, campaign
from tests.support.week import SHA, week

DAY = Window(T0, 24 * HOUR, 48)
"""Half an hour a cell."""
NOON = T0 + 12 * HOUR


def attempt(number: int = 1, **hours: Any) -> Attempt:
    """An attempt whose times are told in hours."""
    outcome = hours.pop("outcome", None)
    times = {key: T0 + at * HOUR for key, at in {"ordered_at": 1, **hours}.items()}
    return Attempt(number=number, token="t", outcome=outcome, **times)


def record(*attempts: Attempt, **changes: Any) -> JobRecord:
    return JobRecord(spec=job("a"), attempts=attempts, **changes)


BEGAN = attempt(began_at=2)
FAILED = attempt(began_at=2, ended_at=3, outcome=Outcome.FAILED)
ENDED = attempt(began_at=2, ended_at=4, outcome=Outcome.COMPLETED)
DONE = record(ENDED, state=JobState.COMPLETED)
SECOND = attempt(2, ordered_at=5, began_at=6)
SOON = attempt(2, ordered_at=2.2, began_at=2.2, ended_at=2.3, outcome=Outcome.COMPLETED)
EARLY = replace(FAILED, ended_at=T0 + 2.1 * HOUR)
PRESENT = "│" + " " * 23


RUNS = record(BEGAN, state=JobState.RUNNING)
ASIDE = record(state=JobState.SKIPPED, since=T0 + 2 * HOUR)
AGAIN = record(FAILED, SECOND, state=JobState.RUNNING)
BOTH = record(EARLY, SOON, state=JobState.COMPLETED)


@pytest.mark.parametrize(
    ("one", "window", "strip"),
    [
        (DONE, DAY, "··░░████✓" + " " * 15 + PRESENT),
        (DONE, Window(T0 + 40 * HOUR, HOUR, 20), " " * 20),
        (DONE, Window(T0 + 2.5 * HOUR, HOUR, 20), "█" * 20),
        (RUNS, DAY, "··░░" + "█" * 21 + " " * 23),
        (ASIDE, DAY, "····–" + " " * 19 + PRESENT),
        (record(state=JobState.WAITING), DAY, "·" * 25 + " " * 23),
        (AGAIN, DAY, "··░░▒▒✗╌╌╌░░" + "█" * 13 + " " * 23),
        (BOTH, DAY, "··░░✗" + " " * 19 + PRESENT),
    ],
)
def test_a_strip_tells_what_a_job_did(
    one: JobRecord, window: Window, strip: str
) -> None:
    cells = timeline.build_job_strip(one, T0, NOON, window)
    assert plain(join_cells(cells)) == strip


def test_segments_join_and_a_stage_is_as_high_as_many_ran() -> None:
    told = week(31, note_seconds=4 * HOUR, slots=4)
    state = fold(SessionState(plans={SHA: told.plan}), told.records)
    for one in state.jobs.values():
        found = list(timeline.list_segments(one, state.started_at, state.t))
        assert found[0].begin == state.started_at
        assert all(before.end == after.begin for before, after in pairwise(found))
    half = told.records[: len(told.records) // 2]
    state = fold(SessionState(plans={SHA: told.plan}), half)
    jobs = tuple(state.jobs[name] for name in state.order)
    session = build_session(replace(campaign(31), jobs=jobs))
    window = build_window(state.started_at, state.t, 60)
    cells = build_stage_strip(session.jobs, state.started_at, state.t, window)
    assert {cell.text for cell in cells} & set("▁▂▃▄▅▆▇█")
    for end, mark in ((JobState.FAILED, True), (JobState.RETRYING, False)):
        failed = replace(SESSION.jobs[0], record=record(FAILED, state=end))
        cells = build_stage_strip([failed], T0, NOON, DAY)
        assert [at for at, cell in enumerate(cells) if cell.text == "✗"] == [6] * mark


@pytest.mark.parametrize("cells", [20, 60, 90, 170])
@pytest.mark.parametrize("seconds", [10, 60, 3600, 86_400, 7 * 86_400, 300 * 86_400])
def test_ticks_are_round_and_have_room(cells: int, seconds: float) -> None:
    window = Window(T0, seconds, cells)
    places = [window.find_cell(t) for t in list_ticks(window)]
    assert all(after - before >= 8 for before, after in pairwise(places))
    upper, lower = render_axis(window, T0 + seconds / 2, [], 10)
    assert width(upper) <= cells + 10
    assert width(lower) == cells + 10
    assert "▾" in plain(lower)
    whole = build_window(T0, T0 + seconds, cells)
    assert T0 + seconds < whole.end <= T0 + 2 * max(seconds, LEAST_SECONDS)
    gap = (T0 + seconds / 4, T0 + seconds / 2)
    assert plain(render_axis(window, T0, [gap], 0)[1]).count("░") >= cells // 4
