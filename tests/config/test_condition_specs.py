from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from autoexp_tui.actions.of_run import Finish, Restart
from autoexp_tui.actions.outside import AppendToFile, RunCommand
from autoexp_tui.conditions import kinds as condition_kinds
from autoexp_tui.config.specs import (
    ACTIONS,
    CONDITIONS,
    RULES,
    parse_action,
    parse_condition,
    parse_metric_file,
)
from autoexp_tui.model import rules as rule_kinds
from autoexp_tui.model.action import Action
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import SpecRefused
from tests.support.refusals import read_refusals

Parse = Callable[[object, str], object]


def refused(parse: Parse, value: object) -> tuple[Problem, ...]:
    with pytest.raises(SpecRefused) as caught:
        parse(value, "w")
    return caught.value.problems


@pytest.mark.parametrize(
    ("value", "spec"),
    [
        (
            {"class_name": "FileExists", "path": "a", "timeout_seconds": 10},
            condition_kinds.FileExists(path="a", timeout_seconds=10),
        ),
        (
            {"class_name": "FileExistsCondition", "glob": "a/*", "min_size": 5},
            condition_kinds.FileExists(path="a/*", glob=True, min_size=5),
        ),
        (
            {"class_name": "FileExists", "path": "a/*", "glob": True},
            condition_kinds.FileExists(path="a/*", glob=True),
        ),
        (
            {"class_name": "FileExists", "path": "a", "fresh": False},
            condition_kinds.FileExists(path="a", fresh=False),
        ),
        (
            {"class_name": "FileContent", "path": "a", "pattern": "x", "fresh": False},
            condition_kinds.FileContent(path="a", pattern="x", fresh=False),
        ),
        (
            {"class_name": "FileContent", "path": "a", "pattern": "x", "mode": "regex"},
            condition_kinds.FileContent(path="a", pattern="x", mode="regex"),
        ),
        (
            {"class_name": "MetadataCondition", "key": "k", "equals": 8000},
            condition_kinds.MetadataIs(key="k", value=8000),
        ),
        (
            {"class_name": "Metadata", "key": "k", "op": ">=", "value": 1, "job": "j"},
            condition_kinds.MetadataIs(key="k", op=">=", value=1, job="j"),
        ),
        (
            {"class_name": "Metric", "name": "loss", "op": "<", "value": 3},
            condition_kinds.MetricIs(name="loss", op="<", value=3.0),
        ),
        (
            {"class_name": "SlurmStateCondition", "job_name": "j", "state": "failed"},
            condition_kinds.JobStateIs(jobs=("j",), state="FAILED"),
        ),
        (
            {"class_name": "JobState", "job_name": ["a", ["b"]], "state": "TIMEOUT"},
            condition_kinds.JobStateIs(jobs=("a", "b"), state="TIMEOUT"),
        ),
        (
            {"class_name": "Command", "command": ["test", "-f", "x"], "timeout": 3},
            condition_kinds.CommandPasses(command=("test", "-f", "x"), timeout=3.0),
        ),
        (
            {"class_name": "LogPattern", "log_path": "l", "pattern": "a|b"},
            condition_kinds.LogPattern(log_path="l", pattern="a|b"),
        ),
        (
            {
                "class_name": "LogPattern",
                "log_pattern": "*.log",
                "pattern": "a",
                "check_mode": "all",
            },
            condition_kinds.LogPattern(
                log_path="*.log", glob=True, pattern="a", check_mode="all"
            ),
        ),
        (
            {"class_name": "Time", "at": "2030-05-01T10:00+02:00"},
            condition_kinds.TimeReached(at=1903852800.0),
        ),
        (
            {"class_name": "Time", "after_seconds": 5},
            condition_kinds.TimeReached(after_seconds=5.0),
        ),
        (
            {"class_name": "Approval", "prompt": "?", "show_files": "a"},
            condition_kinds.Approval(prompt="?", show_files=("a",)),
        ),
        (
            {"class_name": "Approval", "show_files": ["a", ["b"]], "blocking": False},
            condition_kinds.Approval(show_files=("a", "b"), blocking=False),
        ),
        (
            {"class_name": "MaxAttempts", "max_attempts": 3},
            condition_kinds.MaxAttempts(max_attempts=3),
        ),
        (
            {"class_name": "Cooldown", "cooldown_seconds": 2.5},
            condition_kinds.Cooldown(cooldown_seconds=2.5),
        ),
        (
            {
                "class_name": "Composite",
                "mode": "any",
                "conditions": [
                    {
                        "class_name": "Not",
                        "condition": {"class_name": "FileExists", "path": "stop"},
                    }
                ],
            },
            condition_kinds.Composite(
                mode="any",
                conditions=(
                    condition_kinds.Not(
                        condition=condition_kinds.FileExists(path="stop")
                    ),
                ),
            ),
        ),
    ],
)
def test_a_mapping_becomes_its_condition(
    value: Mapping[str, Any], spec: condition_kinds.Condition
) -> None:
    assert parse_condition(value, "w") == spec


