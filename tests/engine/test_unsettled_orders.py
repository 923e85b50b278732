"""Orders that come to nothing: nobody there, words nobody knows, an unconfirmed end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from autoexp_tui.actions.notify import Log
from autoexp_tui.engine.executor_port import (
    Busy,
    CancelAnswer,
    PollAnswer,
    Submission,
    SubmitAnswer,
    Task,
    TaskPhase,
    TaskReport,
    Unexplained,
)
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.rules import LogEvent, Monitoring
from autoexp_tui.model.state import Warned
from autoexp_tui.model.states import JobState, Outcome
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write

RUN = [[RunScript(seconds=60.0)]]


def bench(*names: str) -> Bench:
    jobs = [job(name, at) for at, name in enumerate(names)]
    return Bench(plan(*jobs), dict.fromkeys(names, RUN), submit=False)


def running() -> Bench:
    one = bench("a")
    one.order(commands.Submit())
    one.until(one.is_("a", JobState.RUNNING), 20)
    return one


def answers(
    one: Bench, monkeypatch: pytest.MonkeyPatch, answer: SubmitAnswer
) -> list[float]:
    """Have every submission answered so; when each was sent."""
    times: list[float] = []

    def submit(submission: Submission) -> SubmitAnswer:
        times.append(one.clock.monotonic())
        return answer

    monkeypatch.setattr(one.executor, "submit", submit)
    return times


def waits(times: Sequence[float]) -> list[float]:
    return [round(b - a) for a, b in pairwise(times)]


# ------------------------------------------------------------------------ nobody there
def test_a_controller_that_is_away_is_asked_again_soon_then_ever_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = bench("a")
    times = answers(one, monkeypatch, Busy(message="away", unreachable=True))
    one.order(commands.Submit())
    one.run(150)
    assert waits(times)[:6] == [2, 4, 8, 16, 30, 30]
    assert one.why("a").code == "unreachable"


def test_a_controller_that_is_back_has_the_job_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = bench("a")
    take = one.executor.submit
    answers(one, monkeypatch, Busy(message="away", unreachable=True))
    one.order(commands.Submit())
    one.run(43)
    monkeypatch.setattr(one.executor, "submit", take)
    one.until(one.is_("a", JobState.RUNNING), 35)
    assert len(one.job("a").attempts) == 1
    assert not one.happened(events.SubmissionUncertain)


# ------------------------------------------------------------------------ unknown words
@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> tuple[Bench, list[float]]:
    one = bench("a", "b")
    answer = Unexplained(message="rebalancing its tranches", sent="sbatch x")
    times = answers(one, monkeypatch, answer)
    one.order(commands.Submit(jobs=("a",)))
    one.run(400)
    return one, times


Refused = tuple[Bench, list[float]]


def test_words_that_nobody_knows_are_tried_three_times_over_five_minutes(
    refused: Refused,
) -> None:
    _, times = refused
    assert waits(times) == [60, 240]


def test_then_the_job_is_held_and_asked_about(refused: Refused) -> None:
    one, _ = refused
    held = one.job("a")
    assert held.state is JobState.HELD
    assert held.why is not None
    assert held.why.code == "held_by_refusal"
    [warning] = one.engine.state.warnings.values()
    assert (warning.job, warning.severity) == ("a", "error")
    assert held.attempts[0].outcome is Outcome.FAILED
    assert not one.engine.state.pending


def test_a_held_job_is_submitted_again_by_a_person(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = refused
    monkeypatch.undo()
    one.order(commands.Submit(jobs=("a",)))
    one.until(one.is_("a", JobState.COMPLETED), 200)
    assert one.engine.state.warnings == {}


def test_a_refusal_that_passes_meanwhile_holds_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = bench("a")
    take = one.executor.submit
    answers(one, monkeypatch, Unexplained(message="lunch"))
    one.order(commands.Submit())
    one.run(50)
    assert one.job("a").state is JobState.SUBMITTING
    monkeypatch.setattr(one.executor, "submit", take)
    one.until(one.is_("a", JobState.COMPLETED), 200)
    assert len(one.job("a").attempts) == 1


# -------------------------------------------------------------------- unconfirmed ends
def cannot_confirm(one: Bench, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    times: list[float] = []

    def cancel(tasks: Sequence[Task]) -> CancelAnswer:
        times.append(one.clock.monotonic())
        return CancelAnswer(ok=False, said="squeue did not answer within 30 s")

    monkeypatch.setattr(one.executor, "cancel", cancel)
    return times


def warned(one: Bench) -> list[Warned]:
    found = one.engine.state.warnings.values()
    return [each for each in found if each.why.code == "cancel_unconfirmed"]


def test_a_cancel_that_nobody_confirms_is_shown_and_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = running()
    times = cannot_confirm(one, monkeypatch)
    one.order(commands.Kill(jobs=("a",)))
    one.run(20)
    assert len(times) > 2
    [warning] = warned(one)
    assert warning.why.arg("message") == "squeue did not answer within 30 s"
    assert one.engine.state.pending


def test_an_engine_that_is_to_stop_its_jobs_ends_when_their_ends_come_unconfirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = running()
    cannot_confirm(one, monkeypatch)
    one.order(commands.StopEngine(cancel_jobs=True))
    one.run(10)
    assert not one.happened(events.EngineStopped)
    one.until(lambda: bool(one.happened(events.EngineStopped)), 100)
    assert not one.engine.state.pending


# ------------------------------------------------------------------ suspended, leaving
def says(
    one: Bench, monkeypatch: pytest.MonkeyPatch, change: Callable[[TaskReport], object]
) -> None:
    """Have every report of the executor changed so."""
    ask = one.executor.poll

    def poll(tasks: Sequence[Task]) -> PollAnswer:
        answer = ask(tasks)
        reports = tuple(change(report) for report in answer.reports)
        return replace(answer, reports=reports)  # type: ignore[arg-type]

    monkeypatch.setattr(one.executor, "poll", poll)


def test_a_suspended_run_is_a_state_of_its_own_until_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = running()
    with monkeypatch.context() as patched:
        says(one, patched, lambda r: replace(r, phase=TaskPhase.SUSPENDED))
        one.until(one.is_("a", JobState.SUSPENDED), 10)
    one.until(one.is_("a", JobState.RUNNING), 10)
    one.until(one.is_("a", JobState.COMPLETED), 100)


def test_no_rule_counts_the_time_in_which_a_run_is_suspended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = LogEvent(
        name="silent",
        pattern_type="inactivity",
        after_seconds=60.0,
        actions=(Log(message="quiet"),),
    )
    rules = Monitoring(stall_after_seconds=60.0, log_events=(silent,))
    writes = tuple(
        Write(at=float(at), data=f"step {at} loss 1.0\n".encode()) for at in (1, 3, 5)
    )
    script = RunScript(seconds=900.0, writes=writes)
    one = Bench(plan(job("a"), monitoring=rules), {"a": [[script]]})
    one.run(20)
    with monkeypatch.context() as patched:
        says(one, patched, lambda r: replace(r, phase=TaskPhase.SUSPENDED))
        one.until(one.is_("a", JobState.SUSPENDED), 10)
        one.run(300)
    one.until(one.is_("a", JobState.RUNNING), 10)
    one.run(40)
    assert one.happened(events.WarningRaised) == []
    assert one.happened(events.MessageLogged) == []


def test_a_run_that_is_over_is_not_shown_as_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = running()
    leaving = {"phase": TaskPhase.LEAVING, "reason": "ended with exit 143; waits"}
    says(one, monkeypatch, lambda r: replace(r, **leaving))  # type: ignore[arg-type]
    one.run(5)
    live = one.live()
    assert live.queue is not None
    assert (live.queue.leaving, live.queue.reason) == (True, leaving["reason"])


def test_what_a_person_must_act_on_is_a_warning_until_it_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = Bench(plan(job("a")), {"a": [[RunScript(begin_delay=60, seconds=9)]]})
    with monkeypatch.context() as patched:
        stuck = {"stuck": True, "reason": "scontrol release 7"}
        says(one, patched, lambda r: replace(r, **stuck))  # type: ignore[arg-type]
        one.run(10)
        [warning] = one.engine.state.warnings.values()
        assert (warning.why.code, warning.job) == ("stuck_in_queue", "a")
    one.run(10)
    assert one.engine.state.warnings == {}
