"""Jobs that could never start as their plan stands."""

from __future__ import annotations

import pytest

from autoexp_tui.conditions.kinds import (
    Composite,
    Condition,
    FileExists,
    JobStateIs,
    MetadataIs,
)
from autoexp_tui.model.rules import LogEvent, Monitoring
from autoexp_tui.model.specs import Plan
from autoexp_tui.planning.validate import validate_execution_plan
from tests.model.builders import job, plan

DAY = 86400.0


def state(name: str, wanted: str) -> JobStateIs:
    return JobStateIs(jobs=(name,), state=wanted, timeout_seconds=DAY)


def waiting(*conditions: Condition) -> Plan:
    return plan(
        job("a", stage="s"), job("b", 1, stage="t", start_conditions=conditions)
    )


def errors(the_plan: Plan) -> list[str]:
    return [str(error) for error in validate_execution_plan(the_plan).errors]


def warnings(the_plan: Plan) -> list[str]:
    return [str(warning) for warning in validate_execution_plan(the_plan).warnings]


@pytest.mark.parametrize("other", ["FAILED", "SKIPPED", "TIMEOUT"])
def test_two_ends_of_one_job_are_never_both(other: str) -> None:
    assert errors(waiting(state("a", "COMPLETED"), state("a", other))) == [
        f"b start_conditions: waits for a to be COMPLETED and {other}: it never is "
        "both\n    CompositeCondition with mode: any waits for either"
    ]


def test_an_end_excludes_any_other_that_is_waited_for_not_the_first_alone() -> None:
    states = [state("a", one) for one in ("RUNNING", "COMPLETED", "FAILED")]
    (told,) = errors(waiting(*states))
    assert "waits for a to be COMPLETED and FAILED" in told


@pytest.mark.parametrize(
    "conditions",
    [
        (state("a", "COMPLETED"), state("a", "COMPLETED")),
        (state("a", "RUNNING"), state("a", "COMPLETED")),
        (state("a", "FAILED"), state("a", "TIMEOUT")),
        (
            Composite(
                mode="any",
                conditions=(state("a", "COMPLETED"), state("a", "FAILED")),
                timeout_seconds=DAY,
            ),
        ),
    ],
)
def test_states_that_one_job_may_all_have_are_let_be(
    conditions: tuple[Condition, ...],
) -> None:
    assert errors(waiting(*conditions)) == []


def test_a_wait_for_what_cancels_the_job_is_an_error() -> None:
    there = FileExists(path="/x", timeout_seconds=DAY)
    fatal = FileExists(path="/x")
    one = plan(job("a", start_conditions=(there,), cancel_conditions=(fatal,)))
    assert errors(one) == [
        "a start_conditions.0: waits for the very thing that cancels it\n"
        "    take it out of start_conditions or of cancel_conditions"
    ]


EVENT = LogEvent(name="saved", pattern="x", extract_groups={"iteration": "1"})


def test_metadata_that_no_rule_extracts_is_warned_about() -> None:
    wait = MetadataIs(job="a", key="iteratoin", op=">=", value=1, timeout_seconds=DAY)
    one = waiting(wait)
    rules = Monitoring(log_events=(EVENT,))
    ruled = plan(*one.jobs, monitoring=rules)
    assert warnings(ruled) == [
        "b start_conditions.0: waits for `iteratoin` of a, which no log event extracts "
        "there\n    did you mean `iteration`?"
    ]


def test_metadata_that_a_rule_extracts_is_let_be() -> None:
    wait = MetadataIs(job="a", key="iteration", op=">=", value=1, timeout_seconds=DAY)
    one = waiting(wait)
    assert warnings(plan(*one.jobs, monitoring=Monitoring(log_events=(EVENT,)))) == []


def test_a_stage_behind_a_job_that_never_starts_is_told() -> None:
    itself = MetadataIs(key="iteration", op=">=", value=1, timeout_seconds=DAY)
    rules = Monitoring(log_events=(EVENT,))
    one = plan(
        job("a", stage="s", start_conditions=(itself,)),
        job("b", 1, stage="t", start_conditions=(state("a", "COMPLETED"),)),
        job("c", 2, stage="u", start_conditions=(state("b", "COMPLETED"),)),
        job("d", 3, stage="u"),
        monitoring=rules,
    )
    assert [text for text in warnings(one) if "reached" in text] == [
        "b start_conditions: the stage t is never reached: it waits for a, which never "
        "starts"
    ]
