"""What rules do beside restarts: ending as done, files, commands; now, later, once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoexp_tui.actions.kinds import AppendToFile, Finish, Log, Notify, RunCommand
from autoexp_tui.conditions.kinds import Cooldown, FileExists
from autoexp_tui.effects.effects import AppendText, RunActionCommand
from autoexp_tui.events import events
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.rules import Action, Monitoring
from tests.engine.bench import Bench, alone
from tests.engine.parts import (
    CRASH,
    OK,
    again,
    done,
    on_end,
    on_save,
    saving,
    says,
    writes,
)
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript

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
