"""Waits through whole runs: what stays found, which clocks run, what ends a wait."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal

import pytest

from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.kinds import (
    Approval,
    CommandPasses,
    Composite,
    Cooldown,
    FileContent,
    FileExists,
    JobStateIs,
    LogPattern,
    MaxAttempts,
    MetadataIs,
    MetricIs,
    Not,
    OwnCondition,
    TimeReached,
)
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.rules import Monitoring, StateEvent
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Cause, JobState, Result
from autoexp_tui.model.wording import sentence
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write

LONG = RunScript(seconds=5_000.0)
OK = RunScript(seconds=5.0)
CRASH = RunScript(seconds=2.0, exit_code=1)
NEVER = FileExists(path="/never")


def alone(*start: Condition, cancel: tuple[Condition, ...] = ()) -> Plan:
    return plan(job("j", start_conditions=start, cancel_conditions=cancel))


def after(name: str, state: str = "COMPLETED", **fields: object) -> JobStateIs:
    return JobStateIs(jobs=(name,), state=state, **fields)  # type: ignore[arg-type]


def results(record: JobRecord) -> list[Result]:
    return [status.result for status in record.start if status is not None]


def code(bench: Bench, name: str, index: int = 0) -> str:
    status = bench.job(name).start[index]
    assert status is not None
    return status.why.code


# ------------------------------------------------------------ what cannot un-happen
READY = LogPattern(log_path="/logs/x.log", pattern="ready")


@pytest.mark.parametrize(
    "spec", [READY, Composite(conditions=(READY, TimeReached(after_seconds=0.0)))]
)
def test_a_pattern_that_was_found_stays_found_though_its_log_goes(
    spec: Condition,
) -> None:
    bench = Bench(alone(spec, NEVER))
    bench.files.append("/logs/x.log", b"ready\n")
    bench.run(5)
    del bench.files.data["/logs/x.log"]
    bench.run(20)
    assert results(bench.job("j")) == [Result.PASS, Result.WAIT]


def test_the_next_engine_knows_what_was_found() -> None:
    bench = Bench(alone(READY, NEVER))
    bench.files.append("/logs/x.log", b"ready\n")
    bench.run(5)
    del bench.files.data["/logs/x.log"]
    bench.start()
    bench.run(5)
    assert results(bench.job("j")) == [Result.PASS, Result.WAIT]
    assert len(bench.happened(events.ConditionLatched)) == 1


def test_a_job_that_is_brought_back_looks_for_its_pattern_anew() -> None:
    bench = Bench(alone(READY, NEVER))
    bench.files.append("/logs/x.log", b"ready\n")
    bench.run(5)
    bench.order(commands.Kill(jobs=("j",)))
    bench.run(2)
    del bench.files.data["/logs/x.log"]
    bench.order(commands.Resubmit(jobs=("j",)))
    bench.run(5)
    assert results(bench.job("j")) == [Result.WAIT, Result.WAIT]


def test_a_file_that_vanished_before_the_start_is_waited_for_again() -> None:
    bench = Bench(alone(FileExists(path="/o/done"), NEVER))
    bench.files.append("/o/done", b"x")
    bench.run(5)
    assert results(bench.job("j"))[0] is Result.PASS
    del bench.files.data["/o/done"]
    bench.run(5)
    assert results(bench.job("j"))[0] is Result.WAIT


# -------------------------------------------------------------------------- clocks
@pytest.mark.parametrize(
    ("start", "state", "cause"),
    [
        (
            FileExists(path="/never", timeout_seconds=60.0),
            JobState.SKIPPED,
            Cause.START_TIMEOUT,
        ),
        (
            Approval(timeout_seconds=60.0, on_timeout="reject"),
            JobState.SKIPPED,
            Cause.APPROVAL_REFUSED,
        ),
        (TimeReached(after_seconds=60.0), JobState.RUNNING, None),
    ],
    ids=["a time-out", "the time to answer", "a span of waiting"],
)
def test_time_without_an_engine_does_not_count(
    start: Condition, state: JobState, cause: Cause | None
) -> None:
    bench = Bench(alone(start))
    bench.run(40)
    bench.die(gone_for=1_000.0)
    bench.run(15)
    assert bench.job("j").state is JobState.WAITING
    bench.until(bench.is_("j", state), 10)
    assert bench.job("j").cause is cause


def test_a_condition_that_does_not_block_neither_holds_nor_ends_the_wait() -> None:
    spec = FileExists(path="/never", timeout_seconds=10.0, blocking=False)
    bench = Bench(alone(spec, TimeReached(after_seconds=30.0)))
    bench.run(20)
    assert results(bench.job("j")) == [Result.FAIL, Result.WAIT]
    bench.until(bench.is_("j", JobState.RUNNING), 20)


def test_a_reference_whose_job_ended_without_the_value_is_doomed() -> None:
    path = FileExists(path="/out/{runtime.a.best}")
    the_plan = plan(job("a"), job("b", 1, depends_on=("a",), start_conditions=(path,)))
    bench = Bench(the_plan, {"a": [[OK]]})
    bench.run(10)
    assert code(bench, "b") == "no_metadata"
    bench.until(bench.is_("b", JobState.SKIPPED), 80)
    assert bench.job("b").cause is Cause.UPSTREAM


# ------------------------------------------------------- conditions of one's own
def own(name: str, **fields: object) -> OwnCondition:
    return OwnCondition(
        class_path=f"tests.conditions.own_classes:{name}", fields=fields
    )


def test_a_condition_of_one_s_own_is_asked_when_its_facts_change() -> None:
    bench = Bench(alone(own("EnoughLines", path="/o/list", lines=2)))
    bench.files.append("/o/list", b"1\n")
    bench.run(5)
    assert bench.job("j").state is JobState.WAITING
    bench.files.append("/o/list", b"2\n")
    bench.until(bench.is_("j", JobState.RUNNING), 5)


def test_one_that_raises_stalls_nobody_and_is_told_once() -> None:
    raises = own("Raises", at=0.0)
    specs = [job(f"j{n}", n, start_conditions=(raises,)) for n in range(3)]
    bench = Bench(plan(*specs, job("fine", 3)))
    bench.run(10)
    assert bench.job("fine").state is JobState.COMPLETED
    assert code(bench, "j0") == "own_failed"
    assert bench.warned() == ["own_failed"]
    assert bench.world.faults == []


# ---------------------------------------------------- patterns that nobody can search
@pytest.mark.parametrize(
    "refused",
    [
        LogPattern(log_path="/x", pattern="a(?=b)"),
        FileContent(path="/x", pattern="a(?=b)", mode="regex"),
    ],
    ids=lambda refused: type(refused).__name__,
)
def test_a_stored_pattern_that_is_refused_waits_and_is_told_once(
    refused: LogPattern | FileContent,
) -> None:
    bench = Bench(alone(refused))
    bench.files.append("/x", b"ab\n")
    bench.run(120)
    assert bench.job("j").state is JobState.WAITING
    assert code(bench, "j") == "bad_condition"
    assert bench.warned() == ["bad_condition"]


# ------------------------------------------------------------------------- cancels
STOP = FileExists(path="/stop")


def test_a_file_cancels_what_runs() -> None:
    bench = Bench(alone(cancel=(STOP,)), {"j": [[LONG]]})
    bench.until(bench.is_("j", JobState.RUNNING))
    bench.files.append("/stop", b"x")
    bench.until(bench.is_("j", JobState.CANCELLED), 60)
    assert not bench.executor.living()


def test_a_cancel_condition_that_does_not_block_is_only_shown() -> None:
    shown = FileExists(path="/stop", blocking=False)
    bench = Bench(alone(cancel=(shown,)), {"j": [[LONG]]})
    bench.files.append("/stop", b"x")
    bench.run(10)
    assert bench.job("j").state is JobState.RUNNING
    status = bench.job("j").cancel[0]
    assert status is not None
    assert status.result is Result.PASS


def test_a_reference_in_a_cancel_condition_is_resolved_when_it_is_known() -> None:
    from tests.engine.test_engine import SAVED, says

    cancel = FileExists(path="/stop/{runtime.a.checkpoint_iteration}")
    the_plan = plan(
        job("a"),
        job("b", 1, cancel_conditions=(cancel,)),
        monitoring=Monitoring(log_events=(SAVED,)),
    )
    script = RunScript(seconds=500.0, writes=(says(10.0, "saved checkpoint 80"),))
    bench = Bench(the_plan, {"a": [[script]], "b": [[LONG]]})
    bench.files.append("/stop/80", b"x")
    bench.run(8)
    assert bench.job("b").state is JobState.RUNNING
    bench.until(bench.is_("b", JobState.CANCELLED), 60)


def test_what_has_ended_costs_no_more_looks() -> None:
    bench = Bench(alone(cancel=(STOP,)), {"j": [[OK]]})
    bench.until(bench.is_("j", JobState.COMPLETED))
    bench.run(2)
    assert bench.engine._outside_facts == {}


FATAL = LogPattern(log_path="/logs/a/current.log", pattern="FATAL", writer="a")


def restarting(cancel: Condition) -> Plan:
    crashed = StateEvent(
        name="crashed",
        state="crash",
        actions=(Restart(conditions=(MaxAttempts(max_attempts=2),)),),
    )
    return plan(
        job("a"),
        job(
            "b",
            1,
            depends_on=("a",),
            start_conditions=(after("a"),),
            cancel_conditions=(cancel,),
        ),
        monitoring=Monitoring(state_events=(crashed,)),
    )


@pytest.mark.parametrize(
    "cancel",
    [FATAL, Composite(conditions=(FATAL,)), Composite(mode="any", conditions=(FATAL,))],
)
def test_a_log_whose_job_may_restart_cancels_nobody_however_it_is_asked(
    cancel: Condition,
) -> None:
    fatal = Write(at=1.0, data=b"FATAL: out of luck\n")
    first = RunScript(seconds=4.0, exit_code=1, writes=(fatal,))
    fresh = RunScript(seconds=5.0, writes=(Write(at=0.5, data=b"a fresh start\n"),))
    bench = Bench(restarting(cancel), {"a": [[first], [fresh]]})
    bench.until(bench.is_("b", JobState.COMPLETED), 120)


# -------------------------------------------------------------------- doomed waits
def chain(**fields: object) -> Plan:
    """a -> b -> c, each waiting for a file of the one before."""
    names = ("a", "b", "c")
    specs = [job("a")]
    for index, (before, name) in enumerate(pairwise(names), 1):
        waits = FileExists(path=f"/out/{before}/done", writer=before)
        specs.append(job(name, index, depends_on=(before,), start_conditions=(waits,)))
    return plan(*specs, **fields)


def test_bringing_the_writer_back_brings_the_chain_back() -> None:
    bench = Bench(chain(), {"a": [[CRASH], [LONG]]})
    bench.until(bench.is_("c", JobState.SKIPPED), 200)
    assert [bench.job(n).cause for n in "bc"] == [Cause.UPSTREAM, Cause.UPSTREAM]
    bench.order(commands.Resubmit(jobs=("a",)))
    bench.run(5)
    assert bench.states() == {"a": "RUNNING", "b": "WAITING", "c": "WAITING"}


def test_a_held_doomed_wait_is_none_any_more_when_its_writer_is_back() -> None:
    bench = Bench(chain(monitoring=Monitoring(doomed="hold")), {"a": [[CRASH], [LONG]]})
    bench.until(lambda: code(bench, "b") == "doomed_file", 100)
    bench.order(commands.Resubmit(jobs=("a",)))
    bench.until(lambda: code(bench, "b") == "file_missing", 5)


def test_a_writer_that_will_be_tried_again_dooms_nobody() -> None:
    limits = (MaxAttempts(max_attempts=3), Cooldown(cooldown_seconds=300.0))
    again = (Restart(conditions=limits),)
    crashed = StateEvent(name="crashed", state="crash", actions=again)
    rules = Monitoring(state_events=(crashed,))
    bench = Bench(chain(monitoring=rules), {"a": [[CRASH], [CRASH], [LONG]]})
    bench.run(200)
    assert bench.job("a").state is JobState.RETRYING
    assert bench.job("b").state is JobState.WAITING
    assert code(bench, "b") == "file_missing"


DOOMED = tuple(FileExists(path=f"/out/a/{n}", writer="a") for n in range(2))


@pytest.mark.parametrize(
    ("mode", "parts", "state"),
    [
        ("all", (DOOMED[0], NEVER), JobState.SKIPPED),
        ("any", (DOOMED[0], NEVER), JobState.WAITING),
        ("any", DOOMED, JobState.SKIPPED),
    ],
)
def test_doomed_parts_doom_a_composite_that_needs_them(
    mode: Literal["all", "any"], parts: tuple[FileExists, ...], state: JobState
) -> None:
    both = Composite(mode=mode, conditions=parts)
    the_plan = plan(job("a"), job("b", 1, depends_on=("a",), start_conditions=(both,)))
    bench = Bench(the_plan, {"a": [[CRASH]]})
    bench.run(120)
    assert bench.job("b").state is state


def test_waiting_for_a_job_that_was_not_chosen_says_so() -> None:
    the_plan = plan(
        job("a"), job("b", 1, depends_on=("a",), start_conditions=(after("a"),))
    )
    bench = Bench(the_plan, {"a": [[LONG]]}, submit=False)
    bench.order(commands.Submit(jobs=("b",)))
    bench.run(2)
    assert code(bench, "b") == "upstream_held"
    bench.order(commands.Submit(jobs=("a",)))
    bench.run(2)
    assert code(bench, "b") == "job_waits"


# ---------------------------------------------------- every wait has a sentence
def everything() -> Iterator[Condition]:
    """One of each start condition; nothing of it holds for long."""
    yield FileExists(path="/out/a/x", writer="a", timeout_seconds=90.0)
    yield FileExists(path="/out/a/*.pt", glob=True, min_size=3, writer="a")
    yield FileContent(path="/out/a/status", pattern="two", writer="a")
    yield MetadataIs(key="checkpoint_iteration", job="a", op=">=", value=80)
    yield MetricIs(name="loss", job="a", op="<", value=2.0, after_step=50)
    yield JobStateIs(jobs=("a",), state="COMPLETED")
    yield CommandPasses(command=("true",))
    yield LogPattern(log_path="/logs/a/current.log", pattern="ready", writer="a")
    yield TimeReached(after_seconds=30.0)
    yield Approval(prompt="go on?")
    yield MaxAttempts(max_attempts=1)
    yield Not(condition=FileExists(path="/out/a/hold"))
    yield FileExists(path="/out/{runtime.a.best}/x")
    yield own("EnoughLines", path="/out/a/list")
    yield own("Raises", at=0.0)


def explained(bench: Bench, name: str) -> str:
    """Why a job waits, in words; empty when nobody says."""
    record = bench.job(name)
    now = bench.clock.utc()
    open_ones = [
        status.why
        for spec, status in zip(record.spec.start_conditions, record.start, strict=True)
        if spec.blocking and status and status.result is not Result.PASS
    ]
    reason = open_ones[0] if open_ones else record.why
    return sentence(reason, now) if reason is not None else ""


@pytest.mark.parametrize("script", [OK, CRASH, LONG], ids=["ok", "crash", "long"])
def test_whatever_a_job_waits_for_it_has_words_for_it_at_every_step(
    script: RunScript,
) -> None:
    specs = [job("a")]
    for index, condition in enumerate(everything(), 1):
        waits = (condition,)
        spec = job(f"j{index}", index, depends_on=("a",), start_conditions=waits)
        specs.append(spec)
    both = tuple(everything())
    specs.append(job("all", len(specs), depends_on=("a",), start_conditions=both))
    bench = Bench(plan(*specs), {"a": [[script]]}, slots=2)
    for second in range(100):
        if second == 20:
            bench.order(commands.Pause())
        if second == 40:
            bench.order(commands.Resume())
        bench.run(1)
        silent = [
            name
            for name, state in bench.states().items()
            if state == "WAITING" and not explained(bench, name)
        ]
        assert silent == []
