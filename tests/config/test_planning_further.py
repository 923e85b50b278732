"""Plans made for a session that runs: where configs lie, and whom they may name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.conditions.kinds import FileExists, JobStateIs
from autoexp_tui.config.planning import ChildPlanner, PlanningRequest, run_planning
from autoexp_tui.engine.ports import FurtherPlan
from autoexp_tui.model.errors import UsageError, ValidationFailed
from autoexp_tui.model.specs import Plan
from autoexp_tui.storage.provenance import load_record, write_provenance
from tests.config.config_trees import write_tree
from tests.config.planned_here import planning_here

TRAIN = """
defaults: [monitoring: plain, _self_]
project: {name: "train{lr}", base_output_dir: out}
lr: 1
backend: {class_name: Command, command: ["./train", "${lr}"]}
slurm: {log_dir: "${project.base_output_dir}/logs"}
sweep: {configs: [{stage: train, lr: 3}]}
"""
EVALUATE = """
project: {name: eval, base_output_dir: out}
load: null
after: null
backend: {class_name: Command, command: ["./eval", "${load}"]}
slurm: {log_dir: "${project.base_output_dir}/logs"}
sweep:
  configs:
    - stage: evaluate
      start_conditions:
        - {class_name: JobState, job_name: "${after}", state: COMPLETED,
           timeout_seconds: 9}
        - {class_name: FileExists, path: "${load}/done", timeout_seconds: 9}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("further")
    write_tree(
        place / "config", train=TRAIN, evaluate=EVALUATE,
        monitoring__plain="poll_seconds: 1\n", monitoring__other="loss: perplexity\n",
    )  # fmt: skip
    return place


@pytest.fixture(scope="module")
def base(place: Path) -> Plan:
    """The plan of the session that runs."""
    request = PlanningRequest(
        config_ref="train", cwd=str(place), keep=True, state_dir="state", now=5.0
    )
    result = run_planning(request)
    result.raise_errors()
    assert result.plan is not None
    return result.plan


@pytest.fixture(autouse=True)
def planned_here(base: Plan, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All but the first plan are made in this process."""
    del base
    with planning_here(monkeypatch):
        yield


def asked(base: Plan, **fields: object) -> FurtherPlan:
    known = tuple((job.name, job.output_dir, job.log_dir) for job in base.jobs)
    wanted = FurtherPlan(
        base=base, known=known, family="f0", stage="train", families=1, now=9.0
    )
    return replace(wanted, **fields)  # type: ignore[arg-type]


def evaluation(base: Plan, after: str = "train3") -> FurtherPlan:
    load = f"{base.jobs[0].output_dir}/ckpt"
    overrides = (f"load={load}", f"after={after}", "project.name=train3_eval")
    return asked(base, config_ref="evaluate", overrides=overrides)


def test_a_further_plan_may_wait_for_jobs_of_the_session(
    place: Path, base: Plan
) -> None:
    planner = ChildPlanner(state_dir=str(place / "state"))
    plan = planner.plan(evaluation(base))
    (job,) = plan.jobs
    state, there = job.start_conditions
    assert isinstance(state, JobStateIs)
    assert state.jobs == ("train3",)
    assert isinstance(there, FileExists)
    assert there.writer == "train3"
    assert job.depends_on == ("train3",)
    assert [(edge.before, edge.after) for edge in plan.edges] == [
        ("train3", "train3_eval")
    ]
    assert (job.family, job.stage) == ("f0", "evaluate")
    assert load_record(place / "state", plan.plan_id) is not None
    assert planner.plan(evaluation(base)) == plan  # asked again after a kill


def test_a_job_that_nobody_knows_is_refused_by_planning(base: Plan) -> None:
    with pytest.raises(ValidationFailed, match="names the job nobody"):
        ChildPlanner(state_dir=base.state_dir).plan(evaluation(base, after="nobody"))


def test_a_config_that_is_not_there_is_refused_by_planning(base: Plan) -> None:
    with pytest.raises(UsageError, match="there is no config `evaluat`"):
        ChildPlanner(state_dir=base.state_dir).plan(asked(base, config_ref="evaluat"))


def test_the_config_of_a_job_is_planned_again_with_what_differs(
    place: Path, base: Plan
) -> None:
    record = load_record(place / "state", base.plan_id)
    own = write_provenance(base, base.jobs[0], record) / "unresolved_config.yaml"
    plan = ChildPlanner(state_dir=base.state_dir).plan(
        asked(base, config_path=str(own),
              overrides=("lr=4", "project.name=train3_recovered", "+monitoring=other")),
    )  # fmt: skip
    (job,) = plan.jobs
    assert job.name == "train3_recovered"
    assert job.command == ("./train", "4")
    assert job.stage == "train"
    assert plan.monitoring.loss == "perplexity"
    assert job.output_dir == f"{place}/out/train3_recovered"


def test_a_job_that_joined_is_made_again_as_it_was(place: Path, base: Plan) -> None:
    record = load_record(place / "state", base.plan_id)
    own = write_provenance(base, base.jobs[0], record) / "unresolved_config.yaml"
    planner = ChildPlanner(state_dir=base.state_dir)
    plan = planner.plan(
        asked(base, config_path=str(own), overrides=("project.name=again",))
    )
    made = planner.compose(plan, "again", ["lr=7", "+monitoring=other"])
    assert made.command == ("./train", "7")


def test_a_job_of_a_command_has_no_config_to_change(base: Plan) -> None:
    bare = replace(base, config_ref="")
    with pytest.raises(UsageError, match="it has no config"):
        ChildPlanner().compose(bare, "train3", ["lr=1"])
