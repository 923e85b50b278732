"""Two executors as one: tasks go to the session's own, or to that of the engine's host,
by their `place`. Numbers are the session's own; `Parts.find_executor` knows both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autoexp_tui.engine import executor_port as port
from autoexp_tui.model.specs import Place
from autoexp_tui.model.states import Cause


class RoutingExecutor:
    """`executor_port.Executor` over one a place. What the engine sends, looks at and
    looks for is of one place at a time; what it ends may be of both."""

    def __init__(self, main: port.Executor, beside: port.Executor) -> None:
        self.name, self.slots = main.name, main.slots
        self.poll_seconds = main.poll_seconds
        self._main = main
        self._of: Mapping[Place, port.Executor] = {"main": main, "beside": beside}

    @property
    def array_size(self) -> int:
        return self._main.array_size

    @property
    def lost_after_seconds(self) -> float:
        return self._main.lost_after_seconds

    def submit(self, submission: port.Submission) -> port.SubmitAnswer:
        place, *more = {task.place for task in submission.tasks}
        if more:  # the engine sends them apart
            problem = "tasks of two places cannot be sent together"
            return port.Rejected(message=problem, cause=Cause.SUBMIT_ERROR)
        return self._of[place].submit(submission)

    def cancel(self, tasks: Sequence[port.Task]) -> port.CancelAnswer:
        answers = [
            executor.cancel(some)
            for place, executor in self._of.items()
            if (some := [task for task in tasks if task.place == place])
        ]
        return port.CancelAnswer(
            ok=all(answer.ok for answer in answers),
            sent="; ".join(answer.sent for answer in answers if answer.sent),
            said="; ".join(answer.said for answer in answers if answer.said),
        )

    def poll(self, tasks: Sequence[port.Task]) -> port.PollAnswer:
        return self._of[tasks[0].place if tasks else "main"].poll(tasks)

    def adopt(self, submissions: Sequence[port.Submission]) -> port.AdoptAnswer:
        return self._of[submissions[0].tasks[0].place].adopt(submissions)
