"""Actions that make jobs, from plain mappings."""

from __future__ import annotations

import pytest

from autoexp_tui.actions.outside import NewJob, RunAutoexp
from autoexp_tui.conditions import kinds as condition_kinds
from autoexp_tui.config.specs import parse_action
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import SpecRefused
from tests.support.refusals import read_refusals


def refused(value: object) -> list[Problem]:
    with pytest.raises(SpecRefused) as caught:
        parse_action(value, "w")
    return list(caught.value.problems)


def test_the_nested_form_means_the_same_as_the_flat_one() -> None:
    nested = {
        "class_name": "RunAutoexpAction",
        "mode": "queue",
        "conditions": [{"class_name": "MaxAttemptsCondition", "max_attempts": 1}],
        "action": {
            "script": "scripts/run_autoexp_container.py",
            "config_path": "{output_dir}/provenance/unresolved_config.yaml",
            "overrides": ["project.name={project.name}_recovered"],
        },
    }
    assert parse_action(nested, "w") == RunAutoexp(
        mode="queue",
        conditions=(condition_kinds.MaxAttempts(max_attempts=1),),
        script="scripts/run_autoexp_container.py",
        config_path="{output_dir}/provenance/unresolved_config.yaml",
        overrides=("project.name={project.name}_recovered",),
    )


def test_a_plan_goes_behind_the_others_unless_it_says_now() -> None:
    flat = {"class_name": "RunAutoexp", "config_ref": "e"}
    assert parse_action(flat, "w") == RunAutoexp(config_ref="e", mode="queue")
    now = parse_action({**flat, "mode": "now"}, "w")
    assert now == RunAutoexp(config_ref="e", mode="now")


@pytest.mark.parametrize(
    ("fields", "where", "message"),
    read_refusals(__file__, "a_plan_that_is_wrong_is_refused"),
)
def test_a_plan_that_is_wrong_is_refused(
    fields: dict[str, object], where: str, message: str
) -> None:
    found = refused({"class_name": "RunAutoexpAction", **fields})[0]
    assert (found.where, found.message) == (where, message)


def test_a_new_job_has_what_it_says_and_nothing_else() -> None:
    value = {
        "class_name": "NewJobAction",
        "command": ["convert", "{checkpoint_path}"],
        "env": {"N": 1},
        "sbatch": {"time": "00:30:00", "gpus_per_node": 2, "partition": "p"},
        "start_conditions": [
            {"class_name": "SlurmState", "job_name": "{name}", "state": "completed"}
        ],
    }
    assert parse_action(value, "w") == NewJob(
        command=("convert", "{checkpoint_path}"),
        env={"N": "1"},
        options={"time": "00:30:00", "gpus-per-node": 2, "partition": "p"},
        time_limit_seconds=1800.0,
        gpus=2,
        start_conditions=(
            condition_kinds.JobStateIs(jobs=("{name}",), state="COMPLETED"),
        ),
    )


def test_resources_that_are_not_said_are_left_to_the_trigger() -> None:
    made = parse_action(
        {"class_name": "NewJob", "command": ["x"], "sbatch": {"qos": "low"}}, "w"
    )
    assert made == NewJob(command=("x",), options={"qos": "low"})


@pytest.mark.parametrize(
    ("fields", "where", "message"),
    read_refusals(__file__, "a_new_job_that_is_wrong_is_refused"),
)
def test_a_new_job_that_is_wrong_is_refused(
    fields: dict[str, object], where: str, message: str
) -> None:
    found = refused({"class_name": "NewJob", **fields})[0]
    assert (found.where, found.message) == (where, message)
