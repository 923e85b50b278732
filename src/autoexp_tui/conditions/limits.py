"""Whether conditions bound how often something may happen."""

from __future__ import annotations

from collections.abc import Iterable

from autoexp_tui.conditions.kinds import Composite, Condition, MaxAttempts


def limits_attempts(conditions: Iterable[Condition]) -> bool:
    """Whether one of the conditions, all of which must pass, counts attempts."""
    return any(
        isinstance(one, MaxAttempts)
        or (
            isinstance(one, Composite)
            and one.mode == "all"
            and limits_attempts(one.conditions)
        )
        for one in conditions
    )
