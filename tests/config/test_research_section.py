from __future__ import annotations

from typing import Any

import pytest

from autoexp_tui.config.settings import HouseParser
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import SpecRefused
from autoexp_tui.research.options import (
    Budgets,
    Fixer,
    ResearchOptions,
    RoleBudget,
    read_options,
)
from autoexp_tui.storage.json_codec import decode_plan, encode_plan
from tests.planning.composed import planned
from tests.support.refusals import read_refusals

AGENTS = {"a": {"backend": "claude"}}
GIVEN: dict[str, Any] = {
    "goal": "less loss", "agent": "a", "gpus": 0,
    "budgets": {"gpu_hours": 8, "fixer": {"calls": 3}},
    "fixer": {"agent": ["a"], "may_override": ["lr"]},
}  # fmt: skip
SWEEP = {"configs": [{"stage": "a"}]}


def refusals(**config: Any) -> tuple[Problem, ...]:
    with pytest.raises(SpecRefused) as refused:
        HouseParser("/w").research({"agents": AGENTS, **config})
    return refused.value.problems


@pytest.mark.parametrize(
    ("research", "where", "message", "hint"),
    read_refusals(__file__, "a_bad_option_of_research_says_what_is_wrong"),
)
def test_a_bad_option_of_research_says_what_is_wrong(
    research: dict[str, Any], where: str, message: str, hint: str
) -> None:
    found = refusals(research={"goal": "x", "agent": "a", **research})
    assert found == (Problem(message, where=where, hint=hint),)


def test_what_does_not_go_with_research_is_refused() -> None:
    (tree,) = refusals(research=GIVEN, tree={})
    assert "a session has one of them" in tree.message
    slurm = {"client": {"class_name": "SlurmClient"}}
    (gpus,) = refusals(research={**GIVEN, "gpus": None}, slurm=slurm)
    assert (gpus.where, gpus.message[:22]) == (
        "research.gpus",
        "is missing: on Slurm n",
    )
    (goal,) = refusals(research={**GIVEN, "goal": "ä" * 16_385})
    assert (goal.where, goal.message[:16]) == ("research.goal", "has 32770 bytes;")


def test_no_section_is_no_research() -> None:
    assert HouseParser("/w").research({}) == {}
    assert HouseParser("/w").research({"research": None}) == {}


def test_a_plan_carries_research_and_its_jobs_do_not() -> None:
    config = {"research": GIVEN, "agents": AGENTS}
    plain, plan = planned(SWEEP), planned(SWEEP, **config)
    assert plain.research == {}
    assert [job.fingerprint for job in plan.jobs] == [
        job.fingerprint for job in plain.jobs
    ]
    assert decode_plan(encode_plan(plan)) == plan
    assert read_options(plan.research) == ResearchOptions(
        goal="less loss",
        agent=("a",),
        gpus=0,
        budgets=Budgets(gpu_hours=8.0, fixer=RoleBudget(calls=3)),
        fixer=Fixer(agent=("a",), may_override=("lr",)),
    )
    swept = planned({"configs": [{"stage": "a", "++research.gpus": 2}]}, **config)
    assert swept.warnings[-1].message.endswith("it is one for the whole session")


def test_research_without_a_sweep_has_no_jobs_of_its_own() -> None:
    assert planned(None, research=GIVEN, agents=AGENTS).jobs == ()
    assert len(planned(None).jobs) == 1


def test_runs_of_research_are_watched_for_a_flat_loss() -> None:
    plan = planned(SWEEP, research=GIVEN, agents=AGENTS)
    assert plan.monitoring.anomalies.flat_steps == 500
    assert {plan.rules_of(job).anomalies.flat_steps for job in plan.jobs} == {500}
    assert planned(SWEEP).monitoring.anomalies.flat_steps is None
