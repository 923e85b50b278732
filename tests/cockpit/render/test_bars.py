"""The header: age, who is needed; nothing that moves while nothing happens."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from autoexp_tui.cockpit.keymap import Keymap, Pane
from autoexp_tui.cockpit.render.bars import (
    HeaderFacts,
    format_speed,
    format_title,
    list_midnights,
    render_counts,
    render_footer,
    render_header,
    render_time_bar,
)
from autoexp_tui.cockpit.spans import plain, width
from autoexp_tui.cockpit.state.causes import group_causes
from autoexp_tui.cockpit.state.forecast import estimate_ends
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.session import build_session
from autoexp_tui.cockpit.widgets.pane import to_ascii
from autoexp_tui.model.snapshot import EngineView, Landmark, Playback, Snapshot
from autoexp_tui.model.states import why
from tests.support.campaigns import HOUR, T0, all_done, campaign, planned


def header(snapshot: Snapshot, cells: int = 120, now: float = T0 + 2) -> str:
    session = build_session(snapshot)
    groups = group_causes(session, PlanWords(snapshot.plan))
    return plain(
        render_header(
            session,
            HeaderFacts(now=now, groups=groups, ends=estimate_ends(session)),
            cells,
        )
    )


def engine(snapshot: Snapshot, **changes: object) -> Snapshot:
    view: EngineView = replace(snapshot.engine, **changes)  # type: ignore[arg-type]
    return replace(snapshot, engine=view)


@pytest.mark.parametrize("cells", range(60, 210, 9))
def test_the_header_takes_exactly_its_cells(cells: int) -> None:
    session = build_session(campaign(125))
    groups = group_causes(session, PlanWords(session.snapshot.plan))
    facts = HeaderFacts(
        now=T0, groups=groups, ends=estimate_ends(session), gpu_hours=812
    )
    told = render_header(session, facts, cells)
    assert width(told) == cells
    assert "14 need you" in plain(told)
    assert width(render_counts(session, cells)) <= cells


def test_the_age_of_the_data_is_said_and_estimates_say_as_of_when() -> None:
    assert all(said in header(campaign(125)) for said in ("engine ok", "slurm 15 s"))
    assert "engine 5 s" in header(campaign(125), now=T0 + 9)
    text = header(campaign(125), 160, now=T0 + 300)
    assert "engine silent 5 min" in text
    assert "as of 08:41" in text


IDLE = replace(engine(all_done(10), committed_at=T0), open=True)


@pytest.mark.parametrize(
    ("snapshot", "first", "then"), [(campaign(125), 31, 34), (IDLE, 5, 50)]
)
def test_ages_do_not_change_every_second(
    snapshot: Snapshot, first: int, then: int
) -> None:
    assert header(snapshot, now=T0 + first) == header(snapshot, now=T0 + then)


def test_all_has_ended_only_when_nothing_is_left_to_do() -> None:
    over = all_done(10)
    assert "all ended" in header(over)
    assert "all ended" not in header(replace(over, open=True))


def test_a_plan_being_made_is_named_once() -> None:
    snapshot = replace(planned(10), name="exp")
    assert header(engine(snapshot, doing="planning exp")).count("exp") == 1


WATCHER = campaign(31, role="viewer")


@pytest.mark.parametrize(
    ("snapshot", "words"),
    [
        (planned(10), "not submitted"),
        (engine(planned(10), doing="planning exp"), "planning exp"),
        (engine(campaign(31), holding="disk is full"), "HOLDING: disk is full"),
        (replace(campaign(31), paused=why("paused")), "submission paused, P resumes"),
        (
            replace(campaign(31), paused=why("storm", count=5)),
            "STORM, paused: 5 quick failures, P resumes",
        ),
        (WATCHER, "watching"),
        (engine(WATCHER, owner_alive=False), "its engine is gone"),
        (
            engine(WATCHER, user="user 61001", owner_alive=False),
            "session of user 61001, read only   no engine ",
        ),
        (engine(campaign(31), executor_error="sinfo: late"), "slurm: sinfo: late"),
    ],
)
def test_what_is_not_as_usual_is_said(snapshot: Snapshot, words: str) -> None:
    assert words in header(snapshot, 160)


@pytest.mark.parametrize("cells", [80, 120])
def test_a_watcher_learns_at_once_how_a_stopped_engine_goes_on(cells: int) -> None:
    stopped = engine(campaign(31, role="viewer"), halted_pid=4711)
    told = header(stopped, cells)
    assert "engine stopped: fg, or kill -CONT 4711" in told


def test_the_title_has_done_total_and_needs() -> None:
    session = build_session(campaign(125))
    groups = group_causes(session, PlanWords(session.snapshot.plan))
    assert format_title(session, groups) == "61/124 !14 dense300m"


def test_late_answers_of_the_executor_are_told_before_ages() -> None:
    silent = engine(campaign(31), executor_answered_at=T0 - 300)
    assert "slurm silent 5 min" in header(silent, 100)
    failing = engine(
        campaign(31), executor_answered_at=T0 - 60, executor_error="squeue: no answer"
    )
    assert "slurm silent 1 min: squeue: no answer" in header(failing, 120)


ALL = {"run.kill", "run.resubmit", "run.submit", "run.skip", "run.answer"}


def footer(pane: Pane = "jobs", cells: int = 120, useful: set[str] = ALL) -> str:
    return plain(render_footer(Keymap(), pane, useful, cells))


@pytest.mark.parametrize("cells", range(60, 200, 11))
@pytest.mark.parametrize("pane", ["jobs", "log", "metrics", "events"])
def test_the_footer_fits(pane: Pane, cells: int) -> None:
    assert width(render_footer(Keymap(), pane, ALL, cells)) <= cells


def test_the_footer_tells_what_can_be_done_here_looks_before_acts() -> None:
    assert all(word in footer(cells=60) for word in ("q leave", "? keys"))
    assert "K kill" not in footer(useful=set())
    assert all(word in footer("log") for word in ("f follow", "/ search"))
    assert "/ filter" not in footer("log")
    looks, acts = footer().split("│")
    assert "/ filter" in looks
    assert "K kill" in acts


def test_a_command_that_does_something_else_now_says_what() -> None:
    labels = {"run.pause": "resume"}
    told = plain(render_footer(Keymap(), "jobs", {"run.pause"}, 120, labels=labels))
    assert "P resume" in told
    assert "P pause" not in told


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


def test_what_was_played_and_landmarks_stand_where_they_happened() -> None:
    inner = bar().split("├")[1].split("┤")[0]
    here = inner.index("●")
    assert abs(here - len(inner) / 2) <= 1
    assert "─" not in inner[:here]
    assert "━" not in inner[here:]
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
    told = [format_speed(one) for one in (1.0, 1.875, 60.0, 2.0**20, inf)]
    assert told == ["1x", "1.9x", "60x", "1048576x", "max"]
    assert "▸ 60x" in bar()


def test_a_journal_of_one_moment_has_a_bar_too() -> None:
    single = replace(SHOWN, begin=T0, end=T0, at=T0, landmarks=(), playing=False)
    assert "●" in bar(single)
    assert "‖" in bar(single)


def test_every_glyph_has_a_twin() -> None:
    assert "?" not in to_ascii(bar(replace(SHOWN, landmarks=())))


def test_days_lie_between_beginning_and_end_and_are_bounded() -> None:
    days = list_midnights(T0, T0 + WEEK)
    assert len(days) == 7
    assert all(T0 < day < T0 + WEEK for day in days)
    assert len(list_midnights(T0, T0 + 10_000 * 24 * HOUR)) == 400
