"""Which settings of a point count for its job, and which hold for the session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from autoexp_tui.conditions.kinds import MetadataIs
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import Plan
from autoexp_tui.planning.build import PlanOutcome, build_plan_outcome
from autoexp_tui.planning.job_config import RuleSets, apply_session
from tests.sweep.fakes import FakeComposer, FakeParser, use_resolvers

CONFIG: Mapping[str, Any] = {
    "project": {"name": "j${index}", "base_output_dir": "/out"},
    "backend": {"lr": 1e-3, "iters": 100, "short": 7},
    "slurm": {"log_dir": "/logs", "client": {"class_name": "Local"}},
    "monitoring": {"extracts": ["step"], "total": "backend.iters",
                   "state_dir": "/state", "log_events": []},
    "ui": {"first_run": None},
}  # fmt: skip
GROUPS = {"monitoring": {"strict": {"monitoring": {"extracts": ["loss"]}}}}


def outcome(*points: Mapping[str, Any]) -> PlanOutcome:
    use_resolvers()
    composer = FakeComposer(CONFIG, {"configs": list(points)}, GROUPS)
    return build_plan_outcome(composer=composer, parser=FakeParser())


def planned(*points: Mapping[str, Any]) -> Plan:
    found = outcome(*points)
    assert found.plan is not None, found.errors
    return found.plan


def extracted(plan: Plan, at: int) -> list[str]:
    rules = plan.rules_of(plan.jobs[at])
    return list(rules.log_events[0].extract_groups)


def test_a_point_sets_rules_of_its_own_or_chooses_them_by_their_group() -> None:
    own = {"stage": "b", "monitoring.extracts": ["x"]}
    plan = planned({"stage": "a"}, own, {"stage": "c", "monitoring": "strict"})
    assert [extracted(plan, at) for at in (0, 1, 2)] == [["step"], ["x"], ["loss"]]
    assert outcome(own).warnings == ()


def test_equal_rules_are_kept_once() -> None:
    same = {"monitoring.extracts": ["x"]}
    plan = planned({"stage": "a", **same}, {"stage": "b", **same}, {"stage": "c"})
    assert len(plan.rule_sets) == 1
    assert plan.jobs[0].rules == plan.jobs[1].rules
    assert plan.jobs[2].rules == ""


def test_rules_that_say_what_the_plan_says_are_the_plans() -> None:
    plan = planned({"stage": "a", "monitoring.extracts": ["step"]})
    assert (plan.rule_sets, plan.jobs[0].rules) == ({}, "")


def test_the_last_step_is_where_the_jobs_own_rules_say() -> None:
    plan = planned({"stage": "a"}, {"stage": "b", "monitoring.total": "backend.short"})
    assert [job.progress_total for job in plan.jobs] == [100, 7]


def test_braces_of_rules_are_left_to_the_moment_when_a_rule_fires() -> None:
    rules = [{"name": "n", "pattern": "a{2}", "message": "{checkpoint} {sibling.x}"}]
    plan = planned({"stage": "a", "++monitoring.log_events": rules})
    assert "a{2}" in plan.jobs[0].overrides[0]
    assert "{checkpoint} {sibling.x}" in plan.jobs[0].overrides[0]


def test_metadata_that_only_a_siblings_own_rules_extract_is_known() -> None:
    rules = [{"name": "n", "pattern": "x", "extract_groups": {"speed": "1"}}]
    condition = {
        "class_name": "Metadata",
        "key": "go",
        "equals": "{sibling.a.speed}",
        "timeout_seconds": 1,
    }
    plan = planned(
        {"stage": "a", "monitoring.log_events": rules},
        {"stage": "b", "start_conditions": [condition]},
    )
    waits = plan.jobs[1].start_conditions[0]
    assert isinstance(waits, MetadataIs)
    assert waits.value == "{runtime.j0.speed}"


@pytest.mark.parametrize(("key", "value"), [
    ("monitoring.state_dir", "/elsewhere"), ("++monitoring.poll_seconds", 5),
    ("slurm.client.class_name", "Slurm"), ("ui.first_run", "hello"),
])  # fmt: skip
def test_a_setting_of_the_session_in_a_point_is_said_to_have_no_effect(
    key: str, value: object
) -> None:
    (warning,) = outcome({"stage": "a", key: value}).warnings
    said = "has no effect in a sweep: it is one for the whole session"
    assert (warning.where, warning.message) == (key, said)
    assert warning.hint.startswith(f"set `{key.lstrip('+')}` in the config, outside")


@pytest.mark.parametrize(
    "key", ["hydra.searchpath", "++hydra.job.name", "sweep.filter", "defaults"]
)
def test_what_is_settled_before_jobs_are_composed_is_said_and_left_out(
    key: str,
) -> None:
    found = outcome({"stage": "a", key: ["x"]})
    (warning,) = found.warnings
    assert warning.where == key
    assert "before any job is composed" in warning.message
    assert warning.hint == f"set `{key.lstrip('+')}` in the config, outside the sweep"
    assert found.plan is not None
    assert found.plan.jobs[0].overrides == ()


def test_how_often_to_look_is_the_sessions_for_every_job() -> None:
    kept = apply_session(
        Monitoring(poll_seconds=9, loss="x"), Monitoring(poll_seconds=3)
    )
    assert kept == Monitoring(poll_seconds=3, loss="x")


def test_names_of_rule_sets_follow_their_content() -> None:
    one, two = RuleSets(Monitoring()), RuleSets(Monitoring(loss="y"))
    rules = Monitoring(loss="x")
    assert one.add(rules) == two.add(Monitoring(loss="x"))
    assert one.sets == two.sets
