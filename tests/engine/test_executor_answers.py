"""What executors answer, and what becomes of jobs by it: at their limit or away, in
words nobody knows or with bugs, in doubt of ends, and what else reports may say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from autoexp_tui.actions.action_runner import MOST_RERUNS
from autoexp_tui.actions.kinds import Log
from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.engine.executor_port import (
    AdoptAnswer,
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
from autoexp_tui.engine.submission_answers import BUSY_SECONDS
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.rules import LogEvent, Monitoring, Storm
from autoexp_tui.model.snapshot import InQueue
from autoexp_tui.model.specs import JobSpec, Resources
from autoexp_tui.model.states import Cause, Outcome
from tests.engine.bench import Bench
from tests.engine.parts import says, writes
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript
from tests.support.sim_world import Ready

MINUTE = RunScript(seconds=60.0)


def bench(*specs: JobSpec | str, script: RunScript = MINUTE, array: int = 1) -> Bench:
    """Jobs that nobody submitted."""
    jobs = [job(s, n) if isinstance(s, str) else s for n, s in enumerate(specs)]
    scripts = {spec.name: [[script]] for spec in jobs}
    one = Bench(plan(*jobs), scripts, submit=False)
    one.executor.array_size = array
    return one


def running(script: RunScript = MINUTE, state: str = "RUNNING") -> Bench:
    one = bench("a", script=script)
    one.order(commands.Submit())
    one.reach(20, a=state)
    return one


@contextmanager
def answering(one: Bench, method: str, answer: Callable[..., object]) -> Iterator[None]:
    """The executor answers so: the answer is made of what was asked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one.executor, method, answer)
        yield


def submit(
    one: Bench,
    answer: Callable[[Submission], SubmitAnswer | None],
    *,
    times: list[float] | None = None,
) -> None:
    """Have submissions answered so for good; None: as the fake does."""
    take = one.executor.submit

    def answered(submission: Submission) -> SubmitAnswer:
        if times is not None:
            times.append(one.clock.monotonic())
        return answer(submission) or take(submission)

    one.executor.submit = answered  # type: ignore[method-assign]
    one.order(commands.Submit())


def waits(times: Sequence[float]) -> list[float]:
    return [round(b - a) for a, b in pairwise(times)]


def sent(one: Bench) -> list[int]:
    """The sizes of all submissions that were ordered."""
    return [len(effect.tasks) for effect in one.ordered(SubmitTasks)]


def test_an_executor_that_is_full_is_asked_for_all_alike_at_once_and_for_others() -> (
    None
):
    other = job("other", 200, resources=Resources(options={"partition": "free"}))
    one, times = bench(*(job(f"j{n}", n) for n in range(200)), other), list[float]()
    full = Busy(message="full")
    submit(one, lambda s: None if s.tasks[0].resources.options else full, times=times)
    one.reach(BUSY_SECONDS / 2, other="RUNNING")
    one.run(10 * BUSY_SECONDS)
    assert len(times) <= 1 + 10 * 8


def test_what_is_larger_than_the_limit_is_sent_in_halves() -> None:
    """Nine alike jobs, sent as one; the executor has room for four tasks."""
    one, room = bench(*(job(f"j{n}", n, stage="s") for n in range(9)), array=10), [4]

    def answer(submission: Submission) -> SubmitAnswer | None:
        if len(submission.tasks) > room[0]:
            return Busy(message="AssocMaxSubmitJobLimit", fewer=True)
        room[0] -= len(submission.tasks)
        return None

    submit(one, answer)
    one.run(1)
    assert sent(one) == [9, 5, 4]
    one.start()  # the next engine knows of the parts
    one.run(20 * BUSY_SECONDS)
    states = list(one.states().values())
    assert (states.count("COMPLETED"), states.count("SUBMITTING")) == (4, 5)
    assert {one.tries(name) for name in one.states()} == {1}
    assert one.executor.problems() == ()


def test_a_controller_that_is_away_is_asked_ever_later_and_has_the_job_when_back() -> (
    None
):
    one, times, is_away = bench("a"), list[float](), [True]
    away = Busy(message="away", unreachable=True)
    submit(one, lambda _: away if is_away[0] else None, times=times)
    one.run(150)
    assert waits(times)[:6] == [2, 4, 8, 16, 30, 30]
    assert one.why("a").code == "unreachable"
    assert one.engine.next_wake() > 0  # nothing was sent that could be asked for
    is_away[0] = False
    one.reach(35, a="RUNNING")
    assert one.tries("a") == 1
    assert not one.happened(events.SubmissionUncertain)


