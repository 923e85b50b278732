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
    PollAnswer,
    Submission,
    SubmitAnswer,
    Task,
    Unexplained,
)
from autoexp_tui.engine.ports import Clock, FactSource
from autoexp_tui.model.facts import CommandKey, CommandResult, Fact, OutsideKey
from tests.support.sim_checks import Checks
from tests.support.sim_clusters import Danger

CALL_RATE = 0.001
"""Of deaths, before a call and after one."""
LOOK_RATE = 0.004
"""Of looks that fail."""
COMMAND_RATE = 0.4
"""Of commands that do not pass yet."""


class WatchedExecutor:
    """`executor_port.Executor` around another."""

    def __init__(
        self,
        inner: Executor,
        checks: Checks,
        danger: Danger,
        is_deposed: Callable[[], bool],
    ) -> None:
        self.name = inner.name
        self.slots = inner.slots
        self.poll_seconds = inner.poll_seconds
        self._inner = inner
        self._checks = checks
        self._danger = danger
        self._is_deposed = is_deposed

    @property
    def array_size(self) -> int:
        return self._inner.array_size

    @property
    def lost_after_seconds(self) -> float:
        return self._inner.lost_after_seconds

    def submit(self, submission: Submission) -> SubmitAnswer:
        self._before()
        deposed = self._is_deposed()
        self._checks.may_send(submission.token, deposed=deposed)
        answer = self._inner.submit(submission)
        if isinstance(answer, Busy | Unexplained) and not deposed:
            self._checks.was_not_taken(submission.token)
        self._after()
        return answer

    def cancel(self, tasks: Sequence[Task]) -> CancelAnswer:
        self._before()
        self._checks.may_cancel([task.id for task in tasks])
        answer = self._inner.cancel(tasks)
        self._after()
        return answer

    def poll(self, tasks: Sequence[Task]) -> PollAnswer:
        return self._inner.poll(tasks)

    def adopt(self, submissions: Sequence[Submission]) -> AdoptAnswer:
        self._before()
        answer = self._inner.adopt(submissions)
        self._after()
        return answer

    def _before(self) -> None:
        self._danger.point("before an executor call", CALL_RATE)

    def _after(self) -> None:
        self._danger.point("after an executor call", CALL_RATE)


class ShakyFacts:
    """`ports.FactSource` around another."""

    def __init__(
        self, inner: FactSource, rng: random.Random, danger: Danger, clock: Clock
    ) -> None:
        self._inner = inner
        self._rng = rng
        self._danger = danger
        self._clock = clock

    def observe(self, key: OutsideKey) -> Fact:
        if isinstance(key, CommandKey):
            return self._command()
        if not self._danger.over and self._rng.random() < LOOK_RATE:
            self._danger.counts["look failed"] += 1
            return Fact(
                None, self._clock.monotonic(), error="the file server does not answer"
            )
        return self._inner.observe(key)

    def observe_all(self, keys: Sequence[OutsideKey]) -> Iterator[Fact]:
        """One by one: whatever is shared is the inner one's affair."""
        return map(self.observe, keys)

    def _command(self) -> Fact:
        if not self._danger.over and self._rng.random() < COMMAND_RATE:
            self._danger.counts["command failed"] += 1
            return Fact(CommandResult(1), self._clock.monotonic())
        return Fact(CommandResult(0), self._clock.monotonic())
