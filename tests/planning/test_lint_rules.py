"""What can be said against a plan as a whole, and against its jobs and rules."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from autoexp_tui.actions.new_job import NewJob, RunAutoexp
from autoexp_tui.actions.notify import Log
from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions import kinds
from autoexp_tui.conditions.kinds import Composite, JobStateIs, MaxAttempts, MetadataIs
from autoexp_tui.model.action import Action
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.rules import LogEvent, Monitoring, StateEvent
from autoexp_tui.model.specs import Edge, ExecutorSpec, Plan
from autoexp_tui.planning.validate import fold_problems, validate_execution_plan
from tests.model.builders import job, plan


def errors(the_plan: Plan) -> list[str]:
    return [str(error) for error in validate_execution_plan(the_plan).errors]


def warnings(the_plan: Plan) -> list[str]:
    return [str(warning) for warning in validate_execution_plan(the_plan).warnings]


@pytest.mark.parametrize("condition", [
    JobStateIs(jobs=("a", "stabel"), state="COMPLETED", timeout_seconds=1),
    MetadataIs(key="k", job="stabel", timeout_seconds=1),
    kinds.Not(condition=JobStateIs(jobs=("stabel",), state="X"), timeout_seconds=1),
    Composite(conditions=(MetadataIs(key="k", job="stabel"),), timeout_seconds=1),
])  # fmt: skip
@pytest.mark.parametrize("field", ["start_conditions", "cancel_conditions"])
def test_a_condition_on_a_stranger_is_an_error(condition: Any, field: str) -> None:
    said = f"a {field}: names the job stabel, which is not in the plan\n    "
    strange = job("a", 1, **{field: (condition,)})
    assert errors(plan(job("stable"), strange)) == [f"{said}did you mean `stable`?"]
    names = [f"j{at}" for at in range(11)]
    (told,) = errors(plan(*map(job, names, range(11)), strange))
    assert told == f"{said}jobs: {', '.join(names)}, a"


RESTART = Restart(conditions=(MaxAttempts(max_attempts=3),))


def warned(*events: StateEvent, known: tuple[str, ...] = ()) -> list[str]:
    made = plan(
        job("a_stable", stage="stable"), monitoring=Monitoring(state_events=events)
    )
    found = validate_execution_plan(made, known=known).warnings
    return [f"{one.where}: {one.message} ({one.hint})" for one in found]


def crashed(*actions: Action, stages: tuple[str, ...] = ()) -> StateEvent:
    return StateEvent(name="crashed", state="crash", actions=actions, stages=stages)


def test_a_rule_for_nobody_and_a_wait_for_a_stranger_are_warned_about() -> None:
    assert warned(crashed(RESTART, stages=("stabel",))) == [
        "monitoring.state_events.0.stages: crashed applies to no job: "
        "no stage is called stabel (did you mean `stable`?)"
    ]
    stranger = JobStateIs(jobs=("a_stabel",), state="COMPLETED")
    log = Log(message="x", conditions=(Composite(conditions=(stranger,)),))
    assert warned(crashed(log)) == [
        "monitoring.state_events.0.actions.0.conditions: waits for the job a_stabel, "
        "which is not in the plan (did you mean `a_stable`?)"
    ]


STABLE = ("stable",)


@pytest.mark.parametrize("events", [
    (crashed(RESTART, stages=("stable", "cooldown")),),
    (crashed(NewJob(command=("true",)), stages=STABLE), crashed(stages=("crashed",))),
    (crashed(RunAutoexp(config_ref="x"), stages=STABLE), crashed(stages=("other",))),
    (crashed(Log(message="x", conditions=(
        JobStateIs(jobs=("there", "{name}"), state="COMPLETED"),))),),
], ids=["of several", "a job joins", "a config joins", "of the session"])  # fmt: skip
def test_what_may_come_is_no_stranger(events: tuple[StateEvent, ...]) -> None:
    assert warned(*events, known=("there",)) == []


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
    rules = under(Restart(conditions=(MaxAttempts(max_attempts=3), approval)))
    assert places(rules) == [
        "monitoring.log_events.0.actions.0.conditions",
        "monitoring.state_events.0.actions.0.conditions",
    ]
    assert places(cancel_conditions=(approval,)) == ["cancel_conditions"]
    assert places(start_conditions=(approval,)) == []


def test_a_job_that_joins_may_ask_before_it_starts_and_not_to_be_ended() -> None:
    starts = NewJob(command=("true",), start_conditions=(ASKS,))
    ends = NewJob(command=("true",), cancel_conditions=(ASKS,))
    assert places(under(starts)) == []
    assert len(places(under(ends))) == 2


DAY = 86400.0
EVENT = LogEvent(name="saved", pattern="x", extract_groups={"iteration": "1"})
RULES = Monitoring(log_events=(EVENT,))


def test_metadata_that_no_rule_extracts_is_warned_about() -> None:
    def waiting(key: str) -> list[str]:
        wait = MetadataIs(job="a", key=key, op=">=", value=1, timeout_seconds=DAY)
        jobs = job("a"), job("b", 1, start_conditions=(wait,))
        return warnings(plan(*jobs, monitoring=RULES))

    assert waiting("iteration") == []
    assert waiting("iteratoin") == [
        "b start_conditions.0: waits for `iteratoin` of a, which no log event extracts "
        "there\n    did you mean `iteration`?"
    ]


def test_a_stage_behind_a_job_that_never_starts_is_told() -> None:
    itself = MetadataIs(key="iteration", op=">=", value=1, timeout_seconds=DAY)
    on_a, on_b = (
        JobStateIs(jobs=(n,), state="COMPLETED", timeout_seconds=DAY) for n in "ab"
    )
    waits = zip("abcd", "stuu", ((itself,), (on_a,), (on_b,), ()), strict=True)
    jobs = [job(name, at, stage=stage, start_conditions=conditions)
            for at, (name, stage, conditions) in enumerate(waits)]  # fmt: skip
    told = warnings(plan(*jobs, monitoring=RULES))
    assert [text for text in told if "reached" in text] == [
        "b start_conditions: the stage t is never reached: it waits for a, which never "
        "starts"
    ]


OWN = [
    MetadataIs(key="k", value=1),
    MetadataIs(key="k", job="a", value=1),
    kinds.MetricIs(name="loss", value=2.0),
    kinds.LogPattern(log_path="/logs/a/current.log", pattern="x", writer="a"),
]


@pytest.mark.parametrize("own", OWN)
def test_waiting_for_ones_own_run_is_warned_about_without_a_choice(own: Any) -> None:
    waits = replace(own, timeout_seconds=60)
    (found,) = warnings(plan(job("a", start_conditions=(waits,))))
    said = "a start_conditions.0: waits for what its own run is to say"
    assert found.startswith(said)
    stop = kinds.FileExists(path="/go")
    either = Composite(mode="any", conditions=(own, stop), timeout_seconds=60)
    assert warnings(plan(job("a", start_conditions=(either,)))) == []
    assert warnings(plan(job("a", cancel_conditions=(own,)))) == []


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


def test_a_job_that_uses_what_others_write_is_warned_about_once() -> None:
    befores = reading_all(100, "").jobs[:100]
    every = f"[{','.join(one.output_dir for one in befores)}]"
    for text in (every, f"--load={befores[99].output_dir}/x"):
        (told,) = warnings(reading_all(100, text))
        said = "z start_conditions: reads what a writes, and does not wait"
        assert told.startswith(said)
        assert text != every or Searched.times <= 2
    assert warnings(reading_all(100, "[1,2,3]")) == []
    assert Searched.times <= 1


def test_a_sound_plan_has_no_findings() -> None:
    wait = JobStateIs(jobs=("a",), state="COMPLETED", timeout_seconds=5)
    sound = plan(job("a"), job("b", 1, depends_on=("a",), start_conditions=(wait,)))
    assert errors(sound) == []
    assert warnings(sound) == []
    assert "sweep: makes no job" in errors(plan())[0]


def test_equal_names_may_be_told_apart_by_what_can_stand_in_a_name() -> None:
    def said(*parameters: dict[str, Any]) -> str:
        pairs = enumerate(parameters)
        return errors(plan(*(job("a", at, parameters=own) for at, own in pairs)))[0]

    same = "they set the same values: take one out, or add ${index} to the name"
    assert said({"lr": 1}, {"lr": 1.0}).endswith(same)
    swept = said(*({"stage": s, "++lr": s, "aux": {"x": s}} for s in "ab"))
    assert swept.endswith("apart: ${stage}, ${lr}")
    assert said(*({"start_conditions": [s]} for s in "ab")).endswith("apart: ${index}")


@pytest.mark.parametrize(("made", "said"), [
    (plan(job("../a")), "../a project.name: '../a': the name holds `..`; it must stay "
                        "below base_output_dir"),
    (plan(job("a/b", output_dir="/out/a/b"), job("b", 1, output_dir="/out/a//b")),
     "b project.name: writes into the same directory as a/b: /out/a/b"),
])  # fmt: skip
def test_a_name_that_leads_elsewhere_is_an_error(made: Plan, said: str) -> None:
    assert errors(made) == [said]


@pytest.mark.parametrize(("output_dir", "message"), [
    ("/logs/b", "its output directory is the log directory of b: /logs/b"),
    ("/logs/b/out",
     "its output directory lies inside the log directory of b: /logs/b/out"),
    ("/logs", "its output directory holds the log directory of b: /logs/b"),
    ("/state", "its output directory is the directory of sessions: /state"),
    ("/state/x",
     "its output directory lies inside the directory of sessions: /state/x"),
    ("/scripts", "its output directory is the directory of scripts: /scripts"),
])  # fmt: skip
def test_outputs_do_not_overlap_what_is_ours(output_dir: str, message: str) -> None:
    executor = ExecutorSpec(settings={"script_dir": "/scripts"})
    jobs = job("a", output_dir=output_dir), job("b", 1)
    assert message in "\n".join(errors(plan(*jobs, executor=executor)))


def test_a_directory_inside_another_jobs_is_a_warning() -> None:
    assert warnings(plan(job("a"), job("a/b", 1), job("ab", 2))) == [
        "a/b project.name: its directory lies inside the one of a: /out/a/b\n"
        "    a name with `/` is a directory for each part"
    ]
    assert errors(plan(job("a", log_dir="/out/a/logs"))) == []
    assert errors(plan(job("a", output_dir="/logs/bb"), job("b", 1))) == []


def test_what_many_jobs_share_is_told_once() -> None:
    found = fold_problems(Problem("is bad", "x", name) for name in ("a", "b", "c", "b"))
    message = "is bad (and for 2 more jobs)"
    assert found == (Problem(message, "x", "a", others=("b", "c")),)
    pairs = (("1", "a"), ("2", "a"), ("1", "b"))
    one, two, other = (Problem(text, job=name) for text, name in pairs)
    messages = [problem.message for problem in fold_problems([one, two, other])]
    assert messages == ["1 (and for 1 more job)", "2"]
    assert fold_problems([Problem("1"), one, other]) == (Problem("1"),)


def test_the_package_gives_its_public_names_and_nothing_else() -> None:
    package = import_module("autoexp_tui.plan")
    names = "SweepPoint expand_sweep find_sibling build_execution_plan"
    for name in f"{names} validate_execution_plan".split():
        assert getattr(package, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        package.__getattr__("nothing")
