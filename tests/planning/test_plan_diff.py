"""How two plans differ, and how it is said."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.conditions.kinds import FileExists, JobStateIs
from autoexp_tui.model.specs import Edge, ExecutorSpec, JobSpec, Plan, Resources
from autoexp_tui.planning import plan_diff
from autoexp_tui.planning.plan_diff import ValueChange, diff_plans
from tests.model.builders import job, plan


def lines(old: Plan, new: Plan, *changed: Any) -> list[str]:
    found = diff_plans(old, new, *changed)
    told = (f"{mark} {text}" for mark, text in plan_diff.list_differences(found))
    return [plan_diff.summarize_diff(found), *told]


def families(count: int, lr: float = 1e-3, **fields: Any) -> list[JobSpec]:
    """`count` pairs of a stable and a cooldown that waits for it."""
    jobs: list[JobSpec] = []
    for seed in range(count):
        stable, family = f"s{seed}_stable", f"f{seed}"
        given = {"parameters": {"seed": seed, "optim.lr": lr}, **fields}
        waits = (FileExists(path=f"/out/{stable}/ckpt"),)
        jobs += [
            job(stable, 2 * seed, stage="stable", family=family, **given),
            job(f"s{seed}_cooldown", 2 * seed + 1, stage="cooldown", family=family,
                depends_on=(stable,), start_conditions=waits, **given),
        ]  # fmt: skip
    return jobs


def changed(jobs: Sequence[JobSpec], of: Callable[[Any], Any], **more: Any) -> Any:
    return [
        replace(one, start_conditions=tuple(map(of, one.start_conditions)), **more)
        for one in jobs
    ]


def test_plans_without_jobs_differ_in_what_they_say_as_a_whole() -> None:
    head, *told = lines(plan(), replace(plan(), config_ref="other"))
    assert head == "what the plan says as a whole differs; it has no jobs"
    assert told


def test_the_same_change_of_many_jobs_is_told_once() -> None:
    old, same = plan(*families(2)), plan(*families(2), plan_id="p2", created_at=9)
    assert not plan_diff.is_different(diff_plans(old, same))
    assert lines(old, same) == ["nothing differs: 4 jobs"]
    assert lines(plan(*families(20)), plan(*families(20, lr=3e-4))) == [
        "40 jobs changed",
        "~ 40 jobs: optim.lr 1e-3 -> 3e-4 "
        "(s0_stable, s0_cooldown, s1_stable, and 37 more)",
    ]
    first, second = families(1)
    other = replace(first, parameters={"seed": 0, "optim.lr": "auto"})
    one = ["1 job changed, 1 the same", "~ s0_stable: optim.lr 1e-3 -> auto"]
    assert lines(plan(first, second), plan(other, second)) == one


def test_jobs_of_one_plan_alone_are_told_by_stage_with_what_is_new_in_them() -> None:
    one, two, three = (plan(*families(count)) for count in (1, 2, 3))
    assert lines(one, three) == [
        "4 jobs added, 2 the same",
        "+ 2 jobs of stable: s1_stable, s2_stable",
        "+ 2 jobs of cooldown: s1_cooldown, s2_cooldown",
    ]
    assert lines(two, one)[1:] == [
        "- 1 job of stable (seed 1): s1_stable",
        "- 1 job of cooldown (seed 1): s1_cooldown",
    ]


def test_a_renamed_job_changes_none_that_follows_it() -> None:
    def named(name: str) -> Plan:
        wait = JobStateIs(jobs=(name,), state="COMPLETED")
        first = job(name, command=("train", "--out", f"/out/{name}"))
        return plan(first, job("z", 1, depends_on=(name,), start_conditions=(wait,)))

    told = ["1 job renamed, 1 the same", "> 1 job renamed: a -> b"]
    assert lines(named("a"), named("b")) == told
    old, new = (plan(job(name, fingerprint="f", parameters={"lr": lr}))
                for name, lr in (("a", 1), ("b", 2)))  # fmt: skip
    assert diff_plans(old, new)["renamed"] == [{"from": "a", "to": "b"}]
    assert lines(old, new)[1:] == ["~ a -> b: lr 1 -> 2"]


def test_conditions_and_waits_that_differ_are_told_once() -> None:
    old = plan(*families(2))
    later = changed(old.jobs, lambda c: replace(c, timeout_seconds=60.0), depends_on=())
    assert lines(old, plan(*later)) == [
        "2 jobs changed, 2 the same",
        "~ 2 jobs: start_conditions.0.timeout_seconds added: 60; "
        "no longer waits for s0_stable (s0_cooldown, s1_cooldown)",
    ]
    reads = Edge(before="s0_stable", after="s0_cooldown", mode="reads")
    new = replace(old, edges=(*old.edges, reads))
    assert lines(old, new)[1:] == ["~ s0_cooldown: reads s0_stable"]
    last = changed(old.jobs, lambda c: replace(c, path=c.path.replace("ckpt", "last")))
    # though each has its own path
    assert len(diff_plans(old, plan(*last))["alike"]) == 1


def test_keys_of_the_config_are_told_where_they_are_recorded() -> None:
    told = [("optim.lr", 1, 2), ("optim.wd", 0.1, 0.2), ("index", 0, 7)]
    old, new = (plan(job("a", parameters={"optim.lr": lr})) for lr in (1, 2))
    found = lines(old, new, lambda *names: [ValueChange(*one) for one in told])
    assert found[1:] == ["~ a: optim.lr 1 -> 2; optim.wd 0.1 -> 0.2"]
    old, new = (plan(job("a", command=("x", n), fingerprint=n)) for n in "12")
    assert lines(old, new)[1:] == [
        "~ a: command x 1 -> x 2",
        "! configs of 1 job are not recorded with both plans: not compared",
    ]
    old, new = (plan(job("a", fingerprint=n), job("b", fingerprint="1")) for n in "12")
    assert plan_diff.is_different(diff_plans(old, new))
    said = "1 job changed in what is not recorded, 1 the same"
    assert lines(old, new)[0] == said


@pytest.mark.parametrize(("fields", "said"), [
    ([{"resources": Resources(options={"time": f"{n}:00"})} for n in (1, 2)],
     "slurm.sbatch.time 1:00 -> 2:00"),
    ([{"parameters": {"lr": lr}} for lr in (1.0, 3e-4 * 0.1)], "lr 1 -> 3e-5"),
])  # fmt: skip
def test_a_value_is_told_as_short_as_the_difference(fields: Any, said: str) -> None:
    old, new = (plan(job("a", **each)) for each in fields)
    assert lines(old, new)[1] == f"~ a: {said}"


def test_what_holds_for_the_whole_plan_is_told() -> None:
    old = plan(job("a"), environment={"HOME": "1"}, base_output_dir="/out")
    base = plan(*families(3), base_output_dir="/out")
    moved = changed(
        [replace(j, output_dir=j.output_dir.replace("/out", "/to")) for j in base.jobs],
        lambda c: replace(c, path=c.path.replace("/out", "/to")),
    )
    told = ["6 jobs the same", "* project.base_output_dir /out -> /to"]
    assert lines(base, plan(*moved, base_output_dir="/to")) == told
    changes: dict[str, Any] = {
        "* slurm.client.class_name LocalClient -> SlurmClient":
            {"executor": ExecutorSpec(class_name="SlurmClient")},
        "* command line added: lr=2": {"overrides": ("lr=2",)},
        "* environment HOME a value -> another": {"environment": {"HOME": "2"}},
    }  # fmt: skip
    for said, change in changes.items():
        assert said in lines(old, replace(old, **change))


def test_text_of_a_plan_cannot_steer_the_terminal() -> None:
    found = lines(plan(job("a")), plan(job("a"), job("b\x1b[31m", 1)))
    assert "\x1b" not in "".join(found)


def test_the_json_has_every_job_and_value() -> None:
    found = diff_plans(plan(*families(2)), plan(*families(3, lr=float("nan"))))
    tree = json.loads(json.dumps(found, allow_nan=False))
    assert tree["counts"]["added"] == 2
    assert [one["name"] for one in tree["changed"]] == [one.name for one in families(2)]
    rate = {"key": "optim.lr", "old": 1e-3, "new": "nan"}
    assert tree["changed"][0]["parameters"] == [rate]
