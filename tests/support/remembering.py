"""Executors around another one: as it is, or told what an engine would remember."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autoexp_tui.engine.executor_port import (
    Accepted,
    AdoptAnswer,
    CancelAnswer,
    Executor,
    PollAnswer,
    Submission,
    SubmitAnswer,
    Task,
)
from autoexp_tui.model.effect import TaskId


class AroundExecutor:
    """`executor_port.Executor` that hands everything on."""

    def __init__(self, inner: Executor) -> None:
        self.inner = inner
        self.name, self.slots = inner.name, inner.slots
        self.poll_seconds = inner.poll_seconds

    @property
    def array_size(self) -> int:
        return self.inner.array_size

    @property
    def lost_after_seconds(self) -> float:
        return self.inner.lost_after_seconds

    def submit(self, submission: Submission) -> SubmitAnswer:
        return self.inner.submit(submission)

    def cancel(self, tasks: Sequence[Task]) -> CancelAnswer:
        return self.inner.cancel(tasks)

    def poll(self, tasks: Sequence[Task]) -> PollAnswer:
        return self.inner.poll(tasks)

    def adopt(self, submissions: Sequence[Submission]) -> AdoptAnswer:
        return self.inner.adopt(submissions)


class Remembering(AroundExecutor):
    """An engine knows each task's token and the id that it was accepted under; the
    contract hands the same bare task in again and again."""

    def __init__(self, inner: Executor, known: dict[TaskId, Task]) -> None:
        super().__init__(inner)
        self.known = known

    def submit(self, submission: Submission) -> SubmitAnswer:
        answer = self.inner.submit(submission)
        if isinstance(answer, Accepted):
            for task, name in zip(submission.tasks, answer.executor_ids, strict=True):
                told = replace(task, token=submission.token, executor_id=name)
                self.known.setdefault(task.id, told)
        return answer

    def cancel(self, tasks: Sequence[Task]) -> CancelAnswer:
        return self.inner.cancel([self.known.get(task.id, task) for task in tasks])

    def poll(self, tasks: Sequence[Task]) -> PollAnswer:
        return self.inner.poll([self.known.get(task.id, task) for task in tasks])
