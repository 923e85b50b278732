"""How two plans differ, and how it is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.conditions.kinds import FileExists, JobStateIs
from autoexp_tui.model.specs import Edge, ExecutorSpec, JobSpec, Plan, Resources
from autoexp_tui.planning.plan_diff import (
    PlanDiff,
    ValueChange,
    diff_plans,
    diff_to_json,
    list_differences,
    list_first_differences,
    summarize_diff,
)
from tests.model.builders import job, plan


def lines(found: PlanDiff) -> list[str]:
    told = (f"{mark} {text}" for mark, text in list_differences(found))
    return [summarize_diff(found), *told]


def families(count: int, lr: float = 1e-3, **fields: Any) -> list[JobSpec]:
    """`count` pairs of a stable and a cooldown that waits for it."""
    jobs: list[JobSpec] = []
    for seed in range(count):
        stable, cooldown = f"s{seed}_stable", f"s{seed}_cooldown"
        given = {"parameters": {"seed": seed, "optim.lr": lr}, **fields}
        jobs += [
            job(stable, 2 * seed, stage="stable", family=f"f{seed}", **given),
            job(cooldown, 2 * seed + 1, stage="cooldown", family=f"f{seed}",
                depends_on=(stable,),
                start_conditions=(FileExists(path=f"/out/{stable}/ckpt"),), **given),
        ]  # fmt: skip
    return jobs


def test_equal_plans_do_not_differ() -> None:
    same = diff_plans(
        plan(*families(2)), plan(*families(2), plan_id="p2", created_at=9)
    )
    assert not same.differs
    assert lines(same) == ["nothing differs: 4 jobs"]


def test_the_same_change_of_many_jobs_is_told_once() -> None:
    found = diff_plans(plan(*families(20)), plan(*families(20, lr=3e-4)))
    assert lines(found) == [
        "40 jobs changed",
        "~ 40 jobs: optim.lr 1e-3 -> 3e-4 "
        "(s0_stable, s0_cooldown, s1_stable, and 37 more)",
    ]


def test_one_changed_job_is_told_by_its_name() -> None:
    old, new = families(1), families(1)
    new[0] = replace(new[0], parameters={"seed": 0, "optim.lr": "auto"})
    assert lines(diff_plans(plan(*old), plan(*new))) == [
        "1 job changed, 1 the same",
        "~ s0_stable: optim.lr 1e-3 -> auto",
    ]


def test_jobs_of_one_plan_alone_are_told_by_stage_with_what_is_new_in_them() -> None:
    found = diff_plans(plan(*families(1)), plan(*families(3)))
    assert lines(found) == [
        "4 jobs added, 2 the same",
        "+ 2 jobs of stable: s1_stable, s2_stable",
        "+ 2 jobs of cooldown: s1_cooldown, s2_cooldown",
    ]
    found = diff_plans(plan(*families(2)), plan(*families(1)))
    assert lines(found)[1:] == [
        "- 1 job of stable (seed 1): s1_stable",
        "- 1 job of cooldown (seed 1): s1_cooldown",
    ]


def test_a_job_whose_name_alone_is_new_is_renamed() -> None:
    old = job("a", command=("train", "--out", "/out/a"))
    new = job("b", command=("train", "--out", "/out/b"))
    assert lines(diff_plans(plan(old), plan(new))) == [
        "1 job renamed",
        "> 1 job renamed: a -> b",
    ]


def test_an_equal_fingerprint_tells_a_renamed_job_however_it_is_called() -> None:
    old = job("a", fingerprint="f", parameters={"lr": 1})
    new = job("b", fingerprint="f", parameters={"lr": 2})
    found = diff_plans(plan(old), plan(new))
    assert [(one.old_name, one.name) for one in found.renamed] == [("a", "b")]
    assert lines(found)[1:] == ["~ a -> b: lr 1 -> 2"]


def test_who_follows_a_renamed_job_is_not_changed_by_it() -> None:
    wait = JobStateIs(jobs=("a",), state="COMPLETED")
    old = plan(job("a"), job("z", 1, depends_on=("a",), start_conditions=(wait,)))
    waits = JobStateIs(jobs=("b",), state="COMPLETED")
    new = plan(job("b"), job("z", 1, depends_on=("b",), start_conditions=(waits,)))
    assert lines(diff_plans(old, new)) == [
        "1 job renamed, 1 the same",
        "> 1 job renamed: a -> b",
    ]


def test_another_output_directory_is_told_once_for_the_plan() -> None:
    old = plan(*families(3), base_output_dir="/out")
    moved = [
        replace(one, output_dir=one.output_dir.replace("/out", "/scratch"),
                start_conditions=tuple(replace(c,
                                               path=c.path.replace("/out", "/scratch"))
                                       for c in one.start_conditions
                                       if isinstance(c,
                                                     FileExists))) for one in old.jobs
    ]  # fmt: skip
    new = plan(*moved, base_output_dir="/scratch")
    assert lines(diff_plans(old, new)) == [
        "6 jobs the same",
        "* project.base_output_dir /out -> /scratch",
    ]


def test_conditions_and_waits_that_differ_are_told() -> None:
    old = plan(*families(2))
    jobs = [
        replace(one, start_conditions=tuple(replace(c, timeout_seconds=60.0)
                                            for c in one.start_conditions),
                depends_on=()) for one in old.jobs
    ]  # fmt: skip
    found = diff_plans(old, plan(*jobs))
    assert lines(found) == [
        "2 jobs changed, 2 the same",
        "~ 2 jobs: start_conditions.0.timeout_seconds added: 60; "
        "no longer waits for s0_stable (s0_cooldown, s1_cooldown)",
    ]


def test_a_read_that_is_new_is_told() -> None:
    new = plan(*families(1))
    reads = Edge(before="s0_stable", after="s0_cooldown", mode="reads")
    found = diff_plans(new, replace(new, edges=(*new.edges, reads)))
    assert lines(found)[1:] == ["~ s0_cooldown: reads s0_stable"]


def test_keys_of_the_config_are_told_where_they_are_recorded() -> None:
    differing = [
        ValueChange("optim.lr", 1, 2),
        ValueChange("optim.wd", 0.1, 0.2),
        ValueChange("index", 0, 7),
    ]
    old, new = (
        job("a", parameters={"optim.lr": 1}),
        job("a", parameters={"optim.lr": 2}),
    )
    found = diff_plans(plan(old), plan(new), lambda *names: differing)
    assert lines(found)[1:] == ["~ a: optim.lr 1 -> 2; optim.wd 0.1 -> 0.2"]


def test_configs_that_were_not_recorded_are_told_as_not_compared() -> None:
    found = diff_plans(
        plan(job("a", command=("x", "1"), fingerprint="1")),
        plan(job("a", command=("x", "2"), fingerprint="2")),
    )
    assert lines(found)[1:] == [
        "~ a: command x 1 -> x 2",
        "! configs of 1 job are not recorded with both plans: not compared",
    ]


def test_a_job_that_differs_in_what_was_not_recorded_is_not_the_same() -> None:
    old = plan(job("a", fingerprint="1"), job("b", fingerprint="1"))
    new = plan(job("a", fingerprint="2"), job("b", fingerprint="1"))
    found = diff_plans(old, new)
    assert lines(found)[0] == "1 job changed in what is not recorded, 1 the same"
    assert found.differs


@pytest.mark.parametrize(("change", "said"), [
    (lambda p: replace(p, executor=ExecutorSpec(class_name="SlurmClient")),
     "* slurm.client.class_name LocalClient -> SlurmClient"),
    (lambda p: replace(p, overrides=("lr=2",)), "* command line added: lr=2"),
    (lambda p: replace(p, environment={"HOME": "2"}),
     "* environment HOME a value -> another"),
])  # fmt: skip
def test_what_holds_for_the_whole_plan_is_told(
    change: Callable[[Plan], Plan], said: str
) -> None:
    old = plan(job("a"), environment={"HOME": "1"})
    assert said in lines(diff_plans(old, change(replace(old))))


def test_resources_are_told_without_a_recorded_config() -> None:
    old = job("a", resources=Resources(options={"time": "1:00:00"}))
    new = job("a", resources=Resources(options={"time": "2:00:00"}))
    assert (
        "slurm.sbatch.time 1:00:00 -> 2:00:00"
        in lines(diff_plans(plan(old), plan(new)))[1]
    )


def test_in_short_there_are_few_lines_however_much_differs() -> None:
    old = plan(*families(2), base_output_dir="/a")
    new = plan(*families(5, lr=1.0)[2:], base_output_dir="/b", overrides=("x=1",))
    short = list_first_differences(diff_plans(old, new))
    assert len(short) == 4
    assert short[-1].endswith("more: `autoexp-plan --diff` tells them")


@pytest.mark.parametrize(("new", "said"), [
    (3e-4 * 0.1, "lr 1 -> 3e-5"), (1 + 1e-12, "lr 1 -> 1.000000000001"),
])  # fmt: skip
def test_a_number_is_told_as_short_as_the_difference_lets_it(
    new: float, said: str
) -> None:
    old = plan(job("a", parameters={"lr": 1.0}))
    found = diff_plans(old, plan(job("a", parameters={"lr": new})))
    assert lines(found)[1] == f"~ a: {said}"


def test_text_of_a_plan_cannot_steer_the_terminal() -> None:
    found = diff_plans(plan(job("a")), plan(job("a"), job("b\x1b[31m", 1)))
    assert "\x1b" not in "".join(lines(found))


def test_the_json_has_every_job_and_value() -> None:
    found = diff_plans(plan(*families(2)), plan(*families(3, lr=float("nan"))))
    tree = json.loads(json.dumps(diff_to_json(found), allow_nan=False))
    assert tree["counts"]["added"] == 2
    assert [one["name"] for one in tree["changed"]] == [one.name for one in families(2)]
    assert tree["changed"][0]["parameters"] == [
        {"key": "optim.lr", "old": 1e-3, "new": "nan"}
    ]


def test_alike_changes_of_paths_are_told_once_though_each_job_has_its_own() -> None:
    old = plan(*families(3))
    jobs = [
        replace(
            one,
            start_conditions=tuple(
                replace(c, path=c.path.replace("ckpt", "last"))
                for c in one.start_conditions
                if isinstance(c, FileExists)
            ),
        )
        for one in old.jobs
    ]
    assert len(diff_plans(old, plan(*jobs)).alike) == 1