def test_a_class_of_one_s_own_takes_its_fields_and_those_of_all_conditions() -> None:
    value = {
        "class_name": "tests.conditions.own_classes:EnoughLines",
        "path": "/a",
        "lines": 2,
        "timeout_seconds": 60,
        "description": "enough",
    }
    assert parse_condition(value, "w") == condition_kinds.OwnCondition(
        class_path="tests.conditions.own_classes:EnoughLines",
        fields={"path": "/a", "lines": 2},
        timeout_seconds=60,
        description="enough",
    )


def test_a_class_of_one_s_own_that_does_not_take_its_fields_is_refused() -> None:
    value = {"class_name": "tests.conditions.own_classes:Later", "when": 1}
    found = refused(parse_condition, value)[0]
    assert found.where == "w.class_name"
    assert "unexpected keyword argument 'when'" in found.message


def test_every_condition_and_action_of_core_can_be_written() -> None:
    made = {kind.spec for kind in (*CONDITIONS.values(), *ACTIONS.values())}

    assert made | {condition_kinds.OwnCondition} == {
        *Condition.kinds.values(),
        *Action.kinds.values(),
    }


@pytest.mark.parametrize(
    ("value", "where", "message", "hint"),
    read_refusals(__file__, "a_bad_condition_says_where_what_and_the_next_step"),
)
def test_a_bad_condition_says_where_what_and_the_next_step(
    value: object, where: str, message: str, hint: str
) -> None:
    found = refused(parse_condition, value)[0]

    assert (found.where, found.message) == (where, message)
    assert found.hint.startswith(hint)


ENDLESS = float("inf")
NONE = float("nan")


@pytest.mark.parametrize(
    ("value", "where", "message"),
    read_refusals(__file__, "a_condition_that_could_never_hold_as_written_is_refused"),
)
def test_a_condition_that_could_never_hold_as_written_is_refused(
    value: object, where: str, message: str
) -> None:
    found = refused(parse_condition, value)[0]

    assert (found.where, found.message) == (where, message)


def test_an_own_conditions_field_that_no_journal_can_hold_is_refused() -> None:
    value = {
        "class_name": "autoexp_tui.testing.own_condition:EnoughLines",
        "path": "a",
        "lines": NONE,
    }
    assert "cannot be kept" in refused(parse_condition, value)[0].message


def test_a_key_of_an_own_conditions_field_that_is_no_text_is_refused() -> None:
    value = {
        "class_name": "autoexp_tui.testing.own_condition:EnoughLines",
        "path": {"a": [{"b": 0}, {1: "x"}]},
        "lines": {True: 1},
    }
    assert [(one.where, one.message) for one in refused(parse_condition, value)] == [
        ("w.path.a.1", "has the key 1, which is no text"),
        ("w.lines", "has the key True, which is no text"),
    ]


def test_a_time_that_is_there_already_is_no_mistake() -> None:
    made = parse_condition({"class_name": "Time", "after_seconds": 0}, "w")
    assert made == condition_kinds.TimeReached(after_seconds=0.0)


def test_everything_wrong_with_a_condition_is_found_at_once() -> None:
    nested = [{"class_name": "FileExists"}, {"class_name": "MaxAttempts", "x": 1}]
    found = refused(parse_condition, {"class_name": "Composite", "conditions": nested})

    assert [one.where for one in found] == [
        "w.conditions.0.path",
        "w.conditions.1.x",
        "w.conditions.1.max_attempts",
    ]


