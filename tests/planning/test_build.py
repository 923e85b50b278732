"""From a config to a plan, over small fakes of the ports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from autoexp_tui.conditions.kinds import MetadataIs
from autoexp_tui.model.errors import ValidationFailed
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.as_json import plan_to_json
from autoexp_tui.planning.build import (
    PlanOutcome,
    PlanSource,
    build_execution_plan,
    build_plan_outcome,
)
from tests.sweep.fakes import FakeComposer, FakeParser, use_resolvers

CONFIG: Mapping[str, Any] = {
    "project": {"name": "lr${backend.lr}_${stage}", "base_output_dir": "/out"},
    "backend": {"lr": 1e-3, "iters": 100, "load": None, "save": None},
    "slurm": {"log_dir": "/logs"},
    "monitoring": {"extracts": ["checkpoint_iteration"], "total": "backend.iters"},
    "target": 80,
}
GROUPS = {"backend": {"other": {"backend": {"momentum": 0.5}}}}
LR = {"params": {"backend.lr": [1e-4, 5e-4]}}
Sweep = Mapping[str, Any]


@pytest.fixture(autouse=True)
def _resolvers() -> None:
    use_resolvers()


def outcome(sweep: Sweep | None, **changes: Any) -> PlanOutcome:
    composer = FakeComposer({**CONFIG, **changes}, sweep, GROUPS)
    return build_plan_outcome(composer=composer, parser=FakeParser())


def planned(sweep: Sweep | None, **changes: Any) -> Plan:
    found = outcome(sweep, **changes)
    assert not found.errors, found.errors
    assert found.plan is not None
    return found.plan


def errors(sweep: Sweep | None, **changes: Any) -> str:
    found = outcome(sweep, **changes)
    assert found.plan is None
    return "\n".join(map(str, found.errors))


def warnings(sweep: Sweep | None, **changes: Any) -> str:
    return "\n".join(map(str, outcome(sweep, **changes).warnings))


def stages(*configs: Mapping[str, Any], **node: Any) -> Sweep:
    return {"groups": [LR, {"configs": list(configs)}], **node}


def one(*configs: Mapping[str, Any]) -> list[JobSpec]:
    """The jobs of one family."""
    return list(planned({"configs": list(configs)}).jobs)


STABLE = {"stage": "stable", "backend.save": "{output_dir}/checkpoints"}
COOLDOWN = {
    "stage": "cooldown", "backend.load": "{sibling.stable.output_dir}/checkpoints",
    "start_conditions": [{"class_name": "SlurmStateCondition",
                          "job_name": "{sibling.stable.name}", "state": "COMPLETED",
                          "timeout_seconds": 60}],
}  # fmt: skip


def waiting(condition: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A second stage with one start condition."""
    return {"stage": "cooldown", "start_conditions": [condition], **more}


def condition(mapping: Mapping[str, Any], **more: Any) -> Any:
    """That condition, resolved."""
    return one(STABLE, waiting(mapping, **more))[1].start_conditions[0]


# ------------------------------------------------------------------- what jobs become
TABLE: Final = yaml.safe_load(Path(__file__).with_name("jobs.yaml").read_text("utf-8"))


def is_like(expected: object, found: Any) -> bool:
    """Whether all that is expected is there; mappings and the command may hold more."""
    if isinstance(expected, Mapping):
        return all(
            set(words) <= set(found[key])
            if key == "command" and str(words[0]).startswith("--")
            else is_like(words, found[key])
            for key, words in expected.items()
        )
    if isinstance(expected, list) and isinstance(found, list | tuple):
        each = zip(expected, found, strict=True)
        return len(expected) == len(found) and all(is_like(*one) for one in each)
    return bool(expected == found)


