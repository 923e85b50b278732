"""Logs that cannot be read: waited for, and warned of when it takes long.

A file system that does not answer at all is another matter, `engine.mount_workers`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from autoexp_tui.engine.observations import LogRead
from autoexp_tui.engine.reading_ports import Stream
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.states import why

WARN_SECONDS: Final = 60.0
"""After which a file that cannot be read is warned of."""
LAST_SECONDS: Final = 30.0
"""For which the end of a run waits for files that cannot be read."""


@dataclass(slots=True)
class LogTroubles:
    """Since when (lived) which files cannot be read."""

    _since: dict[Stream, float] = field(default_factory=dict)
    _fine: set[Stream] = field(default_factory=set)
    """Files that could be read since this engine began."""

    def note(self, context: DecisionContext, read: LogRead) -> None:
        """A file was looked at."""
        if not read.problem:
            self._note_fine(context, read.stream)
            return
        self._fine.discard(read.stream)
        since = self._since.setdefault(read.stream, context.now.lived)
        warning_id = _warning_id(read.stream)
        if (
            context.now.lived - since < WARN_SECONDS
            or warning_id in context.state.warnings
        ):
            return
        at = context.now.t_of(since)
        reason = why("log_unreadable", job=read.job, error=read.problem, since=at)
        context.draft.emit(
            events.WarningRaised(warning_id=warning_id, why=reason, job=read.job)
        )

    def _note_fine(self, context: DecisionContext, stream: Stream) -> None:
        self._since.pop(stream, None)
        if stream in self._fine:
            return
        self._fine.add(stream)
        if (warning_id := _warning_id(stream)) in context.state.warnings:
            context.draft.emit(events.WarningCleared(warning_id=warning_id))

    def holds(self, stream: Stream) -> bool:
        """Whether a file cannot be read at present: it is not asked for at once."""
        return stream in self._since

    def is_last_word(self, read: LogRead, lived: float) -> bool:
        """Whether a last look counts, though perhaps nothing could be read."""
        since = self._since.get(read.stream)
        return since is None or lived - since >= LAST_SECONDS

    def forget(self, context: DecisionContext, job: str) -> None:
        """A run ended: what it left unread is of no use any more."""
        for stream in [one for one in (*self._since, *self._fine) if one[0] == job]:
            self._since.pop(stream, None)
            self._note_fine(context, stream)
            self._fine.discard(stream)


def _warning_id(stream: Stream) -> str:
    return "l" + ids.digest(*stream)
