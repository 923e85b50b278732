"""Which jobs go first when one family is tried."""

from __future__ import annotations

from autoexp_tui.planning.canary import find_first_family
from tests.planning.plans import job, plan, ten_jobs


def test_the_first_family_goes_with_all_its_stages() -> None:
    made = ten_jobs()
    first = made.jobs[0].family
    assert find_first_family(made) == tuple(
        one.name for one in made.jobs if one.family == first
    )


def test_what_it_waits_for_goes_too() -> None:
    jobs = [
        job("a", 0, family="f0", depends_on=("base",)),
        job("b", 1, family="f1"),
        job("base", 2, depends_on=("data",)),
        job("data", 3),
    ]
    assert find_first_family(plan(jobs)) == ("a", "base", "data")


def test_a_job_without_a_family_goes_alone() -> None:
    assert find_first_family(plan([job("a"), job("b", 1)])) == ("a",)


def test_a_plan_without_jobs_has_none() -> None:
    assert find_first_family(plan([])) == ()


def test_a_family_that_is_done_tries_nothing_and_the_next_one_goes() -> None:
    jobs = [
        job("a", 0, family="f0"),
        job("b", 1, family="f1", depends_on=("a",)),
        job("c", 2, family="f2"),
    ]
    assert find_first_family(plan(jobs), done=("a",)) == ("a", "b")
