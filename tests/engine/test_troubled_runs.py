"""A checkpoint that runs crash on; a run that a rule ends, which is looked at first and
ended whatever comes of the look. Seen through whole sessions on fakes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.actions.kinds import Cancel, QuarantineCheckpoint, Restart
from autoexp_tui.effects.effects import CancelTasks, CaptureEvidence
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.errors import UsageError
from autoexp_tui.model.outputs import Checkpoint
from autoexp_tui.model.rules import Action, Checkpoints, LogEvent, Monitoring, Storm
from tests.engine.bench import Bench, alone
from tests.engine.parts import CRASH, again, finds, on_end, says, writes
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript
from tests.support.inline_pool import InlinePool

OK = RunScript(seconds=2.0)
OUT = "/out/a"


def reaches(step: int) -> RunScript:
    line = says(1.0, f"iteration {step} | loss: 2.5")
    return writes(line, seconds=3.0, exit_code=1)


def on_crash(
    *runs: RunScript,
    do: tuple[Action, ...],
    log: tuple[LogEvent, ...] = (),
    steps: tuple[int, ...] = (100, 200),
) -> Bench:
    """A job that has saved these steps crashes, and then runs well."""
    rules = Monitoring(
        state_events=(on_end("crash", *do),),
        log_events=log,
        checkpoints=Checkpoints(glob="iter_*"),
        storm=Storm(failures=0),
    )
    one = alone(*runs, OK, rules=rules)
    saved = [Checkpoint(path=f"{OUT}/iter_{step}", step=step) for step in steps]
    one.world.shelf.saved[OUT] = saved
    return one


def crashing(
    after: int, *runs: RunScript, steps: tuple[int, ...] = (100, 200)
) -> Bench:
    """A checkpoint is put aside after so many crashes on it."""
    return on_crash(*runs, do=(again(quarantine_after=after),), steps=steps)


def completed(one: Bench) -> Bench:
    one.reach(a="COMPLETED")
    return one


def left(one: Bench) -> list[int | None]:
    return [checkpoint.step for checkpoint in one.world.shelf.saved[OUT]]


def told(one: Bench) -> str:
    return one.words(one.warning().why)


BOTH = (100, 200)
CRASHES: dict[str, tuple[int, list[RunScript], tuple[int, ...], list[int]]] = {
    "so many crashes on one": (2, [CRASH] * 3, BOTH, [100]),
    "the first attempt went on from nothing": (1, [CRASH], (100,), [100]),
    "a run that came further": (1, [CRASH, reaches(250), reaches(250)], BOTH, [*BOTH]),
    "a run that only repeats the step": (1, [CRASH, reaches(200)], BOTH, [100]),
    "a log that counts something else":
        (1, [CRASH, reaches(3), reaches(3)], BOTH, [*BOTH]),
    "progress in between begins the row anew":
        (2, [CRASH, CRASH, reaches(250), CRASH], BOTH, [*BOTH]),
    "one after the other, and in the end none is left": (1, [CRASH] * 3, BOTH, []),
    "no checkpoint at all": (1, [CRASH] * 2, (), []),
}  # fmt: skip


@pytest.mark.parametrize("case", CRASHES)
def test_so_many_crashes_on_one_checkpoint_move_it_aside(case: str) -> None:
    after, runs, steps, stay = CRASHES[case]
    one = completed(crashing(after, *runs, steps=steps))
    assert left(one) == stay
    assert one.world.shelf.aside == [
        f"{OUT}/iter_{step}.quarantined-1"
        for step in reversed(steps)
        if step not in stay
    ]
    assert len(one.executor.begun) == len(runs) + 1
    assert bool(one.warned()) is (left(one) != list(steps))


def test_it_is_moved_before_the_next_attempt_starts_and_a_person_is_told_why() -> None:
    one = completed(crashing(1, CRASH, CRASH))
    happened: list[Any] = [record.event for record in one.world.session.records]
    moved = [type(event) for event in happened].index(events.CheckpointQuarantined)
    submits = [
        at < moved
        for at, event in enumerate(happened)
        if isinstance(event, events.EffectOrdered) and event.effect.kind == "submit"
    ]
    assert submits == [True, True, False]
    assert f"{OUT}/iter_200 was moved" in told(one)
    assert "since 1 attempt in a row" in told(one)
    assert "goes on from iter_100" in told(one)


def test_a_move_that_fails_is_told_and_the_job_goes_on() -> None:
    one = crashing(1, CRASH, CRASH)
    one.world.shelf.problem = "read-only file system"
    completed(one)
    assert "read-only file system" in told(one)
    assert not one.happened(events.CheckpointQuarantined)


def test_a_checkpoint_that_is_not_there_to_be_moved_is_told() -> None:
    one = completed(on_crash(CRASH, do=(QuarantineCheckpoint(), again(2)), steps=()))
    assert "there is none" in told(one)


def test_what_the_log_told_of_it_is_told_of_the_one_before() -> None:
    pattern = r"saved (?P<p>\S+) at (?P<n>\d+)"
    tells = finds("saved", pattern, checkpoint_path="p", checkpoint_iteration="n")
    saves = writes(says(1.0, f"saved {OUT}/iter_200 at 200"), seconds=2.0, exit_code=1)
    do = (again(quarantine_after=1),)
    one = completed(on_crash(saves, CRASH, do=do, log=(tells,)))
    assert one.job("a").metadata == {
        "checkpoint_path": f"{OUT}/iter_100",
        "checkpoint_iteration": "100",
    }


def test_a_retry_that_waits_for_a_move_says_so() -> None:
    one = completed(on_crash(CRASH, do=(QuarantineCheckpoint(), again(2))))
    (reason,) = (event.why for event in one.happened(events.WaitExplained))
    assert reason.code == "held_by_look"
    assert "checkpoint" in one.words(reason)
    assert left(one) == [100]


def test_as_many_are_kept_as_asked() -> None:
    one = on_crash(CRASH, do=(QuarantineCheckpoint(keep=2),))
    one.run(10)
    assert left(one) == [100, 200]
    assert "1 would be left, and 2 are to be kept" in told(one)


def test_a_log_line_moves_it_when_the_run_has_ended() -> None:
    seen = finds("bad", "corrupt", QuarantineCheckpoint())
    corrupt = writes(says(1.0, "corrupt"), seconds=20.0, exit_code=1)
    one = on_crash(corrupt, do=(Restart(),), log=(seen,))
    one.until(lambda: bool(one.job("a").deferred))
    one.run(5)
    assert left(one) == [100, 200]
    assert left(completed(one)) == [100]


@pytest.mark.parametrize("cut", range(5, 60, 2))
def test_killed_at_any_event_exactly_one_is_moved(cut: int) -> None:
    one = crashing(2, *[CRASH] * 3, steps=(100, 200, 300))
    while len(one.world.session.records) < cut and not one.job("a").ended:
        one.single_steps(1)
    one.start()
    completed(one)
    assert one.world.shelf.aside == [f"{OUT}/iter_300.quarantined-1"]
    assert len(one.executor.begun) == 4


HANGS = writes(says(1.0, "iteration 10/100 | lm loss: 2.5"), seconds=9000.0)
STALLS = Monitoring(
    stall_after_seconds=20.0,
    evidence_seconds=10.0,
    state_events=(on_end("stall", again(3)),),
)


def on_loss(action: Cancel | Restart) -> Monitoring:
    return Monitoring(log_events=(finds("bad", "lm loss", action),))


def bench(
    rules: Monitoring, *runs: RunScript, requeued: bool = False, blind: bool = False
) -> Bench:
    """Attempts, or the runs of one; `blind`: no look ever comes back."""
    scripts = {"a": [list(runs)] if requeued else [[run] for run in (*runs, OK)]}
    one = Bench(plan(job("a"), monitoring=rules), scripts, submit=False)
    if blind:
        one.world.evidence_pool = InlinePool()
        one.start()
    one.order(commands.Submit())
    return one


def looked_at(rules: Monitoring = STALLS, *runs: RunScript) -> Bench:
    """A look is under way that never comes back."""
    one = bench(rules, *(runs or [HANGS]), blind=True)
    pending = one.engine.state.pending
    one.until(
        lambda: any(isinstance(p.effect, CaptureEvidence) for p in pending.values())
    )
    return one


def summaries(one: Bench) -> list[str]:
    return [event.summary for event in one.happened(events.EvidenceCaptured)]


def count_cancels(one: Bench) -> int:
    return len(one.ordered(CancelTasks))


def test_a_stalled_run_is_looked_at_before_it_is_ended() -> None:
    one = bench(STALLS, HANGS)
    one.reach(100, a="COMPLETED")
    effects: list[Any] = one.ordered(object)
    kinds = [effect.kind for effect in effects]
    assert kinds == ["submit", "evidence", "cancel", "submit"]
    names = [type(record.event).__name__ for record in one.world.session.records]
    assert names.index("EvidenceCaptured") > names.index("WarningRaised")
    assert [each.cause for each in one.job("a").attempts] == ["stall", None]
    (termination,) = one.world.evidence.partings
    assert termination.reason.startswith("no step after 10 for")
    assert (termination.task.id, termination.log_only) == (("a", 1), False)
    assert (termination.node, bool(termination.log_path)) == ("fakehost", True)


def test_a_log_line_s_restart_is_looked_at_and_its_cancel_is_not() -> None:
    one = bench(on_loss(again(3)), HANGS)
    one.reach(60, a="COMPLETED")
    assert [event.reason for event in one.happened(events.EvidenceCaptured)] == ["bad"]
    assert one.tries("a") == 2
    one = bench(on_loss(Cancel()), HANGS)
    one.reach(60, a="CANCELLED")
    assert summaries(one) == []


def test_a_nan_ends_the_run_at_once_and_keeps_its_log() -> None:
    script = writes(says(1.0, "iteration 5 | lm loss: nan"), seconds=500.0)
    one = bench(Monitoring(), script, blind=True)
    one.reach(20, a="FAILED")
    (look,) = one.ordered(CaptureEvidence)
    assert (look.log_only, look.ends) == (True, None)


def test_a_look_that_hangs_does_not_keep_the_run_alive() -> None:
    one = looked_at()
    begun = one.clock.monotonic()
    one.until(lambda: count_cancels(one) > 0)
    assert 10.0 <= one.clock.monotonic() - begun <= 12.0
    assert summaries(one) == ["not finished within 10 s"]
    one.reach(a="COMPLETED")
    late = one.world.evidence_pool
    assert late is not None
    while late.step():  # one that comes back too late changes nothing
        one.step()
    assert (len(summaries(one)), one.world.evidence.partings) == (1, [])


@pytest.mark.parametrize("problem", [OSError("disk full"), UsageError("no such place")])
def test_a_look_that_fails_or_is_refused_does_not_keep_the_run_alive(
    problem: Any,
) -> None:
    one = bench(STALLS, HANGS)
    one.world.evidence.problem = problem
    one.reach(100, a="COMPLETED")
    assert one.job("a").attempts[0].cause == "stall"
    (summary,) = summaries(one)
    if isinstance(problem, UsageError):  # it ends the run at once
        assert summary == "nothing could be kept: no such place"


def test_a_successor_looks_again_and_ends_the_run_once() -> None:
    one = looked_at()
    one.world.evidence_pool = None
    one.start()
    one.reach(100, a="COMPLETED")
    assert (len(summaries(one)), count_cancels(one)) == (1, 1)
    assert len(one.world.evidence.partings) == 1


def test_a_person_s_kill_does_not_wait_for_the_look() -> None:
    one = looked_at(replace(STALLS, evidence_seconds=60.0))
    one.kill("a")
    one.reach(3, a="CANCELLED")
    one.run(60)
    assert (one.cause("a"), count_cancels(one)) == ("user", 1)


def test_a_run_that_completes_meanwhile_is_completed() -> None:
    one = looked_at(on_loss(again(3)), replace(HANGS, seconds=8.0))
    one.run(60)
    assert (one.state("a"), one.tries("a")) == ("COMPLETED", 1)


@pytest.mark.parametrize("delay", [1.0, 40.0])
def test_a_run_that_was_requeued_meanwhile_goes_on(delay: float) -> None:
    alive = (says(float(n), "alive") for n in range(1, 40))
    later = writes(*alive, begin_delay=delay, seconds=40.0)
    silent = LogEvent(
        name="silent",
        pattern_type="inactivity",
        after_seconds=5.0,
        actions=(again(3),),
    )
    first = replace(HANGS, seconds=15.0, ends="requeue")
    rules = Monitoring(log_events=(silent,))
    one = bench(rules, first, later, requeued=True, blind=True)
    one.until(lambda: bool(one.ordered(CaptureEvidence)))
    one.reach(a="COMPLETED")
    assert (one.tries("a"), count_cancels(one)) == (1, 0)
