"""What is typed becomes a command, or is refused with the reason."""

from __future__ import annotations

import pytest

from autoexp_tui.cockpit.render import job_questions as answers
from autoexp_tui.cockpit.render.questions import AnswerError, Choice
from autoexp_tui.model.commands import Resubmit, Skip, Waive


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90m", 5400),
        ("12h", 43200),
        ("1.5h", 5400),
        ("2d", 172800),
        (" 30 s ", 30),
        ("12:00", 43200),
        ("01:30:00", 5400),
        ("1-12:00:00", 129600),
    ],
)
def test_time_limits_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert answers.parse_time_limit(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "12", "-3h", "0m", "1h30"])
def test_what_is_no_time_limit_is_refused(text: str) -> None:
    with pytest.raises(AnswerError):
        answers.parse_time_limit(text)


def test_overrides_are_split_as_a_shell_would() -> None:
    assert answers.parse_overrides("a=1 'b=x y'") == ("a=1", "b=x y")


def test_a_deletion_is_an_override() -> None:
    assert answers.parse_overrides("~a.b") == ("~a.b",)


@pytest.mark.parametrize("text", ["", "lr", "=3", "a=1 b", "a='x"])
def test_what_is_no_override_is_refused(text: str) -> None:
    with pytest.raises(AnswerError):
        answers.parse_overrides(text)


@pytest.mark.parametrize(
    ("choice", "text", "command"),
    [
        ("checkpoint", "", Resubmit(jobs=("a",))),
        ("planned", "", Resubmit(jobs=("a",), from_checkpoint=False)),
        ("overrides", "lr=2", Resubmit(jobs=("a",), overrides=("lr=2",))),
        ("nodes", "n1, n2", Resubmit(jobs=("a",), exclude_nodes=("n1", "n2"))),
        ("limit", "2h", Resubmit(jobs=("a",), time_limit_seconds=7200)),
    ],
)
def test_each_way_to_resubmit_is_its_command(
    choice: str, text: str, command: Resubmit
) -> None:
    assert answers.build_resubmit(["a"], Choice(choice, ""), text) == command


def test_no_node_is_no_exclusion() -> None:
    with pytest.raises(AnswerError):
        answers.build_resubmit(["a"], Choice("nodes", ""), " ,")


def test_skipping_keeps_the_reason() -> None:
    command = answers.build_skip(["a", "b"], Choice("skip", ""), " too slow ")
    assert command == Skip(jobs=("a", "b"), reason="too slow")


def test_waiving_names_the_condition() -> None:
    command = answers.build_skip(["a"], Choice("waive:2", ""), "seen by hand")
    assert command == Waive(job="a", condition=2, reason="seen by hand")


def test_waiving_without_a_reason_is_refused() -> None:
    with pytest.raises(AnswerError):
        answers.build_skip(["a"], Choice("waive:0", ""), "  ")
