"""Jobs that join a running session because a rule said so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, Literal, cast

import pytest

from autoexp_tui.actions.new_job import NewJob, RunAutoexp
from autoexp_tui.actions.notify import Log
from autoexp_tui.conditions.kinds import (
    FileExists,
    JobStateIs,
    MaxAttempts,
    MetadataIs,
)
from autoexp_tui.effects.effects import AddJob, PlanJobs
from autoexp_tui.engine.viewer import FoldedSession
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.action import Action
from autoexp_tui.model.rules import LogEvent, Monitoring, StateEvent
from autoexp_tui.model.specs import Resources
from autoexp_tui.model.state import PendingEffect
from autoexp_tui.model.states import JobState
from tests.engine.bench import Bench
from tests.engine.test_actions import (
    OK,
    dropped,
    on_save,
    run_to_the_end,
    saving,
    says,
)
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript
from tests.support.memory_journal import Fault as DiskFault

EVALUATE = RunAutoexp(
    config_ref="evaluate",
    overrides=("project.name={name}_eval{iteration}", "load={checkpoint_path}"),
)
CONVERT = NewJob(command=("convert", "{checkpoint_path}"))


def acting(*actions: Action, script: RunScript | None = None, **fields: Any) -> Bench:
    """One job that saves checkpoint 10 and runs on, and rules over it."""
    spec = job("a", stage="train", family="f0", **fields)
    the_plan = plan(spec, monitoring=on_save(*actions))
    scripts = {"a": [[script or saving(10)]], "a_eval10": [[OK], [OK]]}
    return Bench(the_plan, scripts)


def failures(bench: Bench) -> list[str]:
    """What warnings say of actions that failed."""
    warnings = bench.engine.state.warnings.values()
    return [str(w.why.arg("problem")) for w in warnings]


# -------------------------------------------------------------------------- RunAutoexp
def test_a_plan_joins_with_the_log_s_values_in_it_and_its_jobs_run() -> None:
    bench = acting(EVALUATE)
    bench.until(lambda: "a_eval10" in bench.states(), 30)
    bench.until(bench.is_("a_eval10", JobState.COMPLETED), 60)
    assert bench.job("a").state is JobState.RUNNING
    spec = bench.job("a_eval10").spec
    assert "load=/ckpt/10" in spec.command


def test_what_joins_stands_behind_the_others_in_the_trigger_s_family() -> None:
    bench = acting(EVALUATE)
    bench.until(lambda: len(bench.states()) == 2, 30)
    bench.run(1)
    spec = bench.job("a_eval10").spec
    assert (spec.index, spec.family, spec.stage) == (1, "f0", "evaluate")
    assert bench.engine.state.order == ("a", "a_eval10")
    joined_plan = bench.snapshots[-1].plan
    assert joined_plan is not None
    assert [one.name for one in joined_plan.jobs] == ["a", "a_eval10"]


def test_a_job_that_joins_may_wait_for_one_of_the_session() -> None:
    waiting = RunAutoexp(
        config_ref="evaluate", overrides=("project.name=late", "after={name}")
    )
    bench = acting(waiting, script=saving(10, seconds=30.0))
    bench.until(lambda: "late" in bench.states(), 30)
    bench.run(1)
    assert bench.job("late").state is JobState.WAITING
    joined_plan = bench.snapshots[-1].plan
    assert joined_plan is not None
    assert [(e.before, e.after) for e in joined_plan.edges] == [("a", "late")]
    bench.until(bench.is_("late", JobState.COMPLETED), 60)
    assert bench.job("a").state is JobState.COMPLETED


def test_a_plan_that_does_not_compose_is_told_and_nothing_else_is_lost() -> None:
    bench = acting(RunAutoexp(config_ref="broken"), script=saving(10, seconds=10.0))
    bench.until(bench.is_("a", JobState.COMPLETED), 60)
    assert failures(bench) == ["there is no config `broken`"]
    assert list(bench.states()) == ["a"]
    assert not bench.engine.state.pending


def test_a_name_that_the_session_has_is_refused_with_what_to_do() -> None:
    again = RunAutoexp(config_ref="evaluate", overrides=("project.name=a",))
    bench = acting(again)
    bench.run(20)
    (problem,) = failures(bench)
    assert "the session has a job of this name" in problem
    assert "{checkpoint_iteration}" in problem


def test_a_job_that_waits_for_nobody_known_is_refused() -> None:
    stray = RunAutoexp(
        config_ref="evaluate", overrides=("project.name=b", "after=nobody")
    )
    bench = acting(stray)
    bench.run(20)
    (problem,) = failures(bench)
    assert "names the job nobody" in problem


def test_a_log_s_words_are_only_text_in_overrides() -> None:
    evil = RunScript(
        seconds=30.0,
        writes=(saving(10).writes[0], says(4.0, "saved 11 to /x,y='${now:}'")),
    )
    odd = RunScript(
        seconds=30.0, writes=(says(2.0, "saved 10 to /o/lr=1e-3,b=2/ckpt"),)
    )
    bench = acting(EVALUATE, script=odd)
    bench.until(lambda: len(bench.states()) == 2, 30)
    assert "load='/o/lr=1e-3,b=2/ckpt'" in bench.job("a_eval10").spec.command
    bench = acting(EVALUATE, script=evil)
    bench.until(bench.is_("a", JobState.COMPLETED), 60)
    bench.run(2)
    assert sorted(bench.states()) == ["a", "a_eval10"]
    assert dropped(bench) == ["value_refused"]


RECOVER: Final = RunAutoexp(
    config_ref="train", overrides=("project.name={name}_recovered",)
)
CRASH: Final = RunScript(seconds=2.0, exit_code=1)


def recovering(*conditions: MaxAttempts) -> Bench:
    """A job that crashes, and so does whatever is made to recover it."""
    action = replace(RECOVER, conditions=conditions)
    rule = StateEvent(name="broken", state="crash", actions=(action,))
    rules = Monitoring(state_events=(rule,))
    names = ["a" + "_recovered" * n for n in range(6)]
    bench = Bench(plan(job("a"), monitoring=rules), {name: [[CRASH]] for name in names})
    bench.world.planner.monitoring = rules
    bench.run(120)
    return bench


def test_an_action_makes_no_jobs_for_its_own_jobs() -> None:
    bench = recovering()
    assert bench.states() == {"a": "FAILED", "a_recovered": "FAILED"}
    assert dropped(bench) == ["own_offspring"]


def test_a_limit_of_attempts_holds_for_the_whole_line_of_jobs() -> None:
    bench = recovering(MaxAttempts(max_attempts=3))
    assert list(bench.states()) == ["a" + "_recovered" * n for n in range(4)]
    assert dropped(bench) == ["firings_spent"]


def test_a_stalled_job_is_recovered_by_a_rule_over_its_end() -> None:
    recover = RunAutoexp(
        config_path="{output_dir}/provenance/unresolved_config.yaml",
        overrides=("project.name={project.name}_recovered",),
        conditions=(MaxAttempts(max_attempts=1),),
    )
    rule = StateEvent(name="broken", state="crash", actions=(recover,))
    rules = Monitoring(state_events=(rule,))
    crash = RunScript(seconds=2.0, exit_code=1)
    bench = Bench(plan(job("a"), monitoring=rules), {"a": [[crash]]})
    bench.until(lambda: "a_recovered" in bench.states(), 60)
    bench.until(bench.is_("a_recovered", JobState.COMPLETED), 60)
    ordered = "/out/a/provenance/unresolved_config.yaml"
    assert bench.job("a_recovered").spec.stage == ordered


def full(mode: Literal["queue", "now"]) -> Bench:
    """One slot, a job that waits for it, and one that joins while it is taken."""
    action = RunAutoexp(
        config_ref="evaluate", overrides=("project.name=new",), mode=mode
    )
    the_plan = plan(job("a"), job("b", 1), monitoring=on_save(action))
    scripts = {"a": [[saving(10, seconds=20.0)]], "b": [[OK]]}
    bench = Bench(the_plan, scripts, slots=1)
    bench.until(lambda: "new" in bench.states(), 30)
    bench.until(lambda: all(j.ended for j in bench.engine.state.jobs.values()), 90)
    return bench


def test_a_queued_plan_goes_behind_and_one_now_before_what_waits() -> None:
    begun = {
        mode: [b.task[0] for b in full(mode).executor.begun]
        for mode in ("queue", "now")
    }
    assert begun == {"queue": ["a", "b", "new"], "now": ["a", "new", "b"]}


def test_what_joined_is_killed_and_brought_back_like_any_job() -> None:
    bench = acting(EVALUATE)
    bench.until(lambda: "a_eval10" in bench.states(), 30)
    bench.until(bench.is_("a_eval10", JobState.RUNNING), 30)
    bench.order(commands.Kill(jobs=("a_eval10",)))
    bench.until(bench.is_("a_eval10", JobState.CANCELLED), 30)
    bench.order(commands.Resubmit(jobs=("a_eval10",), overrides=("lr=2",)))
    bench.until(bench.is_("a_eval10", JobState.COMPLETED), 60)
    spec = bench.job("a_eval10").spec
    assert spec.overrides[-1] == "lr=2"
    assert (spec.index, spec.family) == (1, "f0")


def test_rules_of_the_session_stay_those_of_its_own_jobs() -> None:
    bench = acting(EVALUATE, Log(message="{iteration}"), script=saving(10, 20))
    bench.run(60)
    logged = bench.happened(events.MessageLogged)
    assert [event.text for event in logged] == ["10", "20"]
    state = bench.engine.state
    assert state.plan is not None
    assert state.plan.rules_of(state.jobs["a_eval10"].spec) == Monitoring()


# ------------------------------------------------------------------------------ NewJob
def test_a_new_job_is_like_the_one_that_triggered_it() -> None:
    bench = acting(
        NewJob(command=("convert", "{checkpoint_path}"), env={"B": "{iteration}"}),
        env={"A": "1"},
        cwd="/project",
        resources=Resources(
            gpus=2, time_limit_seconds=60.0, options={"partition": "p"}
        ),
    )
    bench.until(lambda: len(bench.states()) == 2, 30)
    spec = bench.job("a_saved").spec
    assert spec.command == ("convert", "/ckpt/10")
    assert (spec.stage, spec.family, spec.cwd) == ("saved", "f0", "/project")
    assert dict(spec.env) == {"A": "1", "B": "10"}
    assert spec.resources == bench.job("a").spec.resources
    assert (spec.output_dir, spec.log_dir) == ("/out/a_saved", "/logs/a_saved")
    bench.until(bench.is_("a_saved", JobState.COMPLETED), 60)


def test_what_a_new_job_says_itself_counts() -> None:
    own = NewJob(
        command=("convert",),
        name="conv{iteration}",
        stage="convert",
        cwd="tools",
        options={"partition": "small"},
        time_limit_seconds=30.0,
        gpus=0,
    )
    bench = acting(
        own,
        cwd="/project",
        resources=Resources(gpus=2, options={"partition": "p", "q": 1}),
    )
    bench.until(lambda: len(bench.states()) == 2, 30)
    spec = bench.job("conv10").spec
    assert (spec.stage, spec.cwd) == ("convert", "/project/tools")
    assert spec.resources == Resources(
        gpus=0, time_limit_seconds=30.0, options={"partition": "small", "q": 1}
    )


def test_names_that_nobody_wrote_are_counted_on() -> None:
    bench = acting(CONVERT, script=saving(10, 20, 30))
    bench.run(30)
    assert list(bench.states()) == ["a", "a_saved", "a_saved_2", "a_saved_3"]
    commands_run = [bench.job(n).spec.command[1] for n in list(bench.states())[1:]]
    assert commands_run == ["/ckpt/10", "/ckpt/20", "/ckpt/30"]


def test_a_name_that_somebody_wrote_is_never_changed() -> None:
    bench = acting(NewJob(command=("x",), name="once"), script=saving(10, 20))
    bench.run(30)
    assert list(bench.states()) == ["a", "once"]
    (problem,) = failures(bench)
    assert "the session has a job of this name" in problem


def test_a_name_made_of_a_log_s_words_must_be_one() -> None:
    bench = acting(NewJob(command=("x",), name="{checkpoint_path}"))
    bench.run(20)
    (problem,) = failures(bench)
    assert "more than one name in a path" in problem


def test_a_new_job_waits_for_what_its_conditions_name() -> None:
    after = NewJob(
        command=("convert",),
        start_conditions=(
            JobStateIs(jobs=("{name}",), state="COMPLETED"),
            MetadataIs(key="iteration", job="{name}", op=">=", value=20),
            FileExists(path="{output_dir}/done"),
        ),
    )
    bench = acting(after, script=saving(10, 20, seconds=20.0))
    bench.until(lambda: "a_saved" in bench.states(), 30)
    bench.run(5)
    record = bench.job("a_saved")
    assert record.spec.depends_on == ("a",)
    assert [s.result.value for s in record.start if s] == ["wait", "pass", "wait"]
    waits = cast(FileExists, record.spec.start_conditions[2])
    assert (waits.path, waits.writer) == ("/out/a/done", "a")
    bench.files.append("/out/a/done", b"x")
    bench.until(bench.is_("a_saved", JobState.COMPLETED), 60)


def test_a_new_job_may_wait_for_what_a_log_will_say() -> None:
    after = NewJob(
        command=("convert",),
        start_conditions=(FileExists(path="/best/{runtime.a.best}"),),
    )
    best = LogEvent(
        name="best",
        pattern=r"best is (?P<b>\S+)",
        pattern_type="regex",
        extract_groups={"best": "b"},
    )
    rules = on_save(after, once=True)
    the_plan = plan(
        job("a"), monitoring=Monitoring(log_events=(*rules.log_events, best))
    )
    script = RunScript(
        seconds=60.0, writes=(*saving(10).writes, says(15.0, "best is x7"))
    )
    bench = Bench(the_plan, {"a": [[script]]})
    bench.run(10)
    assert bench.job("a_saved").state is JobState.WAITING
    bench.files.append("/best/x7", b"x")
    bench.until(bench.is_("a_saved", JobState.COMPLETED), 60)


def test_new_jobs_of_new_jobs_are_under_the_same_rules() -> None:
    bench = acting(CONVERT)
    bench.until(lambda: "a_saved" in bench.states(), 30)
    state = bench.engine.state
    assert state.plan is not None
    rules = state.plan.rules_of(state.jobs["a_saved"].spec)
    assert rules.log_events == on_save(CONVERT).log_events


def one_after_another(until: type[PlanJobs | AddJob]) -> Bench:
    """A plan, and a job that waits for its job, until such an effect is on its way."""
    after = NewJob(
        command=("x",),
        start_conditions=(JobStateIs(jobs=("a_eval10",), state="COMPLETED"),),
    )
    bench = acting(EVALUATE, after)
    while not any(isinstance(p.effect, until) for p in pending(bench)):
        bench.engine.commit()
        bench.pool.step()
        bench.clock.advance(0.1)
        bench.executor.settle()
    return bench


def test_a_job_may_wait_for_one_that_is_still_being_planned() -> None:
    bench = one_after_another(PlanJobs)
    first = next(p for p in pending(bench) if isinstance(p.effect, PlanJobs))
    while bench.pool.pending != (first.effect_id,):  # all but the planning goes on
        key = next(key for key in bench.pool.pending if key != first.effect_id)
        bench.pool.call(key)
        bench.pool.deliver(key)
    bench.engine.commit()
    bench.until(lambda: "a_saved" in bench.states(), 30)
    bench.until(bench.is_("a_saved", JobState.COMPLETED), 60)
    assert not bench.engine.state.warnings


def test_a_job_depends_on_what_joined_while_it_was_being_planned() -> None:
    bench = one_after_another(AddJob)
    bench.engine.commit()
    first = next(p for p in pending(bench) if isinstance(p.effect, PlanJobs))
    then = next(p for p in pending(bench) if isinstance(p.effect, AddJob))
    for key in (first.effect_id, then.effect_id):
        bench.pool.call(key)
    for key in (first.effect_id, then.effect_id):
        bench.pool.deliver(key)
        bench.engine.commit()
    bench.until(bench.is_("a_saved", JobState.COMPLETED), 60)
    assert bench.job("a_saved").spec.depends_on == ("a_eval10",)
    assert not bench.engine.state.warnings


def pending(bench: Bench) -> list[PendingEffect]:
    return list(bench.engine.state.pending.values())


# ----------------------------------------------------------------------- front ends
def test_a_viewer_folds_what_joined() -> None:
    bench = acting(EVALUATE)
    bench.until(lambda: len(bench.states()) == 2, 30)
    session = bench.world.session
    folded = FoldedSession(session.load())
    assert folded.state.jobs == bench.engine.state.jobs
    assert folded.state.plan == bench.engine.state.plan


# --------------------------------------------------------------- killed at any moment
KILLS: Final[tuple[Literal["killed_before", "killed_after"], ...]] = (
    "killed_before",
    "killed_after",
)


def campaign() -> Bench:
    return acting(
        EVALUATE, CONVERT, script=saving(10, 20, seconds=30.0), command=("train",)
    )


END = dict.fromkeys(("a", "a_eval10", "a_eval20", "a_saved", "a_saved_2"), "COMPLETED")


def test_an_engine_killed_at_any_write_plans_each_match_once() -> None:
    whole = campaign()
    run_to_the_end(whole, 0)
    assert whole.states() == END
    for at in range(2, whole.world.session.appends):
        for kind in KILLS:
            bench = campaign()
            bench.world.session.faults[at] = DiskFault(kind=kind)
            run_to_the_end(bench, 1)
            bench.run(60)
            assert bench.states() == END, (at, kind)
            assert len(bench.executor.begun) == len(END), (at, kind)
            assert not bench.world.faults


@pytest.mark.parametrize("steps", range(2, 160, 9))
def test_an_engine_killed_between_any_two_steps_plans_each_match_once(
    steps: int,
) -> None:
    bench = campaign()
    bench.single_steps(steps)
    bench.start()
    run_to_the_end(bench, 0)
    bench.run(60)
    assert bench.states() == END
    assert len(bench.executor.begun) == len(END)


def test_planning_that_hangs_stalls_nobody() -> None:
    bench = acting(EVALUATE, script=saving(10, seconds=20.0))
    while bench.job("a").state is not JobState.COMPLETED:
        bench.engine.commit()
        planning = {
            effect_id
            for effect_id, pending in bench.engine.state.pending.items()
            if isinstance(pending.effect, PlanJobs)
        }
        for key in set(bench.pool.pending) - planning:
            bench.pool.call(key)
            bench.pool.deliver(key)
        bench.clock.advance(0.5)
        bench.executor.settle()
    assert list(bench.states()) == ["a"]
    bench.until(lambda: "a_eval10" in bench.states(), 30)


def test_a_session_is_open_until_the_plan_that_a_rule_ordered_has_come() -> None:
    bench = acting(EVALUATE, script=saving(10, seconds=2.0))
    bench.until(lambda: "a_eval10" in bench.states(), 30)
    bench.until(bench.is_("a_eval10", JobState.COMPLETED), 60)
    bench.run(2)
    ended = [shown for shown in bench.snapshots if all(job.ended for job in shown.jobs)]
    assert any(shown.open for shown in ended)
    assert all(shown.open == bool(shown.pending) for shown in ended)
    assert not bench.snapshots[-1].open
