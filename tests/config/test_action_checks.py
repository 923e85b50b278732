"""What actions name, looked at before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoexp_tui.actions.command import RunCommand
from autoexp_tui.actions.new_job import NewJob, RunAutoexp
from autoexp_tui.actions.notify import Log
from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.kinds import CommandPasses
from autoexp_tui.config.action_checks import ActionChecks
from autoexp_tui.model.action import Action
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.rules import LogEvent, Monitoring
from autoexp_tui.model.specs import Plan
from tests.model.builders import job, plan


class Checks:
    """What is found of all plans that are looked at."""

    def __init__(self, place: Path) -> None:
        self.errors: list[Problem] = []
        self.warnings: list[Problem] = []
        self._place = place

    def check_plan(self, plan: Plan) -> None:
        made = ActionChecks(plan, (self._place / "config",), self._place)
        made.check_plan()
        self.errors += made.errors
        self.warnings += made.warnings


@pytest.fixture
def checks(tmp_path: Path) -> Checks:
    place = tmp_path / "config" / "experiments"
    place.mkdir(parents=True)
    (place / "evaluate.yaml").write_text("a: 1\n")
    (tmp_path / "tool.sh").write_text("#!/bin/sh\n")
    (tmp_path / "tool.sh").chmod(0o755)
    return Checks(tmp_path)


def look(checks: Checks, action: Action) -> None:
    rule = LogEvent(name="saved", pattern="saved", actions=(action,))
    checks.check_plan(plan(job("a"), monitoring=Monitoring(log_events=(rule,))))


def test_a_config_that_is_not_there_is_an_error_with_the_near_one(
    checks: Checks,
) -> None:
    look(checks, RunAutoexp(config_ref="experiments/evaluat"))
    (found,) = checks.errors
    assert found.message == "there is no config `experiments/evaluat`"
    assert found.where == "monitoring.log_events.0.actions.0.config_ref"
    assert "experiments/evaluate" in found.hint


def test_what_holds_a_reference_is_known_only_later(checks: Checks) -> None:
    look(checks, RunAutoexp(config_ref="experiments/{stage}"))
    look(checks, RunAutoexp(config_path="{output_dir}/config.yaml"))
    look(checks, RunCommand(command=("{output_dir}/run.sh",)))
    assert not checks.errors
    assert not checks.warnings


def test_a_file_that_is_not_there_yet_is_a_warning(checks: Checks) -> None:
    look(checks, RunAutoexp(config_path="best.yaml"))
    (found,) = checks.warnings
    assert found.message == "best.yaml is not there"


@pytest.mark.parametrize("program", ["surely-no-such-program", "./none.sh"])
def test_a_program_that_is_not_there_is_a_warning(checks: Checks, program: str) -> None:
    look(checks, RunCommand(command=(program, "x")))
    look(checks, NewJob(command=(program,)))
    assert [w.message for w in checks.warnings] == [
        f"there is no program {program} here"
    ] * 2


@pytest.mark.parametrize("kind", [RunAutoexp, Restart])
def test_an_override_that_hydra_cannot_read_is_an_error(
    checks: Checks, kind: type[RunAutoexp | Restart]
) -> None:
    look(checks, kind(overrides=("lr={best_lr}", "a=[1,", "b={x} c")))
    places = [found.where for found in checks.errors]
    assert "monitoring.log_events.0.actions.0.overrides.1" in places
    assert not any(place.endswith("overrides.0") for place in places)


def test_rules_of_single_jobs_are_looked_at_as_well(checks: Checks) -> None:
    rule = LogEvent(name="r", pattern="x", actions=(RunAutoexp(config_ref="nothing"),))
    own = Monitoring(log_events=(rule,))
    checks.check_plan(plan(job("a"), job("b", 1, rules="o"), rule_sets={"o": own}))
    assert [found.job for found in checks.errors] == ["b"]


def test_a_name_that_nothing_tells_is_a_warning_with_the_near_one(
    checks: Checks,
) -> None:
    action = RunAutoexp(
        config_ref="experiments/evaluate", overrides=("load={checkpoint_pth}",)
    )
    rule = LogEvent(
        name="saved", pattern="to (.*)", extract_groups={"checkpoint_path": "1"},
        actions=(action,),
    )  # fmt: skip
    checks.check_plan(plan(job("a"), monitoring=Monitoring(log_events=(rule,))))
    (found,) = checks.warnings
    assert "{checkpoint_pth} is told by nothing" in found.message
    assert found.where == "monitoring.log_events.0.actions.0"
    assert "checkpoint_path" in found.hint


@pytest.mark.parametrize(
    "text", ["{name}", "{line}", "{step}", "{runtime.a.step}", "{{nothing}}"]
)
def test_what_something_tells_is_no_warning(checks: Checks, text: str) -> None:
    rule = LogEvent(
        name="saved", pattern="step (.*)", extract_groups={"step": "1"},
        actions=(Log(message=text),),
    )  # fmt: skip
    checks.check_plan(plan(job("a"), monitoring=Monitoring(log_events=(rule,))))
    assert not checks.warnings


@pytest.mark.parametrize("action", [
    RunCommand(command=("timeout", "5", "nice", "bash", "-lc", "ls {loss}")),
    RunCommand(command=("ssh", "node", "echo {line}")),
    RunCommand(command=("python3", "-Ic", "{runtime.a.loss}")),
    NewJob(command=("python3", "{loss}/x.py")),
    Log(message="x", conditions=(CommandPasses(command=("{loss}",)),)),
])  # fmt: skip
def test_a_value_where_none_may_stand_is_an_error_that_says_how_to_write_it(
    checks: Checks, action: Action
) -> None:
    rule = LogEvent(
        name="r", pattern="(?P<l>.)", extract_groups={"loss": "l"}, actions=(action,)
    )
    checks.check_plan(plan(job("a"), monitoring=Monitoring(log_events=(rule,))))
    (found,) = checks.errors
    assert "no value from a log may stand" in found.message
    assert found.where == "monitoring.log_events.0.actions.0"
    assert """'ls "$1"', "--", "{""" in found.hint


def test_a_start_condition_s_command_is_checked_as_a_rule_s(checks: Checks) -> None:
    asks = CommandPasses(command=("sh", "-c", "test -f {runtime.a.path}"))
    checks.check_plan(plan(job("a"), job("b", 1, start_conditions=(asks,))))
    (found,) = checks.errors
    assert (found.job, found.where) == ("b", "start_conditions.0")


def test_a_notification_is_no_script(checks: Checks) -> None:
    for command in (("bash", "-c"), ("ssh", "node", "notify-send")):
        checks.check_plan(plan(job("a"), monitoring=Monitoring(notify_command=command)))
    assert [found.where for found in checks.errors] == ["notify.command"] * 2
    checks.check_plan(
        plan(job("a"), monitoring=Monitoring(notify_command=("mail", "x")))
    )
    assert len(checks.errors) == 2
