"""What a plan names outside: where jobs are to write, and what actions ask for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest

from autoexp_tui.actions.kinds import Log, NewJob, Restart, RunAutoexp, RunCommand
from autoexp_tui.conditions.kinds import CommandPasses
from autoexp_tui.config import plan_checks
from autoexp_tui.config.plan_checks import (
    ActionChecks,
    Finding,
    Quota,
    check_output_places,
)
from autoexp_tui.model.facts import CommandResult
from autoexp_tui.model.rules import Action, LogEvent, Monitoring
from autoexp_tui.model.specs import Plan
from tests.model.builders import job, plan

LEFT: list[Quota] = [(4096, "bytes")]
FEW: Quota = (50 * 1024, "bytes")
JOBS = [job(f"j{n}", n) for n in range(3)]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What statvfs says; changes of the dict change it. No quota."""
    told: dict[str, Any] = {
        "f_blocks": 1 << 42, "f_bavail": 1 << 40, "f_frsize": 1, "f_files": 10_000,
        "f_favail": 9_000, "f_flag": 0,
    }  # fmt: skip
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(**told))
    told["quota"] = None
    monkeypatch.setattr(
        plan_checks, "read_quotas", lambda _: filter(None, [told["quota"]])
    )
    return told


def said(found: Sequence[Finding]) -> tuple[list[str], list[str]]:
    """What stops a plan, and what does not."""
    stops = [str(problem) for problem, is_error in found if is_error]
    return stops, [str(problem) for problem, is_error in found if not is_error]


OTHER = "choose another directory that you may write to"
ROOM = "make room, or choose another directory; checkpoints are large"


@pytest.mark.parametrize(("change", "stops", "message"), [
    ({"f_bavail": 100 << 20},
     *(True, f"105 MB free at {{}}\n    {ROOM}")),
    ({"f_bavail": 1 << 30}, False, f"1.07 GB free at {{}}\n    {ROOM}"),
    *(
        ({"f_favail": left}, left == 2,
         f"{left} more files can be made at {{}}\n    {ROOM}") for left
        in (2, 40)),
    ({"f_flag": os.ST_RDONLY}, True, f"{{}} is mounted read-only\n    {OTHER}"),
    pytest.param({"f_blocks": 0, "f_bavail": 0}, False, "", id="no size told"),
    pytest.param({"f_files": 0, "f_favail": 0}, False, "", id="no inodes told"),
    *(({"quota": quota}, stops, f"your quota at {{}} leaves {told}\n    {ROOM}")
      for quota, stops, told in (
          ((100_000 * 1024, "bytes"), True, "102 MB"), ((0, "files"), True, "0 files"),
          ((1_000_000 * 1024, "bytes"), False, "1.02 GB"),
          ((390, "files"), False, "390 files"))),
])  # fmt: skip
def test_what_the_file_system_and_the_quota_say_is_told(
    disk: dict[str, Any],
    tmp_path: Path,
    change: dict[str, Any],
    message: str,
    *,
    stops: bool,
) -> None:
    disk |= change
    told = [f"project.base_output_dir: {message}".format(tmp_path)] if message else []
    wanted = (told, []) if stops else ([], told)
    assert said(check_output_places(tmp_path, JOBS)) == wanted


@pytest.mark.usefixtures("disk")
def test_a_directory_of_others_or_a_file_in_its_place_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> list[str]:
        return said(check_output_places(tmp_path / "out", JOBS))[0]

    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        message = f"out cannot be made: you may not write to {tmp_path}\n    {OTHER}"
        assert told() == [f"project.base_output_dir: {tmp_path}/{message}"]
    (tmp_path / "out").touch()
    message = f"{tmp_path}/out is a file, not a directory\n    {OTHER}"
    assert told() == [f"project.base_output_dir: {message}"]


