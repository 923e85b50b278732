"""Pane 3 answers "why?" with facts, what is lost, and the next step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.cockpit.render.why import (
    WhyText,
    explain_job,
    explain_jobs,
    explain_plan,
    format_gpus,
    format_idle,
)
from autoexp_tui.cockpit.spans import Span, plain, width
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.session import JobView, SessionView, build_session
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.conditions.kinds import JobStateIs
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.snapshot import GpuLoad, GpuView
from autoexp_tui.model.specs import PlanFinding
from autoexp_tui.model.state import ConditionStatus
from autoexp_tui.model.states import Cause, JobState, Result, why
from autoexp_tui.text.spelling import clock_time
from tests.support.campaigns import HOUR, T0, campaign, plan_of, planned
from tests.support.scripted_handle import HOSTILE, with_job, with_live

SESSION = build_session(campaign(125))
WORDS = PlanWords(SESSION.snapshot.plan)


def first(look: Look, session: SessionView = SESSION) -> JobView:
    return next(job for job in session.jobs if job.look is look)


def text(told: WhyText) -> str:
    return "\n".join(plain(line) for line in (*told.lines, told.next))


def told_of(job: JobView, **changes: Any) -> str:
    """Of a job that is changed in its session."""
    session = build_session(with_job(SESSION.snapshot, job.name, **changes))
    return text(explain_job(session.jobs[job.index], session, WORDS))


def memory() -> JobView:
    return next(job for job in SESSION.jobs if job.record.cause is Cause.OUT_OF_MEMORY)


def test_values_begin_with_those_that_tell_jobs_apart() -> None:
    waits = first(Look.WAITING)
    spec = waits.record.spec
    values = {"aux": {"start": 8}, **spec.parameters}
    told = told_of(waits, spec=replace(spec, parameters=values))
    assert told.index("optim.lr=") < told.index("aux=")


def test_texts_of_facts_stand_in_one_column_however_long_their_names() -> None:
    metadata = {"checkpoint_iteration": "8000"}
    told = told_of(first(Look.DONE), metadata=metadata).splitlines()
    facts = [row for row in told if row.startswith(("   stage ", "   checkpoint_it"))]
    assert len({row.index(word) for row in facts for word in ("stable", "8000")
                if word in row}) == 1  # fmt: skip


def test_a_sentence_goes_on_at_the_edge_and_a_fact_further_in() -> None:
    told = WhyText("", ((Span(" Nothing runs here."),), (Span("   output   a b c d"),)))
    assert [plain(line) for line in told.wrap(14)] == [
        " Nothing runs", " here.", "   output   a", "     b c d"
    ]  # fmt: skip


def test_a_failure_says_how_and_where_what_is_lost_and_who_failed_alike() -> None:
    job = memory()
    found = explain_job(job, SESSION, WORDS)
    number = job.record.attempts[0].executor_id
    assert found.title == f"{job.name}   {number}   attempt 1"
    told = text(found)
    for words in (
        "out of memory",
        "exit 137",
        job.record.attempts[0].node,
        "oom_kill event",
        "3 others failed alike, all bsz=1024.",
        "checkpoint at step 30000; lost: 1200 steps",
        "1 can never start",
    ):
        assert words in told


@pytest.mark.parametrize(
    ("look", "words"),
    [
        (Look.FAILED, ["R resubmit"]),
        (Look.RUNNING, ["2.6 steps a second", "ends ~", "K kill"]),
        (Look.STALLED, ["no step for 52 min"]),
        (Look.WAITING, ["iter_48000/done.txt", "newest is iter_7200, 40 s ago"]),
        (Look.DOOMED, ["X skip or waive"]),
        (Look.ASKS, ["Asks: Publish the comparison of all runs?", "A read and answer"]),
    ],
)
def test_each_look_has_its_facts_and_the_key_of_the_next_step(
    look: Look, words: list[str]
) -> None:
    told = told_of(first(look))
    assert all(one in told for one in words)


ABOUT = PlanFinding(message="has 9500 jobs", where="sweep", job="a")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "Nothing is running. This plan has 10 jobs in 4 stages. S starts it"),
        ({}, "come back so"),
        ({"ui": {"first_run": ""}}, "This plan has 10 jobs in 4 stages."),
        ({"ui": {"first_run": "It trains."}}, "is running. It trains. S starts it"),
        ({"warnings": (PlanFinding(message="no time limit"),)}, "! no time limit"),
        ({"warnings": (ABOUT,)}, "! a sweep: has 9500 jobs"),
    ],
)
def test_what_is_read_before_anything_runs(changes: dict[str, Any], words: str) -> None:
    base = planned(10)
    session = build_session(replace(base, plan=replace(plan_of(base), **changes)))
    assert words in text(explain_plan(session, "come back so"))


def test_an_attempt_that_a_rule_ordered_says_why() -> None:
    job = memory()
    again = why("retry", reason="crashed", attempt=2)
    attempt = replace(job.record.attempts[-1], number=2, ordered_why=again)
    told = told_of(job, attempts=(*job.record.attempts, attempt))
    assert "ordered runs again as attempt 2: crashed" in " ".join(told.split())


ASKED = first(Look.ASKS).record.ask
assert ASKED is not None
RAN = first(Look.RUNNING).record.attempts[-1]
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
WAIVED = ConditionStatus(
    result=Result.FAIL, why=why("ok"), since=0, waived="checked by hand"
)


@pytest.mark.parametrize(
    ("look", "changes", "words"),
    [
        (Look.WAITING, STOPPED, ["cancel condition: /x/stop is there"]),
        (Look.DONE, DONE, ["done already in session k7f2", "resubmit"]),
        (Look.DOOMED, {"start": (WAIVED,)}, ["waived: checked by hand"]),
        (
            Look.RUNNING,
            {"attempts": (replace(RAN, node="n7", partition="gpu"),)},
            ["(node n7; partition gpu)", "on n7 in gpu"],
        ),
        (
            Look.ASKS,
            {"ask": replace(ASKED, asked_at=T0 - 60), "since": T0 - 5 * HOUR},
            [f"asks {clock_time(T0 - 60, T0)}: "],
        ),
    ],
    ids=["cancel condition", "done before", "waived", "node", "since it was asked"],
)
def test_what_is_recorded_of_a_job_is_told(
    look: Look, changes: dict[str, Any], words: list[str]
) -> None:
    told = told_of(first(look), **changes)
    assert all(one in told for one in words)


def test_several_alike_are_told_once() -> None:
    jobs = [job for job in SESSION.jobs if job.record.cause is Cause.OUT_OF_MEMORY]
    told = explain_jobs("stable failed", jobs, SESSION, WORDS)
    assert told.title == "stable failed   4 jobs, all bsz=1024"
    assert all(job.name in text(told) for job in jobs)
    unlike = explain_jobs("stage stable", SESSION.jobs[:9], SESSION, WORDS)
    assert {"✓", "▸"} <= set(plain(unlike.lines[0]))


def test_hostile_text_is_harmless_and_no_line_wider_than_the_pane() -> None:
    session = build_session(campaign(31, names=HOSTILE))
    words = PlanWords(session.snapshot.plan)
    for job in session.jobs:
        told = explain_job(job, session, words)
        assert not {"\x1b", "\x9b", "\u202e"} & set(text(told))
        for cells in (40, 80, 120):
            assert all(width(line) <= cells for line in told.wrap(cells))


@pytest.mark.parametrize(
    ("result", "words"),
    [(Result.FAIL, "FAILED  can no longer happen"), (Result.WAIT, "FAILED  no")],
)
def test_what_ends_a_job_is_not_told_as_a_wait(result: Result, words: str) -> None:
    job, other = first(Look.RUNNING), SESSION.jobs[0].name
    spec = replace(
        job.record.spec, cancel_conditions=(JobStateIs(jobs=(other,), state="FAILED"),)
    )
    reason = why("upstream", job=other, state="COMPLETED")
    status = ConditionStatus(result=result, why=reason, since=0.0)
    told = told_of(job, spec=spec, cancel=(status,))
    assert f"ends it when: stable {words}" in told
    assert "can never start:" not in told


@pytest.mark.parametrize("look", [Look.RUNNING, Look.FAILED, Look.WAITING])
def test_who_may_not_command_is_offered_no_command(look: Look) -> None:
    told = explain_job(first(look), SESSION, WORDS, acts=False)
    assert not {"K", "R", "X"} & {span.text for span in told.next}
    assert {"K", "R", "X"} & {
        span.text for span in explain_job(first(look), SESSION, WORDS).next
    }


NOW = 10_000.0


def load(busy: float | None = 87.4, used: float | None = 40_000.0) -> GpuLoad:
    return GpuLoad(busy, used, 81_920.0, 310.2)


@pytest.mark.parametrize(
    ("view", "text"),
    [
        (GpuView((load(),), NOW), "1 GPU: 87 % busy, 41.9 GB of 85.9 GB, 310 W"),
        (
            GpuView((load(90.0), load(80.0, 50_000.0)), NOW),
            "2 GPUs: 80 to 90 % busy, 52.4 GB of 85.9 GB, 620 W",
        ),
        (GpuView((GpuLoad(busy_percent=5.0),), NOW), "1 GPU: 5 % busy"),
        (GpuView((GpuLoad(),), NOW), "1 GPU: they do not tell"),
        (GpuView((GpuLoad(5.0),), NOW - 720), "1 GPU: 5 % busy, 12 min ago"),
    ],
)
def test_what_they_do_and_how_old_that_is(view: GpuView, text: str) -> None:
    assert format_gpus(view, NOW) == text


@pytest.mark.parametrize(
    ("age", "idle", "text"),
    [
        (0.0, 840.0, "its GPU has done nothing for 14 min"),
        (0.0, 300.0, ""),
        (900.0, 840.0, ""),
    ],
    ids=["long", "not for long", "an old sample"],
)
def test_gpus_that_do_nothing_for_long_are_told_of(
    age: float, idle: float, text: str
) -> None:
    assert format_idle(GpuView((load(0.0),), NOW - age, idle), NOW) == text


def test_why_says_what_the_gpus_of_a_run_do() -> None:
    job = first(Look.RUNNING)
    gpu = GpuView((load(0.0),), SESSION.now, 840.0)
    session = build_session(with_live(SESSION.snapshot, job.name, gpu=gpu))
    told = text(explain_job(session.jobs[job.index], session, WORDS))
    assert "Its GPU has done nothing for 14 min" in told
    assert "1 GPU: 0 % busy" in told
