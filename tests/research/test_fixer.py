from __future__ import annotations

from dataclasses import replace

import pytest

from autoexp_tui.research.fixer import build_fixed_item, needs_person, plan_next
from autoexp_tui.research.options import Fixer, ResearchOptions
from autoexp_tui.research.state import Fix, Item, Research, Run

FIXER = Fixer(agent=("mechanic",), may_override=("train.batch_size", "model", "opt.*"))
RUN = Run(id="r3", item=Item(id="r3", overrides=("train.lr=1e-3", "+note=a")), jobs=())


def chain(length: int) -> list[Run]:
    """A run and its repeats, each with a fix."""
    runs = [RUN]
    for _ in range(length):
        fix = Fix(run=runs[-1].id)
        item = build_fixed_item(runs[-1], fix, [run.id for run in runs])
        runs.append(Run(id=item.id, item=item, jobs=()))
    return runs


@pytest.mark.parametrize(("options", "mechanical", "streaks", "fixes", "asked"), [
    (FIXER, "oom", {}, 0, "fix"),
    (FIXER, "oom", {"oom": 2, "shape": 3}, 2, "fix"),
    (FIXER, "oom", {"oom": 3}, 0, "research"),
    (FIXER, "oom", {}, 3, "research"),  # of other failures, but of the same run
    (FIXER, "", {}, 0, "research"),
    (replace(FIXER, agent=()), "oom", {}, 0, "research"),
    (replace(FIXER, attempts=0), "oom", {}, 0, "research"),
])  # fmt: skip
def test_the_fixer_is_asked_until_its_fixes_failed_too_often(
    options: Fixer, mechanical: str, streaks: dict[str, int], fixes: int, asked: str
) -> None:
    research, runs = Research(ResearchOptions(fixer=options)), chain(fixes)
    research.runs, research.fix_streaks = {run.id: run for run in runs}, streaks
    assert plan_next(research, runs[-1], mechanical) == asked


@pytest.mark.parametrize(("before", "fix", "after"), [
    ((), ("a.b=2",), ("a.b=2",)),
    (("a.b=1", "c=3"), ("a.b=2",), ("c=3", "a.b=2")),
    (("a.b=1",), ("++a.b=2",), ("a.b=2",)),
    (("+a.b=1",), ("a.b=2",), ("+a.b=2",)),  # beneath, there is no such key
    (("++a.b=1",), ("+a.b=2",), ("++a.b=2",)),
    (("~a.b",), ("+a.b=2",), ("a.b=2",)),
    (("a.b=1",), ("~a.b",), ("~a.b",)),
    (("+a.b=1", "c=3"), ("~a.b",), ("c=3",)),
    (("db/x=one",), ("db/x=two", "c=1", "c=2"), ("db/x=two", "c=2")),
])  # fmt: skip
def test_a_fix_sets_its_keys_over_those_of_the_item(
    before: tuple[str, ...], fix: tuple[str, ...], after: tuple[str, ...]
) -> None:
    run = replace(RUN, item=replace(RUN.item, overrides=before))
    made = build_fixed_item(run, Fix(run="r3", overrides=fix), ())
    assert made.overrides == after


def test_the_repeats_of_a_run_have_ids_of_their_own() -> None:
    assert [run.id for run in chain(2)] == ["r3", "r3_fix1", "r3_fix2"]
    assert [run.item.fixes for run in chain(2)] == ["", "r3", "r3_fix1"]
    again = build_fixed_item(RUN, Fix(run="r3"), {"r3_fix1", "r3_fix2"})
    assert (again.id, again.jobs) == ("r3_fix3", ())


@pytest.mark.parametrize(("overrides", "needed"), [
    ((), False),
    (("train.batch_size=32",), False),
    (("++train.batch_size=32", "model.layers=2", "opt.adam.eps=1"), False),
    (("~model",), False),
    (("train={batch_size: 32}",), True),
    (("train.batch_size_max=1",), True),
    (("train.batch_size=32", "train.command=rm"), True),
    (("opt@train=adam",), True),  # it is put at `train`
])  # fmt: skip
def test_a_fix_of_keys_that_are_not_named_needs_a_person(
    overrides: tuple[str, ...], needed: bool
) -> None:
    assert needs_person(Fix(run="r3", overrides=overrides), FIXER) is needed
