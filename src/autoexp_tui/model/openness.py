"""Whether a session is over: the one answer for leaving, background engines, headless
ends, the bell, lists and exit codes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autoexp_tui.model.state import JobRecord, PendingEffect


def is_open(jobs: Collection[JobRecord], pending: Collection[PendingEffect]) -> bool:
    """Whether a session has work left: a job that has not ended, or `is_acting`.

    One without jobs is open: its first ones are to come.
    """
    return not jobs or not all(job.ended for job in jobs) or is_acting(jobs, pending)


def is_acting(jobs: Iterable[JobRecord], pending: Collection[PendingEffect]) -> bool:
    """Whether an effect is under way, or a rule's action is put off to a known moment.

    An action for whose moment nobody can tell keeps no session open.
    """
    return bool(pending) or any(
        deferred.until_lived is not None
        for job in jobs
        for deferred in job.deferred.values()
    )
