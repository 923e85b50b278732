"""What rules do beside restarts: ending as done, files, commands; now, later, once;
jobs that join a running session."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any, Final, Literal, cast

import pytest

from autoexp_tui.actions.kinds import (
    AppendToFile,
    Finish,
    Log,
    NewJob,
    Notify,
    RunAutoexp,
    RunCommand,
)
from autoexp_tui.conditions.kinds import Cooldown, FileExists, MaxAttempts, MetadataIs
from autoexp_tui.effects.effects import (
    AddJob,
    AppendText,
    PlanJobs,
    RunActionCommand,
    RunNotifyCommand,
)
from autoexp_tui.engine.ports import FurtherPlan
from autoexp_tui.events import events
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.rules import Action, Monitoring
from autoexp_tui.model.specs import Plan, Resources
from tests.engine.bench import Bench, alone, require
from tests.engine.parts import (
    CRASH,
    OK,
    again,
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
from tests.support.memory_journal import Fault, Killed

READY = FileExists(path="/ready")
SAVES = saving(10)
CONVERT = RunCommand(command=("convert", "x"))
SHELL = RunCommand(command=("sh", "-c", "convert {checkpoint_path}"))


def acting(*actions: Action, script: RunScript = SAVES, **of: str) -> Bench:
    """One job that saves checkpoints, and rules over them."""
    return alone(script, OK, rules=on_save(*actions), **of)


def test_a_finished_job_has_completed_and_says_by_which_line() -> None:
    bench = acting(Finish(reason="enough at {iteration}"), script=saving(10, 20, 30))
    bench.reach(60, a="COMPLETED")
    why = bench.why("a")
    assert bench.cause("a") is None
    assert why.arg("reason") == "enough at 10"
    assert why.arg("line") == "saved 10 to /ckpt/10"
    ordered = bench.happened(events.EffectOrdered)
    assert sum(event.finish for event in ordered) == 1  # though other lines match too


@pytest.mark.parametrize(
    ("actions", "code", "attempts"),
    [
        ((Finish(reason="ok"),), "finished_by_rule", 1),
        ((again(2), Finish()), None, 2),
    ],
)
def test_an_attempt_that_ended_badly_may_be_good_enough(
    actions: tuple[Action, ...], code: str | None, attempts: int
) -> None:
    rules = Monitoring(state_events=(on_end("crash", *actions),))
    bench = alone(CRASH, OK, rules=rules)
    bench.reach(a="COMPLETED")
    why = bench.job("a").why
    assert (why and why.code, bench.tries("a")) == (code, attempts)


def test_a_line_for_each_match_is_added_to_a_file_below_where_the_job_runs() -> None:
    text = "{iteration}: {line}"
    appends = [AppendToFile(path=p, text=text) for p in ("/n/{name}.txt", "n.txt")]
    bench = acting(*appends, script=saving(10, 20), cwd="/project")
    bench.run(20)
    lines = "10: saved 10 to /ckpt/10\n20: saved 20 to /ckpt/20\n"
    written = {"/n/a.txt": lines, "/project/n.txt": lines}
    assert bench.world.errands.written == written
    below = [ordered.below for ordered in bench.ordered(AppendText)]
    assert below == ["", "/project"] * 2


def test_a_command_gets_the_values_as_words_of_its_own() -> None:
    words = ("convert", "{checkpoint_path}", "--name={name}")
    bench = acting(RunCommand(command=words, env={"ITERATION": "{iteration}"}))
    bench.run(10)
    assert bench.world.errands.ran == [("convert", "/ckpt/10", "--name=a")]
    (ordered,) = bench.ordered(RunActionCommand)
    assert ordered.env["AUTOEXP_VALUE_CHECKPOINT_PATH"] == "/ckpt/10"
    assert "saved 10" in ordered.env["AUTOEXP_VALUE_LINE"]


def test_a_log_s_words_never_become_a_shell_s() -> None:
    evil = writes(says(2.0, "saved 10 to /x;rm"), seconds=30.0)
    plain = RunCommand(command=("convert", "{checkpoint_path}"))
    bench = acting(SHELL, plain, script=evil)
    bench.reach(60, a="COMPLETED")
    bench.run(2)
    assert bench.world.errands.ran == []
    assert bench.dropped() == ["value_refused"] * 2
    assert bench.codes(events.WarningRaised).count("value_refused") == 2


def test_a_command_that_fails_is_warned_about_with_its_words() -> None:
    bench = acting(CONVERT)
    bench.world.errands.exit_code = 3
    bench.run(10)
    warning = bench.warning()
    assert (warning.why.code, warning.job) == ("action_failed", "a")
    assert "exit 3" in str(warning.why.arg("problem"))


def done_outside(bench: Bench) -> list[object]:
    errands = bench.world.errands
    return [*errands.ran, *errands.written.values()]


@pytest.mark.parametrize("action", [CONVERT, AppendToFile(path="/n", text="x")])
def test_what_an_engine_died_over_is_asked_about_and_not_repeated(
    action: Action,
) -> None:
    bench = acting(action, script=saving(10, seconds=20.0))
    while not done_outside(bench):  # and its answer is still on its way
        bench.single_steps(1)
    bench.start()
    bench.reach(60, a="COMPLETED")
    assert len(done_outside(bench)) == 1
    assert bench.warned() == ["uncertain_effect"]


def test_an_action_in_its_cooldown_fires_when_it_is_over_without_other_news() -> None:
    log = Log(message="at {iteration}", conditions=(Cooldown(cooldown_seconds=60.0),))
    bench = acting(log, script=saving(10, 20, 30))
    bench.run(30)
    assert bench.logged() == ["at 10"]
    bench.run(50)
    assert bench.logged() == ["at 10", "at 30"]


@pytest.mark.parametrize("seconds", [300.0, 6.0])
def test_an_action_outside_outlives_the_job_that_it_was_put_off_for(
    seconds: float,
) -> None:
    """And the engine; it keeps its line."""
    notify = Notify(message="{name}: {line}", conditions=(READY,))
    bench = acting(notify, script=saving(10, seconds=seconds))
    bench.run(20)
    assert bench.state("a") == ("RUNNING" if seconds > 20 else "COMPLETED")
    bench.start()
    bench.files.append("/ready", b"x")
    bench.run(5)
    assert bench.warning().why.arg("text") == "a: saved 10 to /ckpt/10"
    assert not bench.job("a").deferred


def test_what_a_rule_did_outside_in_vain_is_told() -> None:
    bench = acting(AppendToFile(path="/n", text="x"), CONVERT)
    bench.world.errands.problem, bench.world.errands.exit_code = "read-only", 3
    bench.run(10)
    assert bench.warned() == ["action_failed"] * 2
    told = [bench.words(one.why) for one in bench.engine.state.warnings.values()]
    assert "read-only" in told[0]
    assert "exit 3" in told[1]


def test_a_notice_runs_the_user_s_command_with_its_words() -> None:
    rules = replace(on_save(Notify(message="{name} saved")), notify_command=("mail",))
    bench = alone(SAVES, OK, rules=rules)
    bench.run(10)
    (sent,) = bench.ordered(RunNotifyCommand)
    assert (sent.command, sent.message) == (("mail",), "a saved")
    (settled,) = bench.happened(events.EffectSettled)[1:]
    assert settled.outcome == "ok"


def test_a_value_that_the_other_job_ended_without_is_not_waited_for() -> None:
    note = AppendToFile(path="/n", text="{runtime.b.score}")
    jobs = plan(job("a"), job("b", 1), monitoring=on_save(note))
    bench = Bench(jobs, {"a": [[saving(10)]], "b": [[RunScript(seconds=20.0)]]})
    bench.run(10)
    assert bench.dropped() == []
    bench.reach(b="COMPLETED")
    bench.run(5)
    assert bench.dropped() == ["value_never_came"]


def test_a_restart_whose_overrides_lack_a_value_runs_without_them() -> None:
    rules = Monitoring(state_events=(on_end("crash", again(overrides=("x={y}",))),))
    bench = alone(CRASH, OK, rules=rules)
    bench.reach(a="COMPLETED")
    assert bench.logged() == ["restarted without its overrides: no value for y yet"]
    assert bench.tries("a") == 2


@pytest.mark.parametrize("action", [Finish(), again()])
def test_an_action_on_the_run_is_dropped_with_the_job(action: Finish) -> None:
    waits = replace(action, conditions=(READY,))
    bench = acting(waits, script=saving(10, seconds=6.0))
    bench.reach(a="COMPLETED")
    assert (bench.dropped(), bench.tries("a")) == (["job_is_over"], 1)
    assert not bench.job("a").deferred


SAVED = FileExists(path="{output_dir}/saved")
WAITED = replace(SAVED, timeout_seconds=60.0)


@pytest.mark.parametrize(
    ("conditions", "dropped"),
    [
        ((SAVED,), "file_missing"),
        ((SAVED, Cooldown(cooldown_seconds=5.0)), "file_missing"),
        ((WAITED,), "start_timeout"),
    ],
)
def test_a_restart_without_the_file_that_it_needs_is_dropped(
    conditions: tuple[Condition, ...], dropped: str
) -> None:
    rule = on_end("crash", replace(again(), conditions=conditions))
    both = (job("a"), job("b", 1, start_conditions=(done("a"),)))
    rules = Monitoring(state_events=(rule,))
    bench = Bench(plan(*both, monitoring=rules), {"a": [[CRASH], [OK]]})
    bench.reach(b="SKIPPED")
    assert (bench.state("a"), bench.tries("a")) == ("FAILED", 1)
    assert (bench.cause("a"), bench.why("a").code) == ("exit_code", "exit_code")
    assert bench.dropped() == [dropped]


OVERRIDES = ("project.name={name}_eval{iteration}", "load={checkpoint_path}")
EVALUATE: Final = RunAutoexp(config_ref="evaluate", overrides=OVERRIDES)
CONVERTING: Final = NewJob(command=("convert", "{checkpoint_path}"))
RECOVERED = ("project.name={name}_recovered",)


def evaluating(*overrides: str, **fields: Any) -> RunAutoexp:
    return RunAutoexp(config_ref="evaluate", overrides=overrides, **fields)


def making(*actions: Action, script: RunScript | None = None, **fields: Any) -> Bench:
    """One job that saves checkpoint 10 and runs on, and rules over it."""
    spec = job("a", stage="train", family="f0", **fields)
    scripts = {"a": [[script or saving(10)]], "a_eval10": [[OK], [OK]]}
    return Bench(plan(spec, monitoring=on_save(*actions)), scripts)


def joined(name: str, *actions: Action, **fields: Any) -> Bench:
    """As `making`, until such a job has joined."""
    bench = making(*actions, **fields)
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
    bench = making(action, script=saving(10, seconds=10.0))
    bench.reach(60, a="COMPLETED")
    bench.run(5)
    assert all(words in failure(bench) for words in said)
    assert list(bench.states()) == ["a"]
    assert not bench.engine.state.pending


def test_a_log_s_words_come_into_no_script_of_a_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evil = writes(says(2.0, "saved 10 to /x;reboot"), seconds=30.0)
    bench = making(EVALUATE, script=evil)
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
    like = replace(CONVERTING, env={"B": "{iteration}"})
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
    own = replace(CONVERTING, **where, **small)  # type: ignore[arg-type]
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
    bench = making(EVALUATE, after)
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
    whole = making(EVALUATE, CONVERTING, **how)
    whole.ends()
    whole.run(2)
    kills: Any = ("killed_before", "killed_after")
    for at_write, kind in product(range(2, whole.world.session.appends), kills):
        bench = making(EVALUATE, CONVERTING, **how)
        bench.world.session.faults[at_write] = Fault(kind=kind)
        try:
            bench.ends()
            bench.run(2)
        except Killed:
            bench.start()
        bench.ends()
        bench.run(62)
        assert not bench.world.faults, (at_write, kind)
        assert bench.states() == END
        assert len(bench.executor.begun) == len(END)
