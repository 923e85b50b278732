"""Reads a journal into a reel by portions, while what was read already is shown.

A long journal takes seconds to fold, and its beginning is there at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from autoexp_tui.engine.replay_buffer import Reel
from autoexp_tui.events.base import IllegalTransition
from autoexp_tui.events.events import Recorded
from autoexp_tui.model.errors import AutoexpError

PORTION = 200
"""Records between two looks at what a person wishes: a few milliseconds."""


class ReadingIn:
    """What is still to be read of a reel's journal."""

    def __init__(self, reel: Reel, records: Iterable[Recorded] = ()) -> None:
        """`records`: those after what `reel` has, in order."""
        self.problem = ""
        """Why it ended before the journal did; empty when all is well."""
        self.going_on = True
        self._reel = reel
        self._records = iter(records)

    @property
    def words(self) -> str:
        """How far it has come, for people; empty once it has ended."""
        if not self.going_on:
            return ""
        share = len(self._reel) / max(1, self._reel.expected, len(self._reel))
        return f"reading the journal: {share:.0%}"

    def go_on(self, portion: int = PORTION) -> None:
        """Read so many records, and on to the end of their commit."""
        try:
            self._take(portion)
        except AutoexpError as problem:
            self._break_off(str(problem))
        except (IllegalTransition, KeyError, IndexError, ValueError) as problem:
            number = len(self._reel)
            self._break_off(f"record {number} does not follow: {problem}")

    def _take(self, portion: int) -> None:
        for record in self._records:
            self._reel.take_in(record)
            portion -= 1
            if portion <= 0 and not record.more:
                return
        self.going_on = False
        self._reel.expect_no_more()

    def _break_off(self, problem: str) -> None:
        self.going_on = False
        self.problem = f"nothing is shown of what follows: {problem}"
        self._reel.expect_no_more()