@pytest.mark.parametrize("row", [pytest.param(r, id=r["what"]) for r in TABLE["rows"]])
def test_a_sweep_becomes_these_jobs_or_findings(row: dict[str, Any]) -> None:
    found = outcome(row.get("sweep"), **row.get("config", {}))
    told = "\n".join(map(str, found.errors))
    assert (found.plan is None) == bool(found.errors) == ("errors" in row), told
    assert [words for words in row.get("errors", ()) if words not in told] == []
    warned = "\n".join(map(str, found.warnings))
    assert [words for words in row.get("warnings", ()) if words not in warned] == []
    assert warned == "" or row.get("warnings") != []
    if found.plan is not None:
        tree: dict[str, Any] = plan_to_json(found.plan)
        for job, spec in zip(tree["jobs"], found.plan.jobs, strict=True):
            job["command"] = spec.command
            job["runtime_overrides"] = spec.runtime_overrides
        assert is_like(row["jobs"], tree["jobs"]), tree["jobs"]
        assert is_like(row.get("edges", tree["edges"]), tree["edges"])


# ------------------------------------------------------------------------ findings
def test_errors_come_with_what_their_jobs_chose_in_the_sweep() -> None:
    configs = [{"stage": "a"}, {"stage": "b", "backend.load": "{nowhere}"}]
    groups = [{"params": {"p.lr": [1, 2]}}, {"configs": configs}]
    found = outcome({"defaults": {"project.name": "j{index}"}, "groups": groups})

    told = [job for one in found.errors for job in (one.job, *one.others)]
    assert [found.origins[job] for job in told] == [
        [{"groups.0.params.p.lr": at, "groups.1.configs": 1}] for at in (0, 1)
    ]


def test_notes_are_shown_with_the_job() -> None:
    jobs = one({"_meta": {"stage": "a", "why": "first"}})
    assert (jobs[0].stage, dict(jobs[0].notes)) == ("a", {"why": "first"})


def test_the_last_step_is_read_from_the_config() -> None:
    assert one({"stage": "a", "backend.iters": 500})[0].progress_total == 500
    assert one({"stage": "a", "backend.iters": 5e2})[0].progress_total == 500
    assert one({"stage": "a", "backend.iters": "x"})[0].progress_total is None


@pytest.mark.parametrize("key", [
    "{runtime.{sibling.stable.name}.checkpoint_iteration}",
    "{sibling.stable.metadata.checkpoint_iteration}",
    "{sibling.stable.checkpoint_iteration}", "{base.checkpoint_iteration}",
    "base.checkpoint_iteration", "parent.checkpoint_iteration",
])  # fmt: skip
def test_metadata_of_another_job_is_named_by_job_and_key(key: str) -> None:
    found = condition(
        {"class_name": "MetadataCondition", "key": key, "equals": "${target}"},
        **{"backend.load": "{sibling.stable.output_dir}"},
    )
    assert found == MetadataIs(
        job="lr1e-3_stable", key="checkpoint_iteration", value=80
    )


def test_a_filter_that_is_decided_early_makes_no_warning_twice() -> None:
    new = {**COOLDOWN, "backend.new": 1}
    found = outcome(stages(STABLE, new, filter="${backend.lr} > 0"))
    assert len([w for w in found.warnings if w.where == "backend.new"]) == 1


@pytest.mark.parametrize("other", [COOLDOWN, {**COOLDOWN, "backend.load": "x"}])
def test_a_job_that_names_a_failing_one_adds_no_error_of_its_own(
    other: Mapping[str, Any],
) -> None:
    sweep = {"configs": [{"stage": "stable", "backend.lrr": 1}, other]}
    assert len(outcome(sweep).errors) == 1


def test_the_same_ring_of_references_in_many_families_is_told_once() -> None:
    two = [
        {"stage": "a", "backend.load": "{sibling.b.name}"},
        {"stage": "b", "backend.load": "{sibling.a.name}"},
    ]
    rates = {"params": {"backend.lr": [1e-3, 2e-3, 3e-3]}}
    (error,) = outcome({"groups": [rates, {"configs": two}]}).errors
    assert error.message == (
        "references go in a ring: job 0 (stage=a, lr=1e-3) -> job 1 (stage=b, lr=1e-3) "
        "-> job 0 (stage=a, lr=1e-3) (and 2 more rings of these stages)"
    )


