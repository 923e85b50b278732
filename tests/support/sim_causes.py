"""Every end has a cause, and it is the true one.

The fakes note what really befell each run. Here is which of it may be told as which
cause: a cluster that loses its memory may leave less to tell than there was, but never
something else. Ends that the session itself ordered are told by its own record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autoexp_tui.events import events
from autoexp_tui.model.state import Attempt
from autoexp_tui.model.states import Cause, Outcome
from tests.support.true_ends import Befallen, Stroke

Strokes = Sequence[Befallen]

NEEDS: Final[Mapping[Cause, frozenset[Stroke]]] = {
    Cause.TIMEOUT: frozenset({Stroke.TIMEOUT}),
    Cause.OUT_OF_MEMORY: frozenset({Stroke.OUT_OF_MEMORY}),
    Cause.NODE_FAIL: frozenset({Stroke.NODE_LOST}),
    Cause.PREEMPTED: frozenset({Stroke.PREEMPTED}),
}
"""What the executor did to the newest run, where the cause says that it did."""
_EXPLAINED: Final = frozenset().union(*NEEDS.values())
"""Of these the executor knows that they were its own."""
TRACELESS: Final = frozenset({Stroke.VANISHED, Stroke.FORGOTTEN})
"""After these there is nothing but silence to go by."""
FORGETTABLE: Final = frozenset(
    {Stroke.NODE_LOST, Stroke.PREEMPTED, Stroke.REQUEUED, *TRACELESS}
)
"""After these, once the queue's own word is lost too."""
OWN_FAILURES: Final = frozenset({Cause.NAN, Cause.STALL, Cause.KILL_CRITERION})
"""Our own orders after which a job has failed, rather than that it was cancelled."""
NEVER_TAKEN: Final = frozenset({Cause.REJECTED, Cause.SUBMIT_ERROR})
"""What ends an attempt that the executor would not have; no order of ours ended it."""
BEFORE_A_RUN: Final = frozenset({*NEVER_TAKEN, Cause.LOST})
"""What ends an attempt that never began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What an executor can still be asked when a run has ended."""

    forgets: bool
    """It may have lost its own word on the end, or not be able to tell it."""
    lost_after_seconds: float
    """After so long in silence a run is given up."""


def problem(
    event: events.AttemptEnded, attempt: Attempt, befallen: Strokes, memory: Memory
) -> str:
    """What is wrong with the cause that is told of an end; empty: nothing.

    `attempt` is as it was before.
    """
    if attempt.is_told_to_end:
        return _own(event, attempt, befallen)
    newest = [one for one in befallen if one.run == _newest(attempt, befallen)]
    if event.outcome is Outcome.COMPLETED:
        return _completed(event, newest)
    if (event.outcome, event.cause) == (Outcome.CANCELLED, Cause.USER):
        return "" if _by_others(newest) else "cancelled, and nobody else has done it"
    if event.cause is None or event.outcome is Outcome.CANCELLED:
        return f"{event.outcome} by {event.cause}, and nobody had ordered it"
    if not newest and attempt.run < 0:
        told = event.cause in BEFORE_A_RUN
        return "" if told else f"{event.cause}, and it never began"
    found = _TOLD.get(event.cause)
    if found is None or not found(event, newest, memory):
        return f"{event.cause} is told, and this befell it: {_said(befallen)}"
    return ""


def _newest(attempt: Attempt, befallen: Strokes) -> int:
    return max((one.run for one in befallen), default=attempt.run)


def _said(befallen: Strokes) -> str:
    return "; ".join(
        f"run {one.run} {one.stroke}"
        + (f" {one.exit_code}/{one.signal}" if one.stroke is Stroke.ENDED else "")
        + (" when asked" if one.asked else "")
        for one in befallen
    )


def _own(event: events.AttemptEnded, attempt: Attempt, befallen: Strokes) -> str:
    """The session's orders are its own record, but for a stall that was none."""
    told = (event.outcome, event.cause)
    if event.cause in NEVER_TAKEN:
        return "" if attempt.run < 0 and not befallen else f"{told}, and it began"
    if attempt.finished:
        right = told == (Outcome.COMPLETED, None)
        return "" if right else f"{told}, although it was finished"
    cause = attempt.cancel_cause
    if cause is Cause.STALL and _ended_well(befallen):
        right = told == (Outcome.COMPLETED, None)
        return "" if right else f"{told}, although it ended well by itself"
    if cause in OWN_FAILURES and attempt.run < 0 and not befallen:
        return "" if event.cause is cause else f"{told}, although it never began"
    failed = cause in OWN_FAILURES
    outcome = Outcome.FAILED if failed else Outcome.CANCELLED
    return "" if told == (outcome, cause) else f"{told}, although {cause} was ordered"


def _ended_well(befallen: Strokes) -> bool:
    """The last thing was a good end that nobody had asked for."""
    if not befallen or befallen[-1].stroke is not Stroke.ENDED:
        return False
    return befallen[-1].exit_code == 0 and not befallen[-1].asked


def _completed(event: events.AttemptEnded, newest: Strokes) -> str:
    if event.cause is not None:
        return f"completed, and {event.cause} is its cause"
    return "" if _ended_well(newest) else f"completed, and: {_said(newest)}"


def _by_others(newest: Strokes) -> bool:
    return any(one.stroke is Stroke.CANCELLED_BY_OTHERS for one in newest)


def _by_code(event: events.AttemptEnded, newest: Strokes, memory: Memory) -> bool:
    if event.exit_code is None:  # the queue's word alone, which has no code
        return any(one.stroke is Stroke.VANISHED for one in newest)
    return any(
        one.stroke is Stroke.ENDED
        and one.exit_code == event.exit_code
        and not one.asked
        for one in newest
    )


def _node_failed(event: events.AttemptEnded, newest: Strokes, memory: Memory) -> bool:
    """It may also have been forgotten by a controller that was started again."""
    forgotten = FORGETTABLE if memory.forgets else {Stroke.FORGOTTEN}
    wanted = NEEDS[Cause.NODE_FAIL] | forgotten
    return any(one.stroke in wanted for one in newest)


def _told(cause: Cause) -> Callable[[events.AttemptEnded, Strokes, Memory], bool]:
    return lambda event, newest, memory: any(
        one.stroke in NEEDS[cause] for one in newest
    )


def _by_signal(event: events.AttemptEnded, newest: Strokes, memory: Memory) -> bool:
    """A signal is told bare only of what the executor itself did not do."""
    ended = [one for one in newest if one.stroke is Stroke.ENDED]
    if not any(one.signal == event.signal for one in ended):
        return any(one.stroke is Stroke.VANISHED for one in newest)
    if any(one.stroke in _EXPLAINED for one in newest):
        return memory.forgets
    return memory.forgets or len(newest) == len(ended)


def _lost(event: events.AttemptEnded, newest: Strokes, memory: Memory) -> bool:
    ended = [one for one in newest if one.stroke is Stroke.ENDED]
    if ended:
        return ended[-1].late_seconds >= memory.lost_after_seconds
    wanted = FORGETTABLE if memory.forgets else TRACELESS
    return any(one.stroke in wanted for one in newest)


_TOLD: Final = {
    **{cause: _told(cause) for cause in NEEDS},
    Cause.NODE_FAIL: _node_failed,
    Cause.EXIT_CODE: _by_code,
    Cause.SIGNAL: _by_signal,
    Cause.LOST: _lost,
}