def test_words_that_nobody_knows_are_tried_thrice_then_a_person_is_asked() -> None:
    one, times, is_odd = bench("a"), list[float](), [True]
    odd = Unexplained(message="rebalancing its tranches", sent="sbatch x")
    submit(one, lambda _: odd if is_odd[0] else None, times=times)
    one.run(400)
    assert waits(times) == [60, 240]
    assert (one.state("a"), one.why("a").code) == ("HELD", "held_by_refusal")
    warning = one.warning()
    assert (warning.job, warning.severity) == ("a", "error")
    assert one.job("a").attempts[0].outcome is Outcome.FAILED
    assert not one.engine.state.pending
    is_odd[0] = False
    one.order(commands.Submit(jobs=("a",)))
    one.reach(200, a="COMPLETED")
    assert one.warned() == []


@pytest.mark.parametrize("unwanted", [(), ("a",)])
def test_jobs_that_cannot_be_sent_together_are_sent_apart_and_only_the_bad_one_fails(
    monkeypatch: pytest.MonkeyPatch, unwanted: tuple[str, ...]
) -> None:
    def prepare(_: Ready, __: object, specs: Sequence[JobSpec], ___: object) -> None:
        if any(spec.name == "b" for spec in specs):
            raise EnvironmentFailed("cannot make the directory", "/full/b")

    monkeypatch.setattr(Ready, "prepare", prepare)
    one = bench(*(job(name, n, stage="s") for n, name in enumerate("abc")), array=10)
    one.order(commands.Submit())
    if unwanted:
        one.engine.commit()
        one.kill(*unwanted)
    one.ends(100)
    first = "CANCELLED" if unwanted else "COMPLETED"
    assert one.states() == {"a": first, "b": "FAILED", "c": "COMPLETED"}
    assert one.cause("b") == "submit_error"
    assert "/full/b" in str(one.why("b"))
    if not unwanted:
        assert [one.tries(name) for name in "abc"] == [1, 1, 1]
        assert sent(one) == [3, 1, 1, 1]


