"""What is done already is not run again, and what a job takes from others is put in
when it starts; seen through whole sessions on fakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from autoexp_tui.conditions.kinds import Approval, MetadataIs, MetricIs
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.errors import UsageError
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.resubmission import done_before
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import JobSpec, Plan
from tests.engine.bench import Bench
from tests.engine.parts import OK, done, finds, says, writes
from tests.model.builders import job, plan

LINES = ("iteration 80 | loss: 2.5", "saved checkpoint 80")
SAVES = writes(says(1.0, *LINES), seconds=5.0)
SAVED = finds("saved", r"saved checkpoint (?P<n>\d+)", checkpoint_iteration="n")
RULES = Monitoring(log_events=(SAVED,))


def made(name: str, index: int = 0, *after: str, **fields: Any) -> JobSpec:
    waits = {"depends_on": after, "start_conditions": tuple(map(done, after))}
    return job(name, index, **{"fingerprint": f"f-{name}", **waits, **fields})


CHAIN = plan(made("a"), made("b", 1, "a"), made("c", 2, "b"), monitoring=RULES)
"""`c` after `b` after `a`, which says that it saved a checkpoint."""


def done_all(the_plan: Plan = CHAIN) -> dict[str, DoneWork]:
    """What a session left in output directories."""
    one = Bench(the_plan, {"a": [[SAVES]]})
    one.ends()
    one.run(2)
    return one.world.ready.done


def begun(one: Bench) -> list[tuple[str, int]]:
    return [each.task for each in one.executor.begun]


def test_a_completed_job_leaves_word_of_what_it_was_and_built_on() -> None:
    left = done_all()
    assert set(left) == {"a", "b", "c"}
    assert left["b"].upstream == {"a": left["a"].mark}
    assert left["a"].fingerprint == "f-a"
    assert left["a"].metadata == {"checkpoint_iteration": "80"}
    assert (left["a"].step, left["a"].values["loss"]) == (80, 2.5)


def test_a_second_session_of_the_same_plan_completes_in_one_commit_and_says_why() -> (
    None
):
    report = done_before(CHAIN, done_all())
    one = Bench(CHAIN, done=list(report.done.values()), submit=False)
    one.run(5)
    assert set(one.states().values()) == {"PLANNED"}  # before somebody submits
    one.order(commands.Submit())
    one.step()
    assert set(one.states().values()) == {"COMPLETED"}
    assert (one.executor.copies, one.engine.state.pending) == ([], {})
    records = one.world.session.records
    ends = [n for n, r in enumerate(records) if isinstance(r.event, events.JobEnded)]
    assert len(ends) == 3
    assert all(records[n].more for n in range(ends[0], ends[-1]))
    why = one.why("b")
    assert (why.code, why.arg("session")) == ("done_before", "s")


@pytest.mark.parametrize("chosen", [(), ("c",)])
def test_a_dependant_runs_on_what_is_done_though_only_it_was_chosen(
    chosen: tuple[str, ...],
) -> None:
    left = [work for name, work in done_all().items() if name != "c"]
    one = Bench(CHAIN, done=left, submit=False)
    one.order(commands.Submit(jobs=chosen))
    one.reach(c="COMPLETED")
    assert begun(one) == [("c", 1)]


def test_what_a_done_job_logged_lets_others_start() -> None:
    known = {"key": "checkpoint_iteration", "op": ">=", "value": 80}
    waits = (
        MetadataIs(job="a", **known),  # type: ignore[arg-type]
        MetricIs(job="a", name="loss", op="<", value=3.0, after_step=10),
    )
    left = done_all(plan(made("a"), monitoring=RULES))
    b = made("b", 1, "a", start_conditions=waits)
    one = Bench(plan(made("a"), b, monitoring=RULES), done=[*left.values()])
    one.reach(b="COMPLETED")


def test_a_done_job_run_anew_forgets_its_former_life_and_what_builds_on_it_runs() -> (
    None
):
    one = Bench(CHAIN, {"a": [[OK]]}, done=[*done_all().values()])
    one.step()
    assert (one.job("a").done_before, bool(one.job("a").metadata)) == (True, True)
    one.resubmit("a", from_checkpoint=False)
    one.reach(a="RUNNING")
    assert (one.job("a").metadata, one.job("a").noted) == ({}, None)
    assert not one.job("a").done_before
    one.reach(c="COMPLETED")
    assert begun(one) == [("a", 1), ("b", 1), ("c", 1)]


CKPT = finds("saved", r"saved (?P<path>.+)", ckpt="path")


def reading(*more: Any, path: str = "/ck/8") -> Bench:
    """`b` loads what `a` has told."""
    known = MetadataIs(job="a", key="ckpt", op="known")
    reads = {"runtime_overrides": ("load={runtime.a.ckpt}",), "depends_on": ("a",)}
    b = job("b", 1, start_conditions=(known, *more), **reads)
    tells = [[writes(says(2.0, f"saved {at}"), seconds=6.0)] for at in (path, "/ck/9")]
    rules = Monitoring(log_events=(CKPT,))
    return Bench(plan(job("a"), b, monitoring=rules), {"a": tells})


def test_it_waits_for_the_value_and_runs_with_it() -> None:
    one = reading()
    one.until(lambda: bool(one.job("b").spec.runtime_sources))
    one.die(5.0)
    one.start()
    one.reach(b="COMPLETED")
    spec = one.job("b").spec
    assert (spec.overrides, spec.runtime_sources) == (("load=/ck/8",), (("a", 1),))
    assert begun(one) == [("a", 1), ("b", 1)]
    assert len(one.happened(events.JobReplanned)) == 1  # whatever engine goes on


def test_a_value_that_cannot_be_written_as_an_override_is_waited_over() -> None:
    one = reading(path="/x'${oc.env:HOME}")
    one.reach(a="COMPLETED")
    one.run(5.0)
    assert (one.state("b"), one.why("b").code) == ("WAITING", "value_refused")


def in_script(plan: Plan, _: str, overrides: Sequence[str]) -> JobSpec:
    script = ("bash", "-c", f"train {overrides[-1]}")
    return replace(plan.jobs[1], overrides=tuple(overrides), command=script)


def refuse(*_: object) -> JobSpec:
    raise UsageError("no such key")


@pytest.mark.parametrize(
    ("planned", "code"), [(in_script, "value_in_script"), (refuse, "does_not_compose")]
)
def test_a_value_that_would_be_a_script_or_does_not_compose_holds_the_job(
    planned: Any, code: str
) -> None:
    one = reading(path="/x;reboot")
    one.plan_by(SimpleNamespace(compose=planned))
    one.reach(b="HELD")
    assert begun(one) == [("a", 1)]
    assert one.codes(events.WarningRaised) == [code]


def test_a_person_is_asked_about_the_work_with_its_values() -> None:
    one = reading(Approval(prompt="go?"))
    one.until(lambda: one.job("b").ask is not None)
    assert one.job("b").spec.overrides == ("load=/ck/8",)
