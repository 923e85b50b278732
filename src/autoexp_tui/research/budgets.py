"""What the session may use and has used: time, GPU hours, and calls of agents with
their tokens and money.

Time and GPU hours end everything when they are used up. Calls, tokens and money end
calls alone: what they have paid for is still run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from statistics import median
from typing import TYPE_CHECKING, Final

from autoexp_tui.model.states import JobState, Why, why
from autoexp_tui.research.options import ROLES
from autoexp_tui.research.state import Milestone, list_jobs
from autoexp_tui.text.spelling import duration, format_number

if TYPE_CHECKING:
    from autoexp_tui.model.state import Attempt, JobRecord
    from autoexp_tui.research.state import (
        BudgetName,
        Item,
        Research,
        Role,
        Run,
        Severity,
    )

MILESTONES: Final = (75, 50, 25, 10)
"""Percent of a budget that are left."""
USED_WARNINGS: Final[tuple[tuple[int, Severity], ...]] = ((50, "low"), (80, "medium"))
"""Percent of a budget that are used."""
LOW_PERCENT: Final = 25
"""Below so much of a budget left it is a warning."""
_ENDING: Final = frozenset({"wall_seconds", "gpu_hours"})
"""When these are used up nothing more begins."""
_HOUR: Final = 3600.0
_LABELS: Final[Mapping[BudgetName, str]] = {
    "wall_seconds": "time",
    "gpu_hours": "GPU hours",
    "calls": "calls",
    "tokens": "tokens",
    "money": "money",
}


@dataclass(frozen=True, slots=True)
class Use:
    """How much of a budget is used; seconds, GPU hours, calls, tokens, or money."""

    name: BudgetName
    used: float
    limit: float
    role: Role | None = None
    """Whose calls it is of; None: it is of all."""

    @property
    def left(self) -> float:
        """The share that is left, 0 to 1."""
        return max(0.0, 1 - self.used / self.limit) if self.limit > 0 else 0.0

    def is_used(self, percent: float) -> bool:
        """Whether so much of it is used; of nothing everything is."""
        return 100 * self.used >= percent * self.limit

    @property
    def words(self) -> dict[str, str]:
        """For a reason."""
        words = {
            "budget": _LABELS[self.name],
            "spent": format_amount(self.name, self.used),
            "limit": format_amount(self.name, self.limit),
        }
        return words | ({"role": self.role} if self.role else {})


def format_amount(name: BudgetName, amount: float) -> str:
    """For people."""
    return duration(amount) if name == "wall_seconds" else format_number(amount)


def measure_uses(
    research: Research, jobs: Mapping[str, JobRecord], t: float, lived: float
) -> tuple[Use, ...]:
    """Of the budgets that have a limit. `t`, `lived`: the present moment; runs that
    ended are counted by what was noted of them, so that it costs what runs."""
    budgets = research.options.budgets
    seconds = research.gpu_seconds
    if budgets.gpu_hours is not None:
        runs = research.list_live()
        seconds += sum(measure_gpu_seconds(run, jobs, t) for run in runs)
    used: dict[BudgetName, float] = {
        "wall_seconds": lived,
        "gpu_hours": seconds / _HOUR,
    }
    return _make_uses(used | _measure_calls(research, *ROLES), budgets)


def measure_role_uses(research: Research, role: Role) -> tuple[Use, ...]:
    """Of the budgets of a role's own that have a limit."""
    own = getattr(research.options.budgets, role)
    return _make_uses(_measure_calls(research, role), own, role)


def measure_gpu_seconds(run: Run, jobs: Mapping[str, JobRecord], t: float) -> float:
    """GPUs times the seconds that a run held them, up to `t`. What its item wants is
    held while any of its jobs runs; otherwise each job holds its own."""
    held = [
        (begin, max(begin, t if one.ended_at is None else one.ended_at), job)
        for job in list_jobs(run, jobs)
        for one in job.attempts
        if (begin := _find_begin(job, one)) is not None
    ]
    if run.item.gpus is None:
        return sum(job.spec.resources.gpus * (end - begin) for begin, end, job in held)
    seconds, until = 0.0, -math.inf
    for begin, end, _ in sorted(held, key=itemgetter(0)):
        seconds += max(0.0, end - max(begin, until))
        until = max(until, end)
    return run.item.gpus * seconds


