"""What needs a person, by cause."""

from __future__ import annotations

from dataclasses import replace

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
from tests.support.scripted_handle import HOSTILE, with_warnings

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


def test_jobs_that_failed_alike_are_one_cause() -> None:
    memory = [group for group in GROUPS if group.title == "out of memory"]
    assert [group.size for group in memory] == [4]


def test_what_a_cause_s_jobs_share_is_named() -> None:
    memory = next(group for group in GROUPS if group.title == "out of memory")
    assert memory.common == "bsz=1024"


def test_a_node_that_is_to_blame_is_named() -> None:
    node = next(group for group in GROUPS if group.title == "node failure")
    assert node.common == "nid002117"


def test_failures_come_before_questions() -> None:
    found = [group.look for group in GROUPS]
    assert found.index(Look.FAILED) < found.index(Look.ASKS)


def test_error_lines_that_differ_in_numbers_are_one_cause() -> None:
    jobs = [job for job in SESSION.jobs if job.record.cause is Cause.EXIT_CODE]
    keys = set()
    for number in (3, 7):
        attempt = replace(jobs[0].record.attempts[0], evidence=f"rank {number} died")
        record = replace(jobs[0].record, attempts=(attempt,))
        keys.add(build_cause_key(replace(jobs[0], record=record)))
    assert len(keys) == 1


def test_a_warning_of_a_job_that_looks_well_needs_a_person() -> None:
    well = next(job for job in SESSION.jobs if job.look is Look.DONE)
    session = build_session(with_warnings(SESSION.snapshot, warned(well.name)))
    assert count_needs(groups_of(session)) == count_needs(GROUPS) + 1


def test_a_warning_of_a_failed_job_is_not_counted_twice() -> None:
    failed = next(job for job in SESSION.jobs if job.look is Look.FAILED)
    session = build_session(with_warnings(SESSION.snapshot, warned(failed.name)))
    assert count_needs(groups_of(session)) == count_needs(GROUPS)


def test_a_warning_of_no_job_needs_a_person() -> None:
    session = build_session(with_warnings(SESSION.snapshot, warned(code="storm")))
    assert groups_of(session)[-1].look is None


def test_mere_information_needs_nobody() -> None:
    session = build_session(with_warnings(SESSION.snapshot, warned(severity="info")))
    assert count_needs(groups_of(session)) == count_needs(GROUPS)


def test_the_headline_counts_things_and_causes() -> None:
    assert describe_needs(GROUPS) == "14 need you, 7 causes"


def test_nobody_needed_is_no_headline() -> None:
    assert describe_needs(()) == ""


def test_a_cause_s_line_takes_its_cells() -> None:
    assert all(width(render_cause(group, 33)) == 33 for group in GROUPS)


def test_a_hostile_cause_is_one_clean_line() -> None:
    session = build_session(campaign(31, names=HOSTILE))
    for group in groups_of(session):
        text = plain(render_cause(group, 60))
        assert "\x1b" not in text
        assert "\n" not in text


def test_equal_evidence_is_shown_once_with_its_number() -> None:
    memory = next(group for group in GROUPS if group.title == "out of memory")
    lines = [plain(one) for one in render_evidence(memory)]
    assert len(lines) == 1
    assert "oom_kill" in lines[0]
    assert "4 of them" in lines[0]


def test_the_evidence_of_one_job_names_it() -> None:
    error = next(group for group in GROUPS if "KeyError" in group.title)
    assert error.jobs[0].name in plain(next(render_evidence(error)))


def test_a_warning_without_a_job_shows_its_evidence() -> None:
    session = build_session(with_warnings(SESSION.snapshot, warned(code="storm")))
    assert "loss 2.6" in plain(next(render_evidence(groups_of(session)[-1])))