# --------------------------------------------------------------------------- actions
def test_a_restart_takes_overrides_and_conditions() -> None:
    value = {
        "class_name": "RestartAction",
        "reason": "crash",
        "overrides": ["backend.args.lr=1e-4", "~backend.args.x"],
        "conditions": [{"class_name": "MaxAttemptsCondition", "max_attempts": 3}],
    }

    assert parse_action(value, "w") == Restart(
        reason="crash",
        overrides=("backend.args.lr=1e-4", "~backend.args.x"),
        conditions=(condition_kinds.MaxAttempts(max_attempts=3),),
    )


@pytest.mark.parametrize(
    ("value", "made"),
    [
        (
            {"class_name": "Restart", "reason": "again", "followers": "use"},
            Restart(reason="again", followers="use"),
        ),
        (
            {"class_name": "FinishAction", "reason": "good enough"},
            Finish(reason="good enough"),
        ),
        (
            {"class_name": "AppendToFile", "path": "n.txt", "text": "{iteration}"},
            AppendToFile(path="n.txt", text="{iteration}"),
        ),
        (
            {"class_name": "AppendToFileAction", "path": "n.txt", "content": "x"},
            AppendToFile(path="n.txt", text="x"),
        ),
        (
            {
                "class_name": "CommandAction",
                "command": ["convert", "{checkpoint_path}"],
                "timeout": 600,
                "env": {"N": 3, "ON": True},
            },
            RunCommand(
                command=("convert", "{checkpoint_path}"),
                timeout=600,
                env={"N": "3", "ON": "true"},
            ),
        ),
    ],
)
def test_actions_outside_are_read(value: dict[str, object], made: object) -> None:
    assert parse_action(value, "w") == made


@pytest.mark.parametrize(
    ("value", "where", "message"),
    read_refusals(__file__, "actions_outside_that_are_wrong_are_refused"),
)
def test_actions_outside_that_are_wrong_are_refused(
    value: dict[str, object], where: str, message: str
) -> None:
    found = refused(parse_action, value)[0]

    assert (found.where, found.message) == (where, message)


@pytest.mark.parametrize(
    ("value", "where", "message"),
    read_refusals(__file__, "a_bad_action_says_where_and_what"),
)
def test_a_bad_action_says_where_and_what(
    value: object, where: str, message: str
) -> None:
    found = refused(parse_action, value)[0]

    assert (found.where, found.message) == (where, message)


# ----------------------------------------------------------------------------- rules
def test_a_log_event_is_a_regex_unless_it_says_substring() -> None:
    made = RULES["log_events"](
        {
            "name": "saved",
            "pattern": r"iteration\s+(?P<n>\d+) to (\S+)",
            "extract_groups": {"checkpoint_iteration": "n", "checkpoint_path": 2},
            "stages": "stable",
        },
        "w",
    )

    assert made == rule_kinds.LogEvent(
        name="saved",
        pattern=r"iteration\s+(?P<n>\d+) to (\S+)",
        pattern_type="regex",
        extract_groups={"checkpoint_iteration": "n", "checkpoint_path": "2"},
        stages=("stable",),
    )


@pytest.mark.parametrize("form", ["inactivity", "progress"])
def test_a_rule_over_silence_needs_no_pattern(form: str) -> None:
    made = RULES["log_events"](
        {"name": "still", "pattern_type": form, "after_seconds": 60}, "w"
    )
    assert (made.pattern, made.pattern_type, made.after_seconds) == ("", form, 60.0)


def test_the_waiting_time_goes_by_the_name_of_older_configs_too() -> None:
    written = {"name": "still", "pattern_type": "inactivity"}
    made = RULES["log_events"]({**written, "inactivity_timeout_s": 90}, "w")
    assert made == RULES["log_events"]({**written, "after_seconds": 90}, "w")


def test_a_cause_instead_of_a_state_is_answered_with_the_class() -> None:
    (found,) = refused(
        RULES["state_events"], {"name": "n", "transition": [None, "TIMEOUT"]}
    )
    assert found.hint == "such an end is FAILED; write state: timeout"