def test_rings_of_references_of_other_stages_are_each_told() -> None:
    found = outcome(
        {
            "configs": [
                {"stage": one, "backend.load": f"{{sibling.{other}.name}}"}
                for one, other in ("ab", "ba", "cd", "dc")
            ]
        }
    ).errors
    assert ["in a ring" in error.message for error in found] == [True, True]


@pytest.mark.parametrize(("parameters", "key"), [
    ({"backend.save": "{sibling.c.name}", "backend.load": "{sibling.b.name}"},
     "backend.load"),
    ({"backend": {"load": "{sibling.b.name}"}, "target": "{base.x}"}, "backend.load"),
    ({"project.name": "x{sibling.b.name}"}, "project.name"),
])  # fmt: skip
def test_of_several_keys_that_read_jobs_a_ring_is_told_at_the_one_that_closes_it(
    parameters: Mapping[str, Any], key: str
) -> None:
    one = {"stage": "a", **parameters}
    two = {"stage": "b", "backend.load": "{sibling.a.name}"}
    found = outcome({"configs": [one, two, {"stage": "c"}]}).errors

    assert [e.where for e in found if "in a ring" in e.message] == [key]


RING: Final = {
    "configs": [
        {
            "stage": stage,
            "start_conditions": [
                {
                    "class_name": "SlurmState",
                    "job_name": f"{{sibling.{other}.name}}",
                    "state": "COMPLETED",
                }
            ],
        }
        for stage, other in ("ab", "ba")
    ]
}


def test_the_same_ring_in_many_families_is_told_once() -> None:
    rates = {"params": {"backend.lr": [1e-3, 2e-3, 3e-3]}}
    (error,) = outcome({"groups": [rates, RING]}).errors
    assert error.message.endswith("-> lr1e-3_a (and 2 more rings of these stages)")


def test_rings_of_jobs_without_a_stage_are_each_told() -> None:
    def waits(other: int) -> Mapping[str, object]:
        name = f"{{sibling.index={other}.name}}"
        kind = {"class_name": "SlurmState", "job_name": name, "state": "COMPLETED"}
        return {"backend.lr": other, "start_conditions": [kind]}

    said = errors({"configs": [waits(at) for at in (1, 0, 3, 2)]})
    assert said.count("wait for each other in a ring") == 2


def test_a_failing_plan_is_raised_with_every_error() -> None:
    composer = FakeComposer(CONFIG, {"params": {"backend.lrr": [1, 2, 3]}})
    with pytest.raises(ValidationFailed, match="the plan has 1 error") as caught:
        build_execution_plan(composer=composer, parser=FakeParser())
    (error,) = caught.value.problems
    assert error.where == "backend.lrr"
    assert error.message == "is not in the config (and for 2 more jobs)"


FILE: Final = {"class_name": "FileExists", "path": "x"}
AFTER: Final = {"class_name": "Time", "after_seconds": 5}


@pytest.mark.parametrize(("entry", "warned"), [
    (FILE, True), ({**FILE, "timeout_seconds": 5}, False),
    ({**FILE, "blocking": False}, False), ({"class_name": "Approval"}, False),
    (AFTER, False),
    ({"class_name": "Composite", "mode": "any", "conditions": [FILE, AFTER]}, False),
    ({"class_name": "Composite", "conditions": [FILE]}, True),
])  # fmt: skip
def test_waits_without_an_end_are_warned_about(
    entry: Mapping[str, Any], *, warned: bool
) -> None:
    said = warnings({"configs": [{"stage": "a", "start_conditions": [entry]}]})
    assert ("waits without a time-out" in said) is warned


