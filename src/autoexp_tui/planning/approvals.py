"""Approvals that nobody would be asked for, or whose time-out does nothing.

A person is asked before a job starts, and at no other moment. An approval elsewhere
would wait for ever without a word: a Restart behind one just ends the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from autoexp_tui.actions.kinds import Action, NewJob
from autoexp_tui.conditions.kinds import Approval, Composite, Condition, Not
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.oversights import all_rules, events_of

_MESSAGE: Final = "nobody is asked here: an Approval is asked before a job starts"
_OF_JOBS: Final = "put it among the start_conditions, or end jobs by hand (K)"
_OF_ACTIONS: Final = (
    "use Notify and answer with R; jobs of NewJob and RunAutoexp may have an Approval "
    "among their start_conditions"
)


# ------------------------------------------------------------------------ never asked
def never_asked(plan: Plan) -> Iterator[Problem]:
    """Approvals where no question is ever put."""
    for job in plan.jobs:
        if _asks(job.cancel_conditions):
            yield Problem(_MESSAGE, "cancel_conditions", job.name, _OF_JOBS)
    for name, rules in all_rules(plan):
        for place, event in events_of(rules):
            for at, action in enumerate(event.actions):
                for field, hint in _unasked_fields(action):
                    where = f"{place}.actions.{at}.{field}"
                    yield Problem(_MESSAGE, where, name, hint)


def _unasked_fields(action: Action) -> Iterator[tuple[str, str]]:
    if _asks(action.conditions):
        yield "conditions", _OF_ACTIONS
    if isinstance(action, NewJob) and _asks(action.cancel_conditions):
        yield "cancel_conditions", _OF_JOBS


def _asks(conditions: Iterable[Condition]) -> bool:
    return any(True for _ in _approvals(conditions))


def _approvals(conditions: Iterable[Condition]) -> Iterator[Approval]:
    for condition in conditions:
        match condition:
            case Approval():
                yield condition
            case Composite():
                yield from _approvals(condition.conditions)
            case Not():
                yield from _approvals((condition.condition,))


# -------------------------------------------------------------------- idle time-outs
def idle_timeouts(jobs: Iterable[JobSpec]) -> Iterator[Problem]:
    """A time-out and what follows from it, of which one is not said."""
    for job in jobs:
        for approval in _approvals(job.start_conditions):
            timed = approval.timeout_seconds is not None
            if timed and approval.on_timeout == "hold":
                yield Problem(
                    "an approval's timeout_seconds does nothing without on_timeout",
                    where="start_conditions",
                    job=job.name,
                    hint="on_timeout: reject ends the wait; without it leave the "
                    "time-out out",
                )
            elif not timed and approval.on_timeout == "reject":
                yield Problem(
                    "an approval that rejects by itself does not say when",
                    where="start_conditions",
                    job=job.name,
                    hint="timeout_seconds: 86400",
                )
