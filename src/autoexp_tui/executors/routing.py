"""Two executors as one: tasks go to the session's own, or to that of the engine's host,
by their `place`. Numbers are the session's own; `Parts.find_executor` knows both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from autoexp_tui.engine import executor_port as port
from autoexp_tui.model.specs import Place
from autoexp_tui.model.states import Cause

T = TypeVar("T")


class RoutingExecutor:
    """`executor_port.Executor` over one a place."""

    def __init__(self, main: port.Executor, beside: port.Executor) -> None:
        self.name, self.slots = main.name, main.slots
        self.poll_seconds = main.poll_seconds
        self._main, self._beside = main, beside

    @property
    def array_size(self) -> int:
        return self._main.array_size

    @property
    def lost_after_seconds(self) -> float:
        return self._main.lost_after_seconds

    def submit(self, submission: port.Submission) -> port.SubmitAnswer:
        """Hand it to its place; one of two places is refused."""
        (executor, _), *more = self._split(submission.tasks, submission.tasks)
        if more:  # the engine sends them apart
            problem = "tasks of two places cannot be sent together"
            return port.Rejected(message=problem, cause=Cause.SUBMIT_ERROR)
        return executor.submit(submission)

    def cancel(self, tasks: Sequence[port.Task]) -> port.CancelAnswer:
        answers = [one.cancel(some) for one, some in self._split(tasks, tasks)]
        return port.CancelAnswer(
            ok=all(answer.ok for answer in answers),
            sent="; ".join(answer.sent for answer in answers if answer.sent),
            said="; ".join(answer.said for answer in answers if answer.said),
        )

    def poll(self, tasks: Sequence[port.Task]) -> port.PollAnswer:
        """One look at each place that has tasks; none of one speaks for the other's."""
        answers = [one.poll(some) for one, some in self._split(tasks, tasks)]
        return port.PollAnswer(
            reports=tuple(report for answer in answers for report in answer.reports),
            late=tuple(report for answer in answers for report in answer.late),
            error="; ".join(answer.error for answer in answers if answer.error),
            age=max((answer.age for answer in answers), default=0.0),
        )

    def adopt(self, submissions: Sequence[port.Submission]) -> port.AdoptAnswer:
        firsts = [submission.tasks[0] for submission in submissions]
        answers = [one.adopt(some) for one, some in self._split(firsts, submissions)]
        return port.AdoptAnswer(
            found=tuple(found for answer in answers for found in answer.found),
            absent=tuple(token for answer in answers for token in answer.absent),
            error="; ".join(answer.error for answer in answers if answer.error),
        )

    def _split(
        self, tasks: Sequence[port.Task], values: Sequence[T]
    ) -> list[tuple[port.Executor, list[T]]]:
        """`values` by the executor of the task that each belongs to."""
        of_place: dict[Place, list[T]] = {"main": [], "beside": []}
        for task, value in zip(tasks, values, strict=True):
            of_place[task.place].append(value)
        pairs = (self._main, of_place["main"]), (self._beside, of_place["beside"])
        return [(executor, some) for executor, some in pairs if some]