@pytest.mark.parametrize(("kind", "printed", "expected"), [
    ("lustre", {"lfs": "/x 5 9 0 0 1 0 0 0"}, LEFT),
    ("lustre", {"lfs": "/x 250* 200 300 6d 10 0 20 -"}, [FEW, (10, "files")]),
    ("lustre", {"lfs": "/x 250 0 0 0 10 0 0 0"}, []),
    ("lustre", {"lfs": "Cannot resolve"}, []),
    ("lustre", {"lfs": ""}, []),
    ("ext4", {"quota": "Disk quotas\n/dev/b 1 2\n/dev/a 5 9 0 0 1 0 0 0"}, LEFT),
    ("ext4", {}, []),
    ("", {"quota": "/dev/a 5 9 0 0 1 0 0 0"}, []),
])  # fmt: skip
def test_the_quota_is_asked_of_the_file_system_s_own_tool_and_read_as_it_writes_it(
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    printed: dict[str, str],
    expected: list[Quota],
) -> None:
    printed = printed | {"df": f"Type Filesystem\n{kind} /dev/a" if kind else ""}

    def run(command: Sequence[str], _: float) -> CommandResult:
        text = printed.get(command[0])
        return CommandResult(None if text is None else 0, text or "")

    monkeypatch.setattr("shutil.which", printed.get)
    monkeypatch.setattr(plan_checks, "run_bounded", run)
    assert list(plan_checks.read_quotas(Path("/x"))) == expected


def test_a_look_that_hangs_is_told_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    def hang(*_: object) -> Sequence[object]:
        over.wait(60)
        return ()

    monkeypatch.setattr(plan_checks, "find_problems", hang)
    found = check_output_places(tmp_path, JOBS, seconds=0.05)
    over.set()
    message = (
        f"{tmp_path} did not answer within 0.05 s\n    look at it with `df`; jobs "
    )
    message += "that write there would hang as well"
    assert said(found) == ([], [f"project.base_output_dir: {message}"])


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


WRITE = """'ls "$1"', "--", "{loss}"]"""
BAD = "cannot be read", "quote the value"


@pytest.mark.parametrize(("action", "is_error", "where", "message", "hint"), [
    (NO_CONFIG, True, ".config_ref", "there is no config `experiments/evaluat`",
     "experiments/evaluate"),
    (RunAutoexp(overrides=BAD_OVERRIDES), True, ".overrides.1", *BAD),
    (Restart(overrides=BAD_OVERRIDES), True, ".overrides.1", *BAD),
    (Restart(overrides=("lr",)), True, ".overrides.0", "is not an override", "key="),
    (RunAutoexp(config_path="best.yaml"), False, ".config_path",
     "best.yaml is not there", ""),
    (RunCommand(command=("surely-no-such", "x")), False, ".command",
     "there is no program surely-no-such here", ""),
    (NewJob(command=("./none.sh",)), False, ".command",
     "there is no program ./none.sh here", ""),
    (NO_NAME, False, "", "{stepp} is told by nothing", "step"),
    *((action, True, "", "no value from a log may stand", WRITE) for action in (
        RunCommand(command=("timeout", "5", "nice", "bash", "-lc", "ls {loss}")),
        RunCommand(command=("ssh", "node", "echo {loss}")),
        RunCommand(command=("python3", "-Ic", "{runtime.a.loss}")),
        NewJob(command=("python3", "{loss}/x.py")),
        Log(message="x", conditions=(CommandPasses(command=("{loss}",)),)))),
])  # fmt: skip
def test_what_an_action_names_is_there_and_a_value_stands_where_it_may(
    check: Check, action: Action, is_error: bool, where: str, message: str, hint: str
) -> None:
    found = check(of_rule(action))
    (one,) = found.errors if is_error else found.warnings
    assert is_error or not found.errors
    assert one.where == AT + where
    assert message in one.message
    assert hint in one.hint


@pytest.mark.parametrize("action", [
    RunAutoexp(config_ref="experiments/{stage}"),
    RunAutoexp(config_path="{output_dir}/config.yaml"),
    RunCommand(command=("{output_dir}/run.sh",)),
    Log(message="{name} {line} {step} {runtime.a.step} {{no}}"),
])  # fmt: skip
def test_what_holds_a_reference_is_known_only_later(
    check: Check, action: Action
) -> None:
    found = check(of_rule(action))
    assert [*found.errors, *found.warnings] == []


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