def list_crossed(research: Research, uses: tuple[Use, ...]) -> list[Milestone]:
    """Milestones that were not told yet; all that were passed since the last look."""
    found = (
        Milestone(use.name, percent)
        for use in uses
        for percent in MILESTONES
        if use.is_used(100 - percent)
    )
    return [one for one in found if one not in research.milestones]


def find_reached(uses: tuple[Use, ...]) -> Why | None:
    """Why nothing more begins: the time or the GPU hours are used up."""
    ending = (use for use in uses if use.name in _ENDING)
    reached = (why("budget_reached", **use.words) for use in ending if use.is_used(100))
    return next(reached, None)


def find_next_mark(use: Use) -> float:
    """How much of a budget is used when there is next something to tell of it."""
    percents = {100, *(percent for percent, _ in USED_WARNINGS)}
    percents |= {100 - percent for percent in (*MILESTONES, LOW_PERCENT)}
    marks = (use.limit * percent / 100 for percent in sorted(percents))
    return next((mark for mark in marks if mark > use.used), use.limit)


def find_refusal(research: Research, role: Role, uses: tuple[Use, ...]) -> Why | None:
    """Why no call of a role may begin: a budget of all calls or of this role has no
    room for one that uses what the role's calls have used on average, beside those
    under way. None: it may."""
    if (reached := find_reached(uses)) is not None:
        return reached
    limits = [use for use in uses if use.name not in _ENDING]
    for use in (*limits, *measure_role_uses(research, role)):
        roles = (use.role,) if use.role else ROLES
        calling = [one for one in roles if research.find_call(one)]
        reserved = sum(_estimate_call(research, one)[use.name] for one in calling)
        wanted = _estimate_call(research, role)[use.name]
        left = use.limit - use.used - reserved
        words = use.words
        if left <= 0:
            return why("calls_spent", **words)
        if wanted > left:
            words["wanted"] = format_amount(use.name, wanted)
            return why("call_unaffordable", **words)
    return None


def estimate_item(research: Research, item: Item) -> float:
    """GPU hours that an item may need: its GPUs for as long as the median of runs that
    held some; before the first, for the longest time limit of its jobs; else 0."""
    held = [
        run.ended.gpu_seconds / run.gpus
        for run in research.runs.values()
        if run.ended is not None and run.gpus and run.ended.gpu_seconds
    ]
    limits = (job.resources.time_limit_seconds or 0.0 for job in item.jobs)
    seconds = median(held) if held else max(limits, default=0.0)
    return item.wanted_gpus * seconds / _HOUR


def _make_uses(
    used: Mapping[BudgetName, float], limits: object, role: Role | None = None
) -> tuple[Use, ...]:
    """Of what has a limit, which is named as the budget is."""
    return tuple(
        Use(name, amount, limit, role)
        for name, amount in used.items()
        if (limit := getattr(limits, name)) is not None
    )


def _measure_calls(research: Research, *roles: Role) -> dict[BudgetName, float]:
    """What calls of these roles have used."""
    usages = [research.usage[role] for role in roles if role in research.usage]
    return {
        "calls": sum(research.calls.get(role, 0) for role in roles),
        "tokens": sum(one.input_tokens + one.output_tokens for one in usages),
        "money": sum(research.costs.get(role, 0.0) for role in roles),
    }


def _estimate_call(research: Research, role: Role) -> dict[BudgetName, float]:
    """What one call of a role uses: the mean of those that have ended."""
    used = _measure_calls(research, role)
    calls = used["calls"] or 1
    return {name: amount / calls for name, amount in used.items()} | {"calls": 1}


def _find_begin(job: JobRecord, attempt: Attempt) -> float | None:
    """When an attempt began; None: it did not. While it runs that is told as `t` is,
    for the clock of its host may show something else."""
    is_running = attempt.ended_at is None and job.state is JobState.RUNNING
    return job.since if is_running and attempt.began_at else attempt.began_at