def test_a_rules_conditions_go_to_each_of_its_actions() -> None:
    made = RULES["log_events"](
        {
            "name": "nan",
            "pattern": "loss is NaN",
            "conditions": [{"class_name": "MaxAttempts", "max_attempts": 2}],
            "actions": [
                {
                    "class_name": "Restart",
                    "conditions": [{"class_name": "Cooldown", "cooldown_seconds": 1}],
                }
            ],
        },
        "w",
    )

    assert made.actions[0].conditions == (
        condition_kinds.MaxAttempts(max_attempts=2),
        condition_kinds.Cooldown(cooldown_seconds=1.0),
    )


PARSERS: dict[str, Parse] = {
    "log_event": RULES["log_events"],
    "state_event": RULES["state_events"],
    "metric_pattern": RULES["metrics"],
    "metric_file": parse_metric_file,
}


@pytest.mark.parametrize(
    ("kind", "value", "where", "message"),
    read_refusals(__file__, "a_bad_rule_says_where_and_what"),
)
def test_a_bad_rule_says_where_and_what(
    kind: str, value: object, where: str, message: str
) -> None:
    found = refused(PARSERS[kind], value)[0]

    assert (found.where, found.message) == (where, message)


def test_a_state_event_takes_a_class_or_a_transition() -> None:
    by_class = RULES["state_events"]({"name": "a", "state": "crash"}, "w")
    by_states = RULES["state_events"](
        {"name": "b", "transition": [None, "failed"]}, "w"
    )

    assert by_class.state == "crash"
    assert by_states.transition == (None, "FAILED")


def test_a_metric_pattern_may_name_its_group_value() -> None:
    pattern = r"(train|eval) acc (?P<value>\d+)"

    assert RULES["metrics"]({"name": "acc", "pattern": pattern}, "w").name == "acc"


# ------------------------------------------------------------------ files of metrics
def test_a_file_of_metrics_may_be_its_path_alone() -> None:
    assert parse_metric_file("m/*.jsonl", "w") == rule_kinds.MetricFile(
        path="m/*.jsonl", format="jsonl"
    )


def test_a_file_of_metrics_says_its_format_where_its_name_does_not() -> None:
    given = {"path": "log.txt", "format": "csv", "metrics": {"loss": "train loss"}}
    assert parse_metric_file(given, "w").metrics == {"loss": "train loss"}


@pytest.mark.parametrize(
    ("given", "where", "hint"),
    [
        ("metrics.txt", "w.path", "format: jsonl"),
        ({"path": "{nmae}.csv"}, "w.path", "did you mean `name`?"),
        ({"path": " ", "format": "csv"}, "w.path", ""),
        ({"path": "a.csv", "stepp": "x"}, "w.stepp", "did you mean `step`?"),
        ({"path": "a.csv", "format": "parquet"}, "w.format", ""),
    ],
)
def test_a_file_of_metrics_that_cannot_be_meant_is_refused(
    given: object, where: str, hint: str
) -> None:
    with pytest.raises(SpecRefused) as refused:
        parse_metric_file(given, "w")
    (problem,) = refused.value.problems
    assert problem.where == where
    assert hint in problem.hint


@pytest.mark.parametrize("field", ["timeout_seconds", "min_size"])
@pytest.mark.parametrize("flag", [True, False])
def test_a_flag_is_no_number(field: str, *, flag: bool) -> None:
    value = {"class_name": "FileExists", "path": "a", field: flag}
    (problem,) = refused(parse_condition, value)
    said = f"is {str(flag).lower()}, which is no number"
    assert (problem.where, problem.message) == (f"w.{field}", said)


def test_a_flag_in_place_of_a_number_that_is_needed_is_told_once() -> None:
    (problem,) = refused(
        parse_condition, {"class_name": "MaxAttempts", "max_attempts": True}
    )
    assert problem.where == "w.max_attempts"


def test_null_under_a_fields_other_name_is_not_taken_for_the_job_itself() -> None:
    value = {"class_name": "Metadata", "key": "k", "equals": 1, "job_name": None}
    (found,) = refused(parse_condition, value)
    assert found.where == "w.job"
