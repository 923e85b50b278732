"""What a condition is about, in a few words, as the cockpit names jobs.

A condition tells that itself: a first screen, which has none, loads without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from autoexp_tui.cockpit.render.spans import outside

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import SessionView
    from autoexp_tui.conditions.base import ConditionBase


def condition_subject(spec: ConditionBase, session: SessionView) -> str:
    """What a condition is about, in a few words: `iter_8000/done.txt`."""

    def name_jobs(names: Sequence[str]) -> str:
        jobs = session.named(names)
        stages = dict.fromkeys(job.stage or job.name for job in jobs)
        return ", ".join(stages or names)

    return outside(spec.description) or outside(spec.subject(name_jobs))


def what_is_read(spec: ConditionBase) -> Iterator[str]:
    """Where a condition looks, in full: paths, jobs, commands; clean."""
    yield from (outside(source, 4000) for source in spec.sources())
