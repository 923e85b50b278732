"""What the lints say of jobs and rules of a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.actions.new_job import NewJob, RunAutoexp
from autoexp_tui.actions.notify import Log
from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.kinds import (
    Approval,
    Composite,
    FileExists,
    JobStateIs,
    LogPattern,
    MaxAttempts,
    MetadataIs,
    MetricIs,
    Not,
)
from autoexp_tui.model.action import Action
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.rules import LogEvent, Monitoring, StateEvent
from autoexp_tui.model.specs import Edge, Plan
from autoexp_tui.planning.validate import validate_execution_plan
from tests.model.builders import job, plan


def errors(the_plan: Plan) -> list[str]:
    return [str(error) for error in validate_execution_plan(the_plan).errors]


def warnings(the_plan: Plan) -> list[str]:
    return [str(warning) for warning in validate_execution_plan(the_plan).warnings]


# ----------------------------------------------------------------------- names of jobs
def test_candidates_for_a_job_that_is_not_in_the_plan_are_in_its_order() -> None:
    wait = JobStateIs(jobs=("nobody",), state="COMPLETED", timeout_seconds=5)
    names = [f"j{at}" for at in range(11)]
    waiting = job("zz", 11, start_conditions=(wait,))
    (told,) = errors(plan(*map(job, names, range(11)), waiting))
    assert told.endswith(f"jobs: {', '.join(names)}, zz")


@pytest.mark.parametrize("condition", [
    JobStateIs(jobs=("a", "stabel"), state="COMPLETED", timeout_seconds=1),
    MetadataIs(key="k", job="stabel", timeout_seconds=1),
    Not(condition=JobStateIs(jobs=("stabel",), state="X"), timeout_seconds=1),
    Composite(conditions=(MetadataIs(key="k", job="stabel"),), timeout_seconds=1),
])  # fmt: skip
@pytest.mark.parametrize("field", ["start_conditions", "cancel_conditions"])
def test_a_condition_on_a_stranger_is_an_error(
    condition: Composite, field: str
) -> None:
    strange = plan(job("stable"), job("a", 1, **{field: (condition,)}))
    assert errors(strange) == [
        f"a {field}: names the job stabel, which is not in the plan\n"
        "    did you mean `stable`?"
    ]


# -------------------------------------------------------------------- rules for nobody
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


@pytest.mark.parametrize(
    "events",
    [
        (crashed(RESTART, stages=("stable", "cooldown")),),
        *(
            (crashed(joins, stages=("stable",)), crashed(stages=(stage,)))
            for joins, stage in (
                (NewJob(command=("true",)), "crashed"),
                (RunAutoexp(config_ref="x"), "evaluate"),
            )
        ),
    ],
    ids=["one of several stages", "of a job that joins", "of a config that joins"],
)
def test_a_rule_for_a_stage_that_is_there_or_may_come_applies(
    events: tuple[StateEvent, ...],
) -> None:
    assert warned(*events) == []


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


# --------------------------------------------------------------------------- approvals
ASKS = Approval(prompt="go on?")
NESTED = Composite(conditions=(MaxAttempts(max_attempts=3), Not(condition=ASKS)))


def places(conditions: Monitoring | None = None, **of_job: Any) -> list[str]:
    """Where errors are, in a plan of one job under rules."""
    made = plan(job("a", **of_job), monitoring=conditions or Monitoring())
    found = validate_execution_plan(made).errors
    assert all("nobody is asked here" in problem.message for problem in found)
    return [problem.where for problem in found]


def under(action: Action) -> Monitoring:
    return Monitoring(
        log_events=(LogEvent(name="l", pattern="x", actions=(action,)),),
        state_events=(StateEvent(name="s", state="crash", actions=(action,)),),
    )


@pytest.mark.parametrize("approval", [ASKS, NESTED])
def test_an_approval_of_a_restart_is_refused(approval: Approval | Composite) -> None:
    rules = under(Restart(conditions=(MaxAttempts(max_attempts=3), approval)))
    assert places(rules) == [
        "monitoring.log_events.0.actions.0.conditions",
        "monitoring.state_events.0.actions.0.conditions",
    ]


@pytest.mark.parametrize("approval", [ASKS, NESTED])
def test_an_approval_of_a_cancel_is_refused(approval: Approval | Composite) -> None:
    assert places(cancel_conditions=(approval,)) == ["cancel_conditions"]


def test_a_job_that_joins_may_ask_before_it_starts_and_not_to_be_ended() -> None:
    starts = NewJob(command=("true",), start_conditions=(ASKS,))
    ends = NewJob(command=("true",), cancel_conditions=(ASKS,))
    assert places(under(starts)) == []
    assert len(places(under(ends))) == 2


def test_an_approval_before_a_start_is_what_it_is_for() -> None:
    assert places(start_conditions=(ASKS, NESTED)) == []


# --------------------------------------------------------------- what cannot come true
DAY = 86400.0


def state(name: str, wanted: str) -> JobStateIs:
    return JobStateIs(jobs=(name,), state=wanted, timeout_seconds=DAY)


def waiting(*conditions: Condition) -> Plan:
    return plan(
        job("a", stage="s"), job("b", 1, stage="t", start_conditions=conditions)
    )


EVENT = LogEvent(name="saved", pattern="x", extract_groups={"iteration": "1"})


def test_metadata_that_no_rule_extracts_is_warned_about() -> None:
    waits = (
        MetadataIs(job="a", key=key, op=">=", value=1, timeout_seconds=DAY)
        for key in ("iteration", "iteratoin")
    )
    rules = Monitoring(log_events=(EVENT,))
    known, ruled = (plan(*waiting(one).jobs, monitoring=rules) for one in waits)
    assert warnings(known) == []
    assert warnings(ruled) == [
        "b start_conditions.0: waits for `iteratoin` of a, which no log event extracts "
        "there\n    did you mean `iteration`?"
    ]


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


# -------------------------------------------------------------------- waits for itself
OWN = [
    MetadataIs(key="k", value=1),
    MetadataIs(key="k", job="a", value=1),
    MetricIs(name="loss", value=2.0),
    LogPattern(log_path="/logs/a/current.log", pattern="x", writer="a"),
]


@pytest.mark.parametrize("own", OWN)
def test_waiting_for_what_ones_own_run_says_is_warned_about(own: Condition) -> None:
    waits = replace(own, timeout_seconds=60)
    (found,) = warnings(plan(job("a", start_conditions=(waits,))))
    assert found.startswith(
        "a start_conditions.0: waits for what its own run is to say"
    )


@pytest.mark.parametrize("own", OWN)
def test_an_alternative_to_ones_own_word_is_none(own: Condition) -> None:
    stop = FileExists(path="/go")
    either = Composite(mode="any", conditions=(own, stop), timeout_seconds=60)
    assert warnings(plan(job("a", start_conditions=(either,)))) == []
    assert warnings(plan(job("a", cancel_conditions=(own,)))) == []


# ------------------------------------------------------------------ reads without waits
class Searched(str):
    """A text that counts how often something is looked for in it."""

    __slots__ = ()
    times = 0

    def __contains__(self, text: object, /) -> bool:
        Searched.times += 1
        return super().__contains__(str(text))


def reading_all(count: int, text: str) -> Plan:
    """A job that reads so many of one stage, started with a text."""
    Searched.times = 0
    befores = [job(f"a{at}", at, stage="a") for at in range(count)]
    reader = job("z", count, stage="z", command=(Searched(text),), env={})
    edges = [Edge(before=one.name, after="z", mode="reads") for one in befores]
    return replace(plan(*befores, reader), edges=tuple(edges))


def test_a_job_that_uses_what_a_whole_stage_writes_is_warned_about_once() -> None:
    befores = reading_all(100, "").jobs[:100]
    text = f"[{','.join(one.output_dir for one in befores)}]"
    (told,) = warnings(reading_all(100, text))
    assert told.startswith("z start_conditions: reads what a writes, and does not wait")
    assert Searched.times <= 2


def test_a_job_that_reads_but_no_directory_is_not_searched_for_each_of_them() -> None:
    assert warnings(reading_all(100, "[1,2,3]")) == []
    assert Searched.times <= 1


def test_a_job_that_uses_one_directory_of_a_stage_is_warned_about() -> None:
    last = reading_all(100, "").jobs[99]
    assert len(warnings(reading_all(100, f"--load={last.output_dir}/x"))) == 1
