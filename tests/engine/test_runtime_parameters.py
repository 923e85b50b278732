"""A job whose parameters hold metadata of others is composed when it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autoexp_tui.conditions.kinds import Approval, MetadataIs
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.errors import UsageError
from autoexp_tui.model.rules import LogEvent, Monitoring
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.states import JobState
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write
from tests.support.sim_world import Recompose

SAVED = LogEvent(
    name="saved",
    pattern=r"saved (?P<path>.+)",
    pattern_type="regex",
    extract_groups={"ckpt": "path"},
)
OK = RunScript(seconds=3.0)


def saving(path: str) -> RunScript:
    return RunScript(
        seconds=6.0, writes=(Write(at=2.0, data=f"saved {path}\n".encode()),)
    )


def bench_of(
    *scripts: RunScript, conditions: tuple[Condition, ...] = (), path: str = "/ck/8"
) -> Bench:
    """`b` loads what `a` has told."""
    known = MetadataIs(job="a", key="ckpt", op="known")
    reader = replace(
        job("b"),
        runtime_overrides=("load={runtime.a.ckpt}",),
        start_conditions=(known, *conditions),
        depends_on=("a",),
    )
    made = plan(job("a"), reader, monitoring=Monitoring(log_events=(SAVED,)))
    runs = [[one] for one in scripts or (OK,)]
    return Bench(made, {"a": [[saving(path)], [saving("/ck/9")]], "b": runs})


def test_it_waits_for_the_value_and_runs_with_it() -> None:
    bench = bench_of()
    bench.until(bench.is_("b", JobState.COMPLETED))

    spec = bench.job("b").spec
    assert spec.overrides == ("load=/ck/8",)
    assert spec.runtime_sources == (("a", 1),)
    assert len(bench.executor.begun) == 2


def test_it_is_composed_once_whatever_engine_goes_on() -> None:
    bench = bench_of()
    bench.until(lambda: bool(bench.job("b").spec.runtime_sources))
    bench.die(5.0)
    bench.start()
    bench.until(bench.is_("b", JobState.COMPLETED))

    assert len(bench.happened(events.JobReplanned)) == 1


def test_a_value_that_cannot_be_written_as_an_override_is_waited_over() -> None:
    bench = bench_of(path="/x'${oc.env:HOME}")
    bench.until(bench.is_("a", JobState.COMPLETED))
    bench.run(5.0)

    reason = bench.job("b").why
    assert bench.job("b").state is JobState.WAITING
    assert reason is not None
    assert reason.code == "value_refused"


def test_a_value_that_would_be_a_script_holds_the_job() -> None:
    class Scripted(Recompose):
        def compose(self, plan: Plan, job: str, overrides: Sequence[str]) -> JobSpec:
            spec = super().compose(plan, job, overrides)
            return replace(spec, command=("bash", "-c", f"train {overrides[-1]}"))

    bench = bench_of(path="/x;reboot")
    object.__setattr__(bench.engine._parts, "planner", Scripted())
    bench.until(bench.is_("b", JobState.HELD))

    assert len(bench.executor.begun) == 1


def test_a_job_that_does_not_compose_with_its_values_is_held_and_told() -> None:
    class Refusing(Recompose):
        def compose(self, plan: Plan, job: str, overrides: Sequence[str]) -> JobSpec:
            raise UsageError("no such key")

    bench = bench_of()
    object.__setattr__(bench.engine._parts, "planner", Refusing())
    bench.until(bench.is_("b", JobState.HELD))

    (told,) = bench.happened(events.WarningRaised)
    assert told.why.code == "does_not_compose"


def test_a_person_is_asked_about_the_work_with_its_values() -> None:
    bench = bench_of(conditions=(Approval(prompt="go?"),))
    bench.until(lambda: bench.job("b").ask is not None)

    assert bench.job("b").spec.overrides == ("load=/ck/8",)


def test_what_a_person_sets_is_not_replaced() -> None:
    bench = bench_of()
    bench.order(commands.Kill(jobs=("b",)))
    bench.until(bench.is_("b", JobState.CANCELLED))
    bench.order(commands.Resubmit(jobs=("b",), overrides=("load=/mine",)))
    bench.until(bench.is_("b", JobState.COMPLETED))

    assert bench.job("b").spec.overrides[-1] == "load=/mine"
