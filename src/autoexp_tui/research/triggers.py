"""When the research agent is consulted: what leads to it that no event tells of, and
the time of the next call. Each fact leads to one call at most, and those that come
while a call is under way to one further call together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from autoexp_tui.model.agents import Outcome
from autoexp_tui.research.events import TriggerFired
from autoexp_tui.text.spelling import duration, join_some, plural

if TYPE_CHECKING:
    from autoexp_tui.research.items import Chosen
    from autoexp_tui.research.state import Research


def list_fired(
    research: Research, chosen: Chosen, lived: float
) -> Iterator[TriggerFired]:
    """What fires now. `chosen`: what `choose_items` says when all that may begin has
    begun.

    While an answer is awaited or not applied yet nothing fires: it may fill the list,
    and what is still so afterwards fires then.
    """
    if _is_over(research) or is_answer_due(research):
        return
    number, stuck = len(research.items), chosen.stuck
    is_low = not research.was_low and number < research.options.refill_below
    is_stuck = chosen.stuck_kind and not {*stuck} <= {*research.told_stuck}
    if is_low:
        told = f"{plural(number, 'item')} left"
        yield TriggerFired(kind="list_depleted", what=told)
    if chosen.stuck_kind and is_stuck:
        told = join_some(stuck, 3)
        yield TriggerFired(kind=chosen.stuck_kind, what=told, items=stuck)
    is_quiet = not (is_low or is_stuck or research.triggers)
    if is_quiet and lived >= _find_heartbeat(research):
        told = f"{duration(lived - research.last_call_lived)} without a call"
        yield TriggerFired(kind="heartbeat", what=told)


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
