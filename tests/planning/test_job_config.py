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


def test_a_point_sets_rules_of_its_own_or_chooses_them_by_their_group() -> None:
    own = {"stage": "b", "monitoring.extracts": ["x"]}
    strict = {"stage": "c", "monitoring": "strict"}
    plan = planned({"stage": "a"}, own, strict, {**own, "stage": "d"})
    extracted = [plan.rules_of(job).log_events[0].extract_groups for job in plan.jobs]
    assert list(map(list, extracted)) == [["step"], ["x"], ["loss"], ["x"]]
    assert len(plan.rule_sets) == 2  # equal ones are kept once
    assert plan.jobs[0].rules == ""
    assert plan.jobs[1].rules == plan.jobs[3].rules
    assert outcome(own).warnings == ()
    same = planned({"stage": "a", "monitoring.extracts": ["step"]})
    assert (same.rule_sets, same.jobs[0].rules) == ({}, "")
    plan = planned({"stage": "a"}, {"stage": "b", "monitoring.total": "backend.short"})
    assert [job.progress_total for job in plan.jobs] == [100, 7]


def test_braces_of_rules_are_left_to_the_moment_when_a_rule_fires() -> None:
    rules = [{"name": "n", "pattern": "a{2}", "message": "{checkpoint} {sibling.x}"}]
    plan = planned({"stage": "a", "++monitoring.log_events": rules})
    assert "a{2}" in plan.jobs[0].overrides[0]
    assert "{checkpoint} {sibling.x}" in plan.jobs[0].overrides[0]


def test_metadata_that_only_a_siblings_own_rules_extract_is_known() -> None:
    rules = [{"name": "n", "pattern": "x", "extract_groups": {"speed": "1"}}]
    condition = {"class_name": "Metadata", "key": "go", "equals": "{sibling.a.speed}",
                 "timeout_seconds": 1}  # fmt: skip
    later = {"stage": "b", "start_conditions": [condition]}
    plan = planned({"stage": "a", "monitoring.log_events": rules}, later)
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
def test_what_is_settled_before_jobs_are_composed_is_left_out(key: str) -> None:
    found = outcome({"stage": "a", key: ["x"]})
    (warning,) = found.warnings
    assert warning.where == key
    assert "before any job is composed" in warning.message
    assert warning.hint == f"set `{key.lstrip('+')}` in the config, outside the sweep"
    assert found.plan is not None
    assert found.plan.jobs[0].overrides == ()


def test_names_of_rule_sets_follow_their_content() -> None:
    one, two = RuleSets(Monitoring()), RuleSets(Monitoring(loss="y"))
    assert one.add(Monitoring(loss="x")) == two.add(Monitoring(loss="x"))
    assert one.sets == two.sets
    session = Monitoring(poll_seconds=3)  # how often to look is the session's
    kept = apply_session(Monitoring(poll_seconds=9, loss="x"), session)
    assert kept == Monitoring(poll_seconds=3, loss="x")
