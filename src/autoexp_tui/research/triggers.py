"""When the research agent is consulted: what leads to it that no event tells of, and
the time of the next call. Each fact leads to one call at most, and those that come
while a call is under way to one further call together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autoexp_tui.model.agents import Outcome
from autoexp_tui.text.spelling import duration, join_some, plural

if TYPE_CHECKING:
    from autoexp_tui.research.items import Chosen
    from autoexp_tui.research.state import Research, TriggerKind


def list_fired(
    research: Research, chosen: Chosen, lived: float
) -> list[tuple[TriggerKind, str, tuple[str, ...]]]:
    """What fires now: kind, what it is about in words, and items that are stuck.
    `chosen`: what `choose_items` says when all that may begin has begun.

    While an answer is awaited or not applied yet nothing fires: it may fill the list,
    and what is still so afterwards fires then.
    """
    if _is_over(research) or is_answer_due(research):
        return []
    fired: list[tuple[TriggerKind, str, tuple[str, ...]]] = []
    if not research.was_low and len(research.items) < research.options.refill_below:
        fired.append(
            ("list_depleted", f"{plural(len(research.items), 'item')} left", ())
        )
    if chosen.stuck_kind and not set(chosen.stuck) <= set(research.told_stuck):
        fired.append((chosen.stuck_kind, join_some(chosen.stuck, 3), chosen.stuck))
    if not (fired or research.triggers) and lived >= _find_heartbeat(research):
        seconds = lived - research.last_call_lived
        fired.append(("heartbeat", f"{duration(seconds)} without a call", ()))
    return fired


def find_call_time(research: Research, lived: float) -> float | None:
    """When the research agent is to be called for the triggers that wait, in seconds
    that the session has lived. None: for nothing, or not before an answer is applied.

    An answer that waits for a person holds up no call: what happens meanwhile is worth
    a thought, and the lines of both answers are checked when they are applied.
    """
    if _is_over(research) or not research.triggers or is_answer_due(research):
        return None
    last = research.last_opened_lived
    if last is None:
        return lived
    return max(lived, last + research.options.min_interval_seconds)


def find_wake(research: Research, lived: float) -> float | None:
    """When to look again if nothing happens, in seconds that the session has lived:
    for the next call or for the heartbeat. None: an event leads on, nothing does, or a
    call is due already, which whoever looks now makes or has a reason not to."""
    if _is_over(research) or is_answer_due(research):
        return None
    if not research.triggers:
        return max(lived, _find_heartbeat(research))
    due = find_call_time(research, lived)
    return None if due == lived else due


def is_answer_due(research: Research) -> bool:
    """Whether the research agent is being called, or has answered and nothing was
    done about it yet."""
    return any(
        one.ended_lived is None or (one.outcome is Outcome.OK and not one.asked)
        for one in research.list_open("research")
    )


def _find_heartbeat(research: Research) -> float:
    return research.last_call_lived + research.options.heartbeat_seconds


def _is_over(research: Research) -> bool:
    """Whether nobody is consulted any more."""
    return research.stopped is not None or research.budget_reached is not None
