"""Quick failures in a row: how many, in the session, of a stage, on a node.

What counts as one is decided when an attempt ends and recorded with the end; here the
ends are only added up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from autoexp_tui.model.state import SessionState

SESSION: Final = "session"
"""The key of the whole session."""


def stage_key(stage: str) -> str:
    """The key of a stage; none has the session's."""
    return f"stage:{stage}"


def node_key(node: str) -> str:
    """The key of a node."""
    return f"node:{node}"


def keys_of(state: SessionState, job: str, number: int) -> tuple[str, ...]:
    """Everything that an attempt counts for; a node only when one is known."""
    record = state.jobs[job]
    nodes = (attempt.node for attempt in record.attempts if attempt.number == number)
    on_node = (node_key(node) for node in nodes if node)
    return (SESSION, stage_key(record.spec.stage), *on_node)


def count_end(state: SessionState, job: str, attempt: int, streak: str) -> None:
    """Add an attempt's end to the counts; `streak` as in `AttemptEnded`."""
    if not streak:
        return
    for key in keys_of(state, job, attempt):
        if streak == "quick":
            state.streaks[key] = state.streaks.get(key, 0) + 1
        else:
            state.streaks.pop(key, None)
