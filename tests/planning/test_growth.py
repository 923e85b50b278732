"""How a plan made anew compares with a running session, and what of it joins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.model.specs import Edge, ExecutorSpec, JobSpec, Plan
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import JobState, why
from autoexp_tui.planning.growth import (
    LEFT_OUT,
    Choices,
    Growth,
    build_joining_plan,
    choose_running,
    compare_plans,
    find_refusals,
    list_lines,
    list_swept,
    settle_names,
)
from tests.model.builders import job, plan


def of(name: str, index: int, print_: str = "f", **fields: Any) -> JobSpec:
    given: dict[str, Any] = {"family": f"f{index}", "stage": "s", **fields}
    return job(name, index, fingerprint=f"{name}:{print_}", **given)


SESSION = replace(
    plan(of("a", 0), of("b", 1), of("old", 2), of("done", 3)), own_state_dir="/state"
)
STATES = {
    "a": JobState.RUNNING,
    "b": JobState.WAITING,
    "old": JobState.HELD,
    "done": JobState.COMPLETED,
}
RECORDS = tuple(JobRecord(spec=one, state=STATES[one.name]) for one in SESSION.jobs)


def compared(*jobs: JobSpec, renamed: Plan | None = None, **fields: Any) -> Growth:
    fresh = plan(*jobs, **fields)
    return compare_plans(fresh, renamed or fresh, SESSION, RECORDS)


def test_a_plan_is_compared_by_names_and_fingerprints_alone() -> None:
    elsewhere = {"family": "f7", "output_dir": "/elsewhere", "log_dir": "/l"}
    growth = compared(of("new", 0), of("a", 1, **elsewhere), of("b", 2, "other"))
    assert (growth.added, growth.same, growth.different) == (("new",), ("a",), ("b",))
    assert (growth.waiting, growth.running, growth.ended) == (("old",), (), ("done",))
    told = "adds 1 job, 1 stays the same, 1 differs, 2 are no longer planned"
    assert growth.describe() == told
    assert ("+", "1 job joins: new") in list_lines(growth)


def test_a_job_that_a_person_ran_with_what_is_planned_now_is_the_same() -> None:
    again = replace(RECORDS[1], spec=of("b", 1, "other"))
    fresh = plan(of("b", 1, "other"))
    growth = compare_plans(fresh, fresh, SESSION, (RECORDS[0], again, *RECORDS[2:]))
    assert growth.same == ("b",)


def test_what_a_rule_made_is_not_among_what_is_no_longer_planned() -> None:
    made = JobRecord(spec=of("eval", 9), parent="a", state=JobState.RUNNING)
    fresh = plan(*SESSION.jobs)
    growth = compare_plans(fresh, fresh, SESSION, (*RECORDS, made))
    assert growth.is_empty


@pytest.mark.parametrize(
    ("name", "index", "lr", "moved"),
    [("run_3", 3, 2, True), ("run_3", 3, 1, False), ("lr1", 5, 2, False)],
)
def test_a_name_that_holds_the_index_and_means_another_point_has_moved(
    name: str, index: int, lr: int, moved: bool
) -> None:
    session = plan(of(name, index, "was", parameters={"lr": 1}))
    fresh = plan(of(name, index, "is", parameters={"lr": lr}))
    growth = compare_plans(fresh, fresh, session, [JobRecord(spec=session.jobs[0])])
    assert growth.different == (name,)
    assert growth.moved == ((name,) if moved else ())
    lines = [text for mark, text in list_lines(growth) if mark == "!"]
    assert lines == ([f"{name} was lr=1 and is now lr={lr}"] if moved else [])


def test_only_what_is_new_joins_in_plan_order_in_the_families_of_its_siblings() -> None:
    new = of("a_cool", 9, family="f5", depends_on=("a",))
    edges = (Edge(before="a", after="a_cool", mode="waits"),) * 1
    growth = compared(
        of("first", 0, family="f4"), of("a", 8, family="f5"), new,
        of("b", 2, "other"), of("last", 10, family="f6"), edges=edges,
    )  # fmt: skip
    joining = build_joining_plan(growth, Choices(), "/record")
    families = [(one.name, one.family) for one in joining.jobs]
    assert families == [("first", "f4"), ("a_cool", "f0"), ("last", "f5")]
    assert joining.edges == edges
    assert {one.config_record for one in joining.jobs} == {"/record"}
    assert choose_running(joining, Choices(run="family")) == ("first",)
    assert choose_running(joining, Choices(run="none")) == ()


def build_reading(names: Mapping[str, str]) -> Plan:
    """`train` differs from what ran; `cool` does what the name of `train` makes it."""
    train, cool = names.get("train", "train"), names.get("cool", "cool")
    return plan(of(train, 0, "new"), of(cool, 1, train), of("free", 2))


RAN = {"train": "train:old", "cool": "cool:train", "free": "free:f"}


def test_what_differs_gets_a_new_name_and_with_it_what_reads_it() -> None:
    kept, renamed = settle_names(RAN, build_reading)
    assert [one.name for one in kept.jobs] == ["train", "cool", "free"]
    assert [one.name for one in renamed.jobs] == ["train_v2", "cool_v2", "free"]
    session = plan(
        *(of(n, at, p.split(":")[1]) for at, (n, p) in enumerate(RAN.items()))
    )
    records = [JobRecord(spec=one) for one in session.jobs]
    growth = compare_plans(kept, renamed, session, records)
    assert growth.new_names == {"train": "train_v2", "cool": "cool_v2"}
    rename = build_joining_plan(growth, Choices(different="rename"))
    assert [one.name for one in rename.jobs] == ["train_v2", "cool_v2"]
    assert build_joining_plan(growth, Choices()).jobs == ()


@pytest.mark.parametrize(
    ("there", "kept", "renamed"),
    [
        # What joined under a new name is the same when it is planned once more.
        ({"train_v2": "train_v2:new", "cool_v2": "cool_v2:train_v2"},
         ["train_v2", "cool_v2", "free"], ["train_v2", "cool_v2", "free"]),
        # Changed again: the next free number.
        ({"train_v2": "train_v2:mid", "cool_v2": "cool_v2:train_v2"},
         ["train_v2", "cool_v2", "free"], ["train_v3", "cool_v3", "free"]),
        # Changed back to what it was before the version.
        ({"train": "train:new", "train_v2": "train_v2:mid"},
         ["train", "cool", "free"], ["train", "cool", "free"]),
    ],
)  # fmt: skip
def test_a_version_that_is_there_is_the_job_itself(
    there: dict[str, str], kept: list[str], renamed: list[str]
) -> None:
    plans = settle_names(RAN | there, build_reading)
    assert [[one.name for one in made.jobs] for made in plans] == [kept, renamed]


def test_neither_the_version_of_before_nor_its_job_are_no_longer_planned() -> None:
    fresh = plan(of("a_v2", 0), *SESSION.jobs[1:])
    session = replace(SESSION, jobs=(*SESSION.jobs, of("a_v2", 4)))
    records = (*RECORDS, JobRecord(spec=of("a_v2", 4)))
    assert compare_plans(fresh, fresh, session, records).is_empty


@pytest.mark.parametrize(
    ("key", "changed"),
    [
        ("slurm.client.class_name", {"executor": ExecutorSpec(class_name="Slurm")}),
        ("project.base_output_dir", {"base_output_dir": "/other"}),
        ("monitoring.state_dir", {"own_state_dir": "/other"}),
    ],
)
def test_what_the_session_has_once_is_refused(
    key: str, changed: dict[str, Any]
) -> None:
    session = replace(SESSION, own_state_dir="/here")
    (found,) = find_refusals(replace(session, **changed), session)
    assert found.where == key


def test_the_values_of_a_sweep_are_offered_as_the_overrides_that_give_them() -> None:
    points = [(0.1, "a", 1), (0.1, "b", 1), (0.2, "a", 1)]
    records = [
        JobRecord(spec=of(f"j{at}", at, parameters={"lr": lr, "+data": data, "n": n,
                                                    "ref": "{sibling.s.name}"}))
        for at, (lr, data, n) in enumerate(points)
    ]  # fmt: skip
    gone = JobRecord(spec=of("g", 9, parameters={"lr": 5.0}), why=why(LEFT_OUT))
    assert list_swept([*records, gone]) == ["lr=[0.1,0.2]", "data=[a,b]"]
