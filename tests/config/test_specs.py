"""Conditions, actions and rules as configs write them, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from autoexp_tui.actions.kinds import (
    AppendToFile,
    NewJob,
    Restart,
    RunAutoexp,
    RunCommand,
)
from autoexp_tui.conditions import kinds
from autoexp_tui.config.specs import (
    ACTIONS,
    CONDITIONS,
    RULES,
    parse_action,
    parse_condition,
    parse_metric_file,
)
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.rules import Action
from autoexp_tui.planning.ports import SpecRefused
from tests.support.refusals import read_refusals

Parse = Callable[[object, str], object]
PARSERS: Mapping[str, Parse] = {
    "log_event": RULES["log_events"], "state_event": RULES["state_events"],
    "metric_pattern": RULES["metrics"], "metric_file": parse_metric_file,
    "condition": parse_condition,
}  # fmt: skip
REFUSED: Mapping[str, tuple[Parse, Mapping[str, object]]] = {
    "a_bad_condition_says_where_what_and_the_next_step": (parse_condition, {}),
    "a_condition_that_could_never_hold_as_written_is_refused": (parse_condition, {}),
    "actions_outside_that_are_wrong_are_refused": (parse_action, {}),
    "a_bad_action_says_where_and_what": (parse_action, {}),
    "a_plan_that_is_wrong_is_refused": (parse_action, {"class_name": "RunAutoexp"}),
    "a_new_job_that_is_wrong_is_refused": (parse_action, {"class_name": "NewJob"}),
}
"""Tables of refusals: what parses their values, and what these have in common."""


def refused(parse: Parse, value: object) -> tuple[Problem, ...]:
    with pytest.raises(SpecRefused) as caught:
        parse(value, "w")
    return caught.value.problems


def list_refusals() -> Iterator[tuple[Any, ...]]:
    """What parses, a value, the place, the message and how the hint begins."""
    for table, (parse, common) in REFUSED.items():
        for value, *wanted in read_refusals(__file__, table):
            yield (parse, {**common, **value} if common else value, *(*wanted, "")[:3])
    for kind, *row in read_refusals(__file__, "a_bad_rule_says_where_and_what"):
        yield (PARSERS[kind], *row, "")


@pytest.mark.parametrize(
    ("parse", "value", "where", "message", "hint"), list_refusals()
)
def test_what_is_wrong_says_where_what_and_the_next_step(
    parse: Parse, value: object, where: str, message: str, hint: str
) -> None:
    found = refused(parse, value)[0]
    assert (found.where, found.message) == (where, message)
    assert found.hint.startswith(hint)


@pytest.mark.parametrize(("value", "spec"), [
    ({"class_name": "FileExists", "path": "a", "timeout_seconds": 10},
     kinds.FileExists(path="a", timeout_seconds=10)),
    ({"class_name": "FileExistsCondition", "glob": "a/*", "min_size": 5},
     kinds.FileExists(path="a/*", glob=True, min_size=5)),
    ({"class_name": "FileContent", "path": "a", "pattern": "x", "mode": "regex"},
     kinds.FileContent(path="a", pattern="x", mode="regex")),
    ({"class_name": "MetadataCondition", "key": "k", "equals": 8000},
     kinds.MetadataIs(key="k", value=8000)),
    ({"class_name": "SlurmStateCondition", "job_name": "j", "state": "failed"},
     kinds.JobStateIs(jobs=("j",), state="FAILED")),
    ({"class_name": "JobState", "job_name": ["a", ["b"]], "state": "TIMEOUT"},
     kinds.JobStateIs(jobs=("a", "b"), state="TIMEOUT")),
    ({"class_name": "Command", "command": ["test", "-f", "x"], "timeout": 3},
     kinds.CommandPasses(command=("test", "-f", "x"), timeout=3.0)),
    ({"class_name": "LogPattern", "log_pattern": "*.log", "pattern": "a",
      "check_mode": "all"},
     kinds.LogPattern(log_path="*.log", glob=True, pattern="a", check_mode="all")),
    ({"class_name": "Time", "at": "2030-05-01T10:00+02:00"},
     kinds.TimeReached(at=1903852800.0)),
    ({"class_name": "Approval", "prompt": "?", "show_files": "a"},
     kinds.Approval(prompt="?", show_files=("a",))),
    ({"class_name": "Approval", "show_files": ["a", ["b"]], "blocking": False},
     kinds.Approval(show_files=("a", "b"), blocking=False)),
    ({"class_name": "Composite", "mode": "any",
      "conditions": [{"class_name": "Not",
                      "condition": {"class_name": "FileExists", "path": "stop"}}]},
     kinds.Composite(mode="any",
                     conditions=(kinds.Not(condition=kinds.FileExists(path="stop")),))),
    ({"class_name": "Time", "after_seconds": 0}, kinds.TimeReached(after_seconds=0.0)),
    ({"class_name": "autoexp_tui.testing.own_condition:EnoughLines", "path": "/a",
      "lines": 2, "timeout_seconds": 60, "description": "enough"},
     kinds.OwnCondition(class_path="autoexp_tui.testing.own_condition:EnoughLines",
                        fields={"path": "/a", "lines": 2}, timeout_seconds=60,
                        description="enough")),
])  # fmt: skip
def test_a_mapping_becomes_its_condition(
    value: Mapping[str, Any], spec: Condition
) -> None:
    assert parse_condition(value, "w") == spec


@pytest.mark.parametrize(("value", "spec"), [
    ({"class_name": "AppendToFileAction", "path": "n.txt", "content": "x"},
     AppendToFile(path="n.txt", text="x")),
    ({"class_name": "CommandAction", "command": ["convert", "{checkpoint_path}"],
      "timeout": 600, "env": {"N": 3, "ON": True}},
     RunCommand(command=("convert", "{checkpoint_path}"), timeout=600,
                env={"N": "3", "ON": "true"})),
    ({"class_name": "RestartAction", "reason": "crash",
      "overrides": ["backend.args.lr=1e-4", "~backend.args.x"],
      "conditions": [{"class_name": "MaxAttempts", "max_attempts": 3}]},
     Restart(reason="crash", overrides=("backend.args.lr=1e-4", "~backend.args.x"),
             conditions=(kinds.MaxAttempts(max_attempts=3),))),
    ({"class_name": "RunAutoexpAction",
      "conditions": [{"class_name": "MaxAttempts", "max_attempts": 1}],
      "action": {"script": "scripts/run_autoexp_container.py",
                 "config_path": "{output_dir}/provenance/unresolved_config.yaml",
                 "overrides": ["project.name={project.name}_recovered"]}},
     RunAutoexp(mode="queue", conditions=(kinds.MaxAttempts(max_attempts=1),),
                script="scripts/run_autoexp_container.py",
                config_path="{output_dir}/provenance/unresolved_config.yaml",
                overrides=("project.name={project.name}_recovered",))),
    ({"class_name": "NewJobAction", "command": ["convert", "{checkpoint_path}"],
      "env": {"N": 1},
      "sbatch": {"time": "00:30:00", "gpus_per_node": 2, "partition": "p"},
      "start_conditions": [{"class_name": "JobState", "job_name": "{name}",
                            "state": "failed"}]},
     NewJob(command=("convert", "{checkpoint_path}"), env={"N": "1"},
            options={"time": "00:30:00", "gpus-per-node": 2, "partition": "p"},
            time_limit_seconds=1800.0, gpus=2,
            start_conditions=(kinds.JobStateIs(jobs=("{name}",), state="FAILED"),))),
])  # fmt: skip
def test_a_mapping_becomes_its_action(value: Mapping[str, Any], spec: Action) -> None:
    assert parse_action(value, "w") == spec


def test_every_condition_and_action_of_core_can_be_written() -> None:
    made = {kind.spec for kind in (*CONDITIONS.values(), *ACTIONS.values())}
    assert made | {kinds.OwnCondition} == {
        *Condition.kinds.values(),
        *Action.kinds.values(),
    }


@pytest.mark.parametrize(
    ("kind", "value", "found"), read_refusals(__file__, "every_finding_is_told")
)
def test_every_finding_is_told(
    kind: str, value: object, found: Mapping[str, str]
) -> None:
    problems = refused(PARSERS[kind], value)
    assert [one.where for one in problems] == list(found)
    for problem in problems:
        assert found[problem.where] in problem.message


TWICE = {"class_name": "MaxAttempts", "max_attempts": 2}
SOON = {"class_name": "Cooldown", "cooldown_seconds": 1}
STILL = {"name": "still", "pattern_type": "inactivity"}
ACC = {"name": "acc", "pattern": r"(train|eval) acc (?P<value>\d+)"}
TRAIN = {"path": "log.txt", "format": "csv", "metrics": {"loss": "train loss"}}
SAVED = {"name": "saved", "pattern": r"iteration\s+(?P<n>\d+) to (\S+)",
         "extract_groups": {"iteration": "n", "path": 2},
         "stages": "stable"}  # fmt: skip


@pytest.mark.parametrize(("parse", "value", "fields"), [
    (RULES["log_events"], {**STILL, "after_seconds": 60},
     {"pattern": "", "after_seconds": 60.0}),
    (RULES["log_events"], {**STILL, "pattern_type": "progress"}, {"pattern": ""}),
    (RULES["log_events"], {**STILL, "inactivity_timeout_s": 90},
     {"after_seconds": 90.0}),
    (RULES["log_events"], SAVED,
     {"pattern_type": "regex", "extract_groups": {"iteration": "n", "path": "2"},
      "stages": ("stable",)}),
    (RULES["state_events"], {"name": "a", "state": "crash"}, {"state": "crash"}),
    (RULES["state_events"], {"name": "b", "transition": [None, "failed"]},
     {"transition": (None, "FAILED")}),
    (RULES["log_events"],
     {"name": "nan", "pattern": "x", "conditions": [TWICE],
      "actions": [{"class_name": "Restart", "conditions": [SOON]}]},
     {"actions": (Restart(conditions=(kinds.MaxAttempts(max_attempts=2),
                                      kinds.Cooldown(cooldown_seconds=1.0))),)}),
    pytest.param(RULES["metrics"], ACC, {"name": "acc"}, id="a group named value"),
    (parse_metric_file, "m/*.jsonl", {"path": "m/*.jsonl", "format": "jsonl"}),
    (parse_metric_file, "tb/**/events.out.tfevents.*", {"format": "tensorboard"}),
    (parse_metric_file, TRAIN, {"metrics": {"loss": "train loss"}}),
])  # fmt: skip
def test_a_rule_has_the_fields(
    parse: Parse, value: object, fields: Mapping[str, object]
) -> None:
    made = parse(value, "w")
    assert {name: getattr(made, name) for name in fields} == fields
