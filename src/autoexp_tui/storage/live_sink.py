"""A session as other processes watch it: live.json, heartbeats, the watcher's eyes. The
engine hands over snapshots and never waits; a thread writes two a second, and nothing
while no viewer's heartbeat (the mtime of a file) moves by its own clock."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from autoexp_tui.engine.ports import Clock
from autoexp_tui.model.commands import Order
from autoexp_tui.model.errors import EnvironmentFailed, JournalDamaged
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.snapshot import EngineView, Live, Snapshot
from autoexp_tui.model.state import SessionState
from autoexp_tui.storage.atomic import make_directory, write_atomic
from autoexp_tui.storage.inbox import leave
from autoexp_tui.storage.journal import JournalFollower, load_state
from autoexp_tui.storage.json_codec import LiveDetail, Unencodable, decode, encode_live
from autoexp_tui.storage.lease import LeaseWatch
from autoexp_tui.storage.processes import Alive
from autoexp_tui.storage.session_dir import SessionDir, read_if_there

WRITE_SECONDS = 0.5
"""At least this long between two writes."""
LOOK_SECONDS = 2.0
"""Between two looks for viewers while there is none."""
VIEWER_SECONDS = 10.0
"""A viewer whose heartbeat stood still this long is gone."""
BEAT_SECONDS = 3.0
"""How often a viewer should beat."""


def build_detail(snapshot: Snapshot) -> LiveDetail:
    """The volatile side of a snapshot."""
    pairs = zip(snapshot.jobs, snapshot.live, strict=True)
    return LiveDetail(
        seq=snapshot.seq,
        t=snapshot.t,
        engine=snapshot.engine,
        jobs={job.name: live for job, live in pairs if live is not None},
    )


class ViewerWatch:
    """Whether anybody watches, by heartbeats that moved while we looked."""

    def __init__(self, viewers: Path) -> None:
        self._viewers = viewers
        self._seen: set[tuple[str, int]] = set()
        self._moved_at = float("-inf")

    def anybody(self, now: float) -> bool:
        """`now` is monotonic. A file seen for the first time counts as a heartbeat."""
        found: set[tuple[str, int]] = set()
        with suppress(OSError), os.scandir(self._viewers) as entries:
            found |= {(entry.name, entry.stat().st_mtime_ns) for entry in entries}
        if found - self._seen:
            self._moved_at = now
        self._seen = found
        return bool(found) and now - self._moved_at < VIEWER_SECONDS


class FileLiveSink:
    """Implements `ports.LiveSink`; a disk that refuses costs but the detail."""

    def __init__(self, session: SessionDir, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self._watch = ViewerWatch(session.viewers)
        self._newest: Snapshot | None = None
        self._written: Snapshot | None = None
        self._due_at = 0.0
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def publish(self, snapshot: object) -> None:
        """Hand over the newest snapshot; returns at once."""
        assert isinstance(snapshot, Snapshot)
        self._newest = snapshot
        if self._thread is None and not self._closed.is_set():
            self._thread = threading.Thread(
                target=self._run, name="live-sink", daemon=True
            )
            self._thread.start()

    def write_due(self) -> bool:
        """Write the newest snapshot if it is time and somebody watches."""
        now, snapshot = self._clock.monotonic(), self._newest
        if snapshot is None or snapshot is self._written or now < self._due_at:
            return False
        watched = self._watch.anybody(now)
        self._due_at = now + (WRITE_SECONDS if watched else LOOK_SECONDS)
        if not watched:
            return False  # kept: who comes next sees the present at once
        self._written = snapshot
        try:
            data = encode_live(build_detail(snapshot))
            mode = self._session.read_modes().file
            write_atomic(self._session.live, data, mode, durable=False)
        except (EnvironmentFailed, Unencodable):
            return False
        return True

    def close(self) -> None:
        """End the thread, and take away what is then of the past."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)
        with suppress(OSError):  # a viewer knows by the lease that nobody writes it
            self._session.live.unlink(missing_ok=True)

    def _run(self) -> None:
        while not self._closed.wait(WRITE_SECONDS / 2):
            self.write_due()


class ViewerHeartbeat:
    """A viewer's sign of life; `beat` every few seconds, `close` on leaving."""

    def __init__(self, session: SessionDir, viewer: str = "") -> None:
        self._session = session
        self._path = session.viewers / (viewer or f"{os.getpid()}-{uuid4().hex[:8]}")

    def beat(self) -> bool:
        """Touch our file; False when it is not ours to write: no live detail."""
        try:
            if self._session.find_user():
                return False
            make_directory(self._path.parent)
            self._path.touch(0o600)
        except (OSError, EnvironmentFailed):
            return False
        return True

    def close(self) -> None:
        """Take our file away."""
        with suppress(OSError):  # it goes stale by itself
            self._path.unlink(missing_ok=True)


class LiveReader:
    """Reads live.json; the same object again while the file has not changed."""

    def __init__(self, session: SessionDir) -> None:
        self._path = session.live
        self._stamp: tuple[int, int, int] | None = None
        self._detail: LiveDetail | None = None

    def read(self, seq: int = 0, epoch: int = 0) -> LiveDetail | None:
        """The detail, if it is not older than a journal that was read to record `seq`:
        it is left lying when the last viewer goes, and when its engine dies. None where
        there is none that we can read: no error, for nobody decides by it."""
        try:
            status = self._path.stat()
        except OSError:
            return None
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        if stamp != self._stamp:
            self._stamp, self._detail = stamp, None
            with suppress(EnvironmentFailed, JournalDamaged):
                data = read_if_there(self._path) or b""
                self._detail = decode(LiveDetail, data, "live.json", finite=False)
        detail = self._detail
        is_old = not detail or detail.seq < seq or detail.engine.epoch < epoch
        return None if is_old else detail


class FileSessionWatcher:
    """Implements `ports.SessionWatcher`. One thread uses it, `leave` apart."""

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
        self._loaded = self._epoch = 0
        """The newest record of the last load, and the newest engine's epoch."""

    def load(self) -> tuple[SessionState, Sequence[Recorded]]:
        """The session as its journal tells it now; raises JournalDamaged."""
        loaded = load_state(self._session)
        self._follower = JournalFollower(self._session, loaded)
        self._loaded, self._epoch = loaded.state.seq, loaded.state.epoch
        return loaded.state, loaded.events

    def news(self) -> Sequence[Recorded] | None:
        """Records since the last call; None: load anew; raises JournalDamaged."""
        if self._follower is None:
            return None
        news = self._follower.poll()
        if news:
            self._epoch = news[-1].epoch
        return news

    def live(self) -> tuple[EngineView, Mapping[str, Live]] | None:
        """The owner's detail, the same again while it is; None while it writes none."""
        detail = self._reader.read(self._loaded, self._epoch) if self._alive else None
        if detail is None:
            return None
        if self._live is None or self._live[0] is not detail.engine:
            self._live = (detail.engine, detail.jobs)
        return self._live

    def owner_alive(self) -> bool:
        """Whether an engine owns the session, from here; raises EnvironmentFailed."""
        holder = self._lease.find_holder()
        alive = self._lease.check_alive(holder, self._clock.monotonic())
        self._alive = alive is not Alive.NO
        self._halted_pid = self._lease.find_halted(holder)
        return self._alive

    def halted_pid(self) -> int:
        """The engine's pid if it was stopped, as of the last `owner_alive`; else 0."""
        return self._halted_pid

    def leave(self, order: Order) -> None:
        """Put a command into the session's inbox; raises EnvironmentFailed."""
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
