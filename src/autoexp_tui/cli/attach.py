"""Staying with a session: the ways into one, and who takes them when."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from autoexp_tui.cli.open import owned_handle, viewing_handle
from autoexp_tui.engine.joined import JoinedHandle
from autoexp_tui.model.errors import SessionOwned
from autoexp_tui.storage.lease import LeaseWatch
from autoexp_tui.storage.session_dir import SessionDir

if TYPE_CHECKING:
    from autoexp_tui.cli.options import Options
    from autoexp_tui.engine.live import LiveHandle
    from autoexp_tui.engine.viewer import ViewerHandle


def joined_handle(session: SessionDir, options: Options) -> JoinedHandle:
    """Own the session if it is free; else watch it, and go on once its engine is gone.

    Raises:
        AutoexpError: the session cannot be read.
    """
    ways, directory = WaysIn(options), str(session.path)
    first: LiveHandle | ViewerHandle
    try:
        first = ways.own(directory)
    except SessionOwned:
        first = ways.view(directory)
    return JoinedHandle(first, ways)


def staying(first: LiveHandle, options: Options) -> JoinedHandle:
    """A handle that stays with the session of `first`, also when that is deposed."""
    return JoinedHandle(first, WaysIn(options))


class WaysIn:
    """Implements `joined.Session`.

    The same eyes watch the lease throughout: a heartbeat elsewhere counts as still
    only for who has seen it stand.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._watches: dict[str, LeaseWatch] = {}

    def view(self, directory: str) -> ViewerHandle:
        """Watch the session."""
        session = SessionDir(Path(directory))
        return viewing_handle(session, lease_watch=self._watch(session))

    def own(self, directory: str) -> LiveHandle:
        """Run the session in this process."""
        session = SessionDir(Path(directory))
        watch = self._watch(session)
        return owned_handle(session, self._options, lease_watch=watch)

    def _watch(self, session: SessionDir) -> LeaseWatch:
        known = self._watches.get(str(session.path))
        if known is None:
            known = self._watches[str(session.path)] = LeaseWatch(session)
        return known
