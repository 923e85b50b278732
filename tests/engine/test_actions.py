"""What rules do beside restarts: ending as done, files, commands; now, later, once."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

import pytest

from autoexp_tui.actions.command import RunCommand
from autoexp_tui.actions.notify import AppendToFile, Log, Notify
from autoexp_tui.actions.restart import Restart
from autoexp_tui.actions.stop import Finish
from autoexp_tui.conditions.kinds import (
    Cooldown,
    FileExists,
    JobStateIs,
    MaxAttempts,
    MetadataIs,
)
from autoexp_tui.effects.errands import AppendText, RunActionCommand
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.action import Action
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.rules import LogEvent, Monitoring, StateEvent
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.states import JobState
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write
from tests.support.memory_journal import Fault as DiskFault
from tests.support.memory_journal import Killed

OK = RunScript(seconds=5.0)
LONG = 300.0


def says(at: float, text: str) -> Write:
    return Write(at=at, data=text.encode() + b"\n")


def saving(*iterations: int, seconds: float = LONG) -> RunScript:
    """A run that saves checkpoints, one every two seconds."""
    lines = enumerate(iterations, 1)
    writes = tuple(says(at * 2.0, f"saved {n} to /ckpt/{n}") for at, n in lines)
    return RunScript(seconds=seconds, writes=writes)


def on_save(*actions: Action, once: bool = False) -> Monitoring:
    """Rules that act on each checkpoint."""
    saved = LogEvent(
        name="saved",
        pattern=r"saved (?P<n>\d+) to (?P<path>\S+)",
        pattern_type="regex",
        extract_groups={"iteration": "n", "checkpoint_path": "path"},
        match_once=once,
        actions=actions,
    )
    return Monitoring(log_events=(saved,))


def acting(*actions: Action, script: RunScript | None = None) -> Bench:
    """One job that saves checkpoints 10, 20, 30, and rules over them."""
    the_plan = plan(job("a"), monitoring=on_save(*actions))
    return Bench(the_plan, {"a": [[script or saving(10, 20, 30)], [OK]]})


def dropped(bench: Bench) -> list[str]:
    happened = bench.happened(events.ActionDropped)
    return [event.why.code for event in happened]


def logged(bench: Bench) -> list[str]:
    happened = bench.happened(events.MessageLogged)
    return [event.text for event in happened]


def put_off(bench: Bench) -> list[str]:
    happened = bench.happened(events.ActionDeferred)
    return [event.why.code for event in happened]


# ------------------------------------------------------------------------------ finish
def test_a_finished_job_has_completed_and_says_by_which_line() -> None:
    bench = acting(Finish(reason="enough at {iteration}"))
    bench.until(bench.is_("a", JobState.COMPLETED), 60)
    record = bench.job("a")
    assert record.why is not None
    assert record.cause is None
    assert record.why.arg("reason") == "enough at 10"
    assert record.why.arg("line") == "saved 10 to /ckpt/10"
    happened = bench.happened(events.EffectOrdered)
    assert sum(event.finish for event in happened) == 1  # though other lines match too


def test_an_attempt_that_ended_badly_may_be_good_enough_by_rule() -> None:
    rule = StateEvent(name="enough", state="crash", actions=(Finish(reason="ok"),))
    crash = RunScript(seconds=2.0, exit_code=1)
    bench = Bench(
        plan(job("a"), monitoring=Monitoring(state_events=(rule,))), {"a": [[crash]]}
    )
    bench.until(bench.is_("a", JobState.COMPLETED))
    assert bench.why("a").code == "finished_by_rule"


def test_of_a_restart_and_a_finish_the_first_rule_wins() -> None:
    rules = Monitoring(
        state_events=(
            StateEvent(
                name="c",
                state="crash",
                actions=(Restart(conditions=(MaxAttempts(max_attempts=2),)), Finish()),
            ),
        )
    )
    crash = RunScript(seconds=2.0, exit_code=1)
    bench = Bench(plan(job("a"), monitoring=rules), {"a": [[crash], [OK]]})
    bench.until(bench.is_("a", JobState.COMPLETED))
    assert len(bench.job("a").attempts) == 2


def test_a_person_s_kill_before_it_is_not_turned_into_success() -> None:
    bench = acting(Finish(), script=saving(10))
    bench.until(bench.is_("a", JobState.RUNNING))
    bench.order(commands.Kill(jobs=("a",)))
    bench.until(bench.is_("a", JobState.CANCELLED), 60)


# ---------------------------------------------------------------- files and commands
def test_a_line_for_each_match_is_added_to_the_file() -> None:
    bench = acting(AppendToFile(path="/notes/{name}.txt", text="{iteration}: {line}"))
    bench.run(20)
    assert bench.world.errands.written == {
        "/notes/a.txt": "10: saved 10 to /ckpt/10\n20: saved 20 to /ckpt/20\n"
        "30: saved 30 to /ckpt/30\n"
    }


@pytest.mark.parametrize(("path", "below"), [("n.txt", "/project"), ("/n.txt", "")])
def test_a_relative_file_stays_below_where_the_job_runs(path: str, below: str) -> None:
    the_plan = plan(
        job("a", cwd="/project"),
        monitoring=on_save(AppendToFile(path=path, text="x"), once=True),
    )
    bench = Bench(the_plan, {"a": [[saving(10)]]})
    bench.run(10)
    (ordered,) = bench.ordered(AppendText)
    assert ordered.below == below
    lies = below + "/n.txt"
    assert list(bench.world.errands.written) == [lies]


def test_a_command_gets_the_values_as_words_of_its_own() -> None:
    action = RunCommand(
        command=("convert", "{checkpoint_path}", "--name={name}"),
        env={"ITERATION": "{iteration}"},
    )
    bench = acting(action, script=saving(10))
    bench.run(10)
    assert bench.world.errands.ran == [("convert", "/ckpt/10", "--name=a")]
    (ordered,) = bench.ordered(RunActionCommand)
    assert ordered.env["AUTOEXP_VALUE_CHECKPOINT_PATH"] == "/ckpt/10"
    assert "saved 10" in ordered.env["AUTOEXP_VALUE_LINE"]


def test_a_log_s_words_never_become_a_shell_s() -> None:
    evil = RunScript(seconds=30.0, writes=(says(2.0, "saved 10 to /x;rm"),))
    shell = RunCommand(command=("sh", "-c", "convert {checkpoint_path}"))
    plain = RunCommand(command=("convert", "{checkpoint_path}"))
    bench = acting(shell, plain, script=evil)
    bench.until(bench.is_("a", JobState.COMPLETED), 60)
    bench.run(2)
    assert bench.world.errands.ran == []
    assert dropped(bench) == ["value_refused", "value_refused"]
    told = [event.why.code for event in bench.happened(events.WarningRaised)]
    assert told.count("value_refused") == 2


def test_a_command_that_fails_is_warned_about_with_its_words() -> None:
    bench = acting(RunCommand(command=("convert", "x")), script=saving(10))
    bench.world.errands.exit_code = 3
    bench.run(10)
    (warning,) = bench.engine.state.warnings.values()
    assert (warning.why.code, warning.job) == ("action_failed", "a")
    assert "exit 3" in str(warning.why.arg("problem"))


def done_outside(bench: Bench) -> list[object]:
    errands = bench.world.errands
    return [*errands.ran, *errands.written.values()]


@pytest.mark.parametrize(
    "action",
    [RunCommand(command=("convert", "x")), AppendToFile(path="/n", text="x")],
)
def test_what_an_engine_died_over_is_asked_about_and_not_repeated(
    action: Action,
) -> None:
    bench = acting(action, script=saving(10, seconds=20.0))
    while not done_outside(bench):  # and its answer is still on its way
        bench.engine.commit()
        if not bench.pool.step():
            bench.clock.advance(0.5)
            bench.executor.settle()
    bench.start()
    bench.until(bench.is_("a", JobState.COMPLETED), 60)
    assert len(done_outside(bench)) == 1
    codes = bench.warned()
    assert codes == ["uncertain_effect"]


# ------------------------------------------------------------- conditions: now or later
def test_an_action_in_its_cooldown_fires_when_it_is_over_without_other_news() -> None:
    action = Log(
        message="at {iteration}", conditions=(Cooldown(cooldown_seconds=60.0),)
    )
    bench = acting(action)
    bench.run(30)
    assert logged(bench) == ["at 10"]
    bench.run(50)
    assert logged(bench) == ["at 10", "at 30"]


def test_a_deferred_action_is_taken_up_by_the_next_engine_with_its_line() -> None:
    ready = FileExists(path="/ready")
    bench = acting(
        AppendToFile(path="/n", text="{line}", conditions=(ready,)),
        script=saving(10),
    )
    bench.run(20)
    bench.start()
    bench.files.append("/ready", b"x")
    bench.run(5)
    assert bench.world.errands.written == {"/n": "saved 10 to /ckpt/10\n"}


def test_an_action_outside_outlives_the_job_that_it_was_put_off_for() -> None:
    ready = FileExists(path="/ready")
    bench = acting(
        Notify(message="{name} is ready", conditions=(ready,)),
        script=saving(10, seconds=6.0),
    )
    bench.until(bench.is_("a", JobState.COMPLETED))
    bench.start()
    bench.files.append("/ready", b"x")
    bench.run(5)
    (warning,) = bench.engine.state.warnings.values()
    assert warning.why.arg("text") == "a is ready"
    assert not bench.job("a").deferred


@pytest.mark.parametrize("action", [Finish, Restart])
def test_an_action_on_the_run_is_dropped_with_the_job(
    action: type[Finish | Restart],
) -> None:
    ready = FileExists(path="/ready")
    bench = acting(action(conditions=(ready,)), script=saving(10, seconds=6.0))
    bench.until(bench.is_("a", JobState.COMPLETED))
    assert dropped(bench) == ["job_is_over"]
    assert not bench.job("a").deferred
    assert len(bench.job("a").attempts) == 1


def test_time_without_an_engine_does_not_count_for_a_deferred_action() -> None:
    ready = FileExists(path="/ready", timeout_seconds=40.0)
    bench = acting(Log(message="x", conditions=(ready,)), script=saving(10))
    bench.run(20)
    bench.die(gone_for=100.0)
    bench.run(10)
    assert dropped(bench) == []
    bench.run(20)
    assert dropped(bench) == ["start_timeout"]


def test_an_action_whose_condition_fails_is_dropped_with_the_reason() -> None:
    action = Log(message="x", conditions=(MaxAttempts(max_attempts=1),))
    bench = acting(action, script=saving(10))
    bench.run(10)
    assert dropped(bench) == ["attempts_spent"]


def test_a_value_of_another_job_is_waited_for() -> None:
    append = AppendToFile(path="/n", text="{runtime.b.score}")
    score = LogEvent(
        name="score",
        pattern=r"score (?P<s>\S+)",
        pattern_type="regex",
        extract_groups={"score": "s"},
    )
    rules = on_save(append, once=True)
    the_plan = plan(
        job("a"),
        job("b", 1),
        monitoring=Monitoring(log_events=(*rules.log_events, score)),
    )
    late = RunScript(seconds=60.0, writes=(says(20.0, "score 0.9"),))
    bench = Bench(the_plan, {"a": [[saving(10, seconds=5.0)]], "b": [[late]]})
    bench.until(bench.is_("a", JobState.COMPLETED))
    assert put_off(bench) == ["no_metadata"]
    bench.run(25)
    assert bench.world.errands.written == {"/n": "0.9\n"}


# ------------------------------------------------------------------- restarts on hold
CRASH = RunScript(seconds=4.0, exit_code=1)


def restarting(*conditions: Condition, written: str = "") -> Bench:
    """A job that crashes once, a restart with conditions, and who waits for the job."""
    restart = Restart(conditions=conditions)
    rule = StateEvent(name="c", state="crash", actions=(restart,))
    waits = (JobStateIs(jobs=("a",), state="COMPLETED"),)
    the_plan = plan(
        job("a"),
        job("b", 1, start_conditions=waits),
        monitoring=Monitoring(state_events=(rule,)),
    )
    writes = (Write(at=1.0, data=b"x", path=written),) if written else ()
    crash = replace(CRASH, writes=writes)
    return Bench(the_plan, {"a": [[crash], [OK]]})


SAVED = FileExists(path="{output_dir}/saved")


def test_a_restart_looks_for_a_file_before_it_is_decided() -> None:
    bench = restarting(SAVED, written="/out/a/saved")
    bench.until(bench.is_("b", JobState.COMPLETED))
    assert len(bench.job("a").attempts) == 2


def test_a_restart_without_the_file_that_it_needs_is_dropped() -> None:
    bench = restarting(SAVED)
    bench.until(bench.is_("b", JobState.SKIPPED))
    record = bench.job("a")
    assert (record.state, len(record.attempts)) == (JobState.FAILED, 1)
    assert record.why is not None
    assert record.why.code == "exit_code"
    assert dropped(bench) == ["file_missing"]


def test_a_cooldown_does_not_stand_for_the_other_conditions() -> None:
    bench = restarting(SAVED, Cooldown(cooldown_seconds=5.0))
    bench.until(bench.is_("b", JobState.SKIPPED))
    assert len(bench.job("a").attempts) == 1


def test_a_restart_waits_for_a_file_as_long_as_it_says() -> None:
    bench = restarting(replace(SAVED, timeout_seconds=60.0))
    bench.until(bench.is_("a", JobState.RETRYING))
    bench.run(30)
    assert bench.job("a").state is JobState.RETRYING
    assert bench.job("b").state is JobState.WAITING
    bench.start()
    bench.files.append("/out/a/saved", b"x")
    bench.until(bench.is_("b", JobState.COMPLETED))


def test_a_restart_that_waited_too_long_ends_the_job_as_it_ended() -> None:
    bench = restarting(replace(SAVED, timeout_seconds=60.0))
    bench.until(bench.is_("a", JobState.FAILED), 120)
    record = bench.job("a")
    assert record.cause is not None
    assert record.cause.value == "exit_code"
    assert dropped(bench) == ["start_timeout"]


def test_a_job_kept_for_a_restart_can_be_killed() -> None:
    bench = restarting(replace(SAVED, timeout_seconds=600.0))
    bench.until(bench.is_("a", JobState.RETRYING))
    bench.order(commands.Kill(jobs=("a",)))
    bench.until(bench.is_("a", JobState.CANCELLED))
    bench.files.append("/out/a/saved", b"x")
    bench.run(20)
    assert len(bench.job("a").attempts) == 1


def test_a_log_line_s_restart_waits_for_its_file_while_the_run_lives() -> None:
    bench = acting(Restart(conditions=(FileExists(path="/ready"),)), script=saving(10))
    bench.run(20)
    assert bench.job("a").state is JobState.RUNNING
    bench.files.append("/ready", b"x")
    bench.until(bench.is_("a", JobState.COMPLETED), 60)
    assert len(bench.job("a").attempts) == 2


# ------------------------------------------------------------------ killed at any step
def everything() -> Plan:
    ready = FileExists(path="/ckpt/20/done")
    return plan(
        job("a"),
        job("b", 1, start_conditions=(JobStateIs(jobs=("a",), state="COMPLETED"),)),
        monitoring=on_save(
            RunCommand(command=("eval", "{iteration}")),
            AppendToFile(path="/n", text="{iteration}", conditions=(ready,)),
            Finish(conditions=(MetadataIs(key="iteration", op=">=", value=30),)),
        ),
    )


def run_to_the_end(bench: Bench, deaths: int) -> None:
    """Run; an engine that dies is followed by the next one."""
    for _ in range(deaths + 1):
        try:
            bench.until(lambda: all(j.ended for j in bench.engine.state.jobs.values()))
            bench.run(2)
        except Killed:
            bench.start()
        else:
            return
    raise AssertionError("it died more often than it was killed")


KILLS: Final[tuple[Literal["killed_before", "killed_after"], ...]] = (
    "killed_before",
    "killed_after",
)


def campaign() -> Bench:
    saved = saving(10, 20, 30)
    done = Write(at=5.0, data=b"x", path="/ckpt/20/done")
    script = RunScript(seconds=LONG, writes=(*saved.writes, done))
    return Bench(everything(), {"a": [[script]], "b": [[OK]]})


def test_an_engine_killed_at_any_write_leaves_nothing_done_twice() -> None:
    whole = campaign()
    run_to_the_end(whole, 0)
    appends = whole.world.session.appends
    for at in range(2, appends):
        for kind in KILLS:
            bench = campaign()
            bench.world.session.faults[at] = DiskFault(kind=kind)
            run_to_the_end(bench, 1)
            assert bench.states() == {"a": "COMPLETED", "b": "COMPLETED"}, (at, kind)
            ran = bench.world.errands.ran
            assert len(ran) == len(set(ran)), (at, kind)
            doubts = len(bench.engine.state.warnings)
            lines = bench.world.errands.written.get("/n", "").splitlines()
            assert len(ran) + len(lines) + doubts >= 4, (at, kind)
            assert not bench.world.faults


@pytest.mark.parametrize("steps", range(3, 120, 7))
def test_an_engine_killed_between_any_two_steps_leaves_nothing_undone(
    steps: int,
) -> None:
    bench = campaign()
    bench.single_steps(steps)
    bench.start()
    run_to_the_end(bench, 0)
    assert bench.states() == {"a": "COMPLETED", "b": "COMPLETED"}
    ran = bench.world.errands.ran
    assert len(ran) == len(set(ran))
