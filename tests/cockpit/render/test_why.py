"""Pane 3 answers "why?" with facts, what is lost, and the next step; what GPUs do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.cockpit.render import why as why_text
from autoexp_tui.cockpit.render.why import WhyText, explain_job
from autoexp_tui.cockpit.spans import width
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.session import JobView, Look, build_session
from autoexp_tui.conditions.kinds import JobStateIs
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.snapshot import GpuLoad, GpuView, Live
from autoexp_tui.model.states import Cause, JobState, Result, why
from autoexp_tui.text.spelling import clock_time
from tests.cockpit.views import (
    SESSION,
    WORDS,
    changed,
    failed_by,
    looking,
    status,
    text,
)
from tests.support.campaigns import HOUR, T0, campaign, plan_of, planned
from tests.support.scripted_handle import HOSTILE

MEMORY = failed_by(Cause.OUT_OF_MEMORY)


def read(told: WhyText) -> str:
    return text(*told.lines, told.next)


def explain(look: Look | JobView, live: Live | None = None, **changes: Any) -> str:
    """Why of a job that is changed in its session."""
    job = looking(look)[0] if isinstance(look, Look) else look
    job, session = changed(job, live, **changes)
    return read(explain_job(job, session, WORDS))


def test_hostile_text_is_harmless_and_no_line_wider_than_the_pane() -> None:
    session = build_session(campaign(31, names=HOSTILE))
    words = PlanWords(session.snapshot.plan)
    for job in session.jobs:
        told = explain_job(job, session, words)
        assert not {"\x1b", "\x9b", "\u202e"} & set(read(told))
        for cells in (40, 80, 120):
            assert all(width(line) <= cells for line in told.wrap(cells))


def test_a_failure_says_what_is_lost_who_failed_alike_and_why_it_ran_again() -> None:
    (attempt,) = MEMORY[0].record.attempts
    found = explain(MEMORY[0])
    assert "3 others failed alike, all bsz=1024." in found
    assert "checkpoint at step 30000; lost: 1200 steps" in found
    assert "1 can never start" in found
    again = why("retry", reason="crashed", attempt=2)
    second = replace(attempt, number=2, ordered_why=again)
    told = explain(MEMORY[0], attempts=(attempt, second))
    assert "ordered runs again as attempt 2: crashed" in " ".join(told.split())


ASKED = looking(Look.ASKS)[0].record.ask
assert ASKED is not None
RAN = looking(Look.RUNNING)[0].record.attempts[-1]
GPUS_REST = GpuView((GpuLoad(0.0, 40_000.0, 81_920.0, 310.2),), SESSION.now, 840.0)
REST = "Its GPUs have done nothing for 14 min"
DONE = {
    "attempts": (),
    "done": DoneWork(job="x", session="k7f2", mark="k", fingerprint="f", at=1.0),
    "why": why("done_before", session="k7f2", at=1.0),
}
STOPPED = {
    "state": JobState.CANCELLED,
    "cause": Cause.CANCEL_CONDITION,
    "why": why("file_there", path="/x/stop", size=0),
}
PLACED = {"attempts": (replace(RAN, node="n7", partition="gpu"),)}
BESIDE = {"spec": replace(looking(Look.RUNNING)[0].record.spec, place="beside")}
ASKED_LATE = {"ask": replace(ASKED, asked_at=T0 - 60), "since": T0 - 5 * HOUR}
RESTING = {"live": Live(gpu=GPUS_REST)}
WAIVED = status(Result.FAIL, waived="checked by hand")


@pytest.mark.parametrize(
    ("look", "changes", "words"),
    [
        (Look.FAILED, {}, "R resubmit"),
        (Look.RUNNING, {}, "2.6 steps a second|ends ~|K kill"),
        (Look.STALLED, {}, "no step for 52 min"),
        (Look.WAITING, {}, "iter_48000/done.txt|newest is iter_7200, 40 s ago"),
        (Look.DOOMED, {}, "X skip or waive"),
        (Look.ASKS, {}, "Asks: Publish the comparison of all|A read and answer"),
        (Look.WAITING, STOPPED, "cancel condition: /x/stop is there"),
        (Look.DONE, DONE, "done already in session k7f2|resubmit"),
        (Look.DOOMED, {"start": (WAIVED,)}, "waived: checked by hand"),
        (Look.RUNNING, PLACED, "(node n7; partition gpu)|on n7 in gpu"),
        (Look.ASKS, ASKED_LATE, f"asks {clock_time(T0 - 60, T0)}: "),
        (Look.RUNNING, RESTING, REST),
        (Look.RUNNING, BESIDE, "on the engine's host, beside"),
    ],
)
def test_each_look_has_its_facts_and_the_key_of_the_next_step(
    look: Look, changes: dict[str, Any], words: str
) -> None:
    told = explain(look, **changes)
    assert all(one in told for one in words.split("|"))


ABOUT = Problem(message="has 9500 jobs", where="sweep", job="a")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "Nothing is running. This plan has 10 jobs in 4 stages. S starts it"),
        ({}, "come back so"),
        ({"ui": {"first_run": "It trains."}}, "is running. It trains. S starts it"),
        ({"warnings": (ABOUT,)}, "! a sweep: has 9500 jobs"),
    ],
)
def test_what_is_read_before_anything_runs(changes: dict[str, Any], words: str) -> None:
    base = planned(10)
    session = build_session(replace(base, plan=replace(plan_of(base), **changes)))
    assert words in read(why_text.explain_plan(session, "come back so"))


def test_what_ends_a_job_is_not_told_as_a_wait() -> None:
    job, other = looking(Look.RUNNING)[0], SESSION.jobs[0].name
    ends = (JobStateIs(jobs=(other,), state="FAILED"),)
    reason = status(Result.FAIL, why("upstream", job=other, state="COMPLETED"))
    spec = replace(job.record.spec, cancel_conditions=ends)
    told = explain(job, spec=spec, cancel=(reason,))
    assert "ends it when: stable FAILED  can no longer happen" in told
    assert "can never start:" not in told


@pytest.mark.parametrize("changes", [{"seen_at": 0.0}, {"idle_seconds": 300.0}])
def test_gpus_at_rest_are_told_of_after_ten_minutes_by_a_fresh_sample(
    changes: dict[str, Any],
) -> None:
    seen = replace(GPUS_REST, **changes)
    assert "done nothing" not in explain(Look.RUNNING, Live(gpu=seen))
