"""What happened while nobody looked, told in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autoexp_tui.core.wording import clock_time, plural
from autoexp_tui.ui.view.looks import Look

if TYPE_CHECKING:
    from autoexp_tui.ui.view.causes import CauseGroup
    from autoexp_tui.ui.view.session import JobView, SessionView


def digest(
    session: SessionView, groups: tuple[CauseGroup, ...], since: float, now: float
) -> str:
    """`Since then: 21 done, 9 failed (4 causes) ...`; empty when nothing changed.

    Args:
        session: as it is now.
        groups: what needs a person now.
        since: UTC at which the terminal was left.
        now: UTC.
    """
    fresh = [job for job in session.jobs if job.record.since > since]
    parts = [*_ends(fresh, groups, since), *_standing(fresh)]
    if not parts:
        return ""
    left = clock_time(since, now)
    walk = " ! walks through them." if groups else ""
    told = f"You left at {left}; the engine went on. Since then: {', '.join(parts)}."
    return told + walk


def _ends(
    fresh: list[JobView], groups: tuple[CauseGroup, ...], since: float
) -> list[str]:
    parts = []
    done = _count(fresh, Look.DONE)
    failed = _count(fresh, Look.FAILED, Look.LOST)
    if done:
        parts.append(f"{done} done")
    if failed:
        causes = sum(
            1
            for group in groups
            if group.look in (Look.FAILED, Look.LOST)
            and any(job.record.since > since for job in group.jobs)
        )
        parts.append(f"{failed} failed ({plural(causes, 'cause')})")
    return parts


def _standing(fresh: list[JobView]) -> list[str]:
    words = (
        (Look.STALLED, "stalled"),
        (Look.DOOMED, "can never start"),
        (Look.SKIPPED, "skipped"),
        (Look.CANCELLED, "cancelled"),
    )
    counted = ((_count(fresh, look), word) for look, word in words)
    parts = [f"{number} {word}" for number, word in counted if number]
    asks = _count(fresh, Look.ASKS)
    if asks:
        parts.append(f"{asks} ask{'s' if asks == 1 else ''} you")
    return parts


def _count(jobs: list[JobView], *looks: Look) -> int:
    return sum(1 for job in jobs if job.look in looks)
