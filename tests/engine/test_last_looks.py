"""A run that a rule ends is looked at first, and ended whatever comes of the look."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.actions.kinds import Cancel, Restart
from autoexp_tui.effects.effects import CancelTasks, CaptureEvidence
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.errors import UsageError
from autoexp_tui.model.rules import LogEvent, Monitoring
from tests.engine.bench import Bench
from tests.engine.parts import again, finds, on_end, says, writes
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript
from tests.support.inline_pool import InlinePool

OK = RunScript(seconds=2.0)
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
