"""State is the fold of events: each applies itself; no policy.

Replay, resume and the live engine run this same function. An illegal transition is a
bug in the decider and raises; nothing is repaired silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from autoexp_tui.events.base import Recorded
from autoexp_tui.events.session import EngineStarted
from autoexp_tui.model.fast_replace import amended, changed
from autoexp_tui.model.state import SessionState


def fold(state: SessionState, records: Iterable[Recorded]) -> SessionState:
    """Apply every record in order to `state`, and return it."""
    with unseen(state):
        for record in records:
            apply(state, record)
    return state


@contextmanager
def unseen(state: SessionState, *, ours: bool = False) -> Iterator[None]:
    """Fold fast: nobody looks at `state` before this ends.

    A job's records are then changed where they are, not copied at each event; a long
    journal folds in half the time. Only for a state that has no jobs yet, or whose
    records are `ours`: those that somebody may hold already are left alone.
    """
    if state.jobs and not ours:
        yield
        return
    state.renew = amended
    try:
        yield
    finally:
        state.renew = changed


def apply(state: SessionState, record: Recorded) -> None:
    """Move `state` on by one event.

    Raises:
        IllegalTransition: the event does not fit the job's state.
        KeyError: it names a job, plan or token that the session does not have.
    """
    state.seq = record.seq
    state.epoch = record.epoch
    _pass_time(state, record)
    if record.command_id:
        state.commands.setdefault(record.command_id, record.seq)
    record.event.apply(state, record)


def _pass_time(state: SessionState, record: Recorded) -> None:
    """Move the three time scales on; a journal of an older version has only `t`."""
    state.utc = record.t if record.utc is None else record.utc
    if record.lived is not None:
        state.lived = max(state.lived, record.lived)
    elif state.t:
        event = record.event
        away = event.gap_seconds if isinstance(event, EngineStarted) else 0.0
        state.lived += max(0.0, record.t - state.t - away)
    state.t = max(state.t, record.t)
