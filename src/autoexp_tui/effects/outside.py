"""How an effect is carried out: what it calls outside, and what comes of the answer.

The dispatcher calls `send` on its own thread and runs what that gives in a pool; the
loop hands the answer to `settle`, which emits events. The ports are those parts of the
outside that effects may use; adapters and fakes implement them, and may block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, Protocol, TypeAlias

from autoexp_tui.events import events
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.effect import Effect
from autoexp_tui.model.facts import CommandResult, Fact, OutsideKey
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.state import PendingEffect, SessionState
from autoexp_tui.model.states import why

PoolName: TypeAlias = Literal["executor", "command", "planner", "errand"]
"""The threads on which a call may block."""


class Errands(Protocol):
    """What rules do outside, each time once; blocks."""

    def run(
        self, command: Sequence[str], timeout: float, env: Mapping[str, str], cwd: str
    ) -> CommandResult:
        """Run a command without a shell, `timeout` seconds at most. `env` is added to
        the engine's own; `cwd` empty: where the engine runs."""

    def append(self, path: str, text: str, below: str = "") -> None:
        """Add `text` as whole lines to a file, which is made if need be. Raises
        OSError: it cannot be written, or lies elsewhere than `below`."""


class Looks(Protocol):
    def observe(self, key: OutsideKey) -> Fact:
        """Look once, and block; what went wrong is in the fact."""


class DoneNotes(Protocol):
    def note_done(self, spec: JobSpec, work: DoneWork) -> None:
        """Keep that the job's work is done; nothing, where the directory has another
        owner by now. Repeatable; blocks. Raises AutoexpError: it cannot be kept."""


class Outside(Protocol):
    """The outside, as far as effects reach it."""

    @property
    def errands(self) -> Errands: ...
    @property
    def facts(self) -> Looks: ...
    @property
    def preparation(self) -> DoneNotes: ...


class Settlement(Protocol):
    """What becomes of an ordered effect."""

    @property
    def pending(self) -> PendingEffect:
        """The order."""

    def settle(self, context: DecisionContext, outcome: str, detail: str) -> None:
        """It is over; `outcome`: `ok`, or else it failed."""

    def rest(self, seconds: float) -> float:
        """It is not over: it is sent again so much later. Returns when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a call."""

    ok: bool = True
    detail: str = ""
    """What was said, or what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideEffect(Effect):
    """An effect that is one call outside, and settled by its answer."""

    pool: ClassVar[PoolName] = "executor"

    def send(self, outside: Outside, state: SessionState) -> Callable[[], Answer]:
        """What to call, in the effect's pool; must not block itself."""
        return partial(self.call, outside)

    def call(self, outside: Outside) -> Answer:
        """What is done, where nothing of the session's state is needed; may block."""
        raise NotImplementedError(type(self).__name__)

    def settle(
        self, context: DecisionContext, settlement: Settlement, answer: Answer
    ) -> None:
        """Take the answer: the effect is over, as it says."""
        outcome = "ok" if answer.ok else "failed"
        settlement.settle(context, outcome, answer.detail)


def warn_of_failure(
    context: DecisionContext, pending: PendingEffect, problem: str
) -> None:
    """Say that what a rule ordered outside did not come about."""
    effect = pending.effect
    reason = why(
        "action_failed", kind=effect.kind, what=effect.name_object(), problem=problem
    )
    context.draft.emit(
        events.WarningRaised(
            warning_id=f"x{pending.effect_id}", why=reason, job=effect.find_job()
        )
    )
