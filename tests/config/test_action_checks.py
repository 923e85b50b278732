"""What actions name, looked at before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from autoexp_tui.actions.kinds import Log, NewJob, Restart, RunAutoexp, RunCommand
from autoexp_tui.conditions.kinds import CommandPasses
from autoexp_tui.config.plan_checks import ActionChecks
from autoexp_tui.model.rules import Action, LogEvent, Monitoring
from autoexp_tui.model.specs import Plan
from tests.model.builders import job, plan

Check: TypeAlias = Callable[[Plan], ActionChecks]
AT = "monitoring.log_events.0.actions.0"


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Look at a plan beside a config `experiments/evaluate`."""

    def run(made: Plan) -> ActionChecks:
        checks = ActionChecks(made, (tmp_path / "config",), tmp_path)
        checks.check_plan()
        return checks

    (tmp_path / "config" / "experiments").mkdir(parents=True)
    (tmp_path / "config" / "experiments" / "evaluate.yaml").write_text("a: 1\n")
    return run


def rules(action: Action) -> Monitoring:
    """A rule that tells `step` and `loss` to its action."""
    groups = {"step": "1", "loss": "1"}
    rule = LogEvent(
        name="saved", pattern="step (.*)", extract_groups=groups, actions=(action,)
    )
    return Monitoring(log_events=(rule,))


def of_rule(action: Action) -> Plan:
    return plan(job("a"), monitoring=rules(action))


NO_CONFIG = RunAutoexp(config_ref="experiments/evaluat")
NO_NAME = RunAutoexp(config_ref="experiments/evaluate", overrides=("load={stepp}",))
BAD_OVERRIDES = ("lr={best_lr}", "a=[1,", "b={x} c")


@pytest.mark.parametrize(("action", "where", "message", "hint"), [
    (NO_CONFIG, ".config_ref", "there is no config `experiments/evaluat`",
     "experiments/evaluate"),
    (RunAutoexp(overrides=BAD_OVERRIDES), ".overrides.1", "", ""),
    (Restart(overrides=BAD_OVERRIDES), ".overrides.1", "", ""),
])  # fmt: skip
def test_a_config_that_is_not_there_or_an_override_that_does_not_parse_is_an_error(
    check: Check, action: Action, where: str, message: str, hint: str
) -> None:
    errors = {one.where: one for one in check(of_rule(action)).errors}
    assert message in errors[AT + where].message
    assert hint in errors[AT + where].hint
    assert not any(place.endswith("overrides.0") for place in errors)


@pytest.mark.parametrize(("action", "message"), [
    (RunAutoexp(config_path="best.yaml"), "best.yaml is not there"),
    (RunCommand(command=("surely-no-such", "x")), "is no program surely-no-such here"),
    (NewJob(command=("./none.sh",)), "there is no program ./none.sh here"),
    (NO_NAME, "{stepp} is told by nothing"),
    # what holds a reference is known only later
    (RunAutoexp(config_ref="experiments/{stage}"), ""),
    (RunAutoexp(config_path="{output_dir}/config.yaml"), ""),
    (RunCommand(command=("{output_dir}/run.sh",)), ""),
    (Log(message="{name} {line} {step} {runtime.a.step} {{no}}"), ""),
])  # fmt: skip
def test_what_is_not_there_yet_or_told_by_nothing_is_a_warning(
    check: Check, action: Action, message: str
) -> None:
    found = check(of_rule(action))
    assert not found.errors
    assert len(found.warnings) == bool(message)
    for one in found.warnings:
        assert message in one.message
        assert one.where.startswith(AT)
        assert action is not NO_NAME or "step" in one.hint


@pytest.mark.parametrize("action", [
    RunCommand(command=("timeout", "5", "nice", "bash", "-lc", "ls {loss}")),
    RunCommand(command=("ssh", "node", "echo {line}")),
    RunCommand(command=("python3", "-Ic", "{runtime.a.loss}")),
    NewJob(command=("python3", "{loss}/x.py")),
    Log(message="x", conditions=(CommandPasses(command=("{loss}",)),)),
])  # fmt: skip
def test_a_value_where_none_may_stand_is_an_error_that_says_how_to_write_it(
    check: Check, action: Action
) -> None:
    (found,) = check(of_rule(action)).errors
    assert "no value from a log may stand" in found.message
    assert found.where == AT
    assert """'ls "$1"', "--", "{""" in found.hint


def test_rules_of_one_job_start_conditions_and_notifications_are_looked_at(
    check: Check,
) -> None:
    asks = CommandPasses(command=("sh", "-c", "test -f {runtime.a.path}"))
    waits = plan(job("a"), job("b", 1, start_conditions=(asks,)))
    own = plan(job("a"), job("b", 1, rules="o"), rule_sets={"o": rules(NO_CONFIG)})
    for made, where in ((own, f"{AT}.config_ref"), (waits, "start_conditions.0")):
        (found,) = check(made).errors
        assert (found.job, found.where) == ("b", where)
    for words, told in (  # a notification is no script
        (("bash", "-c"), ["notify.command"]),
        (("ssh", "node", "notify-send"), ["notify.command"]),
        (("mail", "x"), []),
    ):
        made = plan(job("a"), monitoring=Monitoring(notify_command=words))
        assert [one.where for one in check(made).errors] == told
