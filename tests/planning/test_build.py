"""From a config to a plan, composed by Hydra; a planned job made again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from autoexp_tui.conditions.kinds import FileExists, MetadataIs
from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.config.settings import HouseParser
from autoexp_tui.model.errors import ValidationFailed
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.as_json import plan_to_json
from autoexp_tui.planning.build import PlanSource, build_execution_plan
from autoexp_tui.planning.ports import CannotCompose, SpecRefused
from autoexp_tui.planning.replan_job import build_job_again, join_plan
from tests.model import builders
from tests.planning.composed import (
    CountingComposer,
    Sweep,
    extracting,
    outcome,
    planned,
)

PARSER: Final = HouseParser("/cwd")
LR = {"params": {"backend.lr": [1e-4, 5e-4]}}
RATES: Final = {"params": {"backend.lr": [1e-3, 2e-3, 3e-3]}}
TABLE: Final = yaml.safe_load(Path(__file__).with_name("jobs.yaml").read_text("utf-8"))


def made_by(composer: CountingComposer, source: PlanSource | None = None) -> Plan:
    return build_execution_plan(source, composer=composer, parser=PARSER)


def stages(*configs: Mapping[str, Any], **node: Any) -> Sweep:
    return {"groups": [LR, {"configs": list(configs)}], **node}


def one(*configs: Mapping[str, Any], **changes: Any) -> list[JobSpec]:
    """The jobs of one family."""
    return list(planned({"configs": list(configs)}, **changes).jobs)


def wait_for(name: str) -> dict[str, Any]:
    return {"class_name": "SlurmState", "job_name": name, "state": "COMPLETED",
            "timeout_seconds": 60}  # fmt: skip


STABLE = {"stage": "stable", "backend.save": "{output_dir}/checkpoints"}
COOLDOWN = {
    "stage": "cooldown", "backend.load": "{sibling.stable.output_dir}/checkpoints",
    "start_conditions": [wait_for("{sibling.stable.name}")],
}  # fmt: skip


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


def test_notes_and_the_last_step_are_read() -> None:
    (noted,) = one({"_meta": {"stage": "a", "why": "first"}})
    assert (noted.stage, dict(noted.notes)) == ("a", {"why": "first"})
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


def test_what_one_slip_leads_to_is_told_once() -> None:
    new = {**COOLDOWN, "backend.new": 1}
    found = outcome(stages(STABLE, new, filter="${backend.lr} > 0"))
    assert len([w for w in found.warnings if w.where == "backend.new"]) == 1
    for other in (COOLDOWN, {**COOLDOWN, "backend.load": "x"}):
        sweep = {"configs": [{"stage": "stable", "backend.lrr": 1}, other]}
        assert len(outcome(sweep).errors) == 1
    with pytest.raises(ValidationFailed, match="the plan has 1 error") as caught:
        made_by(CountingComposer({"params": {"backend.lrr": [1, 2, 3]}}))
    (error,) = caught.value.problems
    said = "is not in the config (and for 2 more jobs)"
    assert (error.where, error.message) == ("backend.lrr", said)


def test_the_same_ring_in_many_families_is_told_once() -> None:
    def ring(stages: str, others: str, make: Callable[[str], Any]) -> Sweep:
        pairs = zip(stages, others, strict=True)
        return {"configs": [{"stage": one, **make(f"{{sibling.{other}.name}}")}
                            for one, other in pairs]}  # fmt: skip

    def reading(name: str) -> Sweep:
        return {"backend.load": name}

    (error,) = outcome({"groups": [RATES, ring("ab", "ba", reading)]}).errors
    said = "references go in a ring: a -> b -> a (and for 2 more jobs)"
    assert error.message == said
    of_others = outcome(ring("abcd", "badc", reading)).errors
    assert ["in a ring" in error.message for error in of_others] == [True, True]
    waits = ring("ab", "ba", lambda name: {"start_conditions": [wait_for(name)]})
    (error,) = outcome({"groups": [RATES, waits]}).errors
    assert error.message.endswith("in a ring: lr1e-3_a -> lr1e-3_b -> lr1e-3_a")


@pytest.mark.parametrize(("parameters", "key"), [
    ({"backend.save": "{sibling.c.name}", "backend.load": "{sibling.b.name}"},
     "backend.load"), ({"project.name": "x{sibling.b.name}"}, "project.name"),
    ({"backend": {"load": "{sibling.b.name}"}, "target": "{base.x}"}, "backend.load"),
])  # fmt: skip
def test_a_ring_is_told_at_the_key_that_closes_it(parameters: Sweep, key: str) -> None:
    two = {"stage": "b", "backend.load": "{sibling.a.name}"}
    found = outcome({"configs": [{"stage": "a", **parameters}, two, {"stage": "c"}]})
    assert [e.where for e in found.errors if "in a ring" in e.message] == [key]


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
    plan = made_by(CountingComposer(LR), PlanSource(**told))
    assert {key: getattr(plan, key) for key in told} == told
    assert (plan.name, plan.base_output_dir) == ("dense", "/out")
    ui = {"first_run": "hello"}
    for given, configured, wanted in (
        ("/s", {"state_dir": "/m"}, "/s"), ("", {"state_dir": "/m"}, "/m"),
        ("", {}, "outputs/.autoexp"),
    ):  # fmt: skip
        composer = CountingComposer(monitoring=configured, ui=ui)
        plan = made_by(composer, PlanSource(state_dir=given))
        assert (plan.state_dir, plan.ui) == (wanted, ui)


def test_a_cooldown_starts_from_its_own_stable_run() -> None:
    composer = HydraComposer(
        "stable_and_cooldown", Path(__file__).with_name("examples")
    )
    plan = build_execution_plan(composer=composer, parser=PARSER)
    base, stages, compared = 1, 2, 1
    assert composer.composed == base + stages + compared
    names = [f"lr2.5e-4_bsz{n}_{s}" for n in (64, 128) for s in ("stable", "cooldown")]
    assert [job.name for job in plan.jobs[:4]] == names
    cooldown, stable = plan.jobs[3], names[2]
    # 50e9 // 4096 // 128 = 95367 iterations; 80 % of it, rounded to a save: 76000.
    path = f"/out/{stable}/checkpoints/iter_76000"
    assert f"backend.megatron.load={path}" in cooldown.overrides
    assert "backend.megatron.aux.tokens=50000000000" in cooldown.overrides
    latest = f"{path}/latest.txt"
    assert cooldown.start_conditions == (
        FileExists(path=latest, timeout_seconds=7200, writer=stable),
        MetadataIs(job=stable, key="checkpoint_iteration", value=76000),
    )
    assert cooldown.depends_on == (stable,)
    assert {job.family for job in plan.jobs} == {"f0", "f1", "f2", "f3"}
    again = build_job_again(cooldown, (), plan=plan, composer=composer, parser=PARSER)
    assert again == cooldown


FAR = {"type": "list", "groups": [
    {"params": {"backend.lr": list(range(70)), "stage": stage}, "defaults": more}
    for stage, more in (
        ("stable", {"backend.save": "{output_dir}/x"}),
        ("b", {"backend.load": "{sibling.stable.backend.save}", "aux": {"of": "a"}}),
    )
]}  # fmt: skip
EARLY = {**COOLDOWN, "backend.load": "{sibling.b.name}", "start_conditions": []}


@pytest.mark.parametrize(("sweep", "composed"), [
    (stages(STABLE, COOLDOWN), 4), (stages(STABLE, filter="${backend.lr} > 0"), 2),
    ({"configs": [EARLY, {"stage": "b"}]}, 2), (FAR, 210),
], ids=["in order", "with a filter", "read early", "far siblings again"])  # fmt: skip
def test_each_job_is_composed_once(sweep: Sweep, composed: int) -> None:
    composer = CountingComposer(sweep)
    plan = made_by(composer)
    assert len(composer.asked) == composed
    if sweep is FAR:
        assert "backend.load=/out/lr0_stable/x" in plan.jobs[70].overrides


def test_a_point_sets_rules_of_its_own_or_chooses_them_by_their_group() -> None:
    usual, own = {"stage": "a"}, {"monitoring.log_events": extracting("x")}
    strict = {"stage": "c", "monitoring": "strict"}
    found = outcome({"configs": [usual, own, strict, {**own, "stage": "d"}]})
    assert found.warnings == ()
    plan = found.plan
    assert plan is not None
    each = map(plan.rules_of, plan.jobs)
    extracted = [[*one.log_events[0].extract_groups] for one in each]
    assert extracted == [["checkpoint_iteration"], ["x"], ["loss"], ["x"]]
    assert len(plan.rule_sets) == 2  # equal ones are kept once
    assert plan.jobs[0].rules == ""
    assert plan.jobs[1].rules == plan.jobs[3].rules
    events = extracting("checkpoint_iteration")
    same = planned({"configs": [{"stage": "a", "monitoring.log_events": events}]})
    assert (same.rule_sets, same.jobs[0].rules) == ({}, "")
    short = {"stage": "b", "monitoring.progress.total": "target"}
    assert [job.progress_total for job in one(usual, short)] == [100, 80]
    log = {"class_name": "LogAction", "message": "{checkpoint} {sibling.x}"}
    rules = [{"name": "n", "pattern": "a{2}", "actions": [log]}]
    (job,) = one({"monitoring.log_events": rules})
    assert "a{2}" in job.overrides[0]
    assert "{checkpoint} {sibling.x}" in job.overrides[0]


WHOLE = "it is one for the whole session"
BEFORE = "before any job is composed"


@pytest.mark.parametrize(("key", "value", "said"), [
    ("monitoring.state_dir", "/elsewhere", WHOLE), ("ui.first_run", "hello", WHOLE),
    ("++monitoring.poll_seconds", 5, WHOLE), ("defaults", ["x"], BEFORE),
    ("slurm.client.class_name", "Slurm", WHOLE), ("sweep.filter", ["x"], BEFORE),
    ("hydra.searchpath", ["x"], BEFORE), ("++hydra.job.name", ["x"], BEFORE),
])  # fmt: skip
def test_a_setting_of_the_session_in_a_point_is_said_to_have_no_effect(
    key: str, value: object, said: str
) -> None:
    found = outcome({"configs": [{"stage": "a", key: value}]})
    (warning,) = found.warnings
    assert warning.where == key
    assert warning.message.startswith("has no effect in a sweep: ")
    assert warning.message.endswith(said)
    assert warning.hint == f"set `{key.lstrip('+')}` in the config, outside the sweep"
    assert found.plan is not None
    assert said == WHOLE or found.plan.jobs[0].overrides == ()


def test_a_job_takes_further_overrides_that_fit() -> None:
    own = {"stage": "a", "monitoring.log_events": extracting("path")}
    composer = CountingComposer(stages(own, {"stage": "b"}))
    plan = made_by(composer)
    again = partial(build_job_again, plan=plan, composer=composer, parser=PARSER)
    first, job = plan.jobs[:2]
    assert again(first, ()) == first
    same = again(job, [f"backend.lr={job.parameters['backend.lr']}"])
    assert (same.planned, same.parameters) == (None, job.parameters)
    assert same.fingerprint == job.fingerprint
    made = again(first, ["backend.iters=300"])
    assert (first.progress_total, made.progress_total) == (100, 300)
    assert made.own_values == {"backend.iters": 300}
    assert made.planned is not None
    assert made.planned["backend.iters"] == 100
    assert made.rules == first.rules != ""
    assert made.own_rules is None
    event = "{name:e,pattern:'(x)',extract_groups:{gone:'1'}}"
    made = again(first, [f"monitoring.log_events=[{event}]"])
    both = (plan.rules_of(one).log_events[0] for one in (first, made))
    assert [one.extract_groups for one in both] == [{"path": "1"}, {"gone": "1"}]
    with pytest.raises(CannotCompose):
        again(first, ["backend.nothing=1"])
    for unfit in ("backend.command=go", "++slurm.bad=1"):
        with pytest.raises(SpecRefused):
            again(first, [unfit])


@pytest.mark.parametrize(("own", "named"), [("f0", ["f3", "f3"]), ("f1", ["f7", "f8"])])
def test_families_that_join_are_numbered_anew(own: str, named: list[str]) -> None:
    jobs = builders.job("x", family="f0"), builders.job("y", 1, stage="o", family=own)
    made = join_plan(builders.plan(*jobs), family="f3", families=7, stage="train")
    assert [one.family for one in made.jobs] == named
    assert [one.stage for one in made.jobs] == ["train", "o"]
