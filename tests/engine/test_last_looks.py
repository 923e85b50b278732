"""A run that a rule ends is looked at first, and ended whatever comes of the look."""

from __future__ import annotations

import pytest

from autoexp_tui.actions.restart import Restart
from autoexp_tui.actions.stop import Cancel
from autoexp_tui.conditions.kinds import MaxAttempts
from autoexp_tui.effects.effects import CancelTasks, CaptureEvidence
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.errors import UsageError
from autoexp_tui.model.rules import LogEvent, Monitoring, StateEvent
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.states import Cause, JobState
from autoexp_tui.model.wording import sentence
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write
from tests.support.inline_pool import InlinePool

OK = RunScript(seconds=2.0)


def says(at: float, text: str) -> Write:
    return Write(at=at, data=text.encode() + b"\n")


def hangs(seconds: float = 9000.0, **fields: object) -> RunScript:
    writes = (says(1.0, "iteration 10/100 | lm loss: 2.5"),)
    return RunScript(seconds=seconds, writes=writes, **fields)  # type: ignore[arg-type]


def again(**fields: object) -> Restart:
    limit = MaxAttempts(max_attempts=3)
    return Restart(reason="again", conditions=(limit,), **fields)  # type: ignore[arg-type]


def stalls(**fields: object) -> Monitoring:
    rule = StateEvent(name="stalled", state="stall", actions=(again(),))
    given = {"stall_after_seconds": 20.0, "state_events": (rule,), **fields}
    return Monitoring(**given)  # type: ignore[arg-type]


def ends_on(line: str, action: Cancel | Restart) -> Monitoring:
    return Monitoring(
        log_events=(LogEvent(name="bad", pattern=line, actions=(action,)),)
    )


def bench(rules: Monitoring, *scripts: RunScript) -> Bench:
    return Bench(one_job(rules), {"a": [[script] for script in scripts]})


def one_job(rules: Monitoring) -> Plan:
    return plan(job("a"), monitoring=rules)


def blind(rules: Monitoring, *scripts: RunScript) -> Bench:
    """A bench on which no look ever comes back."""
    runs = {"a": [[script] for script in scripts]}
    one = Bench(one_job(rules), runs, submit=False)
    one.world.evidence_pool = InlinePool()
    one.start()
    one.order(commands.Submit())
    return one


def ordered(one: Bench, kind: type) -> list[events.EffectOrdered]:
    found = one.happened(events.EffectOrdered)
    return [event for event in found if isinstance(event.effect, kind)]


def captured(one: Bench) -> list[events.EvidenceCaptured]:
    return one.happened(events.EvidenceCaptured)


def being_looked_at(one: Bench) -> bool:
    return any(
        isinstance(pending.effect, CaptureEvidence)
        for pending in one.engine.state.pending.values()
    )


# -------------------------------------------------------------------------- the order
def test_a_stalled_run_is_looked_at_before_it_is_ended() -> None:
    one = bench(stalls(), hangs(), OK)
    one.until(one.is_("a", JobState.COMPLETED), 100)
    records = [type(r.event).__name__ for r in one.world.session.records]
    kinds = [
        r.event.effect.kind
        for r in one.world.session.records
        if isinstance(r.event, events.EffectOrdered)
    ]
    assert kinds == ["submit", "evidence", "cancel", "submit"]
    assert records.index("EvidenceCaptured") > records.index("WarningRaised")
    assert [a.cause for a in one.job("a").attempts] == [Cause.STALL, None]


def test_what_was_kept_is_known_of_the_attempt_and_named_by_the_reason() -> None:
    one = bench(stalls(state_events=(StateEvent(name="s", state="stall"),)), hangs())
    one.until(one.is_("a", JobState.FAILED), 100)
    place = "/attempts/a/1/evidence/1-stall"
    record = one.job("a")
    assert record.attempts[0].captures == (place,)
    assert record.why is not None
    assert sentence(record.why, 0.0).endswith(f"; evidence: {place}")


def test_whoever_looks_is_told_where_and_why() -> None:
    one = bench(stalls(), hangs(), OK)
    one.until(one.is_("a", JobState.COMPLETED), 100)
    (parting,) = one.world.evidence.partings
    assert parting.reason.startswith("no step after 10 for")
    assert (parting.task.id, parting.log_only) == (("a", 1), False)
    assert (parting.node, bool(parting.log_path)) == ("fakehost", True)


def test_a_restart_by_a_log_line_looks_first_and_restarts_then() -> None:
    bad = hangs(500.0)
    rules = ends_on("lm loss", again())
    one = bench(rules, bad, OK)
    one.until(one.is_("a", JobState.COMPLETED), 60)
    assert [event.reason for event in captured(one)] == ["bad"]
    assert len(one.job("a").attempts) == 2


def test_an_end_that_means_cancelled_is_not_looked_at() -> None:
    one = bench(ends_on("lm loss", Cancel()), hangs())
    one.until(one.is_("a", JobState.CANCELLED), 60)
    assert captured(one) == []


