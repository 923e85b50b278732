"""A start on this machine is told as what it runs, where."""

from __future__ import annotations

from dataclasses import replace

from autoexp_tui.engine.executor_port import Task
from autoexp_tui.executors.local.messages import LONGEST, MOST_TOLD, spelled

TASK = Task(
    job="a",
    attempt=1,
    command=("python", "train.py", "--note=two words"),
    cwd="/data/my runs",
    output_dir="/data/out",
    log_dir="/data/log",
    attempt_dir="/state/a/1",
    env={"TOKEN": "hidden"},
)


def test_the_command_is_quoted_and_its_place_is_told() -> None:
    words = "cd '/data/my runs' && python train.py '--note=two words'  # on node7"
    assert spelled([TASK], "node7") == words


def test_each_command_has_its_line() -> None:
    other = replace(TASK, job="b", command=("true",))
    lines = spelled([TASK, other], "node7").split("\n")
    assert lines[1] == "$ cd '/data/my runs' && true  # on node7"


def test_of_many_commands_the_rest_is_counted() -> None:
    lines = spelled([TASK] * (MOST_TOLD + 5), "node7").split("\n")
    assert len(lines) == MOST_TOLD + 1
    assert lines[-1] == "and 5 more on node7"


def test_the_environment_is_not_told() -> None:
    assert "hidden" not in spelled([TASK], "node7")


def test_a_hostile_command_is_cleaned_and_bounded() -> None:
    hostile = replace(TASK, command=("echo", "\x1b]52;c;eA==\x07" + "x" * 9000))
    told = spelled([hostile], "node7")
    assert "\x1b" not in told
    assert len(told) < LONGEST + 100
