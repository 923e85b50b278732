"""What reaches a person beside the screen: title, bell, notification, clipboard.

A bell rings when something ended, failed, or needs a person; never twice for one
thing, and many changes at once ring once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autoexp_tui.cockpit import terminal
from autoexp_tui.cockpit.render.bars import format_title
from autoexp_tui.cockpit.spans import Role, outside
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.model.wording import plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.session_model import Desk
    from autoexp_tui.cockpit.state.causes import CauseGroup
    from autoexp_tui.cockpit.state.session import SessionView


class Ringer:
    """Remembers what was told."""

    def __init__(self, session: SessionView, groups: Sequence[CauseGroup]) -> None:
        self._failed = session.count(Look.FAILED, Look.LOST)
        self._needing = _keys(groups)
        self._over = not session.snapshot.open

    def ring(self, session: SessionView, groups: Sequence[CauseGroup]) -> str:
        """What to say aloud now; empty when nothing is new."""
        failed = session.count(Look.FAILED, Look.LOST)
        needing = _keys(groups)
        over = not session.snapshot.open
        words = self._words(session, failed, needing, over=over)
        self._failed, self._needing, self._over = failed, needing, over
        return f"{outside(session.snapshot.name, 40)}: {words}" if words else ""

    def _words(
        self,
        session: SessionView,
        failed: int,
        needing: frozenset[str],
        *,
        over: bool,
    ) -> str:
        if over and not self._over:
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


class Voice:
    """Speaks through the terminal, around the screen."""

    def __init__(
        self, write: Callable[[str], None], desk: Desk, *, quiet: bool
    ) -> None:
        """Args:
        write: writes a sequence to the terminal, when there is one.
        desk: as it is at first: what is there already does not ring.
        quiet: neither title nor bell.
        """
        self._write = write
        self._quiet = quiet
        self._ringer = Ringer(desk.session, desk.groups)
        self._title = ""

    def tell_title(self, desk: Desk) -> None:
        """Name the terminal's window by how far the session is."""
        text = format_title(desk.session, desk.groups)
        if not self._quiet and text != self._title:
            self._title = text
            self._write(terminal.title(text))

    def ring(self, desk: Desk) -> None:
        """Ring when something is new that is worth it."""
        words = self._ringer.ring(desk.session, desk.groups)
        if words and not self._quiet:
            self._write(terminal.notification(words, tmux=terminal.in_tmux()))

    def copy(self, text: str, directory: Path) -> tuple[str, Role]:
        """Copy a text; what to say about it, and as what."""
        from autoexp_tui.cockpit import clipboard

        try:
            copied = clipboard.copy(text, tmux=terminal.in_tmux(), directory=directory)
        except OSError as error:
            return f"not copied: {error.strerror or error}", "warning"
        if copied.sequence:
            self._write(copied.sequence)
        return copied.words, "accent"
