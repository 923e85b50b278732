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


def made_by(composer: FakeComposer, source: PlanSource | None = None) -> Plan:
    return build_execution_plan(source, composer=composer, parser=FakeParser())


def outcome(sweep: Sweep | None, **changes: Any) -> PlanOutcome:
    composer = FakeComposer({**CONFIG, **changes}, sweep, GROUPS)
    return build_plan_outcome(composer=composer, parser=FakeParser())


def planned(sweep: Sweep | None, **changes: Any) -> Plan:
    found = outcome(sweep, **changes)
    assert not found.errors, found.errors
    assert found.plan is not None
    return found.plan


def stages(*configs: Mapping[str, Any], **node: Any) -> Sweep:
    return {"groups": [LR, {"configs": list(configs)}], **node}


def one(*configs: Mapping[str, Any]) -> list[JobSpec]:
    """The jobs of one family."""
    return list(planned({"configs": list(configs)}).jobs)


def wait_for(name: str) -> dict[str, Any]:
    return {"class_name": "SlurmState", "job_name": name, "state": "COMPLETED",
            "timeout_seconds": 60}  # fmt: skip


STABLE = {"stage": "stable", "backend.save": "{output_dir}/checkpoints"}
COOLDOWN = {
    "stage": "cooldown", "backend.load": "{sibling.stable.output_dir}/checkpoints",
    "start_conditions": [wait_for("{sibling.stable.name}")],
}  # fmt: skip
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


def test_errors_come_with_what_their_jobs_chose_in_the_sweep() -> None:
    configs = [{"stage": "a"}, {"stage": "b", "backend.load": "{nowhere}"}]
    groups = [{"params": {"p.lr": [1, 2]}}, {"configs": configs}]
    found = outcome({"defaults": {"project.name": "j{index}"}, "groups": groups})

    told = [job for one in found.errors for job in (one.job, *one.others)]
    assert [found.origins[job] for job in told] == [
        [{"groups.0.params.p.lr": at, "groups.1.configs": 1}] for at in (0, 1)
    ]


def test_notes_and_the_last_step_are_read() -> None:
    jobs = one({"_meta": {"stage": "a", "why": "first"}})
    assert (jobs[0].stage, dict(jobs[0].notes)) == ("a", {"why": "first"})
    steps = one(*({"stage": f"{n}", "backend.iters": n} for n in (500, 5e2, "x")))
    assert [job.progress_total for job in steps] == [500, 500, None]


@pytest.mark.parametrize("key", [
    "{runtime.{sibling.stable.name}.checkpoint_iteration}", "base.checkpoint_iteration",
    "{sibling.stable.metadata.checkpoint_iteration}", "{base.checkpoint_iteration}",
    "{sibling.stable.checkpoint_iteration}", "parent.checkpoint_iteration",
])  # fmt: skip
def test_metadata_of_another_job_is_named_by_job_and_key(key: str) -> None:
    wait = {"class_name": "MetadataCondition", "key": key, "equals": "${target}"}
    load = {"backend.load": "{sibling.stable.output_dir}"}
    later = {"stage": "cooldown", "start_conditions": [wait], **load}
    (found,) = one(STABLE, later)[1].start_conditions
    job, wanted = "lr1e-3_stable", "checkpoint_iteration"
    assert found == MetadataIs(job=job, key=wanted, value=80)


def test_a_filter_that_is_decided_early_makes_no_warning_twice() -> None:
    new = {**COOLDOWN, "backend.new": 1}
    found = outcome(stages(STABLE, new, filter="${backend.lr} > 0"))
    assert len([w for w in found.warnings if w.where == "backend.new"]) == 1


@pytest.mark.parametrize("other", [COOLDOWN, {**COOLDOWN, "backend.load": "x"}])
def test_who_names_a_failing_job_adds_no_error(other: Mapping[str, Any]) -> None:
    sweep = {"configs": [{"stage": "stable", "backend.lrr": 1}, other]}
    assert len(outcome(sweep).errors) == 1


RATES: Final = {"params": {"backend.lr": [1e-3, 2e-3, 3e-3]}}


def test_the_same_ring_of_references_in_many_families_is_told_once() -> None:
    def ring(stages: str, others: str) -> Sweep:
        pairs = zip(stages, others, strict=True)
        return {"configs": [{"stage": one, "backend.load": f"{{sibling.{other}.name}}"}
                            for one, other in pairs]}  # fmt: skip

    (error,) = outcome({"groups": [RATES, ring("ab", "ba")]}).errors
    assert error.message == (
        "references go in a ring: job 0 (stage=a, lr=1e-3) -> job 1 (stage=b, lr=1e-3) "
        "-> job 0 (stage=a, lr=1e-3) (and 2 more rings of these stages)"
    )
    of_others = outcome(ring("abcd", "badc")).errors
    assert ["in a ring" in error.message for error in of_others] == [True, True]


@pytest.mark.parametrize(("parameters", "key"), [
    ({"backend.save": "{sibling.c.name}", "backend.load": "{sibling.b.name}"},
     "backend.load"), ({"project.name": "x{sibling.b.name}"}, "project.name"),
    ({"backend": {"load": "{sibling.b.name}"}, "target": "{base.x}"}, "backend.load"),
])  # fmt: skip
def test_a_ring_is_told_at_the_key_that_closes_it(parameters: Sweep, key: str) -> None:
    two = {"stage": "b", "backend.load": "{sibling.a.name}"}
    found = outcome({"configs": [{"stage": "a", **parameters}, two, {"stage": "c"}]})
    assert [e.where for e in found.errors if "in a ring" in e.message] == [key]


