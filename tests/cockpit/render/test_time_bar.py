"""The bar of a replay: the moment, how far, and what happened where."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from autoexp_tui.cockpit.render.bars import (
    format_speed,
    list_midnights,
    render_time_bar,
)
from autoexp_tui.cockpit.spans import plain, width
from autoexp_tui.cockpit.widgets.pane import to_ascii
from autoexp_tui.model.snapshot import Landmark, Playback
from tests.support.campaigns import HOUR, T0

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


def bar(shown: Playback = SHOWN, cells: int = 120, rows: int = 1) -> str:
    return plain(render_time_bar(shown, cells, rows)[0])


@pytest.mark.parametrize("cells", [60, 80, 120, 200])
@pytest.mark.parametrize("rows", [1, 2])
def test_it_fits(cells: int, rows: int) -> None:
    lines = render_time_bar(SHOWN, cells, rows)
    assert len(lines) == rows
    assert all(width(one) <= cells for one in lines)


def test_what_was_played_is_told_from_what_is_to_come() -> None:
    inner = bar().split("├")[1].split("┤")[0]
    here = inner.index("●")
    assert abs(here - len(inner) / 2) <= 1
    assert "─" not in inner[:here]
    assert "━" not in inner[here:]


def test_landmarks_stand_where_they_happened() -> None:
    inner = bar().split("├")[1].split("┤")[0]
    assert abs(inner.index("?") - 0.1 * len(inner)) <= 1
    assert abs(inner.index("✗") - 0.8 * len(inner)) <= 1
    assert inner.count("░") >= 0.1 * len(inner) - 1


def test_a_failure_is_not_hidden_by_the_time_without_an_engine() -> None:
    amid = replace(
        SHOWN,
        landmarks=(
            Landmark(T0 + 0.9 * WEEK, "failed", T0 + 0.9 * WEEK),
            Landmark(T0 + 0.8 * WEEK, "gone", T0 + WEEK),
        ),
    )
    assert "✗" in bar(amid)


def test_days_are_ticks_and_have_names() -> None:
    assert bar(replace(SHOWN, at=T0, landmarks=())).count("┼") == 7
    names = plain(render_time_bar(SHOWN, 120, 2)[1])
    assert "Mon 16" in names


def test_the_speed_is_spelled() -> None:
    assert [format_speed(one) for one in (1.0, 1.875, 60.0, 2.0**20, inf)] == [
        "1x",
        "1.9x",
        "60x",
        "1048576x",
        "max",
    ]
    assert "60x" in bar()


def test_whether_it_plays_is_a_glyph() -> None:
    assert "▸" in bar()
    assert "‖" in bar(replace(SHOWN, playing=False))


def test_a_journal_of_one_moment_has_a_bar_too() -> None:
    single = replace(SHOWN, begin=T0, end=T0, at=T0, landmarks=())
    assert "●" in bar(single)


def test_every_glyph_has_a_twin() -> None:
    assert "?" not in to_ascii(bar(replace(SHOWN, landmarks=())))


def test_days_lie_between_beginning_and_end_and_are_bounded() -> None:
    days = list_midnights(T0, T0 + WEEK)
    assert len(days) == 7
    assert all(T0 < day < T0 + WEEK for day in days)
    assert len(list_midnights(T0, T0 + 10_000 * 24 * HOUR)) == 400
