"""When to ring: something ended, failed, or needs a person. Never twice for one thing.

Pure: it compares what is told now with what was told before, and says what is worth
a bell. Many changes at once make one notification.
"""

from __future__ import annotations

from collections.abc import Sequence

from autoexp_tui.core.wording import plural
from autoexp_tui.ui.view.causes import CauseGroup
from autoexp_tui.ui.view.looks import Look
from autoexp_tui.ui.view.session import SessionView
from autoexp_tui.ui.view.spans import outside


class Ringer:
    """Remembers what was told."""

    def __init__(self, session: SessionView, groups: Sequence[CauseGroup]) -> None:
        self._failed = session.count(Look.FAILED, Look.LOST)
        self._needing = _keys(groups)
        self._finished = session.snapshot.finished

    def ring(self, session: SessionView, groups: Sequence[CauseGroup]) -> str:
        """What to say aloud now; empty when nothing is new."""
        failed = session.count(Look.FAILED, Look.LOST)
        needing = _keys(groups)
        finished = session.snapshot.finished
        words = self._words(session, failed, needing, finished=finished)
        self._failed, self._needing, self._finished = failed, needing, finished
        return f"{outside(session.snapshot.name, 40)}: {words}" if words else ""

    def _words(
        self,
        session: SessionView,
        failed: int,
        needing: frozenset[str],
        *,
        finished: bool,
    ) -> str:
        if finished and not self._finished:
            return f"all ended, {session.count(Look.DONE)} done, {failed} failed"
        parts = []
        if failed > self._failed:
            parts.append(f"{plural(failed - self._failed, 'job')} failed")
        fresh = len(needing - self._needing)
        if fresh and not parts:
            verb = "needs" if fresh == 1 else "need"
            parts.append(f"{plural(fresh, 'thing')} {verb} you")
        return ", ".join(parts)


def _keys(groups: Sequence[CauseGroup]) -> frozenset[str]:
    """One key for everything that needs a person."""
    jobs = {f"{group.look}|{job.name}" for group in groups for job in group.jobs}
    warnings = {entry.warning_id for group in groups for entry in group.warnings}
    return frozenset(jobs | warnings)
