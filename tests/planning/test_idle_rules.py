"""Rules that a misspelt stage or job keeps from acting are warned about."""

from __future__ import annotations

from autoexp_tui.actions.kinds import Action, Log, NewJob, Restart, RunAutoexp
from autoexp_tui.conditions.kinds import Composite, JobStateIs, MaxAttempts
from autoexp_tui.model.rules import Monitoring, StateEvent
from autoexp_tui.planning.validate import validate_execution_plan
from tests.model.builders import job, plan

RESTART = Restart(conditions=(MaxAttempts(max_attempts=3),))


def warned(*events: StateEvent, known: tuple[str, ...] = ()) -> list[str]:
    made = plan(
        job("a_stable", stage="stable"), monitoring=Monitoring(state_events=events)
    )
    found = validate_execution_plan(made, known=known).warnings
    return [f"{one.where}: {one.message} ({one.hint})" for one in found]


def crashed(*actions: Action, stages: tuple[str, ...] = ()) -> StateEvent:
    return StateEvent(name="crashed", state="crash", actions=actions, stages=stages)


def test_a_rule_for_a_stage_that_no_job_has_is_warned_about() -> None:
    assert warned(crashed(RESTART, stages=("stabel",))) == [
        "monitoring.state_events.0.stages: crashed applies to no job: "
        "no stage is called stabel (did you mean `stable`?)"
    ]


def test_a_rule_of_which_one_stage_is_there_applies() -> None:
    assert warned(crashed(RESTART, stages=("stable", "cooldown"))) == []


def test_a_stage_that_a_rule_lets_join_is_known() -> None:
    joins = crashed(NewJob(command=("true",)), stages=("stable",))
    of_it = StateEvent(name="b", state="success", stages=("crashed",))
    assert warned(joins, of_it) == []


def test_where_a_config_may_join_any_stage_may_come() -> None:
    joins = crashed(RunAutoexp(config_ref="x"), stages=("stable",))
    of_it = StateEvent(name="b", state="success", stages=("evaluate",))
    assert warned(joins, of_it) == []


def test_an_action_that_waits_for_a_stranger_is_warned_about() -> None:
    stranger = JobStateIs(jobs=("a_stabel",), state="COMPLETED")
    log = Log(message="x", conditions=(Composite(conditions=(stranger,)),))
    assert warned(crashed(log)) == [
        "monitoring.state_events.0.actions.0.conditions: waits for the job a_stabel, "
        "which is not in the plan (did you mean `a_stable`?)"
    ]


def test_jobs_of_the_session_and_references_are_no_strangers() -> None:
    both = JobStateIs(jobs=("there", "{name}"), state="COMPLETED")
    assert warned(crashed(Log(message="x", conditions=(both,))), known=("there",)) == []
