"""A bug below a submission: the engine goes on, and sends nothing twice."""

from __future__ import annotations

import pytest

from autoexp_tui.engine.executor_port import AdoptAnswer, Submission, SubmitAnswer
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.states import JobState
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript

RUN = [[RunScript(seconds=20.0)]]


class Buggy:
    """An executor that raises when it has taken what it was given."""

    def __init__(self, one: Bench) -> None:
        self.bench = one
        self.sent: list[str] = []
        self.take = one.executor.submit

    def submit(self, submission: Submission) -> SubmitAnswer:
        self.sent.append(submission.tasks[0].job)
        answer = self.take(submission)
        if submission.tasks[0].job == "a":
            raise KeyError("a bug")
        return answer


@pytest.fixture
def buggy(monkeypatch: pytest.MonkeyPatch) -> Buggy:
    one = Bench(plan(job("a"), job("b", 1)), {"a": RUN, "b": RUN}, submit=False)
    made = Buggy(one)
    monkeypatch.setattr(one.executor, "submit", made.submit)
    one.order(commands.Submit())
    return made


def test_what_may_have_been_sent_is_asked_for_and_the_others_are_sent(
    buggy: Buggy,
) -> None:
    buggy.bench.until(buggy.bench.is_("a", JobState.COMPLETED))
    buggy.bench.until(buggy.bench.is_("b", JobState.COMPLETED))
    assert buggy.sent == ["a", "b"]
    (fault,) = buggy.bench.happened(events.EngineFaulted)
    assert "a bug" in fault.problem


def test_a_bug_in_asking_is_no_answer(
    buggy: Buggy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def adopt(_: object) -> AdoptAnswer:
        raise KeyError("another bug")

    monkeypatch.setattr(buggy.bench.executor, "adopt", adopt)
    buggy.bench.run(60)
    assert buggy.bench.job("a").state is JobState.SUBMIT_UNKNOWN
    assert buggy.sent == ["a", "b"]
