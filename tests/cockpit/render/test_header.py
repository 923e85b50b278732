"""The header: age, who is needed; nothing that moves while nothing happens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoexp_tui.cockpit.render.bars import (
    HeaderFacts,
    format_title,
    render_counts,
    render_header,
)
from autoexp_tui.cockpit.spans import plain, width
from autoexp_tui.cockpit.state.causes import group_causes
from autoexp_tui.cockpit.state.forecast import estimate_ends
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.session import build_session
from autoexp_tui.model.snapshot import EngineView, Snapshot
from autoexp_tui.model.states import why
from tests.support.campaigns import T0, all_done, campaign, planned


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
    assert width(render_header(session, facts, cells)) == cells
    assert width(render_counts(session, cells)) <= cells


@pytest.mark.parametrize("cells", [60, 80, 120])
def test_who_is_needed_is_said_at_every_width(cells: int) -> None:
    assert "14 need you" in header(campaign(125), cells)


def test_the_age_of_the_data_is_said() -> None:
    text = header(campaign(125))
    assert "engine ok" in text
    assert "slurm 15 s" in text
    assert "engine 5 s" in header(campaign(125), now=T0 + 9)


def test_old_ages_do_not_change_every_second() -> None:
    assert header(campaign(125), now=T0 + 31) == header(campaign(125), now=T0 + 34)


def test_a_silent_engine_is_told_and_estimates_say_as_of_when() -> None:
    text = header(campaign(125), 160, now=T0 + 300)
    assert "engine silent 5 min" in text
    assert "as of 08:41" in text


def test_nothing_moves_while_nothing_runs() -> None:
    base = engine(all_done(10), committed_at=T0)
    idle = replace(base, open=True)
    assert header(idle, now=T0 + 5) == header(idle, now=T0 + 50)


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
        (
            engine(campaign(31), holding="the disk is full"),
            "HOLDING: the disk is full",
        ),
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
        (
            engine(campaign(31), executor_error="sinfo: timed out"),
            "slurm: sinfo: timed out",
        ),
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
