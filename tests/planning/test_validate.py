"""What can be said against a plan as a whole, and against its jobs and rules."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from autoexp_tui.actions.kinds import Log, NewJob, Restart, RunAutoexp
from autoexp_tui.conditions import kinds
from autoexp_tui.conditions.kinds import Composite, JobStateIs, MaxAttempts, MetadataIs
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.rules import Action, LogEvent, Monitoring, StateEvent
from autoexp_tui.model.specs import Edge, ExecutorSpec, Plan
from autoexp_tui.planning.validate import validate_execution_plan
from tests.model.builders import job, plan


def errors(the_plan: Plan) -> list[str]:
    return [str(error) for error in validate_execution_plan(the_plan).errors]


def warnings(the_plan: Plan, *known: str) -> list[str]:
    found = validate_execution_plan(the_plan, known=known).warnings
    return [str(warning) for warning in found]


RESTART = Restart(conditions=(MaxAttempts(max_attempts=3),))
STABLE = ("stable",)


def crashed(*actions: Action, stages: tuple[str, ...] = ()) -> StateEvent:
    return StateEvent(name="crashed", state="crash", actions=actions, stages=stages)


def log_after(*names: str) -> Log:
    waits = JobStateIs(jobs=names, state="COMPLETED")
    return Log(message="x", conditions=(Composite(conditions=(waits,)),))


@pytest.mark.parametrize(("events", "said"), [
    ((crashed(RESTART, stages=("stabel",)),),
     ["monitoring.state_events.0.stages: crashed applies to no job: no stage is called "
      "stabel\n    did you mean `stable`?"]),
    ((crashed(log_after("a_stabel")),),
     ["monitoring.state_events.0.actions.0.conditions: waits for the job a_stabel, "
      "which is not in the plan\n    did you mean `a_stable`?"]),
    ((crashed(RESTART, stages=("stable", "cooldown")),), []),
    ((crashed(NewJob(command=("t",)), stages=STABLE), crashed(stages=("crashed",))),
     []),
    ((crashed(RunAutoexp(config_ref="x"), stages=STABLE), crashed(stages=("o",))), []),
    ((crashed(log_after("there", "{name}")),), []),
])  # fmt: skip
def test_a_rule_for_nobody_and_a_wait_for_a_stranger_are_warned_about(
    events: tuple[StateEvent, ...], said: list[str]
) -> None:
    rules = Monitoring(state_events=events)
    made = plan(job("a_stable", stage="stable"), monitoring=rules)
    assert warnings(made, "there") == said


ASKS = kinds.Approval(prompt="go on?")
NESTED = Composite(conditions=(MaxAttempts(max_attempts=3), kinds.Not(condition=ASKS)))


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
def test_an_approval_of_a_restart_or_cancel_is_refused(approval: Condition) -> None:
    both = [f"monitoring.{kind}_events.0.actions.0.conditions"
            for kind in ("log", "state")]  # fmt: skip
    limit = MaxAttempts(max_attempts=3)
    assert places(under(Restart(conditions=(limit, approval)))) == both
    assert places(cancel_conditions=(approval,)) == ["cancel_conditions"]
    assert places(start_conditions=(approval,)) == []
    starts = NewJob(command=("true",), start_conditions=(approval,))
    ends = NewJob(command=("true",), cancel_conditions=(approval,))
    assert places(under(starts)) == []
    assert len(places(under(ends))) == 2


def test_metadata_that_no_rule_extracts_is_warned_about() -> None:
    event = LogEvent(name="saved", pattern="x", extract_groups={"iteration": "1"})
    rules = Monitoring(log_events=(event,))

    def waiting(key: str) -> list[str]:
        wait = MetadataIs(job="a", key=key, op=">=", value=1, timeout_seconds=60)
        jobs = job("a"), job("b", 1, start_conditions=(wait,))
        return warnings(plan(*jobs, monitoring=rules))

    assert waiting("iteration") == []
    assert waiting("iteratoin") == [
        "b start_conditions.0: waits for `iteratoin` of a, which no log event extracts "
        "there\n    did you mean `iteration`?"
    ]


@pytest.mark.parametrize("own", [
    MetadataIs(key="k", value=1), MetadataIs(key="k", job="a", value=1),
    kinds.MetricIs(name="loss", value=2.0),
    kinds.LogPattern(log_path="/logs/a/current.log", pattern="x", writer="a"),
])  # fmt: skip
def test_waiting_for_ones_own_run_is_warned_about_without_a_choice(own: Any) -> None:
    waits = replace(own, timeout_seconds=60)
    (found,) = warnings(plan(job("a", start_conditions=(waits,))))
    said = "a start_conditions.0: waits for what its own run is to say"
    assert found.startswith(said)
    stop = kinds.FileExists(path="/go")
    either = Composite(mode="any", conditions=(own, stop), timeout_seconds=60)
    assert warnings(plan(job("a", start_conditions=(either,)))) == []
    assert warnings(plan(job("a", cancel_conditions=(own,)))) == []


def test_a_job_that_uses_what_others_write_is_warned_about_once() -> None:
    befores = [job(f"a{at}", at, stage="a") for at in range(100)]
    edges = [Edge(before=one.name, after="z", mode="reads") for one in befores]
    every = f"[{','.join(one.output_dir for one in befores)}]"
    said = ["z start_conditions: reads what a writes, and does not wait"]
    last = f"--load={befores[99].output_dir}/x"
    for text, told in ((every, said), (last, said), ("[1,2,3]", [])):
        reader = job("z", 100, stage="z", command=(text,))
        found = warnings(replace(plan(*befores, reader), edges=tuple(edges)))
        assert [one[: len(said[0])] for one in found] == told


@pytest.mark.parametrize(("output_dir", "message"), [
    ("/logs/b", "its output directory is the log directory of b: /logs/b"),
    ("/logs/b/out",
     "its output directory overlaps the log directory of b: /logs/b/out"),
    ("/logs", "its output directory overlaps the log directory of b: /logs/b"),
    ("/state", "its output directory is the directory of sessions: /state"),
    ("/state/x", "its output directory overlaps the directory of sessions: /state/x"),
    ("/scripts", "its output directory is the directory of scripts: /scripts"),
    ("/out//b", "b project.name: writes into the same directory as a: /out/b"),
    ("/logs/bb", ""), ("/out/a", ""),
])  # fmt: skip
def test_outputs_do_not_overlap(output_dir: str, message: str) -> None:
    executor = ExecutorSpec(settings={"script_dir": "/scripts"})
    own = job("a", output_dir=output_dir, log_dir="/out/a/logs")
    found = "\n".join(errors(plan(own, job("b", 1), executor=executor)))
    assert message in found
    assert bool(message) == bool(found)


def test_a_name_may_not_lead_elsewhere_and_should_not_lead_into_another_jobs() -> None:
    said = "the name holds `..`; it must stay below base_output_dir"
    assert errors(plan(job("../a"))) == [f"../a project.name: '../a': {said}"]
    nested = plan(job("a"), job("a/b", 1), job("ab", 2))
    assert warnings(nested) == [
        "a/b project.name: its directory lies inside the one of a: /out/a/b\n"
        "    a name with `/` is a directory for each part"
    ]


def test_the_package_gives_its_public_names_and_nothing_else() -> None:
    package = import_module("autoexp_tui.plan")
    names = "SweepPoint expand_sweep find_sibling build_execution_plan"
    for name in f"{names} validate_execution_plan".split():
        assert getattr(package, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        package.__getattr__("nothing")
