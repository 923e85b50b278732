"""An executor at its limit: nothing fails, it is asked little, and parts are tried."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.engine.executor_port import Busy, Submission, SubmitAnswer
from autoexp_tui.engine.submission_answers import BUSY_SECONDS
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.specs import JobSpec, Resources
from autoexp_tui.model.states import JobState
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import Fault, RunScript

RUN = [[RunScript(seconds=60.0)]]


def bench(specs: Sequence[JobSpec]) -> Bench:
    return Bench(plan(*specs), {spec.name: RUN for spec in specs}, submit=False)


def alike(count: int) -> list[JobSpec]:
    return [job(f"j{at}", at, stage="s") for at in range(count)]


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Nine alike jobs, sent as one; the executor has room for four tasks."""
    one = bench(alike(9))
    one.executor.array_size = 10
    take = one.executor.submit
    room = [4]

    def submit(submission: Submission) -> SubmitAnswer:
        if len(submission.tasks) > room[0]:
            return Busy(message="AssocMaxSubmitJobLimit", fewer=True)
        room[0] -= len(submission.tasks)
        return take(submission)

    monkeypatch.setattr(one.executor, "submit", submit)
    one.order(commands.Submit())
    return one


def sent(one: Bench) -> list[int]:
    """The sizes of all submissions that were ordered."""
    ordered = one.happened(events.EffectOrdered)
    effects = [e.effect for e in ordered]
    return [len(one.tasks) for one in effects if isinstance(one, SubmitTasks)]


def test_an_executor_that_is_full_fails_no_job() -> None:
    one = bench([job("a")])
    one.fault(*[Fault.BUSY] * 5)
    one.order(commands.Submit())
    one.run(20)
    assert one.why("a").code == "busy"
    one.until(one.is_("a", JobState.COMPLETED))
    assert len(one.job("a").attempts) == 1


def test_an_executor_that_is_full_is_asked_for_all_alike_at_once() -> None:
    one = bench([job(f"j{at}", at) for at in range(200)])
    one.fault(*[Fault.BUSY] * 100_000)
    one.order(commands.Submit())
    one.run(10 * BUSY_SECONDS)
    assert one.executor.calls["submit"] <= 10 * 8


def test_others_than_those_alike_are_sent_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = job("other", 50, resources=Resources(options={"partition": "free"}))
    one = bench([*(job(f"j{at}", at) for at in range(50)), other])
    take = one.executor.submit

    def submit(submission: Submission) -> SubmitAnswer:
        wanted = submission.tasks[0].resources.options
        return take(submission) if wanted else Busy(message="full")

    monkeypatch.setattr(one.executor, "submit", submit)
    one.order(commands.Submit())
    one.until(one.is_("other", JobState.RUNNING), BUSY_SECONDS / 2)


def test_what_is_larger_than_the_limit_is_sent_in_halves(limited: Bench) -> None:
    limited.run(1)
    assert sent(limited) == [9, 5, 4]
    limited.start()  # the next engine knows of the parts
    limited.run(20 * BUSY_SECONDS)
    states = list(limited.states().values())
    assert (states.count("COMPLETED"), states.count("SUBMITTING")) == (4, 5)
    assert {len(one.attempts) for one in limited.engine.state.jobs.values()} == {1}
    assert limited.executor.problems() == ()


def test_a_limit_that_is_none_of_number_leaves_the_submission_whole() -> None:
    one = bench(alike(9))
    one.executor.array_size = 10
    one.fault(*[Fault.BUSY] * 3)
    one.order(commands.Submit())
    one.until(one.is_("j8", JobState.COMPLETED))
    assert sent(one) == [9]
