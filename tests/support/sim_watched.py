"""The outside of a simulated engine, with eyes and with accidents.

What an executor is asked for is held against the invariants; engines die before and
after a call; looks at files fail; commands of conditions are answered here, since
nothing may be started.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from autoexp_tui.engine.executor_port import (
    AdoptAnswer,
    Busy,
    CancelAnswer,
    Executor,
    Submission,
    SubmitAnswer,
    Task,
    Unexplained,
)
from autoexp_tui.engine.ports import Clock, FactSource
from autoexp_tui.model.facts import CommandKey, CommandResult, Fact, OutsideKey
from tests.support.remembering import AroundExecutor
from tests.support.sim_checks import Checks
from tests.support.sim_tally import Danger

CALL_RATE = 0.001
"""Of deaths, before a call and after one."""
LOOK_RATE = 0.004
"""Of looks that fail."""
COMMAND_RATE = 0.4
"""Of commands that do not pass yet."""


class WatchedExecutor(AroundExecutor):
    """An executor whose callers may die, and are watched."""

    def __init__(
        self,
        inner: Executor,
        checks: Checks,
        danger: Danger,
        is_deposed: Callable[[], bool],
    ) -> None:
        super().__init__(inner)
        self._checks = checks
        self._danger = danger
        self._is_deposed = is_deposed

    def submit(self, submission: Submission) -> SubmitAnswer:
        self._may_die("before")
        deposed = self._is_deposed()
        self._checks.may_send(submission.token, deposed=deposed)
        answer = self.inner.submit(submission)
        if isinstance(answer, Busy | Unexplained) and not deposed:
            self._checks.was_not_taken(submission.token)
        self._may_die("after")
        return answer

    def cancel(self, tasks: Sequence[Task]) -> CancelAnswer:
        self._may_die("before")
        self._checks.may_cancel([task.id for task in tasks])
        answer = self.inner.cancel(tasks)
        self._may_die("after")
        return answer

    def adopt(self, submissions: Sequence[Submission]) -> AdoptAnswer:
        self._may_die("before")
        answer = self.inner.adopt(submissions)
        self._may_die("after")
        return answer

    def _may_die(self, when: str) -> None:
        self._danger.point(f"{when} an executor call", CALL_RATE)


class ShakyFacts:
    """`ports.FactSource` around another."""

    def __init__(
        self, inner: FactSource, rng: random.Random, danger: Danger, clock: Clock
    ) -> None:
        self._inner = inner
        self._rng = rng
        self._danger = danger
        self._clock = clock

    def _observe(self, key: OutsideKey) -> Fact:
        if isinstance(key, CommandKey):
            failed = self._fails("command failed", COMMAND_RATE)
            return Fact(CommandResult(int(failed)), self._clock.monotonic())
        if self._fails("look failed", LOOK_RATE):
            why = "the file server does not answer"
            return Fact(None, self._clock.monotonic(), error=why)
        return next(self._inner.observe_all([key]))

    def observe_all(self, keys: Sequence[OutsideKey]) -> Iterator[Fact]:
        """One by one: whatever is shared is the inner one's affair."""
        return map(self._observe, keys)

    def _fails(self, name: str, rate: float) -> bool:
        fails = not self._danger.over and self._rng.random() < rate
        if fails:
            self._danger.counts[name] += 1
        return fails
