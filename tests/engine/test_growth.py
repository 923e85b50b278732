"""A plan that a person has joined: in one commit, once, and only as it was shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.conditions.kinds import JobStateIs
from autoexp_tui.effects.effects import AddJobs
from autoexp_tui.events import events
from autoexp_tui.model.commands import Grow, Sender
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.specs import Plan
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript

LONG = RunScript(seconds=1e6)
FIRST = plan(job("a"), job("b", 1), job("old", 2, start_conditions=()))
ANN = Sender(user="ann", host="login1", pid=7)
AFTER_A = {
    "start_conditions": (JobStateIs(jobs=("a",), state="COMPLETED"),),
    "depends_on": ("a",),
}
MORE = plan(job("x", 0), job("y", 4, **AFTER_A), plan_id="p2")


def begun(**world: Any) -> Bench:
    """`a` runs, the others wait for its slot."""
    bench = Bench(FIRST, {"a": [[LONG]]}, slots=1, **world)
    bench.reach(a="RUNNING")
    return bench


def grow(bench: Bench, further: Plan = MORE, **how: Any) -> str:
    """Leave a plan beside the journal and ask for it; its sha."""
    sha = bench.engine._parts.store_plan(further)
    expected = how.pop("expected", {})
    command = Grow(sha=sha, **{"run": [job.name for job in further.jobs], **how})
    bench.order(command, by="cockpit", sender=ANN, expected=expected)
    bench.step()
    return sha


def refusals(bench: Bench) -> list[str]:
    return bench.codes(events.CommandRefused)


def test_jobs_join_behind_the_others_and_tell_who_asked() -> None:
    bench = begun()
    grow(bench, run=("y",))
    assert [bench.job(name).spec.index for name in ("x", "y")] == [3, 4]
    assert (bench.state("x"), bench.state("y")) == ("HELD", "WAITING")
    assert bench.job("y").asked_by == "ann@login1"
    (added,) = [one for one in bench.happened(events.PlanAdded) if one.asked_by]
    assert "by ann@login1" in added.format_headline(0.0).about
    assert bench.engine.state.order == ("a", "b", "old", "x", "y")


def test_all_that_was_said_is_done_in_the_commit_in_which_the_plan_joins() -> None:
    bench = begun()
    grow(bench, hold=("b",), end=("old", "a"), expected={"a": 1, "old": 0})
    records = bench.world.session.records
    at = next(n for n, one in enumerate(records) if getattr(one.event, "asked_by", ""))
    end = next(n for n in range(at, len(records)) if not records[n].more)
    whole = {type(one.event).__name__ for one in records[at : end + 1]}
    assert whole >= {
        "PlanAdded",
        "JobsReleased",
        "JobsHeld",
        "JobEnded",
        "EffectSettled",
    }
    assert (bench.state("b"), bench.state("old")) == ("HELD", "CANCELLED")
    assert "ann@login1 changed the plan" in bench.words(bench.why("old"))
    bench.until(lambda: bench.state("a") == "CANCELLED")


@pytest.mark.parametrize(
    ("further", "how", "code"),
    [
        (plan(job("a", 9)), {}, "not_joined"),  # the name is taken
        (plan(job("z", output_dir="/out/a")), {}, "not_joined"),
        (plan(job("z"), job("z", 1)), {}, "not_joined"),
        (plan(job("z", start_conditions=(JobStateIs(jobs=("q",), state="FAILED"),))),
         {}, "not_joined"),
        (MORE, {"hold": ("a",)}, "stale"),  # it has begun
        (MORE, {"end": ("a",), "expected": {"a": 0}}, "stale"),
        (MORE, {"end": ("nobody",)}, "no_such_job"),
        (MORE, {"run": ("nobody",)}, "no_such_job"),
    ],
)  # fmt: skip
def test_what_is_not_as_it_was_shown_is_refused_and_changes_nothing(
    further: Plan, how: dict[str, Any], code: str
) -> None:
    bench = begun()
    before = bench.states()
    grow(bench, further, **how)
    assert refusals(bench) == [code]
    assert bench.states() == before
    assert not bench.engine.state.pending


def test_what_a_plan_leaves_out_does_not_begin_before_it_has_joined() -> None:
    bench = begun()
    bench.world.slots = 3  # an engine that begins would start all
    bench.start()
    grow(bench, hold=("b",), end=("old",))
    assert refusals(bench) == []
    assert (bench.state("b"), bench.state("old")) == ("HELD", "CANCELLED")
    assert bench.job("x").attempts


def test_a_plan_that_is_not_there_is_refused() -> None:
    bench = begun()
    bench.order(Grow(sha="feedbeef"), by="cockpit")
    bench.step()
    assert refusals(bench) == ["not_joined"]


def test_the_same_plan_joins_once_and_the_second_time_it_is_told() -> None:
    bench = begun()
    grow(bench)
    order = bench.engine.state.order
    grow(bench)
    assert refusals(bench) == ["joined_before"]
    assert bench.engine.state.order == order


@pytest.mark.parametrize("steps", range(8))
def test_killed_at_any_step_it_joins_once(steps: int) -> None:
    bench = begun()
    sha = bench.engine._parts.store_plan(MORE)
    command = Grow(sha=sha, run=("x", "y"), end=("old",))
    bench.order(command)
    bench.single_steps(steps)
    bench.start()
    if not bench.engine.state.commands.get("c2"):
        bench._orders = 1  # who gave it had no answer, and gives it again
        bench.order(command)
    bench.step()
    assert [one.sha for one in bench.happened(events.PlanAdded)].count(sha) == 1
    assert bench.engine.state.order == ("a", "b", "old", "x", "y")
    assert (bench.state("old"), bench.state("y")) == ("CANCELLED", "WAITING")


def test_work_of_an_earlier_session_is_not_done_again() -> None:
    bench = begun()
    x = replace(MORE.jobs[0], fingerprint="f")
    done = DoneWork(job="x", fingerprint="f", session="s0", mark="m", at=1.0)
    bench.world.ready.done["x"] = done
    grow(bench, plan(x, plan_id="p2"), run=())
    assert bench.state("x") == "COMPLETED"
    assert bench.why("x").code == "done_before"


def test_jobs_that_an_older_engine_had_ordered_for_a_policy_join() -> None:
    add = AddJobs(policy="tree", asked_by="evaluation e1", jobs=(job("x"), job("a")))
    asked = replace(add, jobs=add.jobs[:1]), replace(add, asked_by="evaluation e2")
    first = [
        events.EffectOrdered(effect_id=f"e{at}", effect=one)
        for at, one in enumerate(asked)
    ]
    bench = Bench(plan(job("a")), {}, submit=False, first=first)
    bench.run(5)
    state = bench.engine.state
    assert (state.jobs["x"].policy, state.jobs["x"].origin) == ("tree", "evaluation e1")
    assert [*state.refused_joins] == ["evaluation e2"]  # all or none
    assert not any(isinstance(one.effect, AddJobs) for one in state.pending.values())