def test_a_nan_ends_the_run_at_once_and_keeps_its_log() -> None:
    script = RunScript(seconds=500.0, writes=(says(1.0, "iteration 5 | lm loss: nan"),))
    one = blind(Monitoring(), script)
    one.until(one.is_("a", JobState.FAILED), 20)
    (order,) = ordered(one, CaptureEvidence)
    assert isinstance(order.effect, CaptureEvidence)
    assert (order.effect.log_only, order.effect.ends) == (True, None)


def test_looks_can_be_turned_off() -> None:
    one = bench(stalls(evidence_seconds=0.0), hangs(), OK)
    one.until(one.is_("a", JobState.COMPLETED), 100)
    assert ordered(one, CaptureEvidence) == []


# ---------------------------------------------------------------- looks that go wrong
def test_a_look_that_hangs_does_not_keep_the_run_alive() -> None:
    one = blind(stalls(evidence_seconds=10.0), hangs(), OK)
    one.until(lambda: being_looked_at(one))
    begun = one.clock.monotonic()
    one.until(lambda: bool(ordered(one, CancelTasks)))
    assert 10.0 <= one.clock.monotonic() - begun <= 12.0
    assert captured(one)[0].summary == "not finished within 10 s"
    one.until(one.is_("a", JobState.COMPLETED))


def test_a_look_that_comes_back_too_late_changes_nothing() -> None:
    one = blind(stalls(evidence_seconds=10.0), hangs(), OK)
    one.until(one.is_("a", JobState.COMPLETED))
    late = one.world.evidence_pool
    assert late is not None
    while late.step():
        one.step()
    assert (len(captured(one)), one.world.evidence.partings) == (1, [])


def test_a_look_that_fails_does_not_keep_the_run_alive() -> None:
    one = bench(stalls(evidence_seconds=10.0), hangs(), OK)
    one.world.evidence.problem = OSError("disk full")
    one.until(one.is_("a", JobState.COMPLETED), 100)
    assert one.job("a").attempts[0].cause is Cause.STALL


def test_a_look_that_is_refused_ends_the_run_at_once_and_says_why() -> None:
    one = bench(stalls(evidence_seconds=1000.0), hangs(), OK)
    refused = UsageError("no such directory")
    one.world.evidence.problem = refused  # type: ignore[assignment]
    one.until(one.is_("a", JobState.COMPLETED), 100)
    (event,) = captured(one)
    assert event.summary == "nothing could be kept: no such directory"


def test_a_successor_looks_again_and_ends_the_run_once() -> None:
    one = blind(stalls(), hangs(), OK)
    one.until(lambda: being_looked_at(one))
    one.world.evidence_pool = None
    one.start()
    one.until(one.is_("a", JobState.COMPLETED), 100)
    assert (len(captured(one)), len(ordered(one, CancelTasks))) == (1, 1)
    assert len(one.world.evidence.partings) == 1


# ------------------------------------------------------- what else may happen meanwhile
def test_a_person_s_kill_does_not_wait_for_the_look() -> None:
    one = blind(stalls(), hangs(), OK)
    one.until(lambda: being_looked_at(one))
    one.order(commands.Kill(jobs=("a",)))
    one.until(one.is_("a", JobState.CANCELLED), 3)
    one.run(60)
    assert (one.job("a").cause, len(ordered(one, CancelTasks))) == (Cause.USER, 1)


def test_a_run_that_completes_meanwhile_is_completed() -> None:
    one = blind(ends_on("lm loss", again()), hangs(8.0))
    one.until(lambda: being_looked_at(one))
    one.run(60)
    assert one.job("a").state is JobState.COMPLETED
    assert len(one.job("a").attempts) == 1


@pytest.mark.parametrize("delay", [1.0, 40.0])
def test_a_run_that_was_requeued_meanwhile_goes_on(delay: float) -> None:
    requeued = hangs(15.0, ends="requeue")
    alive = tuple(says(float(n), "alive") for n in range(1, 40))
    later = RunScript(begin_delay=delay, seconds=40.0, writes=alive)
    silent = LogEvent(
        name="silent", pattern_type="inactivity", after_seconds=5.0, actions=(again(),)
    )
    rules = Monitoring(log_events=(silent,))
    one = Bench(one_job(rules), {"a": [[requeued, later]]}, submit=False)
    one.world.evidence_pool = InlinePool()
    one.start()
    one.order(commands.Submit())
    one.until(lambda: being_looked_at(one))
    one.until(one.is_("a", JobState.COMPLETED))
    assert (len(one.job("a").attempts), ordered(one, CancelTasks)) == (1, [])


def test_a_second_rule_does_not_order_a_second_look() -> None:
    rules = Monitoring(
        stall_after_seconds=20.0,
        state_events=(StateEvent(name="s", state="stall"),),
        log_events=(
            LogEvent(
                name="quiet",
                pattern_type="inactivity",
                after_seconds=22.0,
                actions=(Cancel(cause="stall"),),
            ),
        ),
    )
    one = blind(rules, hangs())
    one.until(one.is_("a", JobState.FAILED))
    assert len(ordered(one, CaptureEvidence)) == 1
