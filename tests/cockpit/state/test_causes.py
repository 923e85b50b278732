"""What needs a person, by cause."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoexp_tui.cockpit.render.lists import render_cause, render_evidence
from autoexp_tui.cockpit.spans import plain, width
from autoexp_tui.cockpit.state.causes import (
    CauseGroup,
    build_cause_key,
    count_needs,
    describe_needs,
    group_causes,
)
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.session import SessionView, build_session
from autoexp_tui.cockpit.state.status import NEEDS, Look
from autoexp_tui.model.state import Warned
from autoexp_tui.model.states import Cause, why
from tests.support.campaigns import T0, campaign
from tests.support.scripted_handle import with_warnings

SESSION = build_session(campaign(125))


def groups_of(session: SessionView) -> tuple[CauseGroup, ...]:
    return group_causes(session, PlanWords(session.snapshot.plan))


GROUPS = groups_of(SESSION)


def warned(job: str = "", code: str = "plateau", severity: str = "warning") -> Warned:
    return Warned(
        warning_id=f"{job}{code}",
        why=why(code, metric="loss"),
        job=job,
        severity=severity,
        evidence="iteration 900 loss 2.6",
        raised_at=T0,
    )


def test_everybody_who_needs_a_person_is_in_a_cause() -> None:
    wanted = {job.name for job in SESSION.jobs if job.look in NEEDS}
    assert {job.name for group in GROUPS for job in group.jobs} == wanted


def titled(title: str) -> CauseGroup:
    return next(group for group in GROUPS if title in group.title)


@pytest.mark.parametrize(
    ("title", "number", "common"),
    [("out of memory", 4, "bsz=1024"), ("node failure", 2, "nid002117")],
)
def test_jobs_that_failed_alike_are_one_cause_named_by_what_they_share(
    title: str, number: int, common: str
) -> None:
    assert (titled(title).size, titled(title).common) == (number, common)


def test_equal_evidence_is_shown_once_with_its_number() -> None:
    (only,) = render_evidence(titled("out of memory"))
    assert "oom_kill" in plain(only)
    assert "4 of them" in plain(only)
    error = titled("KeyError")
    assert error.jobs[0].name in plain(next(render_evidence(error)))


def named(look: Look) -> str:
    return next(job.name for job in SESSION.jobs if job.look is look)


@pytest.mark.parametrize(
    ("entry", "more"),
    [
        (warned(named(Look.DONE)), 1),
        (warned(named(Look.FAILED)), 0),
        (warned(severity="info"), 0),
    ],
    ids=["of what looks well", "of what failed", "mere information"],
)
def test_warnings_of_what_looks_well_need_a_person(entry: Warned, more: int) -> None:
    session = build_session(with_warnings(SESSION.snapshot, entry))
    assert count_needs(groups_of(session)) == count_needs(GROUPS) + more


def test_a_warning_of_no_job_needs_a_person_and_shows_its_evidence() -> None:
    session = build_session(with_warnings(SESSION.snapshot, warned(code="storm")))
    group = groups_of(session)[-1]
    assert group.look is None
    assert "loss 2.6" in plain(next(render_evidence(group)))


def test_error_lines_that_differ_in_numbers_are_one_cause() -> None:
    jobs = [job for job in SESSION.jobs if job.record.cause is Cause.EXIT_CODE]
    keys = set()
    for number in (3, 7):
        attempt = replace(jobs[0].record.attempts[0], evidence=f"rank {number} died")
        record = replace(jobs[0].record, attempts=(attempt,))
        keys.add(build_cause_key(replace(jobs[0], record=record)))
    assert len(keys) == 1


def test_the_headline_counts_things_and_causes() -> None:
    found = [group.look for group in GROUPS]
    assert found.index(Look.FAILED) < found.index(Look.ASKS)
    assert all(width(render_cause(group, 33)) == 33 for group in GROUPS)
    assert describe_needs(GROUPS) == "14 need you, 7 causes"
    assert describe_needs(()) == ""
