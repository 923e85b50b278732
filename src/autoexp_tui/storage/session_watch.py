"""Another process's session through its files: what a viewer's handle stands on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autoexp_tui.engine.ports import Clock
from autoexp_tui.model.commands import Order
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.snapshot import EngineView, Live
from autoexp_tui.model.state import SessionState
from autoexp_tui.storage.inbox import leave
from autoexp_tui.storage.journal import JournalFollower, load_state
from autoexp_tui.storage.json_codec import LiveDetail
from autoexp_tui.storage.lease import LeaseWatch
from autoexp_tui.storage.live_sink import (
    BEAT_SECONDS,
    LiveReader,
    ViewerHeartbeat,
    is_of_now,
)
from autoexp_tui.storage.processes import Alive
from autoexp_tui.storage.session_dir import SessionDir

LIVE_LAG_SECONDS = 60.0
"""For so long volatile detail may stay behind a journal that moves on: a network file
system may show a file as it was a minute ago."""


class FileSessionWatcher:
    """Implements `session_ports.SessionWatcher`. One thread uses it, `leave` apart."""

    def __init__(
        self,
        session: SessionDir,
        clock: Clock,
        *,
        lease: LeaseWatch | None = None,
    ) -> None:
        """`lease` is whose eyes look at the lease, when they have looked before."""
        self._session = session
        self._clock = clock
        self._follower: JournalFollower | None = None
        self._lease = lease or LeaseWatch(session)
        self._reader = LiveReader(session)
        self._heartbeat = ViewerHeartbeat(session)
        self._beat_due = float("-inf")
        self._alive = True
        self._halted_pid = 0
        self._live: tuple[EngineView, Mapping[str, Live]] | None = None
        self._loaded = self._newest = self._epoch = 0
        """Records: the newest of the last load, the newest, and its engine's epoch."""
        self._behind: tuple[int, float] | None = None
        """The record of detail that the journal has left behind, and since when."""

    def load(self) -> tuple[SessionState, Sequence[Recorded]]:
        """The session as its journal tells it now, and its newest records.

        Raises:
            JournalDamaged: a record or a plan cannot be read.
            EnvironmentFailed: a file cannot be read.
        """
        loaded = load_state(self._session)
        self._follower = JournalFollower(self._session, loaded)
        self._loaded = self._newest = loaded.state.seq
        self._epoch = loaded.state.epoch
        return loaded.state, loaded.events

    def news(self) -> Sequence[Recorded] | None:
        """Records since the last call; None: load the session anew.

        Raises:
            JournalDamaged: the journal's parts do not hang together.
            EnvironmentFailed: the journal cannot be read just now.
        """
        if self._follower is None:
            return None
        news = self._follower.poll()
        if news:
            self._newest, self._epoch = news[-1].seq, news[-1].epoch
        return news

    def live(self) -> tuple[EngineView, Mapping[str, Live]] | None:
        """The owner's volatile detail; None while it writes none, or wrote it long ago.

        What the journal tells of a run is newer than that.
        """
        detail = self._reader.read() if self._alive else None
        if detail is None or not self._is_of_now(detail):
            self._live = None
        elif self._live is None or self._live[0] is not detail.engine:
            self._live = (detail.engine, detail.jobs)
        return self._live

    def _is_of_now(self, detail: LiveDetail) -> bool:
        """Of what was read at once it must not be older; of news it may be for long
        enough that its next state can have come."""
        if not is_of_now(detail, self._loaded, self._epoch):
            return False
        if detail.seq >= self._newest:
            self._behind = None
            return True
        now = self._clock.monotonic()
        if self._behind is None or self._behind[0] != detail.seq:
            self._behind = (detail.seq, now)
        return now - self._behind[1] < LIVE_LAG_SECONDS

    def owner_alive(self) -> bool:
        """Whether an engine owns the session, as far as can be told from here.

        Raises:
            EnvironmentFailed: the lease cannot be read.
        """
        holder = self._lease.find_holder()
        alive = self._lease.check_alive(holder, self._clock.monotonic())
        self._alive = alive is not Alive.NO
        self._halted_pid = self._lease.find_halted(holder)
        return self._alive

    def halted_pid(self) -> int:
        """The engine's pid if it was stopped, as of the last `owner_alive`; else 0."""
        return self._halted_pid

    def leave(self, order: Order) -> None:
        """Put a command into the session's inbox.

        Raises:
            EnvironmentFailed: it could not be written.
        """
        leave(self._session, order, self._clock.utc())

    def beat(self) -> None:
        """Show the owner that somebody watches, every few seconds at most."""
        now = self._clock.monotonic()
        if now >= self._beat_due:
            self._beat_due = now + BEAT_SECONDS
            self._heartbeat.beat()

    def close(self) -> None:
        """Stop watching."""
        self._heartbeat.close()