def test_the_same_ring_in_many_families_is_told_once() -> None:
    waits = [
        {"stage": stage, "start_conditions": [wait_for(f"{{sibling.{other}.name}}")]}
        for stage, other in (("a", "b"), ("b", "a"))
    ]
    (error,) = outcome({"groups": [RATES, {"configs": waits}]}).errors
    assert error.message.endswith("-> lr1e-3_a (and 2 more rings of these stages)")
    names = ((n, f"{{sibling.index={n}.name}}") for n in (1, 0, 3, 2))
    each = [{"backend.lr": n, "start_conditions": [wait_for(one)]} for n, one in names]
    said = "\n".join(map(str, outcome({"configs": each}).errors))
    assert said.count("wait for each other in a ring") == 2


def test_a_failing_plan_is_raised_with_every_error() -> None:
    composer = FakeComposer(CONFIG, {"params": {"backend.lrr": [1, 2, 3]}})
    with pytest.raises(ValidationFailed, match="the plan has 1 error") as caught:
        made_by(composer)
    (error,) = caught.value.problems
    assert error.where == "backend.lrr"
    assert error.message == "is not in the config (and for 2 more jobs)"


FILE: Final = {"class_name": "FileExists", "path": "x"}
AFTER: Final = {"class_name": "Time", "after_seconds": 5}


@pytest.mark.parametrize(("entry", "warned"), [
    (FILE, True), ({**FILE, "timeout_seconds": 5}, False), (AFTER, False),
    ({**FILE, "blocking": False}, False), ({"class_name": "Approval"}, False),
    ({"class_name": "Composite", "mode": "any", "conditions": [FILE, AFTER]}, False),
    ({"class_name": "Composite", "conditions": [FILE]}, True),
])  # fmt: skip
def test_waits_without_an_end_are_warned_about(entry: Any, *, warned: bool) -> None:
    found = outcome({"configs": [{"stage": "a", "start_conditions": [entry]}]})
    said = "\n".join(map(str, found.warnings))
    assert ("waits without a time-out" in said) is warned


def test_a_plan_keeps_where_it_came_from() -> None:
    told: dict[str, Any] = {
        "config_ref": "experiments/dense", "config_dir": "/c", "overrides": ("a=1",),
        "created_at": 5.0, "environment": {"HOME": "d"},
    }  # fmt: skip
    plan = made_by(FakeComposer(CONFIG, LR), PlanSource(**told))
    assert {key: getattr(plan, key) for key in told} == told
    assert (plan.name, plan.base_output_dir) == ("dense", "/out")


@pytest.mark.parametrize(("given", "configured", "wanted"), [
    ("/s", "/m", "/s"), ("", "/m", "/m"), ("", None, "outputs/.autoexp"),
])  # fmt: skip
def test_the_state_dir_is_said_or_configured(
    given: str, configured: str | None, wanted: str
) -> None:
    own = {"monitoring": {"state_dir": configured}, "ui": {"theme": "light"}}
    plan = made_by(FakeComposer({**CONFIG, **own}), PlanSource(state_dir=given))
    assert (plan.state_dir, plan.ui) == (wanted, {"theme": "light"})


def test_equal_content_has_equal_ids_and_the_same_work_equal_fingerprints() -> None:
    assert planned(LR).plan_id == planned(LR).plan_id
    assert planned(LR).plan_id != planned(LR, target=81).plan_id
    moved = {"name": "lr${backend.lr}_${stage}", "base_output_dir": "/elsewhere"}
    here = planned(stages(STABLE, COOLDOWN))
    there = planned(stages(STABLE, COOLDOWN), project=moved)
    assert [j.fingerprint for j in here.jobs] == [j.fingerprint for j in there.jobs]


def test_each_config_is_told_to_whom_records_them() -> None:
    told = []

    def record(index: int, view: Any, config: Mapping[str, Any]) -> None:
        told.append((index, view.raw("backend.load"), config["project"]["name"]))

    composer = FakeComposer(CONFIG, stages(STABLE, {"stage": "b"}))
    build_plan_outcome(composer=composer, parser=FakeParser(), record=record)
    assert told[1] == (1, None, "lr1e-4_b")


@pytest.mark.parametrize(("sweep", "composed"), [
    (stages(STABLE, COOLDOWN), 4), (stages(STABLE, filter="${backend.lr} > 0"), 2),
    ({"configs": [{**COOLDOWN, "backend.load": "{sibling.b.name}",
                   "start_conditions": []}, {"stage": "b"}]}, 2),
], ids=["in order", "with a filter", "read early"])  # fmt: skip
def test_each_job_is_composed_once(sweep: Sweep, composed: int) -> None:
    composer = FakeComposer(CONFIG, sweep)
    build_plan_outcome(composer=composer, parser=FakeParser())
    assert len(composer.asked) == composed


def test_far_siblings_are_composed_again() -> None:
    each = {"backend.lr": list(range(70))}
    load = {"backend.load": "{sibling.stable.backend.save}", "aux": {"of": "stable"}}
    save = {"backend.save": "{output_dir}/x"}
    composer = FakeComposer(CONFIG, {"type": "list", "groups": [
        {"params": {**each, "stage": "stable"}, "defaults": save},
        {"params": {**each, "stage": "cooldown"}, "defaults": load},
    ]})  # fmt: skip
    plan = made_by(composer)
    assert "backend.load=/out/lr0_stable/x" in plan.jobs[70].overrides
    assert len(composer.asked) == 210


def test_of_many_references_that_find_nothing_each_is_told() -> None:
    configs = [{"backend.load": f"{{sibling.gone{at}.name}}"} for at in range(150)]
    found = outcome({"configs": [{"stage": "here"}, *configs]})
    assert len(found.errors) == 150
    assert {error.hint for error in found.errors} == {"stages: here"}
