"""A plan as JSON: the documented shape, always safe; who set a job's keys."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date
from typing import Any

import pytest

from autoexp_tui.conditions import kinds
from autoexp_tui.config.specs import parse_condition
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.kinds import is_ours
from autoexp_tui.model.specs import ExecutorSpec, Hole, JobSpec
from autoexp_tui.planning.as_json import condition_to_json, plan_to_json
from autoexp_tui.planning.job_details import list_config_entries
from tests.planning.plans import job, plan, ten_jobs

CONDITIONS: list[kinds.Condition] = [
    kinds.FileExists(path="/x/*", glob=True, min_size=3, timeout_seconds=60.0),
    kinds.FileContent(path="/x", pattern="a+", mode="regex", description="data"),
    kinds.MetadataIs(key="step", job="a", op=">=", value=8000, blocking=False),
    kinds.MetricIs(name="loss", op="<", value=3.5, after_step=10),
    kinds.JobStateIs(jobs=("a", "b"), state="COMPLETED"),
    kinds.CommandPasses(command=("test", "-f", "x"), timeout=5.0),
    kinds.LogPattern(log_path="/l", pattern="FATAL", check_mode="all", tail_bytes=9),
    kinds.TimeReached(after_seconds=30.0),
    kinds.Approval(prompt="Go?", show_files=("/a", "/b"), on_timeout="reject"),
    kinds.MaxAttempts(max_attempts=2), kinds.Cooldown(cooldown_seconds=60.0),
    kinds.OwnCondition(class_path="autoexp_tui.testing.own_condition:EnoughLines",
                       fields={"path": "/a", "lines": 2}),
    kinds.Composite(mode="any", conditions=(kinds.FileExists(path="/x"),
                                            kinds.Approval())),
    kinds.Not(condition=kinds.JobStateIs(jobs=("a",), state="FAILED")),
]  # fmt: skip


def test_a_plan_is_told_as_it_was_resolved() -> None:
    tree: Any = plan_to_json(ten_jobs())
    assert list(tree) == [
        *("version", "name", "jobs", "edges"),
        *("holes", "holes_more", "errors", "warnings"),
    ]
    assert (tree["version"], tree["name"], tree["errors"]) == (1, "exp", [])
    (told,) = to_json(job(
        "a", stage="train", family="f0", fingerprint="abc", depends_on=("b",),
        parameters={"optim.lr": 1e-4, "betas": (0.9, 0.95)},
        overrides=("optim.lr=1e-4",),
    ))["jobs"]  # fmt: skip
    assert told == {
        "index": 0, "name": "a", "stage": "train", "family": "f0",
        "parameters": {"optim.lr": 1e-4, "betas": [0.9, 0.95]},
        "overrides": ["optim.lr=1e-4"], "output_dir": "outputs/exp/a",
        "log_path_current": "outputs/logs/a/current.log",
        "script_path": "outputs/exp/scripts/a.sbatch", "fingerprint": "abc",
        "depends_on": ["b"], "start_conditions": [], "cancel_conditions": [],
    }  # fmt: skip
    stage = {"stage": "b", "filter": "n > 1", "where": "sweep"}
    hole = Hole(parameters={"lr": math.inf, "n": 1}, **stage)
    words = {"job": "a", "where": "lr", "message": "odd", "hint": "mend it"}
    warning = Problem(**words, place="exp.yaml:3")
    executor = ExecutorSpec(settings={"script_dir": "out/scripts/"})
    more: Any = {"holes": (hole,), "holes_more": 7, "executor": executor}
    tree = to_json(job("a"), warnings=(warning,), **more)
    assert tree["jobs"][0]["script_path"] == "out/scripts/a.sbatch"
    assert tree["holes"] == [{"parameters": {"lr": "inf", "n": 1}, **stage}]
    assert tree["holes_more"] == 7
    assert tree["warnings"] == [{**words, "place": "exp.yaml:3"}]


def to_json(job: JobSpec, **fields: Any) -> Any:
    return plan_to_json(plan([job], **fields))


@pytest.mark.parametrize("spec", CONDITIONS, ids=lambda spec: spec.kind)
def test_a_condition_reads_back_as_a_config_would_write_it(spec: Any) -> None:
    ours = {one for one in kinds.Condition.kinds.values() if is_ours(one)}
    assert {type(one) for one in CONDITIONS} == ours
    written = json.loads(json.dumps(condition_to_json(spec)))
    assert parse_condition(written, "here") == spec


@pytest.mark.parametrize(("value", "told"), [
    (math.nan, "nan"), (-math.inf, "-inf"),
    ({3: date(2030, 5, 1)}, {"3": "2030-05-01"}), ("a\udcff", "a\ufffd"),
    (b"a", "b'a'"), ([1, 0.5, None, {"a": "é"}], [1, 0.5, None, {"a": "é"}]),
])  # fmt: skip
def test_what_json_lacks_becomes_text(value: object, told: object) -> None:
    (job_told,) = to_json(job("a", parameters={"x": value}))["jobs"]
    assert job_told["parameters"] == {"x": told}
    json.dumps(job_told, allow_nan=False, ensure_ascii=False).encode("utf-8")


RESOLVED: Mapping[str, object] = {
    "optim": {"lr": "1e-3", "name": "adam"},
    "train": {"iters": "800"},
    "seed": "7",
    "stage": "stable",
}


def entry(key: str, *overrides: str, written: Any = RESOLVED) -> tuple[str, str]:
    """Who set a key of a job that sweeps the rate, and as what it is written."""
    me = job("a", parameters={"++optim.lr": 1e-3})
    made = list_config_entries(RESOLVED, written, me, overrides)
    return next((one.origin, one.written) for one in made if one.key == key)


@pytest.mark.parametrize(("origin", "key", "overrides"), [
    ("swept", "optim.lr", ()), ("swept", "optim.lr", ("optim.lr=2",)),
    ("file", "seed", ()), ("ours", "stage", ()),
    ("override", "train.iters", ("train.iters=800",)),
    ("override", "train.iters", ("+train.iters=800",)),
    ("override", "train.iters", ("train=short",)),
    ("override", "train.iters", ("train@train=short",)),
])  # fmt: skip
def test_who_set_it_is_told(origin: str, key: str, overrides: tuple[str, ...]) -> None:
    assert entry(key, *overrides)[0] == origin
    computed = {**RESOLVED, "train": {"iters": "${oc.eval:8*100}"}}
    told = entry("train.iters", written=computed)
    assert told == ("computed", "${oc.eval:8*100}")


def test_lists_stand_in_one_line_and_mappings_in_them_key_by_key() -> None:
    tree = {"plain": ["1", "2"], "rules": [{"name": "x"}, {"name": "y"}], "none": {}}
    made = list_config_entries(tree, tree, job("a"), ())
    assert [(one.key, one.value) for one in made] == [
        ("plain", "[1, 2]"),
        ("rules.0.name", "x"),
        ("rules.1.name", "y"),
        ("none", "{}"),
    ]
