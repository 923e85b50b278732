"""Jobs beside those of the session's executor: limits, rhythm and patience of their
own, and never one submission, or one answer, for both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from autoexp_tui.engine.executor_port import (
    Executor,
    PollAnswer,
    Rejected,
    Submission,
    Task,
)
from autoexp_tui.executors.routing import RoutingExecutor
from autoexp_tui.model.commands import Kill, Submit
from autoexp_tui.model.specs import JobSpec
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_executor import FakeExecutor
from tests.support.fake_script import Fault, RunScript, by_job
from tests.support.tasks import make_task

LONG = [[RunScript(seconds=100.0)]]


class Places(Bench):
    """A session with an executor in each place."""

    beside: FakeExecutor

    def __init__(self, mains: int, besides: int, **world: Any) -> None:
        names = [f"m{n}" for n in range(mains)] + [f"b{n}" for n in range(besides)]
        self.polls: list[tuple[str, float]] = []
        """(place, when) of each look, by the tasks that it was for."""
        self.sent: list[Submission] = []
        self._scripts = dict.fromkeys(names, LONG)
        specs = (job(name, n, **_place(name)) for n, name in enumerate(names))
        super().__init__(plan(*specs), self._scripts, **world)

    def start(self) -> None:
        if self.world.beside is None:
            write = self.files.append
            self.beside = FakeExecutor(self.clock, by_job(self._scripts), write=write)
            self.world.beside = self.beside
            routing: Any = _Watched(self, self.executor, self.beside)
            self.world.executor = routing
        super().start()

    def begun(self) -> str:
        """Of each place, sorted."""
        mains = sorted(one.task[0] for one in self.executor.begun)
        return " ".join([*mains, *sorted(one.task[0] for one in self.beside.begun)])


def _place(name: str) -> dict[str, Any]:
    return {"place": "main" if name[0] == "m" else "beside", "stage": "s"}


class _Watched(RoutingExecutor):
    def __init__(self, bench: Places, main: Executor, beside: Executor) -> None:
        super().__init__(main, beside)
        self._bench = bench

    def submit(self, submission: Submission) -> Any:
        self._bench.sent.append(submission)
        return super().submit(submission)

    def poll(self, tasks: Sequence[Task]) -> PollAnswer:
        places = ",".join(sorted({task.place for task in tasks}))
        self._bench.polls.append((places, self._bench.clock.monotonic()))
        return super().poll(tasks)


@pytest.mark.parametrize(
    ("slots", "beside_slots", "begun"),
    [
        (1, 2, "m0 b0 b1"),
        (2, 0, "m0 m1 b0 b1 b2"),
        (0, 1, "m0 m1 m2 b0"),
    ],
)
def test_each_place_has_slots_of_its_own_and_who_waits_is_told_for_which(
    slots: int, beside_slots: int, begun: str
) -> None:
    one = Places(3, 3, slots=slots, beside_slots=beside_slots)
    one.run(10)
    assert one.begun() == begun
    waiting = {"m": slots, "b": beside_slots}
    for name in {f"{place}{n}" for place in "mb" for n in range(3)} - {*begun.split()}:
        assert one.why(name).code == "held_by_slots"
        assert one.why(name).arg("slots") == waiting[name[0]]


def test_a_submission_is_of_one_place_and_beside_each_goes_alone() -> None:
    one = Places(3, 3, submit=False)
    one.executor.array_size = 10
    one.order(Submit())
    one.run(5)
    sizes = [(sub.tasks[0].place, len(sub.tasks)) for sub in one.sent]
    assert sorted(sizes) == [("beside", 1)] * 3 + [("main", 3)]
    assert all(len({task.place for task in sub.tasks}) == 1 for sub in one.sent)


def test_each_place_has_its_own_rhythm_and_its_own_patience() -> None:
    one = Places(1, 1)
    one.executor.poll_seconds, one.beside.poll_seconds = 10.0, 1.0
    one.executor.lost_after_seconds = 60.0
    one.world.executor.poll_seconds = 10.0
    one.run(30)
    assert {places for places, _ in one.polls} == {"main", "beside"}
    looks = [places for places, _ in one.polls]
    assert looks.count("beside") > 3 * looks.count("main") > 3
    one.executor.kill_supervisor(("m0", 1))
    one.beside.kill_supervisor(("b0", 1))
    one.run(30)
    assert (one.state("m0"), one.state("b0")) == ("RUNNING", "LOST")
    one.reach(600, m0="LOST")


def test_the_silence_of_one_place_says_nothing_of_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = Places(1, 1)
    one.run(5)
    silent = PollAnswer(error="no controller")
    monkeypatch.setattr(one.executor, "poll", lambda _: silent)
    one.beside.kill_supervisor(("b0", 1))
    one.reach(30, b0="LOST")
    assert one.state("m0") == "RUNNING"
    assert one.snapshots[-1].engine.executor_error == "no controller"


def test_a_kill_ends_jobs_of_both_places_and_lost_answers_are_asked_for_there() -> None:
    one = Places(1, 1, submit=False)
    one.beside.faults = [Fault.ANSWER_LOST]
    one.order(Submit())
    one.step()
    assert one.state("b0") == "SUBMIT_UNKNOWN"
    one.start()  # an engine after a kill
    one.reach(30, b0="RUNNING", m0="RUNNING")
    one.order(Kill(jobs=("m0", "b0")))
    one.reach(30, m0="CANCELLED", b0="CANCELLED")
    assert one.begun() == "m0 b0"


def test_what_is_of_two_places_is_refused_before_any_of_it_is_sent() -> None:
    one = Places(0, 0)
    tasks = (make_task("/r", "a"), make_task("/r", "b", place="beside"))
    answer = one.world.executor.submit(Submission(token="t", session="s", tasks=tasks))
    assert isinstance(answer, Rejected)
    assert (one.executor.copies, one.beside.copies) == ([], [])


def test_a_job_that_is_composed_anew_stays_beside_and_a_trial() -> None:
    spec = job("b0", place="beside", trial=True)
    one = Bench(plan(spec), {"b0": [[RunScript(exit_code=1)]]})
    one.reach(30, b0="FAILED")
    one.resubmit("b0", overrides=("a=1",))
    one.reach(30, b0="FAILED")
    found: JobSpec = one.engine.state.jobs["b0"].spec
    assert (found.overrides, found.place, found.trial) == (("a=1",), "beside", True)