@pytest.mark.parametrize("silent", [False, True])
def test_a_bug_below_a_submission_stops_nobody_and_nothing_is_sent_twice(
    monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    one, asked = bench("a", "b"), list[str]()
    take = one.executor.submit

    def buggy(submission: Submission) -> SubmitAnswer:
        """It raises when it has taken what it was given."""
        asked.append(submission.tasks[0].job)
        answer = take(submission)
        if asked[-1] == "a":
            raise KeyError("a bug")
        return answer

    def adopt(_: object) -> AdoptAnswer:
        raise KeyError("another bug")

    monkeypatch.setattr(one.executor, "submit", buggy)
    if silent:
        monkeypatch.setattr(one.executor, "adopt", adopt)
    one.order(commands.Submit())
    one.run(100)
    found = "SUBMIT_UNKNOWN" if silent else "COMPLETED"
    assert one.states() == {"a": found, "b": "COMPLETED"}
    assert asked == ["a", "b"]
    assert "a bug" in one.happened(events.EngineFaulted)[0].problem


@pytest.mark.parametrize("stops", [False, True])
def test_a_cancel_that_nobody_confirms_is_shown_and_sent_again_until_the_engine_stops(
    stops: bool,
) -> None:
    one, times = running(), list[float]()
    said = "squeue did not answer within 30 s"

    def cancel(_: object) -> CancelAnswer:
        times.append(one.clock.monotonic())
        return CancelAnswer(ok=False, said=said)

    with answering(one, "cancel", cancel):
        stop = commands.StopEngine(cancel_jobs=True)
        one.order(stop if stops else commands.Kill(jobs=("a",)))
        one.run(20)
        assert len(times) > 2
        why = one.warning().why
        assert (why.code, why.arg("message")) == ("cancel_unconfirmed", said)
        assert one.engine.state.pending
        assert not one.happened(events.EngineStopped)
        if stops:
            one.until(lambda: bool(one.happened(events.EngineStopped)), 100)
            assert not one.engine.state.pending


def edited(one: Bench, edit: Callable[[TaskReport], TaskReport]) -> Any:
    """Every report of the executor is changed so."""
    ask = one.executor.poll

    def poll(tasks: Sequence[Task]) -> PollAnswer:
        answer = ask(tasks)
        return replace(answer, reports=tuple(map(edit, answer.reports)))

    return answering(one, "poll", poll)


def saying(one: Bench, **fields: Any) -> Any:
    return edited(one, lambda report: replace(report, **fields))


def test_a_suspended_run_is_a_state_of_its_own_and_no_rule_counts_its_time() -> None:
    silent = LogEvent(
        name="silent",
        pattern_type="inactivity",
        after_seconds=60.0,
        actions=(Log(message="quiet"),),
    )
    rules = Monitoring(stall_after_seconds=60.0, log_events=(silent,))
    steps = (says(float(at), f"step {at} loss 1.0") for at in (1, 3, 5))
    script = writes(*steps, seconds=400.0)
    one = Bench(plan(job("a"), monitoring=rules), {"a": [[script]]})
    one.run(20)
    with saying(one, phase=TaskPhase.SUSPENDED):
        one.reach(10, a="SUSPENDED")
        one.run(300)
    one.reach(10, a="RUNNING")
    one.run(40)
    assert one.happened(events.WarningRaised) == []
    assert one.logged() == []
    one.reach(100, a="COMPLETED")


def test_what_the_executor_says_of_a_queued_or_leaving_run_is_shown_while_it_does() -> (
    None
):
    one = running(RunScript(begin_delay=30, seconds=30), "QUEUED")
    waiting = InQueue("lower priority", 1e9, "gpu")
    said = {"reason": waiting.reason, "expected_at": 1e9, "partition": "gpu"}
    with saying(one, **said):
        one.until(lambda: one.live().queue == waiting, 20)
    one.reach(60, a="RUNNING")
    one.run(2)
    assert one.live().queue is None
    with saying(one, phase=TaskPhase.LEAVING, reason="ended; waits"):
        one.run(5)
        assert one.live().queue == InQueue("ended; waits", leaving=True)


def test_what_a_person_must_act_on_is_a_warning_until_it_moves() -> None:
    one = running(RunScript(begin_delay=60, seconds=9), "QUEUED")
    with saying(one, stuck=True, reason="scontrol release 7"):
        one.run(10)
        warning = one.warning()
        assert (warning.why.code, warning.job) == ("stuck_in_queue", "a")
    one.run(10)
    assert one.warned() == []


CHANGED = "begin.0.json was removed, changed or forged while it ran"


def test_changed_records_of_a_completed_job_are_warned_of() -> None:
    one = running(RunScript(seconds=3))
    with edited(one, lambda r: replace(r, tampering=CHANGED) if r.exited else r):
        one.reach(60, a="COMPLETED")
    said = f"{CHANGED}. The job itself, or another program, did that."
    assert one.words(one.warning().why) == said


def test_a_late_cause_is_a_warning_and_no_longer_the_end() -> None:
    scripts = {"a": [[RunScript(seconds=1)]], "b": [[RunScript(seconds=30)]]}
    one, ends = Bench(plan(job("a"), job("b", 1)), scripts), list[TaskReport]()
    ask = one.executor.poll

    def poll(tasks: Sequence[Task]) -> PollAnswer:
        answer, late = ask(tasks), ends[:1]
        ends.extend(r for r in answer.reports if r.job == "a" and r.exited)
        told = (replace(end, late_cause=Cause.OUT_OF_MEMORY) for end in late)
        return replace(answer, late=tuple(told))

    with answering(one, "poll", poll):
        one.until(lambda: bool(one.warned()), 60)
        one.run(5)
    text = one.words(one.warning().why)
    assert text.startswith("it ended with exit 0 and counts as completed")
    assert "out of memory" in text
    assert one.state("a") == "COMPLETED"


FORGOTTEN = RunScript(seconds=2.0, cause=Cause.NODE_FAIL, exit_code=1)
OK = RunScript(seconds=2.0)


def forgetting(*scripts: RunScript, jobs: int = 1, storm: int = 0) -> Bench:
    """Attempt after attempt of each job; what fails was forgotten by its executor."""
    rules = Monitoring(storm=Storm(failures=storm, quick_seconds=60.0))
    names = [f"j{n}" for n in range(jobs)]
    one = Bench(
        plan(*(job(name, n) for n, name in enumerate(names)), monitoring=rules),
        {name: [[script] for script in scripts] for name in names},
    )
    with edited(one, lambda report: replace(report, rerun=report.cause is not None)):
        one.run(300)
    return one


def test_many_forgotten_at_once_are_no_storm_but_over_and_over_need_a_person() -> None:
    one = forgetting(FORGOTTEN, OK, jobs=4, storm=3)
    assert set(one.states().values()) == {"COMPLETED"}
    one = forgetting(*[FORGOTTEN] * 9)
    assert (one.states(), one.tries("j0")) == ({"j0": "FAILED"}, 1 + MOST_RERUNS)
