"""Jobs that join a running session because a rule said so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, Literal, cast

import pytest

from autoexp_tui.actions.kinds import NewJob, RunAutoexp
from autoexp_tui.conditions.kinds import FileExists, MaxAttempts, MetadataIs
from autoexp_tui.effects.effects import AddJob, PlanJobs
from autoexp_tui.engine.ports import FurtherPlan
from autoexp_tui.model.rules import Action, Monitoring
from autoexp_tui.model.specs import Plan, Resources
from tests.engine.bench import Bench, killed_at_any_write, require
from tests.engine.parts import (
    CRASH,
    OK,
    done,
    finds,
    on_end,
    on_save,
    saving,
    says,
    writes,
)
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript

OVERRIDES = ("project.name={name}_eval{iteration}", "load={checkpoint_path}")
EVALUATE: Final = RunAutoexp(config_ref="evaluate", overrides=OVERRIDES)
CONVERT: Final = NewJob(command=("convert", "{checkpoint_path}"))
RECOVERED = ("project.name={name}_recovered",)


def evaluating(*overrides: str, **fields: Any) -> RunAutoexp:
    return RunAutoexp(config_ref="evaluate", overrides=overrides, **fields)


def acting(*actions: Action, script: RunScript | None = None, **fields: Any) -> Bench:
    """One job that saves checkpoint 10 and runs on, and rules over it."""
    spec = job("a", stage="train", family="f0", **fields)
    scripts = {"a": [[script or saving(10)]], "a_eval10": [[OK], [OK]]}
    return Bench(plan(spec, monitoring=on_save(*actions)), scripts)


def joined(name: str, *actions: Action, **fields: Any) -> Bench:
    """As `acting`, until such a job has joined."""
    bench = acting(*actions, **fields)
    bench.until(lambda: name in bench.states(), 30)
    return bench


def failure(bench: Bench) -> str:
    return str(bench.warning().why.arg("problem"))


def test_a_plan_joins_with_the_log_s_values_behind_the_others_and_runs() -> None:
    bench = joined("a_eval10", EVALUATE)
    bench.reach(60, a_eval10="COMPLETED")
    assert bench.state("a") == "RUNNING"
    spec = bench.job("a_eval10").spec
    assert "load=/ckpt/10" in spec.command
    assert (spec.index, spec.family, spec.stage) == (1, "f0", "evaluate")
    assert bench.engine.state.order == ("a", "a_eval10")
    shown = require(bench.snapshots[-1].plan)
    assert [one.name for one in shown.jobs] == ["a", "a_eval10"]
    folded = bench.world.session.load()  # as a viewer does
    assert folded.jobs == bench.engine.state.jobs
    assert folded.plan == bench.engine.state.plan


TAKEN = ("the session has a job of this name", "{checkpoint_iteration}")


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (RunAutoexp(config_ref="broken"), ("there is no config `broken`",)),
        (evaluating("project.name=a"), TAKEN),
        (evaluating("project.name=b", "after=nobody"), ("names the job nobody",)),
        (
            NewJob(command=("x",), name="{checkpoint_path}"),
            ("more than one name in a",),
        ),
    ],
)
def test_a_plan_that_does_not_compose_or_takes_a_name_is_told_and_nothing_is_lost(
    action: Action, said: tuple[str, ...]
) -> None:
    bench = acting(action, script=saving(10, seconds=10.0))
    bench.reach(60, a="COMPLETED")
    bench.run(5)
    assert all(words in failure(bench) for words in said)
    assert list(bench.states()) == ["a"]
    assert not bench.engine.state.pending


def test_a_log_s_words_come_into_no_script_of_a_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evil = writes(says(2.0, "saved 10 to /x;reboot"), seconds=30.0)
    bench = acting(EVALUATE, script=evil)
    planner = type(bench.world.planner)
    make = planner.plan

    def plan_scripts(self: Any, asked: FurtherPlan) -> Plan:
        found = make(self, asked)
        script = ("bash", "-c", " ".join(found.jobs[0].command))
        return replace(found, jobs=(replace(found.jobs[0], command=script),))

    monkeypatch.setattr(planner, "plan", plan_scripts)
    bench.reach(60, a="COMPLETED")
    bench.run(2)
    assert list(bench.states()) == ["a"]
    assert "may not come into a script" in failure(bench)


@pytest.mark.parametrize(
    ("conditions", "line", "dropped"),
    [((), 2, "own_offspring"), ((MaxAttempts(max_attempts=3),), 4, "firings_spent")],
)
def test_an_action_makes_no_jobs_for_its_own_jobs(
    conditions: tuple[MaxAttempts, ...], line: int, dropped: str
) -> None:
    """A job crashes, and so does whatever is made to recover it."""
    action = RunAutoexp(config_ref="train", overrides=RECOVERED, conditions=conditions)
    rules = Monitoring(state_events=(on_end("crash", action),))
    names = ["a" + "_recovered" * n for n in range(6)]
    bench = Bench(plan(job("a"), monitoring=rules), {name: [[CRASH]] for name in names})
    bench.world.planner.monitoring = rules
    bench.run(120)
    assert bench.states() == dict.fromkeys(names[:line], "FAILED")
    assert bench.dropped() == [dropped]


@pytest.mark.parametrize(("mode", "begun"), [("queue", "a b new"), ("now", "a new b")])
def test_a_queued_plan_goes_behind_and_one_now_before_what_waits(
    mode: Literal["queue", "now"], begun: str
) -> None:
    rules = on_save(evaluating("project.name=new", mode=mode))
    scripts = {"a": [[saving(10, seconds=20.0)]], "b": [[OK]]}
    bench = Bench(plan(job("a"), job("b", 1), monitoring=rules), scripts, slots=1)
    bench.until(lambda: "new" in bench.states(), 30)
    bench.ends(90)
    assert [each.task[0] for each in bench.executor.begun] == begun.split()


TAKES = Resources(gpus=2, time_limit_seconds=60.0, options={"partition": "p", "q": 1})


def test_a_new_job_is_like_the_one_that_triggered_it_but_what_it_says_counts() -> None:
    like = replace(CONVERT, env={"B": "{iteration}"})
    bench = joined("a_saved", like, env={"A": "1"}, cwd="/project", resources=TAKES)
    spec = bench.job("a_saved").spec
    assert spec.command == ("convert", "/ckpt/10")
    assert (spec.stage, spec.family, spec.cwd) == ("saved", "f0", "/project")
    assert dict(spec.env) == {"A": "1", "B": "10"}
    assert spec.resources == TAKES
    assert (spec.output_dir, spec.log_dir) == ("/out/a_saved", "/logs/a_saved")
    bench.reach(60, a_saved="COMPLETED")
    small = {"options": {"partition": "small"}, "time_limit_seconds": 30.0, "gpus": 0}
    where = {"name": "conv{iteration}", "stage": "convert", "cwd": "tools"}
    own = replace(CONVERT, **where, **small)  # type: ignore[arg-type]
    spec = joined("conv10", own, cwd="/project", resources=TAKES).job("conv10").spec
    assert (spec.stage, spec.cwd) == ("convert", "/project/tools")
    assert spec.resources == Resources(
        gpus=0, time_limit_seconds=30.0, options={"partition": "small", "q": 1}
    )


def test_a_new_job_waits_for_what_its_conditions_name() -> None:
    at_20 = MetadataIs(key="iteration", job="{name}", op=">=", value=20)
    start = (done("{name}"), at_20, FileExists(path="{output_dir}/done"))
    after = NewJob(command=("convert",), start_conditions=start)
    bench = joined("a_saved", after, script=saving(10, 20, seconds=20.0))
    bench.run(5)
    record = bench.job("a_saved")
    assert record.spec.depends_on == ("a",)
    assert [s.result.value for s in record.start if s] == ["wait", "pass", "wait"]
    waits = cast(FileExists, record.spec.start_conditions[2])
    assert (waits.path, waits.writer) == ("/out/a/done", "a")
    bench.files.append("/out/a/done", b"x")
    bench.reach(60, a_saved="COMPLETED")


def test_a_new_job_joins_once_a_log_has_said_what_it_waits_for() -> None:
    best = finds("best", r"best is (?P<b>\S+)", best="b")
    start = (FileExists(path="/best/{runtime.a.best}"),)
    after = on_save(NewJob(command=("convert",), start_conditions=start), once=True)
    rules = Monitoring(log_events=(*after.log_events, best))
    script = writes(*saving(10).writes, says(15.0, "best is x7"), seconds=60.0)
    bench = Bench(plan(job("a"), monitoring=rules), {"a": [[script]]})
    bench.run(10)
    assert bench.states().keys() == {"a"}
    bench.files.append("/best/x7", b"x")
    bench.until(lambda: "a_saved" in bench.states(), 30)
    bench.reach(60, a_saved="COMPLETED")


def pending(bench: Bench, *kinds: type) -> list[str]:
    found = bench.engine.state.pending.values()
    return [each.effect_id for each in found if isinstance(each.effect, kinds)]


def one_after_another(until: type[PlanJobs | AddJob]) -> Bench:
    """A plan, and a job that waits for its job, until such an effect is on its way."""
    after = NewJob(command=("x",), start_conditions=(done("a_eval10"),))
    bench = acting(EVALUATE, after)
    while not pending(bench, until):
        bench.engine.commit()
        bench.pool.step()
        bench.clock.advance(0.1)
        bench.executor.settle()
    return bench


def deliver(bench: Bench, *keys: str) -> None:
    for step in (bench.pool.call, bench.pool.deliver):
        for key in keys:
            step(key)


def test_a_job_may_wait_for_one_that_is_still_being_planned() -> None:
    bench = one_after_another(PlanJobs)
    (first,) = pending(bench, PlanJobs)
    while others := [key for key in bench.pool.pending if key != first]:
        deliver(bench, others[0])  # all but the planning goes on
    bench.engine.commit()
    bench.until(lambda: "a_saved" in bench.states(), 30)
    bench.reach(60, a_saved="COMPLETED")
    assert bench.warned() == []


def test_a_job_depends_on_what_joined_while_it_was_being_planned() -> None:
    bench = one_after_another(AddJob)
    bench.engine.commit()
    both = (*pending(bench, PlanJobs), *pending(bench, AddJob))
    for key in both:
        bench.pool.call(key)
    for key in both:
        bench.pool.deliver(key)
        bench.engine.commit()
    bench.reach(60, a_saved="COMPLETED")
    assert bench.job("a_saved").spec.depends_on == ("a_eval10",)
    assert bench.warned() == []


END = dict.fromkeys(("a", "a_eval10", "a_eval20", "a_saved", "a_saved_2"), "COMPLETED")


def test_an_engine_killed_at_any_write_plans_each_match_once() -> None:
    how: Any = {"script": saving(10, 20, seconds=30.0), "command": ("train",)}
    for bench in killed_at_any_write(lambda: acting(EVALUATE, CONVERT, **how)):
        bench.run(60)
        assert bench.states() == END
        assert len(bench.executor.begun) == len(END)
