"""How conditions hold jobs back, let them go, and doom them, through whole runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import pytest

from autoexp_tui.conditions import kinds
from autoexp_tui.conditions.kinds import Composite, FileExists, OwnCondition
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.states import Result
from tests.engine.bench import Bench, require
from tests.engine.parts import CRASH, LONG, OK, again, done, on_end, says, writes
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript

NEVER = FileExists(path="/never")
READY = kinds.LogPattern(log_path="/logs/x.log", pattern="ready")


def waiting(*start: Condition, cancel: tuple[Condition, ...] = ()) -> Bench:
    spec = job("j", start_conditions=start, cancel_conditions=cancel)
    return Bench(plan(spec), {"j": [[LONG]]})


def b_after_a(*start: Condition, a: RunScript = OK, **fields: Any) -> Bench:
    b = job("b", 1, depends_on=("a",), start_conditions=start)
    return Bench(plan(job("a"), b), {"a": [[a]]}, **fields)


def results(bench: Bench) -> list[str]:
    return [status.result.value for status in bench.job("j").start if status]


def code(bench: Bench, name: str) -> str:
    return bench.wait(name).why.code


# ------------------------------------------------------------ what cannot un-happen
@pytest.mark.parametrize(
    "spec",
    [READY, Composite(conditions=(READY, kinds.TimeReached(after_seconds=0.0)))],
)
def test_a_pattern_that_was_found_stays_found_until_the_job_is_brought_back(
    spec: Condition,
) -> None:
    bench = waiting(spec, NEVER)
    bench.files.append("/logs/x.log", b"ready\n")
    bench.run(5)
    del bench.files.data["/logs/x.log"]
    for _ in range(2):
        bench.run(10)
        assert results(bench) == ["pass", "wait"]
        bench.start()
    bench.run(5)
    assert len(bench.happened(events.ConditionLatched)) == 1
    bench.kill("j")
    bench.run(2)
    bench.resubmit("j")
    bench.run(5)
    assert results(bench) == ["wait", "wait"]


def test_a_condition_that_does_not_block_neither_holds_nor_ends_the_wait() -> None:
    spec = FileExists(path="/never", timeout_seconds=10.0, blocking=False)
    bench = waiting(spec, kinds.TimeReached(after_seconds=30.0))
    bench.run(20)
    assert results(bench) == ["fail", "wait"]
    bench.reach(20, j="RUNNING")


def test_a_reference_whose_job_ended_without_the_value_is_doomed() -> None:
    bench = b_after_a(FileExists(path="/out/{runtime.a.best}"))
    bench.run(10)
    assert code(bench, "b") == "no_metadata"
    bench.reach(80, b="SKIPPED")
    assert bench.cause("b") == "upstream"


# ------------------------------------------------------- conditions of one's own
def own(name: str, **fields: object) -> OwnCondition:
    where = f"tests.conditions.own_classes:{name}"
    return OwnCondition(class_path=where, fields=fields)


@pytest.mark.parametrize(
    "refused",
    [
        kinds.LogPattern(log_path="/x", pattern="a(?=b)"),
        kinds.FileContent(path="/x", pattern="a(?=b)", mode="regex"),
    ],
)
def test_a_stored_pattern_that_is_refused_waits_and_is_told_once(
    refused: Condition,
) -> None:
    bench = waiting(refused)
    bench.files.append("/x", b"ab\n")
    bench.run(120)
    assert (bench.state("j"), code(bench, "j")) == ("WAITING", "bad_condition")
    assert bench.warned() == ["bad_condition"]


# ------------------------------------------------------------------------- cancels
@pytest.mark.parametrize(("blocking", "end"), [(True, "CANCELLED"), (False, "RUNNING")])
def test_a_file_cancels_what_runs_and_is_looked_at_no_more_or_is_only_shown(
    blocking: bool, end: str
) -> None:
    bench = waiting(cancel=(FileExists(path="/stop", blocking=blocking),))
    bench.reach(j="RUNNING")
    bench.files.append("/stop", b"x")
    bench.run(60)
    assert bench.state("j") == end
    if blocking:
        assert not bench.executor.living()
        assert bench.engine._outside_facts == {}
    else:
        assert require(bench.job("j").cancel[0]).result is Result.PASS


FATAL = kinds.LogPattern(log_path="/logs/a/current.log", pattern="FATAL", writer="a")


@pytest.mark.parametrize(
    "cancel",
    [FATAL, Composite(conditions=(FATAL,)), Composite(mode="any", conditions=(FATAL,))],
)
def test_a_log_whose_job_may_restart_cancels_nobody_however_it_is_asked(
    cancel: Condition,
) -> None:
    waits = {"start_conditions": (done("a"),), "cancel_conditions": (cancel,)}
    jobs = (job("a"), job("b", 1, depends_on=("a",), **waits))
    rules = Monitoring(state_events=(on_end("crash", again(2)),))
    first = writes(says(1.0, "FATAL: out of luck"), seconds=4.0, exit_code=1)
    fresh = writes(says(0.5, "a fresh start"), seconds=5.0)
    bench = Bench(plan(*jobs, monitoring=rules), {"a": [[first], [fresh]]})
    bench.reach(120, b="COMPLETED")


# -------------------------------------------------------------------- doomed waits
def chain(*attempts: RunScript, **rules: Any) -> Bench:
    """a -> b -> c, each waiting for a file of the one before."""
    specs = [job("a")]
    for index, (before, name) in enumerate(pairwise("abc"), 1):
        waits = (FileExists(path=f"/out/{before}/done", writer=before),)
        specs.append(job(name, index, depends_on=(before,), start_conditions=waits))
    the_plan = plan(*specs, monitoring=Monitoring(**rules))
    return Bench(the_plan, {"a": [[run] for run in attempts]})


@pytest.mark.parametrize("doomed", ["skip", "hold"])
def test_bringing_the_writer_back_brings_the_chain_back(doomed: str) -> None:
    bench = chain(CRASH, LONG, doomed=doomed)
    if doomed == "skip":
        bench.reach(200, c="SKIPPED")
        assert [bench.cause(n) for n in "bc"] == ["upstream", "upstream"]
    else:
        bench.until(lambda: code(bench, "b") == "doomed_file", 100)
    bench.resubmit("a")
    bench.run(5)
    assert bench.states() == {"a": "RUNNING", "b": "WAITING", "c": "WAITING"}
    assert code(bench, "b") == "file_missing"


def test_a_writer_that_will_be_tried_again_dooms_nobody() -> None:
    cooled = (*again(3).conditions, kinds.Cooldown(cooldown_seconds=300.0))
    rule = on_end("crash", replace(again(), conditions=cooled))
    bench = chain(CRASH, CRASH, LONG, state_events=(rule,))
    bench.run(200)
    assert bench.states() == {"a": "RETRYING", "b": "WAITING", "c": "WAITING"}
    assert code(bench, "b") == "file_missing"


DOOMED = tuple(FileExists(path=f"/out/a/{n}", writer="a") for n in range(2))


@pytest.mark.parametrize(
    ("mode", "parts", "state"),
    [
        ("all", (DOOMED[0], NEVER), "SKIPPED"),
        ("any", (DOOMED[0], NEVER), "WAITING"),
        ("any", DOOMED, "SKIPPED"),
    ],
)
def test_doomed_parts_doom_a_composite_that_needs_them(
    mode: Literal["all", "any"], parts: tuple[FileExists, ...], state: str
) -> None:
    bench = b_after_a(Composite(mode=mode, conditions=parts), a=CRASH)
    bench.run(120)
    assert bench.state("b") == state


def test_waiting_for_a_job_that_was_not_chosen_says_so() -> None:
    bench = b_after_a(done("a"), a=LONG, submit=False)
    for chosen, said in (("b", "upstream_held"), ("a", "job_waits")):
        bench.order(commands.Submit(jobs=(chosen,)))
        bench.run(2)
        assert code(bench, "b") == said


# ---------------------------------------------------- every wait has a sentence
def everything() -> Iterator[Condition]:
    """One of each start condition; nothing of it holds for long."""
    yield FileExists(path="/out/a/x", writer="a", timeout_seconds=90.0)
    yield FileExists(path="/out/a/*.pt", glob=True, min_size=3, writer="a")
    yield kinds.FileContent(path="/out/a/status", pattern="two", writer="a")
    yield kinds.MetadataIs(key="checkpoint_iteration", job="a", op=">=", value=80)
    yield kinds.MetricIs(name="loss", job="a", op="<", value=2.0, after_step=50)
    yield done("a")
    yield kinds.CommandPasses(command=("true",))
    yield FATAL
    yield kinds.TimeReached(after_seconds=30.0)
    yield kinds.Approval(prompt="go on?")
    yield kinds.MaxAttempts(max_attempts=1)
    yield kinds.Not(condition=FileExists(path="/out/a/hold"))
    yield FileExists(path="/out/{runtime.a.best}/x")
    yield own("EnoughLines", path="/out/a/list")
    yield own("Raises", at=0.0)


def explained(bench: Bench, name: str) -> str:
    """Why a job waits, in words; empty when nobody says."""
    record = bench.job(name)
    open_ones = [
        status.why
        for spec, status in zip(record.spec.start_conditions, record.start, strict=True)
        if spec.blocking and status and status.result is not Result.PASS
    ]
    reason = open_ones[0] if open_ones else record.why
    return bench.words(reason) if reason else ""


@pytest.mark.parametrize("script", [OK, CRASH, LONG], ids=["ok", "crash", "long"])
def test_whatever_a_job_waits_for_it_has_words_for_it_at_every_step(
    script: RunScript,
) -> None:
    each = [*((one,) for one in everything()), tuple(everything())]
    specs = [
        job(f"j{n}", n, depends_on=("a",), start_conditions=waits)
        for n, waits in enumerate(each, 1)
    ]
    bench = Bench(plan(job("a"), *specs), {"a": [[script]]}, slots=2)
    orders: dict[int, commands.Command] = {20: commands.Pause(), 40: commands.Resume()}
    for second in range(100):
        if second in orders:
            bench.order(orders[second])
        bench.run(1)
        waits_now = [n for n, state in bench.states().items() if state == "WAITING"]
        assert [name for name in waits_now if not explained(bench, name)] == []
