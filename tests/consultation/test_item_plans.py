from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hydra.core.global_hydra import GlobalHydra

from autoexp_tui.config.planning import ChildPlanner, PlanningRequest
from autoexp_tui.config.planning_main import answer_request
from autoexp_tui.consultation.item_plans import plan_items
from autoexp_tui.engine.ports import FurtherPlan
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.research.ports import PlannedItems, PlanRequest
from autoexp_tui.research.state import Item
from autoexp_tui.storage import provenance
from tests.config.config_trees import write_tree
from tests.config.planned_here import planning_here

PLAIN = """
project: {name: "lr{lr}", base_output_dir: out}
lr: 1
backend: {class_name: Command, command: ["./train", "${lr}"], env: {A: b}}
slurm: {log_dir: "${project.base_output_dir}/logs", sbatch: {gpus: 1}}
monitoring: {log_events: [{name: e, pattern: x}]}
"""
EXP = f"""{PLAIN}
agents: {{a: {{backend: claude}}}}
research: {{goal: less loss, agent: a}}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("items").resolve()
    swept = EXP + "sweep: {groups: [{params: {lr: [1, 2]}}, "
    swept += "{configs: [{stage: one}, {stage: two}]}]}\n"
    swept = swept.replace("lr{lr}", "{stage}{lr}")
    reads = swept.replace(
        "{stage: two}", "{stage: two, x: '{runtime.reads_one1.step}'}"
    )
    write_tree(
        place / "config", exp=EXP, plain=PLAIN, swept=swept, reads=f"x: 1\n{reads}"
    )
    return place


@pytest.fixture
def planner(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChildPlanner]:
    with planning_here(monkeypatch):
        yield ChildPlanner(state_dir=str(place / "state"))


class Unused(ChildPlanner):
    """Is asked nothing."""

    def plan_all(self, asked: Sequence[FurtherPlan]) -> NoReturn:
        pytest.fail(f"nothing is to be planned: {asked}")


@cache
def session_plan(place: Path, ref: str = "exp") -> Plan:
    asked = PlanningRequest(
        config_ref=ref, cwd=str(place), state_dir="state", now=5.0,
        overrides=("research.goal=faster", "backend.env.A=c"),
    )  # fmt: skip
    plan = answer_request(asked).plan
    GlobalHydra.instance().clear()
    assert plan is not None
    return plan


def item(name: str, *overrides: str, **more: Any) -> Item:
    return Item(id=name, overrides=overrides, **more)


def run(
    planner: ChildPlanner, plan: Plan, *items: Item, taken: str = "", **code: Any
) -> PlannedItems:
    request = PlanRequest(items=items, taken=frozenset(taken.split()))
    directory = Path(plan.cwd, "state/s1/research")
    return plan_items(planner, plan, request, directory, 9.0, **code)


def one_job(found: PlannedItems) -> JobSpec:
    assert found.problems == {}
    (made,) = found.items
    (job,) = made.jobs
    return job


def test_an_item_becomes_a_job_of_the_sessions_config(
    place: Path, planner: ChildPlanner
) -> None:
    plan = session_plan(place)
    made = run(planner, plan, item("a", "lr=3", "slurm.sbatch.gpus=2", gpus=None))
    job = one_job(made)
    assert (job.name, job.command) == ("a_lr3", ("./train", "3"))
    assert job.env == {"A": "c"}  # as the command line of the session has it
    assert job.output_dir == f"{place}/out/s1/a/a_lr3"
    assert job.log_dir == f"{place}/state/s1/research/logs/a_lr3"
    assert (job.index, job.family, job.stage, job.place) == (0, "a", "", "main")
    assert job.trial
    assert job.parameters == {"lr": "3"}  # by which results tell it from others
    assert made.items[0].wanted_gpus == 2
    assert job.own_rules == plan.monitoring
    record = provenance.load_record(Path(job.config_record))
    assert record is not None
    assert record.get_configs(job.name) is not None


@pytest.mark.parametrize(
    ("has_gpus", "wanted", "given"),
    [(True, 4, {"gpus": 4}), (True, 0, {}), (False, 4, {"gpus-per-node": 1})],
)
def test_a_job_gets_the_gpus_that_its_item_wants_where_gpus_are_counted(
    place: Path,
    planner: ChildPlanner,
    has_gpus: bool,
    wanted: int,
    given: dict[str, int],
) -> None:
    words = ("slurm.sbatch.gpus=null", "++slurm.sbatch.gpus_per_node=1")
    asked = PlanRequest(items=(item("a", *words, gpus=wanted),), has_gpus=has_gpus)
    plan = session_plan(place)
    job = one_job(plan_items(planner, plan, asked, Path(plan.cwd, "s1/research"), 9.0))
    assert job.resources.options == given
    assert job.resources.gpus == sum(given.values())


def test_an_item_may_name_a_config_without_research_and_one_with_a_sweep(
    place: Path, planner: ChildPlanner
) -> None:
    plan = session_plan(place)
    plain, swept = item("p", config_ref="plain"), item("s", "lr=7", config_ref="swept")
    found = run(planner, plan, plain, swept)
    assert found.problems == {}
    (plain_job,), jobs = (one.jobs for one in found.items)
    assert (plain_job.command, plain_job.env) == (("./train", "1"), {"A": "b"})
    assert [(job.stage, job.family, job.command[1]) for job in jobs] == [
        ("one", "s", "7"), ("two", "s", "7"),
    ]  # fmt: skip


def test_an_item_that_does_not_plan_says_why_and_the_others_are_planned(
    place: Path, planner: ChildPlanner
) -> None:
    expected = {
        item("a"): "id: a job is called a_lr1 already",
        item("own"): "id: a job is called own already",
        item("b", "lrr=3"): "override lrr: there is no such key; did you mean `lr`?",
        item("c", "lr=[3"): "override lr",
        item("d", "backend.command=[]"): "backend.command: ",
        item("e", config_ref="nobody"): "config_ref: there is no config `nobody`",
        item("f", code_ref="c9"): "code_ref: c9 has made no change of code",
        item("g", "lr=\x1b[31mx"): "override lr",
        item("h", "project.name=b/" + "y" * 300): "project.name: ",
        item("reads", config_ref="reads"): "overrides: x={runtime.reads_one1.step}: re",
    }
    found = run(planner, session_plan(place), *expected, item("ok"), taken="a_lr1 own")
    assert [one.id for one in found.items] == ["ok"]
    assert found.problems.keys() == {one.id for one in expected}
    for one, begin in expected.items():
        text = found.problems[one.id]
        assert text.startswith(begin)
        assert text.isprintable()
        assert len(text) <= 300


def test_items_whose_jobs_would_share_a_name_are_not_both_planned(
    place: Path, planner: ChildPlanner
) -> None:
    first, second = item("a", "project.name=b_c"), item("a_b", "project.name=c")
    found = run(planner, session_plan(place), first, second)
    assert found.problems == {"a_b": "id: a job is called a_b_c already"}


def test_which_programs_run_is_no_answers_to_set() -> None:
    plan = Plan(plan_id="p", name="p", state_dir="/s", jobs=())
    found = run(Unused(), plan, item("a", "backend.command=[x]", consultation="c1"))
    assert found.problems["a"].endswith("; a person may insert such an item")


def test_a_persons_item_and_a_fix_may_set_more(
    place: Path, planner: ChildPlanner
) -> None:
    asked = item("a", "backend.command=[other]", consultation="c1")
    own, fix = replace(asked, by="ada"), replace(asked, id="b", fixes="a")
    found = run(planner, session_plan(place), own, fix)
    assert found.problems == {}


def test_a_change_of_code_moves_what_the_worktree_has(
    place: Path, planner: ChildPlanner
) -> None:
    tree = place / "state/s1/research/wt/1"
    tree.mkdir(parents=True, exist_ok=True)
    (tree / "train.py").touch()
    plan = session_plan(place)
    words = f"backend.command=[{place}/train.py,'--in={place}/data',{place}2/train.py]"
    paths = f"backend.env.A='/x:{place}/train.py:{place}/y'"
    asked = item("a", words, paths, code_ref="c1")
    code: dict[str, Any] = {"find_worktree": {"c1": tree}.get}
    found = run(planner, plan, asked, top=place, **code)
    job = one_job(found)
    assert job.command == (
        f"{tree}/train.py",
        f"--in={place}/data",
        f"{place}2/train.py",
    )
    assert job.env == {"A": f"/x:{tree}/train.py:{place}/y"}
    assert job.cwd == str(tree)
    assert job.output_dir == f"{place}/out/s1/a/a_lr1"
    elsewhere = run(planner, plan, item("a", code_ref="c1"), top=place / "config",
                    find_worktree={"c1": tree}.get)  # fmt: skip
    assert elsewhere.problems["a"].startswith("code_ref: would change nothing")


def test_ten_items_are_planned_in_one_process(place: Path) -> None:
    planner, plan = ChildPlanner(state_dir=str(place / "state")), session_plan(place)
    wrong = item("wrong", "lrr=1")

    def measure(*items: Item) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        found = run(planner, plan, wrong, *items)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert [one.id for one in found.items] == [one.id for one in items]
        assert found.problems.keys() == {"wrong"}
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    one = measure(item("i0", "lr=0"))
    ten = measure(*(item(f"i{at}", f"lr={at}") for at in range(10)))
    print(f"planning 1 item takes {one:.2f} s of CPU, 10 items {ten:.2f} s")
    assert ten < 3 * one