# ------------------------------------------------------------------------- plan
def test_a_plan_keeps_where_it_came_from() -> None:
    source = PlanSource(
        config_ref="experiments/dense", config_dir="/c", overrides=("a=1",),
        created_at=5.0, environment={"HOME": "d"},
    )  # fmt: skip
    plan = build_execution_plan(
        source, composer=FakeComposer(CONFIG, LR), parser=FakeParser()
    )
    assert plan.name == "dense"
    assert (plan.config_ref, plan.config_dir) == ("experiments/dense", "/c")
    assert (plan.overrides, plan.created_at) == (("a=1",), 5.0)
    assert plan.environment == {"HOME": "d"}
    assert plan.base_output_dir == "/out"


@pytest.mark.parametrize(("given", "configured", "wanted"), [
    ("/s", "/m", "/s"), ("", "/m", "/m"), ("", None, "outputs/.autoexp"),
])  # fmt: skip
def test_the_state_dir_is_said_or_configured(
    given: str, configured: str | None, wanted: str
) -> None:
    monitoring, ui = {"state_dir": configured}, {"theme": "light"}
    composer = FakeComposer({**CONFIG, "monitoring": monitoring, "ui": ui})
    plan = build_execution_plan(
        PlanSource(state_dir=given), composer=composer, parser=FakeParser()
    )
    assert (plan.state_dir, plan.ui) == (wanted, ui)


def test_plans_of_equal_content_have_equal_ids() -> None:
    assert planned(LR).plan_id == planned(LR).plan_id
    assert planned(LR).plan_id != planned(LR, target=81).plan_id


def test_the_same_work_has_the_same_fingerprint_wherever_it_lies() -> None:
    moved = {"name": "lr${backend.lr}_${stage}", "base_output_dir": "/elsewhere"}
    here = planned(stages(STABLE, COOLDOWN))
    there = planned(stages(STABLE, COOLDOWN), project=moved)
    assert [j.fingerprint for j in here.jobs] == [j.fingerprint for j in there.jobs]


def test_each_config_is_told_to_whom_records_them() -> None:
    told = []

    def record(index: int, view: Any, config: Mapping[str, Any]) -> None:
        told.append((index, view.raw("backend.load"), config["project"]["name"]))

    build_plan_outcome(
        composer=FakeComposer(CONFIG, stages(STABLE, {"stage": "b"})),
        parser=FakeParser(),
        record=record,
    )
    assert told[1] == (1, None, "lr1e-4_b")


# ------------------------------------------------------------------ how much work


@pytest.mark.parametrize(("sweep", "composed"), [
    (stages(STABLE, COOLDOWN), 4), (stages(STABLE, filter="${backend.lr} > 0"), 2),
    ({"configs": [{**COOLDOWN, "backend.load": "{sibling.b.name}",
                   "start_conditions": []}, {"stage": "b"}]}, 2),
], ids=["in order", "with a filter", "read early"])  # fmt: skip
def test_each_job_is_composed_once(sweep: Sweep, composed: int) -> None:
    composer = FakeComposer(CONFIG, sweep)
    build_plan_outcome(composer=composer, parser=FakeParser())
    assert len(composer.asked) == composed


def far_apart(reference: str) -> Sweep:
    """All jobs of one stage before those of the other."""
    return {
        "type": "list",
        "groups": [{"params": {"backend.lr": list(range(70)), "stage": "stable"},
                    "defaults": {"backend.save": "{output_dir}/x"}},
                   {"params": {"backend.lr": list(range(70)), "stage": "cooldown"},
                    "defaults": {"backend.load": reference, "aux": {"of": "stable"}}}],
    }  # fmt: skip


def test_far_siblings_are_composed_again() -> None:
    composer = FakeComposer(CONFIG, far_apart("{sibling.stable.backend.save}"))
    plan = build_execution_plan(composer=composer, parser=FakeParser())
    assert "backend.load=/out/lr0_stable/x" in plan.jobs[70].overrides
    assert len(composer.asked) == 210


def test_of_many_references_that_find_nothing_each_is_told() -> None:
    configs = [{"backend.load": f"{{sibling.gone{at}.name}}"} for at in range(150)]
    found = outcome({"configs": [{"stage": "here"}, *configs]})
    assert len(found.errors) == 150
    assert {error.hint for error in found.errors} == {"stages: here"}
