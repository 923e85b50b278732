"""The plan as JSON: the documented shape, conditions in config words, always safe."""

from __future__ import annotations

import json
import math
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.conditions import kinds as condition_kinds
from autoexp_tui.config.specs import parse_condition
from autoexp_tui.model.kinds import is_ours
from autoexp_tui.model.specs import ExecutorSpec, Hole, PlanFinding
from autoexp_tui.planning.as_json import condition_to_json, json_safe, plan_to_json
from tests.planning.plans import job, plan, ten_jobs

CONDITIONS: list[condition_kinds.Condition] = [
    condition_kinds.FileExists(
        path="/x/*", glob=True, min_size=3, timeout_seconds=60.0
    ),
    condition_kinds.FileContent(
        path="/x", pattern="a+", mode="regex", description="data"
    ),
    condition_kinds.MetadataIs(
        key="step", job="a", op=">=", value=8000, blocking=False
    ),
    condition_kinds.MetricIs(name="loss", op="<", value=3.5, after_step=10),
    condition_kinds.JobStateIs(jobs=("a", "b"), state="COMPLETED"),
    condition_kinds.CommandPasses(command=("test", "-f", "x"), timeout=5.0),
    condition_kinds.LogPattern(
        log_path="/l", pattern="FATAL", check_mode="all", tail_bytes=9
    ),
    condition_kinds.TimeReached(after_seconds=30.0),
    condition_kinds.Approval(
        prompt="Go?", show_files=("/a", "/b"), on_timeout="reject"
    ),
    condition_kinds.MaxAttempts(max_attempts=2),
    condition_kinds.Cooldown(cooldown_seconds=60.0),
    condition_kinds.OwnCondition(
        class_path="tests.conditions.own_classes:EnoughLines",
        fields={"path": "/a", "lines": 2},
    ),
    condition_kinds.Composite(
        mode="any",
        conditions=(condition_kinds.FileExists(path="/x"), condition_kinds.Approval()),
    ),
    condition_kinds.Not(
        condition=condition_kinds.JobStateIs(jobs=("a",), state="FAILED")
    ),
]  # fmt: skip


def of_one_job(**fields: Any) -> dict[str, Any]:
    """The JSON of the only job of a plan."""
    tree: Any = plan_to_json(plan([job("a", **fields)]))
    return dict(tree["jobs"][0])


# -------------------------------------------------------------------------- shape
def test_the_plan_has_the_documented_keys() -> None:
    tree = plan_to_json(ten_jobs())
    assert list(tree) == [
        *("version", "name", "jobs", "edges"),
        *("holes", "holes_more", "errors", "warnings"),
    ]
    assert (tree["version"], tree["name"], tree["errors"]) == (1, "exp", [])


def test_a_job_is_told_as_it_was_resolved() -> None:
    told = of_one_job(
        stage="train", family="f0", parameters={"optim.lr": 1e-4, "betas": (0.9, 0.95)},
        overrides=("optim.lr=1e-4",), fingerprint="abc", depends_on=("b",),
    )  # fmt: skip
    assert told == {
        "index": 0, "name": "a", "stage": "train", "family": "f0",
        "parameters": {"optim.lr": 1e-4, "betas": [0.9, 0.95]},
        "overrides": ["optim.lr=1e-4"], "output_dir": "outputs/exp/a",
        "log_path_current": "outputs/logs/a/current.log",
        "script_path": "outputs/exp/scripts/a.sbatch", "fingerprint": "abc",
        "depends_on": ["b"], "start_conditions": [], "cancel_conditions": [],
    }  # fmt: skip


def test_scripts_lie_where_the_config_says() -> None:
    executor = ExecutorSpec(settings={"script_dir": "out/scripts/"})
    tree: Any = plan_to_json(plan([job("a")], executor=executor))
    assert tree["jobs"][0]["script_path"] == "out/scripts/a.sbatch"


def test_holes_say_values_stage_and_the_filter_with_its_place() -> None:
    hole = Hole(
        parameters={"lr": math.inf, "n": 1}, stage="b", filter="n > 1", where="sweep"
    )
    tree = plan_to_json(plan([job("a")], holes=(hole,), holes_more=7))
    assert tree["holes"] == [
        {"parameters": {"lr": "inf", "n": 1}, "stage": "b", "filter": "n > 1",
         "where": "sweep"}
    ]  # fmt: skip
    assert tree["holes_more"] == 7


def test_warnings_say_job_where_message_hint_and_place() -> None:
    words = {"job": "a", "where": "lr", "message": "odd", "hint": "mend it"}
    warning = PlanFinding(**words, place="exp.yaml:3")
    tree = plan_to_json(plan([job("a")], warnings=(warning,)))
    assert tree["warnings"] == [{**words, "place": "exp.yaml:3"}]


# --------------------------------------------------------------------- conditions
def test_every_kind_of_condition_is_written_below() -> None:
    ours = {one for one in condition_kinds.Condition.kinds.values() if is_ours(one)}
    assert {type(one) for one in CONDITIONS} == ours


@pytest.mark.parametrize("spec", CONDITIONS, ids=lambda spec: spec.kind)
def test_a_condition_reads_back_as_a_config_would_write_it(
    spec: condition_kinds.Condition,
) -> None:
    written = json.loads(json.dumps(condition_to_json(spec)))
    assert parse_condition(written, "here") == spec


def test_the_writer_of_a_file_is_told_when_planning_knows_it() -> None:
    spec = condition_kinds.FileExists(path="/x", writer="a")
    assert condition_to_json(spec) == {
        "class_name": "FileExistsCondition", "timeout_seconds": None, "blocking": True,
        "description": "", "path": "/x", "glob": False, "min_size": 0, "fresh": True,
        "writer": "a",
    }  # fmt: skip


# ------------------------------------------------------------------------- safety


@pytest.mark.parametrize(("value", "told"), [
    (math.nan, "nan"), (-math.inf, "-inf"),
    ({3: date(2030, 5, 1)}, {"3": "2030-05-01"}), ("a\udcff", "a\ufffd"),
])  # fmt: skip
def test_what_json_lacks_becomes_text(value: object, told: object) -> None:
    assert of_one_job(parameters={"x": value})["parameters"] == {"x": told}


PLAIN = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
STRANGE = PLAIN | st.floats() | st.dates() | st.binary(max_size=3)


def trees(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Lists and mappings of leaves, nested."""
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        ),
        max_leaves=8,
    )


@settings(deadline=None)
@given(trees(STRANGE))
def test_anything_is_safe_to_dump_and_encode(tree: object) -> None:
    text = json.dumps(json_safe(tree), allow_nan=False, ensure_ascii=False)
    assert text.encode("utf-8").decode("utf-8") == text


@settings(deadline=None)
@given(trees(PLAIN))
def test_what_json_can_hold_stays_as_it_is(tree: object) -> None:
    assert json_safe(tree) == tree
